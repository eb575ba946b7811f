"""Errors as Flink's clients expect them: `{"errors": […]}` with an HTTP status."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from sqlstream.client.http_api.head_requests import has_head
from sqlstream.client.http_api.types_json import DETAILED
from sqlstream.errors import (
    ExternalError,
    InternalError,
    JobError,
    SqlStreamError,
    UserError,
    line_and_column,
    render_error,
)
from sqlstream.secrets import without_secrets

BAD_REQUEST = 400
FORBIDDEN = 403
NOT_FOUND = 404
NO_METHOD = 405
TOO_LARGE = 413
INTERNAL = 500


class RestError(Exception):
    """A request that cannot be answered. `statement` is the text that the span of `cause` points into.

    With `is_handled` the body has one text that begins with `message` (Flink: RestHandlerException), without it the two of an
    exception that no handler expects.
    """

    def __init__(
        self,
        status: int,
        message: str,
        cause: SqlStreamError | None = None,
        statement: str = "",
        is_handled: bool = True,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.cause = cause
        self.statement = statement
        self.is_handled = is_handled

    def texts(self) -> list[str]:
        said = self.message
        if self.cause is not None:
            said += f"\nCaused by: {render_error(self.cause, self.statement)}\n"
        if self.is_handled:
            return [said]
        framed = f"<Exception on server side:\n{said}\nEnd of exception on server side>"
        return ["Internal server error.", framed]

    def body(self, is_detailed: bool) -> dict[str, Any]:
        found: dict[str, Any] = {"errors": self.texts()}
        if is_detailed and self.cause is not None:
            found["error"] = error_detail(self.cause, self.statement)
        return found


def family(error: SqlStreamError) -> str:
    """Who can fix it: the class of the error, without "Error"."""
    families = {UserError: "USER", ExternalError: "EXTERNAL", JobError: "JOB"}
    return next((name for kind, name in families.items() if isinstance(error, kind)), "INTERNAL")


def error_detail(error: SqlStreamError, statement: str) -> dict[str, Any]:
    """The error for programs, with its place in the statement."""
    found: dict[str, Any] = {
        "code": error.code,
        "message": without_secrets(error.message, statement),
        "hint": without_secrets(error.hint, statement),
        "detail": without_secrets(error.detail, statement),
        "family": family(error),
    }
    if isinstance(error, JobError):
        found["reason"] = error.reason.value
    elif isinstance(error, ExternalError):
        found["retry"] = error.retry.value
    span = getattr(error, "span", None)
    if span is not None and span.end <= len(statement):
        line, column = line_and_column(statement, span.start)
        found |= {"line": line, "column": column, "span": [span.start, span.end]}
    return found


def error_response(status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")


async def answer_rest_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RestError)
    return error_response(error.status, error.body(is_detailed(request)))


async def answer_http_error(request: Request, error: Exception) -> Response:
    """A path that does not exist is not found, in the words of Flink's router; a method that a path does not have is answered
    with those that it has."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == NOT_FOUND:
        return error_response(NOT_FOUND, {"errors": [f"Not found: {path}"]})
    if error.status_code == NO_METHOD:
        allowed = ", ".join(allowed_methods(request))
        said = f"Method {request.method[:20]} is not allowed for {path}: use {allowed}"
        return error_response(NO_METHOD, {"errors": [said]}, {"allow": allowed})
    return error_response(error.status_code, {"errors": [str(error.detail)]}, dict(error.headers or {}))


def allowed_methods(request: Request) -> list[str]:
    """The methods that a route answers for the request's path; HEAD is answered where GET is."""
    found = [
        method
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if any(r.matches({**request.scope, "method": method})[0] is Match.FULL for r in request.app.routes)
    ]
    if "GET" in found and has_head(request.url.path):
        found.insert(found.index("GET") + 1, "HEAD")
    return found


async def answer_bug(request: Request, error: Exception) -> Response:
    """What no handler expects; the application logs it."""
    bug = InternalError(f"{type(error).__name__}: {error}")
    return error_response(
        INTERNAL, RestError(INTERNAL, "Failed to answer.", bug, is_handled=False).body(is_detailed(request))
    )


def is_detailed(request: Request) -> bool:
    return DETAILED in request.headers.get("accept", "")
