"""Writes rows to a staging table of a Postgres database, where they wait for the commit."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, without_row_kinds
from sqlstream.errors import ExternalError, Retry, SqlStreamError
from sqlstream.runtime.connectors.jdbc.driver import Connecting, Connection, transaction
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.postgres import Postgres
from sqlstream.runtime.connectors.jdbc.postgres_types import can_write, sent_type, staging_type
from sqlstream.runtime.connectors.jdbc.publication import NUMBER_COLUMN, check_key
from sqlstream.runtime.connectors.jdbc.stored_table import StoredTable, check_columns
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.runtime.connectors.staged_rows import KIND_COLUMN, new_writer_id
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext

logger = logging.getLogger(__name__)

T = TypeVar("T")

STAGING = "sqlstream_staging_"
_WRITING = "sqlstream: rows of a job that is running"
_FINISHED = "sqlstream: complete, and waiting for its commit"
_BUFFER_ROWS_MAX = 1_000_000
"""Rows that wait at most, whatever the options say."""

_LEFTOVERS_MAX = 100
_LEFTOVER_DAYS = 30
_NUMBERS_PER_SUBTASK = 1 << 44
_WRITER = ", by writer ([0-9a-f]{32})"
"""What follows in the comment of a staging table, as a regular expression."""

_PRIVILEGES = """
SELECT has_schema_privilege({schema}, 'CREATE') AS "CREATE in the schema", {others}
"""
_LEFTOVERS = """
SELECT c.relname::text AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = {schema} AND c.relkind = 'r' AND NOT starts_with(c.relname, {own}) AND pg_has_role(c.relowner, 'USAGE')
  AND c.relname ~ '^{staging}[0-9a-f]{{32}}_[0-9a-f]{{12}}$' AND CASE
    WHEN obj_description(c.oid, 'pg_class') ~ {writing} THEN true
    WHEN obj_description(c.oid, 'pg_class') ~ {finished}
      THEN to_timestamp(substring(obj_description(c.oid, 'pg_class') FROM '[0-9]+$')::float8) < now() - INTERVAL '{days} days'
    ELSE false END
LIMIT {most}
"""
"""Only tables with both the name and the comment that a writer gives: any other belongs to somebody else."""


def staging_table(schema: str, name: str) -> str:
    return f"{quote(schema)}.{quote(name)}"


def staging_prefix(job_id: str) -> str:
    """What the names of the staging tables of all writers of a job begin with."""
    return f"{STAGING}{job_id}_"


def writer_of(comment: str) -> str | None:
    """The id of the writer of a staging table with this comment."""
    found = re.match(f"(?:{_WRITING}|{_FINISHED}){_WRITER}", comment)
    return found[1] if found else None


@dataclass
class _Staging:
    """A staging table, and how many rows are in it."""

    name: str
    rows: int = 0
    is_made: bool = False


def job_lock(job_id: str) -> int:
    """The key of Postgres's advisory lock that each connection of a job's writers holds."""
    return int.from_bytes(hashlib.sha256(job_id.encode()).digest()[:8], "big", signed=True)


class PostgresSinkWriter:
    """Sends the rows in their order, with their kinds, by COPY to tables of its own, one for each checkpoint. They have the types
    of the target's columns, so that what does not fit them is refused at once.

    A COPY that fails for a reason that may pass is tried again on a new connection, after the rows that it may have brought have
    been removed. State: the connection, the staging table and the rows that wait. While it lives it holds an advisory lock of its
    job: staging tables whose job holds none, and that are not complete, were left by a process that died, and the next writer
    removes them."""

    def __init__(self, spec: SinkSpec, options: JdbcOptions, context: ConnectorContext) -> None:
        self._spec = spec
        self._options = options
        self._context = context
        self._id = new_writer_id(context)
        # Named before it is made, so that one whose making failed half-way is made again or removed.
        self._staging: _Staging | None = self._next_staging()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_since_ms = 0
        self._next_number = context.subtask * _NUMBERS_PER_SUBTASK
        self._connecting = Connecting(options.database, context.files)
        context.on_cancel(self._connecting.cancel)
        self._target = self._tried(lambda _: self._opened(), "a connect failed")

    def _tried(self, action: Callable[[int], T], failed: str) -> T:
        return tried(action, self._options.sink_retries_max, failed, self._connecting.cancelled)

    def _next_staging(self) -> _Staging:
        return _Staging(f"{staging_prefix(self._context.job_id)}{uuid.uuid4().hex[:12]}")

    def _opened(self) -> StoredTable:
        try:
            return self._prepared(self._connected())
        except BaseException:
            self._connecting.close()
            raise

    def _prepared(self, connection: Connection) -> StoredTable:
        """The target, which can take the rows, with a staging table beside it."""
        target = Postgres().find_table(connection, self._options.table)
        fields = [(f.name, f.type) for f in self._spec.schema.fields]
        check_columns(target, self._spec.table, fields, can_write)
        check_key(target, self._spec)
        _check_privileges(connection, target, bool(self._spec.primary_key))
        _remove_leftovers(connection, target.schema, self._context.job_id)
        assert self._staging is not None
        self._make(self._staging, target, connection)
        return target

    def _make(self, made: _Staging, target: StoredTable, connection: Connection) -> None:
        columns = [f"{quote(n)} {staging_type(target.columns[n])}" for n in self._spec.schema.names]
        staging = staging_table(target.schema, made.name)
        # Together: without its comment the table would never be removed.
        with transaction(connection):
            connection.run(
                f"CREATE TABLE IF NOT EXISTS {staging}"
                f" ({', '.join(columns)}, {quote(KIND_COLUMN)} int2, {quote(NUMBER_COLUMN)} int8)"
            )
            connection.run(f"COMMENT ON TABLE {staging} IS {text(f'{_WRITING}, by writer {self._id}')}")
        made.is_made = True

    def _connected(self) -> Connection:
        """The connection, or one made anew, with the lock of the job."""
        connection = self._connecting.connection
        if connection is None:
            connection = self._connecting.connect()
            connection.rows(
                f"SELECT pg_advisory_lock_shared({job_lock(self._context.job_id)})::text AS locked"
            )
        return connection

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        now_ms = self._context.now_ms()
        if not self._waiting:
            self._waiting_since_ms = now_ms
        self._waiting.append(self._numbered(batch))
        self._waiting_rows += batch.num_rows
        most, interval_ms = self._options.flush_rows_max, self._options.flush_interval_ms
        is_full = self._waiting_rows >= (most or _BUFFER_ROWS_MAX) or self._waiting_rows >= _BUFFER_ROWS_MAX
        if is_full or (interval_ms and now_ms - self._waiting_since_ms >= interval_ms):
            self._flush()

    def _numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        data = without_row_kinds(batch)
        fields = self._spec.schema.fields
        columns = [
            column.cast(sent_type(self._target.columns[f.name], column.type))
            for column, f in zip(data.columns, fields, strict=True)
        ]
        numbers = np.arange(self._next_number, self._next_number + batch.num_rows)
        self._next_number += batch.num_rows
        kinds = pa.array(row_kinds(batch), pa.int16())
        names = [*self._spec.schema.names, KIND_COLUMN, NUMBER_COLUMN]
        return pa.RecordBatch.from_arrays([*columns, kinds, pa.array(numbers)], names=names)

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        staging = self._staging = self._staging or self._next_staging()
        self._tried(lambda attempt: self._sent(rows, staging, attempt > 0), "a write failed")
        staging.rows += rows.num_rows
        self._context.count("numBytesOut", rows.nbytes)
        self._waiting, self._waiting_rows = [], 0

    def _sent(self, rows: pa.Table, staging: _Staging, is_retry: bool) -> None:
        schema = self._target.schema
        try:
            connection = self._connected()
            if not staging.is_made:
                self._make(staging, self._target, connection)
            elif is_retry:
                table, first = staging_table(schema, staging.name), rows.column(NUMBER_COLUMN)[0]
                connection.run(f"DELETE FROM {table} WHERE {quote(NUMBER_COLUMN)} >= {first.as_py()}")
            connection.ingest(schema, staging.name, rows)
        except ExternalError:
            self._connecting.close()
            raise

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        self._flush()
        staging, committables = self._staging, []
        if staging is not None:
            self._tried(lambda _: self._finish(staging), "staged rows could not be completed")
            self._staging = None
            table = {"schema": self._target.schema, "table": staging.name, "rows": staging.rows}
            named = (self._context.job_id, checkpoint_id, self._id, self._context.subtask)
            committables = [Committable(*named, table)]
        if checkpoint_id == LAST_CHECKPOINT_ID:
            self._connecting.close()
        return committables

    def _finish(self, staging: _Staging) -> None:
        finished = f"{_FINISHED}, by writer {self._id}, since {self._context.now_ms() // 1000}"
        try:
            table = staging_table(self._target.schema, staging.name)
            self._connected().run(f"COMMENT ON TABLE {table} IS {text(finished)}")
        except ExternalError:
            self._connecting.close()
            raise

    def abort(self) -> None:
        staging = self._staging
        try:
            if staging is not None:
                self._connected().run(
                    f"DROP TABLE IF EXISTS {staging_table(self._target.schema, staging.name)}"
                )
        except SqlStreamError as error:
            # The JobManager removes it, or the next job that writes there.
            logger.warning("staged rows were left beside table %s: %s", self._target.name, error.message)
        finally:
            self._connecting.close()


def _check_privileges(connection: Connection, target: StoredTable, is_upsert: bool) -> None:
    """ExternalError SS5067 for one that the user lacks."""
    wanted = ["INSERT", *(("SELECT", "UPDATE") if is_upsert else ())]
    others = [f"has_any_column_privilege({text(target.item)}, '{p}') AS \"{p}\"" for p in wanted]
    if is_upsert:
        others.append(f"has_table_privilege({text(target.item)}, 'DELETE') AS \"DELETE\"")
    found = connection.rows(
        _PRIVILEGES.format(schema=text(target.schema), others=", ".join(others))
    ).to_pylist()[0]
    lacking = [privilege for privilege, has in found.items() if not has]
    if lacking:
        raise ExternalError(
            "SS5067",
            f"the user of the database may not write table {target.name}: it lacks {', '.join(lacking)}",
            hint=f'grant it on {target.item}; rows are staged in tables of schema "{target.schema}"',
        )


def _remove_leftovers(connection: Connection, schema: str, job_id: str) -> None:
    query = _LEFTOVERS.format(
        schema=text(schema),
        staging=STAGING,
        writing=text(f"^{_WRITING}{_WRITER}$"),
        finished=text(f"^{_FINISHED}{_WRITER}, since [0-9]{{1,12}}$"),
        own=text(staging_prefix(job_id)),
        days=_LEFTOVER_DAYS,
        most=_LEFTOVERS_MAX,
    )
    for name in connection.rows(query).column(0).to_pylist():
        lock = job_lock(name.removeprefix(STAGING).rpartition("_")[0])
        if connection.rows(f"SELECT pg_try_advisory_lock({lock}) AS is_free").column(0)[0].as_py():
            logger.warning("removing the staged rows of a job that died: table %s", name)
            connection.run(f"DROP TABLE IF EXISTS {staging_table(schema, name)}")
            connection.rows(f"SELECT pg_advisory_unlock({lock}) AS was_held")


# Tries again what a database could not do for a reason that may pass.


PAUSE_S = 0.2
"""Before the first retry; every further pause is twice as long, up to PAUSE_MAX_S."""
PAUSE_MAX_S = 5.0


def tried(
    action: Callable[[int], T], retries_max: int, failed: str, cancelled: threading.Event | None = None
) -> T:
    """What `action`, which gets the number of retries before it, returns. `failed` says in the log what is tried again. The
    ExternalError of the last try, or of one that cannot help. No try begins once another thread has set `cancelled`."""
    pause_s = PAUSE_S
    cancelled = cancelled or threading.Event()
    if cancelled.is_set():
        raise ExternalError(
            "SS5060", "nothing is asked of the database: the task is cancelled", hint="start the job again"
        )
    for attempt in range(retries_max + 1):
        try:
            return action(attempt)
        except ExternalError as error:
            if error.retry is Retry.NEVER or attempt == retries_max:
                raise
            logger.warning("%s and is tried again in %.1f s: %s", failed, pause_s, error.message)
            if cancelled.wait(pause_s):
                raise
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
    raise AssertionError("unreachable")
