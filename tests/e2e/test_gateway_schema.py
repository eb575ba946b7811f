"""The OpenAPI document describes what is on the wire: schemathesis sends what it allows and more, and checks the answers."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from gateway_harness import Client, Server, gateway_server
from schemathesis import checks

from client.gateway.options import GatewayOptions

OPTIONS = GatewayOptions(page_wait_ms=5, heartbeat_ms=50, check_interval_ms=0)
SETTINGS = hypothesis.settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
)

# Flink answers a wrong statement and an unknown handle with 500, so that no status tells ours from a user's error.
checks.load_all_checks()
CHECKS = [
    checks.CHECKS.get_one(name)
    for name in ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
]


TESTED = r"^/v(4|1/sessions/\{session_handle\}/operations)"
"""The latest version, and of the first what differs."""


@checks.check
def is_no_bug(
    context: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    assert b"SS9001" not in response.content
    assert b"Traceback" not in response.content
    if response.status_code != 200:
        assert set(response.json()) == {"errors"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with gateway_server(OPTIONS) as found:
        yield found


@pytest.fixture(scope="module")
def document(server: Server) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def test_the_answers_are_as_documented(server: Server, document: schemathesis.BaseSchema) -> None:
    checked = set()
    for found in document.include(path_regex=TESTED).get_all_operations():
        operation = found.ok()
        checked.add(operation.label)

        @hypothesis.given(operation.as_strategy())
        @SETTINGS
        def answers_as_documented(case: schemathesis.Case) -> None:
            send(case, server)

        answers_as_documented()
    assert len(checked) == 20


def send(case: schemathesis.Case, server: Server) -> None:
    """Send a request, every second one of them about a session and an operation that there are."""
    with Client(server.url, case.path[:3]) as client:
        operation = client.execute("VALUES (1, 'a'), (2, NULL)")
        handles = {"session_handle": client.session, "operation_handle": operation.rpartition("/")[2]}
        if len(str(case.path_parameters)) % 2:
            case.path_parameters.update({k: v for k, v in handles.items() if k in case.path_parameters})
        case.call_and_validate(base_url=server.url, checks=CHECKS, additional_checks=[is_no_bug])
