"""The JobManager's end of a cluster of processes: its Flight server, and the children that connect to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from runtime.net.flight import FlightConnections, FlightServer, OnRequest
from runtime.net.flight_transport import FlightTransport
from runtime.net.results import ResultStore
from runtime.providers.local import TASK_MANAGERS_MAX, LocalProvider, OnExit, OnGivenUp
from runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.messages.rpc import RegisterTaskManager, decode_control_message

SHUTDOWN_TIMEOUT_S = 1.0


class ChildTaskManagers:
    """A server on a socket that only this user can reach, and `count` child processes that have its token. State: both,
    until `stop`."""

    def __init__(
        self,
        count: int,
        slots: int,
        network_memory_bytes: int,
        cancellation_timeout_ms: int,
        token: str,
        cluster_id: str,
        receiver: ResultStore,
        receive: Callable[[Any], None],
        on_exit: OnExit,
        on_given_up: OnGivenUp,
        on_request: OnRequest,
    ) -> None:
        self._slots = slots
        self._receive = receive
        self._connections = FlightConnections(token)
        self._server = FlightServer(
            token, self._on_message, on_request, receiver=receiver, results_of=receiver.reader
        )
        self.transport = FlightTransport(self._connections)
        self.address = self._server.address
        child = TaskManagerOptions(
            f"taskmanager-{cluster_id}",
            self.address,
            token,
            slots,
            network_memory_bytes,
            cancellation_timeout_ms,
        )
        self._provider = LocalProvider(child, count, on_exit, on_given_up)

    def _on_message(self, data: bytes) -> None:
        message = decode_control_message(data)
        if isinstance(message, RegisterTaskManager):
            self._provider.registered(message.resource_id)
        self._receive(message)

    @property
    def process_ids(self) -> tuple[int, ...]:
        return self._provider.process_ids

    def start(self) -> None:
        self._provider.start()

    def stop(self) -> None:
        self._provider.stop()
        self.transport.close()
        self._connections.close()
        # In a thread: the server waits for its calls, and one of them may block on a terminal that is not read.
        shutdown = threading.Thread(target=self._server.shutdown, name="server-shutdown", daemon=True)
        shutdown.start()
        shutdown.join(SHUTDOWN_TIMEOUT_S)

    @property
    def slots_max(self) -> int:
        return TASK_MANAGERS_MAX * self._slots

    def reserve(self, slots: int) -> None:
        self._provider.reserve(slots)

    def request_slots(self, slots_missing: int) -> None:
        self._provider.request_slots(slots_missing)

    def release(self, resource_id: str) -> None:
        self._provider.release(resource_id)
