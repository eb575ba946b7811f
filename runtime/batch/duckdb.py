"""Batch queries in DuckDB, in this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.batch.data_errors import data_error
from runtime.batch.engine import BatchCancelled, BatchRun
from runtime.batch.side_by_side import Reading, read_side_by_side
from runtime.batch.tables import Share, connector_context, read_table
from runtime.host.spill_directory import spill_directory
from sqlstream import config as options
from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchPlan, BatchTable
from sqlstream.errors import ExternalError, FailureReason, JobError, SqlStreamError

if TYPE_CHECKING:
    import duckdb

ENGINE = "execution.batch.engine"
MEMORY_MAX = "execution.batch.duckdb-memory-max"
THREADS = "execution.batch.duckdb-threads"
DATA_HINT = "guard the expression against such rows, or run it as a stream: SET 'execution.runtime-mode' = 'STREAMING'"
BATCH_ROWS = 65_536
READERS_MAX = 16
"""Readers of one table; each has a decoded block of a file in memory."""


class DuckDbEngine:
    """Runs each plan in a database of its own in memory, which may spill to a directory of its own. Implements `BatchEngine`.

    A database reads the tables of its plan, which our readers fill, and nothing else: no file, no extension, no network. State:
    the connections of the runs that are under way, by job."""

    name = "duckdb"

    def __init__(self) -> None:
        self._connections: dict[str, set[duckdb.DuckDBPyConnection]] = {}
        self._lock = threading.Lock()

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        with self._connection(plan) as connection:
            tables = _Tables(plan, run)
            try:
                for table in plan.tables:
                    connection.register(_relation(table), tables.reader(table))
                _lock_down(connection)
                for table in plan.tables:
                    if table.is_shared:
                        # A reader gives its rows once.
                        connection.execute(f"CREATE TABLE {table.name} AS SELECT * FROM {_relation(table)}")
                for number, output in enumerate(plan.outputs):
                    with connection.sql(output.sql).to_arrow_reader(BATCH_ROWS) as rows:
                        for batch in rows:
                            run.emit(number, batch)
            except Exception as error:
                raise self._described(error, tables, run) from error
            finally:
                tables.close()

    def cancel(self, job_id: str) -> None:
        with self._lock:
            connections = tuple(self._connections.get(job_id, ()))
        import duckdb

        for connection in connections:
            with suppress(duckdb.Error):
                connection.interrupt()

    def explain(self, plan: BatchPlan) -> str:
        with self._connection(plan) as connection:
            for table in plan.tables:
                connection.register(table.name, to_arrow_schema(table.schema).empty_table())
            _lock_down(connection)
            texts = [
                str(row[1]).rstrip()
                for output in plan.outputs
                for row in connection.execute(f"EXPLAIN {output.sql}").fetchall()
            ]
        return "\n".join(texts)

    def close(self) -> None:
        with self._lock:
            jobs = tuple(self._connections)
        for job_id in jobs:
            self.cancel(job_id)

    @contextmanager
    def _connection(self, plan: BatchPlan) -> Iterator[duckdb.DuckDBPyConnection]:
        import duckdb

        with spill_directory() as directory:
            connection = duckdb.connect(":memory:", config=database_config(plan.config, directory))
            with self._lock:
                self._connections.setdefault(plan.job_id, set()).add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._connections[plan.job_id].discard(connection)
                    if not self._connections[plan.job_id]:
                        del self._connections[plan.job_id]
                connection.close()

    def _described(self, error: Exception, tables: _Tables, run: BatchRun) -> BaseException:
        """The cause in our words: DuckDB wraps what a reader raises, and an interruption may follow a failure."""
        import duckdb

        if tables.error is not None:
            return tables.error
        if run.is_cancelled() or isinstance(error, BatchCancelled):
            return BatchCancelled()
        if isinstance(error, SqlStreamError):
            return error
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in text:
            return ExternalError(
                "SS5070",
                f"DuckDB has no memory left for the query: {text}",
                hint=f"SET '{MEMORY_MAX}' to a larger size, or '{ENGINE}' = 'spark'",
            )
        of_row = data_error(str(error))
        if of_row is not None:
            return of_row
        is_data = isinstance(
            error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException
        )
        return JobError(
            "SS6060",
            f"DuckDB could not run the query: {text}",
            reason=FailureReason.USER_DATA if is_data else FailureReason.OPERATOR_FAILED,
            hint=DATA_HINT if is_data else "",
        )


def _relation(table: BatchTable) -> str:
    """What the reader of a table is registered as."""
    return f"read_{table.name}" if table.is_shared else table.name


class _Tables:
    """The readers of one run. State: what a reader has raised, which DuckDB does not hand on as it is."""

    def __init__(self, plan: BatchPlan, run: BatchRun) -> None:
        self._plan = plan
        self._run = run
        self._iterators: list[Iterator[pa.RecordBatch]] = []
        self.error: BaseException | None = None

    def reader(self, table: BatchTable) -> pa.RecordBatchReader:
        """The rows of a table, read when DuckDB asks for them."""
        rows = self._rows(table)
        self._iterators.append(rows)
        return pa.RecordBatchReader.from_batches(to_arrow_schema(table.schema), rows)

    def _rows(self, table: BatchTable) -> Iterator[pa.RecordBatch]:
        count = min(_threads(self._plan.config), READERS_MAX)
        try:
            yield from read_side_by_side([self._reading(table, n, count) for n in range(count)])
        except GeneratorExit:
            raise
        except BaseException as error:
            if self.error is None:
                self.error = error
                self._run.blame(table.name)
            raise

    def _reading(self, table: BatchTable, subtask: int, parallelism: int) -> Reading:
        """The share of one reader."""
        attempt = f"{self._run.attempt}-{table.name}"
        context = connector_context(
            Share(self._plan.job_id, attempt, subtask, parallelism, self._plan.config),
            self._run.files,
            lambda metric, n: self._run.count(table.name, metric, n),
            self._run.print_lines,
        )

        def read(is_stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
            return read_table(table, context, lambda: is_stopped() or self._run.is_cancelled())

        return read

    def close(self) -> None:
        for rows in self._iterators:
            with suppress(ValueError):
                # A reader that DuckDB still runs closes itself when it sees the cancellation.
                rows.close()  # type: ignore[attr-defined]


def _threads(config: Mapping[str, str]) -> int:
    threads = int(options.get(config, THREADS))
    return threads if threads > 0 else len(os.sched_getaffinity(0))


def database_config(config: Mapping[str, str], directory: str) -> dict[str, str | bool | int]:
    """What a database starts with: its share of the machine, a directory for what memory does not hold, and no extensions."""
    return {
        "threads": _threads(config),
        "memory_limit": f"{options.get(config, MEMORY_MAX)}B",
        "temp_directory": directory,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }


def _lock_down(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on the database reads what was registered, and no SQL can change that."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
