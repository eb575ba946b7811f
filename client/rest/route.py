"""Routes of the JobManager's REST: their documents, their parameters, and errors in the body that Flink's clients read."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypedDict, get_type_hints

import msgspec
from fastapi import Request, Response
from fastapi.routing import APIRoute

from sqlstream.client.http_api.answers import error_answer, json_answer
from sqlstream.client.http_api.errors import BAD_REQUEST, INTERNAL, NOT_FOUND, RestError
from sqlstream.errors import InternalError, SqlStreamError, UserError, render_error

UNKNOWN = ("SS6009", "SS6207", "SS6236")
"""A job, or a trigger of a savepoint or rescale, that the cluster does not know."""

IS_ANSWER = "is_rest_answer"
"""What is True of an endpoint that answers with JSON itself: a router that includes another one makes its routes anew."""

logger = logging.getLogger(__name__)


class RestRoute(APIRoute):
    """A route of the JobManager's REST. Its function returns the body of the answer, whose type is that of the OpenAPI document.

    An error of a job that is not known is 404, another one of the user's 400. No state of its own."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        status = options.get("status_code") or 200
        options |= {"response_class": Response, "response_model": None}
        options |= _described(endpoint, status)
        super().__init__(path, _answering(endpoint, status), **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except RestError as error:
                return json_answer(error.body(is_detailed=False), error.status)
            except SqlStreamError as error:
                return error_answer(_status_of(error), render_error(error))

        return handle_errors


def _status_of(error: SqlStreamError) -> int:
    if error.code in UNKNOWN:
        return NOT_FOUND
    if isinstance(error, UserError):
        return BAD_REQUEST
    # What fails outside of the server, or in a job, is no fault of the server.
    logger.log(
        logging.ERROR if isinstance(error, InternalError) else logging.WARNING, "a request failed: %s", error
    )
    return INTERNAL


Extra = dict[str, Any]

TEXT = "text/plain"


class Nothing(TypedDict):
    pass


class Errors(TypedDict):
    errors: list[str]


class StatusId(TypedDict):
    id: str


class KeyValue(TypedDict):
    key: str
    value: str


FailureCause = TypedDict("FailureCause", {"class": str, "stack-trace": str})


Trigger = TypedDict("Trigger", {"request-id": str})


_SAYS = {
    400: "The request is not understood.",
    403: "The request is not allowed.",
    404: "There is no such thing, or no such path.",
    405: "The path has no such method.",
    409: "The job has ended already.",
    410: "The termination mode has been removed.",
    413: "The body is too large.",
    500: "The server failed.",
    501: "The server does not have this operation.",
}


def _described(endpoint: Callable[..., Any], status: int) -> Extra:
    """What the OpenAPI document says of a route: its body is what the function returns, text where that is a Response."""
    body = _body_of(endpoint)
    if body is Response:
        content: Extra = {TEXT: {"schema": {"type": "string"}}}
    else:
        content = {"application/json": {"schema": json_schema(body)}}
    found = {status: {"description": "The request was successful.", "content": content}}
    return {"status_code": status, "responses": found | error_responses()}


def _body_of(endpoint: Callable[..., Any]) -> Any:
    return get_type_hints(endpoint)["return"]


def _answering(endpoint: Callable[..., Any], status: int) -> Callable[..., Any]:
    """An endpoint whose answer is the JSON of what `endpoint` returns."""
    if hasattr(endpoint, IS_ANSWER) or _body_of(endpoint) is Response:
        return endpoint

    @functools.wraps(endpoint)
    async def awaited(*args: Any, **kwargs: Any) -> Response:
        return json_answer(await endpoint(*args, **kwargs), status)

    @functools.wraps(endpoint)
    def called(*args: Any, **kwargs: Any) -> Response:
        return json_answer(endpoint(*args, **kwargs), status)

    answer = awaited if inspect.iscoroutinefunction(endpoint) else called
    setattr(answer, IS_ANSWER, True)
    return answer


def reads(body: Any) -> Extra:
    """The `openapi_extra` of a route that reads a body itself."""
    content = {"application/json": {"schema": json_schema(body)}}
    return {"requestBody": {"required": False, "content": content}}


@functools.cache
def error_responses() -> dict[int, Extra]:
    content = {"application/json": {"schema": json_schema(Errors)}}
    return {status: {"description": said, "content": content} for status, said in _SAYS.items()}


def json_schema(kind: Any) -> Extra:
    """The JSON schema of a type, without references."""
    found = msgspec.json.schema(kind)
    definitions = found.pop("$defs", {})

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inlined(definitions[part["$ref"].rpartition("/")[2]])
        return {key: inlined(value) for key, value in part.items()}

    whole: Extra = inlined(found)
    return whole


_ID = re.compile(r"[0-9a-fA-F]{32}")


def checked_id(name: str, value: str) -> str:
    """A job's or vertex's id from a path, in lower case; RestError 400 for what cannot be one."""
    if _ID.fullmatch(value) is None:
        raise _bad_path(name, value)
    return value.lower()


def checked_number(name: str, value: str) -> int:
    """A subtask's index or an attempt from a path."""
    if not (value.isascii() and value.isdecimal() and len(value) <= 9):
        raise _bad_path(name, value)
    return int(value)


def _bad_path(name: str, value: str) -> RestError:
    return RestError(BAD_REQUEST, f'Cannot resolve path parameter ({name}) from value "{value[:100]}".')


def bad_query(name: str, value: str) -> RestError:
    return RestError(BAD_REQUEST, f'Cannot resolve query parameter ({name}) from value "{value[:100]}".')
