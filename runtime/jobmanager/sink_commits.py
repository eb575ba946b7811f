"""What the sinks of a job have written, as far as its subtasks have reported it, and how far its commits are."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Set

from sqlstream.errors import InternalError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.runtime.jobmanager.events import SinkCommit
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable


class CommitState(enum.Enum):
    """PENDING ─► COMMITTING ─► COMMITTED; a commit that fails is PENDING again."""

    PENDING = "PENDING"
    COMMITTING = "COMMITTING"
    COMMITTED = "COMMITTED"


class SinkCommits:
    """The commits of a job, one for each completed checkpoint, in the order of the checkpoints; the end of the job is the last.
    One is under way at a time.

    State: the commits that are not COMMITTED yet, the newest id that is, and the newest that was begun. An id is forgotten with
    the next one."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[SinkCommit, ...]] = {}
        self._newest_id = 0
        self._is_committing = False
        self.newest_begun_id = 0

    @property
    def open(self) -> dict[int, tuple[SinkCommit, ...]]:
        """The commits that are PENDING or COMMITTING, by checkpoint."""
        return self._open

    @property
    def is_under_way(self) -> bool:
        """Whether an answer is due."""
        return self._is_committing

    @property
    def are_waiting(self) -> bool:
        """Whether a commit has not begun yet, or has failed."""
        return len(self._open) > self._is_committing

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
        begun = next(iter(self._open.items()))
        self.newest_begun_id = max(self.newest_begun_id, begun[0])
        return begun

    def withdraw(self, checkpoint_id: int) -> tuple[SinkCommit, ...]:
        """Forget the commits of checkpoints after this one. InternalError when one of them has begun."""
        if self.newest_begun_id > checkpoint_id:
            raise InternalError(f"the commit of checkpoint {self.newest_begun_id} has begun")
        withdrawn = [n for n in self._open if n > checkpoint_id]
        return tuple(commit for n in withdrawn for commit in self._open.pop(n))

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
        """All that the attempt has reported and no commit has."""
        for (operator_id, _), committable in subtask.execution.committables.items():
            self.put(subtask.vertex.id, operator_id, committable)

    def put(self, vertex_id: str, operator_id: int, committable: Committable) -> None:
        key = (vertex_id, operator_id)
        self._committables[key] = (*self._committables.get(key, ()), committable)

    def rescale(self, job_graph: JobGraph) -> None:
        """Operators are in other vertices from here on."""
        vertices = {o.id: v.id for v in job_graph.vertices for o in v.operators}
        self._committables = {
            (vertices[operator_id], operator_id): found
            for (_, operator_id), found in self._committables.items()
        }

    def of(self, vertex_id: str, operator_id: int) -> tuple[Committable, ...]:
        return self._committables.get((vertex_id, operator_id), ())


def sink_commits(
    graph: ExecutionGraph, checkpoint_id: int = LAST_CHECKPOINT_ID, finished: Set[str] = frozenset()
) -> tuple[SinkCommit, ...]:
    """What the current attempts have written up to a checkpoint, by sink, and all of those that had `finished` before it. At the
    end of the job every sink is among them: one without rows may have to create an empty result."""
    commits = []
    for vertex_id, sink in _sinks(graph):
        committables = tuple(
            committable
            for subtask in graph.vertices[vertex_id]
            for (operator_id, _), committable in subtask.execution.committables.items()
            if operator_id == sink.id
            and (committable.checkpoint_id <= checkpoint_id or subtask.execution.execution_id in finished)
        )
        if committables or checkpoint_id == LAST_CHECKPOINT_ID:
            assert isinstance(sink.spec, SinkSpec)
            commits.append(SinkCommit(vertex_id, sink.id, sink.spec, committables))
    return tuple(commits)


def sink_leftovers(
    graph: ExecutionGraph, commits: SinkCommits, discarded: DiscardedOutput, is_unclean: bool
) -> tuple[SinkCommit, ...]:
    """What has to be removed at the end of a job: all but what is committed. Sinks without committables are in it when tasks
    may have left what they have not reported (`is_unclean`)."""
    leftovers = []
    unfinished = [commit for of_checkpoint in commits.open.values() for commit in of_checkpoint]
    for commit in sink_commits(graph):
        sink = (commit.vertex_id, commit.operator_id)
        written = commit.committables
        for other in unfinished:
            if (other.vertex_id, other.operator_id) == sink:
                written += other.committables
        written += discarded.of(*sink)
        if written or is_unclean:
            leftovers.append(SinkCommit(*sink, commit.spec, written))
    return tuple(leftovers)


def _sinks(graph: ExecutionGraph) -> Iterator[tuple[str, ChainedOperator]]:
    for vertex in graph.job_graph.vertices:
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                yield vertex.id, operator
