"""Routes about the cluster as a whole, the JobManager's process and its log files."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse

from sqlstream.client.http_api.answers import text_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ClusterView, ServerInfo
from sqlstream.client.rest.messages import ClusterOverview, DashboardConfig
from sqlstream.client.rest.metrics import Metric, list_metrics
from sqlstream.client.rest.route import KeyValue, Nothing, RestRoute
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import Metrics
from sqlstream.messages.stacks import ThreadStack
from sqlstream.runtime.host.thread_stacks import thread_stacks
from sqlstream.secrets import masked

_ENDED = (JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED, JobStatus.SUSPENDED)


class ProcessVersion(TypedDict):
    version: str
    arch: str
    options: list[str]


class Environment(TypedDict):
    jvm: ProcessVersion
    classpath: list[str]


class ThreadInfo(TypedDict):
    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    threadInfos: list[ThreadInfo]


class DataSets(TypedDict):
    dataSets: list[Nothing]


class LogEntry(TypedDict):
    name: str
    size: int
    mtime: int


class Logs(TypedDict):
    logs: list[LogEntry]


def cluster_routes(view: ClusterView, shut_down: Callable[[], None]) -> APIRouter:
    router = APIRouter(route_class=RestRoute)
    info = view.info

    @router.get("/overview")
    def overview() -> ClusterOverview:
        return _overview(view)

    @router.delete("/cluster")
    async def shut_down_cluster() -> Nothing:
        shut_down()
        return {}

    @router.get("/config")
    def dashboard_config() -> DashboardConfig:
        return DashboardConfig(
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

    @router.get("/jobmanager/config")
    def job_manager_config() -> list[KeyValue]:
        return config_entries(view)

    @router.get("/jobmanager/environment")
    def environment() -> Environment:
        return process_environment()

    @router.get("/jobmanager/metrics")
    def job_manager_metrics(get: str | None = None) -> list[Metric]:
        return list_metrics(job_manager_figures(view), get)

    @router.get("/jobmanager/thread-dump")
    def thread_dump() -> ThreadDump:
        return thread_infos(thread_stacks())

    @router.get("/datasets")
    def data_sets() -> DataSets:
        return {"dataSets": []}

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


def config_entries(view: ClusterView) -> list[KeyValue]:
    return [{"key": key, "value": masked(key, value)} for key, value in sorted(view.info.config.items())]


def process_environment() -> Environment:
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


def thread_infos(threads: tuple[ThreadStack, ...]) -> ThreadDump:
    """The body of a thread dump."""
    return {"threadInfos": [{"threadName": t.name, "stringifiedThreadInfo": t.stack} for t in threads]}


def log_routes(info: ServerInfo) -> APIRouter:
    """The files of the server's log directory: a list, one by name, and the newest."""
    router = APIRouter(route_class=RestRoute)

    @router.get("/jobmanager/logs")
    def logs() -> Logs:
        return {"logs": [_log_entry(path) for path in _log_files(info)]}

    @router.get("/jobmanager/logs/{name}")
    def log(name: str) -> Response:
        # Only what the list shows is served, so that no name leads elsewhere.
        found = next((path for path in _log_files(info) if path.name == name), None)
        if found is None:
            raise RestError(404, f"The file {name[:100]} does not exist.")
        return _text(found)

    @router.get("/jobmanager/log")
    def newest_log() -> Response:
        files = sorted(_log_files(info), key=lambda path: path.stat().st_mtime)
        if not files:
            raise RestError(404, "The server keeps no log.")
        return _text(files[-1])

    @router.get("/jobmanager/stdout")
    def stdout() -> Response:
        return text_answer(info.printed())

    return router


def _text(path: Path) -> Response:
    return FileResponse(path, media_type="text/plain; charset=UTF-8")


def _log_files(info: ServerInfo) -> list[Path]:
    directory = info.log_directory
    if directory is None or not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.is_file() and not path.is_symlink())


def _log_entry(path: Path) -> LogEntry:
    status = path.stat()
    return {"name": path.name, "size": status.st_size, "mtime": int(status.st_mtime * 1000)}
