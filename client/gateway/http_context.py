"""What all routes of a gateway share: the service, threads for calls that may wait, waits on the event loop, and the reading of
requests."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pydantic
from starlette.requests import Request

from sqlstream.client.gateway import bodies
from sqlstream.client.gateway.operations import Operation, OperationResult
from sqlstream.client.gateway.pages_json import RowFormat
from sqlstream.client.gateway.results import Page
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.http_api.answers import read_body
from sqlstream.client.http_api.errors import BAD_REQUEST, FORBIDDEN, INTERNAL, RestError
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


# What a request of the gateway says: its body, its path and its parameters.


SESSION = "/sessions/{session_handle}"
OPERATION = SESSION + "/operations/{operation_handle}"

Body = TypeVar("Body", bound=bodies.Request)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MAX = 2**63 - 1
_SIZE_OPTIONS = ("rest.server.max-content-length", "sqlstream.gateway.statement.max-length")


async def read_request_body(context: HttpContext, request: Request) -> bytes:
    return await read_body(request, context.service.options.request_bytes_max, _SIZE_OPTIONS)


async def read_json(context: HttpContext, request: Request, kind: type[Body]) -> Body:
    """The body as an object of that kind; an empty one is `{}`. RestError 400 for anything else."""
    text = await read_request_body(context, request)
    if len(text) < INLINE_BYTES_MAX:
        return _parsed(text, kind)
    # Other requests are answered meanwhile.
    return await context.call(lambda: _parsed(text, kind))


def _parsed(text: bytes, kind: type[Body]) -> Body:
    try:
        return kind.model_validate_json(text or b"{}")
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = f"{place}: {first['msg']}" if place else first["msg"]
        raise RestError(
            BAD_REQUEST, f"Request did not match expected format {kind.__name__}.\nCaused by: {said}"
        ) from error


def read_handle(text: str, what: str) -> str:
    """A handle of a session or operation. RestError 400 for what is no UUID."""
    if not _UUID.fullmatch(text):
        raise _bad_parameter(f'cannot resolve the {what} "{text}": it is no UUID')
    return text.lower()


def read_handles(session_handle: str, operation_handle: str) -> tuple[str, str]:
    return read_handle(session_handle, "session handle"), read_handle(operation_handle, "operation handle")


def read_token(text: str) -> int:
    if not _LONG.fullmatch(text) or abs(int(text)) > _LONG_MAX:
        raise _bad_parameter(f'the token "{text}" is no whole number')
    return int(text)


def read_row_format(request: Request) -> RowFormat:
    """The parameter rowFormat, in any case; JSON when it is left out."""
    text = request.query_params.get("rowFormat", RowFormat.JSON.value)
    try:
        return RowFormat(text.upper())
    except ValueError:
        choices = ", ".join(f.value for f in RowFormat)
        raise _bad_parameter(f'the rowFormat "{text}" is none of {choices}') from None


def _bad_parameter(said: str) -> RestError:
    return RestError(BAD_REQUEST, f"Bad request, could not parse parameters: {said}")
