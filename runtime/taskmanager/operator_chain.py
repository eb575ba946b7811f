"""The operators of one task: a tree of direct calls from the head down to sinks and result partitions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.elements import (
    HAND_OVER,
    WATERMARK_MAX,
    Element,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.messages.ledger import DONE, HELD, RECEIVED, RESTORED, SIDES, of_side
from sqlstream.runtime.host.clock import thread_cpu_ns
from sqlstream.runtime.memory.array_memory import in_force, memory_in_force
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.mailbox import ProcessingTimers
from sqlstream.runtime.taskmanager.metrics import OperatorCounters
from sqlstream.runtime.taskmanager.result_partition import ResultPartition

if TYPE_CHECKING:
    from sqlstream.runtime.operators.deferred_rows import DeferredRows


class ChainPosition:
    """The operator that the task's thread is running, which an exception is attributed to."""

    def __init__(self) -> None:
        self.current: ChainedOperator | None = None


class TimedPosition(ChainPosition):
    """Counts the processor time that the task's thread spends in each operator as `cpuTimeNs`: whenever another one begins to
    run, the time since goes to the one before. Rows that nobody's operator runs for belong to the head.

    State: when the present operator began, and whose counters there are."""

    def __init__(self) -> None:
        self._current: ChainedOperator | None = None
        self._counters: Mapping[int, OperatorCounters] = {}
        self._since_ns = 0
        self._thread = -1

    def watch(self, counters: Mapping[int, OperatorCounters]) -> None:
        self._counters = counters

    @property
    def current(self) -> ChainedOperator | None:
        return self._current

    @current.setter
    def current(self, operator: ChainedOperator | None) -> None:
        now_ns, thread = thread_cpu_ns(), threading.get_ident()
        # Another thread opens the task than runs it.
        if thread == self._thread:
            head = next(iter(self._counters), -1)
            spent_by = self._counters.get(self._current.id if self._current is not None else head)
            if spent_by is not None:
                spent_by.count("cpuTimeNs", now_ns - self._since_ns)
        self._current, self._since_ns, self._thread = operator, now_ns, thread


class ChainOutput:
    """Where one operator's rows go: the operators after it in the chain, and result partitions. Implements
    `Output`.

    `has_time_at_end`: the only watermark is the last one, at the end of input.
    State: the last watermark and status sent, so that watermarks only rise and no status is sent twice. Which status those behind
    know from before a restore is not known.
    """

    def __init__(
        self, counters: OperatorCounters, check_cancelled: Callable[[], None], *, has_time_at_end: bool
    ) -> None:
        self._counters = counters
        self._has_time_at_end = has_time_at_end
        self._check_cancelled = check_cancelled
        self._nodes: list[OperatorNode] = []
        self._partitions: list[ResultPartition] = []
        self._is_idle: bool | None = None

    def add_node(self, node: OperatorNode) -> None:
        self._nodes.append(node)

    def add_partition(self, partition: ResultPartition) -> None:
        self._partitions.append(partition)

    def clear(self) -> None:
        """Forget the operators behind it; nothing is emitted after this."""
        self._nodes = []

    def emit(self, batch: pa.RecordBatch) -> None:
        rows = batch.num_rows
        if rows == 0:
            return
        # Checked here too: one input batch of a join can emit for minutes.
        self._check_cancelled()
        self._counters.records_out += rows
        for node in self._nodes:
            node.on_batch(batch, 0)
        for partition in self._partitions:
            partition.write(batch)

    @property
    def splits_rows(self) -> bool:
        return not self._nodes and len(self._partitions) == 1 and self._partitions[0].splits_rows

    def emit_rows(self, batch: pa.RecordBatch, rows: np.ndarray) -> None:
        if not self.splits_rows:
            # Compiled kernels take half a second to load; a job that selects no rows does not wait for them.
            from sqlstream.runtime.kernels.take import take_batch

            self.emit(take_batch(batch, rows))
        elif len(rows):
            self._check_cancelled()
            self._counters.records_out += len(rows)
            self._partitions[0].write(batch, rows)

    def emit_deferred(self, rows: DeferredRows) -> None:
        if self._partitions or not self._nodes:
            self.emit(rows.batch())
        elif rows.num_rows:
            self._check_cancelled()
            self._counters.records_out += rows.num_rows
            for node in self._nodes:
                node.on_deferred(rows)

    def emit_watermark(self, timestamp_ms: int) -> None:
        if timestamp_ms == HAND_OVER:
            self.emit_hand_over()
            return
        is_held = self._has_time_at_end and timestamp_ms != WATERMARK_MAX
        if is_held or timestamp_ms <= self._counters.watermark_ms:
            return
        self._counters.watermark_ms = timestamp_ms
        for node in self._nodes:
            node.on_watermark(timestamp_ms)
        self._broadcast(Watermark(timestamp_ms))

    def emit_hand_over(self) -> None:
        """The histories of the statement have ended. The output still has no watermark."""
        for node in self._nodes:
            node.on_hand_over()
        self._broadcast(Watermark(HAND_OVER))

    def emit_idle(self, is_idle: bool) -> None:
        if is_idle == self._is_idle:
            return
        self._is_idle = self._counters.is_idle = is_idle
        for node in self._nodes:
            node.on_idle(is_idle)
        self._broadcast(WatermarkStatus(is_idle))

    def emit_marker(self, marker: LatencyMarker) -> None:
        for node in self._nodes:
            node.on_marker(marker)
        for partition in self._partitions:
            partition.write_marker(marker)

    def drain(self) -> None:
        """End event time, without the end of input. Consumers are told by the barrier that follows."""
        self._counters.watermark_ms = WATERMARK_MAX
        for node in self._nodes:
            node.drain()

    def finish(self, now_ms: int) -> None:
        """Send the last watermark, then the end of input: no row follows."""
        self.emit_watermark(WATERMARK_MAX)
        for node in self._nodes:
            node.on_end_of_input(0)
            node.finish(now_ms)
        self._broadcast(EndOfInput())

    def _broadcast(self, element: Element) -> None:
        for partition in self._partitions:
            partition.broadcast(element)


class OperatorNode:
    """One operator of the chain with its output and its counters, made while its memory is in force. Called by the task's thread
    only."""

    def __init__(
        self,
        chained: ChainedOperator,
        operator: Operator[Any],
        output: ChainOutput,
        counters: OperatorCounters,
        position: ChainPosition,
    ) -> None:
        self.chained = chained
        self.operator = operator
        self.output = output
        self.counters = counters
        self._position = position
        self._memory = memory_in_force()
        self._has_sides = operator.held_by_side() is not None
        self._has_finished = False

    def on_batch(self, batch: pa.RecordBatch, input_index: int) -> None:
        caller = self._enter()
        self.counters.records_in += batch.num_rows
        if self._has_sides:
            self.counters.count(of_side(RECEIVED, input_index), batch.num_rows)
        self.operator.context.state.expire()
        self.operator.on_batch(batch, input_index, self.output)
        self._position.current = caller

    def on_deferred(self, rows: DeferredRows) -> None:
        caller = self._enter()
        self.counters.records_in += rows.num_rows
        self.operator.context.state.expire()
        self.operator.on_deferred(rows, self.output)
        self._position.current = caller

    def on_watermark(self, watermark_ms: int) -> None:
        caller = self._enter()
        handed_on = self.operator.on_watermark(watermark_ms, self.output)
        # The last watermark is sent with the end of input, after the rows that the operator emits when it
        # finishes.
        if handed_on is not None and handed_on != WATERMARK_MAX:
            self.output.emit_watermark(handed_on)
        self._position.current = caller

    def on_hand_over(self) -> None:
        caller = self._enter()
        if self.operator.on_hand_over(self.output):
            self.output.emit_hand_over()
        self._position.current = caller

    def on_marker(self, marker: LatencyMarker) -> None:
        """It passes the operator, which knows nothing of it."""
        if self.counters.latencies is not None:
            self.counters.latencies.record(marker)
        self.output.emit_marker(marker)

    def on_side_watermark(self, watermark_ms: int) -> None:
        caller = self._enter()
        self.operator.on_side_watermark(watermark_ms, self.output)
        self._position.current = caller

    def drain(self) -> None:
        caller = self._enter()
        self.operator.on_side_watermark(WATERMARK_MAX, self.output)
        self.operator.on_watermark(WATERMARK_MAX, self.output)
        self.output.drain()
        self._position.current = caller

    def on_idle(self, is_idle: bool) -> None:
        caller = self._enter()
        handed_on = self.operator.on_idle(is_idle, self.output)
        if handed_on is not None:
            self.output.emit_idle(handed_on)
        self._position.current = caller

    def on_processing_time(self, now_ms: int) -> None:
        caller = self._enter()
        self.operator.context.state.expire()
        self.operator.on_processing_time(now_ms, self.output)
        self._position.current = caller

    def flush(self) -> None:
        caller = self._enter()
        self.operator.flush(self.output)
        self._position.current = caller

    def prepare_snapshot(self) -> None:
        caller = self._enter()
        self.operator.prepare_snapshot(self.output)
        self._position.current = caller

    def on_end_of_input(self, input_index: int) -> None:
        caller = self._enter()
        self.operator.on_end_of_input(input_index, self.output)
        self._position.current = caller

    def finish(self, now_ms: int) -> None:
        caller = self._enter()
        self.operator.context.state.expire()
        self.operator.on_processing_time(now_ms, self.output)
        self.operator.on_finish(self.output)
        self._end_sides()
        self.output.finish(now_ms)
        self._position.current = caller

    def restore(self, snapshot: OperatorSnapshot, *, is_foreign: bool = False) -> None:
        with in_force(self._memory):
            self.operator.context.state.restore(snapshot)
            self.operator.on_restored()
            for suffix, held in self.held_figures() if is_foreign else ():
                self.counters.count(f"{RESTORED}{suffix}", held)

    def held_figures(self) -> Iterator[tuple[str, int]]:
        """What follows the name of a figure of rows that wait, and how many: of the operator, and of the sides of a join."""
        if self._has_finished:
            return
        if rows := self.operator.held_rows():
            yield "", rows
        for side, held in zip(SIDES, self.operator.held_by_side() or (), strict=False):
            if held:
                yield f".{side}", held

    def _end_sides(self) -> None:
        """The rows that a join still has meet no other: the state of a task that has finished is saved no more."""
        for side, rows in enumerate(self.operator.held_by_side() or ()):
            self.operator.count_of_side(DONE, side, rows)
        self._has_finished = True

    def measure_state(self) -> int:
        """Bring the counters of bytes up to date; returns what is in memory, and not in files."""
        self.counters.state_bytes = self.operator.context.state.nbytes()
        self.counters.state_file_bytes = self._memory.file_bytes
        self.counters.state_entries = self.operator.context.state.entries()
        return max(0, self.counters.state_bytes - self.counters.state_file_bytes)

    def _enter(self) -> ChainedOperator | None:
        caller, self._position.current = self._position.current, self.chained
        return caller


class OperatorChain:
    """All operators of a task, built head first: each is appended to the output of the operator that it reads.

    `head_output` belongs to a source; `head` to a task that reads the network. `check_cancelled` raises when the task
    is to end; `has_time_at_end` as of its outputs.
    State: that of the operators; `update_state_bytes` measures it and `close` releases it.
    """

    def __init__(
        self,
        position: ChainPosition,
        now_ms: Callable[[], int],
        check_cancelled: Callable[[], None] = lambda: None,
        *,
        has_time_at_end: bool = False,
    ) -> None:
        self.position = position
        self._has_time_at_end = has_time_at_end
        self._check_cancelled = check_cancelled
        self.timers = ProcessingTimers(now_ms)
        self.nodes: list[OperatorNode] = []
        self.counters: dict[int, OperatorCounters] = {}
        if isinstance(position, TimedPosition):
            position.watch(self.counters)
        self._outputs: dict[int, ChainOutput] = {}
        self._source_output: ChainOutput | None = None
        # Operators whose rows wait for other systems: few tasks have one, and each asks before it takes an item.
        self._asking: list[Operator[Any]] = []

    @property
    def has_room(self) -> bool:
        """Whether all operators take further input."""
        return all(operator.has_room() for operator in self._asking)

    @property
    def is_settled(self) -> bool:
        """Whether no row waits for another system."""
        return all(operator.is_settled() for operator in self._asking)

    @property
    def head(self) -> OperatorNode:
        return self.nodes[0]

    def add_source(self, chained: ChainedOperator) -> tuple[ChainOutput, OperatorCounters]:
        """The output of a source head, which is no operator: the task polls its reader."""
        counters = self.counters[chained.id] = OperatorCounters()
        output = self._outputs[chained.id] = self._output(counters)
        self._source_output = output
        return output, counters

    def _output(self, counters: OperatorCounters) -> ChainOutput:
        return ChainOutput(counters, self._check_cancelled, has_time_at_end=self._has_time_at_end)

    def add_table(self, chained: ChainedOperator) -> None:
        """The counters of a table that the head reads by itself."""
        self.counters[chained.id] = OperatorCounters()

    def add(
        self, chained: ChainedOperator, make: Callable[[OperatorCounters], Operator[Any]]
    ) -> OperatorNode:
        """Append an operator below the one it reads (`chained.input`), or as the head."""
        self.position.current = chained
        counters = self.counters[chained.id] = OperatorCounters()
        output = self._outputs[chained.id] = self._output(counters)
        node = OperatorNode(chained, make(counters), output, counters, self.position)
        self.nodes.append(node)
        if type(node.operator).is_settled is not Operator.is_settled:
            self._asking.append(node.operator)
        self.timers.add(node.operator, node.on_processing_time)
        if chained.input in self._outputs:
            self._outputs[chained.input].add_node(node)
        return node

    def connect(self, operator_id: int, partition: ResultPartition) -> None:
        """Send an operator's rows to a result partition as well."""
        self._outputs[operator_id].add_partition(partition)

    def output(self, operator_id: int) -> ChainOutput:
        return self._outputs[operator_id]

    def operators(self) -> Sequence[Operator[Any]]:
        return [node.operator for node in self.nodes]

    def drain(self) -> None:
        """End event time: operators emit all that waits for it. Nothing follows but a barrier."""
        if self._source_output is not None:
            self._source_output.drain()
        else:
            self.head.drain()

    def flush_head(self) -> None:
        """Of a task that may have ended meanwhile."""
        if self.nodes:
            self.head.flush()

    def flush(self) -> None:
        """Flush the rows that operators hold back only to merge them into larger batches, from the head on."""
        for node in self.nodes:
            node.flush()

    def prepare_snapshot(self) -> None:
        """Let operators emit what belongs before a barrier, from the head on."""
        for node in self.nodes:
            node.flush()
            node.prepare_snapshot()

    def snapshot(self) -> dict[int, OperatorSnapshot]:
        """The state of each operator by its id, taken between two items of the input. Rows that are only held back are flushed
        first: they are no part of it."""
        self.flush()
        return {node.chained.id: node.operator.context.state.snapshot() for node in self.nodes}

    def restore(self, snapshots: Mapping[int, OperatorSnapshot], *, is_foreign: bool = False) -> None:
        """Give each operator its share of what was saved, before the first item of the input. `is_foreign`: by another job."""
        for node in self.nodes:
            if node.chained.id in snapshots:
                node.restore(snapshots[node.chained.id], is_foreign=is_foreign)

    def held_rows(self) -> Iterator[tuple[int, str, int]]:
        """The rows that wait in the state of each operator that has any, and of each side of a join: its id, the name of the
        figure, and how many."""
        for node in self.nodes:
            for suffix, rows in node.held_figures():
                yield node.chained.id, f"{HELD}{suffix}", rows

    def hold_back(self, now_ms: int) -> None:
        """The task takes no input until its outputs have room."""
        for node in self.nodes:
            node.operator.on_held_back(now_ms)

    def update_state_bytes(self) -> dict[str, int]:
        """Measure the state; returns the bytes that each operator holds in memory, by name."""
        return {node.chained.name: node.measure_state() for node in self.nodes}

    def close(self) -> None:
        """Close every operator, the last first, even when one of them fails; the failure is raised at the end."""
        with contextlib.ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.operator.close)
            # What ended tasks still refer to must not hold their state: it would stay while the next job runs.
            self.nodes, self._asking = [], []
            self.timers.clear()
            for output in self._outputs.values():
                output.clear()
