"""The JobManager's end of a cluster of processes: its Flight server, and the children that connect to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from runtime.net.flight import FlightConnections, FlightServer, OnAttach, OnRequest
from runtime.net.flight_transport import FlightTransport
from runtime.net.results import ResultStore
from runtime.providers.child_output import PassOn
from runtime.providers.local import LocalProvider, OnExit
from runtime.taskmanager.task_manager_options import TaskManagerOptions
from sqlstream.messages.rpc import RegisterTaskManager, decode_control_message

SHUTDOWN_TIMEOUT_S = 1.0


class ChildTaskManagers:
    """A server on a socket that only this user can reach, and the requested child processes, which have its token.
    Implements `ResourceProvider`. State: both, until `stop`."""

    def __init__(
        self,
        child: TaskManagerOptions,
        receiver: ResultStore,
        receive: Callable[[Any], None],
        on_exit: OnExit,
        on_release: Callable[[], None],
        on_request: OnRequest,
        on_attach: OnAttach,
        pass_on: PassOn,
    ) -> None:
        """`child` holds the options of every child but its id and our address. `on_release` is called before a child is told to
        end; `pass_on` takes what children print."""
        self._receive = receive
        self._on_release = on_release
        self._connections = FlightConnections(child.token)
        self._server = FlightServer(
            child.token,
            self._on_message,
            on_request,
            receiver=receiver,
            results_of=receiver.reader,
            on_attach=on_attach,
        )
        self.transport = FlightTransport(self._connections)
        self.address = self._server.address
        options = msgspec.structs.replace(child, job_manager_address=self.address)
        self._provider = LocalProvider(options, on_exit, pass_on)

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
