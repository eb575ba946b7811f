"""Answers of the JobManager's REST: JSON, and errors in the body that Flink's clients read."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute

from client.rest.documents import described
from sqlstream.errors import SqlStreamError, UserError, render_error

UNKNOWN_JOB = "SS6009"

Body = TypeVar("Body")

logger = logging.getLogger(__name__)

_ID = re.compile(r"[0-9a-fA-F]{32}")


class RestError(Exception):
    """A request that is answered with `status` and Flink's error body. No state but that."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class RestRoute(APIRoute):
    """A route whose errors become Flink's error body, and whose answers are described in the OpenAPI document. No state of its
    own."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        (method,) = options["methods"]
        options |= {"response_class": Response} | described(method, path)
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except RestError as error:
                return error_answer(error.status, error.message)
            except SqlStreamError as error:
                return error_answer(_status_of(error), render_error(error))

        return handle_errors


def _status_of(error: SqlStreamError) -> int:
    if error.code == UNKNOWN_JOB:
        return 404
    if isinstance(error, UserError):
        return 400
    logger.error("a request failed: %s", error)
    return 500


def json_answer(body: object, status: int = 200) -> Response:
    """A struct or plain value as JSON, in Flink's content type."""
    return Response(msgspec.json.encode(body), status, media_type="application/json; charset=UTF-8")


def error_answer(status: int, message: str) -> Response:
    return json_answer({"errors": [message]}, status)


async def read_json(request: Request, kind: type[Body], bytes_max: int, empty: bytes = b"") -> Body:
    """The body as a value of that type; an empty one counts as `empty`. RestError 413 as soon as it is too long, 400 for what
    is no such value."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > bytes_max:
            raise RestError(413, "The request is too long.")
    try:
        return msgspec.json.decode(data if data.strip() else empty, type=kind)
    except msgspec.DecodeError as error:
        raise RestError(400, f"Bad request received: {error}.") from error


def checked_id(name: str, value: str) -> str:
    """A job's or vertex's id from a path, in lower case; RestError 400 for what cannot be one."""
    if _ID.fullmatch(value) is None:
        raise RestError(400, f'Cannot resolve path parameter ({name}) from value "{value[:100]}".')
    return value.lower()


def checked_number(name: str, value: str) -> int:
    """A subtask's index or an attempt from a path."""
    if not (value.isascii() and value.isdecimal() and len(value) <= 9):
        raise RestError(400, f'Cannot resolve path parameter ({name}) from value "{value[:100]}".')
    return int(value)


def bad_query(name: str, value: str) -> RestError:
    return RestError(400, f'Cannot resolve query parameter ({name}) from value "{value[:100]}".')
