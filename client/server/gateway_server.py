"""`sqlstream gateway`: the server without a JobManager, for SQL whose jobs run in a cluster elsewhere."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sqlstream.client.clusters.joined_task_manager import Joining, admission_of
from sqlstream.client.clusters.remote_cluster import Link, RemoteClusterClient
from sqlstream.client.configuration import Configuration
from sqlstream.client.server.log_files import log_printed_lines
from sqlstream.client.server.peers import Peer, WaitingApp
from sqlstream.client.server.server import Server
from sqlstream.config import option
from sqlstream.config_option import Scope
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.host.process_directory import ProcessDirectory
from sqlstream.runtime.net.endpoint import read_identity
from sqlstream.runtime.net.flight import FlightConnections

if TYPE_CHECKING:
    from sqlstream.graph.job_graph import JobGraph
    from sqlstream.messages.log_levels import LogLevels, SetLogLevels
    from sqlstream.messages.rescale import RescaleStatus
    from sqlstream.messages.stacks import RequestStacks, StacksReply


logger = logging.getLogger(__name__)

WAIT_S = 1.0
"""How often the JobManager is looked for when the gateway starts."""


class JoinedCluster(RemoteClusterClient):
    """The cluster whose JobManager this process joins as TaskManagers do, and the next one when that is lost. Implements
    `ServedCluster`, but for what only the JobManager's own REST does. State: that of its base."""

    def __init__(self, joining: Joining, directory: ProcessDirectory) -> None:
        """The files of its certificate are in `directory`. ExternalError SS6076 while no JobManager is there; UserError when it
        refuses this host, or takes no gateways."""
        self._joining, self._directory = joining, directory
        super().__init__("", "", log_printed_lines, self._joined)

    def _joined(self) -> Link:
        admission, tls, address = admission_of(self._joining, self._directory.path)
        if not admission.takes_gateways:
            raise UserError("SS6096", f"the JobManager at {address} takes no gateways")
        return Link(admission.job_manager, FlightConnections(admission.token, read_identity(tls)))

    def rescale(self, graph: JobGraph, trigger_id: str) -> None:
        raise _of_job_manager("rescale a job")

    def rescale_status(self, job_id: str, trigger_id: str) -> RescaleStatus:
        raise _of_job_manager("rescale a job")

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        raise _of_job_manager("show what threads do")

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        raise _of_job_manager("set levels of loggers")

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        raise _of_job_manager("set levels of loggers")


_OF_JOINING = ("security.ssl.internal.", "taskmanager.host", "execution.target")
"""What a gateway reads of the settings of a cluster, since it joins one."""


def without_effect(config: Mapping[str, str]) -> list[str]:
    """The settings of a cluster that is not the gateway's.

    >>> without_effect({"io.tmp.dirs": "/t", "parallelism.default": "2", "taskmanager.host": "a"})
    ['io.tmp.dirs']
    """
    return sorted(
        key for key in config if option(key).scope is Scope.CLUSTER and not key.startswith(_OF_JOINING)
    )


def _no_job_manager(leader: Peer | None) -> ExternalError:
    return ExternalError(
        "SS6170",
        "this gateway has found no JobManager yet",
        hint="start it, or name where it is: sqlstream gateway --join HOST:PORT",
    )


def _of_job_manager(what: str) -> UserError:
    return UserError("SS6095", f"a gateway cannot {what}: only the JobManager does")


class GatewayServer(Server):
    """Gateway, REST and console of one data directory, for a cluster elsewhere. State: that of its parts."""

    def __init__(self, configuration: Configuration, joining: Joining) -> None:
        """UserError for wrong settings, a port or a data directory that is in use."""
        super().__init__(configuration)
        self._joining = joining

    def lead(self, on_waiting: Callable[[], None]) -> bool:
        """Return when the JobManager is there; False when the gateway was stopped before. Gateways stand beside each other: each
        has sessions of its own."""
        with contextlib.ExitStack() as ends:
            self._listen(ends)
            with contextlib.ExitStack() as answering:
                is_joined = self._join(answering)
            if is_joined:
                # Clients that connect meanwhile wait for their answers: the sockets stay.
                self._ends = ends.pop_all()
        return is_joined

    def _join(self, answering: contextlib.ExitStack) -> bool:
        is_told = False
        # Of all tries, as it lasts as long as the process.
        directory = ProcessDirectory(tempfile.gettempdir(), "sqlstream-gateway-")
        while not self.stopped.is_set():
            try:
                self._joined = JoinedCluster(self._joining, directory)
            except ExternalError as error:
                if not is_told:
                    print(f"{error.message}: it is tried again", flush=True)
                    self._answer_while_waiting(WaitingApp(tuple, _no_job_manager), answering)
                is_told = True
                self.stopped.wait(WAIT_S)
            else:
                return True
        return False

    def _start_cluster(self, ends: contextlib.ExitStack) -> None:
        for key in without_effect(self._configuration.for_jobs):
            logger.warning(
                'option "%s" has no effect on a gateway: give it to the JobManager or its TaskManagers', key
            )
        self._places = self._file_places()
        self._served = self._joined
        ends.callback(self._joined.close)
