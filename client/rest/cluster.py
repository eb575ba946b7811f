"""Routes about the cluster as a whole, the JobManager's process, its log files, and the levels of all logs."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import NotRequired, TypedDict

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse

from sqlstream.client.http_api.answers import read_value, text_answer
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.cluster_view import ClusterView, ServerInfo, rest_id
from sqlstream.client.rest.messages import ClusterOverview, DashboardConfig
from sqlstream.client.rest.metrics import Metric, list_metrics
from sqlstream.client.rest.route import KeyValue, Nothing, RestRoute, reads
from sqlstream.errors import SqlStreamError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.log_levels import SetLogLevels
from sqlstream.messages.rpc import Metrics
from sqlstream.messages.stacks import ThreadStack
from sqlstream.runtime.host.thread_stacks import thread_stacks
from sqlstream.runtime.logs import checked_levels, set_levels
from sqlstream.secrets import masked

LEVELS_BYTES_MAX = 64 * 1024

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


class ProcessLevels(TypedDict):
    process: str
    levels: dict[str, str]
    error: NotRequired[str]


class LogLevelsBody(TypedDict):
    processes: list[ProcessLevels]


class LogLevelsRequest(msgspec.Struct):
    """The level of each logger by its name; None takes what is set away."""

    levels: dict[str, str | None]


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
        return {
            "logs": [
                {"name": path.name, "size": status.st_size, "mtime": int(status.st_mtime * 1000)}
                for path, status in _log_files(info)
            ]
        }

    @router.get("/jobmanager/logs/{name}")
    def log(name: str) -> Response:
        # Only what the list shows is served, so that no name leads elsewhere.
        found = next((path for path, _ in _log_files(info) if path.name == name), None)
        if found is None:
            raise RestError(404, f"The file {name[:100]} does not exist.")
        return _text(found)

    @router.get("/jobmanager/log")
    def newest_log() -> Response:
        newest = max(_log_files(info), key=lambda found: found[1].st_mtime, default=None)
        if newest is None:
            raise RestError(404, "The server keeps no log.")
        return _text(newest[0])

    @router.get("/jobmanager/stdout")
    def stdout() -> Response:
        return text_answer(info.printed())

    return router


def _text(path: Path) -> Response:
    return FileResponse(path, media_type="text/plain; charset=UTF-8")


def _log_files(info: ServerInfo) -> list[tuple[Path, os.stat_result]]:
    directory = info.log_directory
    if directory is None or not directory.is_dir():
        return []
    found = []
    for path in sorted(directory.iterdir()):
        # One that is gone has made room for another.
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found.append((path, status))
    return found


def log_level_routes(view: ClusterView) -> APIRouter:
    """`/log-levels`: the levels of loggers, of the server and of its TaskManagers, while they run. Not one of Flink's."""
    router = APIRouter(route_class=RestRoute)

    @router.get("/log-levels")
    def levels() -> LogLevelsBody:
        return _levels(view, {})

    @router.put("/log-levels", openapi_extra=reads(LogLevelsRequest))
    async def change(request: Request) -> LogLevelsBody:
        asked = await read_value(request, LogLevelsRequest, LEVELS_BYTES_MAX)
        wanted = checked_levels({name: level or "" for name, level in asked.levels.items()})
        return await run_in_threadpool(_levels, view, wanted)

    return router


def _levels(view: ClusterView, levels: dict[str, str]) -> LogLevelsBody:
    """Set these levels here and in every TaskManager, and in those to come; all that are set then."""
    if levels:
        view.cluster.keep_log_levels(levels)
    processes: list[ProcessLevels] = [{"process": "server", "levels": set_levels(levels)}]
    for found in view.cluster.task_managers():
        name = rest_id(found.task_manager_id)
        try:
            reply = view.cluster.log_levels(found.address, SetLogLevels(levels))
            processes.append({"process": name, "levels": reply.levels})
        except SqlStreamError as error:
            processes.append({"process": name, "levels": {}, "error": error.message})
    return {"processes": processes}
