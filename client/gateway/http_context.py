"""What all routes of a gateway share: the service, threads for calls that may wait, and waits on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.results import Page
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.http_api.errors import FORBIDDEN, INTERNAL, RestError
from sqlstream.effects import NOT_PERMITTED
from sqlstream.errors import SqlStreamError

Unsubscribe = Callable[[], None]
Subscribe = Callable[[Callable[[], None]], Unsubscribe]


async def called_within(subscribe: Subscribe, timeout_s: float) -> bool:
    """Subscribe, and wait until the callback is called; False after `timeout_s`. No thread waits."""
    loop = asyncio.get_running_loop()
    called = asyncio.Event()

    def callback() -> None:
        # The loop may be closed when the last jobs end.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(called.set)

    unsubscribe = subscribe(callback)
    try:
        async with asyncio.timeout(timeout_s):
            await called.wait()
    except TimeoutError:
        return False
    finally:
        unsubscribe()
    return True


Result = TypeVar("Result")

THREADS_MAX = 16
"""Requests that open, close or cancel something, or encode a page, at the same time; others wait in line."""

INLINE_BYTES_MAX = 16 * 1024


class HttpContext:
    """Calls the service for requests, away from the event loop where a call may wait. State: its threads."""

    def __init__(self, service: GatewayService) -> None:
        self.service = service
        self.threads = ThreadPoolExecutor(THREADS_MAX, "gateway-http")

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function)

    async def handled(self, failure: str, function: Callable[[], Result]) -> Result:
        """Call on a thread; an error is one that Flink's handler expects: `failure` and its cause."""
        try:
            return await self.call(function)
        except SqlStreamError as error:
            raise RestError(_status_of(error), failure, error) from error

    async def unhandled(self, failure: str, function: Callable[[], Result], statement: str = "") -> Result:
        """Call on a thread; an error is one that Flink's handler does not expect."""
        try:
            return await self.call(function)
        except SqlStreamError as error:
            raise RestError(_status_of(error), failure, error, statement, is_handled=False) from error

    async def encoded(self, page: Page, encode: Callable[[], bytes]) -> bytes:
        """The page's bytes, computed on a thread when that takes longer than to switch to one."""
        if sum(batch.nbytes for batch in page.batches) < INLINE_BYTES_MAX:
            return encode()
        return await self.call(encode)

    async def result(self, operation: Operation, failure: str) -> OperationResult:
        """Wait until an operation is settled; its answer. RestError when it failed, was cancelled or closed."""
        while operation.status.is_unsettled:
            await called_within(operation.when_settled, self.service.options.heartbeat_ms / 1000)
        try:
            return operation.result()
        except SqlStreamError as error:
            raise operation_failed(operation, failure, error) from error


def operation_failed(operation: Operation, failure: str, error: SqlStreamError) -> RestError:
    """What a request for an operation's answer is told of its error."""
    return RestError(_status_of(error), failure, error, operation.text, is_handled=False)


def _status_of(error: SqlStreamError) -> int:
    """Flink's gateway answers every error with 500; it knows no rights."""
    return FORBIDDEN if error.code == NOT_PERMITTED else INTERNAL
