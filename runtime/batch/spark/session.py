"""The one Spark of this process: started at the first use, kept warm, and replaced when its settings change."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.code_archive import add_our_code
from sqlstream.runtime.batch.spark.errors import described, first_line
from sqlstream.runtime.batch.spark.jvm import SparkJvm
from sqlstream.runtime.batch.spark.quiet_pyspark import quiet_accumulators
from sqlstream.runtime.batch.spark.settings import (
    is_of_this_machine,
    launch_keys,
    launch_settings,
    shown_settings,
    spark_keys,
    standalone_masters,
)
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.process import memory_bytes
from sqlstream.runtime.host.spill_directory import spill_directory
from sqlstream.runtime.net.socket_directory import SOCKET_PATH_BYTES_MAX
from sqlstream.spark import MASTER, SPARK_SQL_SETTINGS, is_launch_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

STARTING = "starting Spark"

JVM_TIMEOUT_S = 120.0
"""How long the JVM may take until it answers. What follows, such as YARN's queue, has no limit but the user's patience."""

CONNECT_TIMEOUT_S = 5.0
"""How long the master of a standalone cluster may take to accept a connection. Spark itself would try for a minute."""

ANSWER_TIMEOUT_S = 60.0
"""A JVM that is silent for so long is replaced; collecting garbage takes less."""

SOCKET_NAME_BYTES = 50
"""Spark names its sockets by a UUID."""

_GIVE_UP_TIMEOUT_S = 1.0
"""How long `close` waits for a start that it has given up; one that takes longer removes what is left by itself."""

_LOOK_S = 0.1


class SparkStart:
    """A start of Spark under way: what it starts with, then its JVM, and its failure for the statements that wait for it."""

    def __init__(self, launch: dict[str, str]) -> None:
        self.launch = launch
        self.jvm: SparkJvm | None = None
        self.failure: BaseException | None = None
        self.given_up = threading.Event()

    def give_up(self) -> None:
        """Make it fail soon, wherever it is."""
        self.given_up.set()
        if self.jvm is not None:
            self.jvm.stop()


class RunningSpark:
    """A JVM with one SparkContext. State: both, and their temporary directory, until `stop`."""

    def __init__(self, launch: Mapping[str, str], start: SparkStart) -> None:
        """Start it. ExternalError SS5110 without Java, SS5111 when Spark does not start; UserError SS4054, BatchCancelled."""
        self.launch = dict(launch)
        """The settings of the statement that has started it, as far as Spark takes them at its start."""
        _refuse_second_context()
        self._ends = contextlib.ExitStack()
        self._directory = self._ends.enter_context(spill_directory())
        self._is_stopped = False
        self._is_lost = False
        try:
            self.socket_directory = self._ends.enter_context(_socket_directory(self._directory))
            settings = launch_settings(
                launch, self._directory, self.socket_directory, len(os.sched_getaffinity(0)), memory_bytes()
            )
            logger.info("starting Spark: %s", shown_settings(settings))
            started_s = steady_s()
            self.is_of_this_machine = is_of_this_machine(settings[MASTER])
            self.has_our_code = settings[MASTER].startswith("local[")
            self.jvm = SparkJvm(settings, self._directory, JVM_TIMEOUT_S, start.given_up.is_set)
            start.jvm = self.jvm
            self.session = self._session(settings, start)
        except BaseException:
            self._ends.close()
            raise
        logger.info("Spark runs as process %d after %.1f s", self.jvm.process_id, steady_s() - started_s)

    @property
    def directory(self) -> str:
        """Where this Spark, and what belongs to it, keeps temporary files."""
        return self._directory

    @property
    def is_alive(self) -> bool:
        """As far as this process can tell without asking the JVM."""
        return not self._is_stopped and not self._is_lost and self.jvm.is_alive

    def answers(self, is_cancelled: Callable[[], bool]) -> bool:
        """Whether its context runs. One whose context has stopped, or that is silent for ANSWER_TIMEOUT_S, is not alive from then
        on. BatchCancelled. Asked on a thread of its own, since a JVM may hang."""
        found: list[bool] = []
        thread = threading.Thread(
            target=lambda: found.append(self._has_context()), name="ask-spark", daemon=True
        )
        thread.start()
        deadline_s = steady_s() + ANSWER_TIMEOUT_S
        while not found and steady_s() < deadline_s:
            if is_cancelled():
                raise BatchCancelled
            thread.join(_LOOK_S)
        self._is_lost = found != [True]
        return not self._is_lost

    def _has_context(self) -> bool:
        try:
            return not self.session.sparkContext._jsc.sc().isStopped()
        except Exception:  # whatever the connection to a JVM raises that ends at this moment
            return False

    def stop(self) -> None:
        """End the JVM and remove the directory. Harmless when repeated."""
        if self._is_stopped:
            return
        self._is_stopped = True
        server = self.session.sparkContext._accumulatorServer
        self.jvm.stop()
        server.shutdown()
        forget_context()
        self._ends.close()

    def _session(self, settings: Mapping[str, str], start: SparkStart) -> SparkSession:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        forget_context()
        try:
            if start.given_up.is_set():
                raise BatchCancelled
            context = SparkContext(gateway=self.jvm.gateway)
            quiet_accumulators(context)
            # The workers' Python is this one, whatever `python3` is on PATH.
            context.pythonExec = settings.get("spark.pyspark.python") or os.environ.get(
                "PYSPARK_PYTHON", sys.executable
            )
            if not self.has_our_code:
                add_our_code(context, self._directory)
            return SparkSession(context)
        except Exception as error:
            words = self.jvm.last_words()
            self.jvm.stop()
            forget_context()
            if start.given_up.is_set():
                raise BatchCancelled from error
            cause = described(error)
            raise ExternalError(
                "SS5111",
                f"Spark could not be started: {first_line(cause)}",
                detail=f"its last lines are\n{words}" if words else "",
                hint="look at the spark.* settings",
            ) from error


class SparkSessions:
    """Gives each statement a session of its own, with its own settings and views, of the one Spark of this process. Thread-safe.

    State: the running Spark, how many statements use it, and the statements that wait for one, in their order. It ends by
    `close`, or when a statement with other launch settings comes while nothing uses it. Only the first one of those that wait
    may start it anew, so that it serves the statement that it was started for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: RunningSpark | None = None
        self._starting: SparkStart | None = None
        self._users = 0
        self._waiting: deque[object] = deque()
        self._is_closed = False

    @contextlib.contextmanager
    def session(
        self, config: Mapping[str, str], state: Callable[[str], None], is_cancelled: Callable[[], bool]
    ) -> Iterator[tuple[RunningSpark, SparkSession]]:
        """A session for one statement with the `spark.*` keys of its settings; waits while Spark starts.

        UserError SS4052 to SS4054 for settings, ExternalError when Spark cannot start, BatchCancelled."""
        given = spark_keys(config)
        running = self._acquire(launch_keys(given), state, is_cancelled)
        try:
            yield running, _new_session(running, given)
        finally:
            self._let_go()

    def close(self) -> None:
        """End Spark; statements that run fail. Harmless when repeated."""
        with self._changed:
            self._is_closed = True
            start = self._starting
        if start is not None:
            start.give_up()
        with self._changed:
            self._changed.wait_for(lambda: self._starting is None, _GIVE_UP_TIMEOUT_S)
            running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _acquire(
        self, launch: dict[str, str], state: Callable[[str], None], is_cancelled: Callable[[], bool]
    ) -> RunningSpark:
        """The Spark with these settings, held until `_let_go`."""
        while True:
            running = self._started(launch, state, is_cancelled)
            try:
                if running.answers(lambda: is_cancelled() or self._is_closed):
                    return running
            except BaseException:
                self._let_go()
                raise
            self._let_go()

    def _let_go(self) -> None:
        with self._changed:
            self._users -= 1
            self._changed.notify_all()

    def _started(
        self, launch: dict[str, str], state: Callable[[str], None], is_cancelled: Callable[[], bool]
    ) -> RunningSpark:
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                running, has_waited = self._awaited(ticket, launch, state, is_cancelled)
                self._users += 1
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        if has_waited:
            state("")
        return running

    def _awaited(
        self,
        ticket: object,
        launch: dict[str, str],
        state: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> tuple[RunningSpark, bool]:
        """The Spark with these settings, and whether the statement of the ticket has waited for it. Called with the lock held."""
        start: SparkStart | None = None
        has_waited = False
        while True:
            if is_cancelled() or self._is_closed:
                raise BatchCancelled
            if start is not None and start.failure is not None:
                raise start.failure
            if self._starting is None:
                running = self._usable(launch, is_first=self._waiting[0] is ticket)
                if running is not None:
                    return running, has_waited
            if not has_waited:
                state(STARTING)
                has_waited = True
            if self._starting is not None and self._starting.launch == launch:
                start = self._starting
            self._changed.wait(_LOOK_S)

    def _usable(self, launch: dict[str, str], is_first: bool) -> RunningSpark | None:
        """The Spark with these settings; else it begins to start when the statement is the first of those that wait. Called with
        the lock held, while none starts."""
        running = self._running
        if running is not None and running.launch == launch and running.is_alive:
            return running
        if not is_first:
            return None
        if running is not None and running.is_alive and self._users:
            differing = sorted(
                k for k in {*launch, *running.launch} if launch.get(k) != running.launch.get(k)
            )
            raise UserError(
                "SS4054",
                f'option "{differing[0]}" differs from that of a Spark statement that still runs in this process',
                hint="run the statement when the other one has ended: Spark is then started anew",
            )
        self._start(launch)
        return None

    def _start(self, launch: dict[str, str]) -> None:
        """Replace what runs, on a thread of its own. Called with the lock held."""
        before, self._running = self._running, None
        self._starting = start = SparkStart(launch)
        threading.Thread(target=self._replace, args=(before, start), name="start-spark", daemon=True).start()

    def _replace(self, before: RunningSpark | None, start: SparkStart) -> None:
        # What runs is given up only when its successor has a chance.
        running = before
        try:
            check_reachable(start.launch.get(MASTER, "local"))
            if before is not None:
                before.stop()
            running = None
            running = RunningSpark(start.launch, start)
        except BaseException as error:  # the thread's boundary: the statements that wait raise it
            start.failure = error
        with self._changed:
            if not self._is_closed:
                self._running, self._starting = running, None
                self._changed.notify_all()
                return
        if running is not None:
            running.stop()
        with self._changed:
            self._starting = None
            self._changed.notify_all()


@contextlib.contextmanager
def _socket_directory(directory: str) -> Iterator[str]:
    """Where this Spark and its workers meet on Unix sockets: below its directory, or below /tmp where the paths of sockets would
    be longer than systems take."""
    sockets = os.path.join(directory, "sockets")
    if len(os.fsencode(sockets)) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        with spill_directory("/tmp") as short:
            yield short
        return
    os.mkdir(sockets, 0o700)
    yield sockets


def _new_session(running: RunningSpark, given: Mapping[str, str]) -> SparkSession:
    session = running.session.newSession()
    for key, value in given.items():
        if is_launch_key(key) or key in SPARK_SQL_SETTINGS:
            continue
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif session.conf.get(key, None) != value:
            raise UserError(
                "SS4054",
                f'option "{key}" is in force from the start of Spark, which runs already',
                hint="give it before the first statement on Spark",
            )
    return session


def _refuse_second_context() -> None:
    """UserError SS4054 in a process whose own code uses Spark."""
    core = sys.modules.get("pyspark.core.context")
    if core is not None and core.SparkContext._active_spark_context is not None:
        raise UserError(
            "SS4054",
            "this process has a SparkContext of its own, and Spark allows one in each process",
            hint="run sqlstream in another process (sqlstream server)",
        )


def forget_context() -> None:
    """PySpark keeps the connection to its JVM in classes, and would give it to the next context."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def check_reachable(master: str) -> None:
    """ExternalError SS5112 unless one of the masters of a standalone cluster accepts a connection."""
    if not master.startswith("spark://"):
        return
    problems = []
    for host, port in standalone_masters(master):
        try:
            with socket.create_connection((host, port), CONNECT_TIMEOUT_S):
                return
        except OSError as error:
            problems.append(f"{host}:{port}: {(error.strerror or str(error)).lower()}")
    raise ExternalError(
        "SS5112",
        f'could not reach the Spark master "{master}": {"; ".join(problems)}',
        hint=f"start the cluster, or SET '{MASTER}' to where it is",
    )
