"""The server: what it is made of, and the order in which that starts and stops."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlstream import __version__
from sqlstream.client.catalog.catalogs import kept_catalogs
from sqlstream.client.clusters.cluster_client import ServedCluster
from sqlstream.client.clusters.server_file import ServerFile
from sqlstream.client.configuration import Configuration
from sqlstream.client.exit_codes import EXIT_FAILED
from sqlstream.client.gateway.kept_sessions import SessionFiles
from sqlstream.client.gateway.service import GatewayService
from sqlstream.client.rest.cluster_view import ClusterView, ServerInfo
from sqlstream.client.server.app import server_app
from sqlstream.client.server.audit import AuditLog, StatementRules
from sqlstream.client.server.backup import was_restored
from sqlstream.client.server.data_directory import DataDirectory
from sqlstream.client.server.directories.from_settings import known_users
from sqlstream.client.server.guarded_cluster import GuardedCluster, JobLimits
from sqlstream.client.server.http_listener import HttpListener, listen, port_of, url_of
from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import FileJobStore, KeptCommitter
from sqlstream.client.server.kept_file import make_private_directory
from sqlstream.client.server.leaders.leadership import Leadership, no_leader
from sqlstream.client.server.leaders.led_files import LedFiles
from sqlstream.client.server.leaders.shared_artifacts import SharedArtifacts
from sqlstream.client.server.leaders.shared_secrets import secrets_of
from sqlstream.client.server.leaders.stores import open_stores, place_store
from sqlstream.client.server.log_files import (
    LogFiles,
    LogFilesHandler,
    is_of_process,
    is_printed,
    log_printed_lines,
)
from sqlstream.client.server.peers import Peer, Peers, WaitingApp
from sqlstream.client.server.place_formats import check_formats, check_record, put_record
from sqlstream.client.server.places import Places
from sqlstream.client.server.recovery import Recovery, keep_files, recover, submit_again
from sqlstream.client.server.security import AccessRules, Security
from sqlstream.client.server.server_config import LED, ServerConfig, cluster_size, server_config
from sqlstream.client.server.standalone import OwnTaskManagers, StandaloneCluster, is_standalone
from sqlstream.client.server.telemetry import Telemetry
from sqlstream.client.server.tokens import Tokens
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.options.checkpointing_options import takes_checkpoints
from sqlstream.runtime.cluster_surroundings import ClusterSurroundings
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.owned_files import CheckOwner
from sqlstream.runtime.host.process_end import leave
from sqlstream.runtime.host.rooted_files import FilePlaces, files_at
from sqlstream.runtime.logs import install_handler
from sqlstream.runtime.net.joining import JoinToken
from sqlstream.runtime.providers.providers import is_on_one_host
from sqlstream.runtime.sink_committer import ConnectorCommitter

logger = logging.getLogger(__name__)

_CAN_RUN_AGAIN = (
    JobStatus.INITIALIZING,
    JobStatus.CREATED,
    JobStatus.RECONCILING,
    JobStatus.RUNNING,
    JobStatus.RESTARTING,
)


class Server:
    """JobManager, TaskManagers, gateway, REST and console of one data directory, from `start` to `stop`.

    `stopped` is set when somebody asks the server to stop. State: that of its parts."""

    def __init__(self, configuration: Configuration, task_managers: int | None = None) -> None:
        """UserError for wrong settings, a port or a data directory that is in use."""
        self._configuration = configuration
        self._config: ServerConfig = server_config(configuration)
        self._task_managers = task_managers
        self._ends = contextlib.ExitStack()
        self._http: HttpListener | None = None
        self.stopped = threading.Event()
        self.is_broken = False
        self.join_address = ""
        self._leadership: Leadership | None = None
        self._peers: Peers | None = None
        self._sockets: list[socket.socket] = []
        self._led_files: LedFiles | None = None
        self._served: ServedCluster
        self._control = ("", "")

    @property
    def data_directory(self) -> str:
        return self._config.data_directory

    @property
    def has_leaders(self) -> bool:
        """Whether this is one of several servers, the leader of which has the jobs."""
        return self._config.leaders is not None

    @property
    def has_gateway(self) -> bool:
        return self._config.has_gateway

    @property
    def token_path(self) -> str | None:
        """The file of the first token; None when no token is required."""
        return self._tokens.first_token_path if self._config.is_token_required else None

    def lead(self, on_waiting: Callable[[], None]) -> bool:
        """Return when this server leads those that it shares a store with, and at once when there are none; False when it was
        stopped before. `on_waiting` is called when another one leads. ExternalError SS5001 and SS6080; UserError SS4012, SS6083
        and SS6084."""
        found = self._config.leaders
        if found is None:
            return True
        if found.directory:
            for path in (os.path.dirname(found.directory), found.directory):
                make_private_directory(path)
            # A server that could not read the place does not take it from one that can.
            check_formats(found.directory)
        stores = open_stores(found, self._configuration)
        check_record(stores.records, found.place)
        self._leadership = Leadership(stores, found.times, _leave_to_others)
        peers = self._peers = Peers(stores.records, self.data_directory)
        with contextlib.ExitStack() as ends:
            ends.callback(stores.close)
            self._listen(ends)
            ends.callback(peers.leave)
            self._announce_peer()
            peers.start()
            with contextlib.ExitStack() as answering:

                def begin_waiting() -> None:
                    self._answer_while_waiting(WaitingApp(peers.all), answering)
                    on_waiting()

                leads = self._leadership.wait(self.stopped, begin_waiting)
            if leads:
                put_record(stores.records)
                # Clients that connect meanwhile wait for their answers: the sockets stay.
                self._ends = ends.pop_all()
        return leads

    def _answer_while_waiting(self, app: WaitingApp, ends: contextlib.ExitStack) -> None:
        """Say what is waited for, on the sockets that the server answers on when it has come."""
        copies, places = [found.dup() for found in self._sockets], Places(self._config.places)
        listener = HttpListener(app, copies, self._config.tls, self._break_off, places)
        listener.start()
        ends.callback(listener.stop)

    def _announce_peer(self) -> None:
        """Tell the servers that share a place, and through them clients, where this one is reached."""
        if self._peers is not None and self._leadership is not None:
            self._peers.announce(Peer(self.gateway_url, self.rest_url, self._leadership.epoch or -1))

    def _other_consoles(self) -> list[str]:
        """The URLs of the servers that may lead next."""
        peers = self._peers.all() if self._peers is not None else []
        return [peer.rest for peer in peers if peer.rest != self.rest_url]

    def start(self) -> None:
        """Return when requests are answered. What has been started is stopped again when another part cannot start."""
        with self._ends.pop_all() as ends:
            self._start(ends)
            self._ends = ends.pop_all()

    def _start(self, ends: contextlib.ExitStack) -> None:
        config = self._config
        self._directory = self._open_directory(ends)
        if not self._sockets:
            self._listen(ends)
        self._start_log(ends)
        self._tokens = Tokens(self._directory.shared)
        self._make_secrets(ends)
        # Last of all but the log: requests under way have as long as the jobs take to end.
        ends.callback(self._stop_http)
        self._start_cluster(ends)
        self._audit = AuditLog(
            self._log_files(self._directory.audit, "audit", ends),
            self._log_files(self._directory.audit, "refused", ends),
        )
        telemetry = Telemetry(config.reporters)
        ends.callback(telemetry.stop)
        open_session = self._open_service(telemetry, ends)
        self._answer(telemetry, ends)
        start_warm_up(open_session)
        self._announce_peer()
        self._directory.announce(
            ServerFile(
                os.getpid(),
                self.gateway_url,
                self.rest_url,
                config.is_token_required,
                __version__,
                *self._control,
            )
        )
        logger.info("the server listens on %s and %s", self.gateway_url, self.rest_url)

    def _make_secrets(self, ends: contextlib.ExitStack) -> None:
        """Tokens, and the authority of a cluster that TaskManagers join: those of the servers that share a store, or new ones."""

        def make() -> None:
            if self._config.is_token_required and self._tokens.ensure_first():
                logger.info('the first token, of an admin, is in "%s"', self._tokens.first_token_path)
            if is_standalone(self._configuration.for_jobs):
                StandaloneCluster(self._directory.cluster).make_secrets()

        shared = secrets_of(self._config.leaders, self._configuration)
        if shared is None:
            make()
            return
        ends.callback(shared.close)
        shared.settle(self._directory.shared, make)
        shared.follow(self._directory.shared)

    def _shared_artifacts(
        self, artifacts: ArtifactStore, ends: contextlib.ExitStack
    ) -> SharedArtifacts | None:
        """For servers that share a store and no directory."""
        leaders, leadership = self._config.leaders, self._leadership
        if leaders is None or leadership is None or leaders.directory:
            return None
        shared = SharedArtifacts(
            place_store(leaders, "artifacts", self._configuration),
            artifacts,
            lambda: {a.digest for graph in self._store.graphs() for a in graph.artifacts},
            leadership.confirm,
        )
        ends.callback(shared.close)
        return shared

    def _open_service(
        self, telemetry: Telemetry, ends: contextlib.ExitStack
    ) -> Callable[[Mapping[str, str]], Session]:
        """The gateway; returns what opens a session."""
        config = self._config
        keep = self._led_files.keep if self._led_files is not None else lambda changes: None
        catalogs = kept_catalogs(self._directory.catalog, self._places, keep)
        settings = self._configuration.for_jobs

        def open_session(properties: Mapping[str, str]) -> Session:
            return Session(
                self._served,
                {**settings, **properties},
                catalogs,
                is_served=True,
                places=self._places,
                allows_python=config.has_python_functions,
            )

        # Another host may go on with them.
        files = SessionFiles(self._directory.sessions, is_durable=False, keep=keep)
        rules = StatementRules(self._audit, self._tokens, config.is_token_required)
        listener = telemetry.listening(rules)
        self._service = GatewayService(
            open_session,
            config.limits,
            listener,
            files=files,
            sessions_max_of=lambda user: self._tokens.sessions_max_of(user, config.user_sessions_max),
        )
        ends.callback(self._service.close)
        return open_session

    def _answer(self, telemetry: Telemetry, ends: contextlib.ExitStack) -> None:
        """Begin to take requests."""
        config = self._config
        info = ServerInfo(
            __version__,
            self._configuration.values,
            log_directory=Path(self._directory.logs),
            task_manager_log=lambda id: self._logs.latest(lambda record: is_of_process(record, id)),
            printed=lambda: self._logs.latest(is_printed),
        )
        telemetry.start(ClusterView(self._served, info))
        places = Places(config.places)
        app = Security(
            server_app(
                self._service,
                self._served,
                info,
                self._logs,
                self.stopped.set,
                self.stopped.is_set,
                config.has_gateway,
                self._other_consoles,
            ),
            self._access_rules(),
            self._tokens,
            self._audit,
            self._service.session_level,
            places,
            known_users(self._configuration),
        )
        self._http = HttpListener(app, self._sockets, config.tls, self._break_off, places)
        self._http.start()
        ends.callback(self._http.refuse_connections)

    def _open_directory(self, ends: contextlib.ExitStack) -> DataDirectory:
        path, leadership, leaders = self._config.data_directory, self._leadership, self._config.leaders
        if leadership is None or leaders is None:
            return ends.enter_context(DataDirectory(path))
        # The last of all: the next one leads as soon as nothing is left of this one.
        ends.callback(leadership.stop)
        led = os.path.join(path, LED)
        found = ends.enter_context(DataDirectory(path, leaders.directory, led))
        self._led_files = LedFiles(led, leadership)
        return found

    def _listen(self, ends: contextlib.ExitStack) -> None:
        config = self._config
        for endpoint in config.endpoints:
            self._sockets.append(listen(endpoint))
            ends.callback(self._sockets[-1].close)
        is_secure = config.tls is not None
        self.gateway_url = url_of(config.gateway, port_of(self._sockets[0]), is_secure)
        self.rest_url = url_of(config.endpoints[-1], port_of(self._sockets[-1]), is_secure)

    def _start_log(self, ends: contextlib.ExitStack) -> None:
        config = self._config
        self._logs = self._log_files(self._directory.logs, "sqlstream", ends)
        self._log_handler = LogFilesHandler(self._logs)
        install_handler(self._log_handler, "server", config.log_level, config.log_format)
        ends.callback(self._log_handler.close)
        ends.callback(logging.getLogger().removeHandler, self._log_handler)
        for note in self._configuration.notes:
            logger.warning(note)
        if self._leadership is not None:
            logger.info("this server leads, in epoch %d", self._leadership.epoch)

    def _log_files(self, directory: str, name: str, ends: contextlib.ExitStack) -> LogFiles:
        files = LogFiles(directory, self._config.log_file_bytes_max, self._config.log_files_max, name)
        ends.callback(files.close)
        return files

    def _start_cluster(self, ends: contextlib.ExitStack) -> None:
        config = self._config
        self._places = self._file_places()
        self._store = self._job_store()
        check_owner = self._leadership.confirm if self._leadership is not None else None
        committer = ConnectorCommitter(files_at(self._places), check_owner)
        # Executors on other hosts do not see it: their jobs name a directory that they share.
        is_reached = is_on_one_host(self._configuration.for_jobs) and self._is_place_shared()
        directory = self._directory.checkpoints if is_reached else ""
        stores = JobCheckpointStores(directory, check_owner)
        recovery = recover(self._store, committer, stores, now_ms)
        artifacts = ArtifactStore(lambda: self._directory.artifacts)
        surroundings = self._surroundings(recovery, committer, directory, check_owner, artifacts)
        settings = {
            **self._configuration.for_jobs,
            "sqlstream.log.level": config.log_level,
            "sqlstream.log.format": config.log_format,
        }
        standalone = StandaloneCluster(self._directory.cluster) if is_standalone(settings) else None
        if standalone is not None:
            settings |= standalone.settings(settings)
            surroundings = dataclasses.replace(surroundings, token=standalone.secret)
        shared_artifacts = self._shared_artifacts(artifacts, ends)
        size = cluster_size(self._configuration, os.cpu_count() or 1, self._task_managers)
        self._cluster = GuardedCluster(
            {**settings, **size.settings},
            size.task_managers,
            log_printed_lines,
            surroundings,
            JobLimits(
                config.plan_bytes_max,
                config.user_plans_bytes_max,
                config.job_slots_max,
                lambda user: self._tokens.jobs_max_of(user, config.user_jobs_max),
            ),
            shared_artifacts,
        )
        # Jobs are suspended before their TaskManagers end.
        own = OwnTaskManagers(self._log_handler.pass_on)
        ends.callback(own.stop)
        self._served = self._cluster
        self._control = self._cluster.address, self._cluster.token
        self._cluster.start()
        ends.callback(self._cluster.close)
        ends.callback(self._suspend_jobs)
        if standalone is not None:
            token = self._open_door(standalone, ends)
            if self._task_managers is not None:
                log = {key: settings[key] for key in ("sqlstream.log.level", "sqlstream.log.format")}
                own.start(
                    self._task_managers, self.join_address, token, {**self._configuration.for_jobs, **log}
                )
        submit_again(recovery, self._cluster, self._store, now_ms)
        # Behind it: one that cannot run again is no longer in the store. A new store of files removes none at first.
        keep_files(self._store, artifacts)
        if shared_artifacts is not None:
            shared_artifacts.remove_left()

    def _surroundings(
        self,
        recovery: Recovery,
        committer: ConnectorCommitter,
        directory: str,
        check_owner: CheckOwner | None,
        artifacts: ArtifactStore,
    ) -> ClusterSurroundings:
        return ClusterSurroundings(
            self._store,
            KeptCommitter(self._store, committer),
            (*self._store.ended(), *recovery.waiting),
            self._places,
            self._log_handler.pass_on,
            self._break_off,
            lambda message, job_id: self._audit.control(message, job_id),
            directory,
            self._store.mark_saved,
            self._epoch(),
            check_owner,
            artifacts=artifacts,
            on_temporary=self._store.mark_temporary,
        )

    def _job_store(self) -> FileJobStore:
        is_kept = self._configuration.get("jobstore.type") == "File"
        return FileJobStore(
            self._directory.jobs,
            now_ms,
            self._configuration.get("jobstore.max-capacity") if is_kept else 0,
            os.path.join(self._directory.shared, "kept") if self._leadership is not None else "",
            1000 * self._configuration.get("jobstore.expiration-time"),
            self._led_files,
        )

    def _epoch(self) -> int:
        """By which ids of checkpoints go. The server of which a backup was taken has committed others since."""
        if self._leadership is not None:
            return self._leadership.epoch
        return 1 if was_restored(self._directory.shared) else 0

    def _is_place_shared(self) -> bool:
        """Whether the next server finds what is in the data directory."""
        leaders = self._config.leaders
        return leaders is None or bool(leaders.directory)

    def _file_places(self) -> FilePlaces:
        config = self._config
        # Who may run statements is not to read tokens, nor write them, as tables.
        denied = tuple({os.path.realpath(path) for path in (config.data_directory, self._directory.shared)})
        return FilePlaces(
            config.file_roots, denied, config.has_database_servers, config.has_private_addresses
        )

    def _open_door(self, standalone: StandaloneCluster, ends: contextlib.ExitStack) -> JoinToken:
        """Let TaskManagers join; returns the token by which they do."""
        token = standalone.join_token()
        job_manager = self._cluster.task_managers_address
        door = standalone.door(self._configuration.for_jobs, job_manager, self._places, self._break_off)
        ends.callback(door.stop)
        self.join_address = door.address
        logger.info("TaskManagers join at %s, and register at %s", door.address, job_manager)
        return token

    def _access_rules(self) -> AccessRules:
        config = self._config
        names = {"localhost", "127.0.0.1", "::1"}
        names |= {name.lower() for e in config.endpoints for name in (e.name, e.bind_address)}
        return AccessRules(
            config.is_token_required,
            frozenset(names),
            config.limits.body_bytes_max,
            config.bodies_bytes_max,
            config.requests_per_user_max,
        )

    def _break_off(self) -> None:
        """The JobManager has ended by itself: end the server, so that whoever watches it starts another."""
        self.is_broken = True
        self.stopped.set()

    def _suspend_jobs(self) -> None:
        """Keep the jobs that run, but queries: those have lost their clients."""
        if self.is_broken:
            # Its jobs have not ended, and nothing was removed.
            return
        kept = []
        for job in self._cluster.jobs():
            # One that has ended since then may be forgotten: the others are kept.
            with contextlib.suppress(UserError):
                if job.status in _CAN_RUN_AGAIN and not self._cluster.job_graph(job.job_id).is_query:
                    kept.append(job.job_id)
        self._store.suspend(kept)
        # The others are cancelled with the cluster, and leave nothing.
        for job_id in kept:
            with contextlib.suppress(UserError):
                if self._has_checkpoints(job_id):
                    self._cluster.suspend(job_id)
        if kept:
            logger.info("jobs that are kept, and start again with the server: %s", ", ".join(kept))

    def _has_checkpoints(self, job_id: str) -> bool:
        """Whether the job takes them, or has taken or gone on from one that somebody asked for."""
        counts = self._cluster.checkpoints(job_id).counts
        is_periodic = takes_checkpoints(self._cluster.job_graph(job_id).config)
        return is_periodic or counts.completed > 0 or counts.restored > 0

    def _stop_http(self) -> None:
        if self._http is not None:
            self._http.stop()

    @property
    def is_logging_json(self) -> bool:
        return self._config.log_format == "JSON"

    def reload(self, configuration: Configuration) -> None:
        """Take up what can change while the server runs: its certificate and the level of its log. Tokens count when they are
        made anyway. UserError when the certificate cannot be used, which leaves the one in force."""
        config = server_config(configuration)
        logging.getLogger().setLevel(config.log_level)
        if self._http is not None and config.tls is not None:
            self._http.reload(config.tls)
        logger.info("certificate and level of the log are read again; other settings count at the next start")

    def stop(self) -> None:
        """Answer no other request, close all sessions, suspend the jobs, end the TaskManagers. Harmless when repeated."""
        logger.info("the server stops")
        self._ends.close()


def _leave_to_others() -> None:
    """End the process, with no more than a word: what it would clean up belongs to the server that leads now."""
    error = no_leader()
    print(f"error[{error.code}]: {error.message}", file=sys.stderr, flush=True)
    leave(EXIT_FAILED, 0)


PLANNED = "SELECT k, COUNT(*) FROM (VALUES ('a', 1), ('b', 2)) AS t (k, v) WHERE v > 0 GROUP BY k"
"""It passes through parser, binder, rules, both plans and expressions."""


EXECUTED = "SELECT 1"
"""Its answer needs no job."""


def warm_up(open_session: Callable[[Mapping[str, str]], Session]) -> None:
    """Plan one query and answer another in a session that nobody else sees. A failure is one that the first user sees too."""
    from sqlstream.client.sessions.outcomes import LiteralJob
    from sqlstream.planner.dialect.parser import parse_statement

    try:
        session = open_session({})
        session.compile(parse_statement(PLANNED))
        outcome = session.execute(parse_statement(EXECUTED))
        if isinstance(outcome, LiteralJob):
            outcome.results().close()
    except Exception as error:  # nothing depends on it
        logger.warning("the server could not warm up: %s", error)


def start_warm_up(open_session: Callable[[Mapping[str, str]], Session]) -> threading.Thread:
    """`warm_up` beside the server, which may end meanwhile: its end does not wait."""
    thread = threading.Thread(target=warm_up, args=(open_session,), name="warm-up", daemon=True)
    thread.start()
    return thread
