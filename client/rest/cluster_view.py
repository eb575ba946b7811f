"""The cluster as the REST's routes read it: jobs, vertices and TaskManagers by the ids in a URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from sqlstream import config as options
from sqlstream.client.http_api.errors import RestError
from sqlstream.client.rest.info import ServerInfo
from sqlstream.client.rest.metric_view import job_metrics
from sqlstream.client.rest.parameters import checked_id, checked_number
from sqlstream.client.rest.process_figures import ProcessFigures, ProcessReader
from sqlstream.client.rest.task_manager_view import Assignment, assignments, rest_id
from sqlstream.errors import SqlStreamError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.messages.rpc import JobDetails, Metrics, SubtaskDetails, TaskManagerOverview, VertexDetails
from sqlstream.runtime.host.clock import now_ms

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ServedCluster

_NETWORK_MEMORY = "taskmanager.memory.network.max"


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

    def job_metrics(self, job: JobDetails) -> Metrics:
        return job_metrics(job, self.cluster.metrics(job.job_id).total, self.now_ms())

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        return self.cluster.checkpoints(checked_id("jobid", job_id))

    def vertex(self, job_id: str, vertex_id: str) -> VertexDetails:
        id = checked_id("vertexid", vertex_id)
        job = self.job(job_id)
        found = next((vertex for vertex in job.vertices if vertex.id == id), None)
        if found is None:
            raise RestError(404, f"JobVertex {id} not found")
        return found

    def planned(self, job_id: str, vertex_id: str) -> JobVertex:
        """A vertex of the job's plan, which `vertex` has found."""
        return self.graph(job_id).vertex(checked_id("vertexid", vertex_id))

    def subtask(self, job_id: str, vertex_id: str, index: str) -> SubtaskDetails:
        number = checked_number("subtaskindex", index)
        vertex = self.vertex(job_id, vertex_id)
        if number >= len(vertex.subtasks):
            raise RestError(404, f"Invalid subtask index for vertex {vertex.id}")
        return vertex.subtasks[number]

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
