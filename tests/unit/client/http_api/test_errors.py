"""Errors as the HTTP interfaces answer them."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from sqlstream.client.http_api.errors import (
    RestError,
    answer_bug,
    answer_http_error,
    answer_rest_error,
    error_detail,
    family,
)
from sqlstream.client.http_api.types_json import DETAILED
from sqlstream.errors import (
    ExternalError,
    FailureReason,
    InternalError,
    JobError,
    Span,
    SqlStreamError,
    UserError,
)

CAUSE = UserError("SS2003", 'no column "b"', span=Span(9, 10), hint="try a")
STATEMENT = "SELECT\na, b"


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (UserError("SS1001", "x"), "USER"),
        (ExternalError("SS5040", "x"), "EXTERNAL"),
        (JobError("SS6031", "x", reason=FailureReason.CANCELLED), "JOB"),
        (InternalError("x"), "INTERNAL"),
    ],
)
def test_a_family_says_who_can_mend_it(error: SqlStreamError, name: str) -> None:
    assert family(error) == name
    assert error_detail(error, "")["family"] == name


def test_the_detail_of_an_error_has_its_place() -> None:
    assert error_detail(CAUSE, STATEMENT) == {
        "code": "SS2003",
        "message": 'no column "b"',
        "hint": "try a",
        "detail": "",
        "family": "USER",
        "line": 2,
        "column": 3,
        "span": [9, 10],
    }
    at_the_end = UserError("SS2003", "x", span=Span(9, len(STATEMENT)))
    assert error_detail(at_the_end, STATEMENT)["span"] == [9, len(STATEMENT)]
    beyond = UserError("SS2003", "x", span=Span(9, len(STATEMENT) + 1))
    assert "span" not in error_detail(beyond, STATEMENT)


def test_the_detail_of_a_failed_job_or_system_says_what_to_do() -> None:
    failed = error_detail(JobError("SS6031", "x", reason=FailureReason.CANCELLED), "")
    assert failed["reason"] == FailureReason.CANCELLED.value
    assert "retry" not in failed
    outside = error_detail(ExternalError("SS5040", "x"), "")
    assert "retry" in outside
    assert "reason" not in outside


def test_secrets_of_the_statement_are_in_no_error() -> None:
    statement = "SET 'x.token' = 'hunter2'"
    error = UserError("SS4001", "not hunter2", hint="drop hunter2", detail="was hunter2")
    told = error_detail(error, statement)
    assert (told["message"], told["hint"], told["detail"]) == ("not ******", "drop ******", "was ******")


def test_a_handled_error_is_one_text_and_another_is_framed() -> None:
    handled = RestError(400, "Failed.", CAUSE, STATEMENT)
    (text,) = handled.texts()
    assert text.startswith('Failed.\nCaused by: error[SS2003]: no column "b"\n  2 | a, b\n')
    assert RestError(404, "Gone.").texts() == ["Gone."]
    framed = RestError(500, "Failed.", is_handled=False).texts()
    assert framed == [
        "Internal server error.",
        "<Exception on server side:\nFailed.\nEnd of exception on server side>",
    ]


def test_only_who_asks_for_it_gets_the_detail() -> None:
    error = RestError(400, "Failed.", CAUSE, STATEMENT)
    assert set(error.body(is_detailed=False)) == {"errors"}
    assert error.body(is_detailed=True)["error"]["code"] == "SS2003"
    assert set(RestError(400, "Failed.").body(is_detailed=True)) == {"errors"}


def refuse(request: Request) -> Response:
    raise RestError(409, "Failed.", CAUSE, STATEMENT)


def fail(request: Request) -> Response:
    raise KeyError("bug")


def ok(request: Request) -> Response:
    return PlainTextResponse("ok")


@pytest.fixture(scope="module")
def client() -> TestClient:
    routes = [
        Route("/refuse", refuse),
        Route("/fail", fail),
        Route("/both", ok, methods=["POST"]),
        Route("/both", ok, methods=["DELETE"]),
    ]
    handlers = {
        RestError: answer_rest_error,
        404: answer_http_error,
        405: answer_http_error,
        Exception: answer_bug,
    }
    return TestClient(Starlette(routes=routes, exception_handlers=handlers), raise_server_exceptions=False)  # type: ignore[arg-type]


def test_errors_are_answered_with_their_status(client: TestClient) -> None:
    plain = client.get("/refuse")
    assert (plain.status_code, list(plain.json())) == (409, ["errors"])
    detailed = client.get("/refuse", headers={"accept": DETAILED})
    assert detailed.json()["error"]["line"] == 2
    bug = client.get("/fail")
    assert bug.status_code == 500
    assert "KeyError: 'bug'" in json.dumps(bug.json())
    assert bug.json()["errors"][0] == "Internal server error."


def test_a_path_or_method_that_is_not_there_is_said_to_be_so(client: TestClient) -> None:
    missing = client.get("/nope")
    assert (missing.status_code, missing.json()) == (404, {"errors": ["Not found: /nope"]})
    refused = client.put("/both")
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, POST")
    assert refused.json() == {"errors": ["Method PUT is not allowed for /both: use DELETE, POST"]}
