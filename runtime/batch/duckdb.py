"""Batch queries in DuckDB, in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlstream import config as options
from sqlstream.batch_plan import BatchPlan
from sqlstream.errors import ExternalError, FailureReason, JobError, SqlStreamError
from sqlstream.runtime.batch.duckdb_tables import DuckDbTables, explained_tables, threads
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.runtime.connectors.duckdb.database import SharedConnection
from sqlstream.runtime.host.spill_directory import spill_directory

if TYPE_CHECKING:
    import duckdb


ENGINE = "execution.batch.engine"
MEMORY_MAX = "execution.batch.duckdb-memory-max"
DATA_HINT = "guard the expression against such rows, or run it as a stream: SET 'execution.runtime-mode' = 'STREAMING'"
BATCH_ROWS = 65_536


class DuckDbEngine:
    """Runs each plan in a database of its own in memory, which may spill to a directory of its own. Implements `BatchEngine`.

    A database reads the tables of its plan, through our readers or from their files, and nothing else: no other file, no
    extension, no network. State: the connections of the runs that are under way, by job."""

    name = "duckdb"

    def __init__(self) -> None:
        self._connections: dict[str, set[duckdb.DuckDBPyConnection]] = {}
        self._lock = threading.Lock()

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        with self._connection(plan) as shared:
            connection = shared.connection
            tables = DuckDbTables(plan, run)
            functions = HostedCalls(plan.functions, plan.config)
            try:
                functions.register(connection)
                tables.make(shared)
                for number, output in enumerate(plan.outputs):
                    with connection.sql(output.sql).to_arrow_reader(BATCH_ROWS) as rows:
                        for batch in rows:
                            run.emit(number, batch)
                tables.finish()
            except Exception as error:
                raise self._described(error, tables, functions, run) from error
            finally:
                functions.close()
                tables.close()

    def cancel(self, job_id: str) -> None:
        with self._lock:
            connections = tuple(self._connections.get(job_id, ()))
        import duckdb

        for connection in connections:
            with suppress(duckdb.Error):
                connection.interrupt()

    def explain(self, plan: BatchPlan, files: Any) -> str:
        with self._connection(plan) as shared, ExitStack() as ends:
            HostedCalls(plan.functions, plan.config).declare(shared.connection)
            lines = explained_tables(plan, shared, files, ends)
            texts = [
                str(row[1]).rstrip()
                for output in plan.outputs
                for row in shared.connection.execute(f"EXPLAIN {output.sql}").fetchall()
            ]
        return "\n".join([*lines, *texts])

    def close(self) -> None:
        with self._lock:
            jobs = tuple(self._connections)
        for job_id in jobs:
            self.cancel(job_id)

    @contextmanager
    def _connection(self, plan: BatchPlan) -> Iterator[SharedConnection]:
        import duckdb

        with spill_directory() as directory:
            connection = duckdb.connect(":memory:", config=database_config(plan.config, directory))
            connection.execute("SET TimeZone = 'UTC'")
            shared = SharedConnection(connection)
            with self._lock:
                self._connections.setdefault(plan.job_id, set()).add(connection)
            try:
                yield shared
            finally:
                with self._lock:
                    self._connections[plan.job_id].discard(connection)
                    if not self._connections[plan.job_id]:
                        del self._connections[plan.job_id]
                shared.release()

    def _described(
        self, error: Exception, tables: DuckDbTables, functions: HostedCalls, run: BatchRun
    ) -> BaseException:
        """The cause in our words: DuckDB wraps what a reader raises, and an interruption may follow a failure."""
        import duckdb

        if tables.error is not None:
            return tables.error
        if run.is_cancelled() or isinstance(error, BatchCancelled):
            return BatchCancelled()
        if functions.error is not None:
            return functions.error
        if isinstance(error, SqlStreamError):
            return error
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in text:
            return ExternalError(
                "SS5070",
                f"DuckDB has no memory left for the query: {text}",
                hint=f"SET '{MEMORY_MAX}' to a larger size, or '{ENGINE}' = 'spark'",
            )
        if tables.may_be_of_files(error, text) and (cause := tables.read_again()) is not None:
            return cause
        is_data = isinstance(
            error, duckdb.ConversionException | duckdb.OutOfRangeException | duckdb.InvalidInputException
        )
        return JobError(
            "SS6060",
            f"DuckDB could not run the query: {text}",
            reason=FailureReason.USER_DATA if is_data else FailureReason.OPERATOR_FAILED,
            hint=DATA_HINT if is_data else "",
        )


def database_config(config: Mapping[str, str], directory: str) -> dict[str, str | bool | int]:
    """What a database starts with: its share of the machine, a directory for what memory does not hold, and no extensions."""
    return {
        "threads": threads(config),
        "memory_limit": f"{options.get(config, MEMORY_MAX)}B",
        "temp_directory": directory,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
