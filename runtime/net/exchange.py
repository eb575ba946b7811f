"""How a task gets at its channels: the seam between tasks and whatever network connects them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from runtime.net.channels import Channel
from runtime.net.partition_table import PartitionTable, SubpartitionId
from runtime.net.results import ClientStream, DirectClientStream, ResultReceiver
from sqlstream.messages.rpc import InputChannelDescriptor

OnLost = Callable[[str], None]
"""Called by any thread when a producer cannot be reached any more, with what is known of the cause."""


class DataExchange(Protocol):
    """What a task needs of the network. `capacity_bytes` bounds what may wait in a channel."""

    def open_output(
        self, job_id: str, partition_id: str, subpartition: int, capacity_bytes: int
    ) -> Channel: ...

    def open_input(
        self, job_id: str, descriptor: InputChannelDescriptor, capacity_bytes: int, on_lost: OnLost
    ) -> Channel: ...

    def open_client_stream(self, address: str, job_id: str, operator_id: int) -> ClientStream: ...

    def release_job(self, job_id: str) -> None:
        """No task of the job runs here any more, and it was not their rows' end that ended them."""


class LocalExchange:
    """All tasks and the client in one process: batches are handed over as they are. State: the partition
    table's."""

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
