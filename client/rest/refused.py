"""The operations of Flink's REST that this server does not have: each is refused with a reason in Flink's error body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import error_answer
from sqlstream.client.rest.documents import error_responses

_RESCALES = "No history of rescales is kept: ask for each by its trigger, /jobs/ID/rescaling/TRIGGER."
_JARS = "Jobs are SQL statements: there are no JAR files to upload or run."
_JOB_GRAPHS = "Jobs are submitted as SQL statements to the SQL gateway."
_PROFILER = "No profiles are kept: /jobs/ID/vertices/VERTEX/flamegraph has sampled stacks, and thread-dump the present ones."

REFUSED: tuple[tuple[str, str, str], ...] = (
    ("GET", "/jobs/{job_id}/rescales/{part:path}", _RESCALES),
    ("GET", "/jars", _JARS),
    ("POST", "/jars/upload", _JARS),
    ("DELETE", "/jars/{jar_id}", _JARS),
    ("GET", "/jars/{jar_id}/plan", _JARS),
    ("POST", "/jars/{jar_id}/plan", _JARS),
    ("POST", "/jars/{jar_id}/run", _JARS),
    ("POST", "/jars/{jar_id}/run-application", _JARS),
    ("POST", "/jobs", _JOB_GRAPHS),
    ("PATCH", "/jobs/{job_id}/clientHeartbeat", _JOB_GRAPHS),
    ("POST", "/jobs/{job_id}/coordinators/{operator_uid}", _JOB_GRAPHS),
    ("DELETE", "/datasets/{dataset_id}", "There are no cached data sets."),
    ("GET", "/datasets/delete/{trigger_id}", "There are no cached data sets."),
    ("GET", "/jobs/{job_id}/yarn-stop", "A job is stopped with a savepoint: POST /jobs/ID/stop."),
    *(
        (method, f"/{process}/profiler{part}", _PROFILER)
        for process in ("jobmanager", "taskmanagers/{task_manager_id}")
        for method, part in (("GET", ""), ("POST", ""), ("GET", "/{file_name}"))
    ),
    ("GET", "/jobs/{job_id}/jobmanager/log-url", "Logs have no address of their own: see /jobmanager/logs."),
    (
        *("GET", "/jobs/{job_id}/taskmanagers/{task_manager_id}/log-url"),
        "Logs have no address of their own: see /jobmanager/logs.",
    ),
)
"""Method, path and reason."""


def refused_routes() -> APIRouter:
    """To be added last: some of these paths are also matched by routes that answer."""
    router = APIRouter()
    for method, path, reason in REFUSED:
        router.add_api_route(
            path,
            _refuse(reason),
            methods=[method],
            status_code=501,
            response_class=Response,
            responses={501: {**error_responses()[501], "description": reason}},
        )
    return router


def _refuse(reason: str) -> Callable[[], Awaitable[Response]]:
    async def refuse() -> Response:
        return error_answer(501, reason)

    return refuse
