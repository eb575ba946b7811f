"""Opens what a task consists of: readers, operators, writers and channels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlstream import config
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN, Watermark, WatermarkStatus
from sqlstream.errors import InternalError
from sqlstream.graph.artifacts import PYTHON
from sqlstream.graph.job_graph import ChainedOperator
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.graph.latency_choice import target_ms_of
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint import InFlightItems, TaskRestore
from sqlstream.messages.ledger import ARRIVED, COPIED
from sqlstream.messages.rpc import (
    ResultPartitionDescriptor,
    TaskDeploymentDescriptor,
)
from sqlstream.options.checkpointing_options import is_at_least_once
from sqlstream.runtime.checkpoint.local_copies import reads_local_copies
from sqlstream.runtime.host.clock import steady_ms
from sqlstream.runtime.memory.array_memory import in_force
from sqlstream.runtime.net.channels import Channel, StreamItem
from sqlstream.runtime.net.results import ClientStream
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.runtime.operators.sink import SinkOperator
from sqlstream.runtime.operators.source_readers import HeadOpening
from sqlstream.runtime.taskmanager.checkpoints.barrier_aligner import BarrierAligner
from sqlstream.runtime.taskmanager.checkpoints.unaligned_capture import UnalignedCapture
from sqlstream.runtime.taskmanager.input_gate import BufferDebloating, InputChannel, InputGate
from sqlstream.runtime.taskmanager.inputs.network_input import NetworkInput
from sqlstream.runtime.taskmanager.inputs.readiness import DescriptorWait
from sqlstream.runtime.taskmanager.inputs.source_alignment import SourceAlignment, source_alignment
from sqlstream.runtime.taskmanager.inputs.source_input import (
    BatchLimit,
    SourceHead,
    SourceInput,
    SplitSource,
)
from sqlstream.runtime.taskmanager.inputs.task_input import FinishedInput, TaskInput
from sqlstream.runtime.taskmanager.latency import Latencies, LatencySettings, MarkerTimer
from sqlstream.runtime.taskmanager.metrics import OperatorCounters
from sqlstream.runtime.taskmanager.peer_channels import PeerChannels
from sqlstream.runtime.taskmanager.result_partition import ResultPartition, splitter
from sqlstream.runtime.taskmanager.task_context import TaskContext
from sqlstream.runtime.taskmanager.task_loop import OpenedTask
from sqlstream.specs import (
    BatchQuerySpec,
    LookupJoinSpec,
    RankSpec,
    RemotePredictSpec,
    SinkSpec,
    SourceSpec,
    VectorSearchSpec,
)
from sqlstream.specs.backfill import hands_over
from sqlstream.spi.committable import writer_name
from sqlstream.spi.connector import (
    ConnectorContext,
    LooksUp,
    SourceReader,
    TakesSplits,
    WaitsForDescriptor,
)
from sqlstream.spi.imported_by_need import imported

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.runtime.checkpoint.local_copies import SubtaskCopies
    from sqlstream.runtime.checkpoint.state_reader import SegmentReader


class TaskOpening:
    """Opens one task into an `OpenedTask`, the head's reader first and the channels last. State: the items that were in flight at
    the checkpoint which the task goes on from."""

    def __init__(
        self, descriptor: TaskDeploymentDescriptor, context: TaskContext, opened: OpenedTask
    ) -> None:
        self._descriptor = descriptor
        self._context = context
        self._opened = opened
        self._chain = opened.chain
        self._in_flight: list[tuple[InFlightItems, list[StreamItem]]] = []

    def open(self) -> None:
        """SqlStreamError of whatever cannot be opened."""
        restore = self._descriptor.restore
        if restore is not None and restore.is_finished:
            for output in self._descriptor.outputs:
                self._open_partition(output)
            take_readable = self._context.mailbox.take_readable
            self._set_input(FinishedInput(self._open_gate(), take_readable, self._opened.partitions))
            return
        self._use_python_files()
        self._open_operators()
        if restore is not None:
            since_ms = steady_ms()
            self._restore(restore)
            self._context.state_figures.restored_ms = steady_ms() - since_ms
        for output in self._descriptor.outputs:
            self._chain.connect(output.edge.source_operator, self._open_partition(output))
        for stored, items in self._in_flight:
            if stored.is_output:
                self._opened.partitions[stored.edge].restore(stored.channel, items)
                if restore is not None and restore.is_foreign:
                    self._counting_copies(self._descriptor.outputs[stored.edge])(stored.rows)
        if self._descriptor.inputs:
            self._open_inputs()
        self._track_latencies()

    def _track_latencies(self) -> None:
        """Where that is on, a source sends markers, and operators note how long those took."""
        settings, chain, now_ms = (
            LatencySettings.of(self._descriptor.config),
            self._chain,
            self._context.now_ms,
        )
        if settings is None:
            return
        for node in chain.nodes:
            is_sink = isinstance(node.chained.spec, SinkSpec)
            node.counters.latencies = Latencies(settings, now_ms, is_sink)
        head, subtask = self._descriptor.vertex.operators[0], self._descriptor.subtask
        if isinstance(self._opened.input, SourceInput):
            emit = chain.output(head.id).emit_marker
            timer = MarkerTimer(settings.interval_ms, now_ms(), head.id, subtask, emit, settings.counts_delay)
            chain.timers.watch(timer.next_ms, timer.send)

    def _use_python_files(self) -> None:
        """Users' modules are imported on the task's thread."""
        artifacts = self._descriptor.artifacts
        if self._descriptor.python is not None or artifacts:
            from sqlstream.runtime.python.environment import use_files

            check = self._context.cancellation.check
            paths = (
                self._context.artifacts.use(self._descriptor.job_id, artifacts, check) if artifacts else {}
            )
            large = [path for name, path in paths.items() if name.startswith(PYTHON)]
            named = {name: path for name, path in paths.items() if not name.startswith(PYTHON)}
            use_files(self._descriptor.python, named, large)

    def _open_operators(self) -> None:
        from sqlstream.runtime.operators import READERS

        head, *behind = self._descriptor.vertex.operators
        is_batch_query = isinstance(head.spec, BatchQuerySpec)
        if (place := READERS.get(type(head.spec))) is not None:
            self._opened.position.current = head
            self._chain.add_source(head)
            opening = self._head_opening(head)
            self._set_source(head, imported(place)(opening), opening.context)
        elif is_batch_query:
            behind = self._open_batch_tables()
        else:
            behind = [head, *behind]
        for chained in behind:
            with in_force(self._context.memory.of_operator(chained.name)):
                self._chain.add(chained, functools.partial(self._open_operator, chained))
        if is_batch_query:
            self._open_batch_query(head)
        self._opened.position.current = None

    def _restore(self, restore: TaskRestore) -> None:
        """Go on from what the subtasks of this vertex have saved. ExternalError SS6210 when that is damaged."""
        import pyarrow as pa

        from sqlstream.runtime.checkpoint.manifest_file import corrupt_checkpoint
        from sqlstream.runtime.checkpoint.state_reader import StateReader

        task, vertex = self._descriptor, self._descriptor.vertex
        files = self._context.state_files(restore.directory, task.config)
        reader = StateReader(files, restore, self._copies_read(), self._context.state_figures)
        # Rows that may be in any subtask are saved under key groups of all of them.
        parallelism, subtask = (1, 0) if restore.is_own else (vertex.parallelism, task.subtask)
        key_groups = key_groups_of(subtask, parallelism, vertex.max_parallelism)
        for node in self._chain.nodes:
            try:
                saved = reader.operator(node.chained.id, key_groups)
                if saved is not None:
                    self._chain.restore({node.chained.id: saved}, is_foreign=restore.is_foreign)
            except (pa.ArrowException, LookupError, TypeError, ValueError, AttributeError) as error:
                # The bytes are those that were written, as their checksums say, but they are not what the operator has saved.
                problem = f'it is no state of "{node.chained.name}": {type(error).__name__}: {error}'
                raise corrupt_checkpoint(restore.directory, problem) from error
        if any(state.in_flight for state in restore.states):
            self._read_in_flight(restore, reader.segments)

    def _copies_read(self) -> SubtaskCopies | None:
        return self._context.copies if reads_local_copies(self._descriptor.config) else None

    def _read_in_flight(self, restore: TaskRestore, segments: SegmentReader) -> None:
        """What was under way to and from this subtask, which is one of as many as there were."""
        from sqlstream.runtime.taskmanager.checkpoints.in_flight import read_in_flight

        task = self._descriptor
        if len(restore.states) != task.vertex.parallelism:
            raise InternalError(
                f"task {task.task_name} goes on from items in flight to {len(restore.states)} subtasks"
            )
        for stored in restore.states[task.subtask].in_flight:
            self._in_flight.append((stored, list(read_in_flight(stored, segments))))

    # --- inputs

    def _set_source(
        self, head: ChainedOperator, reader: SourceReader, context: ConnectorContext | None = None
    ) -> None:
        has_target = context is not None and target_ms_of(self._descriptor.config) > 0
        assignment = 0 if self._descriptor.splits is not None else -1
        self._set_input(
            SourceInput(
                SourceHead(
                    head,
                    reader,
                    self._split_source(reader),
                    assignment,
                    self._waiting(reader),
                    self._alignment(reader),
                    BatchLimit(context) if has_target and context is not None else None,
                    hands_over(head.spec),
                ),
                self._chain.output(head.id),
                self._chain.counters[head.id].add_records_in,
                self._opened.position,
                self._context.now_ms,
                self._opened.checkpoints.take,
                lambda: self._chain.is_settled,
            )
        )

    def _alignment(self, reader: SourceReader) -> SourceAlignment | None:
        return source_alignment(self._descriptor, reader, self._chain, self._context.report)

    def _waiting(self, reader: SourceReader) -> DescriptorWait | None:
        if not isinstance(reader, WaitsForDescriptor):
            return None
        return DescriptorWait(reader, self._context.readiness, self._context.mailbox.post, steady_ms)

    def _split_source(self, reader: SourceReader) -> SplitSource | None:
        task, first = self._descriptor, self._descriptor.splits
        if first is None:
            return None
        if not isinstance(reader, TakesSplits):
            if not first.is_last:
                raise InternalError(f"task {task.task_name} cannot take further splits")
            return None
        reader.add_splits(dataclasses.replace(first, positions=()))
        return None if first.is_last else SplitSource(task.execution_id, reader, self._context.report)

    def _set_input(self, task_input: TaskInput) -> None:
        self._opened.loop.input = task_input

    def _head_opening(self, head: ChainedOperator) -> HeadOpening:
        task = self._descriptor
        splits = task.splits.positions if task.splits is not None else None
        states = task.restore.states if task.restore is not None else ()
        positions = [position for state in states for position in state.splits or ()]
        return HeadOpening(head, self._connector_context(head), splits, positions)

    def _open_inputs(self) -> None:
        gate, checkpoints = self._open_gate(), self._opened.checkpoints
        aligner = BarrierAligner(
            gate.count_open,
            checkpoints.take,
            checkpoints.refuse,
            steady_ms,
            self._checkpoint_timeout_ms(),
            blocks=not is_at_least_once(self._descriptor.config),
        )
        capture = UnalignedCapture(
            gate.channels,
            checkpoints.begin_unaligned,
            checkpoints.take_unaligned,
            checkpoints.refuse,
            steady_ms,
            self._checkpoint_timeout_ms(),
        )
        restored = [(gate.channels[n], mark) for n, marks in enumerate(self._marks()) for mark in marks]
        restored += [
            (gate.channels[stored.channel], item)
            for stored, items in self._in_flight
            if not stored.is_output
            for item in items
        ]
        restored += self._arrived(gate)
        if restored and self._descriptor.restore is not None and self._descriptor.restore.is_foreign:
            import pyarrow as pa

            rows = sum(item.num_rows for _, item in restored if isinstance(item, pa.RecordBatch))
            self._chain.head.counters.count(ARRIVED, rows)
        take_readable = self._context.mailbox.take_readable
        debloating = self._debloating(gate)
        self._set_input(
            NetworkInput(gate, take_readable, self._chain, aligner, capture, restored, debloating)
        )

    def _arrived(self, gate: InputGate) -> Iterator[tuple[InputChannel, StreamItem]]:
        """Rows in flight to other subtasks that are this one's now, in the order of each channel; watermarks behind them."""
        restore = self._descriptor.restore
        if restore is None or restore.arrivals is None:
            return
        from sqlstream.runtime.checkpoint.state_reader import SegmentReader
        from sqlstream.runtime.taskmanager.checkpoints.in_flight import arrived_batches

        task, first = self._descriptor, 0
        opened = self._context.state_files(restore.directory, task.config)
        reader = SegmentReader(opened, restore.directory, self._copies_read(), self._context.state_figures)
        for number, one in enumerate(task.inputs):
            channels = gate.channels[first : first + len(one.channels)]
            first += len(one.channels)
            own = [rows for rows in restore.arrivals.rows if rows.gate == number]
            for batch in arrived_batches(own, one.edge.exchange, task.vertex, task.subtask, reader):
                yield channels[0], batch
            marks = restore.arrivals.watermarks[number]
            watermark_ms = marks[task.subtask] if restore.is_own else min(marks)
            # At its end of time an edge has ended, and its channels say so.
            if watermark_ms not in (WATERMARK_MIN, WATERMARK_MAX):
                yield from ((channel, Watermark(watermark_ms)) for channel in channels)

    def _debloating(self, gate: InputGate) -> BufferDebloating | None:
        task_config = self._descriptor.config
        if not config.get(task_config, "taskmanager.network.memory.buffer-debloat.enabled"):
            return None
        return BufferDebloating(gate, self._context.times, task_config, self._capacity_bytes())

    def _marks(self) -> Iterator[tuple[StreamItem, ...]]:
        """Event time of the channels that the subtask read, as elements that each would have brought."""
        restore, subtask = self._descriptor.restore, self._descriptor.subtask
        for channel in restore.states[subtask].channels if restore is not None and restore.is_own else ():
            status = (WatermarkStatus(True),) if channel.is_idle else ()
            is_known = channel.watermark_ms != WATERMARK_MIN
            # Idleness first: its watermark must not hold that of the others back.
            yield (*status, Watermark(channel.watermark_ms)) if is_known else status

    def _open_gate(self) -> InputGate:
        inputs, job_id = self._descriptor.inputs, self._descriptor.job_id
        exchange, on_lost = self._context.exchange, self._context.on_lost
        channels: list[tuple[Channel, ...]] = []
        for gate in inputs:
            opened = [exchange.open_input(job_id, c, self._capacity_bytes(), on_lost) for c in gate.channels]
            channels.append(tuple(opened))
        ordinals = tuple(gate.edge.ordinal for gate in inputs)
        return InputGate(ordinals, tuple(channels), self._context.mailbox)

    # --- batch queries

    def _open_batch_tables(self) -> list[ChainedOperator]:
        """The counters of a batch query and of the tables that its engine reads; returns the operators behind the query."""
        head, *rest = self._descriptor.vertex.operators
        self._chain.add_source(head)
        for table in (o for o in rest if isinstance(o.spec, SourceSpec)):
            self._chain.add_table(table)
        return [o for o in rest if not isinstance(o.spec, SourceSpec)]

    def _open_batch_query(self, head: ChainedOperator) -> None:
        """Start the query, once its sink is open."""
        from sqlstream.runtime.batch.query_reader import open_batch_query

        task, counters = self._descriptor, self._chain.counters
        context = self._connector_context(head)
        query = open_batch_query(task.vertex, task.execution_id, context, counters, self._opened.position)
        self._opened.batch_query = query
        self._set_source(head, query)

    # --- operators

    def _open_operator(self, chained: ChainedOperator, counters: OperatorCounters) -> Operator[Any]:
        from sqlstream.runtime.operators import make_operator

        task = self._descriptor
        context = OperatorContext(
            input_schemas=chained.input_schemas,
            input_modes=chained.input_modes,
            output_schema=chained.output_schema,
            output_mode=chained.output_mode,
            subtask=task.subtask,
            parallelism=task.vertex.parallelism,
            max_parallelism=task.vertex.max_parallelism,
            config=task.config,
            now_ms=self._context.now_ms,
            count=counters.count,
            pause_ms=self._context.pause_ms,
            on_cancel=self._context.cancellation.add_interrupt,
            files=self._context.files,
            job_id=task.job_id,
            expired=chained.state.expired if chained.state is not None else (),
            peers=self._open_peers() if task.peers else None,
            feeds_global_phase=isinstance(chained.spec, RankSpec)
            and any(o.input == chained.id and isinstance(o.spec, RankSpec) for o in task.vertex.operators),
        )
        match chained.spec:
            case LookupJoinSpec():
                return self._open_lookup_join(chained, chained.spec, context)
            case SinkSpec():
                return self._open_sink(chained, chained.spec, context)
            case RemotePredictSpec():
                from sqlstream.runtime.operators.remote_predict import RemotePredict

                asking = make_operator(chained.spec, context)
                assert isinstance(asking, RemotePredict)
                # An operator that is made alone, for EXPLAIN, asks no server.
                asking.connect(self._context.files, lambda: self._context.mailbox.post(lambda: None))
                return asking
        return make_operator(chained.spec, context)

    def _open_peers(self) -> PeerChannels | None:
        """The channels of the head to those of the other subtasks."""
        if self._chain.nodes:
            return None
        task, exchange, size = self._descriptor, self._context.exchange, self._capacity_bytes()
        mailbox, chain, on_lost = self._context.mailbox, self._chain, self._context.on_lost
        channels = {
            peer.subtask: (
                exchange.open_output(task.job_id, task.peers_id, peer.subtask, size),
                exchange.open_input(task.job_id, peer, size, on_lost),
            )
            for peer in task.peers
        }
        peers = PeerChannels(
            task.subtask,
            channels,
            task.vertex.max_parallelism,
            lambda: mailbox.post(chain.flush_head),
            self._context.wait_for_peers,
        )
        self._context.cancellation.add_output(peers.close)
        return peers

    def _open_sink(self, chained: ChainedOperator, spec: SinkSpec, context: OperatorContext) -> Operator[Any]:
        from sqlstream.runtime.connectors import connector

        surroundings = self._connector_context(chained)
        writer = connector(spec.connector).sink(spec, chained.input_modes[0], surroundings)
        return SinkOperator(spec, context, writer)

    def _open_lookup_join(
        self, chained: ChainedOperator, spec: LookupJoinSpec, context: OperatorContext
    ) -> Operator[Any]:
        from sqlstream.runtime.connectors import connector
        from sqlstream.runtime.operators.join.lookup_join import LookupJoin

        if isinstance(spec, VectorSearchSpec):
            from sqlstream.runtime.lookup.whole_table import WholeTable
            from sqlstream.runtime.operators.join.vector_search import VectorSearch

            table = WholeTable(spec.source, self._connector_context(chained), self._context.pause_ms)
            return VectorSearch(spec, context, table)
        read = connector(spec.source.connector)
        assert isinstance(read, LooksUp)
        keys = tuple(spec.source.columns[k] for k in spec.source_keys)
        surroundings = self._connector_context(chained)
        return LookupJoin(spec, context, read.lookup_source(spec.source, keys, surroundings))

    def _connector_context(self, chained: ChainedOperator) -> ConnectorContext:
        task = self._descriptor
        stream = _LazyClientStream(lambda: self._open_client_stream(chained.id))
        return ConnectorContext(
            job_id=task.job_id,
            vertex_id=task.vertex.id,
            subtask=task.subtask,
            parallelism=task.vertex.parallelism,
            attempt=task.attempt,
            is_first=not task.attempt and task.restore is None,
            batch_rows=self._batch_rows(),
            config=task.config,
            now_ms=self._context.now_ms,
            count=self._chain.counters[chained.id].count,
            files=self._context.files,
            emit_result=lambda batch: self._send_result(stream, batch),
            print_lines=lambda lines, is_error: stream.get().put_lines(lines, is_error),
            writer_name=writer_name(task.allocation_id, task.execution_id, chained.id),
            on_cancel=self._context.cancellation.add_interrupt,
        )

    def _send_result(self, stream: _LazyClientStream, batch: pa.RecordBatch) -> None:
        """Rows for the client, which holds the task back while it does not fetch them."""
        with self._context.times.backpressured():
            stream.get().put_rows(batch)

    # --- outputs

    def _open_partition(self, descriptor: ResultPartitionDescriptor) -> ResultPartition:
        task = self._descriptor
        channels = tuple(
            self._context.exchange.open_output(
                task.job_id, descriptor.partition_id, i, self._capacity_bytes()
            )
            for i in range(descriptor.subpartitions)
        )
        split = splitter(
            descriptor.edge.exchange, descriptor.subpartitions, task.subtask, task.vertex.max_parallelism
        )
        # Rows of a broadcast come more often than they are sent. A task that had finished has no operators, and sends none.
        is_copying = descriptor.edge.exchange.kind is ExchangeKind.BROADCAST and descriptor.subpartitions > 1
        has_operators = bool(self._chain.counters)
        copies = self._counting_copies(descriptor) if is_copying and has_operators else None
        partition = ResultPartition(channels, split, self._context.times, copies)
        partition.when_room(self._context.mailbox.announce_room)
        self._opened.partitions.append(partition)
        self._context.cancellation.add_output(partition.close)
        return partition

    def _counting_copies(self, descriptor: ResultPartitionDescriptor) -> Callable[[int], None]:
        edge = descriptor.edge
        return functools.partial(self._chain.counters[edge.source_operator].count, f"{COPIED}{edge.id}")

    def _open_client_stream(self, operator_id: int) -> ClientStream:
        task = self._descriptor
        exchange = self._context.exchange
        stream = exchange.open_client_stream(task.result_address, task.job_id, operator_id)
        self._opened.client_streams.append(stream)
        self._context.cancellation.add_output(stream.abort)
        self._context.cancellation.check()
        return stream

    def _batch_rows(self) -> int:
        batch_rows: int = config.get(self._descriptor.config, "execution.batch-rows")
        return batch_rows

    def _checkpoint_timeout_ms(self) -> int:
        timeout_ms: int = config.get(self._descriptor.config, "execution.checkpointing.timeout")
        return timeout_ms

    def _capacity_bytes(self) -> int:
        capacity_bytes: int = config.get(
            self._descriptor.config, "taskmanager.network.memory.max-buffered-bytes"
        )
        return capacity_bytes


class _LazyClientStream:
    """An operator's stream to the client, opened with the first row: most operators never send one."""

    def __init__(self, open_stream: Callable[[], ClientStream]) -> None:
        self._open_stream = open_stream
        self._stream: ClientStream | None = None

    def get(self) -> ClientStream:
        if self._stream is None:
            self._stream = self._open_stream()
        return self._stream
