"""Reads what a request of the gateway says: its body, its path and its parameters."""

from __future__ import annotations

import re
from typing import TypeVar

import pydantic
from starlette.requests import Request

from sqlstream.client.gateway.bodies import Request as RequestBody
from sqlstream.client.gateway.http_context import INLINE_BYTES_MAX, HttpContext
from sqlstream.client.gateway.pages_json import RowFormat
from sqlstream.client.http_api.errors import BAD_REQUEST, RestError
from sqlstream.client.http_api.request_body import read_body

Body = TypeVar("Body", bound=RequestBody)

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
