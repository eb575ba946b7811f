"""How a task gets its channels: the interface between tasks and the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlstream.messages.rpc import ControlMessage, InputChannelDescriptor
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.partition_table import PartitionTable, SubpartitionId
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
