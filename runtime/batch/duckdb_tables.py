"""The tables of a batch plan as relations of a DuckDB database: views of what DuckDB reads by itself, and our readers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchPlan, BatchTable
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.side_by_side import Reading, read_side_by_side
from sqlstream.runtime.batch.tables import (
    Share,
    batch_relation,
    connector_context,
    described_relation,
    read_table,
)
from sqlstream.runtime.connectors.duckdb.database import SharedConnection
from sqlstream.spi.batch_relation import BatchRelation, DuckDbRelation, ThroughReader

if TYPE_CHECKING:
    import duckdb

THREADS = "execution.batch.duckdb-threads"
READERS_MAX = 16
"""Readers of one table; each has a decoded block of a file in memory."""

_OF_READING = ("IO Error", "Invalid Error", "Serialization Error")
"""How DuckDB's errors begin that come of files, or of anything."""


class DuckDbTables:
    """Tables of one run. State: the relations of tables that DuckDB reads by itself, the readers of the others, and what a reader
    has raised, which DuckDB does not hand on as it is."""

    def __init__(self, plan: BatchPlan, run: BatchRun) -> None:
        self._plan = plan
        self._run = run
        self._iterators: list[Iterator[pa.RecordBatch]] = []
        self._native: dict[str, DuckDbRelation] = {}
        self._ends = contextlib.ExitStack()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self.error: BaseException | None = None

    def make(self, shared: SharedConnection) -> None:
        """Make the relations, and shut the database off from all else. BatchCancelled."""
        connection, is_cancelled = shared.connection, self._run.is_cancelled
        self._connection = connection
        for table in self._plan.tables:
            relation = usable_relation(
                table, shared, self._plan.config, self._run.files, is_cancelled, self._ends
            )
            if isinstance(relation, DuckDbRelation):
                self._native[table.name] = relation
            else:
                connection.register(_reader_name(table), self._reader(table))
        lock_down(connection, [path for relation in self._native.values() for path in relation.paths])
        for table in self._plan.tables:
            if table.is_shared and table.name not in self._native:
                # A reader gives its rows once.
                connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM {_reader_name(table)}")

    def finish(self) -> None:
        """All rows have been read. ExternalError when a file that DuckDB has read is not the one that was looked at."""
        for name, relation in self._native.items():
            try:
                relation.require_unchanged()
            except BaseException:
                self._run.blame(name)
                raise
            self._run.count(name, "numRecordsOut", relation.row_count)
            self._run.count(name, "numBytesIn", relation.byte_count)

    def read_again(self) -> BaseException | None:
        """What our readers raise for the tables that DuckDB has read by itself; None when they raise nothing."""
        for table in self._plan.tables:
            if table.name not in self._native:
                continue
            try:
                for _ in self._rows(table, lambda metric, n: None):
                    pass
            except Exception as error:
                return error
        return None

    def may_be_of_files(self, error: Exception, text: str) -> bool:
        """Whether a failure of DuckDB may come of what is in the files that it has read by itself."""
        import duckdb

        # What is raised while rows stream comes through Arrow, as an OSError with DuckDB's text.
        is_of_reading = type(error) is duckdb.Error or text.startswith(_OF_READING)
        words = ["arquet", *(path for relation in self._native.values() for path in relation.paths)]
        return bool(self._native) and (is_of_reading or any(word in text for word in words))

    def close(self) -> None:
        for rows in self._iterators:
            with suppress(ValueError):
                # A reader that DuckDB still runs closes itself when it sees the cancellation.
                rows.close()  # type: ignore[attr-defined]
        self._drop()
        self._ends.close()

    def _drop(self) -> None:
        """Empty the database: whoever reads a file that is attached to it keeps it for longer than the run."""
        import duckdb

        connection = self._connection
        if connection is None:
            return
        for table in self._plan.tables:
            with suppress(duckdb.Error):
                if table.name in self._native:
                    connection.execute(f"DROP VIEW {table.name}")
                else:
                    connection.unregister(_reader_name(table))
            if table.is_shared and table.name not in self._native:
                # A cancellation interrupts the connection of the run and no other.
                with suppress(duckdb.Error), contextlib.closing(connection.cursor()) as cursor:
                    cursor.execute(f"DROP TABLE IF EXISTS {table.name}")

    def _reader(self, table: BatchTable) -> pa.RecordBatchReader:
        """The rows of a table, read when DuckDB asks for them."""

        def count(metric: str, n: int) -> None:
            self._run.count(table.name, metric, n)

        rows = self._rows(table, count)
        self._iterators.append(rows)
        return pa.RecordBatchReader.from_batches(to_arrow_schema(table.schema), rows)

    def _rows(self, table: BatchTable, count: Callable[[str, int], None]) -> Iterator[pa.RecordBatch]:
        readers = 1 if table.has_changes else min(threads(self._plan.config), READERS_MAX)
        try:
            yield from read_side_by_side([self._reading(table, n, readers, count) for n in range(readers)])
        except GeneratorExit:
            raise
        except BaseException as error:
            if self.error is None:
                self.error = error
                if not isinstance(error, BatchCancelled):
                    self._run.blame(table.name)
            raise

    def _reading(
        self, table: BatchTable, subtask: int, parallelism: int, count: Callable[[str, int], None]
    ) -> Reading:
        """The share of one reader."""
        attempt = f"{self._run.attempt}-{table.name}"
        context = connector_context(
            Share(self._plan.job_id, attempt, subtask, parallelism, self._plan.config),
            self._run.files,
            count,
            self._run.print_lines,
        )

        def read(is_stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
            return read_table(table, context, lambda: is_stopped() or self._run.is_cancelled())

        return read


def explained_tables(
    plan: BatchPlan, shared: SharedConnection, files: Any, ends: contextlib.ExitStack
) -> list[str]:
    """Make relations of a plan that is not run, whose readers give no rows; how each table is read."""
    lines: list[str] = []
    paths: list[str] = []
    for table in plan.tables:
        relation = usable_relation(table, shared, plan.config, files, lambda: False, ends)
        lines.append(described_relation(table, relation))
        if isinstance(relation, DuckDbRelation):
            paths += relation.paths
        else:
            shared.connection.register(table.name, to_arrow_schema(table.schema).empty_table())
    lock_down(shared.connection, paths)
    return lines


def usable_relation(
    table: BatchTable,
    shared: SharedConnection,
    config: Mapping[str, str],
    files: Any,
    is_cancelled: Callable[[], bool],
    ends: contextlib.ExitStack,
) -> BatchRelation:
    """How DuckDB reads the table; the view is made when it does so by itself, and `ends` gives back what it needs."""
    relation = batch_relation(table, "duckdb", config, files, is_cancelled)
    if not isinstance(relation, DuckDbRelation):
        return relation
    try:
        with contextlib.ExitStack() as entered:
            entered.enter_context(relation.attach(shared))
            _require_types(table, relation, shared.connection)
            shared.connection.execute(f"CREATE TEMP VIEW {table.name} AS {relation.query}")
            ends.push(entered.pop_all())
    except Exception as error:  # of any kind: the reader says what is wrong
        return ThroughReader(str(error).strip().partition("\n")[0])
    return relation


def _require_types(
    table: BatchTable, relation: DuckDbRelation, connection: duckdb.DuckDBPyConnection
) -> None:
    """ValueError unless DuckDB has the types for the columns that it would have for those of our reader."""
    if not table.schema.fields:
        return
    empty = to_arrow_schema(table.schema).empty_table()
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.register("wanted", empty)
        wanted, found = (
            [row[:2] for row in cursor.execute(f"DESCRIBE {query}").fetchall()]
            for query in ("SELECT * FROM wanted", relation.query)
        )
        cursor.unregister("wanted")
    for (name, expected), (_, t) in zip(wanted, found, strict=True):
        if t != expected:
            raise ValueError(f"DuckDB has type {t} for {name}, and not {expected}")


def _reader_name(table: BatchTable) -> str:
    """What the reader of a table is registered as."""
    return f"read_{table.name}" if table.is_shared else table.name


def threads(config: Mapping[str, str]) -> int:
    """How many threads DuckDB takes for one query."""
    count = int(options.get(config, THREADS))
    return count if count > 0 else len(os.sched_getaffinity(0))


def lock_down(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> None:
    """From here on the database reads what was registered, what was attached and these files, and no SQL can change that."""
    from sqlstream.runtime.connectors.sql_filters import text

    if paths:
        connection.execute(f"SET allowed_paths = [{', '.join(text(path) for path in paths)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
