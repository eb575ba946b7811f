"""The sources of one job whose readers are assigned their splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import TaskRestore
from sqlstream.messages.manifest import VertexState
from sqlstream.messages.rpc import RequestSplits
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex
from sqlstream.runtime.jobmanager.sources.split_assignment import Acknowledged, SplitAssignment
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import AssignedSplits


class JobSources:
    """One SplitAssignment per source vertex.

    A checkpoint that all tasks have acknowledged is told by `snapshot`, and then by `on_completed` or, when it does not become
    one that restarts go on from, by `forget`. A region that restarts goes on from the newest completed one (`start_anew` for
    each of its subtasks): one that is complete but for its storing must then be given up. When all of the job goes back, behind
    that checkpoint or to one of another JobManager, `restore` comes before anything else.

    State: the assignments, which enumerators have to be started anew, the checkpoint that the job began with, and how often it
    began: an enumerator of an earlier time is not heard.
    """

    def __init__(self, job_graph: JobGraph, enumerates: Callable[[str], bool]) -> None:
        self._enumerates = enumerates
        self._read(job_graph)
        self._failed: set[str] = set()
        self._began_with: int | None = None
        self._run = 0

    def _read(self, job_graph: JobGraph) -> None:
        self._job_graph = job_graph
        self._parallelism: dict[str, int] = {}
        for vertex in job_graph.vertices:
            spec = vertex.operators[0].spec
            if isinstance(spec, SourceSpec) and self._enumerates(spec.connector):
                self._parallelism[vertex.id] = vertex.parallelism
        self._assignments = {vertex_id: SplitAssignment(n) for vertex_id, n in self._parallelism.items()}

    def rescale(self, job_graph: JobGraph) -> None:
        """The same sources have other readers from here on; `restore` says what these begin with."""
        self._read(job_graph)

    def begin_anew(self) -> None:
        """The whole job begins with no checkpoint, after `rescale`."""
        self._run += 1
        self._began_with = None
        self._failed.clear()

    @property
    def is_empty(self) -> bool:
        return not self._assignments

    @property
    def are_discovered(self) -> bool:
        return all(a.is_discovered for a in self._assignments.values())

    def start(self) -> list[events.StartEnumerator]:
        """What has still to be looked for."""
        return [self._start(vertex_id) for vertex_id, a in self._assignments.items() if not a.is_complete]

    def first(self, subtask: ExecutionVertex) -> AssignedSplits | None:
        """The splits that an attempt begins with; None for a vertex that is not assigned any."""
        assignment = self._assignments.get(subtask.vertex.id)
        return assignment.first(subtask.subtask) if assignment is not None else None

    def on_discovered(self, event: events.SplitsDiscovered) -> list[tuple[int, int, AssignedSplits]]:
        """(subtask, number, assignment) for readers that have waited."""
        if event.run != self._run:
            return []
        assignment = self._assignments[event.vertex_id]
        assignment.on_discovered(event.discovery, event.state, event.returns)
        return assignment.pushed()

    def on_failed(self, event: events.DiscoveryFailed) -> ErrorInfo | None:
        """The error with its place in the statement; None of an enumerator of an earlier time."""
        if event.run != self._run:
            return None
        self._failed.add(event.vertex_id)
        vertex = self._job_graph.vertex(event.vertex_id)
        span = event.error.span or vertex.operators[0].span
        return msgspec.structs.replace(event.error, vertex=vertex.name, span=span)

    def on_request(
        self, subtask: ExecutionVertex, request: RequestSplits
    ) -> tuple[AssignedSplits | None, events.GiveBackSplits | None]:
        assignment = self._assignments.get(subtask.vertex.id)
        if assignment is None:
            return None, None
        number, returned = assignment.on_returned(subtask.subtask, request.returned, request.returned_earlier)
        give_back = events.GiveBackSplits(self._job_graph.job_id, subtask.vertex.id, returned, number)
        return assignment.on_request(subtask.subtask, request.number), give_back if returned else None

    def read(self) -> tuple[events.ReadTable, ...]:
        """All tables, of a job whose readers have finished."""
        spec_of: dict[str, Any] = {v.id: v.operators[0].spec for v in self._job_graph.vertices}
        return tuple(
            events.ReadTable(spec_of[vertex_id], assignment.enumerator, self._job_graph.config)
            for vertex_id, assignment in self._assignments.items()
            if assignment.enumerator is not None
        )

    # --- checkpoints

    def snapshot(
        self, checkpoint_id: int, acknowledged: Mapping[str, Acknowledged]
    ) -> dict[str, dict[str, Any]]:
        """By vertex id what no reader has; of each source vertex is given what its readers have acknowledged
        (`SubtaskState.assignment`; None for one that had finished)."""
        return {
            vertex_id: assignment.snapshot(checkpoint_id, acknowledged[vertex_id])
            for vertex_id, assignment in self._assignments.items()
        }

    def on_completed(self, checkpoint_id: int) -> None:
        for assignment in self._assignments.values():
            assignment.on_completed(checkpoint_id)

    def forget(self, checkpoint_id: int) -> None:
        """No restart goes on from this checkpoint, as from one that was not stored, and from a savepoint."""
        for assignment in self._assignments.values():
            assignment.forget(checkpoint_id)

    def restore(
        self, checkpoint_id: int, enumerators: Mapping[str, dict[str, Any]], vertices: Iterable[VertexState]
    ) -> None:
        """The whole job begins with a checkpoint, whose vertices have the ids of this job's. Their readers may be more or fewer:
        then the splits of all are distributed anew."""
        self._run += 1
        self._began_with = checkpoint_id
        self._failed.clear()
        self._assignments = {vertex_id: SplitAssignment(n) for vertex_id, n in self._parallelism.items()}
        for vertex in vertices:
            assignment = self._assignments.get(vertex.vertex_id)
            if assignment is not None:
                assignment.restore(enumerators[vertex.vertex_id], vertex.subtasks, vertex.finished)

    def start_anew(
        self, subtask: ExecutionVertex, restore: TaskRestore | None
    ) -> events.StartEnumerator | None:
        """A failed attempt is about to be replaced by one that goes on from `restore`; returns what else has to be started."""
        vertex_id = subtask.vertex.id
        assignment = self._assignments.get(vertex_id)
        if assignment is None:
            return None
        if restore is None or restore.checkpoint_id == self._began_with:
            assignment.start_anew(subtask.subtask, None)
        else:
            state = restore.states[subtask.subtask]
            assignment.start_anew(subtask.subtask, (restore.checkpoint_id, state, restore.is_finished))
        if vertex_id not in self._failed:
            return None
        self._failed.discard(vertex_id)
        return self._start(vertex_id)

    def _start(self, vertex_id: str) -> events.StartEnumerator:
        vertex = self._job_graph.vertex(vertex_id)
        spec: Any = vertex.operators[0].spec
        job = self._job_graph
        assignment = self._assignments[vertex_id]
        return events.StartEnumerator(
            job.job_id,
            vertex_id,
            spec,
            vertex.parallelism,
            job.config,
            state=assignment.enumerator,
            returned=assignment.unhandled,
            run=self._run,
        )
