"""The JobManager's end of a cluster of processes: its Flight servers, and the TaskManagers that connect to them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.errors import ExternalError
from sqlstream.messages.log_levels import LogLevels, SetLogLevels, decode_log_levels
from sqlstream.messages.rpc import RegisterTaskManager, decode_control_message, encode_message
from sqlstream.messages.stacks import RequestStacks, StacksReply, decode_stacks_reply
from sqlstream.runtime.logs import checked_levels
from sqlstream.runtime.net.endpoint import Endpoint
from sqlstream.runtime.net.flight import (
    ArtifactPart,
    FlightConnections,
    FlightServer,
    OnAttach,
    OnRequest,
    ServerCalls,
)
from sqlstream.runtime.net.flight_transport import FlightTransport
from sqlstream.runtime.net.results import ResultStore
from sqlstream.runtime.providers.provider import TaskManagerProvider
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions

logger = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 1.0
STACKS_TIMEOUT_S = 5.0
"""How long a TaskManager may take to answer, beyond the time in which it takes samples."""


class FlightTaskManagers:
    """The JobManager's servers, and the TaskManagers that a provider starts, which have the cluster's token. Implements
    `ResourceProvider`.

    Clients, and TaskManagers of this machine, come to a socket that only this user can reach. With an `endpoint` TaskManagers
    come there instead, and a server without requests of clients answers them, unless the cluster `has_gateways`, which come there
    too. State: servers and provider, until `stop`, and the levels of loggers that TaskManagers to come are given."""

    def __init__(
        self,
        child: TaskManagerOptions,
        endpoint: Endpoint | None,
        make_provider: Callable[[TaskManagerOptions], TaskManagerProvider],
        receiver: ResultStore,
        receive: Callable[[Any], None],
        on_release: Callable[[], None],
        on_request: OnRequest,
        on_attach: OnAttach,
        artifact_part: ArtifactPart,
        has_gateways: bool = False,
    ) -> None:
        """`child` holds the options of every TaskManager but its id and our address. `on_release` is called before one is told to
        end. ExternalError SS6071 when nothing can listen at the endpoint."""
        self._receive = receive
        self._log_levels: dict[str, str] = {}
        self._on_release = on_release
        self._connections = FlightConnections(child.token, endpoint.identity() if endpoint else None)
        for_clients = ServerCalls(
            self._on_message, on_request, on_attach, receiver.reader, receiver, artifact_part
        )
        self._servers = [FlightServer(child.token, for_clients)]
        try:
            if endpoint is not None:
                calls = ServerCalls(self._on_message, receiver=receiver, artifact_part=artifact_part)
                calls = for_clients if has_gateways else calls
                self._servers.append(FlightServer(child.token, calls, endpoint=endpoint))
            self.transport = FlightTransport(self._connections)
            self.address = self._servers[0].address
            self.result_address = self._servers[-1].address
            told = msgspec.structs.replace(child, job_manager_address=self.result_address)
            self._provider = make_provider(told)
        except BaseException:
            self._shut_down()
            raise

    def _on_message(self, data: bytes) -> None:
        message = decode_control_message(data)
        if isinstance(message, RegisterTaskManager):
            self._provider.registered(message.resource_id)
            if self._log_levels:
                arguments = (message.address, self._log_levels)
                threading.Thread(target=self._send_levels, args=arguments, daemon=True).start()
        self._receive(message)

    @property
    def process_ids(self) -> tuple[int, ...]:
        return self._provider.process_ids

    def start(self) -> None:
        """Nothing to do: TaskManagers are started when they are requested."""

    def stop(self) -> None:
        self._provider.stop()
        self.transport.close()
        self._connections.close()
        self._shut_down()

    def _shut_down(self) -> None:
        # In threads: a server waits for its calls, and one of them may block on a terminal that is not read.
        ends = [
            threading.Thread(target=s.shutdown, name="server-shutdown", daemon=True) for s in self._servers
        ]
        for end in ends:
            end.start()
        for end in ends:
            end.join(SHUTDOWN_TIMEOUT_S)

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        timeout_s = STACKS_TIMEOUT_S + request.samples * request.interval_ms / 1000
        return decode_stacks_reply(self._asked(address, request, timeout_s))

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        return decode_log_levels(self._asked(address, request, STACKS_TIMEOUT_S))

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        kept = {name: level for name, level in {**self._log_levels, **levels}.items() if level}
        # Another dict: that of a thread that sends it stays as it is. All of them go to a TaskManager in one message.
        self._log_levels = checked_levels(kept)

    def _asked(self, address: str, inquiry: RequestStacks | SetLogLevels, timeout_s: float) -> bytes:
        try:
            return self._connections.request(address, encode_message(inquiry), timeout_s)
        except pa.ArrowException as error:
            raise ExternalError(
                "SS6072",
                f"the TaskManager at {address} does not answer: {str(error).splitlines()[0]}",
                hint="it may have ended: ask for the TaskManagers again",
            ) from error

    def _send_levels(self, address: str, levels: dict[str, str]) -> None:
        try:
            self.log_levels(address, SetLogLevels(levels))
        except ExternalError as error:
            logger.warning("a TaskManager logs with its first levels: %s", error.message)

    def request_task_manager(self, resource_id: str) -> None:
        self._provider.request(resource_id)

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        self._on_release()
        self._provider.release(resource_id, is_lost)
