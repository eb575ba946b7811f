"""Routes about jobs: lists, details, plans, exceptions, figures and cancel; and about applications, one for each job."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from fastapi import APIRouter, Query

from sqlstream import config as options
from sqlstream.client.diagnosis.diagnose import Diagnosis, diagnose_job
from sqlstream.client.following.lost_rows import job_remarks
from sqlstream.client.following.remarks import lines_of
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest import route
from sqlstream.client.rest.cluster import Environment, config_entries, process_environment
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.job_view import (
    Exceptions,
    describe_plan,
    exception_history,
    job_details,
    job_summary,
    restart_strategy_text,
)
from sqlstream.client.rest.messages import JobDetailsBody, JobSummary, Plan
from sqlstream.client.sessions.submission import rejected_rows_places
from sqlstream.errors import render_error
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobOverviewEntry
from sqlstream.secrets import masked


class JobIdStatus(TypedDict):
    id: str
    status: str


class JobIds(TypedDict):
    jobs: list[JobIdStatus]


class JobList(TypedDict):
    jobs: list[JobSummary]


class JobState(TypedDict):
    status: str


class PlanBody(TypedDict):
    plan: Plan


JobResult = TypedDict(
    "JobResult",
    {
        "id": str,
        "application-status": str,
        "accumulator-results": dict[str, Any],
        "net-runtime": int,
        "failure-cause": NotRequired[route.FailureCause],
    },
)


ExecutionResult = TypedDict(
    "ExecutionResult", {"status": route.StatusId, "job-execution-result": NotRequired[JobResult]}
)


JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[Any],
        "user-task-accumulators": list[Any],
        "serialized-user-task-accumulators": dict[str, Any],
    },
)


class Totals(TypedDict):
    status: str
    total: dict[str, int | float]
    operators: dict[str, dict[str, int | float]]
    warnings: list[str]
    failure: str
    lastFailure: str


Application = TypedDict(
    "Application",
    {
        "id": str,
        "name": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "status": str,
        "jobs": Any,
        "timestamps": NotRequired[dict[str, int]],
    },
)


class Applications(TypedDict):
    applications: list[Application]


class ApplicationException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationEntries(TypedDict):
    entries: list[ApplicationException]


class ApplicationExceptions(TypedDict):
    exceptionHistory: ApplicationEntries


ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        "user-config": dict[str, str],
    },
)


JobConfig = TypedDict("JobConfig", {"jid": str, "name": str, "execution-config": ExecutionConfig})


def job_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=route.RestRoute)
    _add_lists(router, view)
    _add_details(router, view)
    _add_context(router, view)
    _add_ends(router, view)
    return router


def _add_lists(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs")
    def jobs() -> JobIds:
        return {"jobs": [{"id": j.job_id, "status": j.status.value} for j in view.cluster.jobs()]}

    @router.get("/jobs/overview")
    def jobs_overview() -> JobList:
        return {"jobs": [job_summary(j, view.now_ms()) for j in view.cluster.jobs()]}


def _add_details(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}")
    def job(job_id: str) -> JobDetailsBody:
        return job_details(*view.described(job_id), view.now_ms())

    @router.get("/jobs/{job_id}/status")
    def status(job_id: str) -> JobState:
        reply = view.cluster.status(route.checked_id("jobid", job_id))
        return {"status": reply.status.value}

    @router.get("/jobs/{job_id}/plan")
    def plan(job_id: str) -> PlanBody:
        return {"plan": describe_plan(view.graph(job_id))}

    @router.get("/jobs/{job_id}/exceptions")
    def exceptions(
        job_id: str,
        most: Annotated[str | None, Query(alias="maxExceptions")] = None,
        labels: Annotated[str | None, Query(alias="failureLabelFilter")] = None,
    ) -> Exceptions:
        if most is not None and not (most.isascii() and most.isdecimal()):
            raise route.bad_query("maxExceptions", most)
        return exception_history(view.job(job_id), int(most[:9]) if most else None, labels)

    @router.get("/jobs/{job_id}/execution-result")
    def execution_result(job_id: str) -> ExecutionResult:
        return _execution_result(view, job_id)

    @router.get("/jobs/{job_id}/diagnosis")
    def diagnosis(job_id: str) -> Diagnosis:
        """What holds the job back: not one of Flink's. It looks at the job for a second or so."""
        return diagnose_job(view.cluster, route.checked_id("jobid", job_id))

    @router.get("/jobs/{job_id}/accumulators")
    def accumulators(job_id: str) -> JobAccumulators:
        view.job(job_id)
        return {
            "job-accumulators": [],
            "user-task-accumulators": [],
            "serialized-user-task-accumulators": {},
        }


def _add_context(router: APIRouter, view: ClusterView) -> None:
    @router.get("/jobs/{job_id}/config")
    def config(job_id: str) -> JobConfig:
        return _job_config(view, job_id)

    @router.get("/jobs/{job_id}/jobmanager/config")
    def job_manager_config(job_id: str) -> list[route.KeyValue]:
        view.job(job_id)
        return config_entries(view)

    @router.get("/jobs/{job_id}/jobmanager/environment")
    def job_manager_environment(job_id: str) -> Environment:
        view.job(job_id)
        return process_environment()


def _add_ends(router: APIRouter, view: ClusterView) -> None:
    @router.patch("/jobs/{job_id}", status_code=202)
    def cancel(job_id: str, mode: str = "cancel") -> route.Nothing:
        if mode.lower() != "cancel":
            raise RestError(410 if mode.lower() == "stop" else 400, _other_mode(mode))
        cancel_job(view, route.checked_id("jobid", job_id))
        return {}

    @router.get("/jobs/{job_id}/yarn-cancel", status_code=202)
    def cancel_by_get(job_id: str) -> route.Nothing:
        """The button of Flink's dashboard, whose requests pass YARN's proxy as GET alone."""
        cancel_job(view, route.checked_id("jobid", job_id))
        return {}


def cancel_job(view: ClusterView, job_id: str) -> None:
    view.check_runs(job_id, "Job cancellation", ends_it=True)
    view.cluster.cancel(job_id)


def _other_mode(mode: str) -> str:
    if mode.lower() == "stop":
        return 'The termination mode "stop" has been removed. Use "PATCH …?mode=cancel" instead.'
    return f'Cannot resolve query parameter (mode) from value "{mode[:100]}".'


def _execution_result(view: ClusterView, job_id: str) -> ExecutionResult:
    job = view.job(job_id)
    if not job.status.is_terminal:
        return {"status": {"id": "IN_PROGRESS"}}
    result: JobResult = {
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


def _job_config(view: ClusterView, job_id: str) -> JobConfig:
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


def totals_routes(view: ClusterView) -> APIRouter:
    """`/jobs/ID/totals`: `status`, `total` and `operators` as in JobMetrics, `warnings` on lost rows as lines of text, and
    `failure`, the cause of a restart that is under way, and `lastFailure` that of the last one."""
    router = APIRouter(route_class=route.RestRoute)

    @router.get("/jobs/{job_id}/totals")
    def totals(job_id: str) -> Totals:
        id = route.checked_id("jobid", job_id)
        metrics = view.cluster.metrics(id)
        places = rejected_rows_places(view.graph(job_id))
        remarks = job_remarks(metrics, places, lambda: view.cluster.details(id).restarts)
        operators = {str(id): figures for id, figures in metrics.operators.items()}
        failure, last_failure = (
            render_error(cause) if cause is not None else ""
            for cause in (metrics.failure, metrics.last_failure)
        )
        return {
            "status": metrics.status.value,
            "total": metrics.total,
            "operators": operators,
            "warnings": lines_of(remarks),
            "failure": failure,
            "lastFailure": last_failure,
        }

    return router


_STATES = {JobStatus.CANCELLING: "CANCELING", JobStatus.INITIALIZING: "CREATED"}
"""Where the state of an application has another name than that of its job."""


def application_routes(view: ClusterView) -> APIRouter:
    router = APIRouter(route_class=route.RestRoute, prefix="/applications")

    @router.get("/overview")
    def overview() -> Applications:
        now_ms = view.now_ms()
        return {"applications": [_application(j, now_ms) for j in view.cluster.jobs()]}

    @router.get("/{application_id}")
    def application(application_id: str) -> Application:
        job = view.job(route.checked_id("applicationid", application_id))
        entry = next((j for j in view.cluster.jobs() if j.job_id == job.job_id), None)
        if entry is None:
            raise RestError(404, f"Application {application_id} not found")
        found = _application(entry, view.now_ms())
        found["timestamps"] = {status.value: job.timestamps_ms.get(status.value, 0) for status in JobStatus}
        found["jobs"] = [job_summary(entry, view.now_ms())]
        return found

    @router.post("/{application_id}/cancel", status_code=202)
    def cancel(application_id: str) -> route.Nothing:
        cancel_job(view, route.checked_id("applicationid", application_id))
        return {}

    @router.get("/{application_id}/exceptions")
    def exceptions(application_id: str) -> ApplicationExceptions:
        job = view.job(route.checked_id("applicationid", application_id))
        roots = exception_history(job, None, None)["exceptionHistory"]["entries"]
        entries: list[ApplicationException] = [
            {
                "exceptionName": root.exception_name,
                "stacktrace": root.stacktrace,
                "timestamp": root.timestamp,
                "jobId": job.job_id,
            }
            for root in roots
        ]
        return {"exceptionHistory": {"entries": entries}}

    @router.get("/{application_id}/jobmanager/config")
    def config(application_id: str) -> list[route.KeyValue]:
        view.job(route.checked_id("applicationid", application_id))
        return config_entries(view)

    return router


def _application(entry: JobOverviewEntry, now_ms: int) -> Application:
    return {
        "id": entry.job_id,
        "name": entry.name,
        "start-time": entry.start_ms,
        "end-time": entry.end_ms,
        "duration": max(0, (entry.end_ms if entry.end_ms >= 0 else now_ms) - entry.start_ms),
        "status": _STATES.get(entry.status, entry.status.value),
        "jobs": {entry.status.value: 1},
    }
