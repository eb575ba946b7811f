"""Routes about the cluster as a whole and about the JobManager's process."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

from fastapi import APIRouter, Response

from sqlstream.client.http_api.answers import json_answer
from sqlstream.client.rest.cluster_view import ClusterView
from sqlstream.client.rest.messages import ClusterOverview, DashboardConfig
from sqlstream.client.rest.metric_view import list_metrics
from sqlstream.client.rest.route import RestRoute
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import Metrics
from sqlstream.messages.stacks import ThreadStack
from sqlstream.runtime.host.thread_stacks import thread_stacks
from sqlstream.secrets import masked

_ENDED = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)


def cluster_routes(view: ClusterView, shut_down: Callable[[], None]) -> APIRouter:
    router = APIRouter(route_class=RestRoute)
    info = view.info

    @router.get("/overview")
    def overview() -> Response:
        return json_answer(_overview(view))

    @router.delete("/cluster")
    async def shut_down_cluster() -> Response:
        shut_down()
        return json_answer({})

    @router.get("/config")
    def dashboard_config() -> Response:
        return json_answer(
            DashboardConfig(
                refresh_interval=info.refresh_interval_ms,
                timezone_name=time.strftime("%Z"),
                timezone_offset=(time.localtime().tm_gmtoff or 0) * 1000,
                flink_version=info.flink_version,
                flink_revision=info.revision,
                features={
                    "web-submit": False,
                    "web-cancel": info.is_cancel_enabled,
                    "web-rescale": True,
                    "web-history": False,
                },
            )
        )

    @router.get("/jobmanager/config")
    def job_manager_config() -> Response:
        return json_answer(config_entries(view))

    @router.get("/jobmanager/environment")
    def environment() -> Response:
        return json_answer(process_environment())

    @router.get("/jobmanager/metrics")
    def job_manager_metrics(get: str | None = None) -> Response:
        return json_answer(list_metrics(job_manager_figures(view), get))

    @router.get("/jobmanager/thread-dump")
    def thread_dump() -> Response:
        return json_answer(thread_infos(thread_stacks()))

    @router.get("/datasets")
    def data_sets() -> Response:
        return json_answer({"dataSets": []})

    return router


def _overview(view: ClusterView) -> ClusterOverview:
    jobs = [entry.status for entry in view.cluster.jobs()]
    task_managers = view.cluster.task_managers()
    return ClusterOverview(
        taskmanagers=len(task_managers),
        slots_total=sum(t.slots for t in task_managers),
        slots_available=sum(t.free_slots for t in task_managers),
        taskmanagers_blocked=0,
        slots_free_and_blocked=0,
        jobs_running=sum(status not in _ENDED for status in jobs),
        jobs_finished=jobs.count(JobStatus.FINISHED),
        jobs_cancelled=jobs.count(JobStatus.CANCELED),
        jobs_failed=jobs.count(JobStatus.FAILED),
        flink_version=view.info.flink_version,
        flink_commit=view.info.revision,
    )


def config_entries(view: ClusterView) -> list[dict[str, str]]:
    return [{"key": key, "value": masked(key, value)} for key, value in sorted(view.info.config.items())]


def process_environment() -> dict[str, object]:
    """What runs the JobManager; Flink's clients look for it below `jvm`."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return {"jvm": {"version": version, "arch": platform.machine(), "options": []}, "classpath": []}


def job_manager_figures(view: ClusterView) -> Metrics:
    found = _overview(view)
    figures: Metrics = {
        "numRegisteredTaskManagers": found.taskmanagers,
        "numRunningJobs": found.jobs_running,
        "taskSlotsAvailable": found.slots_available,
        "taskSlotsTotal": found.slots_total,
    }
    process = view.own_process()
    return figures | (process.as_metrics() if process is not None else {})


def thread_infos(threads: tuple[ThreadStack, ...]) -> dict[str, list[dict[str, str]]]:
    """The body of a thread dump."""
    return {"threadInfos": [{"threadName": t.name, "stringifiedThreadInfo": t.stack} for t in threads]}
