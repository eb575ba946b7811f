"""Jobs planned from SQL whose tasks are stopped between two rows and restored at other parallelisms, state and all.

The plan, the loops, the operators, their chains and the exchange's splitting are the product's; sources play rows by script,
the sink records. A cut is what an aligned barrier gives: every script stops somewhere, and each task is saved once it has
taken all that was sent to it.
"""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
from operator_harness import batch, share_of
from plan_harness import compile_script
from simulated_tasks import SimulatedChannel, SimulatedExchange, SimulatedTask

from sqlstream.changelog import ChangelogMode
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import TaskDeploymentDescriptor
from sqlstream.runtime.connectors import CONNECTORS, connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.jobmanager.deployment import Deployment as TaskSurroundings
from sqlstream.runtime.jobmanager.deployment import describe_tasks
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.operator_state import OperatorState, PendingSnapshot
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.story import Story
from sqlstream.runtime.taskmanager.events import TaskStateChanged
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import (
    Boundedness,
    ConnectorContext,
    ConnectorDescriptor,
    Reading,
    SinkWriter,
    SourceStatus,
    Writing,
)

PLANNED_PARALLELISM = 5
"""Vertices that are planned with it run at any parallelism; the others are bound to their own."""
WRITTEN = "written"
"""The connector of sinks that write through the real one, which option `connector` names."""
States = dict[int, list[OperatorSnapshot]]
"""What all subtasks of each operator have saved, by operator id."""


@dataclasses.dataclass
class Script:
    """What one split of a table yields: batches, each with the watermark after it. `position` counts the batches read."""

    steps: Sequence[tuple[pa.RecordBatch, int]]
    position: int = 0
    stop: int | None = None

    @property
    def is_finished(self) -> bool:
        return self.stop is None and self.position == len(self.steps)

    @property
    def has_next(self) -> bool:
        return self.position < (len(self.steps) if self.stop is None else self.stop)

    @property
    def watermark_ms(self) -> int:
        return self.steps[self.position - 1][1] if self.position else WATERMARK_MIN


def script_of(schema: Schema, time_column: str, batches: Sequence[Sequence[tuple[Any, ...]]]) -> Script:
    """A script of these rows; no row is late, as a watermark is two milliseconds behind the latest row."""
    steps, latest_ms = [], WATERMARK_MIN
    place = schema.names.index(time_column)
    for rows in batches:
        latest_ms = max([latest_ms, *(row[place] for row in rows)])
        # A row of the next batch may touch a session that ends here, which must then not be closed yet.
        steps.append((batch(schema, rows), latest_ms - 2))
    return Script(steps)


_FILES = LocalFiles()


class Tape:
    """The scripts of a job's tables, and the batches that its sink has recorded. It stands where connectors have files: a table
    that is looked up is one."""

    def __init__(self, scripts: Mapping[str, list[Script]], fate: random.Random) -> None:
        self.scripts = scripts
        self.fate = fate
        self.recorded: list[pa.RecordBatch] = []
        self.prepared: dict[str, list[pa.RecordBatch]] = {}
        self.writers = 0
        self.is_calm = True

    def __getattr__(self, name: str) -> Any:
        return getattr(_FILES, name)

    def set_stops(self, is_last: bool) -> None:
        """Where each script stops next: anywhere from where it is, or at its end."""
        for script in self.all_scripts():
            script.stop = None if is_last else self.fate.randint(script.position, len(script.steps))

    def has_stopped(self) -> bool:
        return not any(script.has_next for script in self.all_scripts())

    def all_scripts(self) -> Iterator[Script]:
        for scripts in self.scripts.values():
            yield from scripts


class ScriptReader:
    """Plays the scripts of one subtask, which are assigned by number, or copies of them from their positions on. Implements
    `SourceReader` and `MakesWatermarks`."""

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, positions: list[dict[str, int]] | None
    ) -> None:
        tape: Tape = context.files
        self._columns = list(spec.columns)
        self._fate = tape.fate
        known = tape.scripts[_name(spec)]
        if positions is None:
            self._numbers = list(range(context.subtask, len(known), context.parallelism))
            self._scripts = [known[number] for number in self._numbers]
        else:
            self._numbers = [p["split"] for p in positions]
            self._scripts = [dataclasses.replace(known[p["split"]], position=p["read"]) for p in positions]

    def poll(self) -> pa.RecordBatch | SourceStatus:
        ready = [script for script in self._scripts if script.has_next]
        if not ready:
            has_ended = all(script.is_finished for script in self._scripts)
            return SourceStatus.END if has_ended else SourceStatus.NOTHING_YET
        script = self._fate.choice(ready)
        script.position += 1
        return script.steps[script.position - 1][0].select(self._columns)

    def watermark_ms(self) -> int:
        return min((s.watermark_ms for s in self._scripts if not s.is_finished), default=WATERMARK_MAX)

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"split": n, "read": s.position} for n, s in zip(self._numbers, self._scripts, strict=True)]

    def close(self) -> None:
        return None


class _UnmarkedReader:
    """The same without watermarks."""

    def __init__(self, reader: ScriptReader) -> None:
        self.poll = reader.poll
        self.next_poll_ms = reader.next_poll_ms
        self.snapshot = reader.snapshot
        self.close = reader.close


class _Writer:
    """What it writes is recorded at once, and is `prepared` too, under the key of its committable."""

    def __init__(self, context: ConnectorContext) -> None:
        self._tape: Tape = context.files
        self._job_id, self._subtask = context.job_id, context.subtask
        self._name = f"writer-{self._tape.writers}"
        self._tape.writers += 1
        self._written: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._tape.recorded.append(batch)
        self._written.append(batch)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        made = Committable(self._job_id, checkpoint_id, self._name, self._subtask, {})
        self._tape.prepared[made.key], self._written = self._written, []
        return [made]

    def abort(self) -> None:
        return None


class Scripted:
    """The connector of scripts; `context.files` is the Tape."""

    descriptor = ConnectorDescriptor(
        "scripted", options=(), reading=Reading(watermarks=True), writing=Writing(mode=ChangelogMode.RETRACT)
    )

    def source(self, spec: SourceSpec, context: ConnectorContext, splits: Any) -> Any:
        return ScriptReader(spec, context, splits)

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> _Writer:
        return _Writer(context)


class Unmarked(Scripted):
    """Its tables get their watermarks from an operator."""

    descriptor = msgspec.structs.replace(Scripted.descriptor, identifier="unmarked", reading=Reading())

    def source(self, spec: SourceSpec, context: ConnectorContext, splits: Any) -> Any:
        return _UnmarkedReader(ScriptReader(spec, context, splits))


class Endless(Scripted):
    """Its tables are planned as if they never ended."""

    descriptor = msgspec.structs.replace(
        Scripted.descriptor,
        identifier="endless",
        reading=Reading(boundedness=Boundedness(False), watermarks=True),
    )


class Written:
    """Writes through another connector to real files. Each writer has a name of its own, as in each attempt of a task."""

    descriptor = ConnectorDescriptor(
        WRITTEN, options=(), writing=Writing(mode=ChangelogMode.RETRACT), is_internal=True
    )

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> SinkWriter:
        tape: Tape = context.files
        tape.writers += 1
        name = spec.options["connector"]
        options = {key: value for key, value in spec.options.items() if key != "connector"}
        real = msgspec.structs.replace(spec, connector=name, options=options)
        own = dataclasses.replace(context, files=LocalFiles(), writer_name=f"writer-{tape.writers}")
        return connector(name).sink(real, mode, own)


def registered() -> Any:
    """While it is entered, jobs find the connectors of these tests."""
    return patch.dict(
        CONNECTORS,
        {
            "scripted": "moved_jobs:Scripted",
            "unmarked": "moved_jobs:Unmarked",
            "endless": "moved_jobs:Endless",
            WRITTEN: "moved_jobs:Written",
        },
    )


def plan_job(script: str, config: dict[str, str] | None = None, given: str = "") -> JobGraph:
    """The job of the script's only SELECT, with a sink that records. `given`: as of `compile_script`."""
    settings = {"parallelism.default": str(PLANNED_PARALLELISM), **(config or {})}
    connectors = {c.identifier: c for c in (Scripted.descriptor, Unmarked.descriptor, Endless.descriptor)}
    (plan,) = compile_script(script, settings, connectors, given=given)
    vertices = [_recorded(vertex) for vertex in plan.job_graph.vertices]
    return msgspec.structs.replace(plan.job_graph, vertices=tuple(vertices))


def _recorded(vertex: Any) -> Any:
    operators = [
        msgspec.structs.replace(o, spec=msgspec.structs.replace(o.spec, connector="scripted"))
        if isinstance(o.spec, SinkSpec)
        else o
        for o in vertex.operators
    ]
    return msgspec.structs.replace(vertex, operators=tuple(operators))


def at_parallelism(graph: JobGraph, parallelism: int) -> JobGraph:
    vertices = [
        msgspec.structs.replace(v, parallelism=parallelism) if v.parallelism == PLANNED_PARALLELISM else v
        for v in graph.vertices
    ]
    return msgspec.structs.replace(graph, vertices=tuple(vertices))


def at_backend(graph: JobGraph, backend: str) -> JobGraph:
    return msgspec.structs.replace(graph, config={**graph.config, "state.backend.type": backend})


def _name(spec: SourceSpec) -> str:
    return spec.table.rpartition(".")[2].strip("`")


class TaskSnapshots:
    """The checkpoints of one task: collected some steps after they begin, and completed or aborted some steps later, so that
    increments follow each other. `_segments` are those of the last completed one by operator and table, each with its id."""

    def __init__(self, task: SimulatedTask, fate: random.Random) -> None:
        self._task = task
        self._fate = fate
        self._last_id = 0
        self._pending: dict[int, PendingSnapshot] = {}
        self._segments: dict[tuple[int, str], list[tuple[int, pa.Table]]] = {}

    def step(self) -> None:
        if (
            self._task.has_ended
            or self._task.is_suspended
            or not self._task.is_waiting
            or self._fate.random() < 0.9
        ):
            return
        if not self._pending:
            self._begin()
        elif self._fate.random() < 0.2:
            for state in self._states().values():
                state.on_checkpoint_aborted(self._last_id)
            self._pending = {}
        else:
            self._complete()

    def whole(self) -> dict[int, OperatorSnapshot]:
        """The state of each operator at this moment, as its chain of snapshots has it."""
        self._begin()
        shared = self._complete()
        found = {id: OperatorSnapshot(shared=shared[id]) for id in self._states()}
        for (id, name), segments in self._segments.items():
            found[id].keyed[name] = pa.concat_tables([table for _, table in segments])
        return found

    def _states(self) -> dict[int, OperatorState]:
        return {node.chained.id: node.operator.context.state for node in self._task.chain.nodes}

    def _begin(self) -> None:
        self._last_id += 1
        self._task.chain.prepare_snapshot()
        self._task.flush()
        self._pending = {id: state.begin_snapshot(self._last_id) for id, state in self._states().items()}

    def _complete(self) -> dict[int, dict[str, pa.Table]]:
        shared, segments = {}, {}
        for id, pending in self._pending.items():
            snapshot = pending.collect()
            shared[id] = snapshot.shared
            for name, table in snapshot.keyed.items():
                base = snapshot.increments.get(name, 0)
                kept = [part for part in self._segments.get((id, name), []) if part[0] <= base]
                segments[id, name] = [*kept, (self._last_id, table)]
        for state in self._states().values():
            state.on_checkpoint_completed(self._last_id)
        self._pending, self._segments = {}, segments
        return shared


class Deployment:
    """All tasks of a job, stepped in random turns under a clock that runs with them."""

    def __init__(self, graph: JobGraph, tape: Tape, states: States, started_ms: int) -> None:
        self.graph = graph
        self.tape = tape
        self.now_ms = started_ms
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        channels: dict[tuple[str, str, int], SimulatedChannel] = {}
        exchange = SimulatedExchange(channels, self._after, tape.fate, lambda address: True)
        execution = ExecutionGraph(graph, 0, Story())
        tasks = describe_tasks(execution, execution.subtasks(), TaskSurroundings("", lambda s: None)).values()
        self.tasks: dict[str, list[SimulatedTask]] = {vertex.id: [] for vertex in graph.vertices}
        for task in tasks:
            self.tasks[task.vertex.id].append(self._deployed(task, exchange, states))
        self._snapshots = {
            id(task): TaskSnapshots(task, tape.fate) for subtasks in self.tasks.values() for task in subtasks
        }

    def _deployed(
        self, task: TaskDeploymentDescriptor, exchange: SimulatedExchange, states: States
    ) -> SimulatedTask:
        shares = {
            o.id: share_of(states[o.id], task.subtask, task.vertex.parallelism, task.vertex.max_parallelism)
            for o in task.vertex.operators
            if o.id in states
        }
        return SimulatedTask(
            task,
            exchange,
            self.tape,
            self._now,
            self._after,
            self._report,
            shares,
            step_peers=self._step_peers,
        )

    def _step_peers(self, task: SimulatedTask) -> None:
        for peer in self.tasks[task.descriptor.vertex.id]:
            if peer is not task:
                peer.step()
        self._advance(1)

    def _now(self) -> int:
        return self.now_ms

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (self.now_ms + delay_ms, self._count, action))

    def _report(self, change: TaskStateChanged) -> None:
        """A task has entered a state."""
        assert change.state is not ExecutionState.FAILED, change.error

    def _advance(self, ms: int) -> None:
        self.now_ms += ms
        while self._waiting and self._waiting[0][0] <= self.now_ms:
            heapq.heappop(self._waiting)[2]()

    def operators(self) -> Iterator[Operator[Any]]:
        """Those of all tasks that run."""
        for subtasks in self.tasks.values():
            for task in subtasks:
                yield from task.chain.operators()

    def run(self) -> None:
        """Until every script has stopped, or every task has ended."""
        running = [task for subtasks in self.tasks.values() for task in subtasks]
        is_cut = any(script.stop is not None for script in self.tape.all_scripts())
        while running and not (is_cut and self.tape.has_stopped()):
            task = self.tape.fate.choice(running)
            task.step()
            self._snapshots[id(task)].step()
            self._advance(self.tape.fate.randint(0, 5))
            if task.has_ended:
                running.remove(task)

    def save(self) -> States:
        """The state of all tasks, which have then taken all that was sent to them; vertices come in topological order."""
        states: States = {}
        tasks = [task for vertex in self.graph.vertices for task in self.tasks[vertex.id]]
        while tasks:
            self._settle(tasks)
            saved = tasks.pop(0)
            # What this flushes is still taken by the tasks behind it.
            for operator_id, snapshot in self._snapshots[id(saved)].whole().items():
                states.setdefault(operator_id, []).append(snapshot)
        return states

    def _settle(self, tasks: Sequence[SimulatedTask]) -> None:
        """Step until nothing is left to take."""
        is_settled = False
        while not is_settled:
            for task in tasks:
                task.step()
            # Before the clock moves: what arrives then is still to be taken.
            is_settled = not self._waiting and all(task.has_ended or task.is_waiting for task in tasks)
            self._advance(30)


def run_job(
    graph: JobGraph,
    scripts: Mapping[str, list[Script]],
    parallelisms: Sequence[int],
    seed: int,
    seen: Callable[[Operator[Any]], None] = lambda operator: None,
    backends: Sequence[str] = ("hashmap",),
) -> list[pa.RecordBatch]:
    """What the sink records of a run that is cut at random places and goes on at the next parallelism, and in turn on the next
    of `backends`; `seen` gets the operators that hold state at a cut."""
    graphs = [at_backend(graph, backend) for backend in backends]
    with registered():
        return _run_job(graphs, scripts, parallelisms, random.Random(seed), seen)


def _run_job(
    graphs: Sequence[JobGraph],
    scripts: Mapping[str, list[Script]],
    parallelisms: Sequence[int],
    fate: random.Random,
    seen: Callable[[Operator[Any]], None],
) -> list[pa.RecordBatch]:
    tape = tape_of(graphs[0], scripts, fate)
    states: States = {}
    now_ms = 1_000
    for number, parallelism in enumerate(parallelisms, 1):
        tape.set_stops(is_last=number == len(parallelisms))
        graph = at_parallelism(graphs[(number - 1) % len(graphs)], parallelism)
        deployment = Deployment(graph, tape, states, now_ms)
        deployment.run()
        if number < len(parallelisms):
            for operator in deployment.operators():
                seen(operator)
            states = deployment.save()
            now_ms = deployment.now_ms
    return tape.recorded


def operators_of(graph: JobGraph, scripts: Mapping[str, list[Script]]) -> Iterator[Operator[Any]]:
    """The operators that the tasks of a job open."""
    tape = tape_of(graph, scripts, random.Random(0))
    with registered():
        deployment = Deployment(at_parallelism(graph, 1), tape, {}, 0)
        for subtasks in deployment.tasks.values():
            for task in subtasks:
                task.step()
    yield from deployment.operators()


def tape_of(graph: JobGraph, scripts: Mapping[str, list[Script]], fate: random.Random) -> Tape:
    """Copies of the scripts of the tables that the job reads."""
    names = {_name(o.spec) for v in graph.vertices for o in v.operators if isinstance(o.spec, SourceSpec)}
    return Tape({name: [dataclasses.replace(s) for s in scripts[name]] for name in sorted(names)}, fate)
