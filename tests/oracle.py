"""The differential oracle: what a query over a finished stream must answer is what DuckDB answers over the same rows.

Rows go to the engine as Parquet files through the `filesystem` connector, and to DuckDB as Arrow tables through
`lower_duckdb`, which lowers the bound plan, where parser and binder are shared and all else is not, and the optimised plan, as
batch statements do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import itertools
import math
import secrets
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream import config
from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import CHANGE_COLUMNS
from sqlstream.catalog import DEFAULT_CATALOG, DEFAULT_DATABASE, CatalogTable, SessionCatalog
from sqlstream.changelog import RowKind
from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.rendering.render import final_rows
from sqlstream.client.sessions.outcomes import Job, Outcome
from sqlstream.client.sessions.session import Session
from sqlstream.errors import UserError
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.batch import CompiledBatch
from sqlstream.planner.bind.sink import bind_insert
from sqlstream.planner.compile import CompiledPlan
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.planner.dialect.statements import Insert, Query, Statement, StatementSet
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.relational.nodes import RelationalNode, Sort
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.schema import Schema

Row = tuple[Any, ...]
Tables = dict[str, tuple[str, list[Row]]]
"""By name: the columns as in CREATE TABLE (computed ones and WATERMARK too), and rows of the physical ones. Times may be
text."""

TIMEOUT_S = 60
COLLECT = {"connector": "collect"}
LATE = "numLateRecordsDropped"
ENCODINGS = ("KEY_BYTES", "FIRST_VALUE")


class ChangedRows(list[Row]):
    """The rows of a table of changes, behind what each does: +I, -U, +U or -D. `mode` is retract or upsert."""

    def __init__(self, rows: Iterable[Row], mode: str) -> None:
        super().__init__(rows)
        self.mode = mode


class LookedUpRows(list[Row]):
    """The rows of a table that lookup joins read, with this cache."""

    def __init__(self, rows: Iterable[Row], cache: str) -> None:
        super().__init__(rows)
        self.cache = cache


@dataclasses.dataclass(frozen=True)
class Finished:
    """A job that has ended: its final rows, and the metrics of all its operators, added by name."""

    plan: CompiledPlan | CompiledBatch
    schema: Schema
    batches: list[pa.RecordBatch]
    metrics: dict[str, Any]

    @property
    def is_ordered(self) -> bool:
        """Whether the query has ORDER BY."""
        (sink,) = self.plan.relational
        return isinstance(sink.input, Sort) and bool(sink.input.order)

    @property
    def table(self) -> pa.Table:
        """The final rows with the names of the result's columns."""
        arrow = to_arrow_schema(self.schema)
        batches = [pa.RecordBatch.from_arrays(b.columns[: len(arrow)], schema=arrow) for b in self.batches]
        return pa.Table.from_batches(batches, arrow)


class Engine:
    """Runs scripts to their end on a cluster in this process; `parallelism` and `batch_rows` as asked for each time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._clusters = LocalClusterClient()
        self._session = Session(self._clusters)
        self._numbers = itertools.count()
        self.catalog = SessionCatalog()

    def close(self) -> None:
        self._clusters.close()

    def configure(self, parallelism: int, batch_rows: int, settings: Mapping[str, str] | None = None) -> None:
        """Start with an empty catalog and these settings."""
        self.catalog = self._session.catalog = SessionCatalog()
        self._session.config.clear()
        self._session.config |= {
            "parallelism.default": str(parallelism),
            "execution.batch-rows": str(batch_rows),
            **(settings or {}),
        }

    def create(
        self, name: str, columns: str, rows: list[Row], files: int, options: str = "", is_dealt: bool = False
    ) -> pa.Table:
        """A table over `rows`, cut into `files` files one behind the other, or dealt out to them in turn; its rows as
        Arrow. Rows that are in order for one watermark are so in each file, and more is not asked of files.
        """
        path = self._directory / f"{next(self._numbers)}_{name}"
        path.mkdir()
        if isinstance(rows, LookedUpRows):
            file = path / "rows.parquet"
            options = f"'connector' = 'duckdb', 'path' = '{file}', 'lookup.cache' = '{rows.cache}'"
            self.run(f"CREATE TABLE {name} ({columns}) WITH ({options})")
            table = arrow_table(to_arrow_schema(self.table(name).physical_schema()), rows)
            pq.write_table(table, file)
            return table
        if isinstance(rows, ChangedRows):
            options += f", 'changelog.mode' = '{rows.mode}', 'changelog.op-column' = 'op'"
        self.run(
            f"CREATE TABLE {name} ({columns}) WITH "
            f"('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet'{options})"
        )
        schema = to_arrow_schema(self.table(name).physical_schema())
        if isinstance(rows, ChangedRows):
            changes = arrow_table(schema.insert(0, pa.field("op", pa.string())), rows)
            pq.write_table(changes, path / "0.parquet")
            kinds = pa.array([[kind.symbol for kind in RowKind].index(row[0]) for row in rows], pa.int8())
            told = changes.drop_columns("op").append_column(CHANGE_COLUMNS[0].name, kinds)
            return told.append_column(CHANGE_COLUMNS[1].name, pa.array(range(len(rows)), pa.int64()))
        table = arrow_table(schema, rows)
        places = np.arange(len(rows))
        parts = [places[file::files] for file in range(files)] if is_dealt else np.array_split(places, files)
        for file, part in enumerate(parts):
            pq.write_table(table.take(pa.array(part, pa.int64())), path / f"{file}.parquet")
        return table

    @property
    def time_zone(self) -> str:
        return str(config.get(self._session.config, "table.local-time-zone"))

    def table(self, name: str) -> CatalogTable:
        found = next(e for e in self.catalog.list(DEFAULT_CATALOG, DEFAULT_DATABASE) if e.path.name == name)
        assert isinstance(found, CatalogTable)
        return found

    def run(self, script: str) -> list[Finished]:
        """Run each statement; returns the outcome of every job."""
        finished = []
        for statement in parse_statements(script):
            if isinstance(statement, Query | Insert | StatementSet):
                finished.append(self.job(self.compile(statement)))
            else:
                outcome = self.execute(statement)
                if isinstance(outcome, Job):
                    status, error = outcome.wait(TIMEOUT_S)
                    assert status is JobStatus.FINISHED, error
        return finished

    def execute(self, statement: Statement) -> Outcome:
        """DDL, a setting or EXPLAIN."""
        return self._session.execute(statement)

    def compile(self, statement: Statement) -> CompiledPlan | CompiledBatch:
        return self._session.compile(statement, secrets.token_hex(16))

    def collect(self, insert: Insert) -> Finished:
        """Run an INSERT and return its rows, cast to the table's columns, instead of writing them to the table."""
        return self.job(self.compile_collected(insert))

    def compile_collected(self, insert: Insert) -> CompiledPlan | CompiledBatch:
        """The plan of an INSERT whose rows are collected."""
        context = self._session.bind_context()
        sink = bind_insert(insert, context)
        table = msgspec.structs.replace(sink.table, options=COLLECT)
        sink = dataclasses.replace(sink, table=table, options=tuple(COLLECT.items()))
        return self._session.compile_sinks((sink,), context, secrets.token_hex(16))

    def job(self, plan: CompiledPlan | CompiledBatch) -> Finished:
        """Run a job to its end. JobError when it fails."""
        cluster = self._clusters.cluster(in_process=True)
        job_id = plan.job_graph.job_id
        cluster.submit(plan.job_graph)
        schema = plan.relational[-1].schema
        batches = list(final_rows(schema, cluster.results(job_id)))
        reply = cluster.wait(job_id, TIMEOUT_S)
        if reply.status is not JobStatus.FINISHED:
            assert reply.error is not None
            raise reply.error.to_job_error()
        totals: dict[str, Any] = {}
        for metrics in cluster.metrics(job_id).operators.values():
            for key, value in metrics.items():
                totals[key] = totals.get(key, 0) + value
        return Finished(plan, schema, batches, totals)


class Differential:
    """Holds a query's answer on the engine to DuckDB's. Fails when rows differ, or when the engine found rows late."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(
        self,
        sql: str,
        tables: Tables,
        *,
        parallelism: int = 2,
        batch_rows: int = 7,
        files: int | None = None,
        is_dealt: bool = False,
        batch_sql: str = "",
    ) -> list[Row]:
        """Run a query on both and return its rows, which must be the same. `sql`: views and settings, then one SELECT;
        `batch_sql`: what DuckDB is to answer, where that is another SELECT."""
        self._engine.configure(parallelism, batch_rows)
        arrow = {
            name: self._engine.create(name, columns, rows, files or parallelism, is_dealt=is_dealt)
            for name, (columns, rows) in tables.items()
        }
        (found,) = self._engine.run(sql)
        actual = rows_of(found.table)
        batch = found.plan
        if batch_sql:
            (statement,) = parse_statements(batch_sql)
            batch = self._engine.compile(statement)
        for plan in (batch.relational[0], batch.optimised[0]):
            try:
                expected = duckdb_answer(plan, found.schema, arrow, self._engine.time_zone)
            except UserError as error:
                # The plan of a stream has encodings in place of nested keys, which no engine has.
                if plan is batch.relational[0] or not error.message.startswith(ENCODINGS):
                    raise
                continue
            assert_same_rows(actual, expected, is_ordered=found.is_ordered)
        assert found.metrics.get(LATE, 0) == 0, "rows were late: the batch answer counts them"
        return actual


def arrow_table(schema: pa.Schema, rows: list[Row]) -> pa.Table:
    columns = [
        pa.array([_value(row[i], field.type) for row in rows], field.type) for i, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _value(value: Any, t: pa.DataType) -> Any:
    """Times and decimals may be written as text."""
    if not isinstance(value, str) or pa.types.is_string(t):
        return value
    if pa.types.is_timestamp(t):
        moment = datetime.datetime.fromisoformat(value)
        return moment.replace(tzinfo=datetime.UTC) if t.tz else moment
    if pa.types.is_date(t):
        return datetime.date.fromisoformat(value)
    return Decimal(value)


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """What is registered in a cursor of it is its own. A second thread would cost more than it does, over few rows."""
    return duckdb.connect(config={"threads": 1})


@contextlib.contextmanager
def scratch_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose tables are gone afterwards. A database of its own would take 20 ms."""
    with database().cursor() as connection:
        connection.begin()
        try:
            yield connection
        finally:
            connection.rollback()


def duckdb_answer(
    node: RelationalNode, schema: Schema, tables: dict[str, pa.Table], time_zone: str = "UTC"
) -> list[Row]:
    """The rows that DuckDB has for a plan over Arrow tables, in the types of `schema`. UserError SS3301, and what rows raise."""
    functions = HostedFunctions()
    sql = lower_duckdb(node, {name: name for name in tables}, time_zone, functions)
    hosted = HostedCalls(functions.found, {"table.local-time-zone": time_zone})
    with contextlib.closing(hosted), database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        try:
            hosted.register(connection)
            answer = connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise hosted.error or error from error
        finally:
            # Functions are made in the database, which others use after this, and tables in the connection.
            for function in functions.found:
                with contextlib.suppress(duckdb.Error):  # of one that could not be loaded
                    connection.remove_function(function.name)
    wanted = to_arrow_schema(schema)
    columns = [_as(c, f.type) for c, f in zip(answer.columns, wanted, strict=True)]
    return rows_of(pa.Table.from_arrays(columns, schema=wanted))


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(wanted) and wanted.tz:
        return column.cast(pa.timestamp(wanted.unit)).cast(wanted)
    return column.cast(wanted)


def rows_of(table: pa.Table) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True)) if table.num_columns else []


def assert_same_rows(actual: list[Row], expected: list[Row], *, is_ordered: bool = False) -> None:
    """Equal as multisets (or as lists), floats up to a few units of the last place."""
    texts = [[repr(row) for row in rows] for rows in (actual, expected)]
    if texts[0] == texts[1] or (not is_ordered and sorted(texts[0]) == sorted(texts[1])):
        return
    if not is_ordered:
        actual, expected = sorted(actual, key=_sort_key), sorted(expected, key=_sort_key)
    if len(actual) == len(expected) and all(map(_is_same_row, actual, expected)):
        return
    missing = [row for row in expected if not any(_is_same_row(row, other) for other in actual)]
    surplus = [row for row in actual if not any(_is_same_row(row, other) for other in expected)]
    raise AssertionError(
        f"{len(actual)} rows, not {len(expected)}\nmissing: {missing[:10]}\nsurplus: {surplus[:10]}\n"
        f"actual: {actual[:20]}\nexpected: {expected[:20]}"
    )


def _sort_key(row: Row) -> tuple[list[str], list[float]]:
    """Sort by exact values first, so that floats which differ in their last place do not change the order of equal rows."""
    floats = [v for v in row if isinstance(v, float)]
    return [repr(v) for v in row if not isinstance(v, float)], [0.0 if math.isnan(f) else f for f in floats]


def _is_same_row(a: Row, b: Row) -> bool:
    return len(a) == len(b) and all(map(_is_same, a, b))


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return bool(a == b) and type(a) is type(b)
