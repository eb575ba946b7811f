"""The ExecutionGraph: the subtasks of a job, their attempts and states (Flink: ExecutionGraph)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlstream.errors import ErrorInfo, InternalError
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import Metrics, SinkCommittables, TaskMetrics
from sqlstream.runtime.story import Story
from sqlstream.spi.committable import Committable

ATTEMPTS_KEPT = 16
"""How many ended attempts of a subtask are kept (Flink: jobmanager.execution.attempts-history-size)."""


class Execution:
    """One attempt to run one subtask. Its state changes along `EXECUTION_TRANSITIONS` only, and each change is
    timed.

    State: its TaskManager and slot, the last sequence number that its TaskManager reported, the committables that it has
    reported and that belong to no completed checkpoint yet, the checkpoint that it went on from (0: none), its latest metrics.
    Kept as long as the job.
    """

    def __init__(self, execution_id: str, attempt: int, now_ms: int, story: Story) -> None:
        self.execution_id = execution_id
        self.attempt = attempt
        self.state = ExecutionState.CREATED
        self.timestamps_ms = {ExecutionState.CREATED.value: now_ms}
        self.task_manager_id = ""
        self.address = ""
        self.allocation_id = ""
        self.last_sequence = -1
        self.sent_ms = 0
        self.error: ErrorInfo | None = None
        self.committables: dict[tuple[int, str], Committable] = {}
        self.restored_id = 0
        self.metrics: TaskMetrics | None = None
        self._story = story

    @property
    def is_terminal(self) -> bool:
        return self.state.is_terminal

    def add_committables(self, reported: Iterable[SinkCommittables], completed_id: int) -> None:
        """Those that belong to no completed checkpoint. What was reported before is dropped."""
        for sink in reported:
            for committable in sink.committables:
                if committable.checkpoint_id > completed_id:
                    self.committables[sink.operator_id, committable.key] = committable

    def drop_committables(self, completed_id: int) -> None:
        """The commit of a completed checkpoint has those up to it."""
        self.committables = {k: c for k, c in self.committables.items() if c.checkpoint_id > completed_id}

    def transition(self, target: ExecutionState, now_ms: int) -> None:
        """InternalError with the job's story when `EXECUTION_TRANSITIONS` has no such transition."""
        check_execution_transition(self.state, target, self.execution_id, self._story)
        self._story.add(now_ms, f"{self.execution_id} {self.state.value} -> {target.value}")
        self.state = target
        self.timestamps_ms[target.value] = now_ms

    def follow(self, reported: ExecutionState, now_ms: int) -> None:
        """Change to the state that the TaskManager reports, through the states whose reports were lost."""
        if self.is_terminal or reported is self.state:
            return
        for state in steps_to(self.state, reported):
            self.transition(state, now_ms)


class ExecutionVertex:
    """One subtask of a vertex; `execution` is its current attempt, `earlier` the newest `ATTEMPTS_KEPT` before it. `counted` is
    what attempts before it have counted up to the checkpoint that it goes on from, by operator."""

    def __init__(self, vertex: JobVertex, index: int, subtask: int, first: Execution) -> None:
        self.vertex = vertex
        self.index = index
        self.subtask = subtask
        self.execution = first
        self.earlier: list[Execution] = []
        self.counted: dict[int, Metrics] = {}


class ExecutionGraph:
    """All subtasks of a job, in the topological order of its vertices. Ids are derived, so that a run can be
    repeated; `run` is a part of them, by which those of one JobManager differ from those of the next.

    State: the subtasks, and the last attempts of those that a rescale has replaced, whose reports may still come."""

    def __init__(self, job_graph: JobGraph, now_ms: int, story: Story, run: str = "") -> None:
        self._story = story
        self._run = f"-{run}" if run else ""
        self._replaced: dict[str, Execution] = {}
        self._lay_out(job_graph, 0, now_ms)

    def _lay_out(self, job_graph: JobGraph, attempt: int, now_ms: int) -> None:
        self.job_graph = job_graph
        self.vertices: dict[str, tuple[ExecutionVertex, ...]] = {}
        self._by_id: dict[str, ExecutionVertex] = {}
        for index, vertex in enumerate(job_graph.vertices):
            subtasks = tuple(
                ExecutionVertex(vertex, index, i, self._attempt(index, i, attempt, now_ms))
                for i in range(vertex.parallelism)
            )
            self.vertices[vertex.id] = subtasks
            self._by_id.update((s.execution.execution_id, s) for s in subtasks)
        self._subtasks = tuple(s for subtasks in self.vertices.values() for s in subtasks)

    def rescale(self, job_graph: JobGraph, now_ms: int) -> None:
        """Replace all subtasks, whose attempts must have ended, by those of a graph of the same operators. Attempts go on
        counting from the highest, so that no id comes twice."""
        ended = list(self.executions())
        for execution in ended:
            if not execution.is_terminal:
                raise InternalError(
                    f"{execution.execution_id} is {execution.state.value}, and would be replaced",
                    story=self._story.lines(),
                )
        self._replaced = {execution.execution_id: execution for execution in ended}
        self._lay_out(job_graph, 1 + max(execution.attempt for execution in ended), now_ms)

    def _attempt(self, index: int, subtask: int, attempt: int, now_ms: int) -> Execution:
        execution_id = f"{self.job_graph.job_id}{self._run}-{index}-{subtask}-{attempt}"
        return Execution(execution_id, attempt, now_ms, self._story)

    def start_anew(self, subtask: ExecutionVertex, now_ms: int) -> None:
        """Give a subtask whose attempt has ended its next one."""
        ended = subtask.execution
        if not ended.is_terminal:
            raise InternalError(
                f"{ended.execution_id} is {ended.state.value}, and would be started anew",
                story=self._story.lines(),
            )
        subtask.earlier.append(ended)
        for forgotten in subtask.earlier[:-ATTEMPTS_KEPT]:
            del self._by_id[forgotten.execution_id]
        del subtask.earlier[:-ATTEMPTS_KEPT]
        subtask.execution = self._attempt(subtask.index, subtask.subtask, ended.attempt + 1, now_ms)
        self._by_id[subtask.execution.execution_id] = subtask

    def subtasks(self) -> tuple[ExecutionVertex, ...]:
        return self._subtasks

    def executions(self) -> Iterator[Execution]:
        return (s.execution for s in self._subtasks)

    def find(self, execution_id: str) -> ExecutionVertex | None:
        """The subtask whose current attempt has this id."""
        found = self._by_id.get(execution_id)
        return found if found is not None and found.execution.execution_id == execution_id else None

    def find_earlier(self, execution_id: str) -> Execution | None:
        """The attempt with this id, when a later one has taken its place."""
        if execution_id in self._replaced:
            return self._replaced[execution_id]
        found = self._by_id.get(execution_id)
        earlier = found.earlier if found is not None else ()
        return next((e for e in earlier if e.execution_id == execution_id), None)

    def are_all(self, state: ExecutionState) -> bool:
        return all(e.state is state for e in self.executions())

    def are_all_terminal(self) -> bool:
        return all(e.is_terminal for e in self.executions())


_ORDER_OF_VERTEX_STATES = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.CREATED,
    ExecutionState.SCHEDULED,
    ExecutionState.RECONCILING,
    ExecutionState.DEPLOYING,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
    ExecutionState.FINISHED,
)


def vertex_state(subtasks: tuple[ExecutionVertex, ...]) -> ExecutionState:
    """The state of a vertex: FAILED or a cancellation if any subtask has it, else the least advanced (Flink:
    getAggregateJobVertexState)."""
    present = {s.execution.state for s in subtasks}
    return next(state for state in _ORDER_OF_VERTEX_STATES if state in present)


# Checks the transitions of an execution against the diagram in `sqlstream.messages.job_state`.


_E = ExecutionState

EXECUTION_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _E.CREATED: frozenset({_E.SCHEDULED, _E.RECONCILING, _E.CANCELED, _E.FAILED}),
    _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
    _E.DEPLOYING: frozenset({_E.INITIALIZING, _E.CANCELING, _E.FAILED}),
    _E.INITIALIZING: frozenset({_E.RUNNING, _E.CANCELING, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED}),
    _E.RECONCILING: frozenset({_E.INITIALIZING, _E.RUNNING, _E.FINISHED, _E.CANCELED, _E.FAILED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}

_WAY_TO_FINISHED = (_E.DEPLOYING, _E.INITIALIZING, _E.RUNNING, _E.FINISHED)


def check_execution_transition(
    current: ExecutionState, target: ExecutionState, execution_id: str, story: Story
) -> None:
    """InternalError with the story when the diagram has no such arrow."""
    if target not in EXECUTION_TRANSITIONS[current]:
        raise InternalError(
            f"execution {execution_id} cannot go from {current.value} to {target.value}", story=story.lines()
        )


def steps_to(current: ExecutionState, reported: ExecutionState) -> tuple[ExecutionState, ...]:
    """The transitions from `current` to the state that a TaskManager reports; its earlier reports may be lost.

    >>> [s.value for s in steps_to(ExecutionState.DEPLOYING, ExecutionState.RUNNING)]
    ['INITIALIZING', 'RUNNING']
    >>> [s.value for s in steps_to(ExecutionState.CANCELING, ExecutionState.FINISHED)]
    ['CANCELED']
    """
    if current is _E.CANCELING:
        # A task that finished before the cancellation reached it counts as cancelled.
        return (_E.CANCELED,) if reported in (_E.FINISHED, _E.CANCELED) else _only_terminal(reported)
    if reported in (_E.CANCELED, _E.CANCELING):
        return (_E.CANCELING, _E.CANCELED) if reported is _E.CANCELED else (_E.CANCELING,)
    if reported in _WAY_TO_FINISHED and current in _WAY_TO_FINISHED:
        return _WAY_TO_FINISHED[_WAY_TO_FINISHED.index(current) + 1 : _WAY_TO_FINISHED.index(reported) + 1]
    return (reported,)


def _only_terminal(reported: ExecutionState) -> tuple[ExecutionState, ...]:
    return (reported,) if reported.is_terminal else ()
