"""How a task gets its channels: the interface between tasks and the network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from sqlstream.messages.rpc import ControlMessage, InputChannelDescriptor
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.results import ClientStream, DirectClientStream, ResultReceiver

OnLost = Callable[[str], None]
"""Called by any thread when the connection to a producer is lost, with the cause as far as it can be seen here."""


class DataExchange(Protocol):
    """What a task needs of the network. `capacity_bytes` bounds the items queued in a channel."""

    def open_output(
        self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int
    ) -> Channel: ...

    def open_input(
        self, job_id: str, descriptor: InputChannelDescriptor, capacity_bytes: int, on_lost: OnLost
    ) -> Channel: ...

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> ClientStream: ...

    def release_job(self, job_id: str) -> None:
        """Release the job's channels: its last task here has ended, and one of them failed or was cancelled."""


class LocalExchange:
    """All tasks and the client are in one process: batches are passed without a copy. State: that of the partition
    table."""

    def __init__(self, table: PartitionTable, receiver: ResultReceiver) -> None:
        self.table = table
        self._receiver = receiver

    def open_output(self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int) -> Channel:
        return self.table.meet(SubpartitionId(job_id, partition_id, subpartition), capacity_bytes)

    def open_input(
        self, job_id: str, descriptor: InputChannelDescriptor, capacity_bytes: int, on_lost: OnLost
    ) -> Channel:
        return self.open_output(job_id, descriptor.partition_id, descriptor.subpartition, capacity_bytes)

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> ClientStream:
        return DirectClientStream(self._receiver, job_id, operator_id)

    def release_job(self, job_id: str) -> None:
        self.table.release_job(job_id)


# Control messages within one process: the receiver's entry point is called.


Receive = Callable[[ControlMessage], None]


class LocalTransport:
    """Addresses are names within this process. Receivers only queue a message, so a send never waits.

    Implements `Transport`. State: the receivers by address; a message to an address without one is dropped.
    """

    def __init__(self) -> None:
        self._receivers: dict[str, Receive] = {}

    def listen(self, address: str, receive: Receive) -> None:
        self._receivers[address] = receive

    def send(self, address: str, message: ControlMessage) -> None:
        receive = self._receivers.get(address)
        if receive is not None:
            receive(message)


# The channels of a process by subpartition: it holds each channel that one end has opened and the other has not.


WAKE_BYTES = 1 << 20
"""How much is queued before a consumer that waits is woken, unless its producer waits or some time has passed."""


class SubpartitionId(msgspec.Struct, frozen=True, tag="subpartition"):
    """One subpartition of one result partition of one job: one channel."""

    job_id: str
    partition_id: str
    subpartition: int


class PartitionTable:
    """Channels by their subpartition. Tasks are deployed in any order, so the first end to ask creates the channel.

    State: channels that only one end has fetched, dropped when the other comes or when their job is released.
    """

    def __init__(self) -> None:
        self._waiting: dict[SubpartitionId, Channel] = {}
        self._lock = threading.Lock()

    def meet(self, subpartition: SubpartitionId, capacity_bytes: int) -> Channel:
        """The channel of a subpartition. Each end calls once; the producer passes the bound as `capacity_bytes`, 0 leaves
        it unchanged."""
        with self._lock:
            channel = self._waiting.pop(subpartition, None)
            if channel is None:
                channel = self._waiting[subpartition] = Channel(capacity_bytes, WAKE_BYTES)
                return channel
        if capacity_bytes:
            channel.resize(capacity_bytes)
        channel.connect()
        return channel

    def forget(self, subpartition: SubpartitionId, channel: Channel) -> None:
        """Forget `channel`: one end has closed it, whether or not the other has opened it."""
        with self._lock:
            if self._waiting.get(subpartition) is channel:
                del self._waiting[subpartition]

    def release_job(self, job_id: str) -> None:
        """No task of the job is left here: close the channels that only one end has opened."""
        with self._lock:
            left = [s for s in self._waiting if s.job_id == job_id]
            channels = [self._waiting.pop(s) for s in left]
        for channel in channels:
            channel.close()

    def __len__(self) -> int:
        return len(self._waiting)
