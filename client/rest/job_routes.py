"""Routes about jobs: lists, details, plans, exceptions, cancel and stop."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from client.http_api.answers import json_answer
from client.http_api.errors import RestError
from client.http_api.request_body import read_value
from client.rest.checkpoints import checkpoint_config, checkpoint_statistics
from client.rest.cluster_routes import config_entries, process_environment
from client.rest.cluster_view import ClusterView
from client.rest.exceptions import exception_history
from client.rest.job_view import job_details, job_summary
from client.rest.parameters import bad_query, checked_id
from client.rest.plan import describe_plan
from client.rest.route import RestRoute
from sqlstream import config as options
from sqlstream.messages.job_state import JobStatus
from sqlstream.secrets import masked

TRIGGERS_MAX = 1000
"""How many stops are remembered for clients that ask how they went."""

_STOP_BYTES_MAX = 64 * 1024


class Triggers:
    """Stops under way, by request id. Thread-safe. State: the job of each, the oldest forgotten beyond TRIGGERS_MAX."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, job_id: str) -> str:
        request_id = secrets.token_hex(16)
        with self._lock:
            self._jobs[request_id] = job_id
            while len(self._jobs) > TRIGGERS_MAX:
                self._jobs.popitem(last=False)
        return request_id

    def has(self, request_id: str, job_id: str) -> bool:
        with self._lock:
            return self._jobs.get(request_id) == job_id


def job_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute)
    _add_lists(router, view)
    _add_details(router, view)
    _add_context(router, view)
    _add_ends(router, view)
    return router


def _add_lists(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs")
    def jobs() -> Response:
        return json_answer(
            {"jobs": [{"id": j.job_id, "status": j.status.value} for j in view.cluster.jobs()]}
        )

    @router.get("/jobs/overview")
    def jobs_overview() -> Response:
        return json_answer({"jobs": [job_summary(j, view.now_ms()) for j in view.cluster.jobs()]})


def _add_details(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}")
    def job(job_id: str) -> Response:
        return json_answer(job_details(view.job(job_id), view.graph(job_id), view.now_ms()))

    @router.get("/jobs/{job_id}/status")
    def status(job_id: str) -> Response:
        reply = view.cluster.status(checked_id("jobid", job_id))
        return json_answer({"status": reply.status.value})

    @router.get("/jobs/{job_id}/plan")
    def plan(job_id: str) -> Response:
        return json_answer({"plan": describe_plan(view.graph(job_id))})

    @router.get("/jobs/{job_id}/exceptions")
    def exceptions(
        job_id: str,
        most: Annotated[str | None, Query(alias="maxExceptions")] = None,
        labels: Annotated[str | None, Query(alias="failureLabelFilter")] = None,
    ) -> Response:
        if most is not None and not (most.isascii() and most.isdecimal()):
            raise bad_query("maxExceptions", most)
        return json_answer(exception_history(view.job(job_id), int(most[:9]) if most else None, labels))

    @router.get("/jobs/{job_id}/execution-result")
    def execution_result(job_id: str) -> Response:
        return json_answer(_execution_result(view, job_id))

    @router.get("/jobs/{job_id}/accumulators")
    def accumulators(job_id: str) -> Response:
        view.job(job_id)
        return json_answer(
            {
                "job-accumulators": [],
                "user-task-accumulators": [],
                "serialized-user-task-accumulators": {},
            }
        )


def _add_context(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/config")
    def config(job_id: str) -> Response:
        return json_answer(_job_config(view, job_id))

    @router.get("/jobs/{job_id}/jobmanager/config")
    def job_manager_config(job_id: str) -> Response:
        view.job(job_id)
        return json_answer(config_entries(view))

    @router.get("/jobs/{job_id}/jobmanager/environment")
    def job_manager_environment(job_id: str) -> Response:
        view.job(job_id)
        return json_answer(process_environment())

    @router.get("/jobs/{job_id}/checkpoints")
    def checkpoints(job_id: str) -> Response:
        view.job(job_id)
        return json_answer(checkpoint_statistics())

    @router.get("/jobs/{job_id}/checkpoints/config")
    def checkpoints_config(job_id: str) -> Response:
        view.job(job_id)
        return json_answer(checkpoint_config())

    @router.get("/jobs/{job_id}/resource-requirements")
    def resource_requirements(job_id: str) -> Response:
        wanted = {
            v.id: {"parallelism": {"lowerBound": v.parallelism, "upperBound": v.parallelism}}
            for v in view.graph(job_id).vertices
        }
        return json_answer(wanted)


def _add_ends(router: APIRouter, view: ClusterView) -> None:
    triggers = Triggers()

    @router.patch("/jobs/{job_id}")
    def cancel(job_id: str, mode: str = "cancel") -> Response:
        if mode.lower() != "cancel":
            raise RestError(410 if mode.lower() == "stop" else 400, _other_mode(mode))
        cancel_job(view, checked_id("jobid", job_id))
        return json_answer({}, 202)

    @router.post("/jobs/{job_id}/stop")
    async def stop(job_id: str, request: Request) -> Response:
        id = checked_id("jobid", job_id)
        _refuse_savepoint(await read_value(request, dict[str, Any], _STOP_BYTES_MAX, empty=b"{}"))
        await run_in_threadpool(cancel_job, view, id)
        return json_answer({"request-id": triggers.add(id)}, 202)

    @router.get("/jobs/{job_id}/savepoints/{trigger_id}")
    def stop_status(job_id: str, trigger_id: str) -> Response:
        id = checked_id("jobid", job_id)
        if not triggers.has(trigger_id, id):
            raise RestError(404, f"There is no operation {trigger_id[:100]} of job {id}.")
        has_ended = view.cluster.status(id).status.is_terminal
        # No savepoint is taken: its location is empty.
        operation = {"location": ""} if has_ended else None
        return json_answer(
            {"status": {"id": "COMPLETED" if has_ended else "IN_PROGRESS"}, "operation": operation}
        )


def cancel_job(view: ClusterView, job_id: str) -> None:
    status = view.cluster.status(job_id).status
    if not view.info.is_cancel_enabled:
        raise RestError(403, "Cancelling jobs is turned off on this server.")
    if status.is_globally_terminal:
        raise RestError(
            409,
            f"Job cancellation failed because the job has already reached another terminal state ({status.value}).",
        )
    view.cluster.cancel(job_id)


def _other_mode(mode: str) -> str:
    if mode.lower() == "stop":
        return 'The termination mode "stop" has been removed. Use "PATCH …?mode=cancel" instead.'
    return f'Cannot resolve query parameter (mode) from value "{mode[:100]}".'


def _refuse_savepoint(body: dict[str, Any]) -> None:
    """A stop that names a savepoint's place or format, or wants one before the end of the input, would lose what it asks for."""
    asked = [key for key in ("targetDirectory", "formatType", "drain") if body.get(key)]
    if asked:
        raise RestError(
            501,
            f"Savepoints are not supported yet, and the request has {', '.join(asked)}. Send an empty body, or use PATCH"
            " …?mode=cancel: the job is then cancelled without a savepoint.",
        )


def _execution_result(view: ClusterView, job_id: str) -> dict[str, Any]:
    job = view.job(job_id)
    if not job.status.is_terminal:
        return {"status": {"id": "IN_PROGRESS"}}
    result: dict[str, Any] = {
        "id": job.job_id,
        "application-status": "SUCCEEDED" if job.status is JobStatus.FINISHED else job.status.value,
        "accumulator-results": {},
        "net-runtime": max(0, job.end_ms - job.start_ms),
    }
    if job.error is not None:
        history = exception_history(job, 1, None)
        root = history["exceptionHistory"]["entries"][0]
        result["failure-cause"] = {"class": root.exception_name, "stack-trace": root.stacktrace}
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def _job_config(view: ClusterView, job_id: str) -> dict[str, Any]:
    graph = view.graph(job_id)
    return {
        "jid": graph.job_id,
        "name": graph.name,
        "execution-config": {
            "restart-strategy": "NoRestart",
            "job-parallelism": options.get(graph.config, "parallelism.default"),
            "object-reuse-mode": False,
            "user-config": {key: masked(key, value) for key, value in sorted(graph.config.items())},
        },
    }
