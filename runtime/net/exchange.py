"""How a task gets its channels: the interface between tasks and the network."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec
import pyarrow as pa

from sqlstream.messages.rpc import ControlMessage, InputChannelDescriptor, encode_message
from sqlstream.runtime.net.channels import Channel
from sqlstream.runtime.net.flight import FlightConnections
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


# Control messages over Flight: one-way, in order for each peer, never waiting.


SEND_TIMEOUT_S = 5.0
OUTBOX_MESSAGES_MAX = 10_000
CALL_MESSAGES_MAX = 100
IDLE_TIMEOUT_S = 60.0

logger = logging.getLogger(__name__)


class FlightTransport:
    """A queue and a thread for each peer, so that a peer that hangs delays no other. Implements `Transport`.

    A message that cannot be delivered is dropped: senders repeat what needs an answer. State: messages not yet sent, at
    most OUTBOX_MESSAGES_MAX per peer; a peer is forgotten when nothing was sent to it for `idle_timeout_s`.
    """

    def __init__(self, connections: FlightConnections, idle_timeout_s: float = IDLE_TIMEOUT_S) -> None:
        self._connections = connections
        self._idle_timeout_s = idle_timeout_s
        self._outboxes: dict[str, queue.Queue[bytes | None]] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def send(self, address: str, message: ControlMessage) -> None:
        data = encode_message(message)
        with self._lock:
            if self._is_closed:
                return
            try:
                self._outbox(address).put_nowait(data)
            except queue.Full:
                logger.warning("dropped %s to %s: too many wait", type(message).__name__, address)

    def _outbox(self, address: str) -> queue.Queue[bytes | None]:
        outbox = self._outboxes.get(address)
        if outbox is None:
            outbox = self._outboxes[address] = queue.Queue(OUTBOX_MESSAGES_MAX)
            name = f"send-{address}"
            threading.Thread(target=self._send_all, args=(address, outbox), name=name, daemon=True).start()
        return outbox

    def _send_all(self, address: str, outbox: queue.Queue[bytes | None]) -> None:
        while messages := self._waiting(address, outbox):
            try:
                self._connections.send_messages(address, messages, SEND_TIMEOUT_S)
            except pa.ArrowException as error:
                logger.debug("could not reach %s: %s", address, error)

    def _waiting(self, address: str, outbox: queue.Queue[bytes | None]) -> list[bytes]:
        """The queued messages, waiting for the first: one call for several costs less. Empty at the end, and when
        nothing was sent for `idle_timeout_s`."""
        first = self._next(address, outbox)
        messages = [] if first is None else [first]
        while messages and len(messages) < CALL_MESSAGES_MAX and not outbox.empty():
            message = outbox.get_nowait()
            if message is None:
                outbox.put_nowait(None)
                break
            messages.append(message)
        return messages

    def _next(self, address: str, outbox: queue.Queue[bytes | None]) -> bytes | None:
        try:
            return outbox.get(timeout=self._idle_timeout_s)
        except queue.Empty:
            with self._lock:
                # Messages are queued under the lock: one that came in between is still sent.
                if outbox.empty():
                    self._outboxes.pop(address, None)
                    return None
            return outbox.get_nowait()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            outboxes = list(self._outboxes.values())
        for outbox in outboxes:
            # A full outbox means a peer that hangs; its daemon thread ends with the process.
            if not outbox.full():
                outbox.put_nowait(None)
