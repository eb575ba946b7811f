"""Wires the parts of a TaskManager process: server, connections, tasks and the TaskExecutor's shell."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable

from sqlstream.errors import ErrorInfo, ExternalError
from sqlstream.messages.log_levels import LogLevels, SetLogLevels, decode_inquiry
from sqlstream.messages.rpc import decode_control_message, encode_message
from sqlstream.runtime.checkpoint.local_copies import LocalCopies
from sqlstream.runtime.host.artifacts import ArtifactStore, HostArtifacts
from sqlstream.runtime.host.cache_directory import user_directories, writable_directory
from sqlstream.runtime.host.clock import now_ms, steady_ms
from sqlstream.runtime.host.process import give_back_memory, limit_library_threads
from sqlstream.runtime.host.rooted_files import files_at
from sqlstream.runtime.host.thread_stacks import answer_stacks
from sqlstream.runtime.logs import checked_levels, configure_logging, set_levels
from sqlstream.runtime.memory.managed_memory import ManagedMemory, ManagedMemoryOptions
from sqlstream.runtime.net.endpoint import Endpoint, checked_endpoint, host_towards, is_tcp, read_identity
from sqlstream.runtime.net.flight import FlightConnections, FlightServer, ServerCalls
from sqlstream.runtime.net.flight_transport import FlightTransport
from sqlstream.runtime.net.socket_directory import (
    OwnDirectory,
    directory_of,
    remove_directory_without,
    remove_socket,
)
from sqlstream.runtime.net.streams.handshake import Credentials
from sqlstream.runtime.net.streams.stream_exchange import SEGMENTS_BYTES_MIN, StreamExchange
from sqlstream.runtime.taskmanager.shell import TaskExecutorShell
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, executor_config
from sqlstream.runtime.taskmanager.task_runner import ThreadTaskRunner


class IdleMemory:
    """Calls `give_back` once after tasks have run and none ran or started between two calls of `check`.

    `tasks_started` counts all tasks of the process so far, `tasks_running` the running ones. State: the count at the last
    check, and the count at which memory was last returned.
    """

    def __init__(
        self,
        tasks_started: Callable[[], int],
        tasks_running: Callable[[], int],
        give_back: Callable[[], None],
    ) -> None:
        self._tasks_started = tasks_started
        self._tasks_running = tasks_running
        self._give_back = give_back
        self._seen = 0
        self._given_back = 0

    def check(self) -> None:
        """Return memory if the process is idle; to be called every few seconds."""
        started = self._tasks_started()
        was_idle = started == self._seen and self._tasks_running() == 0
        self._seen = started
        if was_idle and self._given_back != started:
            self._given_back = started
            self._give_back()


logger = logging.getLogger(__name__)

_LAST_WORD_S = 1.0
"""How long a TaskManager that has ended its tasks waits until its JobManager has been told."""

_ARTIFACT_TIMEOUT_S = 60.0
"""How long the JobManager may take for a part of a file."""


class TaskManager:
    """Registers with its JobManager and runs the tasks that it deploys, until `stop`.

    `on_over` is called, by any thread, when the TaskManager cannot continue. State: that of its tasks and TaskExecutor.
    """

    def __init__(self, options: TaskManagerOptions, on_over: Callable[[], None]) -> None:
        configure_logging(options.resource_id, options.log_level, options.log_format)
        limit_library_threads()
        self.failed = False
        self._on_over = on_over
        identity = read_identity(options.tls) if options.tls is not None else None
        self._connections = FlightConnections(options.token, identity)
        self._job_manager_address = options.job_manager_address
        self._is_joined = options.is_joined
        self._is_tcp = is_tcp(options.job_manager_address)
        endpoint = _endpoint(options) if self._is_tcp else None
        self._own_directory = _own_directory(options) if self._is_tcp else None
        directory = self._own_directory.path if self._own_directory is not None else ""
        if not self._is_tcp:
            directory = directory_of(options.job_manager_address)
        credentials = Credentials(options.token, options.tls)
        self._exchange = StreamExchange(
            self._connections, credentials, options.network_memory_bytes, endpoint, directory
        )
        self._server = FlightServer(
            options.token,
            ServerCalls(self._receive, self._answer),
            directory=directory or None,
            endpoint=endpoint,
            stream_addresses=self._exchange.stream_addresses,
        )
        self._exchange.own_address = self._server.address
        self._transport = FlightTransport(self._connections)
        self._runner = ThreadTaskRunner(
            now_ms,
            files_at(options.places),
            self._exchange,
            lambda c: self._shell.task_state_changed(c),
            LocalCopies(options.local_directories),
            ManagedMemory(
                ManagedMemoryOptions(
                    options.managed_memory_bytes, options.slots, options.temporary_directories
                )
            ),
            HostArtifacts(
                ArtifactStore(_cache_directory),
                lambda digest, offset: self._connections.artifact_part(
                    options.job_manager_address, digest, offset, _ARTIFACT_TIMEOUT_S
                ),
                options.artifact_cache_bytes,
            ),
        )
        self.idle_memory = IdleMemory(
            lambda: self._runner.tasks_started, lambda: self._runner.tasks_running, self._give_back_memory
        )
        self._shell = TaskExecutorShell(
            executor_config(
                options.resource_id,
                self._server.address,
                options.slots,
                options.cancellation_timeout_ms,
                options.registration_timeout_ms,
                options.first_incarnation,
            ),
            options.job_manager_address,
            self._transport,
            self._runner,
            steady_ms,
            self._terminate,
        )

    def start(self) -> None:
        self._shell.start()
        # Loading the compiled kernels takes longer than anything else at the start of a first job.
        threading.Thread(target=_load_kernels, name="load-kernels", daemon=True).start()

    def stop(self, timeout_s: float, is_abandoned: bool) -> None:
        """End all tasks, so that sinks remove unfinished output, and disconnect. One that has joined tells the JobManager first.
        When another one is `is_abandoned` by the process that started it, how tasks end is not reported: whoever provides
        TaskManagers reports why this one is lost."""
        if self._is_joined:
            self._shell.disconnect()
        elif is_abandoned:
            self._shell.stop()
        self._runner.stop(timeout_s)
        self._shell.stop()
        self._transport.close(_LAST_WORD_S if self._is_joined else 0.0)
        self._exchange.close()
        if self._own_directory is not None:
            self._own_directory.remove()
        if self._is_tcp:
            return
        remove_socket(self._server.address)
        # A killed JobManager leaves a socket without a listener, and a directory that only we can remove.
        remove_directory_without(self._job_manager_address)

    def _give_back_memory(self) -> None:
        # What a failed task leaves may refer to itself, and to batches in the memory of other processes.
        gc.collect()
        self._exchange.give_back_memory()
        give_back_memory()

    def _receive(self, data: bytes) -> None:
        self._shell.receive(decode_control_message(data))

    def _answer(self, data: bytes) -> bytes:
        inquiry = decode_inquiry(data)
        if isinstance(inquiry, SetLogLevels):
            return encode_message(LogLevels(set_levels(checked_levels(inquiry.levels))))
        return encode_message(answer_stacks(inquiry, self._runner.threads()))

    def _terminate(self, error: ErrorInfo) -> None:
        logger.critical("the TaskManager ends: %s", error.message)
        self.failed = True
        self._on_over()


def _cache_directory() -> str:
    """Where files that go with jobs are kept on this host, for all TaskManagers of this user. ExternalError SS5089."""
    found = writable_directory(user_directories("artifacts"), 0o700)
    if found is None:
        raise ExternalError("SS5089", "there is no directory in which files that go with jobs can be kept")
    return str(found)


def _own_directory(options: TaskManagerOptions) -> OwnDirectory | None:
    """Where TaskManagers of this machine and user find this one, to share memory with it; None where it has none to share."""
    if options.network_memory_bytes < 2 * SEGMENTS_BYTES_MIN:
        return None
    try:
        return OwnDirectory()
    except ExternalError as error:
        logger.warning("rows go over TCP also on this machine: %s", error.message)
        return None


def _endpoint(options: TaskManagerOptions) -> Endpoint:
    host = options.host or host_towards(options.job_manager_address)
    return checked_endpoint(host, options.bind_host, 0, options.tls)


def _load_kernels() -> None:
    import sqlstream.runtime.kernels.keys.partition  # noqa: F401
