"""The JobManager's end of a cluster of processes: its Flight server, and the children that connect to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from runtime.net.flight import FlightConnections, FlightServer, OnRequest
from runtime.net.flight_transport import FlightTransport
from runtime.net.results import ResultStore
from runtime.providers.local import LocalProvider, OnExit
from runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.messages.rpc import RegisterTaskManager, decode_control_message

SHUTDOWN_TIMEOUT_S = 1.0


class ChildTaskManagers:
    """A server on a socket that only this user can reach, and the requested child processes, which have its token.
    Implements `ResourceProvider`. State: both, until `stop`."""

    def __init__(
        self,
        slots: int,
        network_memory_bytes: int,
        cancellation_timeout_ms: int,
        token: str,
        receiver: ResultStore,
        receive: Callable[[Any], None],
        on_exit: OnExit,
        on_release: Callable[[], None],
        on_request: OnRequest,
    ) -> None:
        """`on_release` is called before a child is told to end."""
        self._receive = receive
        self._on_release = on_release
        self._connections = FlightConnections(token)
        self._server = FlightServer(
            token, self._on_message, on_request, receiver=receiver, results_of=receiver.reader
        )
        self.transport = FlightTransport(self._connections)
        self.address = self._server.address
        child = TaskManagerOptions(
            "",
            self.address,
            token,
            slots,
            network_memory_bytes,
            cancellation_timeout_ms,
        )
        self._provider = LocalProvider(child, on_exit)

    def _on_message(self, data: bytes) -> None:
        message = decode_control_message(data)
        if isinstance(message, RegisterTaskManager):
            self._provider.registered(message.resource_id)
        self._receive(message)

    @property
    def process_ids(self) -> tuple[int, ...]:
        return self._provider.process_ids

    def start(self) -> None:
        """Nothing to do: children are started when they are requested."""

    def stop(self) -> None:
        self._provider.stop()
        self.transport.close()
        self._connections.close()
        # In a thread: the server waits for its calls, and one of them may block on a terminal that is not read.
        shutdown = threading.Thread(target=self._server.shutdown, name="server-shutdown", daemon=True)
        shutdown.start()
        shutdown.join(SHUTDOWN_TIMEOUT_S)

    def request_task_manager(self, resource_id: str) -> None:
        self._provider.request(resource_id)

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        self._on_release()
        self._provider.release(resource_id, is_lost)
