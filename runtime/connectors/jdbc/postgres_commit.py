"""Brings the rows that a job has staged for a checkpoint into its Postgres table, in one transaction and once."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.jdbc.driver import Connection, connect, transaction
from sqlstream.runtime.connectors.jdbc.options import JdbcOptions
from sqlstream.runtime.connectors.jdbc.postgres import Postgres
from sqlstream.runtime.connectors.jdbc.postgres_sink import staging_prefix, staging_table, tried, writer_of
from sqlstream.runtime.connectors.jdbc.postgres_types import is_as_text
from sqlstream.runtime.connectors.jdbc.publication import publish
from sqlstream.runtime.connectors.jdbc.stored_table import StoredTable
from sqlstream.runtime.connectors.sql_filters import quote, text
from sqlstream.runtime.connectors.staged_rows import JOURNAL, JOURNAL_DAYS, CommitJournal, digits_of
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.files import Files

logger = logging.getLogger(__name__)

_LOCK_TIMEOUT = "30s"
"""How long a commit or an abort waits for another transaction that has locked the table."""
_WRITER_TIMEOUT = "2s"
"""How long a writer is waited for that has died, and whose connection may live: its rows are removed when the job ends, too."""

_STAGED = """
SELECT c.relname::text AS name, obj_description(c.oid, 'pg_class') AS comment
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = {schema} AND c.relkind = 'r' AND starts_with(c.relname, {prefix})
  AND substr(c.relname, length({prefix}) + 1) ~ '^[0-9a-f]{{12}}$'
"""


def commit_postgres(
    spec: SinkSpec, options: JdbcOptions, committables: list[Committable], files: Files
) -> None:
    """Make the rows of all writers visible, unless they are already. A failure that may pass is tried again: the journal tells
    whether a commit whose answer was lost took place. ExternalError SS5066 for rows that have vanished."""
    writers = in_order(committables)
    if not writers:
        return
    tried(lambda _: _commit(spec, options, writers, files), options.sink_retries_max, "a commit failed")


def abort_postgres(options: JdbcOptions, job_id: str, files: Files) -> None:
    """Remove the staged rows of all writers of a job."""
    connection = _connected(options, files)
    try:
        schema = Postgres().find_table(connection, options.table).schema
        query = _STAGED.format(schema=text(schema), prefix=text(staging_prefix(job_id)))
        names = connection.rows(query).column(0).to_pylist()
        files.require_owner()
        for name in names:
            connection.run(f"DROP TABLE IF EXISTS {staging_table(schema, name)}")
    except UserError:
        # There is no such table, so that nothing was staged beside it.
        return
    finally:
        connection.close()


def remove_staged_in_postgres(
    options: JdbcOptions, job_id: str, writer_names: Sequence[str], files: Files
) -> None:
    """Remove the staged rows of these writers of a job, but those that one of them still has locked."""
    writers = {digits_of(name) for name in writer_names}
    connection = _connected(options, files, _WRITER_TIMEOUT)
    try:
        schema = Postgres().find_table(connection, options.table).schema
        query = _STAGED.format(schema=text(schema), prefix=text(staging_prefix(job_id)))
        tables = connection.rows(query).to_pylist()
        files.require_owner()
        for table in tables:
            if writer_of(table["comment"] or "") in writers:
                _remove_unless_locked(connection, staging_table(schema, table["name"]))
    except UserError:
        # There is no such table any more: what stays beside it goes with the job.
        return
    finally:
        connection.close()


def _remove_unless_locked(connection: Connection, table: str) -> None:
    try:
        connection.run(f"DROP TABLE IF EXISTS {table}")
    except ExternalError as error:
        logger.warning("staged rows stay in table %s until their job ends: %s", table, error.message)


def _connected(options: JdbcOptions, files: Files, lock_timeout: str = _LOCK_TIMEOUT) -> Connection:
    connection = connect(options.database, files)
    try:
        connection.rows(f"SELECT set_config('lock_timeout', '{lock_timeout}', false) AS timeout")
    except BaseException:
        connection.close()
        raise
    return connection


def _commit(spec: SinkSpec, options: JdbcOptions, writers: Sequence[Committable], files: Files) -> None:
    schema = writers[0].content["schema"]
    journal = CommitJournal(
        f"{quote(schema)}.{JOURNAL}",
        "text",
        "timestamptz",
        "now()",
        f"now() - INTERVAL '{JOURNAL_DAYS} days'",
    )
    connection = _connected(options, files)
    try:
        with transaction(connection):
            # Two commits that both make the journal would hinder each other.
            lock = f"hashtextextended({text(journal.name)}, 0)"
            connection.rows(f"SELECT pg_advisory_xact_lock({lock})::text AS locked")
            journal.write_once(
                writers,
                connection.run,
                connection.texts,
                lambda missing: _write(
                    connection, spec, Postgres().find_table(connection, options.table), missing
                ),
            )
            for writer in writers:
                connection.run(f"DROP TABLE IF EXISTS {staging_table(schema, writer.content['table'])}")
    finally:
        connection.close()


def _write(
    connection: Connection, spec: SinkSpec, target: StoredTable, writers: Sequence[Committable]
) -> None:
    contents = [writer.content for writer in writers]
    staged = [staging_table(c["schema"], c["table"]) for c in contents]
    for content, table in zip(contents, staged, strict=True):
        found = (
            connection.rows(f"SELECT to_regclass({text(table)}) IS NOT NULL AS is_there").column(0)[0].as_py()
        )
        count = connection.rows(f"SELECT count(*) AS n FROM {table}").column(0)[0].as_py() if found else -1
        if count != content["rows"]:
            raise ExternalError(
                "SS5066",
                f"could not commit table {target.name}: rows in its staging table {table} have vanished",
                hint=f"run the statement again, and let nothing change tables {content['table'][:18]}… meanwhile",
            )

    def value(name: str) -> str:
        stored = target.columns[name]
        return f"{quote(name)}::{stored.type}" if is_as_text(stored) else quote(name)

    for statement in publish(target.item, spec, staged, value):
        connection.run(statement)
