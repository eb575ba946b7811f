"""Control messages over Flight: one-way, in order for each peer, never waiting."""

from __future__ import annotations

import logging
import queue
import threading

import pyarrow as pa

from sqlstream.messages.rpc import ControlMessage, encode_message
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.net.flight import FlightConnections

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
        self._senders: dict[str, threading.Thread] = {}
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
            sender = threading.Thread(target=self._send_all, args=(address, outbox), name=name, daemon=True)
            self._senders[address] = sender
            sender.start()
        return outbox

    def _send_all(self, address: str, outbox: queue.Queue[bytes | None]) -> None:
        while messages := self._waiting(address, outbox):
            try:
                self._connections.send_messages(address, messages, SEND_TIMEOUT_S)
            except (pa.ArrowException, OSError) as error:
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
                    self._senders.pop(address, None)
                    return None
            return outbox.get_nowait()

    def close(self, timeout_s: float = 0.0) -> None:
        """Send no more than what waits; wait until it is sent, but no longer than `timeout_s` for all peers."""
        deadline_s = steady_s() + timeout_s
        with self._lock:
            self._is_closed = True
            outboxes, senders = list(self._outboxes.values()), list(self._senders.values())
        for outbox in outboxes:
            # A full outbox means a peer that hangs; its daemon thread ends with the process.
            if not outbox.full():
                outbox.put_nowait(None)
        for sender in senders:
            sender.join(max(0.0, deadline_s - steady_s()))
