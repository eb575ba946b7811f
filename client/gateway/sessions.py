"""The sessions of a gateway (Flink: SessionManager)."""

from __future__ import annotations

import collections
import contextlib
import logging
import queue
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from sqlstream.client.gateway.kept_sessions import KeptSession, kept_session
from sqlstream.client.gateway.operations import Operation
from sqlstream.client.gateway.options import GatewayOptions
from sqlstream.client.gateway.settings import shown_properties
from sqlstream.errors import SqlStreamError, UserError

if TYPE_CHECKING:
    from sqlstream.client.sessions.session import Session


_log = logging.getLogger(__name__)


DROPPED_MAX = 1000

SESSION_BYTES = 16 * 1024
"""What a session takes that holds nothing, in about."""


class GatewaySession:
    """One client's session: its statements run in order, others' beside them. Thread-safe.

    `level` is that of whoever opened it. `is_of_earlier_server`: another server has opened it, whose operations are lost;
    `last_operation` was the last to change its settings or temporary objects.

    State: the engine's session, properties that the engine does not know, and its operations, until `close`; the settings of the
    statement that runs, and what they were before. An operation whose answer was read to its end is dropped when there
    are more than `operations_max` or they take more than `operations_bytes_max`, the oldest first; the handles of the last
    DROPPED_MAX dropped ones are kept, to tell whoever asks for them, and of as many closed ones whose handles clients have made.
    """

    def __init__(
        self,
        session: Session,
        kept: Mapping[str, str],
        name: str,
        pool: ThreadPoolExecutor,
        options: GatewayOptions,
        now_ms: int,
        level: int = 0,
    ) -> None:
        self.handle = str(uuid.uuid4())
        self.name = name
        self.level = level
        self.session = session
        self.last_used_ms = now_ms
        self._queue = SerialQueue(pool, options.operations_max)
        self._kept = dict(kept)
        self._for_statement: tuple[Mapping[str, str], Mapping[str, str | None]] = ({}, {})
        self.properties_obeyed: dict[str, str] = {}
        self.is_of_earlier_server = False
        self.last_operation = ""
        self.last_kept: KeptSession | None = None
        self._operations: dict[str, Operation] = {}
        self._dropped: collections.deque[str] = collections.deque(maxlen=DROPPED_MAX)
        self._closed: collections.deque[str] = collections.deque(maxlen=DROPPED_MAX)
        self._operations_max = options.operations_max
        self._operations_bytes_max = options.operations_bytes_max
        self._lock = threading.Lock()
        self._is_closed = False
        # Held from looking for a statement's operation until that is added; while the session's file is written or removed.
        self.adding, self.keeping = threading.Lock(), threading.Lock()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def properties(self) -> dict[str, str]:
        """Settings by key, as texts, secrets masked; those of the statement that runs are not among them."""
        return shown_properties(self._kept, self.own_settings())

    @contextlib.contextmanager
    def settings(self, config: Mapping[str, str]) -> Iterator[None]:
        """Settings in force for one statement; what the statement itself SETs stays."""
        session_config = self.session.config
        with self._lock:
            before = {key: session_config.get(key) for key in config}
            session_config.update(config)
            self._for_statement = (config, before)
        try:
            yield
        finally:
            with self._lock:
                own = self._own_settings()
                self._for_statement = ({}, {})
                for key in config:
                    if key in own:
                        session_config[key] = own[key]
                    else:
                        session_config.pop(key, None)

    def own_settings(self) -> dict[str, str]:
        """The settings without those in force for the statement that runs."""
        with self._lock:
            return self._own_settings()

    def _own_settings(self) -> dict[str, str]:
        own, (config, before) = dict(self.session.config), self._for_statement
        for key, value in before.items():
            if own.get(key) == config[key]:
                own.pop(key)
                own |= {key: value} if value is not None else {}
        return own

    def to_keep(self) -> KeptSession:
        """What the next server goes on with."""
        opened = (self.properties_obeyed, self._kept)
        found = kept_session(self.session, self.own_settings(), opened, self.name, self.level)
        return msgspec.structs.replace(found, last_operation=self.last_operation)

    def known(self, handle: str) -> Operation | None:
        """The operation of a handle that a client has made. UserError SS6021 when it was closed or dropped."""
        with self._lock:
            is_known = any(handle in handles for handles in (self._operations, self._dropped, self._closed))
        return self.operation(handle) if is_known else None

    def add(self, operation: Operation) -> None:
        """Know the operation by its handle. UserError SS6025 when the session has too many, SS6020 when it is closed."""
        with self._lock:
            if self._is_closed:
                raise unknown_session(self.handle)
            dropped = self._dropped_for(operation)
            self._forget(dropped)
            self._operations[operation.handle] = operation
        for other in dropped.values():
            other.close()

    @property
    def held_bytes(self) -> int:
        """What it takes, in about: its operations' texts and rows, and what the engine's session keeps."""
        with self._lock:
            operations = list(self._operations.values())
        return SESSION_BYTES + self.session.held_bytes + sum(o.held_bytes for o in operations)

    def drop_read(self) -> None:
        """Drop the operations whose answers were read to their end."""
        with self._lock:
            dropped = {h: o for h, o in self._operations.items() if o.is_over}
            self._forget(dropped)
        for other in dropped.values():
            other.close()

    def _forget(self, dropped: Mapping[str, Operation]) -> None:
        """Take operations out of those that are known, and remember their handles; within the lock."""
        self._operations = {h: o for h, o in self._operations.items() if h not in dropped}
        self._dropped.extend(dropped)

    def add_until_settled(self, operation: Operation) -> None:
        """The same for an operation that nobody fetches."""
        self.add(operation)

        def forget() -> None:
            self.remove(operation.handle)

        operation.when_settled(forget)

    def run(self, operation: Operation, task: Task) -> None:
        """Put the operation, which was added, into the queue. UserError SS6025 when too many wait, SS6020 when the gateway is
        closed."""
        operation.accept()
        try:
            self._queue.put(task)
        except (queue.Full, RuntimeError) as error:
            self.remove(operation.handle)
            operation.close()
            if isinstance(error, RuntimeError):
                raise unknown_session(self.handle) from error
            raise UserError(
                "SS6025",
                f"{self._operations_max} operations of the session wait to be executed",
                hint="wait until the session has executed them, or open another session",
            ) from None

    def _dropped_for(self, operation: Operation) -> dict[str, Operation]:
        """The operations that make room for another one."""
        count = len(self._operations) + 1
        size = operation.held_bytes + sum(other.held_bytes for other in self._operations.values())
        dropped: dict[str, Operation] = {}
        for handle, other in self._operations.items():
            if count <= self._operations_max and size <= self._operations_bytes_max:
                return dropped
            if other.is_over:
                dropped[handle] = other
                count, size = count - 1, size - other.held_bytes
        hint = "close operations whose results have been read"
        if count > self._operations_max:
            said = f"the session has {self._operations_max} operations that are not closed"
            raise UserError("SS6025", said, hint=hint)
        if size > self._operations_bytes_max:
            said = f"the operations of the session take more than {self._operations_bytes_max} bytes"
            raise UserError("SS6025", said, hint=hint)
        return dropped

    def operation(self, handle: str) -> Operation:
        """UserError SS6021 when there is none of that handle."""
        with self._lock:
            found = self._operations.get(handle)
            was_dropped = found is None and handle in self._dropped
        if was_dropped:
            raise UserError(
                "SS6021",
                f"the operation {handle} was dropped to make room for later ones, as its answer had been read to its end",
                hint="run the statement again",
            )
        if found is None and self.is_of_earlier_server and handle not in self._closed:
            raise UserError(
                "SS6093",
                f"the operation {handle} is lost with the server that has run it; the session goes on",
                hint="run a query again; the job of an INSERT goes on by itself: SHOW JOBS",
            )
        if found is None:
            raise UserError(
                "SS6021", f"can not find the submitted operation in the OperationManager with the {handle}"
            )
        return found

    def remove(self, handle: str) -> Operation | None:
        with self._lock:
            found = self._operations.pop(handle, None)
            if found is not None and found.job_id:
                # A request that comes late must not execute it again.
                self._closed.append(handle)
            return found

    def close(self) -> None:
        """Close all operations, which cancels the queries among them; harmless when repeated."""
        with self._lock:
            self._is_closed = True
            operations, self._operations = list(self._operations.values()), {}
        for operation in operations:
            try:
                operation.close()
            except SqlStreamError as error:
                # The others are closed all the same.
                _log.warning(
                    "operation %s was closed, but its job was not cancelled: %s", operation.handle, error
                )


def unknown_session(handle: str) -> UserError:
    return UserError("SS6020", f"session '{handle}' does not exist", hint="open a session")


class SessionTable:
    """The open sessions by handle. Thread-safe. A session that is not used for `idle_timeout_ms` is closed."""

    def __init__(
        self, sessions_max: int, user_bytes_max: int, idle_timeout_ms: int, clock_ms: Callable[[], int]
    ) -> None:
        """`user_bytes_max`: what the sessions of one owner may take together."""
        self._sessions_max = sessions_max
        self._user_bytes_max = user_bytes_max
        self._idle_timeout_ms = idle_timeout_ms
        self._clock_ms = clock_ms
        self._sessions: dict[str, GatewaySession] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> tuple[GatewaySession, ...]:
        with self._lock:
            return tuple(self._sessions.values())

    def require_memory(self, owner: str) -> None:
        """UserError SS6025 when the sessions of `owner` take more than they may, also without the answers that were read."""
        own = [session for session in self.all() if session.session.owner == owner]
        if sum(session.held_bytes for session in own) <= self._user_bytes_max:
            return
        for session in own:
            session.drop_read()
        if sum(session.held_bytes for session in own) > self._user_bytes_max:
            raise UserError(
                "SS6025",
                f"the sessions of the user take more than {self._user_bytes_max} bytes",
                hint="close operations and sessions that are not needed, or raise 'sqlstream.gateway.memory.per-user.max-size'",
            )

    def require_room(self) -> None:
        """UserError SS6025 when no session more can be opened."""
        if len(self._sessions) >= self._sessions_max:
            raise UserError(
                "SS6025",
                "failed to create session, the count of active sessions exceeds the max count:"
                f" {self._sessions_max}",
                hint="close sessions that are not needed, or raise 'sql-gateway.session.max-num'",
            )

    def require_room_of(self, owner: str, own_max: int) -> None:
        """UserError SS6125 when `owner` has as many sessions as may be; `own_max` 0: any number."""
        own = sum(session.session.owner == owner for session in self.all())
        if 0 < own_max <= own:
            raise UserError("SS6125", f"the user has {own} sessions open, and may have {own_max}")

    def add(self, session: GatewaySession) -> None:
        with self._lock:
            self.require_room()
            self._sessions[session.handle] = session

    def get(self, handle: str) -> GatewaySession:
        """The session, which counts as used now. UserError SS6020 when there is none of that handle."""
        with self._lock:
            found = self._sessions.get(handle)
        if found is None:
            raise unknown_session(handle)
        found.last_used_ms = self._clock_ms()
        return found

    def level_of(self, handle: str) -> int | None:
        """The level of a session, which does not count as used; None when there is none of that handle."""
        with self._lock:
            found = self._sessions.get(handle)
        return None if found is None else found.level

    def remove(self, handle: str) -> GatewaySession:
        with self._lock:
            found = self._sessions.pop(handle, None)
        if found is None:
            raise unknown_session(handle)
        return found

    def remove_idle(self) -> list[GatewaySession]:
        """Take out the sessions that were not used for too long."""
        if not self._idle_timeout_ms:
            return []
        last_ms = self._clock_ms() - self._idle_timeout_ms
        with self._lock:
            idle = [s for s in self._sessions.values() if s.last_used_ms < last_ms]
            for session in idle:
                del self._sessions[session.handle]
        return idle

    def remove_all(self) -> list[GatewaySession]:
        with self._lock:
            found, self._sessions = list(self._sessions.values()), {}
        return found


# Tasks that run one after the other on threads of a pool, without a thread of their own.


Task = Callable[[Callable[[], None]], None]
"""Called on a thread of the pool with `done`, which it calls when the next task may run: before it returns, or later from any
thread. Only the first call counts."""


class SerialQueue:
    """Runs tasks in the order in which they come, each after the one before is done. Thread-safe.

    While a task waits for something it holds no thread, since it may return before it is done. State: the tasks not yet
    started, at most `tasks_max`, and whether one is running.
    """

    def __init__(self, pool: ThreadPoolExecutor, tasks_max: int) -> None:
        self._pool = pool
        self._tasks_max = tasks_max
        self._tasks: deque[Task] = deque()
        self._is_running = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The tasks that have not been started."""
        return len(self._tasks)

    def put(self, task: Task) -> None:
        """Run the task once those before it are done. queue.Full when too many wait; RuntimeError when the pool has been shut
        down."""
        with self._lock:
            if len(self._tasks) >= self._tasks_max:
                raise queue.Full
            self._tasks.append(task)
            if self._is_running:
                return
            self._is_running = True
        self._pool.submit(self._run_next)

    def _run_next(self) -> None:
        with self._lock:
            task = self._tasks.popleft()
        task(_once(self._done))

    def _done(self) -> None:
        with self._lock:
            if not self._tasks:
                self._is_running = False
                return
        # Not a loop: the sessions of a gateway take turns on the threads. A pool that was shut down runs nothing more.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._run_next)


def _once(act: Callable[[], None]) -> Callable[[], None]:
    """Acts at its first call, by whichever thread, and at no other: a second `done` would let two tasks run at once."""
    is_done = threading.Lock()

    def call() -> None:
        if is_done.acquire(blocking=False):
            act()

    return call
