"""The gateway without HTTP: sessions, and the statements that clients run in them (Flink: SqlGatewayService)."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sqlstream.cancellation import given_up_by
from sqlstream.catalog import CatalogConflict
from sqlstream.client.gateway.asker import NOBODY, AskedStatement, Asker, StatementListener
from sqlstream.client.gateway.execution import Execute, Execution, PlanningTurns
from sqlstream.client.gateway.kept_sessions import SessionFiles, go_on
from sqlstream.client.gateway.operations import Operation
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.sessions import GatewaySession, SessionTable, unknown_session
from sqlstream.client.gateway.settings import require_small, split_properties, statement_settings
from sqlstream.client.sessions.effects import settings_effects
from sqlstream.effects import Right
from sqlstream.errors import InternalError, SqlStreamError, UserError
from sqlstream.runtime.host.clock import steady_ms

if TYPE_CHECKING:
    from sqlstream.client.completion import Candidate
    from sqlstream.client.sessions.session import Session

OpenSession = Callable[[Mapping[str, str]], "Session"]
"""A session of the engine with these settings, on the gateway's cluster and catalogs."""

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Sent:
    """What a client says of a statement that it may have to send twice: the handle that it has made for the operation, and
    whether it has sent the statement before. Empty where the gateway makes the handle."""

    handle: str = ""
    is_repeated: bool = False


class GatewayService:
    """Runs the statements of many sessions on one cluster. All methods are thread-safe, and those that execute something
    return before it is executed.

    The statements of a session run in order, those of different sessions side by side, on at most `worker_threads_max` threads.
    No thread is held while a job runs, and the planning of a statement ends when its operation is cancelled or closed. State: the
    open sessions. A session that is idle for too long is closed; that cancels its queries and leaves the jobs of its INSERTs
    alone.
    """

    def __init__(
        self,
        open_session: OpenSession,
        options: GatewayOptions | None = None,
        listener: StatementListener | None = None,
        clock_ms: Callable[[], int] = steady_ms,
        files: SessionFiles | None = None,
        sessions_max_of: Callable[[str], int] = lambda user: 0,
    ) -> None:
        """`files` keep the sessions for the next gateway, and have those of the one before. `sessions_max_of`: how many sessions
        a user may have, 0 for any number."""
        self.options = options or GatewayOptions()
        self.cluster_id = uuid.uuid4().hex
        self._open_session = open_session
        self._listener = listener
        self._clock_ms = clock_ms
        self._sessions_max_of = sessions_max_of
        self._sessions = SessionTable(
            self.options.sessions_max, self.options.user_bytes_max, self.options.idle_timeout_ms, clock_ms
        )
        self._pool = ThreadPoolExecutor(self.options.worker_threads_max, "gateway")
        self._turns = PlanningTurns(
            self.options.planning_per_user_max,
            self.options.planning_cpu_max_ms / 1000,
            max(1, self.options.worker_threads_max // 4),
        )
        self._is_closed = threading.Event()
        self._files = files
        self._go_on_with_sessions()
        self._cleaner = threading.Thread(target=self._close_idle_sessions, name="gateway-idle", daemon=True)
        if self.options.check_interval_ms and self.options.idle_timeout_ms:
            self._cleaner.start()

    def close(self) -> None:
        """Close all sessions, but not for the next gateway; harmless when repeated. The cluster goes on."""
        self._is_closed.set()
        for session in self._sessions.remove_all():
            session.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- sessions ----------------------------------------------------------------------------------

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    def sessions(self) -> tuple[GatewaySession, ...]:
        """The open sessions; looking at them is no use of them."""
        return self._sessions.all()

    def open_session(self, properties: Mapping[str, str], name: str = "", asker: Asker = NOBODY) -> str:
        """Open a session and return its handle. UserError for a wrong setting, or when there are too many sessions."""
        self._sessions.require_room()
        if user := self._user(asker):
            self._sessions.require_memory(user)
            self._sessions.require_room_of(user, self._sessions_max_of(user))
        require_small(properties, name, self.options.properties_bytes_max)
        applied, kept = split_properties(properties)
        asker.permit.require(settings_effects(applied))
        session = self._opened(applied, kept, name, asker.level)
        session.session.owner = self._user(asker) or session.handle
        self._sessions.add(session)
        if self._files is not None:
            session.last_kept = session.to_keep()
            self._files.put(session.handle, session.last_kept)
        return session.handle

    def _opened(
        self, applied: dict[str, str], kept: Mapping[str, str], name: str, level: int
    ) -> GatewaySession:
        opened = self._open_session(applied)
        session = GatewaySession(opened, kept, name, self._pool, self.options, self._clock_ms(), level)
        session.properties_obeyed = applied
        return session

    def _go_on_with_sessions(self) -> None:
        """Open the sessions of an earlier server, whose operations are lost with it, under their handles."""
        for handle, kept in self._files.all() if self._files is not None else ():
            try:
                session = self._opened(kept.properties, kept.kept, kept.name, kept.level)
                go_on(session.session, kept)
                session.handle, session.is_of_earlier_server = handle, True
                session.last_operation = kept.last_operation
                session.last_kept = session.to_keep()
                self._sessions.add(session)
            except (SqlStreamError, CatalogConflict) as error:
                _log.error("session %s ends, as it cannot go on here: %s", handle, error)
                self._forget_file(handle)

    def _keep(self, session: GatewaySession, handle: str) -> None:
        """Keep what the operation of that handle has changed of its session, if anything; empty: one that has failed."""
        if self._files is None:
            return
        with session.keeping:
            if session.is_closed or session.to_keep() == session.last_kept:
                return
            session.last_operation = handle
            session.last_kept = session.to_keep()
            self._files.put(session.handle, session.last_kept)

    def _forget_file(self, handle: str) -> None:
        if self._files is not None:
            self._files.remove(handle)

    def _user(self, asker: Asker) -> str:
        """Whose shares are taken; empty without tokens, where all are one user and each session counts for itself."""
        return asker.user if self.options.has_users else ""

    def session(self, handle: str) -> GatewaySession:
        """An open session, which counts as used now. UserError SS6020 when there is none of that handle."""
        return self._sessions.get(handle)

    def session_level(self, handle: str) -> int | None:
        """The level of whoever opened a session; None when there is none of that handle. This is no use of it."""
        return self._sessions.level_of(handle)

    def close_session(self, handle: str) -> None:
        self._close_for_good(self._sessions.remove(handle))

    def _close_for_good(self, session: GatewaySession) -> None:
        """The next server does not go on with it, also when a statement of it ends after this."""
        session.close()
        with session.keeping:
            self._forget_file(session.handle)

    def _close_idle_sessions(self) -> None:
        while not self._is_closed.wait(self.options.check_interval_ms / 1000):
            self.close_idle_sessions()

    def close_idle_sessions(self) -> None:
        """Close the sessions whose time is over."""
        for session in self._sessions.remove_idle():
            _log.info("session %s was idle for too long and is closed", session.handle)
            self._close_for_good(session)

    # -- statements --------------------------------------------------------------------------------

    def execute(
        self,
        session_handle: str,
        text: str,
        config: Mapping[str, str] | None = None,
        asker: Asker = NOBODY,
        sent: Sent = Sent(),
    ) -> Operation:
        """Begin to execute one statement; the operation says how it goes on. `config` is in force for this statement alone.
        UserError for a statement that is too long, a wrong setting or an unknown session."""
        session = self.session(session_handle)
        operation = self._operation(text, sent)
        applied = statement_settings(config or {})
        asker.permit.require(settings_effects(applied))
        # A statement that is sent again while it comes for the first time is one operation.
        with session.adding:
            if sent.handle and (known := session.known(sent.handle)) is not None:
                return known
            with self._announced(session, operation, asker):
                session.add(operation)
                self._start(session, operation, applied, self._execution(session).execute, asker)
        return operation

    def configure_session(self, session_handle: str, text: str, asker: Asker = NOBODY) -> Operation:
        """Begin to execute a statement that changes the session or its catalog, and no other. The session forgets the operation
        once it is settled."""
        session = self.session(session_handle)
        operation = self._operation(text)
        with self._announced(session, operation, asker):
            session.add_until_settled(operation)
            self._start(session, operation, {}, self._execution(session).configure, asker)
        return operation

    def run_script(
        self, session_handle: str, script: str, config: Mapping[str, str] | None = None, asker: Asker = NOBODY
    ) -> Operation:
        """Begin to execute all statements of a script in a session of their own, with the settings of this one. The operation
        ends when the last job has been submitted, and the session forgets it then."""
        session = self.session(session_handle)
        operation = self._operation(script)
        applied = statement_settings(config or {})
        asker.permit.require(settings_effects(applied))

        def execute(operation: Operation, done: Callable[[], None]) -> bool:
            # Here, not before: statements that wait in the queue before the script change the settings.
            own = self._open_session({**session.session.config, **applied})
            with own.permitted(asker.permit):
                return Execution(own, self.options).run_script(operation, done)

        with self._announced(session, operation, asker):
            session.add_until_settled(operation)
            self._start(session, operation, {}, execute, asker)
        return operation

    def operation(self, session_handle: str, operation_handle: str) -> Operation:
        """UserError SS6021 for an operation that is not known, or was closed."""
        return self.session(session_handle).operation(operation_handle)

    def cancel_operation(self, session_handle: str, operation_handle: str) -> None:
        self.operation(session_handle, operation_handle).cancel()

    def close_operation(self, session_handle: str, operation_handle: str) -> None:
        """Drop an operation; one that is not known is closed already."""
        operation = self.session(session_handle).remove(operation_handle)
        if operation is not None:
            operation.close()

    def complete(self, session_handle: str, text: str, position: int, asker: Asker = NOBODY) -> Sequence[str]:
        """What may be written at `position` of an unfinished statement, the best first. UserError SS6020 also for a session
        that is not open to who asks."""
        level = self.session_level(session_handle)
        if level is not None and asker.level < level:
            raise unknown_session(session_handle)
        return [found.text for found in self.candidates(session_handle, text, position, asker)]

    def candidates(
        self, session_handle: str, text: str, position: int, asker: Asker = NOBODY
    ) -> tuple[Candidate, ...]:
        """The same, each with its kind and the place of what it replaces."""
        from sqlstream.client.completion import Name, complete
        from sqlstream.client.completion.session_vocabulary import SessionVocabulary

        session = self.session(session_handle).session

        def jobs() -> list[Name]:
            return [Name(job.job_id, job.status.value) for job in session.cluster.jobs()]

        self._require_short(text)
        return complete(
            text,
            min(max(position, 0), len(text)),
            SessionVocabulary(session, jobs, asker.permit.allows(Right.FILES)),
        )

    # -- execution ---------------------------------------------------------------------------------

    def _operation(self, text: str, sent: Sent = Sent()) -> Operation:
        self._require_short(text)
        return Operation(text, sent.handle, sent.is_repeated)

    def _require_short(self, text: str) -> None:
        limit = self.options.statement_bytes_max
        # Each character is at least a byte: most texts need not be encoded to be measured.
        if len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit:
            raise UserError("SS6026", f"the statement is longer than {limit} bytes")

    def _execution(self, session: GatewaySession) -> Execution:
        def keep(operation: Operation) -> None:
            self._keep(session, operation.handle)

        return Execution(session.session, self.options, keep, session.last_operation)

    @contextlib.contextmanager
    def _announced(self, session: GatewaySession, operation: Operation, asker: Asker) -> Iterator[None]:
        """Tell the listener of a statement, which refuses it by an error, before the body puts it into its session; and of its
        end, also when the session has no room for it. UserError SS6025 when the user's sessions take too much."""
        self._sessions.require_memory(session.session.owner)
        listener = self._listener
        if listener is None:
            yield
            return
        statement = AskedStatement(asker, session.handle, operation.handle, operation.text)
        listener.announce(statement)

        def end() -> None:
            listener.end(statement, operation.status.value, operation.error)

        try:
            yield
        except SqlStreamError as error:
            listener.end(statement, "REJECTED", error)
            raise
        operation.when_settled(end)

    def _start(
        self,
        session: GatewaySession,
        operation: Operation,
        config: Mapping[str, str],
        execute: Execute,
        asker: Asker,
    ) -> None:
        """Put an operation into its session's queue, where it runs with the rights of who asks."""

        def run(done: Callable[[], None]) -> None:
            try:
                if operation.start():
                    user = self._user(asker) or session.handle
                    with (
                        session.settings(config),
                        session.session.permitted(asker.permit),
                        self._turns.planning(user, operation.given_up) as planning,
                        given_up_by(planning),
                    ):
                        is_waiting = execute(operation, done)
                    if is_waiting:
                        return
            except SqlStreamError as error:
                self._keep(session, "")
                operation.fail(error)
            except Exception as error:
                _log.exception("operation %s failed for a reason that is a bug", operation.handle)
                operation.fail(InternalError(f"{type(error).__name__}: {error}"))
            done()

        session.run(operation, run)
