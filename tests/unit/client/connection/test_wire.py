"""Errors as servers, and what stands between, answer them."""

from __future__ import annotations

import json

import httpx
import pytest

from sqlstream.client.connection.http import naming_url
from sqlstream.client.connection.wire import answered_error
from sqlstream.client.http_api.errors import error_detail
from sqlstream.errors import (
    ErrorInfo,
    ExternalError,
    FailureReason,
    InternalError,
    JobError,
    Retry,
    Span,
    SqlStreamError,
    UserError,
    render_error,
)

URL = "http://h:1"


def answered(status: int, body: object) -> SqlStreamError:
    return answered_error(status, json.dumps(body).encode(), URL)


def test_an_error_with_parts_is_what_it_was_at_the_server() -> None:
    parts = {
        "code": "SS2003",
        "message": "no column",
        "hint": "h",
        "detail": "d",
        "line": 1,
        "column": 8,
        "span": [7, 9],
    }
    error = answered(500, {"errors": ["Internal server error.", "…"], "error": parts})
    assert isinstance(error, UserError)
    assert (error.code, error.message, error.hint, error.detail) == ("SS2003", "no column", "h", "d")
    assert error.span == Span(7, 9)


@pytest.mark.parametrize(
    "error",
    [
        JobError("SS5012", "bad", reason=FailureReason.USER_DATA, detail="d", hint="h"),
        JobError("SS6001", "lost", reason=FailureReason.TASK_MANAGER_LOST),
        ExternalError("SS5021", "busy", retry=Retry.BACKOFF, hint="again"),
        UserError("SS6020", "no session", span=Span(0, 2)),
        InternalError("a bug"),
    ],
)
def test_an_error_crosses_http_with_its_family_its_reason_and_its_retry(error: SqlStreamError) -> None:
    found = answered(500, {"errors": [], "error": error_detail(error, "SELECT")})
    assert type(found) is type(error)
    assert ErrorInfo.of(found) == ErrorInfo.of(error)


def test_what_another_version_of_the_server_names_is_read() -> None:
    parts = {"code": "SS5999", "message": "m", "family": "EXTERNAL", "retry": "TOMORROW"}
    error = answered(500, {"errors": [], "error": parts})
    assert isinstance(error, ExternalError)
    assert error.retry is Retry.NEVER


def test_an_error_in_words_alone_is_read_from_them() -> None:
    said = render_error(UserError("SS6009", "job is not known", hint="list them"))
    error = answered(404, {"errors": [said]})
    assert (error.code, error.message, error.hint) == ("SS6009", "job is not known", "list them")


@pytest.mark.parametrize(
    ("status", "body", "code", "said"),
    [
        (401, b'{"errors":["no token"]}', "SS4043", "http://h:1 answered 401: no token"),
        (404, b"<html>\n not here</html>", "SS4043", "http://h:1 answered 404: <html> not here</html>"),
        (409, b'{"errors":["has ended"]}', "SS5041", "http://h:1 answered 409: has ended"),
        (502, b"", "SS5041", "http://h:1 answered 502"),
        (500, b"[1]", "SS5041", "http://h:1 answered 500: [1]"),
        (500, b"\xff" * 5000, "SS5041", "http://h:1 answered 500: " + "\ufffd" * 500),
    ],
)
def test_other_answers_are_shown_with_the_url(status: int, body: bytes, code: str, said: str) -> None:
    error = answered_error(status, body, URL)
    assert (error.code, error.message) == (code, said)
    assert bool(error.hint) is (status != 409), "a refusal says itself what is wrong"
    assert isinstance(error, UserError if code == "SS4043" else ExternalError)


def test_a_refused_connection_is_told_in_words() -> None:
    with pytest.raises(ExternalError) as caught, naming_url(URL):
        raise httpx.ConnectError("[Errno 111] Connection refused")
    assert caught.value.message == "cannot connect to http://h:1: connection refused"
