"""The checkpoints of one task, as its own thread takes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from sqlstream import config as options
from sqlstream.elements import CheckpointBarrier
from sqlstream.errors import ErrorInfo, FailureReason, InternalError, JobError
from sqlstream.messages import rpc
from sqlstream.options.checkpointing_options import is_at_least_once
from sqlstream.runtime.checkpoint.copying_files import CopyingFiles, StateFiles
from sqlstream.runtime.checkpoint.local_copies import writes_local_copies
from sqlstream.runtime.checkpoint.merged_files import MergedPart, merging_settings
from sqlstream.runtime.checkpoint.state_writer import StateWriter
from sqlstream.runtime.host.clock import steady_ms
from sqlstream.runtime.net.channels import StreamItem
from sqlstream.runtime.state.operator_state import PendingSnapshot
from sqlstream.runtime.taskmanager.checkpoints.barrier_round import Arrivals, DepartingBarrier, late_channels
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import (
    CheckpointRefused,
    CheckpointTaken,
)
from sqlstream.runtime.taskmanager.checkpoints.in_flight import Place
from sqlstream.runtime.taskmanager.checkpoints.state_write import (
    Chains,
    SegmentChains,
    StateWrite,
    TakenState,
)
from sqlstream.runtime.taskmanager.checkpoints.unaligned_capture import Recorded
from sqlstream.runtime.taskmanager.peer_channels import PeerChannels
from sqlstream.runtime.taskmanager.task_context import TaskContext

if TYPE_CHECKING:
    from sqlstream.messages.rpc import Metrics, SinkCommittables
    from sqlstream.runtime.taskmanager.inputs.task_input import TaskInput
    from sqlstream.runtime.taskmanager.operator_chain import OperatorChain
    from sqlstream.runtime.taskmanager.result_partition import ResultPartition

CONCURRENT_MAX = "execution.checkpointing.max-concurrent-checkpoints"
ALIGNED_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
UNALIGNED = "execution.checkpointing.unaligned.enabled"

WRITES_MIN = 2
"""How many checkpoints of one task may be written or wait for it, at least: one, and one before it that is given up. Behind as
many as may be in progress at once, and one more, the next one is refused."""


@dataclasses.dataclass(frozen=True)
class _Begun:
    """A checkpoint whose barrier is sent on. `passed` is what the barrier has passed in the outputs."""

    barrier: CheckpointBarrier
    report: CheckpointTaken
    snapshots: Mapping[int, PendingSnapshot]
    passed: Mapping[Place, list[StreamItem]]
    open_writer: Callable[[], StateWriter]
    merged: MergedPart | None
    base: Chains
    sync_ms: int
    flush_ms: int


@dataclasses.dataclass
class _Departing:
    """A checkpoint whose barrier is in the outputs. `look_ms`: when the task looks at it next."""

    begun: _Begun
    barrier: DepartingBarrier
    arrivals: Arrivals
    look_ms: int


class CheckpointedTask(Protocol):
    """What a checkpoint is taken of. The input is another one once the task is open."""

    chain: OperatorChain
    partitions: list[ResultPartition]

    @property
    def input(self) -> TaskInput: ...

    def prepare_commit(self, checkpoint_id: int) -> tuple[SinkCommittables, ...]: ...

    def counted(self) -> dict[int, Metrics]: ...

    def on_checkpoint_completed(self, checkpoint_id: int) -> None: ...


class TaskCheckpoints:
    """Takes a checkpoint between two items of the input, in this order: operators and sinks emit and prepare what belongs to it,
    the barrier goes to all outputs, the state's snapshot begins. The task then goes on, and another thread writes. An unaligned
    one begins with the first barrier, and is written once all have come, together with the items that were in flight.

    The barrier of one with a time limit waits behind the rows in the outputs, and passes them when its time has come; it is
    written once the barrier has left them.

    A sink that cannot prepare its commit fails the task: its rows may be in no file and in no memory. All that goes wrong behind
    the barrier is a refusal of the checkpoint alone, and the committables go along with the next. A checkpoint that comes while
    too many are being written is refused. One that is aborted is given up: its file is removed, and what changed before it is
    saved by the next.
    State: the unaligned checkpoint whose barriers come in, the one whose barrier is in the outputs, the writes that have not
    ended, and the segments that further increments follow."""

    def __init__(
        self, descriptor: rpc.TaskDeploymentDescriptor, task: CheckpointedTask, context: TaskContext
    ) -> None:
        self._descriptor = descriptor
        self._task = task
        self._context = context
        self._copies = context.copies
        merging = merging_settings(descriptor.config)
        self._merging = (
            context.merged.join(descriptor.job_id, descriptor.execution_id, merging, context.write)
            if merging is not None
            else None
        )
        self._chains = SegmentChains()
        self._writes: list[StateWrite] = []
        self._unaligned: _Begun | None = None
        self._departing: _Departing | None = None
        # Savepoints whose fate is not known: their segments are followed by none.
        self._savepoints: set[int] = set()
        self._is_whole_next = False
        self._completed_id = 0
        self._blocks = not is_at_least_once(descriptor.config)
        self._is_unaligned: bool = options.get(descriptor.config, UNALIGNED)
        self._timeout_ms: int = options.get(descriptor.config, ALIGNED_TIMEOUT)
        if self._is_unaligned and self._timeout_ms:
            task.chain.timers.watch(self._next_look_ms, self._look_at_departing)
        concurrent_max: int = options.get(descriptor.config, CONCURRENT_MAX)
        self._writes_max = max(WRITES_MIN, concurrent_max + 1)

    def on_message(
        self, message: rpc.TriggerCheckpoint | rpc.CheckpointCompleted | rpc.CheckpointAborted
    ) -> None:
        """What the JobMaster says of a checkpoint; repeated or late, it changes nothing."""
        match message:
            case rpc.TriggerCheckpoint():
                self._task.input.on_trigger(self._barrier(message))
            case rpc.CheckpointCompleted():
                # What is older and was not completed never will be.
                self._on_decided(message.checkpoint_id - 1)
                self._on_completed(message.checkpoint_id)
            case rpc.CheckpointAborted():
                self._on_decided(message.checkpoint_id, message.still_pending)
                self._is_whole_next |= message.is_base_gone
                self._on_aborted(message.checkpoint_id)

    def _barrier(self, message: rpc.TriggerCheckpoint) -> CheckpointBarrier:
        is_unaligned = self._is_unaligned and not (message.directory or message.is_last)
        is_timed = is_unaligned and self._timeout_ms > 0
        return CheckpointBarrier(
            message.checkpoint_id,
            message.timestamp_ms,
            directory=message.directory,
            is_drain=message.is_drain,
            completed_id=message.completed_id,
            is_unaligned=is_unaligned and not is_timed,
            is_last=message.is_last,
            overtakes_at_ms=self._context.now_ms() + self._timeout_ms if is_timed else 0,
        )

    def take(self, barrier: CheckpointBarrier, arrivals: Arrivals) -> None:
        """The barrier has come from all inputs, or from the JobMaster to a source."""
        now_ms = self._context.now_ms()
        if 0 < barrier.overtakes_at_ms <= now_ms:
            barrier = msgspec.structs.replace(barrier, is_unaligned=True)
        begun = self._begin(barrier)
        if begun is not None and barrier.overtakes_at_ms and not barrier.is_unaligned:
            departing = DepartingBarrier(barrier, self._task.partitions)
            self._departing = _Departing(begun, departing, arrivals, now_ms)
            self._look_at_departing(now_ms)
        elif begun is not None:
            self._submit(begun, {}, arrivals)

    def _next_look_ms(self) -> int | None:
        return self._departing.look_ms if self._departing is not None else None

    def _look_at_departing(self, now_ms: int) -> None:
        """Whether the barrier has left the outputs."""
        departing = self._departing
        if departing is None:
            return
        departing.look_ms = departing.barrier.next_look_ms(now_ms)
        passed = departing.barrier.passed(now_ms)
        if passed is not None:
            self._departing = None
            self._submit(departing.begun, passed, departing.arrivals)

    def begin_unaligned(self, barrier: CheckpointBarrier) -> None:
        """The first barrier of an unaligned checkpoint has come."""
        self._unaligned = self._begin(barrier)

    def take_unaligned(self, barrier: CheckpointBarrier, recorded: Recorded, arrivals: Arrivals) -> None:
        """All barriers have come; `recorded` is what came before the late ones."""
        begun, self._unaligned = self._unaligned, None
        if begun is not None and begun.barrier.checkpoint_id == barrier.checkpoint_id:
            inputs = {(False, 0, channel): items for channel, items in recorded.items()}
            self._submit(begun, inputs, arrivals)

    def refuse(self, checkpoint_id: int, why: str, is_failure: bool) -> None:
        """The barriers of this checkpoint will not all come."""
        reason = FailureReason.CHECKPOINT_FAILED if is_failure else FailureReason.CANCELLED
        error = JobError("SS6220", f"checkpoint {checkpoint_id} was given up: {why}", reason=reason)
        self._refuse(checkpoint_id, self._describe(error))

    @property
    def are_written(self) -> bool:
        """Whether all that was taken is reported, or given up. To be asked again and again by a task that has finished."""
        self._look_at_departing(self._context.now_ms())
        return self._departing is None and all(write.is_settled for write in self._writes)

    def close(self) -> None:
        """The task ends: nobody waits for what is not reported."""
        for write in self._writes:
            write.give_up()
        if self._merging is not None:
            self._merging.leave()
        if self._copies is not None:
            self._copies.close()

    # --- taking one

    def _begin(self, barrier: CheckpointBarrier) -> _Begun | None:
        """All that has to be done between two items; None when the checkpoint is refused."""
        since_ms = steady_ms()
        task, checkpoint_id = self._task, barrier.checkpoint_id
        if barrier.completed_id > self._completed_id:
            # The barrier may be faster than the JobMaster's word.
            self._on_completed(barrier.completed_id)
        if barrier.is_drain:
            task.chain.drain()
        peers = self._peers()
        if peers is not None:
            peers.stand_at(checkpoint_id)
        task.chain.prepare_snapshot()
        if peers is not None:
            peers.go_on()
        flush_ms = steady_ms() - since_ms
        committables = task.prepare_commit(checkpoint_id)
        passed = self._send_on(barrier)
        try:
            open_writer, merged = self._writer_of(barrier)
            state = msgspec.structs.replace(task.input.position(), counted=task.counted())
            if not (barrier.is_unaligned or barrier.overtakes_at_ms):
                # Nothing is in flight, so all subtasks have come as far, and producers begin again with event time.
                state = msgspec.structs.replace(state, channels=())
            snapshots = self._begin_snapshots(barrier)
            base = self._chains.base()
        except Exception as error:  # whatever it is: the barrier is sent, and the task goes on
            self._refuse(checkpoint_id, self._describe(error))
            return None
        report = CheckpointTaken(self._descriptor.execution_id, checkpoint_id, state, committables)
        sync_ms = steady_ms() - since_ms
        return _Begun(barrier, report, snapshots, passed, open_writer, merged, base, sync_ms, flush_ms)

    def _send_on(self, barrier: CheckpointBarrier) -> dict[Place, list[StreamItem]]:
        """Send the barrier to all consumers; returns what it passes, if it does."""
        passed: dict[Place, list[StreamItem]] = {}
        for edge, partition in enumerate(self._task.partitions):
            if not barrier.is_unaligned:
                partition.broadcast(barrier)
                continue
            for consumer, items in enumerate(partition.broadcast_first(barrier)):
                passed[True, edge, consumer] = [i for i in items if not isinstance(i, CheckpointBarrier)]
        return passed

    def _writer_of(self, barrier: CheckpointBarrier) -> tuple[Callable[[], StateWriter], MergedPart | None]:
        directory = barrier.directory or self._descriptor.checkpoint_directory
        if not directory:
            raise InternalError(
                f"checkpoint {barrier.checkpoint_id} came to a task that has no directory for it"
            )
        self._writes = [write for write in self._writes if not write.has_ended]
        if len(self._writes) >= self._writes_max:
            earlier = " and ".join(str(write.checkpoint_id) for write in self._writes)
            raise _failed(
                f"checkpoint {barrier.checkpoint_id} came while those of {earlier} were being written"
            )
        config = self._descriptor.config
        copies = self._copies if not barrier.directory and writes_local_copies(config) else None
        merged = None
        if self._merging is not None:
            share = copies.share if copies is not None else lambda path: None
            merged = self._merging.part(directory, barrier.checkpoint_id, share)

        def opened() -> StateWriter:
            """On the writing thread: a store is opened with its library, which takes time."""
            is_compressed = options.get(config, "execution.checkpointing.snapshot-compression")
            files: StateFiles = self._context.state_files(directory, config)
            if copies is not None:
                files = CopyingFiles(files, copies)
            return StateWriter(files, directory, is_compressed=is_compressed, merged=merged)

        return opened, merged

    def _begin_snapshots(self, barrier: CheckpointBarrier) -> dict[int, PendingSnapshot]:
        is_whole = bool(barrier.directory) or self._is_whole_next
        merging, base = self._merging, self._chains.base()
        wasteful = merging.wasteful(base) if merging is not None else ()
        return {
            id: node.operator.context.state.begin_snapshot(
                barrier.checkpoint_id, is_full=is_whole or id in wasteful or self._chains.is_whole_due(id)
            )
            for node in self._task.chain.nodes
            for id in (node.chained.id,)
        }

    def _submit(self, begun: _Begun, in_flight: Mapping[Place, list[StreamItem]], arrivals: Arrivals) -> None:
        is_savepoint = bool(begun.barrier.directory)
        if is_savepoint:
            self._savepoints.add(begun.barrier.checkpoint_id)
        in_flight = {**in_flight, **begun.passed}
        is_blocked = self._blocks or bool(begun.barrier.directory)
        figures = rpc.CheckpointFigures(
            alignment_ms=max(arrivals.values(), default=0) if is_blocked else 0,
            sync_ms=begun.sync_ms,
            flush_ms=begun.flush_ms,
            late_channels=late_channels(self._descriptor, arrivals),
            is_unaligned=begun.barrier.is_unaligned or any(in_flight.values()),
        )
        taken = TakenState(
            dataclasses.replace(begun.report, figures=figures),
            begun.snapshots,
            in_flight,
            begun.base,
            None if is_savepoint else self._chains,
            begun.merged,
        )
        write = StateWrite(taken, begun.open_writer, self._context.report, self._describe)
        self._writes.append(write)
        self._context.write(write.run)

    def _refuse(self, checkpoint_id: int, error: ErrorInfo) -> None:
        for node in self._task.chain.nodes:
            node.operator.context.state.on_checkpoint_aborted(checkpoint_id)
        self._context.report(CheckpointRefused(self._descriptor.execution_id, checkpoint_id, error))

    def _describe(self, error: Exception) -> ErrorInfo:
        task = self._descriptor
        return ErrorInfo.of(error, vertex=task.vertex.name, attempt=task.attempt)

    def _peers(self) -> PeerChannels | None:
        nodes = self._task.chain.nodes
        peers = nodes[0].operator.context.peers if nodes else None
        return peers if isinstance(peers, PeerChannels) else None

    # --- the fate of one

    def _on_decided(self, checkpoint_id: int, still_pending: Collection[int] = ()) -> None:
        """No barrier of these is waited for any more."""
        self._task.input.on_checkpoint_aborted(checkpoint_id, still_pending)
        peers = self._peers()
        if peers is not None:
            peers.on_decided(checkpoint_id, still_pending)

    def _on_completed(self, checkpoint_id: int) -> None:
        if checkpoint_id <= self._completed_id:
            return
        self._completed_id = checkpoint_id
        self._task.on_checkpoint_completed(checkpoint_id)
        if checkpoint_id in self._savepoints:
            # Its files are its own, and the checkpoint before it may have been removed.
            self._is_whole_next = True
            self._on_aborted(checkpoint_id)
            return
        self._is_whole_next = False
        self._chains.completed(checkpoint_id)
        if self._merging is not None:
            needed = (segment for chain in self._chains.base().values() for segment in chain)
            self._merging.completed(checkpoint_id, needed)
        copies, named = self._copies, self._chains.paths(checkpoint_id)
        # An attempt that has not written it goes on from it, and may have to again.
        if copies is not None and named is not None:
            self._context.write(lambda: copies.completed(checkpoint_id, named))
        for node in self._task.chain.nodes:
            node.operator.context.state.on_checkpoint_completed(checkpoint_id)

    def _on_aborted(self, checkpoint_id: int) -> None:
        self._savepoints.discard(checkpoint_id)
        if self._unaligned is not None and self._unaligned.barrier.checkpoint_id <= checkpoint_id:
            self._unaligned = None
        if self._departing is not None and self._departing.begun.barrier.checkpoint_id <= checkpoint_id:
            self._departing = None
        for write in self._writes:
            if write.checkpoint_id == checkpoint_id:
                write.give_up()
        # After that: a write that is not given up in time has added what it wrote.
        self._chains.aborted(checkpoint_id)
        if self._merging is not None:
            self._merging.aborted(checkpoint_id)
        if (copies := self._copies) is not None:
            self._context.write(lambda: copies.aborted(checkpoint_id))
        for node in self._task.chain.nodes:
            node.operator.context.state.on_checkpoint_aborted(checkpoint_id)


def _failed(message: str) -> JobError:
    return JobError("SS6220", message)
