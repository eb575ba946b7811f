"""Jobs planned from SQL that take checkpoints, and are killed and restored from the last one at another parallelism.

As in moved_jobs.py, but for the cut: barriers flow between the rows, over channels that delay each item at random. The JobMaster
is played: its messages come late or never, it aborts some checkpoints, takes some as savepoints, and removes every file that
the last completed one does not name.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from moved_jobs import Deployment, Script, States, Tape, at_backend, at_parallelism, registered, tape_of
from simulated_tasks import SimulatedExchange, SimulatedTask

from sqlstream.errors import FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint import Arrivals, SubtaskState, TaskRestore, checkpoint_of_path
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.ledger import JobLedger, difference_text
from sqlstream.messages.manifest import CheckpointManifest, VertexState, paths_of
from sqlstream.messages.rpc import (
    CheckpointAborted,
    CheckpointCompleted,
    SinkCommittables,
    TaskDeploymentDescriptor,
    TriggerCheckpoint,
)
from sqlstream.options.checkpointing_options import CHECKPOINTING_MODE
from sqlstream.runtime.checkpoint.checkpoint_store import checkpoint_files
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import keeps_state
from sqlstream.runtime.jobmanager.checkpoints.ledger import job_ledger
from sqlstream.runtime.jobmanager.checkpoints.rescaled_in_flight import arrivals_of, has_other_parallelism
from sqlstream.runtime.jobmanager.deployment import consumers_of, share_of
from sqlstream.runtime.jobmanager.metrics import combine_all, counters_of
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointReport, CheckpointTaken
from sqlstream.runtime.taskmanager.checkpoints.task_checkpoints import (
    ALIGNED_TIMEOUT,
    CONCURRENT_MAX,
    UNALIGNED,
)
from sqlstream.runtime.taskmanager.events import CheckpointMessage, TaskStateChanged
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import AssignedSplits

LOST_STEPS = 10_000
STEPS_MAX = 200_000
"""A job that takes more has come to a stop."""


@dataclasses.dataclass
class Completed:
    """A completed checkpoint: the state of all subtasks by vertex, those that had finished, and what these have prepared.
    `is_unaligned`: items may be in flight in it. `is_own` says of vertices of another job whether their subtasks go on
    with what each has saved."""

    checkpoint_id: int
    directory: str
    states: dict[str, tuple[SubtaskState, ...]]
    finished: dict[str, tuple[bool, ...]]
    finished_committables: tuple[SinkCommittables, ...]
    is_unaligned: bool = False
    is_own: Mapping[str, bool] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Pending:
    """A checkpoint in progress, with the attempts that have not reported it; `savepoint` is the directory of one."""

    checkpoint_id: int
    savepoint: str
    awaited: set[str]
    reports: dict[str, CheckpointTaken] = dataclasses.field(default_factory=dict)


class Commits(Protocol):
    """Makes visible what sinks have prepared."""

    def commit(self, operator_id: int, committables: Sequence[Committable]) -> None: ...

    def go_on(self) -> None:
        """The job has been killed, and goes on."""


Completing = Callable[[str, Mapping[str, tuple[SubtaskState, ...]], JobLedger], None]
"""Takes the directory of a checkpoint, the state of all subtasks by vertex, and the ledger."""


@dataclasses.dataclass
class Story:
    """What outlives a kill. `is_unaligned`: of the present life. `figures` count what has happened. `commits` is for sinks whose
    rows are not recorded. `counted` is what all operators have counted up to the completed checkpoint, None when another job has
    taken it. `completing` is called with each checkpoint that is completed."""

    directory: Path
    is_unaligned: bool
    aligned_timeout_ms: int = 0
    concurrent_max: int = 1
    mode: str = "EXACTLY_ONCE"
    last_id: int = 0
    completed: Completed | None = None
    committed: dict[str, list[pa.RecordBatch]] = dataclasses.field(default_factory=dict)
    figures: dict[str, int] = dataclasses.field(default_factory=dict)
    commits: Commits | None = None
    counted: SubtaskState | None = None
    completing: Completing | None = None

    def count(self, name: str) -> None:
        self.figures[name] = self.figures.get(name, 0) + 1

    def commit(self, committables: Sequence[SinkCommittables], tape: Tape) -> None:
        by_operator: dict[int, list[Committable]] = {}
        for sink in committables:
            by_operator.setdefault(sink.operator_id, []).extend(sink.committables)
        for operator_id, found in by_operator.items():
            # A task repeats those of a checkpoint of which it does not know that it has been completed.
            new = [one for one in found if one.key not in self.committed]
            self.committed |= {one.key: tape.prepared.get(one.key, []) for one in new}
            if self.commits is not None and new:
                self.commits.commit(operator_id, new)

    def rows(self) -> list[pa.RecordBatch]:
        return [batch for batches in self.committed.values() for batch in batches]


class KilledDeployment(Deployment):
    """The tasks of one life of the job."""

    def __init__(self, graph: JobGraph, tape: Tape, story: Story, started_ms: int) -> None:
        self.story = story
        self._by_execution: dict[str, SimulatedTask] = {}
        self._running: set[str] = set()
        self._ended: dict[str, TaskStateChanged] = {}
        self._pending: dict[int, Pending] = {}
        self._lost: list[tuple[str, CheckpointMessage]] = []
        self._completed_here = 0
        self._counted_before = story.counted
        super().__init__(graph, tape, {}, started_ms)

    def _deployed(
        self, task: TaskDeploymentDescriptor, exchange: SimulatedExchange, states: States
    ) -> SimulatedTask:
        config = {
            **task.config,
            UNALIGNED: str(self.story.is_unaligned).lower(),
            ALIGNED_TIMEOUT: f"{self.story.aligned_timeout_ms} ms",
            CONCURRENT_MAX: str(self.story.concurrent_max),
            CHECKPOINTING_MODE: self.story.mode,
        }
        directory = str(self.story.directory)
        task = msgspec.structs.replace(
            task, checkpoint_directory=directory, config=config, **self._restored(task)
        )
        made = self._by_execution[task.execution_id] = SimulatedTask(
            task, exchange, self.tape, self._now, self._after, self._report,
            report_checkpoint=self._on_report, state_files=checkpoint_files, step_peers=self._step_peers,
            write=lambda call: self._after(self.tape.fate.choice([0, 20, 200]), call),
        )  # fmt: skip
        return made

    def _restored(self, task: TaskDeploymentDescriptor) -> dict[str, Any]:
        """Fields of the descriptor: splits of a source in turn to its readers, whatever reader has saved them."""
        completed = self.story.completed
        if completed is None:
            return {}
        id = task.vertex.id
        states, is_finished = completed.states[id], all(completed.finished[id])
        is_own = completed.is_own.get(id, len(states) == task.vertex.parallelism)
        restore = TaskRestore(
            completed.checkpoint_id,
            completed.directory,
            states,
            is_finished,
            is_own,
            is_foreign=self._counted_before is None,
        )
        moved = self._moved()
        if moved is not None:
            states = tuple(msgspec.structs.replace(state, in_flight=(), channels=()) for state in states)
            restore = msgspec.structs.replace(restore, states=states, arrivals=moved.get(id))
            self.story.count("moved rows in flight" if any(a.rows for a in moved.values()) else "moved none")
        restore = share_of(restore, task.vertex, task.subtask)
        saved = [state.splits for state in states if state.splits is not None]
        if not saved:
            return {"restore": restore}
        positions = [position for splits in saved for position in splits]
        mine = tuple(positions[task.subtask :: task.vertex.parallelism])
        if completed.is_unaligned and moved is None:
            # Rows of its splits, and watermarks behind them, may be under way from each reader.
            mine = states[task.subtask].splits or ()
        return {"restore": restore, "splits": AssignedSplits(mine, is_last=True)}

    def _moved(self) -> dict[str, Arrivals] | None:
        """What was in flight to subtasks of which there are others now; None where they are the same."""
        completed = self.story.completed
        assert completed is not None
        vertices = tuple(
            VertexState(v.id, "", len(states), v.max_parallelism, (), states, completed.finished[v.id])
            for v in self.graph.vertices
            for states in [completed.states[v.id]]
        )
        manifest = CheckpointManifest("", "", 1, CheckpointKind.CHECKPOINT, 0, 0, vertices, {}, ())
        if not completed.is_unaligned or not has_other_parallelism(manifest, self.graph):
            return None
        return arrivals_of(manifest, self.graph, "/chk")

    # --- what tasks report

    def _report(self, change: TaskStateChanged) -> None:
        super()._report(change)
        if change.state is ExecutionState.RUNNING:
            self._running.add(change.execution_id)
        else:
            self._ended[change.execution_id] = change
            for pending in [p for p in self._pending.values() if change.execution_id in p.awaited]:
                self._abort(pending, "broken off")

    def _on_report(self, report: CheckpointReport) -> None:
        pending = self._pending.get(report.checkpoint_id)
        if pending is None:
            return
        if not isinstance(report, CheckpointTaken):
            is_overtaken = report.error.reason is FailureReason.CANCELLED
            self._abort(pending, "overtaken" if is_overtaken else report.error.code)
            return
        if any(not (self.story.directory / path).exists() for path in self._referred(pending, report)):
            self._abort(pending, "refers to a file that was removed")
            return
        pending.reports[report.execution_id] = report
        self.story.figures["longest alignment"] = max(
            self.story.figures.get("longest alignment", 0),
            0 if pending.savepoint else report.figures.alignment_ms,
        )
        pending.awaited.discard(report.execution_id)
        if not pending.awaited:
            self._complete(pending)

    def _referred(self, pending: Pending, report: CheckpointTaken) -> frozenset[str]:
        return frozenset() if pending.savepoint else paths_of([report.state])

    # --- what the JobMaster does

    def _tell(self, execution_id: str, message: CheckpointMessage) -> None:
        if self.tape.fate.random() < 0.85:
            task = self._by_execution[execution_id]
            self._after(self.tape.fate.choice([0, 10, 300]), lambda: task.tell_of_checkpoint(message))
        else:
            self._lost.append((execution_id, message))

    def _tell_what_was_lost(self) -> None:
        """No checkpoint follows a lost one, and a task may wait for its barriers until its alignment times out, minutes later."""
        if self._lost and not self._pending and not self._can_begin():
            for execution_id, message in self._lost:
                self._by_execution[execution_id].tell_of_checkpoint(message)
            self._lost.clear()

    def _can_begin(self) -> bool:
        readers = [t for t in self._by_execution.values() if not t.descriptor.inputs]
        others = [t for v in self.tasks.values() for t in v if t.descriptor.inputs]
        partly = [v for v in self.tasks.values() if v[0].descriptor.inputs and self._is_without_barrier(v)]
        are_open = self._running | set(self._ended) == set(self._by_execution)
        has_reader = any(not t.has_ended for t in readers)
        is_alone = any(pending.savepoint for pending in self._pending.values())
        has_place = len(self._pending) < self.story.concurrent_max and not is_alone
        return has_place and are_open and has_reader and bool(others) and not partly

    def _is_without_barrier(self, tasks: Sequence[SimulatedTask]) -> bool:
        """Whether the vertex has ended in part, and keeps state, or a task of it reads none that has not ended."""
        ended = [task.has_ended for task in tasks]
        if all(ended) or not any(ended):
            return False
        vertex = tasks[0].descriptor.vertex
        fed: set[int] = set()
        for edge in self.graph.inputs_of(vertex.id):
            producers = self.tasks[edge.source]
            for number in (n for n, producer in enumerate(producers) if not producer.has_ended):
                fed.update(consumers_of(edge.exchange.kind, number, len(producers), vertex.parallelism))
        is_fed = fed.issuperset(n for n, has_ended in enumerate(ended) if not has_ended)
        return keeps_state(vertex) or not is_fed

    def _begin(self) -> None:
        self.story.last_id += 1
        id, fate = self.story.last_id, self.tape.fate
        self.story.count("begun beside another" if self._pending else "begun")
        read = [tasks for tasks in self.tasks.values() if tasks[0].descriptor.inputs]
        if any(len({task.has_ended for task in tasks}) > 1 for tasks in read):
            self.story.count("begun with a vertex that has ended in part")
        is_savepoint = fate.random() < 0.15 and not self._pending
        savepoint = str(self.story.directory / f"savepoint-{id}") if is_savepoint else ""
        awaited = set(self._by_execution) - set(self._ended)
        self._pending[id] = Pending(id, savepoint, awaited)
        for execution_id in sorted(awaited):
            if not self._by_execution[execution_id].descriptor.inputs:
                known = self._completed_here if fate.random() < 0.5 else 0
                message = TriggerCheckpoint("", execution_id, id, self.now_ms, savepoint, completed_id=known)
                # Repeated until it is acknowledged, so it is not lost.
                task = self._by_execution[execution_id]
                self._after(
                    fate.choice([0, 10, 300]), lambda task=task, m=message: task.tell_of_checkpoint(m)
                )  # type: ignore[misc]

    def _abort(self, pending: Pending, why: str) -> None:
        self.story.count(f"aborted: {why}")
        del self._pending[pending.checkpoint_id]
        earlier = tuple(n for n in self._pending if n < pending.checkpoint_id)
        for execution_id in sorted(set(self._by_execution) - set(self._ended)):
            # As if files that increments follow were gone: the next one is whole.
            is_whole = pending.checkpoint_id % 3 == 0
            message = CheckpointAborted("", execution_id, pending.checkpoint_id, earlier, is_whole)
            self._tell(execution_id, message)

    def _complete(self, pending: Pending) -> None:
        id, ended, reports = pending.checkpoint_id, self._ended, pending.reports
        del self._pending[id]
        self.story.count("savepoints" if pending.savepoint else "completed")
        segments = [
            s for r in reports.values() for o in r.state.operators for t in o.tables for s in t.segments
        ]
        if any(segment.is_increment for segment in segments):
            self.story.count("with increments")
        for place in {i.is_output for r in reports.values() for i in r.state.in_flight}:
            self.story.count("items in outputs" if place else "items in inputs")
        states: dict[str, tuple[SubtaskState, ...]] = {}
        finished: dict[str, tuple[bool, ...]] = {}
        for vertex_id, tasks in self.tasks.items():
            ids = [task.descriptor.execution_id for task in tasks]
            states[vertex_id] = tuple(reports[e].state if e in reports else SubtaskState() for e in ids)
            finished[vertex_id] = tuple(e not in reports for e in ids)
        before = self.story.completed.finished_committables if self.story.completed else ()
        late = tuple(c for e, change in ended.items() if e not in reports for c in change.committables)
        kept = (*before, *(c for c in late if c not in before))
        directory = pending.savepoint or str(self.story.directory)
        ledger = self._check_ledger(states, id)
        if self.story.completing is not None:
            self.story.completing(directory, states, ledger)
        is_unaligned = self.story.is_unaligned and not pending.savepoint
        self.story.completed = Completed(id, directory, states, finished, kept, is_unaligned)
        self.story.commit([c for report in reports.values() for c in report.committables], self.tape)
        if not pending.savepoint:
            self._remove_unused(states, id)
        self._completed_here = id
        for execution_id in reports:
            self._tell(execution_id, CheckpointCompleted("", execution_id, id))
        for earlier in [p for n, p in self._pending.items() if n < id]:
            self._abort(earlier, "subsumed")

    def _check_ledger(self, states: Mapping[str, tuple[SubtaskState, ...]], id: int) -> JobLedger:
        """All rows since the job began are accounted for. `states` has no counters of tasks that had ended."""
        found = {
            vertex_id: tuple(
                state if state.counted else SubtaskState(counted=task.counted)
                for state, task in zip(subtasks, self.tasks[vertex_id], strict=True)
            )
            for vertex_id, subtasks in states.items()
        }
        if self._counted_before is not None:
            first = self.graph.vertices[0].id
            found[first] = (*found[first], self._counted_before)
        mode = {**self.graph.config, CHECKPOINTING_MODE: self.story.mode}
        ledger = job_ledger(msgspec.structs.replace(self.graph, config=mode), found, id, 0)
        assert ledger is not None
        texts = [f"{e.name}: {difference_text(e)}" for e in ledger.entries if not e.is_balanced]
        assert not texts, f"checkpoint {id}: {texts}"
        for entry in (e for e in ledger.entries if e.balance):
            self.story.count(f"balanced {entry.name}")
        for entry, side in ((e, side) for e in ledger.entries for side in e.sides if side.rows_in):
            self.story.count(f"balanced {entry.name} {side.name}")
        self.story.counted = SubtaskState(
            counted=counters_of(combine_all(s.counted for subtasks in found.values() for s in subtasks))
        )
        return ledger

    def _remove_unused(self, states: Mapping[str, tuple[SubtaskState, ...]], id: int) -> None:
        acknowledged = [r.state for p in self._pending.values() for r in p.reports.values()]
        needed = paths_of([*(state for subtasks in states.values() for state in subtasks), *acknowledged])
        for file in self.story.directory.glob("shared/*.arrow"):
            path = f"shared/{file.name}"
            if path not in needed and checkpoint_of_path(path) <= id:
                file.unlink()

    # --- time

    def run_until_killed(self, is_last: bool) -> bool:
        """Whether the job has ended. It is killed some time after its first checkpoint, if it is not the last life."""
        fate, tasks, left = self.tape.fate, list(self._by_execution.values()), None
        for step in range(STEPS_MAX):
            if step % LOST_STEPS == LOST_STEPS - 1:
                self._tell_what_was_lost()
            if all(task.has_ended for task in tasks):
                self._check_ledger({v: tuple(SubtaskState() for _ in t) for v, t in self.tasks.items()}, 0)
                self._commit_last()
                return True
            if not is_last and self._completed_here:
                left = fate.randint(0, 800) if left is None else left - 1
                if left <= 0:
                    return False
            if fate.random() < 0.1 and self._can_begin():
                self._begin()
            elif self._pending and fate.random() < 0.002:
                self._abort(fate.choice([*self._pending.values()]), "given up")
            fate.choice(tasks).step()
            self._advance(fate.randint(0, 5))
        raise AssertionError(f"the job stands still: {self.story.figures}")

    def _commit_last(self) -> None:
        kept = self.story.completed.finished_committables if self.story.completed else ()
        last = (c for change in self._ended.values() for c in change.committables)
        self.story.commit([*kept, *last], self.tape)


def run_killed_job(
    graph: JobGraph,
    scripts: Mapping[str, list[Script]],
    parallelisms: Sequence[int],
    seed: int,
    directory: Path,
    figures: dict[str, int] | None = None,
    *,
    is_unaligned: bool = False,
    aligned_timeout_ms: int = 0,
    concurrent_max: int = 1,
    backends: Sequence[str] = ("hashmap",),
    mode: str = "EXACTLY_ONCE",
    commits: Commits | None = None,
    moves_in_flight: bool = False,
    completing: Completing | None = None,
) -> list[pa.RecordBatch]:
    """What the sink has committed of a job that is killed once in each life but its last; each life has its parallelism, and in
    turn one of `backends`. `is_unaligned`: but for lives before one at another parallelism, unless it `moves_in_flight`."""
    fate, now_ms = random.Random(seed), 1_000
    with registered():
        tape = tape_of(graph, scripts, fate)
        story = Story(directory, is_unaligned, aligned_timeout_ms, concurrent_max, mode, commits=commits)
        story.completing = completing
        parallelisms = tuple(parallelisms)
        if figures is not None:
            story.figures = figures
        for number, parallelism in enumerate(parallelisms, 1):
            tape = tape_of(graph, scripts, fate) if story.completed is None else tape
            planned = at_backend(at_parallelism(graph, parallelism), backends[(number - 1) % len(backends)])
            stays = parallelisms[number : number + 1] in ((), (parallelism,))
            story.is_unaligned = is_unaligned and (stays or moves_in_flight)
            life = KilledDeployment(planned, tape, story, now_ms)
            has_ended = life.run_until_killed(is_last=number == len(parallelisms))
            now_ms = life.now_ms
            if has_ended:
                return story.rows()
            story.count("killed")
            if commits is not None:
                commits.go_on()
    raise AssertionError("the last life does not end")
