"""Real tasks without threads: their loops run step by step under a seeded clock, over channels that delay and break.

The source, the sink and the network are simulated; the opening, the loop, the operators and their chains are the product's.
"""

from __future__ import annotations

import dataclasses
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from committable_harness import file_of
from greenlet import greenlet

from sqlstream.changelog import ROW_KIND_COLUMN, ChangelogMode, RowKind
from sqlstream.elements import CheckpointBarrier, EndOfInput
from sqlstream.errors import ErrorInfo, ExternalError, FailureReason, JobError, SqlStreamError
from sqlstream.expressions import AggregateCall, Call, InputRef, Literal
from sqlstream.graph.job_graph import JobGraph, JobVertex
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import InputChannelDescriptor, SinkCommittables, TaskDeploymentDescriptor
from sqlstream.runtime.jobmanager.metrics import counters_of
from sqlstream.runtime.memory.managed_memory import ManagedMemory
from sqlstream.runtime.net.channels import ChannelClosed, QueuedItem
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointReport
from sqlstream.runtime.taskmanager.events import (
    CheckpointMessage,
    TaskReport,
    TaskStateChanged,
    WatermarkReported,
)
from sqlstream.runtime.taskmanager.mailbox import Mailbox
from sqlstream.runtime.taskmanager.metrics import TaskTimes
from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
from sqlstream.runtime.taskmanager.split_requests import SplitsRequested
from sqlstream.runtime.taskmanager.task_context import TaskCancellation, TaskCancelled, TaskContext
from sqlstream.runtime.taskmanager.task_loop import OpenedTask
from sqlstream.runtime.taskmanager.task_opening import TaskOpening
from sqlstream.schema import Schema
from sqlstream.specs import CalcSpec, GroupAggregateSpec, SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import (
    AssignedSplits,
    ConnectorContext,
    ConnectorDescriptor,
    Reading,
    SourceStatus,
    Writing,
)
from sqlstream.spi.files import Files
from sqlstream.types import BIGINT, BOOLEAN, STRING

SCHEMA = Schema.of(("k", STRING), ("v", BIGINT))
KEYS = 4
KEPT_FROM = 200
KEEP = CalcSpec(
    (InputRef(0, STRING), InputRef(1, BIGINT)),
    Call(">=", (InputRef(1, BIGINT), Literal(KEPT_FROM, BIGINT)), BOOLEAN),
)
"""The operator in the middle: it drops the first rows of every source."""

COUNT = GroupAggregateSpec((0,), (AggregateCall("COUNT", (), BIGINT),))
"""The operator with keyed state: how many rows each key has."""

BATCH_ROWS = 4
SOURCE_MAX_MS = 60_000
"""How long a job reads, from its first attempt on."""

ASSIGNED = "assigned"
"""The connector whose readers are assigned their splits."""

Row = tuple[str, int]

Changes = list[tuple[Row, int]]
"""Rows that are added (1) and retracted (-1)."""


def part_rows(part: int) -> list[Row]:
    """What is in one part of a table, however often it is read. Parts have keys in common, and no row."""
    return [(f"k{(i + part) % KEYS}", 100 * i + part) for i in range(5 + 3 * part)]


def parts_of(source: JobVertex) -> int:
    """How many parts the table has."""
    spec = source.operators[0].spec
    assert isinstance(spec, SourceSpec)
    return int(spec.options["parts"])


def all_rows(job: JobGraph) -> list[Row]:
    """What the sink of a line of vertices must hold in the end."""
    return rows_behind(job, {part: len(part_rows(part)) for part in range(parts_of(job.vertices[0]))})


def counted_rows(job: JobGraph, read: Mapping[int, int]) -> list[Row]:
    """What reaches COUNT of a job, or the sink of one without it, once so many rows of each part are read."""
    rows = [row for part, number in read.items() for row in part_rows(part)[:number]]
    if any(isinstance(o.spec, CalcSpec) for v in job.vertices for o in v.operators):
        rows = [(k, v) for k, v in rows if v >= KEPT_FROM]
    return rows * _copies(job, is_behind_count=False)


def rows_behind(job: JobGraph, read: Mapping[int, int]) -> list[Row]:
    """What the sink holds once so many rows of each part have passed the whole job."""
    rows = counted_rows(job, read)
    if count_vertex(job) is not None:
        rows = list(Counter(k for k, _ in rows).items()) * _copies(job, is_behind_count=True)
    return sorted(rows)


def count_vertex(job: JobGraph) -> JobVertex | None:
    return next((v for v in job.vertices if v.operators[0].spec == COUNT), None)


def _copies(job: JobGraph, is_behind_count: bool) -> int:
    """How often a row comes through the exchanges before COUNT, or behind it."""
    counting = count_vertex(job)
    return copies_behind(job, lambda vertex: vertex is counting)[is_behind_count]


def copies_behind(job: JobGraph, counts: Callable[[JobVertex], bool]) -> tuple[int, int]:
    """How often a row comes through the exchanges before the first vertex that counts, and behind it."""
    parallelism, copies, is_behind = {v.id: v.parallelism for v in job.vertices}, [1, 1], False
    for vertex, edge in zip(job.vertices, job.edges, strict=False):
        is_behind = is_behind or counts(vertex)
        if edge.exchange.kind is ExchangeKind.BROADCAST:
            copies[is_behind] *= parallelism[edge.target]
    return copies[0], copies[1]


def window_name(key: str, end_ms: int) -> str:
    """As the sink names a window."""
    return f"{key} until {end_ms}"


class Disk:
    """What the sinks of all jobs have written. `staged` is what nobody sees; `visible` what has been committed.

    `now_ms` is the one clock of the simulation; those of processes begin anywhere."""

    def __init__(self, fate: random.Random, now_ms: Callable[[], int]) -> None:
        self.fate = fate
        self.now_ms = now_ms
        self.is_calm = False
        self.staged: dict[str, dict[str, Changes]] = {}
        self.visible: dict[str, dict[str, Changes]] = {}
        # What the JobManager has been told of, so that it has to name it.
        self.reported: set[tuple[str, str]] = set()
        # What aborts have removed.
        self.removed: set[str] = set()
        # The jobs of all files that ever were.
        self._owners: dict[str, str] = {}
        self._first_read_ms: dict[str, int] = {}

    def first_read_ms(self, job_id: str) -> int:
        """When a source of the job was opened for the first time: now, if none was."""
        return self._first_read_ms.setdefault(job_id, self.now_ms())

    def stage(self, job_id: str, name: str, rows: Changes) -> str:
        """A file that nobody sees; returns its name, which no other file ever has."""
        file = f"{name}-{len(self._owners)}"
        self._owners[file] = job_id
        self.staged.setdefault(job_id, {})[file] = rows
        return file

    def commit(self, files: list[str], is_broken: bool) -> None:
        """Make files visible that are not yet; when the commit breaks, the first half of them is."""
        for file in files[: len(files) // 2] if is_broken else files:
            job_id = self._owners[file]
            visible = self.visible.setdefault(job_id, {})
            if file in visible:
                continue
            if file in self.removed:
                # Somebody died between an abort and the note of it.
                raise ExternalError(
                    "SS5015", f"{file} of {job_id} has vanished", reason=FailureReason.EXTERNAL
                )
            assert file in self.staged.get(job_id, {}), f"{file} of {job_id} is lost"
            visible[file] = self.staged[job_id].pop(file)

    def abort(self, job_id: str, files: list[str]) -> None:
        """Remove these files, seen or not, and what the job has staged and not reported."""
        staged = self.staged.get(job_id, {})
        for file in [*files, *(f for f in list(staged) if (job_id, f) not in self.reported)]:
            staged.pop(file, None)
            self.visible.get(job_id, {}).pop(file, None)
            self.removed.add(file)

    def changes(self, job_id: str) -> dict[Row, int]:
        """How often each row of the job is visible; less than 0 times if it was retracted before it came."""
        found: Counter[Row] = Counter()
        for changes in self.visible.get(job_id, {}).values():
            for row, sign in changes:
                found[row] += sign
        return {row: times for row, times in found.items() if times}


class Reader:
    """Reads the parts that it has, from where its positions say. State: the rows that are left of each part."""

    lasting = 0.2
    """The share of readers that last longer than any fault."""
    failing = 0.05
    """The share of readers that fail, each time that they have rows with a probability of `fails_now`."""
    fails_now = 0.5
    waiting = 0.2
    """The share of polls without rows."""

    def __init__(self, context: ConnectorContext, positions: list[dict[str, Any]]) -> None:
        disk: Disk = context.files
        self._now_ms = disk.now_ms
        self._fate = disk.fate
        self._parts: deque[tuple[int, list[Row]]] = deque()
        self._read(positions)
        is_calm = disk.is_calm
        # Some sources last longer than any fault: their jobs are there to be cancelled, or to lose a TaskManager. The time of all
        # attempts counts: a job that fails at one of its many checkpoints would last as long again.
        lasts_ms = 0 if is_calm or self._fate.random() >= self.lasting else SOURCE_MAX_MS
        self._end_ms = disk.first_read_ms(context.job_id) + lasts_ms
        self._fails = not is_calm and self._fate.random() < self.failing

    def _read(self, positions: Iterable[dict[str, Any]]) -> None:
        for position in positions:
            rows = self.rows_of(position["part"])
            self._parts.append((position["part"], rows[position.get("row", 0) :]))

    def rows_of(self, part: int) -> list[Row]:
        return part_rows(part)

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if self._fate.random() < self.waiting or (not self._parts and self._now_ms() < self._end_ms):
            return SourceStatus.NOTHING_YET
        if not self._parts:
            return SourceStatus.END
        if self._fails and self._fate.random() < self.fails_now:
            raise JobError("SS5002", "no such row", reason=FailureReason.OPERATOR_FAILED)
        return self.next_batch()

    def next_batch(self) -> pa.RecordBatch:
        """The next rows of the first part."""
        part, rows = self._parts.popleft()
        number = self.rows_taken(part, rows)
        if rows[number:]:
            self._parts.appendleft((part, rows[number:]))
        return self.made(rows[:number])

    def rows_taken(self, part: int, left: list[Row]) -> int:
        """How many rows the next batch has."""
        return BATCH_ROWS

    def made(self, rows: list[Row]) -> pa.RecordBatch:
        return pa.record_batch(
            {"k": pa.array([k for k, _ in rows]), "v": pa.array([v for _, v in rows], pa.int64())}
        )

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return [{"part": p, "row": len(self.rows_of(p)) - len(left)} for p, left in self._parts]

    def close(self) -> None:
        return None


class _AssignedReader(Reader):
    """Reads the parts that it is assigned, and requests further ones before it needs them, or only then."""

    def __init__(self, context: ConnectorContext, positions: list[dict[str, Any]]) -> None:
        super().__init__(context, positions)
        self._has_all = True
        self._is_early = self._fate.random() < 0.5

    def add_splits(self, assigned: AssignedSplits) -> None:
        self._read(assigned.positions)
        self._has_all = assigned.is_last

    @property
    def wants_splits(self) -> bool:
        return self._is_early or not self._parts

    @property
    def returned_splits(self) -> tuple[dict[str, Any], ...]:
        return ()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        polled = super().poll()
        return SourceStatus.NOTHING_YET if polled is SourceStatus.END and not self._has_all else polled


class _Writer:
    """One file for each checkpoint that has rows, and one for the end."""

    def __init__(self, context: ConnectorContext) -> None:
        self._disk: Disk = context.files
        self._job_id = context.job_id
        self._name = f"{context.vertex_id[-2:]}-{context.subtask}-{context.attempt}"
        self._rows: Changes = []

    def write(self, batch: pa.RecordBatch) -> None:
        columns = batch.to_pydict()
        kinds = columns.get(ROW_KIND_COLUMN, [RowKind.INSERT] * batch.num_rows)
        signs = (1 if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1 for kind in kinds)
        keys = columns["k"]
        if "window_end" in columns:
            ends = batch.column("window_end").cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist()
            keys = [window_name(key, end) for key, end in zip(keys, ends, strict=True)]
        self._rows += zip(zip(keys, columns["v"], strict=True), signs, strict=True)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        is_last = checkpoint_id == LAST_CHECKPOINT_ID
        if not self._disk.is_calm and self._disk.fate.random() < (0.05 if is_last else 0.01):
            raise JobError("SS5002", "cannot be closed", reason=FailureReason.OPERATOR_FAILED)
        if not self._rows and not is_last:
            return []
        name = f"{self._name}-{'end' if is_last else checkpoint_id}"
        file = self._disk.stage(self._job_id, name, self._rows)
        self._rows = []
        return [file_of(file, self._job_id, checkpoint_id)]

    def abort(self) -> None:
        self._rows = []


class SimulatedConnector:
    """`context.files` is the Disk. Opening fails now and then."""

    descriptor = ConnectorDescriptor("simulated", options=(), reading=Reading(), writing=Writing())

    def source(self, spec: SourceSpec, context: ConnectorContext, splits: Any) -> Reader:
        self._open(context)
        if spec.connector == ASSIGNED:
            return _AssignedReader(context, splits)
        if splits is None:
            parts = range(int(spec.options["parts"]))
            splits = [{"part": part} for part in parts if part % context.parallelism == context.subtask]
        if "pauses" in spec.options:
            from simulated_event_time import TimedReader

            return TimedReader(spec, context, splits)
        return Reader(context, splits)

    def sink(self, spec: SinkSpec, mode: ChangelogMode, context: ConnectorContext) -> _Writer:
        self._open(context)
        return _Writer(context)

    def _open(self, context: ConnectorContext) -> None:
        disk: Disk = context.files
        if not disk.is_calm and disk.fate.random() < 0.02:
            raise JobError("SS5002", "cannot be opened", reason=FailureReason.OPERATOR_FAILED)


After = Callable[[int, Callable[[], None]], None]
"""`after(delay_ms, action)` of the simulated clock."""


CAPACITY_ITEMS = 3


class SimulatedChannel:
    """From one subtask to another: items arrive in order, each after a delay of its own. It has room for a few items that have
    not been read."""

    def __init__(self, after: After, fate: random.Random) -> None:
        self._after = after
        self._fate = fate
        self._under_way: deque[Any] = deque()
        self._items: deque[Any] = deque()
        self._on_readable: Callable[[], None] = lambda: None
        self._on_room: Callable[[], None] = lambda: None
        self._on_first: Callable[[], None] = lambda: None
        self._firsts = 0
        self.is_closed = False
        self.has_ended = False
        self.on_read: Callable[[int], None] | None = None
        self.on_timed: Callable[[CheckpointBarrier], None] | None = None

    @property
    def has_room(self) -> bool:
        return self.is_closed or len(self._under_way) + len(self._items) < CAPACITY_ITEMS

    is_overdrawn = False

    def when_room(self, on_room: Callable[[], None]) -> None:
        self._on_room = on_room

    def put(self, item: Any, size: int, key_hashes: Any = None) -> None:
        if self.is_closed:
            raise ChannelClosed
        self._under_way.append(item)
        self._after(self._fate.randint(0, 30), self._arrive)

    def _arrive(self) -> None:
        # A barrier that has passed what was under way before it has arrived already.
        if self.is_closed or not self._under_way:
            return
        item = self._under_way.popleft()
        self.has_ended = self.has_ended or isinstance(item, EndOfInput)
        self._items.append(item)
        if len(self._items) == 1:
            self._on_readable()

    def put_first(self, item: Any, size: int) -> tuple[QueuedItem, ...]:
        """It passes what has arrived and what is under way, and is there at once."""
        if self.is_closed:
            raise ChannelClosed
        passed = [*list(self._items)[self._firsts :], *self._under_way]
        self._items.insert(self._firsts, item)
        self._firsts += 1
        self._on_first()
        return tuple(QueuedItem(one, 0) for one in passed)

    def holds(self, checkpoint_id: int) -> bool:
        return self._place_of(checkpoint_id) is not None

    def _place_of(self, checkpoint_id: int) -> int | None:
        for place, item in enumerate([*self._items, *self._under_way]):
            if isinstance(item, CheckpointBarrier) and item.checkpoint_id == checkpoint_id:
                return None if item.is_unaligned else place
        return None

    def overtake(self, checkpoint_id: int) -> tuple[QueuedItem, ...]:
        place = self._place_of(checkpoint_id)
        if place is None:
            return ()
        items = [*self._items, *self._under_way]
        passed = tuple(QueuedItem(one, 0) for one in items[self._firsts : place])
        queue, place = (
            (self._items, place) if place < len(self._items) else (self._under_way, place - len(self._items))
        )
        barrier = msgspec.structs.replace(queue[place], is_unaligned=True)
        del queue[place]
        self._items.insert(self._firsts, barrier)
        self._firsts += 1
        self._on_first()
        return passed

    def take_first(self) -> tuple[QueuedItem | None, bool]:
        return self.take() if self._firsts else (None, False)

    def take(self) -> tuple[QueuedItem | None, bool]:
        queued = QueuedItem(self._items.popleft(), 0) if self._items else None
        self._firsts = max(0, self._firsts - 1)
        self._on_room()
        return queued, bool(self._items)

    def listen(self, on_readable: Callable[[], None], on_first: Callable[[], None]) -> None:
        self._on_readable = on_readable
        self._on_first = on_first
        if self._items:
            on_readable()

    def flush(self) -> None:
        return None

    def wait_connected(self) -> None:
        return None

    def close(self) -> None:
        self.is_closed = True
        self._items.clear()
        self._on_room()


class SimulatedExchange:
    """The channels of one process; `channels` are those of all processes. A process that ends breaks its channels."""

    def __init__(
        self,
        channels: dict[tuple[str, str, int], SimulatedChannel],
        after: After,
        fate: random.Random,
        is_alive: Callable[[str], bool],
    ) -> None:
        self._channels = channels
        self._after = after
        self._fate = fate
        self._is_alive = is_alive
        self._written: list[SimulatedChannel] = []
        self._read: list[tuple[SimulatedChannel, str, Callable[[str], None]]] = []

    def _meet(self, key: tuple[str, str, int]) -> SimulatedChannel:
        return self._channels.setdefault(key, SimulatedChannel(self._after, self._fate))

    def open_output(
        self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int
    ) -> SimulatedChannel:
        channel = self._meet((job_id, partition_id, subpartition))
        self._written.append(channel)
        return channel

    def open_input(
        self,
        job_id: str,
        descriptor: InputChannelDescriptor,
        capacity_bytes: int,
        on_lost: Callable[[str], None],
    ) -> SimulatedChannel:
        channel = self._meet((job_id, descriptor.partition_id, descriptor.subpartition))
        self._read.append((channel, descriptor.address, on_lost))
        if not self._is_alive(descriptor.address):
            on_lost("its process has ended")
        return channel

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> Any:
        raise AssertionError("no job here sends rows to a client")

    def release_job(self, job_id: str) -> None:
        return None

    def peer_has_ended(self, address: str) -> None:
        """Another process is gone, and what it had not sent."""
        for channel, producer, on_lost in self._read:
            if producer == address and not channel.has_ended:
                on_lost("its process has ended")

    def end(self) -> None:
        """This process is gone: nobody reads what others send to it, and what it has sent is lost with it."""
        for channel, _, _ in self._read:
            channel.close()


@dataclasses.dataclass
class SimulatedTask:
    """One task of the product, run by `step`; `report` gets its states.

    `states` are restored before the first row; `is_waiting`: its last step found nothing to do."""

    descriptor: TaskDeploymentDescriptor
    exchange: SimulatedExchange
    disk: Any
    now_ms: Callable[[], int]
    after: After
    report: Callable[[TaskStateChanged], None]
    states: Mapping[int, OperatorSnapshot] = dataclasses.field(default_factory=dict)
    request_splits: Callable[[SplitsRequested | WatermarkReported], None] | None = None
    report_checkpoint: Callable[[CheckpointReport], None] | None = None
    state_files: Callable[[str, Mapping[str, str]], Files] | None = None
    write: Callable[[Callable[[], None]], None] | None = None
    step_peers: Callable[[SimulatedTask], None] | None = None

    def __post_init__(self) -> None:
        # A step that waits for other subtasks of the vertex, which it goes on from.
        self._suspended: greenlet | None = None
        self.is_stuck = False
        self.has_ended = False
        self.is_waiting = False
        # How far event time has come behind each operator, by id.
        self.reached: dict[int, int] = {}
        self._is_open = False
        self._has_finished = False
        self._awaits_cancellation = False
        self._left: tuple[SinkCommittables, ...] = ()
        self._mailbox = Mailbox()
        self._cancellation = TaskCancellation()
        self._context = TaskContext(
            now_ms=self.now_ms,
            files=self.disk,
            exchange=self.exchange,  # type: ignore[arg-type]
            mailbox=self._mailbox,
            cancellation=self._cancellation,
            times=TaskTimes(),
            pause_ms=lambda ms: self._cancellation.check(),
            on_lost=lambda cause: self.after(2000, lambda: self._mailbox.post(_lost)),
            wait_for_peers=self._wait_for_peers,
            report=self._report,
            write=self.write or (lambda call: self.after(0, call)),
            memory=ManagedMemory().open(
                self.descriptor.allocation_id, self.descriptor.execution_id, self.descriptor.config
            ),
        )
        if self.state_files is not None:
            self._context = dataclasses.replace(self._context, state_files=self.state_files)
        self._opened = OpenedTask(self.descriptor, self._context)

    def _report(self, report: TaskReport) -> None:
        """What the parts of the task report; its states the simulation reports itself."""
        if isinstance(report, SplitsRequested | WatermarkReported):
            (self.request_splits or _refuse)(report)
        else:
            assert not isinstance(report, TaskStateChanged)
            (self.report_checkpoint or _refuse)(report)

    def tell_of_checkpoint(self, message: CheckpointMessage) -> None:
        self._mailbox.post(lambda: self._opened.checkpoints.on_message(message))

    def align(self, watermark_ms: int) -> None:
        self._mailbox.post(lambda: self._opened.source().on_allowed(watermark_ms))

    def give_splits(self, number: int, assigned: AssignedSplits) -> None:
        self._mailbox.post(lambda: self._opened.source().on_assigned(number, assigned))

    @property
    def chain(self) -> OperatorChain:
        return self._opened.chain

    @property
    def counted(self) -> dict[int, dict[str, int | float]]:
        """What its operators have counted, also those of a task that has ended."""
        return counters_of({id: counters.read() for id, counters in self.chain.counters.items()})

    def flush(self) -> None:
        """Send what its operators and outputs hold only to form larger batches."""
        self._opened.loop.flush()

    def cancel(self) -> None:
        self._cancellation.request()

    @property
    def is_cancelled(self) -> bool:
        return self._cancellation.is_requested

    def step(self) -> None:
        """Do the next thing, as the thread of a task does it."""
        if self.is_stuck or self.has_ended:
            return
        step = self._suspended or greenlet(self._step)
        step.switch()
        self._suspended = None if step.dead else step

    @property
    def is_suspended(self) -> bool:
        return self._suspended is not None

    def _wait_for_peers(self, event: threading.Event) -> None:
        """Within a step: until its next turn. Of a call from outside: while the others take turns."""
        while not event.is_set():
            parent = greenlet.getcurrent().parent
            if parent is not None:
                self.is_waiting = True
                parent.switch()
            else:
                assert self.step_peers is not None
                self.step_peers(self)

    def _step(self) -> None:
        if self._awaits_cancellation:
            if self._cancellation.is_requested:
                self._end(ExecutionState.CANCELED)
            return
        try:
            self._do_next()
        except ChannelClosed:
            self._close()
            self._awaits_cancellation = True
        except TaskCancelled:
            self._close()
            self._end(ExecutionState.CANCELED)
        except SqlStreamError as error:
            self._close()
            self._cancellation.close_outputs()
            is_cancelled = self._cancellation.is_requested
            self._end(ExecutionState.CANCELED if is_cancelled else ExecutionState.FAILED, ErrorInfo.of(error))

    def _do_next(self) -> None:
        loop = self._opened.loop
        self._cancellation.check()
        while (mail := self._mailbox.take_mail()) is not None:
            mail()
        if not self._is_open:
            TaskOpening(self.descriptor, self._context, self._opened).open()
            self.chain.restore(self.states)
            loop.open()
            self._is_open = True
            self.report(TaskStateChanged(self.descriptor.execution_id, ExecutionState.RUNNING))
        elif not loop.is_finished:
            self.is_waiting = loop.take().longest_s != 0
            loop.fire_timers()
        elif not self._has_finished:
            loop.finish()
            self._has_finished = True
        elif self._opened.checkpoints.are_written:
            committables = self._opened.committables()
            loop.close()
            self.has_ended = True
            self.report(
                TaskStateChanged(
                    self.descriptor.execution_id, ExecutionState.FINISHED, committables=committables
                )
            )

    def _close(self) -> None:
        self._left = self._opened.committables()
        self._opened.checkpoints.close()
        self._opened.loop.close()

    def _end(self, state: ExecutionState, error: ErrorInfo | None = None) -> None:
        self.has_ended = True
        failure = error if state is ExecutionState.FAILED else None
        self.report(TaskStateChanged(self.descriptor.execution_id, state, failure, self._left))


def _refuse(report: SplitsRequested | WatermarkReported | CheckpointReport) -> None:
    raise AssertionError(f"nobody takes a report here, but {report}")


def _lost() -> None:
    raise JobError("SS6053", "lost the connection to a producer", reason=FailureReason.PARTITION_LOST)
