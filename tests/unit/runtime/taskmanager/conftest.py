"""Tasks that are connected in this process: a source of given rows, a sink that keeps what it receives, and a job of both."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span
from sqlstream.expressions import Expression, InputRef
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobVertex
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.messages.checkpoint import TaskRestore
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    ConsumerDescriptor,
    InputChannelDescriptor,
    InputGateDescriptor,
    ResultPartitionDescriptor,
    TaskDeploymentDescriptor,
    TriggerCheckpoint,
)
from sqlstream.runtime.connectors import CONNECTORS
from sqlstream.runtime.net.exchange import LocalExchange, PartitionTable
from sqlstream.runtime.net.results import ResultStore
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import (
    CheckpointRefused,
    CheckpointReport,
    CheckpointTaken,
)
from sqlstream.runtime.taskmanager.events import TaskReport, TaskStateChanged
from sqlstream.runtime.taskmanager.task_runner import ThreadTaskRunner
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import (
    ConnectorContext,
    ConnectorDescriptor,
    Reading,
    SourceStatus,
    Writing,
)
from sqlstream.types import BIGINT, STRING

SCHEMA = Schema.of(("k", STRING), ("v", BIGINT))
INSERT_ONLY = ChangelogMode.INSERT_ONLY


def rows(*pairs: tuple[str, int]) -> pa.RecordBatch:
    return pa.record_batch(
        {"k": pa.array([k for k, _ in pairs]), "v": pa.array([v for _, v in pairs], pa.int64())}
    )


@dataclasses.dataclass
class Stage:
    """What the connectors of one test read and write. Subtask 0 reads `polls`; the sink waits for `gate`."""

    polls: list[Any]
    written: list[tuple[int, pa.RecordBatch]] = dataclasses.field(default_factory=list)
    aborted: list[int] = dataclasses.field(default_factory=list)
    gate: threading.Event = dataclasses.field(default_factory=threading.Event)
    fail_at_write: bool = False
    fail_at_abort: bool = False
    due_ms: int | None = None
    polled: int = 0


STAGE: dict[str, Stage] = {}


class Reader:
    def __init__(self, stage: Stage, polls: list[Any]) -> None:
        self._stage, self._polls = stage, list(polls)

    def poll(self) -> Any:
        self._stage.polled += 1
        if not self._polls:
            return SourceStatus.END
        if self._polls[0] is SourceStatus.NOTHING_YET:
            return SourceStatus.NOTHING_YET
        return self._polls.pop(0)

    def next_poll_ms(self) -> int | None:
        return self._stage.due_ms

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        return None


class Writer:
    def __init__(self, stage: Stage, context: ConnectorContext) -> None:
        self._stage, self._subtask, self._rows = stage, context.subtask, 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._stage.gate.wait(60)
        if self._stage.fail_at_write:
            raise ValueError("cannot be written")
        self._rows += batch.num_rows
        self._stage.written.append((self._subtask, batch))

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        return [Committable("job", checkpoint_id, "writer", self._subtask, {"rows": self._rows})]

    def abort(self) -> None:
        self._stage.aborted.append(self._subtask)
        if self._stage.fail_at_abort:
            raise OSError("cannot be removed")


class StageConnector:
    descriptor = ConnectorDescriptor("stage", options=(), reading=Reading(), writing=Writing())

    def source(self, spec: SourceSpec, context: ConnectorContext, splits: Any) -> Reader:
        stage = STAGE[spec.table]
        return Reader(stage, stage.polls if context.subtask == 0 else [])

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> Writer:
        return Writer(STAGE[spec.table], context)


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Stage:
    monkeypatch.setitem(CONNECTORS, "stage", f"{__name__}:StageConnector")
    STAGE[request.node.name] = Stage([])
    yield STAGE[request.node.name]
    del STAGE[request.node.name]


class Job:
    """source (1) ─exchange─► sink (n), each task on its thread, over local channels of `capacity_bytes`.

    With a `condition`, a Calc with it stands before and behind the exchange.
    """

    def __init__(
        self, table: str, exchange: Exchange, sinks: int, capacity_bytes: int, condition: Expression | None
    ) -> None:
        self.states: dict[str, list[TaskStateChanged]] = {}
        self._changed = threading.Condition()
        self.partitions = PartitionTable()
        store = ResultStore(1 << 20, lambda job_id, lines, is_error: None)
        self.exchange = LocalExchange(self.partitions, store)
        self.runner = ThreadTaskRunner(lambda: 1000, None, self.exchange, self._on_state)
        self._descriptors = _descriptors(table, exchange, sinks, capacity_bytes, condition)
        self.checkpoints: dict[tuple[str, int], CheckpointReport] = {}

    def _on_state(self, change: TaskReport) -> None:
        with self._changed:
            if isinstance(change, CheckpointTaken | CheckpointRefused):
                self.checkpoints[change.execution_id, change.checkpoint_id] = change
            elif isinstance(change, TaskStateChanged):
                self.states.setdefault(change.execution_id, []).append(change)
            self._changed.notify_all()

    def take_checkpoints_in(self, directory: str) -> None:
        """To be called before `start`."""
        self.change_descriptors(checkpoint_directory=directory)

    def change_descriptors(self, execution_id: str = "", **fields: Any) -> None:
        """Of one task, or of all."""
        self._descriptors = [
            msgspec.structs.replace(d, **fields) if d.execution_id == (execution_id or d.execution_id) else d
            for d in self._descriptors
        ]

    def wait_checkpoint(self, checkpoint_id: int, *executions: str) -> list[CheckpointReport]:
        """Trigger it, and wait for the reports of these executions."""
        self.runner.tell_of_checkpoint(TriggerCheckpoint("tm", "source-0", checkpoint_id, 1_000))
        awaited = [(execution, checkpoint_id) for execution in executions]
        with self._changed:
            assert self._changed.wait_for(lambda: all(key in self.checkpoints for key in awaited), 20)
            return [self.checkpoints[key] for key in awaited]

    def start(self) -> None:
        for descriptor in self._descriptors:
            self.runner.start(descriptor)

    def wait(self, state: ExecutionState, *executions: str) -> list[TaskStateChanged]:
        """Wait for the reports of that state, and return them: one per execution."""

        def found() -> list[TaskStateChanged]:
            return [c for e in executions for c in self.states.get(e, []) if c.state is state]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) == len(executions), 120), self.states
            return found()


def _vertex(id: str, operators: tuple[ChainedOperator, ...], parallelism: int) -> JobVertex:
    return JobVertex(id, operators[0].name, operators, parallelism, 128)


def _filter(id: int, input_id: int, condition: Expression) -> ChainedOperator:
    keep = CalcSpec((InputRef(0, STRING), InputRef(1, BIGINT)), condition)
    return ChainedOperator(
        id, "c", "Calc", keep, input_id, (SCHEMA,), (INSERT_ONLY,), SCHEMA, INSERT_ONLY, span=Span(50, 60)
    )


def _descriptors(
    table: str, exchange: Exchange, sinks: int, capacity_bytes: int, condition: Expression | None
) -> list[TaskDeploymentDescriptor]:
    read = SourceSpec(table, "stage", {}, SCHEMA, SCHEMA.names)
    write = SinkSpec(table, "stage", {}, SCHEMA)
    source = ChainedOperator(
        0, "a", "Source", read, NETWORK_INPUT, (), (), SCHEMA, INSERT_ONLY, span=Span(10, 20)
    )
    sink = ChainedOperator(
        1,
        "b",
        "Sink",
        write,
        NETWORK_INPUT if condition is None else 3,
        (SCHEMA,),
        (INSERT_ONLY,),
        SCHEMA,
        INSERT_ONLY,
        span=Span(30, 40),
    )
    config = {"taskmanager.network.memory.max-buffered-bytes": str(capacity_bytes)}
    sources, targets = (source,), (sink,)
    if condition is not None:
        sources, targets = (source, _filter(2, 0, condition)), (_filter(3, NETWORK_INPUT, condition), sink)
    edge = JobEdge(0, "s", sources[-1].id, "t", 0, exchange, SCHEMA, INSERT_ONLY)
    consumers = tuple(ConsumerDescriptor(i, f"sink-{i}", "tm", "here") for i in range(sinks))
    made = [
        TaskDeploymentDescriptor(
            "job", "job", _vertex("s", sources, 1), 0, 0, "source-0", "slot", (),
            (ResultPartitionDescriptor("p", edge, consumers),), "client", config,
        )
    ]  # fmt: skip
    for i in range(sinks):
        channel = InputChannelDescriptor("p", i, 0, "source-0", "tm", "here")
        made.append(
            TaskDeploymentDescriptor(
                "job", "job", _vertex("t", targets, sinks), i, 0, f"sink-{i}", "slot",
                (InputGateDescriptor(edge, (channel,)),), (), "client", config,
            )
        )  # fmt: skip
    return made


class Relay:
    """One task with one operator; the test writes into its two input channels and reads what it sends."""

    def __init__(
        self, spec: Any, schema: Schema, now_ms: Callable[[], int], restore: TaskRestore | None = None
    ) -> None:
        operator = ChainedOperator(
            0, "a", "Relay", spec, NETWORK_INPUT, (schema,), (INSERT_ONLY,), schema, INSERT_ONLY
        )
        edge = JobEdge(0, "s", 0, "r", 0, Exchange(ExchangeKind.REBALANCE), schema, INSERT_ONLY)
        onward = JobEdge(1, "r", 0, "t", 0, edge.exchange, schema, INSERT_ONLY)
        channels = tuple(InputChannelDescriptor("p", i, i, f"source-{i}", "tm", "here") for i in range(2))
        consumer = ConsumerDescriptor(0, "sink-0", "tm", "here")
        descriptor = TaskDeploymentDescriptor(
            "job", "job", _vertex("r", (operator,), 1), 0, 0, "relay-0", "slot",
            (InputGateDescriptor(edge, channels),),
            (ResultPartitionDescriptor("q", onward, (consumer,)),), "client", {}, restore=restore,
        )  # fmt: skip
        store = ResultStore(1 << 20, lambda job_id, lines, is_error: None)
        exchange = LocalExchange(PartitionTable(), store)
        self.inputs = [exchange.open_output("job", "p", i, 1 << 20) for i in range(2)]
        self.output = exchange.open_output("job", "q", 0, 1 << 20)
        self.on_report: Callable[[TaskReport], None] = lambda report: None
        self.runner = ThreadTaskRunner(now_ms, None, exchange, lambda report: self.on_report(report))
        self.runner.start(descriptor)

    def put(self, channel: int, *items: Any) -> None:
        for item in items:
            self.inputs[channel].put(item, 64)
        self.inputs[channel].flush()

    def take(self, count: int) -> list[Any]:
        """The next items that the task sends, each within 20 s."""
        return [self._take_one() for _ in range(count)]

    def _take_one(self) -> Any:
        readable = threading.Event()
        self.output.listen(readable.set)
        assert readable.wait(60)
        return self.output.take()[0].item


@pytest.fixture
def relay() -> Any:
    made: list[Relay] = []

    def make(
        spec: Any,
        schema: Schema = SCHEMA,
        now_ms: Callable[[], int] = lambda: 1000,
        restore: TaskRestore | None = None,
    ) -> Relay:
        made.append(Relay(spec, schema, now_ms, restore))
        return made[-1]

    yield make
    for one in made:
        one.runner.cancel("relay-0")
        one.runner.stop(5)


@pytest.fixture
def job(stage: Stage, request: pytest.FixtureRequest) -> Any:
    made: list[Job] = []

    def make(
        kind: ExchangeKind = ExchangeKind.FORWARD,
        sinks: int = 1,
        capacity_bytes: int = 1 << 20,
        condition: Expression | None = None,
    ) -> Job:
        keys = (0,) if kind is ExchangeKind.HASH else ()
        made.append(Job(request.node.name, Exchange(kind, keys), sinks, capacity_bytes, condition))
        return made[-1]

    yield make
    stage.gate.set()
    for one in made:
        one.runner.stop(5)


@pytest.fixture
def make_rows() -> Any:
    return rows
