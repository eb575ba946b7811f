"""A task: one thread that runs one subtask of a vertex, from its inputs through its operators to its
outputs."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from runtime.host.clock import steady_s
from runtime.logs import TaskLabels, label_thread
from runtime.net.channels import Channel, ChannelClosed
from runtime.net.exchange import DataExchange
from runtime.net.results import ClientStream
from runtime.operators.operator import Operator, OperatorContext
from runtime.taskmanager.input_gate import InputChannel, InputGate
from runtime.taskmanager.mailbox import Mailbox
from runtime.taskmanager.metrics import OperatorCounters, Rates, TaskTimes, per_second
from runtime.taskmanager.operator_chain import ChainOutput, ChainPosition, OperatorChain
from runtime.taskmanager.result_partition import ResultPartition, splitter
from runtime.taskmanager.sink_operator import SinkOperator
from runtime.taskmanager.task_executor import TaskStateChanged
from runtime.taskmanager.turns import Turns
from runtime.taskmanager.watermarks import TaskWatermarks
from sqlstream import config
from sqlstream.elements import (
    WATERMARK_MAX,
    WATERMARK_MIN,
    CheckpointBarrier,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from sqlstream.errors import ErrorInfo, FailureReason, InternalError, JobError, SqlStreamError
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.messages.job_state import ExecutionState
from sqlstream.messages.rpc import (
    Metrics,
    ResultPartitionDescriptor,
    SinkCommittables,
    TaskDeploymentDescriptor,
    TaskMetrics,
)
from sqlstream.specs import BatchQuerySpec, InferTableSpec, LookupJoinSpec, SinkSpec, SourceSpec, ValuesSpec
from sqlstream.spi.connector import ConnectorContext, LooksUp, MakesWatermarks, SourceReader, SourceStatus

if TYPE_CHECKING:
    from runtime.batch.query_reader import BatchQueryReader

logger = logging.getLogger(__name__)

POLL_GRID_MS = 10
"""A source task without rows polls its reader again when the clock shows a multiple of this. All tasks then wake at the same
times, one directly after the other: a task that wakes alone finds no processor cache of use, and costs several times as much."""

POLL_PAUSE_MAX_S = 1.0
"""How long a source task waits at most: the reader's clock may be set forward meanwhile."""

IDLE_MIN_S = 0.004
"""A task that has waited for this long takes turns with others that wake at the same time; a busier one does not."""

STATE_SIZE_INTERVAL_S = 0.5
"""How often a task measures its state, which only its own thread may read."""

PARTITION_LOST_GRACE_S = 2.0
"""How long a consumer that lost its producer waits to be cancelled. The JobManager cancels it once it has the real
cause."""


_TASK = -1
"""The place of the task itself among its operators' ids."""


def poll_pause_s(due_ms: int | None, now_ms: int) -> float:
    """How long to wait until a reader that has rows at `due_ms` (None: at any time) is polled.

    >>> poll_pause_s(1_015, now_ms=1_001), poll_pause_s(None, now_ms=1_001), poll_pause_s(9_000, now_ms=1_001)
    (0.019, 0.009, 1.0)
    """
    earliest_ms = now_ms + 1 if due_ms is None else max(due_ms, now_ms + 1)
    on_grid_ms = -(-earliest_ms // POLL_GRID_MS) * POLL_GRID_MS
    return min((on_grid_ms - now_ms) / 1000, POLL_PAUSE_MAX_S)


class TaskCancelled(Exception):
    """Unwinds the task's thread after `cancel`."""


@dataclasses.dataclass(frozen=True)
class TaskEnvironment:
    """What a task needs of its surroundings. The task's thread calls `report` with each state that it enters."""

    now_ms: Callable[[], int]
    files: Any
    exchange: DataExchange
    report: Callable[[TaskStateChanged], None]
    turns: Turns = dataclasses.field(default_factory=Turns)


class Task:
    """One attempt of one subtask. Operators see one thread: everything from outside comes through the
    mailbox.

    Reports RUNNING once its operators are open, then exactly one of FINISHED, CANCELED and FAILED.
    State: the chain's operators, the channels' contents; all of it is released when the thread ends.
    """

    def __init__(self, descriptor: TaskDeploymentDescriptor, environment: TaskEnvironment) -> None:
        self.descriptor = descriptor
        self._environment = environment
        self._mailbox = Mailbox()
        self._times = TaskTimes()
        self._rates: dict[int, Rates] = {_TASK: Rates()}
        self._position = ChainPosition()
        self._chain = OperatorChain(self._position, environment.now_ms, self._check_cancelled)
        self._partitions: list[ResultPartition] = []
        self._client_streams: list[ClientStream] = []
        self._interrupts: list[Callable[[], None]] = []
        self._gate = InputGate((), (), self._mailbox)
        self._watermarks = TaskWatermarks(())
        self._source: tuple[SourceReader, ChainOutput] | None = None
        self._batch_query: BatchQueryReader | None = None
        self._cancelled = threading.Event()
        self._resources = threading.Lock()
        self._state_measured_s = 0.0
        self._turn: threading.Lock | None = None
        self._thread = threading.Thread(target=self._run, name=descriptor.task_name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the task's end; returns whether it has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Request that the task stop, and wake it where it waits. Called by any thread; returns at once."""
        self._cancelled.set()
        self._mailbox.post(self._check_cancelled)
        self._close_outputs()
        with self._resources:
            interrupts = list(self._interrupts)
        for interrupt in interrupts:
            interrupt()

    def _on_cancel(self, interrupt: Callable[[], None]) -> None:
        with self._resources:
            self._interrupts.append(interrupt)

    def _close_outputs(self) -> None:
        """Wake the task where it waits for room, and close the channels that remote readers read."""
        with self._resources:
            partitions, streams = list(self._partitions), list(self._client_streams)
        for partition in partitions:
            partition.close()
        for stream in streams:
            stream.abort()

    # --- the thread

    def _run(self) -> None:
        name, subtask = self.descriptor.vertex.name, self.descriptor.subtask + 1
        label_thread(TaskLabels(self.descriptor.job_id, name, subtask, self.descriptor.attempt))
        end = self._attempt()
        self._end_turn()
        _log_end(end)
        self._environment.report(dataclasses.replace(end, metrics=self._last_figures()))

    def _attempt(self) -> TaskStateChanged:
        execution_id = self.descriptor.execution_id
        try:
            try:
                self._open()
                logger.info("the task is RUNNING")
                self._environment.report(TaskStateChanged(execution_id, ExecutionState.RUNNING))
                self._process()
                committables = self._finish()
            except Exception:
                self._give_up()
                raise
            self._release()
        except ChannelClosed:
            # The consumer of our rows has ended. The JobManager gets the cause and then cancels this
            # task.
            self._cancelled.wait()
        except Exception as error:  # the thread's boundary: every failure becomes data
            if not self._cancelled.is_set():
                self._close_outputs()
                return TaskStateChanged(execution_id, ExecutionState.FAILED, error=self._describe(error))
        else:
            return TaskStateChanged(execution_id, ExecutionState.FINISHED, committables=committables)
        return TaskStateChanged(execution_id, ExecutionState.CANCELED)

    def _describe(self, error: Exception) -> ErrorInfo:
        blamed = self._position.current
        described = ErrorInfo.of(
            error,
            vertex=self.descriptor.vertex.name,
            attempt=self.descriptor.attempt,
            span=blamed.span if blamed is not None else None,
        )
        if isinstance(error, SqlStreamError):
            return described
        logger.error("task %s failed", self.descriptor.task_name, exc_info=error)
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"in {frame.name}, {os.path.basename(frame.filename)} line {frame.lineno}"
        return msgspec.structs.replace(described, detail=where)

    def _process(self) -> None:
        if self._source is not None:
            self._read_source(*self._source)
        else:
            self._read_network()

    def _finish(self) -> tuple[SinkCommittables, ...]:
        now_ms = self._environment.now_ms()
        if self._source is not None:
            self._source[1].finish(now_ms)
        else:
            self._chain.head.finish(now_ms)
        self._measure_state()
        for stream in self._client_streams:
            stream.finish()
        for partition in self._partitions:
            partition.wait_connected()
        written = tuple(self._batch_query.committables) if self._batch_query is not None else ()
        return tuple(
            SinkCommittables(node.chained.id, node.operator.committables + written)
            for node in self._chain.nodes
            if isinstance(node.operator, SinkOperator) and node.operator.committables + written
        )

    def _give_up(self) -> None:
        """Release everything after a failure or a cancellation. A failure to clean up (a full disk, a broken file) is only
        logged: the job has to report the first cause."""
        try:
            self._release()
        except Exception as error:  # whatever it is, it must not replace the cause
            logger.warning("task %s could not clean up: %s", self.descriptor.task_name, error)

    def _release(self) -> None:
        """Release everything, even when a part fails; outputs of a finished task keep the items that are not read
        yet."""
        blamed = self._position.current
        try:
            if self._source is not None:
                self._source[0].close()
        finally:
            self._gate.close()
            self._chain.close()
        self._position.current = blamed

    # --- reading

    def _read_source(self, reader: SourceReader, output: ChainOutput) -> None:
        head = self.descriptor.vertex.operators[0]
        timed = reader if isinstance(reader, MakesWatermarks) else None
        while True:
            self._run_mail()
            self._position.current = head
            polled = reader.poll()
            if polled is SourceStatus.END:
                return
            if polled is not SourceStatus.NOTHING_YET:
                self._chain.counters[head.id].records_in += polled.num_rows
                output.emit(polled)
            if timed is not None:
                output.emit_watermark(timed.watermark_ms())
            if polled is SourceStatus.NOTHING_YET:
                self._wait(poll_pause_s(reader.next_poll_ms(), self._environment.now_ms()))
            self._chain.timers.fire_due()
            self._measure_state_at_times()

    def _wait(self, longest_s: float | None) -> None:
        """Wait for mail, input or a timer."""
        self._chain.flush()
        self._end_turn()
        since_s = steady_s()
        with self._times.idle():
            self._mailbox.wait(self._chain.timers.wait_s(longest_s))
        if steady_s() - since_s >= IDLE_MIN_S:
            self._turn = self._environment.turns.begin()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _read_network(self) -> None:
        head = self._chain.head
        self._gate.open()
        while not self._gate.is_finished:
            self._run_mail()
            channel = self._mailbox.take_readable()
            if channel is None:
                self._wait(None)
            elif isinstance(channel, InputChannel):
                item = channel.take()
                if isinstance(item, pa.RecordBatch):
                    head.on_batch(item, channel.input_index)
                elif item is not None:
                    self._on_element(channel, item)
            self._chain.timers.fire_due()
            self._measure_state_at_times()
        # Bounded inputs have sent the last watermark; operators get it in any case.
        if self._watermarks.watermark_ms != WATERMARK_MAX:
            head.on_watermark(WATERMARK_MAX)

    def _on_element(self, channel: InputChannel, element: object) -> None:
        marks, head = self._watermarks, self._chain.head
        match element:
            case Watermark(timestamp_ms):
                self._advance(marks.on_watermark(channel.input_index, channel.position, timestamp_ms), None)
            case WatermarkStatus(is_idle):
                self._advance(*marks.on_status(channel.input_index, channel.position, is_idle))
            case EndOfInput():
                self._advance(*marks.on_end(channel.input_index, channel.position))
                self._gate.on_end(channel, head.on_end_of_input)
            case LatencyMarker():
                head.on_latency(element)
            case CheckpointBarrier(checkpoint_id):
                raise InternalError(
                    f"barrier of checkpoint {checkpoint_id} came to a task that takes no checkpoints",
                    story=(f"task {self.descriptor.task_name}, input {channel.input_index}",),
                )

    def _advance(self, watermark_ms: int | None, is_idle: bool | None) -> None:
        if is_idle is False:
            self._chain.head.on_idle(False)
        if watermark_ms is not None:
            self._chain.head.on_watermark(watermark_ms)
        if is_idle:
            self._chain.head.on_idle(True)

    def _run_mail(self) -> None:
        while (mail := self._mailbox.take_mail()) is not None:
            mail()

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise TaskCancelled

    def _on_partition_lost(self, cause: str) -> None:
        """Called by any thread. The JobManager gets the real cause of a lost producer: report our own only when no
        cancellation comes."""

        def fail() -> None:
            raise JobError(
                "SS6053",
                f"lost the connection to a producer of the task: {cause}",
                reason=FailureReason.PARTITION_LOST,
            )

        timer = threading.Timer(PARTITION_LOST_GRACE_S, self._mailbox.post, (fail,))
        timer.daemon = True
        timer.start()

    # --- metrics

    def metrics(self) -> TaskMetrics:
        """The figures so far; time ratios since the last call, rates over the last seconds. For one reader thread."""
        return self._figures(
            self._times.read_ratios(),
            lambda id, counters: self._rates.setdefault(id, Rates()).read(counters),
        )

    def _last_figures(self) -> TaskMetrics:
        """The figures of the ended task; ratios and rates over its whole life. Called by the task's thread."""
        lived_s = self._times.lived_s()
        return self._figures(
            self._times.total_ratios(), lambda _, counters: per_second(counters, lived_s, {})
        )

    def _figures(self, ratios: Metrics, rates: Callable[[int, Metrics], Metrics]) -> TaskMetrics:
        operators = {id: counters.read() for id, counters in list(self._chain.counters.items())}
        rated = {
            id: figures | rates(id, {name: figures[name] for name in ("numRecordsIn", "numRecordsOut")})
            for id, figures in operators.items()
        }
        return TaskMetrics(self.descriptor.execution_id, self._task_figures(operators, ratios, rates), rated)

    def _task_figures(
        self, operators: dict[int, Metrics], ratios: Metrics, rates: Callable[[int, Metrics], Metrics]
    ) -> Metrics:
        """Records and bytes of a task are those of its network inputs and outputs, as in Flink: a source has no input."""
        heads = list(operators.values())[:1] if self._source is None else []
        counters: Metrics = {
            "numRecordsIn": heads[0]["numRecordsIn"] if heads else 0,
            "numRecordsOut": sum(f["numRecordsOut"] for f in self._sending(operators)),
            "numBytesIn": self._gate.bytes_in,
            "numBytesOut": sum(p.bytes_out for p in self._partitions),
        }
        task: Metrics = {
            **counters,
            **rates(_TASK, counters),
            "stateBytes": sum(f.get("stateBytes", 0) for f in operators.values()),
            "mailboxQueueSize": self._mailbox.queue_size,
            **ratios,
            **self._times.accumulated(),
        }
        if self._watermarks.watermark_ms != WATERMARK_MIN:
            task["currentInputWatermark"] = self._watermarks.watermark_ms
        return task

    def _sending(self, operators: dict[int, Metrics]) -> Iterator[Metrics]:
        senders = {output.edge.source_operator for output in self.descriptor.outputs}
        return (figures for id, figures in operators.items() if id in senders)

    def _measure_state_at_times(self) -> None:
        if steady_s() - self._state_measured_s >= STATE_SIZE_INTERVAL_S:
            self._measure_state()

    def _measure_state(self) -> None:
        self._chain.update_state_bytes()
        self._state_measured_s = steady_s()

    # --- opening

    def _open(self) -> None:
        operators = self.descriptor.vertex.operators
        head, *rest = operators
        if isinstance(head.spec, SourceSpec | ValuesSpec | InferTableSpec):
            self._position.current = head
            output, counters = self._chain.add_source(head)
            self._source = (self._open_reader(head, counters), output)
        elif isinstance(head.spec, BatchQuerySpec):
            rest = self._open_batch_tables()
        else:
            rest = list(operators)
        for chained in rest:
            self._chain.add(chained, functools.partial(self._open_operator, chained))
        if isinstance(head.spec, BatchQuerySpec):
            self._open_batch_query(head)
        self._position.current = None
        for output_descriptor in self.descriptor.outputs:
            self._chain.connect(
                output_descriptor.edge.source_operator, self._open_partition(output_descriptor)
            )
        self._open_inputs()

    def _open_batch_tables(self) -> list[ChainedOperator]:
        """The counters of a batch query and of the tables that its engine reads; returns the operators behind the query."""
        head, *rest = self.descriptor.vertex.operators
        self._chain.add_source(head)
        for table in (o for o in rest if isinstance(o.spec, SourceSpec)):
            self._chain.add_table(table)
        return [o for o in rest if not isinstance(o.spec, SourceSpec)]

    def _open_batch_query(self, head: ChainedOperator) -> None:
        """Start the query, once its sink is open."""
        from runtime.batch.query_reader import open_batch_query

        task, counters = self.descriptor, self._chain.counters
        context = self._connector_context(head, counters[head.id])
        self._batch_query = open_batch_query(
            task.vertex, task.execution_id, context, counters, self._position
        )
        self._source = (self._batch_query, self._chain.output(head.id))

    def _open_inputs(self) -> None:
        inputs = self.descriptor.inputs
        channels: list[tuple[Channel, ...]] = []
        for gate in inputs:
            opened = [
                self._environment.exchange.open_input(
                    self.descriptor.job_id, channel, self._capacity_bytes(), self._on_partition_lost
                )
                for channel in gate.channels
            ]
            channels.append(tuple(opened))
        self._gate = InputGate(tuple(g.edge.ordinal for g in inputs), tuple(channels), self._mailbox)
        self._watermarks = TaskWatermarks(self._gate.channels_per_input)

    def _batch_rows(self) -> int:
        batch_rows: int = config.get(self.descriptor.config, "execution.batch-rows")
        return batch_rows

    def _capacity_bytes(self) -> int:
        capacity_bytes: int = config.get(
            self.descriptor.config, "taskmanager.network.memory.max-buffered-bytes"
        )
        return capacity_bytes

    def _open_partition(self, descriptor: ResultPartitionDescriptor) -> ResultPartition:
        task = self.descriptor
        channels = tuple(
            self._environment.exchange.open_output(
                task.job_id, descriptor.partition_id, i, self._capacity_bytes()
            )
            for i in range(descriptor.subpartitions)
        )
        split = splitter(
            descriptor.edge.exchange, descriptor.subpartitions, task.subtask, task.vertex.max_parallelism
        )
        partition = ResultPartition(channels, split, self._times)
        with self._resources:
            self._partitions.append(partition)
            is_late = self._cancelled.is_set()
        if is_late:
            partition.close()
        return partition

    def _open_operator(self, chained: ChainedOperator, counters: OperatorCounters) -> Operator[Any]:
        from runtime.operators import make_operator

        task = self.descriptor
        context = OperatorContext(
            input_schemas=chained.input_schemas,
            input_modes=chained.input_modes,
            output_schema=chained.output_schema,
            output_mode=chained.output_mode,
            subtask=task.subtask,
            parallelism=task.vertex.parallelism,
            max_parallelism=task.vertex.max_parallelism,
            config=task.config,
            now_ms=self._environment.now_ms,
            count=counters.count,
            pause_ms=self._pause,
            on_cancel=self._on_cancel,
        )
        if isinstance(chained.spec, LookupJoinSpec):
            return self._open_lookup_join(chained, chained.spec, counters, context)
        if not isinstance(chained.spec, SinkSpec):
            return make_operator(chained.spec, context)
        from runtime.connectors import connector

        writer = connector(chained.spec.connector).sink(
            chained.spec, chained.input_modes[0], self._connector_context(chained, counters)
        )
        return SinkOperator(chained.spec, context, writer)

    def _open_lookup_join(
        self,
        chained: ChainedOperator,
        spec: LookupJoinSpec,
        counters: OperatorCounters,
        context: OperatorContext,
    ) -> Operator[Any]:
        from runtime.connectors import connector
        from runtime.operators.lookup_join import LookupJoin

        read = connector(spec.source.connector)
        assert isinstance(read, LooksUp)
        keys = tuple(spec.source.columns[k] for k in spec.source_keys)
        surroundings = self._connector_context(chained, counters)
        return LookupJoin(spec, context, read.lookup_source(spec.source, keys, surroundings))

    def _pause(self, pause_ms: int) -> None:
        """Wait, but not beyond the task's cancellation."""
        with self._times.idle():
            self._cancelled.wait(pause_ms / 1000)
        self._check_cancelled()

    def _open_reader(self, chained: ChainedOperator, counters: OperatorCounters) -> SourceReader:
        spec = chained.spec
        if isinstance(spec, ValuesSpec):
            from runtime.taskmanager.values_reader import ValuesReader

            return ValuesReader(spec, chained.output_schema, self.descriptor.subtask, self._batch_rows())
        if isinstance(spec, InferTableSpec):
            from runtime.inference.inference_reader import InferenceReader

            return InferenceReader(spec, self._environment.files)
        assert isinstance(spec, SourceSpec)
        from runtime.connectors import connector

        return connector(spec.connector).source(spec, self._connector_context(chained, counters), None)

    def _connector_context(self, chained: ChainedOperator, counters: OperatorCounters) -> ConnectorContext:
        task = self.descriptor
        stream = _LazyClientStream(lambda: self._open_client_stream(chained.id))
        return ConnectorContext(
            job_id=task.job_id,
            vertex_id=task.vertex.id,
            subtask=task.subtask,
            parallelism=task.vertex.parallelism,
            attempt=task.attempt,
            batch_rows=self._batch_rows(),
            config=task.config,
            now_ms=self._environment.now_ms,
            count=counters.count,
            files=self._environment.files,
            emit_result=lambda batch: stream.get().put_rows(batch),
            print_lines=lambda lines, is_error: stream.get().put_lines(lines, is_error),
            on_cancel=self._on_cancel,
        )

    def _open_client_stream(self, operator_id: int) -> ClientStream:
        task = self.descriptor
        stream = self._environment.exchange.open_client_stream(task.result_address, task.job_id, operator_id)
        with self._resources:
            self._client_streams.append(stream)
            is_late = self._cancelled.is_set()
        if is_late:
            stream.abort()
            raise ChannelClosed
        return stream


class _LazyClientStream:
    """An operator's stream to the client, opened with the first row: most operators never send one."""

    def __init__(self, open_stream: Callable[[], ClientStream]) -> None:
        self._open_stream = open_stream
        self._stream: ClientStream | None = None

    def get(self) -> ClientStream:
        if self._stream is None:
            self._stream = self._open_stream()
        return self._stream


def _log_end(end: TaskStateChanged) -> None:
    cause = f": error[{end.error.code}]: {end.error.message}" if end.error is not None else ""
    logger.info("the task is %s%s", end.state.value, cause)
