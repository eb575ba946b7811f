"""Answers in JSON and in plain text, in Flink's content types."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from fastapi import Response
from starlette.requests import ClientDisconnect, Request

from sqlstream.client.http_api.errors import BAD_REQUEST, TOO_LARGE, RestError


def json_answer(body: object, status: int = 200) -> Response:
    """A struct or plain value as JSON, in Flink's content type."""
    return Response(msgspec.json.encode(body), status, media_type="application/json; charset=UTF-8")


def text_answer(text: str) -> Response:
    return Response(text, media_type="text/plain; charset=UTF-8")


def error_answer(status: int, message: str) -> Response:
    return json_answer({"errors": [message]}, status)


# Reads the body of a request.


Body = TypeVar("Body")


async def read_body(request: Request, bytes_max: int, options: tuple[str, ...] = ()) -> bytes:
    """The whole body. RestError 413 for one that is too large, as soon as it is; `options` are those that allow more."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > bytes_max:
        raise _too_large(bytes_max, options)
    pieces, size = [], 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > bytes_max:
                raise _too_large(bytes_max, options)
            pieces.append(piece)
    except ClientDisconnect as error:
        # Nobody is there to read this; it ends the request.
        raise RestError(BAD_REQUEST, "The body ends too early.") from error
    return b"".join(pieces)


def _too_large(bytes_max: int, options: tuple[str, ...]) -> RestError:
    said = f"HTTP content length exceeded {bytes_max} bytes."
    if options:
        said += f" Try to raise {' or '.join(f'[{option}]' for option in options)}"
    return RestError(TOO_LARGE, said)


async def read_value(request: Request, kind: type[Body], bytes_max: int, empty: bytes = b"") -> Body:
    """The JSON of the body as a value of that type; an empty body counts as `empty`. RestError 400 for what is no such value."""
    text = await read_body(request, bytes_max)
    try:
        return msgspec.json.decode(text if text.strip() else empty, type=kind)
    except msgspec.DecodeError as error:
        raise RestError(BAD_REQUEST, f"Bad request received: {error}.") from error
