"""The sources of one job whose readers are assigned their splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from runtime.jobmanager.events import DiscoveryFailed, GiveBackSplits, SplitsDiscovered, StartEnumerator
from runtime.jobmanager.execution_graph import ExecutionVertex
from runtime.jobmanager.split_assignment import SplitAssignment
from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import TaskRestore
from sqlstream.messages.manifest import VertexState
from sqlstream.messages.rpc import RequestSplits
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import AssignedSplits


class JobSources:
    """One SplitAssignment per source vertex. State: these, and which enumerators have to be started anew."""

    def __init__(self, job_graph: JobGraph, enumerates: Callable[[str], bool]) -> None:
        self._job_graph = job_graph
        self._assignments: dict[str, SplitAssignment] = {}
        for vertex in job_graph.vertices:
            spec = vertex.operators[0].spec
            if isinstance(spec, SourceSpec) and enumerates(spec.connector):
                self._assignments[vertex.id] = SplitAssignment(vertex.parallelism)
        self._failed: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self._assignments

    @property
    def are_discovered(self) -> bool:
        return all(a.is_discovered for a in self._assignments.values())

    def start(self) -> list[StartEnumerator]:
        return [self._start(vertex_id) for vertex_id in self._assignments]

    def first(self, subtask: ExecutionVertex) -> AssignedSplits | None:
        """The splits that an attempt begins with; None for a vertex that is not assigned any."""
        assignment = self._assignments.get(subtask.vertex.id)
        return assignment.first(subtask.subtask) if assignment is not None else None

    def on_discovered(self, event: SplitsDiscovered) -> list[tuple[int, int, AssignedSplits]]:
        """(subtask, number, assignment) for readers that have waited."""
        assignment = self._assignments[event.vertex_id]
        assignment.on_discovered(event.discovery)
        return assignment.pushed()

    def on_failed(self, event: DiscoveryFailed) -> ErrorInfo:
        """The error with its place in the statement."""
        self._failed.add(event.vertex_id)
        vertex = self._job_graph.vertex(event.vertex_id)
        span = event.error.span or vertex.operators[0].span
        return msgspec.structs.replace(event.error, vertex=vertex.name, span=span)

    def on_request(
        self, subtask: ExecutionVertex, request: RequestSplits
    ) -> tuple[AssignedSplits | None, GiveBackSplits | None]:
        assignment = self._assignments.get(subtask.vertex.id)
        if assignment is None:
            return None, None
        returned = assignment.on_returned(subtask.subtask, request.returned)
        give_back = GiveBackSplits(self._job_graph.job_id, subtask.vertex.id, returned) if returned else None
        return assignment.on_request(subtask.subtask, request.number), give_back

    def snapshot(
        self, checkpoint_id: int, acknowledged: Mapping[str, Sequence[int | None]]
    ) -> dict[str, dict[str, Any]]:
        """By vertex id what no reader has."""
        return {vertex_id: a.snapshot() for vertex_id, a in self._assignments.items()}

    def on_completed(self, checkpoint_id: int) -> None: ...

    def forget(self, checkpoint_id: int) -> None: ...

    def restore(
        self, checkpoint_id: int, enumerators: Mapping[str, dict[str, Any]], vertices: Iterable[VertexState]
    ) -> None:
        for vertex_id, snapshot in enumerators.items():
            self._assignments[vertex_id].restore(snapshot)

    def start_anew(self, subtask: ExecutionVertex, restore: TaskRestore | None) -> StartEnumerator | None:
        """A failed attempt is about to be replaced; returns what else has to be started."""
        vertex_id = subtask.vertex.id
        assignment = self._assignments.get(vertex_id)
        if assignment is None:
            return None
        assignment.add_splits_back(subtask.subtask)
        if vertex_id not in self._failed:
            return None
        self._failed.discard(vertex_id)
        return self._start(vertex_id)

    def _start(self, vertex_id: str) -> StartEnumerator:
        vertex = self._job_graph.vertex(vertex_id)
        spec: Any = vertex.operators[0].spec
        job = self._job_graph
        return StartEnumerator(job.job_id, vertex_id, spec, vertex.parallelism, job.config)
