"""Reads what a request of the gateway says: its body, its path and its parameters."""

from __future__ import annotations

import re
from typing import TypeVar

import pydantic
from starlette.requests import ClientDisconnect, Request

from client.gateway.bodies import Request as RequestBody
from client.gateway.errors import BAD_REQUEST, TOO_LARGE, RestError
from client.gateway.http_context import INLINE_BYTES_MAX, HttpContext
from client.gateway.rows_json import RowFormat

Body = TypeVar("Body", bound=RequestBody)

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONG = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MAX = 2**63 - 1


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. RestError 413 for one that is too large, as soon as it is."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(bytes_max)
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max)
            pieces.append(piece)
    except ClientDisconnect as error:
        # Nobody is there to read this; it ends the request.
        raise RestError(BAD_REQUEST, "The body ends too early.") from error
    return b"".join(pieces)


def _too_large(bytes_max: int) -> RestError:
    return RestError(
        TOO_LARGE,
        f"HTTP content length exceeded {bytes_max} bytes. Try to raise [rest.server.max-content-length]"
        " or [sqlstream.gateway.statement.max-length]",
    )


async def read_json(context: HttpContext, request: Request, kind: type[Body]) -> Body:
    """The body as an object of that kind; an empty one is `{}`. RestError 400 for anything else."""
    text = await read_body(request, context.service.options.request_bytes_max)
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
