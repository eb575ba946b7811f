"""Routes about jobs: lists, details, plans, exceptions and cancel."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from sqlstream import config as options
from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_routes import config_entries, process_environment
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.ended_jobs import check_runs
from sqlstream.client.rest.exceptions import exception_history
from sqlstream.client.rest.job_view import job_details, job_summary
from sqlstream.client.rest.parameters import bad_query, checked_id
from sqlstream.client.rest.plan import describe_plan
from sqlstream.client.rest.restart_strategy import restart_strategy_text
from sqlstream.client.rest.route import RestRoute
from sqlstream.messages.job_state import JobStatus
from sqlstream.secrets import masked


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


def _add_ends(router: APIRouter, view: ClusterView) -> None:
    @router.patch("/jobs/{job_id}")
    def cancel(job_id: str, mode: str = "cancel") -> Response:
        if mode.lower() != "cancel":
            raise RestError(410 if mode.lower() == "stop" else 400, _other_mode(mode))
        cancel_job(view, checked_id("jobid", job_id))
        return json_answer({}, 202)

    @router.get("/jobs/{job_id}/yarn-cancel")
    def cancel_by_get(job_id: str) -> Response:
        """The button of Flink's dashboard, whose requests pass YARN's proxy as GET alone."""
        cancel_job(view, checked_id("jobid", job_id))
        return json_answer({}, 202)


def cancel_job(view: ClusterView, job_id: str) -> None:
    check_runs(view, job_id, "Job cancellation", ends_it=True)
    view.cluster.cancel(job_id)


def _other_mode(mode: str) -> str:
    if mode.lower() == "stop":
        return 'The termination mode "stop" has been removed. Use "PATCH …?mode=cancel" instead.'
    return f'Cannot resolve query parameter (mode) from value "{mode[:100]}".'


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
            "restart-strategy": restart_strategy_text(graph.config),
            "job-parallelism": options.get(graph.config, "parallelism.default"),
            "object-reuse-mode": False,
            "user-config": {key: masked(key, value) for key, value in sorted(graph.config.items())},
        },
    }
