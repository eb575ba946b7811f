"""Sessions at Spark Connect servers: made when a statement needs one, and kept for the next ones."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import socket
import tempfile
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE, write_code_archive
from sqlstream.runtime.batch.spark.connect.address import LAUNCH_KEYS, ConnectAddress
from sqlstream.runtime.batch.spark.connect.errors import LOST, described_at
from sqlstream.runtime.batch.spark.packages import require_packages
from sqlstream.runtime.batch.spark.quiet_pyspark import quiet_pyspark
from sqlstream.runtime.batch.spark.settings import is_of_this_machine
from sqlstream.runtime.batch.spark.threaded_call import ThreadedCall
from sqlstream.runtime.host.clock import steady_s
from sqlstream.spark import MASTER, SPARK_SQL_SETTINGS, is_of_meaning

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession


logger = logging.getLogger(__name__)

CONNECTING = "connecting to Spark"

IDLE_MAX = 4
"""Sessions without a statement that are kept for each server. Each has Python workers of its own there."""

IDLE_S = 1200.0
"""For how long. The server itself forgets a session after an hour."""

_CLOSE_TIMEOUT_S = 6.0
"""How long the end of the process waits for servers that are slow to forget a session: gRPC's threads should have ended."""

_LOOK_S = 0.05

_DEFAULTS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
}
"""As in a Spark that sqlstream starts itself (sqlstream.runtime.batch.spark.settings)."""

_SPLITS = re.compile(r"Range \(.*splits=(\d+)\)")

Result = TypeVar("Result")


class ConnectSession:
    """A session at a server, for one statement at a time, with our code among its artifacts.

    State: the connection; the settings that the session has without those of a statement; whether it can be used again."""

    def __init__(self, address: ConnectAddress) -> None:
        """SqlStreamError when there is no session to be had."""
        self.address = address
        self.is_broken = False
        self.idle_since_s = 0.0
        check_reachable(address)
        self.spark: SparkSession = open_session(address)
        try:
            _check_version(address, self.spark.version)
            settings = dict(self.spark.conf.getAll)
            self.is_of_this_machine = address.is_loopback and is_of_this_machine(settings.get(MASTER, ""))
            for key in settings:
                if is_of_meaning(key) and self.spark.conf.isModifiable(key):
                    # The server's owner has set what would change what our SQL means.
                    self.spark.conf.unset(key)
            self.spark.conf._set_all({**_DEFAULTS, **SPARK_SQL_SETTINGS}, silent=True)
            self.settings_of_server: dict[str, str] = settings
            self._settings = {**settings, **_DEFAULTS}
            _add_our_code(self.spark)
        except BaseException as error:
            self.close()
            if isinstance(error, Exception):
                raise described_at(address, error) from error
            raise

    def answers(self) -> bool:
        """Whether the server still has it."""
        try:
            # The connection would try again for a while.
            check_reachable(self.address)
            return bool(self.spark.conf.get("spark.sql.session.timeZone"))
        except Exception:  # whatever PySpark raises for a session that is gone
            return False

    def default_parallelism(self) -> int:
        """As many tasks as Spark runs at once: its plan of a range says so, and nothing else that a client may ask for."""
        client = self.spark.client
        plan = client.explain_string(self.spark.range(1)._plan.to_proto(client), "simple")
        found = _SPLITS.search(plan)
        return int(found[1]) if found else 1

    @contextlib.contextmanager
    def settings(self, given: Mapping[str, str]) -> Iterator[None]:
        """Have these settings while entered. UserError SS4058 for one that cannot be set in a session."""
        conf = self.spark.conf
        own = {k: v for k, v in given.items() if k not in LAUNCH_KEYS and k not in SPARK_SQL_SETTINGS}
        for key in own:
            if not conf.isModifiable(key):
                raise UserError(
                    "SS4058",
                    f'option "{key}" belongs to the Spark Connect server, and is in force from its start',
                    hint=f"RESET '{key}', and give it where the server is started",
                )
        try:
            for key, value in own.items():
                conf.set(key, value)
            yield
        finally:
            if not self.is_broken:
                self._restore(list(own))

    def _restore(self, keys: list[str]) -> None:
        try:
            for key in keys:
                if key in self._settings:
                    self.spark.conf.set(key, self._settings[key])
                else:
                    self.spark.conf.unset(key)
        except Exception:  # whatever PySpark raises for a session that is gone
            self.is_broken = True

    def close(self) -> None:
        """Let the server forget it, with all that it runs. Harmless when repeated."""
        self.is_broken = True
        with contextlib.suppress(Exception):  # a server that is gone has forgotten it
            check_reachable(self.address)
            self.spark.client.release_session()
        with contextlib.suppress(Exception):
            self.spark.client.close()


class ConnectSessions:
    """Gives each statement a session of its own. Thread-safe.

    State: up to IDLE_MAX sessions for each server that no statement uses, for at most IDLE_S, and those that are being closed.
    `close` ends both."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: defaultdict[ConnectAddress, list[ConnectSession]] = defaultdict(list)
        self._closing: set[ThreadedCall[None]] = set()
        self._is_closed = False

    @contextlib.contextmanager
    def session(
        self,
        address: ConnectAddress,
        given: Mapping[str, str],
        state: Callable[[str], None],
        is_cancelled: Callable[[], bool],
    ) -> Iterator[ConnectSession]:
        """A session with the `spark.*` keys that are given. SqlStreamError when there is none to be had, BatchCancelled."""
        session = self._acquired(address, state, is_cancelled)
        try:
            with session.settings(given):
                yield session
        except BatchCancelled:
            raise
        except Exception as error:
            cause = described_at(address, error)
            if cause.code == LOST:
                session.is_broken = True
            if cause is error:
                raise
            raise cause from error
        finally:
            self._give_back(session)

    def close(self) -> None:
        """Let servers forget the sessions that nothing uses; those in use follow when their statements end. A server that does
        not answer is not waited for."""
        with self._lock:
            self._is_closed = True
            left = [session for sessions in self._idle.values() for session in sessions]
            self._idle.clear()
        self._drop(left)
        deadline_s = steady_s() + _CLOSE_TIMEOUT_S
        for call in list(self._closing):
            call.wait(max(0.0, deadline_s - steady_s()))

    def _acquired(
        self, address: ConnectAddress, state: Callable[[str], None], is_cancelled: Callable[[], bool]
    ) -> ConnectSession:
        while (session := self._taken(address)) is not None:
            if _awaited(session.answers, is_cancelled, lambda _: session.close()):
                return session
            self._drop([session])
        state(CONNECTING)
        started_s = steady_s()
        made = _awaited(lambda: ConnectSession(address), is_cancelled, ConnectSession.close)
        logger.info("session at %s after %.1f s", address, steady_s() - started_s)
        state("")
        return made

    def _taken(self, address: ConnectAddress) -> ConnectSession | None:
        """One that is idle, and not for too long."""
        now_s = steady_s()
        with self._lock:
            if self._is_closed:
                raise BatchCancelled
            idle = self._idle[address]
            stale = [session for session in idle if now_s - session.idle_since_s > IDLE_S]
            idle[:] = [session for session in idle if session not in stale]
            taken = idle.pop() if idle else None
        self._drop(stale)
        return taken

    def _give_back(self, session: ConnectSession) -> None:
        session.idle_since_s = steady_s()
        with self._lock:
            idle = self._idle[session.address]
            is_kept = not session.is_broken and not self._is_closed and len(idle) < IDLE_MAX
            if is_kept:
                idle.append(session)
        if not is_kept:
            self._drop([session])

    def _drop(self, sessions: list[ConnectSession]) -> None:
        """Close them side by side; returns at once."""
        calls = {ThreadedCall(session.close, "spark-disconnect") for session in sessions}
        with self._lock:
            self._closing = {call for call in self._closing if not call.wait(0)} | calls


def _awaited(
    function: Callable[[], Result], is_cancelled: Callable[[], bool], drop: Callable[[Result], object]
) -> Result:
    """What the function returns, which may wait for a server. BatchCancelled; a result that comes later is dropped."""
    is_given_up = threading.Event()

    def called() -> Result:
        result = function()
        if is_given_up.is_set():
            drop(result)
        return result

    call = ThreadedCall(called, "spark-connect")
    while not call.wait(_LOOK_S):
        if is_cancelled():
            is_given_up.set()
            raise BatchCancelled
    result = call.result()
    assert result is not None
    return result


def _check_version(address: ConnectAddress, version: str) -> None:
    """ExternalError SS5119 for a Spark in which functions may give other results."""
    from pyspark import __version__

    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ExternalError(
            "SS5119",
            f'the Spark Connect server "{address}" has Spark {version}, and sqlstream writes SQL for Spark {__version__}',
        )


def _add_our_code(spark: SparkSession) -> None:
    """Ship our packages to the workers: they run the code of this process, whatever version is installed there."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, f"{ARCHIVE}.zip")
        write_code_archive(path)
        spark.addArtifacts(f"{path}#{ARCHIVE}", archive=True)


# Connections to Spark Connect servers, by PySpark's client: how long it tries, and how long it waits.


CONNECT_TIMEOUT_S = 5.0
"""How long a server may take to accept a connection."""

CALL_TIMEOUT_S = 30.0
"""How long it may take to answer a call that computes nothing."""

PLAN_TIMEOUT_S = 600.0
"""How long it may take to plan a statement, or to take our code."""

_RETRIES = {
    "max_retries": 7,
    "initial_backoff": 100,
    "backoff_multiplier": 2.0,
    "max_backoff": 2000,
    "jitter": 100,
}
"""A server that is gone is given up after 8 s. PySpark itself would try for ten minutes."""

_CHANNEL = [("grpc.max_reconnect_backoff_ms", 1000), ("grpc.initial_reconnect_backoff_ms", 100)]


def check_reachable(address: ConnectAddress) -> None:
    """ExternalError SS5112 unless something accepts a connection there."""
    try:
        with socket.create_connection((address.host, address.port), CONNECT_TIMEOUT_S):
            return
    except OSError as error:
        raise ExternalError(
            "SS5112",
            f'could not reach the Spark Connect server "{address}": {(error.strerror or str(error)).lower()}',
            hint="start it, or SET 'spark.remote' to where it is",
        ) from error


def open_session(address: ConnectAddress) -> SparkSession:
    """A session of its own at the server, which learns of it with the first call. ExternalError SS5115 for missing packages."""
    require_packages(is_connect=True)
    # What its C library says of a lost connection is an error of ours, and would go to the terminal.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    quiet_pyspark()
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")
    # Of one that the SQL needs as it is.
    warnings.filterwarnings(
        "ignore", "The SQL config 'spark.sql.parser.escapedStringLiterals' has been deprecated"
    )
    from pyspark.sql.connect.client.core import RpcDeadlines, SparkConnectClient
    from pyspark.sql.connect.session import SparkSession

    client = SparkConnectClient(
        _channel_builder(address),
        retry_policy=_RETRIES,
        rpc_deadlines=RpcDeadlines(
            analyze_plan=PLAN_TIMEOUT_S,
            add_artifacts=PLAN_TIMEOUT_S,
            config=CALL_TIMEOUT_S,
            interrupt=CALL_TIMEOUT_S,
            release_session=CONNECT_TIMEOUT_S,
            artifact_status=CALL_TIMEOUT_S,
            fetch_error_details=CALL_TIMEOUT_S,
        ),
    )
    # It would ask the server to clean up when the process ends, and be kept for that until then.
    atexit.unregister(client._on_exit)
    # As SparkSession.newSession does: its constructor takes no deadlines.
    session: SparkSession = object.__new__(SparkSession)
    session._client = client
    session._session_id = client._session_id
    session.release_session_on_close = True
    return session


def _channel_builder(address: ConnectAddress) -> Any:
    """PySpark's, but that a token goes over an unencrypted connection to this machine by any of its names."""
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    class ChannelBuilder(DefaultChannelBuilder):  # type: ignore[misc]  # PySpark is Any to the type checker
        def toChannel(self) -> Any:  # noqa: N802 (PySpark's name)
            if not address.is_encrypted and not address.token:
                return self._insecure_channel(self.endpoint)
            encryption = (
                grpc.ssl_channel_credentials() if address.is_encrypted else grpc.local_channel_credentials()
            )
            if not address.token:
                return self._secure_channel(self.endpoint, encryption)
            token = grpc.access_token_call_credentials(address.token)
            return self._secure_channel(self.endpoint, grpc.composite_channel_credentials(encryption, token))

    builder = ChannelBuilder(f"sc://{address.place}", list(_CHANNEL))
    builder.set("user_agent", "sqlstream")
    for name, value in address.parameters:
        builder.set(name, value)
    return builder
