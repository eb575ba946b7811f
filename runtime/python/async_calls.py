"""Calls of a coroutine for the rows of a batch: several wait at a time, and results keep the order of the rows."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from sqlstream import config
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef

CONCURRENT = "table.exec.async-scalar.max-concurrent-operations"
TIMEOUT = "table.exec.async-scalar.timeout"
RETRY_STRATEGY = "table.exec.async-scalar.retry-strategy"
RETRY_DELAY = "table.exec.async-scalar.retry-delay"
ATTEMPTS = "table.exec.async-scalar.max-attempts"


class AsyncCalls:
    """Runs the calls of a batch to their end. State: an event loop, in which a client that the function keeps may live."""

    def __init__(self, ref: FunctionRef, target: Any, settings: Mapping[str, str]) -> None:
        self._ref = ref
        self._target = target
        self._concurrent: int = config.get(settings, CONCURRENT)
        self._timeout_s: float = config.get(settings, TIMEOUT) / 1000
        retries = config.get(settings, RETRY_STRATEGY) == "FIXED_DELAY"
        self._attempts: int = config.get(settings, ATTEMPTS) if retries else 1
        self._delay_s: float = config.get(settings, RETRY_DELAY) / 1000
        self._loop = asyncio.new_event_loop()
        weakref.finalize(self, self._loop.close)

    def run(self, columns: list[Iterable[Any]], rows: int) -> list[Any]:
        """The results by row. UserError SS5130 for the first call that fails, SS5133 for one that takes too long; the others are
        cancelled."""
        arguments = list(zip(*columns, strict=False)) if columns else [()] * rows
        return self._loop.run_until_complete(self._all(arguments))

    async def _all(self, arguments: list[tuple[Any, ...]]) -> list[Any]:
        results: list[Any] = [None] * len(arguments)
        waiting = iter(enumerate(arguments))

        async def work() -> None:
            for row, args in waiting:
                results[row] = await self._one(args)

        tasks = [asyncio.ensure_future(work()) for _ in range(min(self._concurrent, len(arguments)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return results

    async def _one(self, args: tuple[Any, ...]) -> Any:
        from sqlstream.runtime.python.calls import failed

        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await self._attempt(args)
        except TimeoutError as error:
            if not limit.expired():
                raise failed(self._ref, error, list(args)) from error
            raise UserError(
                "SS5133",
                f"Python function {self._ref.name} took longer than {self._timeout_s:g} s",
                hint=f"SET '{TIMEOUT}' to a longer time, or have the function answer sooner",
            ) from None
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise failed(self._ref, error, list(args)) from error
        except BaseException as error:
            raise failed(self._ref, error, list(args)) from error

    async def _attempt(self, args: tuple[Any, ...]) -> Any:
        for left in range(self._attempts - 1, -1, -1):
            try:
                return await self._target(*args)
            except Exception:
                if not left:
                    raise
            await asyncio.sleep(self._delay_s)
        raise AssertionError("there is an attempt")
