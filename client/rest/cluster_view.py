"""The cluster as the REST's routes read it: jobs, vertices, TaskManagers and processes by the ids in a URL."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from sqlstream import config as options
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.route import checked_id, checked_number
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.messages.rpc import JobDetails, SubtaskDetails, TaskManagerOverview, VertexDetails
from sqlstream.runtime.host.clock import now_ms, steady_s

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ServedCluster


FLINK_VERSION = "2.3.0"
"""The release of Flink whose protocol the answers follow; clients compare it with their own."""


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """`version` is the product's. `config` are the options in force, shown with secrets masked. `log_directory` holds the
    server's log files, which `/jobmanager/logs` lists; without one there are none. `task_manager_log` reads the latest
    records of a TaskManager by its resource id, and `printed` those of print tables."""

    version: str
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refresh_interval_ms: int = 3000
    is_cancel_enabled: bool = True
    log_directory: Path | None = None
    task_manager_log: Callable[[str], str] = lambda resource_id: ""
    printed: Callable[[], str] = lambda: ""
    flink_version: str = FLINK_VERSION

    @property
    def revision(self) -> str:
        return f"sqlstream-{self.version}"


PROCESSES_MAX = 1024
"""How many processes' last readings are kept."""

_PAUSE_S = 1.0
"""A load is measured over at least this long; an earlier question gets the load before."""


@dataclasses.dataclass(frozen=True)
class ProcessFigures:
    """`cpu_load` is the share of all cores, from 0 to 1, since the reading before (at first since the process started)."""

    cpu_seconds: float
    cpu_load: float
    rss_bytes: int
    threads: int

    def as_metrics(self) -> dict[str, int | float]:
        """Under the names that Flink's dashboards look for. All of a Python process is outside of a Java heap."""
        return {
            "Status.JVM.CPU.Load": self.cpu_load,
            "Status.JVM.CPU.Time": int(self.cpu_seconds * 1e9),
            "Status.JVM.Memory.NonHeap.Used": self.rss_bytes,
            "Status.JVM.Memory.NonHeap.Committed": self.rss_bytes,
            "Status.JVM.Threads.Count": self.threads,
        }


class ProcessReader:
    """Reads processes by id. Thread-safe. State: per process its last CPU time and load, the oldest dropped beyond
    PROCESSES_MAX."""

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[float, float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, process_id: int) -> ProcessFigures | None:
        """None when no such process runs on this machine."""
        try:
            process = psutil.Process(process_id)
            with process.oneshot():
                times = process.cpu_times()
                cpu_s = times.user + times.system
                age_s = now_ms() / 1000 - process.create_time()
                return ProcessFigures(
                    cpu_s,
                    self._load(process_id, cpu_s, age_s),
                    process.memory_info().rss,
                    process.num_threads(),
                )
        except psutil.Error:
            return None

    def _load(self, process_id: int, cpu_s: float, age_s: float) -> float:
        cores = psutil.cpu_count() or 1
        now_s = steady_s()
        with self._lock:
            then_s, then_cpu_s, load = self._last.get(process_id, (now_s - age_s, 0.0, -1.0))
            if load >= 0 and now_s - then_s < _PAUSE_S:
                return load
            load = min(1.0, max(0.0, (cpu_s - then_cpu_s) / max(now_s - then_s, 1e-6) / cores))
            self._last[process_id] = (now_s, cpu_s, load)
            self._last.move_to_end(process_id)
            while len(self._last) > PROCESSES_MAX:
                self._last.popitem(last=False)
        return load


_NETWORK_MEMORY = "taskmanager.memory.network.max"


def rest_id(task_manager_id: str) -> str:
    """A TaskManager's id as it stands in a URL, where `#` would begin a fragment.

    >>> rest_id("tm-3#1")
    'tm-3-1'
    """
    return task_manager_id.replace("#", "-")


def resource_id(task_manager_id: str) -> str:
    """The process that a registration is of, by which its log records are named.

    >>> resource_id("tm-3#1")
    'tm-3'
    """
    return task_manager_id.partition("#")[0]


@dataclasses.dataclass(frozen=True)
class Assignment:
    """The tasks that one job runs on one TaskManager, and the slots that they are in."""

    job_id: str
    slots: int
    tasks: int


def assignments(jobs: Iterable[JobDetails]) -> dict[str, list[Assignment]]:
    """The live tasks of all jobs by TaskManager. One slot runs one subtask of every vertex."""
    found: dict[str, list[Assignment]] = {}
    for job in jobs:
        subtasks: dict[str, list[int]] = {}
        for subtask in (s for vertex in job.vertices for s in vertex.subtasks if not s.state.is_terminal):
            if subtask.task_manager_id:
                subtasks.setdefault(subtask.task_manager_id, []).append(subtask.subtask)
        for task_manager_id, indexes in subtasks.items():
            assignment = Assignment(job.job_id, len(set(indexes)), len(indexes))
            found.setdefault(task_manager_id, []).append(assignment)
    return found


def endpoint_of(subtask: SubtaskDetails) -> str:
    """TaskManagers have no host and port that a client could use: their id names them."""
    return rest_id(subtask.task_manager_id) or "(unassigned)"


class ClusterView:
    """Answers questions about one cluster; RestError for ids that it does not have. Thread-safe; its calls wait for the
    JobManager. State: the last readings of processes."""

    def __init__(self, cluster: ServedCluster, info: ServerInfo) -> None:
        self.cluster = cluster
        self.info = info
        self._processes = ProcessReader()

    def now_ms(self) -> int:
        return now_ms()

    # --- jobs

    def job(self, job_id: str) -> JobDetails:
        return self.cluster.details(checked_id("jobid", job_id))

    def graph(self, job_id: str) -> JobGraph:
        return self.cluster.job_graph(checked_id("jobid", job_id))

    def described(self, job_id: str) -> tuple[JobDetails, JobGraph]:
        """The job and its graph, both of one moment."""
        return self.cluster.described(checked_id("jobid", job_id))

    def check_runs(self, job_id: str, what: str, ends_it: bool = False) -> None:
        """RestError 409 for a job that has ended, and 403 for a request that ends a job where that is turned off."""
        status = self.cluster.status(job_id).status
        if ends_it and not self.info.is_cancel_enabled:
            raise RestError(403, "Cancelling jobs is turned off on this server.")
        if status.is_globally_terminal:
            said = (
                f"{what} failed because the job has already reached another terminal state ({status.value})."
            )
            raise RestError(409, said)

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        return self.cluster.checkpoints(checked_id("jobid", job_id))

    def vertex(self, job_id: str, vertex_id: str) -> VertexDetails:
        return self.planned_vertex(job_id, vertex_id)[0]

    def planned_vertex(self, job_id: str, vertex_id: str) -> tuple[VertexDetails, JobVertex]:
        """A vertex, and what the plan says of it."""
        id = checked_id("vertexid", vertex_id)
        job, graph = self.described(job_id)
        found = next((vertex for vertex in job.vertices if vertex.id == id), None)
        if found is None:
            raise RestError(404, f"JobVertex {id} not found")
        return found, graph.vertex(id)

    def subtask(self, job_id: str, vertex_id: str, index: str) -> SubtaskDetails:
        return self.planned_subtask(job_id, vertex_id, index)[0]

    def planned_subtask(self, job_id: str, vertex_id: str, index: str) -> tuple[SubtaskDetails, JobVertex]:
        number = checked_number("subtaskindex", index)
        vertex, planned = self.planned_vertex(job_id, vertex_id)
        if number >= len(vertex.subtasks):
            raise RestError(404, f"Invalid subtask index for vertex {vertex.id}")
        return vertex.subtasks[number], planned

    def live_jobs(self) -> list[JobDetails]:
        """Details of all jobs that have not ended: one call each."""
        found = []
        for entry in self.cluster.jobs():
            if not entry.status.is_terminal:
                try:
                    found.append(self.cluster.details(entry.job_id))
                except SqlStreamError:
                    # It has ended and been forgotten since the list was made.
                    continue
        return found

    # --- TaskManagers

    def task_manager(self, id: str) -> TaskManagerOverview:
        found = next((t for t in self.cluster.task_managers() if rest_id(t.task_manager_id) == id), None)
        if found is None:
            raise RestError(404, f"Task manager {id[:100]} not found")
        return found

    def assignments(self) -> dict[str, list[Assignment]]:
        return assignments(self.live_jobs())

    def network_bytes(self) -> int | None:
        """How much memory a TaskManager gives to its channels, where that is known."""
        found: int = self.setting(_NETWORK_MEMORY)
        return found

    def setting(self, key: str) -> Any:
        """The value of one of the server's options."""
        text = self.info.config.get(key)
        return options.option(key).parse(text) if text else options.get({}, key)

    # --- processes

    def process_of(self, found: TaskManagerOverview) -> ProcessFigures | None:
        return self._processes.read(found.process_id)

    def own_process(self) -> ProcessFigures | None:
        return self._processes.read(os.getpid())
