"""The OpenAPI document describes what is on the wire: schemathesis sends what it allows and more, and checks the answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import hypothesis
import pytest
import schemathesis
from gateway_harness import UNBOUNDED, Client, Server, gateway_server, settled, until
from schemathesis import checks

from sqlstream.client.gateway.options import GatewayOptions

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


SINK = "CREATE TEMPORARY TABLE s (n BIGINT) WITH ('connector'='blackhole')"
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


REST = r"^/(?!v[0-9]|openapi)"
WITHOUT_ANSWER = {
    "/jobmanager/log",
    "/jobmanager/logs/{name}",
    "/taskmanagers/{task_manager_id}/logs/{name}",
    "/taskmanagers/{task_manager_id}/stdout",
    "/savepoint-disposal/{trigger_id}",
    "/jobs/{job_id}/rescaling/{trigger_id}",
    "/artifacts/{digest}",
}
"""There is no log file, no savepoint was removed, no job is rescaled, and no file was uploaded."""
CANCELLING = "/jobs/{job_id}/yarn-cancel"


@pytest.fixture(scope="module")
def rest() -> Iterator[Server]:
    with gateway_server(OPTIONS, has_job_routes=True) as found:
        yield found


def test_the_answers_of_the_rest_are_as_documented(rest: Server, tmp_path: Path) -> None:
    document = schemathesis.openapi.from_url(f"{rest.url}/openapi.json").include(path_regex=REST)
    with httpx.Client(base_url=rest.url) as http:
        ids = start_job(rest, http, tmp_path)
        statuses: dict[str, int] = {}
        documented = set()
        for found in document.get_all_operations():
            operation = found.ok()
            send_any(operation, rest)
            if operation.method == "get" and operation.path != CANCELLING:
                known = {p.name: ids.get(p.name, "0") for p in operation.path_parameters}
                case = operation.Case(path_parameters=known)
                answer = case.call_and_validate(
                    base_url=rest.url, checks=CHECKS, additional_checks=[is_no_bug]
                )
                statuses[operation.path] = answer.status_code
                if "200" in operation.definition.raw["responses"]:
                    documented.add(operation.path)
        assert http.get(CANCELLING.format(**ids)).status_code == 202
    answered = {path for path, status in statuses.items() if status == 200}
    assert answered == documented - WITHOUT_ANSWER
    assert {status for path, status in statuses.items() if path not in answered | WITHOUT_ANSWER} == {501}


def start_job(rest: Server, http: httpx.Client, directory: Path) -> dict[str, str]:
    """The ids of a running job of two vertices with a checkpoint, by the names of path parameters."""
    checkpointing = {"interval": "1 h", "dir": str(directory)}
    session = rest.service.open_session({f"execution.checkpointing.{k}": v for k, v in checkpointing.items()})
    for statement in (UNBOUNDED.format(rate=10), SINK, "INSERT INTO s SELECT COUNT(*) FROM u GROUP BY id"):
        settled(rest.service.execute(session, statement)).result()
    until(lambda: http.get("/taskmanagers").json()["taskmanagers"])
    (job,) = http.get("/jobs/overview").json()["jobs"]
    until(lambda: http.get(f"/jobs/{job['jid']}").json()["state"] == "RUNNING")
    trigger_id = http.post(f"/jobs/{job['jid']}/checkpoints").json()["request-id"]
    triggered = f"/jobs/{job['jid']}/checkpoints/{trigger_id}"
    until(lambda: http.get(triggered).json()["status"]["id"] == "COMPLETED")
    return {
        "job_id": job["jid"],
        "application_id": job["jid"],
        "trigger_id": trigger_id,
        "checkpoint_id": str(http.get(triggered).json()["operation"]["checkpointId"]),
        "vertex_id": http.get(f"/jobs/{job['jid']}").json()["vertices"][0]["id"],
        "task_manager_id": http.get("/taskmanagers").json()["taskmanagers"][0]["id"],
    }


def send_any(operation: schemathesis.APIOperation, rest: Server) -> None:
    @hypothesis.given(operation.as_strategy())
    @hypothesis.settings(SETTINGS, max_examples=2)
    def answers_as_documented(case: schemathesis.Case) -> None:
        case.call_and_validate(base_url=rest.url, checks=CHECKS, additional_checks=[is_no_bug])

    answers_as_documented()
