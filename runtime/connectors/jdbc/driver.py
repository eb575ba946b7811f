"""Connections to databases by ADBC's drivers, and their errors in our words."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any

import pyarrow as pa

from sqlstream.errors import ExternalError, FailureReason, Retry, SqlStreamError, UserError
from sqlstream.runtime.connectors.jdbc.database import Database, DatabaseKind
from sqlstream.runtime.connectors.sql_tables import connection_value
from sqlstream.secrets import MASK
from sqlstream.spi.files import Files

_MODULES = {
    DatabaseKind.POSTGRES: "adbc_driver_postgresql",
    DatabaseKind.SQLITE: "adbc_driver_sqlite",
}
_BATCH_ROWS_OPTIONS = {DatabaseKind.SQLITE: "adbc.sqlite.query.batch_rows"}
_NO_FILE = "/nonexistent/sqlstream"
_SETTINGS = {
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0",
}
"""Of each Postgres session. The last two: a query that is repeated gives the rows of an unchanged table in the same order."""

_SECRET_LENGTH_MIN = 4
"""A shorter password is no secret, and turns up within other words."""

_BUSY_TIMEOUT_MS = 100
_SIDE_FILES = ("-wal", "-shm", "-journal")

_REFUSED_LOGIN = ("authentication failed", "pg_hba.conf", "no password supplied", "role ")
_GONE = (
    *("connection refused", "could not connect", "connection to server", "server closed", "terminating"),
    *("timeout", "could not translate host name", "no connection", "could not receive", "could not send"),
)
_PASSING_STATES = ("08", "53", "57P", "40", "55P03")


class Connection:
    """One connection. One thread uses it, and `cancel` may come from another. State: the connection, and the statement that
    runs."""

    def __init__(self, database: Database, raw: Any) -> None:
        self.database = database
        self._raw = raw
        self._lock = threading.Lock()
        self._cursor: Any = None

    def run(self, sql: str) -> None:
        """A statement without rows."""
        with self._statement() as cursor:
            cursor.execute(sql)

    def run_many(self, sql: str, parameters: pa.RecordBatchReader | pa.RecordBatch) -> None:
        """A statement once for each row of the parameters."""
        with self._statement() as cursor:
            cursor.executemany(sql, parameters)

    def rows(self, sql: str) -> pa.Table:
        with self._statement() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table()

    def texts(self, sql: str) -> list[str]:
        """The first column of the rows."""
        found: list[str] = self.rows(sql).column(0).to_pylist()
        return found

    def batches(self, sql: str, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows as they come, in batches of at most `batch_rows`. The query has begun when this returns, and ends with its
        last row or with the connection; no other statement can run meanwhile."""
        cursor = self._begun()
        try:
            with translated(self.database):
                option = _BATCH_ROWS_OPTIONS.get(self.database.kind)
                if option is not None:
                    cursor.adbc_statement.set_options(**{option: str(batch_rows)})
                cursor.execute(sql)
                reader = cursor.fetch_record_batch()
                # SQLite takes its lock for the first row.
                first = next(iter(reader), None)
        except BaseException:
            self._end()
            raise
        return self._streamed(first, reader, batch_rows)

    def _streamed(
        self, batch: pa.RecordBatch | None, reader: Any, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        while batch is not None:
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)
            with translated(self.database):
                batch = next(iter(reader), None)
        self._end()

    def ingest(self, schema: str, table: str, rows: pa.Table) -> None:
        """Append the rows to a table of Postgres by COPY, all or none."""
        with self._statement() as cursor:
            cursor.adbc_ingest(table, rows, mode="append", db_schema_name=schema)

    def cancel(self) -> None:
        """End the statement that another thread waits for; nothing without one. SQLite's driver ends none within a batch."""
        with self._lock:
            if self._cursor is not None:
                with contextlib.suppress(_adbc_error()):
                    self._cursor.adbc_cancel()

    def close(self) -> None:
        """Nothing for a connection that is closed. A transaction that was not committed is undone."""
        raw, self._raw = self._raw, None
        if raw is not None:
            self._end()
            with contextlib.suppress(_adbc_error()):
                raw.close()

    @contextlib.contextmanager
    def _statement(self) -> Iterator[Any]:
        cursor = self._begun()
        try:
            with translated(self.database):
                yield cursor
        finally:
            self._end()

    def _begun(self) -> Any:
        with translated(self.database):
            cursor = self._raw.cursor()
        with self._lock:
            self._cursor = cursor
        return cursor

    def _end(self) -> None:
        with self._lock:
            cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with contextlib.suppress(_adbc_error()):
                cursor.close()


@contextlib.contextmanager
def transaction(connection: Connection, begin: str = "BEGIN") -> Iterator[None]:
    """Commits at the end; an error within undoes all."""
    connection.run(begin)
    try:
        yield
    except BaseException:
        # What failed may have ended the transaction, or the connection.
        with contextlib.suppress(SqlStreamError):
            connection.run("ROLLBACK")
        raise
    connection.run("COMMIT")


def connect(database: Database, files: Files, *, is_read_only: bool = True) -> Connection:
    """Errors: UserError SS5063 without the driver, SS5030 and SS5031 where `files` does not allow the place; ExternalError SS5060
    and SS5061, with `retry` where trying again can help."""
    if database.is_server:
        files.require_database_servers()
        return _postgres(database)
    return _sqlite(database, files, is_read_only)


def _postgres(database: Database) -> Connection:
    # Nothing of the surroundings of this process logs in: no variable PGPASSWORD, no ~/.pgpass, no certificate, no ticket.
    keywords = {"password": "", "passfile": _NO_FILE, "sslcert": _NO_FILE, "gssencmode": "disable"}
    keywords["client_encoding"] = "UTF8"
    if "connect_timeout=" not in database.address:
        keywords["connect_timeout"] = str(database.connect_timeout_s)
    if "application_name=" not in database.address:
        keywords["application_name"] = "sqlstream"
    if database.username:
        keywords["user"], keywords["password"] = database.username, database.password
    address = " ".join(
        [database.address, *(f"{key}={connection_value(value)}" for key, value in keywords.items())]
    )
    connection = _opened(database, address)
    try:
        calls = [f"set_config('{key}', '{value}', false)" for key, value in _SETTINGS.items()]
        connection.rows(f"SELECT {', '.join(calls)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _sqlite(database: Database, files: Files, is_read_only: bool) -> Connection:
    if files.status(database.address) is None:
        raise ExternalError(
            "SS5060",
            f'there is no file "{database.address}"',
            hint="check the option 'url'; a relative path starts where sqlstream was started",
        )
    real = os.path.realpath(database.address)
    # What is checked is what is opened: the link that led to it may lead elsewhere since it was checked.
    for path in (real, *(real + ending for ending in _SIDE_FILES)):
        files.status(path)
    mode = "ro" if is_read_only else "rw"
    connection = _opened(database, f"file:{urllib.parse.quote(real)}?mode={mode}")
    try:
        files.status(real)
        connection.rows(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        connection.run("PRAGMA trusted_schema = OFF")
        connection.run("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(database: Database, address: str) -> Connection:
    driver = _driver(database.kind)
    with translated(database):
        return Connection(database, driver.connect(address, autocommit=True))


def _driver(kind: DatabaseKind) -> Any:
    module = _MODULES[kind]
    try:
        return importlib.import_module(f"{module}.dbapi")
    except ImportError:
        raise UserError(
            "SS5063",
            f"the driver of {kind.title} is not installed",
            detail=f"there is no Python module {module}",
            hint="install it: pip install 'sqlstream[jdbc]'",
        ) from None


def _adbc_error() -> type[Exception]:
    import adbc_driver_manager

    return adbc_driver_manager.Error


@contextlib.contextmanager
def translated(database: Database) -> Iterator[None]:
    """The driver's errors as ours; what fails while rows come is an OSError of Arrow."""
    try:
        yield
    except SqlStreamError:
        raise
    except (_adbc_error(), OSError, pa.ArrowException) as error:
        # Not `from error`: its text may hold the password.
        raise external_error(database, str(error), getattr(error, "sqlstate", None) or "") from None


def external_error(database: Database, words: str, state: str = "") -> SqlStreamError:
    """The driver's error in our words; `state` is the SQLSTATE, which errors of a login do not have."""
    reason = _reason(database, words)
    folded = reason.lower()
    where = f'"{database.url}"'
    if database.kind is DatabaseKind.SQLITE and (
        "database is locked" in folded or "table is locked" in folded or "busy" in folded
    ):
        return ExternalError(
            "SS5061",
            f"the database {where} is locked by another process that writes it",
            detail=reason,
            hint="end the transaction there",
        )
    if state.startswith("28") or any(w in folded for w in _REFUSED_LOGIN if not state):
        return ExternalError(
            "SS5060",
            f"the database {where} refuses the login",
            reason=FailureReason.ACCESS_REFUSED,
            detail=reason,
            hint="check the options 'username' and 'password'",
        )
    if state == "42501" or "readonly database" in folded:
        return ExternalError(
            "SS5067",
            f"the database {where} does not permit this",
            detail=reason,
            hint="grant the user of the table's options the privilege, or write permission on the file",
        )
    if state[:2] in ("22", "23") or "constraint failed" in folded:
        return UserError("SS5068", f"the database {where} refuses a value", detail=reason)
    is_passing = (
        state.startswith(_PASSING_STATES)
        if state
        else ("does not exist" not in folded and any(w in folded for w in _GONE))
    )
    if is_passing:
        return ExternalError(
            "SS5060",
            f"could not reach the database {where}",
            retry=Retry.BACKOFF,
            detail=reason,
            hint="check that it is up, and the host and port of the option 'url'",
        )
    return ExternalError(
        "SS5060",
        f"the database {where} failed",
        detail=reason,
        hint="check the options 'url' and 'table-name'",
    )


def _reason(database: Database, words: str) -> str:
    """The line that says what went wrong, without the driver's words around it and without the password."""
    for mark in ("FATAL:  ", "ERROR:  "):
        words = words.rpartition(mark)[2] if mark in words else words
    reason = words.strip().split("\n", 1)[0]
    for prefix in ("IO: ", "[libpq] ", "Failed to connect: ", "[SQLite] "):
        reason = reason.removeprefix(prefix)
    if len(database.password) >= _SECRET_LENGTH_MIN:
        for secret in (database.password, connection_value(database.password)[1:-1]):
            reason = reason.replace(secret, MASK)
    return reason


# The connection of a task, which can be cancelled, also while the database does not answer.


class Connecting:
    """The connection of one reader, writer or lookup, made anew by `connect` after each `close`. `cancel` may come from another
    thread: it ends what the database is doing, a `connect` at once, and all later ones.

    The driver cannot be interrupted while it connects, so that it connects to a server on a thread of its own. A thread that
    nobody waits for ends with the server's answer or the timeout of the connect, and closes what it got.

    State: the connection, whether it is cancelled, and the connect under way."""

    def __init__(self, database: Database, files: Files) -> None:
        self._database = database
        self._files = files
        self.connection: Connection | None = None
        self._pending: Future[Connection] | None = None
        self.cancelled = threading.Event()

    def connect(self) -> Connection:
        """The errors of `driver.connect`; ExternalError SS5060 when the task is cancelled."""
        pending: Future[Connection] = Future()
        # In this order: `cancel` sets the event before it looks for a connect.
        self._pending = pending
        if self.cancelled.is_set():
            raise self._cancelled()
        if self._database.is_server:
            threading.Thread(target=self._answer, args=(pending,), name="jdbc-connect", daemon=True).start()
            self.connection = pending.result()
        else:
            self.connection = connect(self._database, self._files)
        return self.connection

    def cancel(self) -> None:
        self.cancelled.set()
        if self._pending is not None:
            with contextlib.suppress(InvalidStateError):
                self._pending.set_exception(self._cancelled())
        if (connection := self.connection) is not None:
            connection.cancel()

    def close(self) -> None:
        """Harmless when repeated."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _answer(self, pending: Future[Connection]) -> None:
        try:
            connection = connect(self._database, self._files)
        except Exception as error:  # the thread's boundary: raised by `connect`, unless it was cancelled
            with contextlib.suppress(InvalidStateError):
                pending.set_exception(error)
            return
        try:
            pending.set_result(connection)
        except InvalidStateError:
            connection.close()

    def _cancelled(self) -> ExternalError:
        return ExternalError(
            "SS5060",
            f'could not reach the database "{self._database.url}": the task is cancelled',
            hint="start the job again",
        )
