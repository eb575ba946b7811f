"""What the sinks of a job have written, as far as its subtasks have reported it, and how far its commits are."""

from __future__ import annotations

import enum

from runtime.jobmanager.events import SinkCommit
from runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.errors import InternalError
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable


class CommitState(enum.Enum):
    """PENDING ─► COMMITTING ─► COMMITTED; a commit that fails is PENDING again."""

    PENDING = "PENDING"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"


class SinkCommits:
    """The commits of a job, one for each completed checkpoint, in the order of the checkpoints; the end of the job is the last.
    One is under way at a time.

    State: the commits that are not COMMITTED yet, and the newest id that is. An id is forgotten with the next one."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[SinkCommit, ...]] = {}
        self._newest_id = 0
        self._is_committing = False

    def add(self, checkpoint_id: int, commits: tuple[SinkCommit, ...]) -> None:
        """The checkpoint is complete. InternalError for one that is not newer than all before."""
        if checkpoint_id <= max(self._open, default=self._newest_id):
            raise InternalError(f"checkpoint {checkpoint_id} is completed after a newer one")
        self._open[checkpoint_id] = commits

    def begin(self) -> tuple[int, tuple[SinkCommit, ...]] | None:
        """The commit to be carried out now, which is COMMITTING from here on; None while another one is, and without any."""
        if self._is_committing or not self._open:
            return None
        self._is_committing = True
        return next(iter(self._open.items()))

    def committed(self, checkpoint_id: int) -> bool:
        """False for an answer that comes late or twice."""
        if not self._is_under_way(checkpoint_id):
            return False
        del self._open[checkpoint_id]
        self._newest_id, self._is_committing = checkpoint_id, False
        return True

    def failed(self, checkpoint_id: int) -> bool:
        """False for an answer that comes late or twice."""
        if not self._is_under_way(checkpoint_id):
            return False
        self._is_committing = False
        return True

    def state(self, checkpoint_id: int) -> CommitState | None:
        """None for a checkpoint that is not complete."""
        if self._is_under_way(checkpoint_id):
            return CommitState.COMMITTING
        if checkpoint_id in self._open:
            return CommitState.PENDING
        return CommitState.COMMITTED if checkpoint_id <= self._newest_id else None

    def _is_under_way(self, checkpoint_id: int) -> bool:
        return self._is_committing and checkpoint_id == next(iter(self._open))


class DiscardedOutput:
    """The committables of attempts that later ones have replaced, by sink: nobody may see them, and they are removed when the
    job ends. State: these, for the life of the job."""

    def __init__(self) -> None:
        self._committables: dict[tuple[str, int], tuple[Committable, ...]] = {}

    def add(self, subtask: ExecutionVertex) -> None:
        for sink in subtask.execution.committables:
            if sink.committables:
                key = (subtask.vertex.id, sink.operator_id)
                self._committables[key] = (*self._committables.get(key, ()), *sink.committables)

    def of(self, vertex_id: str, operator_id: int) -> tuple[Committable, ...]:
        return self._committables.get((vertex_id, operator_id), ())


def sink_commits(graph: ExecutionGraph) -> tuple[SinkCommit, ...]:
    """Every sink of the job with what the current attempts have written, also those without committables: a sink without rows
    may have to create an empty result."""
    commits = []
    for vertex in graph.job_graph.vertices:
        reported = [s.execution.committables for s in graph.vertices[vertex.id]]
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                parts = [c for task in reported for c in task if c.operator_id == operator.id]
                committables = tuple(c for part in parts for c in part.committables)
                commits.append(SinkCommit(vertex.id, operator.id, operator.spec, committables))
    return tuple(commits)


def sink_leftovers(
    graph: ExecutionGraph, commits: SinkCommits, discarded: DiscardedOutput, is_unclean: bool
) -> tuple[SinkCommit, ...]:
    """What has to be removed at the end of a job: all but what is committed. Sinks without committables are in it when tasks
    may have left what they have not reported (`is_unclean`)."""
    leftovers = []
    for commit in sink_commits(graph):
        written = tuple(
            c for c in commit.committables if commits.state(c.checkpoint_id) is not CommitState.COMMITTED
        )
        written += discarded.of(commit.vertex_id, commit.operator_id)
        if written or is_unclean:
            leftovers.append(SinkCommit(commit.vertex_id, commit.operator_id, commit.spec, written))
    return tuple(leftovers)
