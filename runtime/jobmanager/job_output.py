"""What the sinks of one job have written, until it is committed or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlstream.errors import ErrorInfo, InternalError
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.manifest import SavedCommit
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.sink_commits import (
    DiscardedOutput,
    SinkCommits,
    sink_commits,
    sink_leftovers,
)
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, writer_name


class JobOutput:
    """Carries out the commits of a job one after the other, those that failed again, and names what is left over at its end.

    State: the commits, the checkpoint with which the job was stopped (`last_id`), the tables that are read, the output of
    replaced attempts, those of their writers that may have left rows, when a commit that failed is repeated and why it failed,
    whether no commit is tried any more, and whether there may be output that no committable names (`is_unclean`)."""

    def __init__(self, graph: ExecutionGraph, emit: Callable[[events.JobMasterInstruction], None]) -> None:
        self.commits = SinkCommits()
        self.is_unclean = False
        self.is_given_up = False
        self.retry_ms: int | None = None
        self.retry_error: ErrorInfo | None = None
        self.last_id: int | None = None
        self._read: tuple[events.ReadTable, ...] = ()
        self._discarded = DiscardedOutput()
        self._dead_writers: list[tuple[SinkSpec, str]] = []
        self._graph = graph
        self._job_id = graph.job_graph.job_id
        self._emit = emit

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way, and nothing is left to be begun."""
        return not self.commits.is_under_way and (self.is_given_up or not self.commits.open)

    def commit_next(self, now_ms: int) -> None:
        """Begin the oldest commit, unless one is under way or has to wait for its repetition."""
        if self.is_given_up or (self.retry_ms is not None and now_ms < self.retry_ms):
            return
        self.retry_ms = self.retry_error = None
        if (begun := self.commits.begin()) is not None:
            is_last = begun[0] in (LAST_CHECKPOINT_ID, self.last_id)
            read = self._read if begun[0] == LAST_CHECKPOINT_ID else ()
            self._emit(events.CommitSinks(self._job_id, *begun, is_last, read))

    def commit_last(self, read: tuple[events.ReadTable, ...]) -> None:
        """The end of the job is its last checkpoint, which is complete when all tasks have finished."""
        self._read = read
        if commits := sink_commits(self._graph):
            self.commits.add(LAST_CHECKPOINT_ID, commits)
        for execution in self._graph.executions():
            execution.drop_committables(LAST_CHECKPOINT_ID)

    def repeat(self, checkpoint_id: int, saved: Iterable[SavedCommit]) -> None:
        """A checkpoint that the job is restored from brings its commit again."""
        commits = tuple(events.SinkCommit(c.vertex_id, c.operator_id, c.spec, c.committables) for c in saved)
        self.commits.add(checkpoint_id, commits)

    def discard(self, subtask: ExecutionVertex) -> None:
        """An attempt is replaced: what it wrote after the checkpoint that the next one goes on from does not count."""
        self._discarded.add(subtask)
        execution = subtask.execution
        if execution.allocation_id:
            for operator in subtask.vertex.operators:
                if isinstance(operator.spec, SinkSpec):
                    name = writer_name(execution.allocation_id, execution.execution_id, operator.id)
                    self._dead_writers.append((operator.spec, name))

    def remove_discarded(self) -> None:
        """Have removed what replaced attempts have staged, once all is committed that complete checkpoints have of it."""
        if self.commits.open or not self._dead_writers:
            return
        by_sink: dict[int, events.StagedRows] = {}
        for spec, name in self._dead_writers:
            found = by_sink.get(id(spec), events.StagedRows(spec, ()))
            by_sink[id(spec)] = events.StagedRows(spec, (*found.writer_names, name))
        self._dead_writers.clear()
        self._emit(events.RemoveStagedRows(self._job_id, tuple(by_sink.values())))

    def rescale(self) -> None:
        """The graph has other vertices from here on. No commit may be open, since they name vertices."""
        if self.commits.open:
            raise InternalError(f"commits {list(self.commits.open)} of job {self._job_id} are open")
        self._discarded.rescale(self._graph.job_graph)

    def withdraw(self, checkpoint_id: int) -> None:
        """The job goes back to this checkpoint: commits of later ones, of which none has begun, do not count."""
        for commit in self.commits.withdraw(checkpoint_id):
            for committable in commit.committables:
                self._discarded.put(commit.vertex_id, commit.operator_id, committable)

    def remove_leftovers(self, end: JobStatus | None = None, error: ErrorInfo | None = None) -> bool:
        """False when there are none. `end` is how the job ends with it, None when it is complete."""
        leftovers = sink_leftovers(self._graph, self.commits, self._discarded, self.is_unclean)
        if leftovers:
            self._emit(events.AbortSinks(self._job_id, leftovers, end, error))
        return bool(leftovers)
