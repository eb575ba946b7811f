"""The rows of one output edge of a task, spread over the subtasks that consume it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from runtime.net.channels import ELEMENT_BYTES, Channel
from runtime.taskmanager.metrics import TaskTimes
from sqlstream.elements import CheckpointBarrier, Element
from sqlstream.graph.stream_graph import Exchange, ExchangeKind

Split = Callable[[pa.RecordBatch], list[tuple[int, pa.RecordBatch]]]
"""Splits a batch into parts, each with the index of the subpartition that it goes to."""


class ResultPartition:
    """One output edge of one subtask: the exchange selects the subpartition of a row, elements go to all of them.

    The task asks for room before it takes input. Rows beyond it are queued all the same, up to an overdraft: an operator that
    makes more of one batch waits in the middle, which is counted as backpressure. State: what is queued in the channels."""

    def __init__(self, channels: tuple[Channel, ...], split: Split, times: TaskTimes) -> None:
        self._channels = channels
        self._split = split
        self._times = times
        self.bytes_out = 0

    @property
    def has_room(self) -> bool:
        """Whether no channel is full."""
        return all(channel.has_room for channel in self._channels)

    def when_room(self, on_room: Callable[[], None]) -> None:
        """Call `on_room`, from any thread, each time a full channel has room again or is closed."""
        for channel in self._channels:
            channel.when_room(on_room)

    def write(self, batch: pa.RecordBatch) -> None:
        """Send a batch; waits while its channel is overdrawn. ChannelClosed when the task is being cancelled."""
        for subpartition, part in self._split(batch):
            size = part.nbytes
            self.bytes_out += size
            channel = self._channels[subpartition]
            if channel.is_overdrawn:
                with self._times.backpressured():
                    channel.wait_for_room()
            channel.put(part, size)

    def broadcast(self, element: Element) -> None:
        """Send an element to all consumers. An unaligned barrier passes what is queued."""
        is_first = isinstance(element, CheckpointBarrier) and element.is_unaligned
        for channel in self._channels:
            if is_first:
                channel.put_first(element, ELEMENT_BYTES)
            else:
                channel.put(element, ELEMENT_BYTES)

    def wait_connected(self) -> None:
        """Wait until every consumer has opened its channel: only then are the queued rows read after the task ends."""
        for channel in self._channels:
            channel.wait_connected()

    def close(self) -> None:
        """Wake the task if it waits for room, and drop the unread items: the task failed or was cancelled."""
        for channel in self._channels:
            channel.close()


def splitter(exchange: Exchange, subpartitions: int, subtask: int, max_parallelism: int) -> Split:
    """How an exchange spreads batches of one producer subtask over its subpartitions.

    REBALANCE and RESCALE are round-robin by batch; each producer starts at another consumer, so that few batches
    spread too."""
    if subpartitions == 1:
        return _send_to_first
    match exchange.kind:
        case ExchangeKind.HASH:
            return _split_by_key(exchange.keys, subpartitions, max_parallelism)
        case ExchangeKind.REBALANCE | ExchangeKind.RESCALE:
            return _RoundRobin(subpartitions, subtask % subpartitions)
        case ExchangeKind.BROADCAST:
            return lambda batch: [(i, batch) for i in range(subpartitions)]
        case ExchangeKind.SINGLETON:
            return _send_to_first
        case ExchangeKind.FORWARD:
            raise AssertionError(f"a FORWARD edge has one consumer per subtask, not {subpartitions}")


def _send_to_first(batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
    return [(0, batch)]


class _RoundRobin:
    """Each batch goes to the next subpartition. State: the index of that subpartition."""

    def __init__(self, subpartitions: int, first: int) -> None:
        self._subpartitions = subpartitions
        self._next = first

    def __call__(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        chosen = self._next
        self._next = (chosen + 1) % self._subpartitions
        return [(chosen, batch)]


def _split_by_key(keys: tuple[int, ...], subpartitions: int, max_parallelism: int) -> Split:
    # Compiled kernels take half a second to load; a job without a hash exchange does not wait for them.
    from runtime.kernels.partition import split_by_key

    def split(batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        parts = split_by_key(batch, keys, subpartitions, max_parallelism)
        return [(i, part) for i, part in enumerate(parts) if part is not None and part.num_rows]

    return split
