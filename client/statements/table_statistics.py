"""ANALYZE TABLE and SHOW PARTITIONS: what the rows and the places of a table are now."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.catalog import CatalogTable, ColumnKind
from sqlstream.client.verification.run import run_to_end
from sqlstream.errors import UserError
from sqlstream.planner.bind.context import find_table, object_path, suggest
from sqlstream.planner.dialect.parser import parse_statement
from sqlstream.planner.dialect.statements import AnalyzeTable, Show
from sqlstream.planner.estimates import TableStatistics
from sqlstream.planner.statements.result import quoted
from sqlstream.planner.statements.show import filtered_names
from sqlstream.schema import Schema
from sqlstream.spi.connector import ListsPartitions

if TYPE_CHECKING:
    from sqlstream.client.sessions.outcomes import Rows
    from sqlstream.client.sessions.planning import PlanningSession


def analyze_table(statement: AnalyzeTable, session: PlanningSession) -> Rows:
    """Count the rows of a table, and of columns the different values and the NULLs. Later statements of the session are
    estimated by them. UserError SS3523 for a table without an end."""
    from sqlstream.client.sessions.outcomes import Rows, literal_batches
    from sqlstream.client.sessions.submission import is_bounded

    context = session.bind_context()
    span = statement.name.span
    table = find_table(object_path(statement.name.parts, context, span), context, span)
    columns = _columns(statement, table)
    path = ".".join(quoted(part) for part in (table.path.catalog, table.path.database, table.path.name))
    calls = [f"COUNT(DISTINCT {quoted(c)}), COUNT(*) - COUNT({quoted(c)})" for c in columns]
    query = parse_statement(f"SELECT {', '.join(['COUNT(*)', *calls])} FROM {path}")
    plan = session.compile(query, job_id=secrets.token_hex(16))
    if not is_bounded(plan.job_graph):
        raise UserError(
            "SS3523",
            f'the rows of table "{table.path.name}" cannot be counted: they have no end',
            span=span,
            hint="analyze bounded tables",
        )
    job = session.submit(plan)
    batches: list[pa.RecordBatch] = []
    run_to_end(job, batches.append)
    assert job.schema is not None
    counted = _last_row(job.schema, batches)
    distinct = {c: (counted[1 + 2 * i], counted[2 + 2 * i]) for i, c in enumerate(columns)}
    session.statistics[table.path] = TableStatistics(counted[0], {c: d for c, (d, _) in distinct.items()})
    schema = Schema.of(
        ("column", sql.STRING), ("rows", sql.BIGINT), ("distinct", sql.BIGINT), ("nulls", sql.BIGINT)
    )
    rows = [(None, counted[0], None, None), *((c, counted[0], d, n) for c, (d, n) in distinct.items())]
    return Rows(schema, literal_batches(schema, tuple(rows)))


def _columns(statement: AnalyzeTable, table: CatalogTable) -> list[str]:
    stored = {c.name: c.type for c in table.columns if c.kind is ColumnKind.PHYSICAL}
    if statement.columns is None:
        return [name for name, t in stored.items() if t.root.name not in _NESTED]
    for column in statement.columns:
        name = column.parts[-1]
        if name not in stored:
            hint = suggest(name, list(stored), "columns")
            message = f'column "{name}" does not exist in table "{table.path.name}"'
            raise UserError("SS2003", message, span=column.span, hint=hint)
        if stored[name].root.name in _NESTED:
            message = (
                f'values of column "{name}" are not told apart: it is {stored[name].with_nullable(True)}'
            )
            raise UserError("SS2010", message, span=column.span, hint="name columns of plain types")
    return list(dict.fromkeys(column.parts[-1] for column in statement.columns))


_NESTED = ("ARRAY", "MAP", "ROW", "MULTISET", "VARIANT")


def _last_row(schema: Schema, batches: list[pa.RecordBatch]) -> list[Any]:
    from sqlstream.client.rendering.render import final_rows

    (row,) = (row for batch in final_rows(schema, batches) for row in batch.to_pylist())
    return list(row.values())


def show_partitions(statement: Show, session: PlanningSession) -> Rows:
    """The partitions that are there, as `key=value/…`. UserError SS2011 for a table without."""
    from sqlstream.client.sessions.outcomes import Rows, literal_batches
    from sqlstream.runtime.connectors import connector
    from sqlstream.runtime.connectors.files.file_paths import partition_directory

    assert statement.name is not None
    context = session.bind_context()
    span = statement.name.span
    table = find_table(object_path(statement.name.parts, context, span), context, span)
    lister = connector(table.options["connector"])
    if not table.partition_keys or not isinstance(lister, ListsPartitions):
        raise UserError(
            "SS2011",
            f'table "{table.path.name}" is not partitioned',
            span=span,
            hint="tables of connector 'filesystem' are, with PARTITIONED BY (…)",
        )
    names = list(lister.partitions(table.options, table.partition_keys, session.files()))
    for column, value in statement.partition:
        key = column.parts[-1]
        if key not in table.partition_keys:
            message = f'"{key}" is no partition column of table "{table.path.name}"'
            hint = suggest(key, list(table.partition_keys), "partition columns")
            raise UserError("SS2011", message, span=column.span, hint=hint)
        names = [name for name in names if partition_directory(key, value) in name.split("/")]
    result = filtered_names(statement, "partition name", names)
    return Rows(result.schema, literal_batches(result.schema, result.rows))
