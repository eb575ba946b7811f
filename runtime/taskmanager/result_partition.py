"""The rows of one output edge of a task, spread over the subtasks that consume it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.elements import CheckpointBarrier, Element, LatencyMarker, Watermark, WatermarkStatus
from sqlstream.graph.stream_graph import Exchange, ExchangeKind
from sqlstream.runtime.kernels.keys.hashing import KeyHashes
from sqlstream.runtime.net.channels import ELEMENT_BYTES, Channel, StreamItem
from sqlstream.runtime.taskmanager.metrics import TaskTimes

Part = tuple[int, pa.RecordBatch, int, KeyHashes | None]
"""The index of the subpartition that rows go to, the rows, the bytes that they count in a channel's bound, and the hashes of
their keys where the split has computed them."""

HELD_BYTES_MAX = 2 << 20


class Splitter(Protocol):
    """Splits a batch, or its rows at some positions, into parts. `splits_rows` says whether rows of one batch may go to
    several subpartitions."""

    splits_rows: bool

    def split(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> list[Part]: ...


class ResultPartition:
    """One output edge of one subtask: the exchange selects the subpartition of a row, elements go to all of them.

    The task asks for room before it takes input. Rows beyond it are queued all the same, up to an overdraft: an operator that
    makes more of one batch waits in the middle, which is counted as backpressure. State: what is queued in the channels,
    and which of them got the last marker."""

    def __init__(
        self,
        channels: tuple[Channel, ...],
        splitter: Splitter,
        times: TaskTimes,
        count_copies: Callable[[int], None] | None = None,
    ) -> None:
        """`count_copies` is told of the rows that are sent beyond those that are written."""
        self._count_copies = count_copies
        self._channels = channels
        self._splitter = splitter
        self._times = times
        self.bytes_out = 0
        self._marked = 0

    @property
    def has_room(self) -> bool:
        """Whether no channel is full."""
        return all(channel.has_room for channel in self._channels)

    def when_room(self, on_room: Callable[[], None]) -> None:
        """Call `on_room`, from any thread, each time a full channel has room again or is closed."""
        for channel in self._channels:
            channel.when_room(on_room)

    @property
    def splits_rows(self) -> bool:
        """Whether rows of one batch may go to several consumers."""
        return self._splitter.splits_rows

    def write(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> None:
        """Send a batch, or its rows at these positions; waits while its channel is overdrawn. ChannelClosed when the task is
        being cancelled."""
        parts = self._splitter.split(batch, rows)
        if self._count_copies is not None:
            self._count_copies(sum(part[1].num_rows for part in parts[1:]))
        for subpartition, part, size, key_hashes in parts:
            self.bytes_out += size
            channel = self._channels[subpartition]
            if channel.is_overdrawn:
                self.flush()
                with self._times.backpressured():
                    channel.wait_for_room()
            channel.put(part, size, key_hashes)

    def broadcast_first(self, barrier: CheckpointBarrier) -> list[list[StreamItem]]:
        """Send a barrier that passes what is queued to all consumers; returns what it passes, by consumer."""
        passed = [channel.put_first(barrier, ELEMENT_BYTES) for channel in self._channels]
        return [[queued.item for queued in items] for items in passed]

    def holds(self, checkpoint_id: int) -> bool:
        """Whether a consumer has not got the barrier of this checkpoint, because of what is queued before it."""
        return any(channel.holds(checkpoint_id) for channel in self._channels)

    def overtake(self, checkpoint_id: int) -> list[list[StreamItem]]:
        """Have the barrier pass what it is queued behind; returns that, by consumer."""
        return [[queued.item for queued in channel.overtake(checkpoint_id)] for channel in self._channels]

    def restore(self, subpartition: int, items: Iterable[StreamItem]) -> None:
        """Send a consumer what was under way to it, before anything else."""
        for item in items:
            size = size_of(item) if isinstance(item, pa.RecordBatch) else ELEMENT_BYTES
            self._channels[subpartition].put(item, size)

    def broadcast(self, element: Element) -> None:
        """Send an element to all consumers; all but event time wakes them."""
        for channel in self._channels:
            channel.put(element, ELEMENT_BYTES)
        if not isinstance(element, Watermark | WatermarkStatus):
            self.flush()

    def write_marker(self, marker: LatencyMarker) -> None:
        """Send a marker to one consumer, the next one each time. None where rows wait for room: a task that is held back for long
        would queue markers without end."""
        self._marked = (self._marked + 1) % len(self._channels)
        if self._channels[self._marked].has_room:
            self._channels[self._marked].put(marker, ELEMENT_BYTES)

    def flush(self) -> None:
        """Wake the consumers that wait and have something to read."""
        for channel in self._channels:
            channel.flush()

    def wait_connected(self) -> None:
        """Wait until every consumer has opened its channel: only then are the queued rows read after the task ends."""
        for channel in self._channels:
            channel.wait_connected()

    def close(self) -> None:
        """Wake the task if it waits for room, and drop the unread items: the task failed or was cancelled."""
        for channel in self._channels:
            channel.close()


def splitter(exchange: Exchange, subpartitions: int, subtask: int, max_parallelism: int) -> Splitter:
    """How an exchange spreads batches of one producer subtask over its subpartitions.

    REBALANCE and RESCALE are round-robin by batch; each producer starts at another consumer, so that few batches
    spread too."""
    if subpartitions == 1:
        return _WholeBatches((0,))
    match exchange.kind:
        case ExchangeKind.HASH:
            # Compiled kernels take half a second to load; a job without a hash exchange does not wait for them.
            from sqlstream.runtime.kernels.keys.partition import KeySplitter

            return KeySplitter(exchange.keys, subpartitions, max_parallelism)
        case ExchangeKind.REBALANCE | ExchangeKind.RESCALE:
            return _RoundRobin(subpartitions, subtask % subpartitions)
        case ExchangeKind.BROADCAST:
            return _WholeBatches(tuple(range(subpartitions)))
        case ExchangeKind.SINGLETON:
            return _WholeBatches((0,))
        case ExchangeKind.FORWARD:
            raise AssertionError(f"a FORWARD edge has one consumer per subtask, not {subpartitions}")


class _WholeBatches:
    """Sends each batch as a whole to the same subpartitions. Implements `Splitter`. No state."""

    splits_rows = False

    def __init__(self, targets: tuple[int, ...]) -> None:
        self._targets = targets

    def split(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> list[Part]:
        batch = _taken(batch, rows)
        size = size_of(batch)
        return [(target, batch, size, None) for target in self._targets]


class _RoundRobin:
    """Each batch goes to the next subpartition. Implements `Splitter`. State: the index of that subpartition."""

    splits_rows = False

    def __init__(self, subpartitions: int, first: int) -> None:
        self._subpartitions = subpartitions
        self._next = first

    def split(self, batch: pa.RecordBatch, rows: np.ndarray | None = None) -> list[Part]:
        batch = _taken(batch, rows)
        chosen = self._next
        self._next = (chosen + 1) % self._subpartitions
        return [(chosen, batch, size_of(batch), None)]


def _taken(batch: pa.RecordBatch, rows: np.ndarray | None) -> pa.RecordBatch:
    if rows is None:
        return batch
    from sqlstream.runtime.kernels.take import take_batch

    return take_batch(batch, rows)


def size_of(batch: pa.RecordBatch) -> int:
    """The bytes that a batch counts: the memory that it holds, or of large memory, which other slices may share, the bytes of
    its rows."""
    # The latter takes 15 µs, the former a third of one.
    held_bytes = batch.get_total_buffer_size()
    return held_bytes if held_bytes <= HELD_BYTES_MAX else batch.nbytes
