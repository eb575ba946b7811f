"""Routes about applications. Each job is an application of its own, with the job's id (Flink: SingleJobApplication)."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.rest.cluster_routes import config_entries
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.exceptions import exception_history
from sqlstream.client.rest.job_routes import cancel_job
from sqlstream.client.rest.job_view import job_summary
from sqlstream.client.rest.parameters import checked_id
from sqlstream.client.rest.route import RestRoute
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobOverviewEntry

_STATES = {JobStatus.CANCELLING: "CANCELING", JobStatus.INITIALIZING: "CREATED"}
"""Where the state of an application has another name than that of its job."""


def application_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=RestRoute, prefix="/applications")

    @router.get("/overview")
    def overview() -> Response:
        now_ms = view.now_ms()
        return json_answer({"applications": [_application(j, now_ms) for j in view.cluster.jobs()]})

    @router.get("/{application_id}")
    def application(application_id: str) -> Response:
        job = view.job(checked_id("applicationid", application_id))
        entry = next(j for j in view.cluster.jobs() if j.job_id == job.job_id)
        found = _application(entry, view.now_ms())
        found["timestamps"] = {status.value: job.timestamps_ms.get(status.value, 0) for status in JobStatus}
        found["jobs"] = [job_summary(entry, view.now_ms())]
        return json_answer(found)

    @router.post("/{application_id}/cancel")
    def cancel(application_id: str) -> Response:
        cancel_job(view, checked_id("applicationid", application_id))
        return json_answer({}, 202)

    @router.get("/{application_id}/exceptions")
    def exceptions(application_id: str) -> Response:
        job = view.job(checked_id("applicationid", application_id))
        roots = exception_history(job, None, None)["exceptionHistory"]["entries"]
        entries = [
            {
                "exceptionName": root.exception_name,
                "stacktrace": root.stacktrace,
                "timestamp": root.timestamp,
                "jobId": job.job_id,
            }
            for root in roots
        ]
        return json_answer({"exceptionHistory": {"entries": entries}})

    @router.get("/{application_id}/jobmanager/config")
    def config(application_id: str) -> Response:
        view.job(checked_id("applicationid", application_id))
        return json_answer(config_entries(view))

    return router


def _application(entry: JobOverviewEntry, now_ms: int) -> dict[str, Any]:
    return {
        "id": entry.job_id,
        "name": entry.name,
        "start-time": entry.start_ms,
        "end-time": entry.end_ms,
        "duration": max(0, (entry.end_ms if entry.end_ms >= 0 else now_ms) - entry.start_ms),
        "status": _STATES.get(entry.status, entry.status.value),
        "jobs": {entry.status.value: 1},
    }
