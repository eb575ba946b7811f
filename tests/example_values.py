"""Expressions over the table of `function_examples`, bound in a time zone, and their values in DuckDB."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import duckdb
import pyarrow as pa
from function_examples import COLUMNS, rows
from planner_harness import Planner
from sqlglot import exp

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.expressions import Call, Expression, InputRef, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb import DuckDbDialect, lower_duckdb, type_name
from sqlstream.planner.lower.engine import EngineDialect, HostedFunctions
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.lower.relation import to_sql
from sqlstream.planner.relational.nodes import Project, RelationalNode
from sqlstream.runtime.batch.casting import cast_column
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.schema import Schema


@functools.cache
def planner_in(zone: str) -> Planner:
    made = Planner()
    made.set("table.local-time-zone", zone)
    made.run(f"CREATE TABLE t ({COLUMNS}) WITH ('connector' = 'datagen')")
    return made


@functools.cache
def table() -> tuple[pa.RecordBatch, Schema]:
    schema = planner_in("UTC").bind("SELECT * FROM t").schema
    (batch,) = pa.Table.from_pylist(rows(), to_arrow_schema(schema)).combine_chunks().to_batches()
    return batch, schema


def bound(example: str, zone: str) -> Expression:
    node = planner_in(zone).bind(f"SELECT {example} AS v FROM t")
    assert isinstance(node, Project)
    assert node.input.schema.names == table()[1].names
    return node.expressions[0]


@contextlib.contextmanager
def in_duckdb(node: RelationalNode, zone: str) -> Iterator[Callable[[pa.RecordBatch], pa.Array | Exception]]:
    """The column of a query over `t` for rows of it, in one database. UserError SS3301 for what is refused."""
    found = HostedFunctions()
    sql, (field,) = lower_duckdb(node, {"t": "t"}, zone, found), node.schema.fields
    (wanted,) = to_arrow_schema(Schema((field,)))
    hosted = HostedCalls(found.found, {"table.local-time-zone": zone})
    with contextlib.closing(hosted), duckdb.connect(config={"threads": 1}) as connection:
        # What a connection says about time zones must not matter.
        connection.execute("SET TimeZone = 'America/New_York'")
        hosted.register(connection)
        type_ = connection.sql(f"SELECT CAST(NULL AS {type_name(field.type)})").types

        def values(batch: pa.RecordBatch) -> pa.Array | Exception:
            hosted.error = None
            connection.register("t", pa.Table.from_batches([batch]))
            try:
                relation = connection.sql(sql)
                assert relation.types == type_, sql
                column = relation.to_arrow_table().column(0)
            except duckdb.Error as error:
                return hosted.error if isinstance(hosted.error, UserError) else error
            return cast_column(column.combine_chunks(), wanted)

        yield values


@dataclasses.dataclass(frozen=True)
class Guarded:
    """An expression that is computed for these rows of a batch only."""

    expression: Expression
    rows: Sequence[int]


def guarded_columns(
    given: Sequence[Guarded], dialect: EngineDialect, width: int, row: exp.Expr
) -> list[exp.Expr]:
    """The expressions over `width` columns as v0, v1 …; `row` is the number of a row."""

    def column_of(index: int) -> exp.Expr:
        return row if index == width else tree.input_column(index)

    columns = []
    for number, guarded in enumerate(given):
        # Of our own: what an engine calls a function for is no matter of a CASE around it.
        rows = [Literal(r, sql.INT.not_null()) for r in guarded.rows]
        is_meant = Call("IN", (InputRef(width, sql.INT), *rows), sql.BOOLEAN)
        t = guarded.expression.type
        value = Call("CASE", (is_meant, guarded.expression, Literal(None, t)), t.with_nullable(True))
        columns.append(tree.alias(lower_expression(value, dialect, column_of), f"v{number}"))
    return columns


def evaluate_in_duckdb(given: Sequence[Guarded], zone: str) -> list[pa.Array]:
    """The rows of each expression over `table`, all in one query."""
    batch, schema = table()
    dialect = DuckDbDialect(HostedFunctions(), zone)
    columns = guarded_columns(given, dialect, len(schema), tree.column("n", "i"))
    numbered = pa.Table.from_arrays(
        [*batch.columns, pa.array(range(batch.num_rows), pa.int32())],
        names=[*(f"c{i}" for i in range(len(schema))), "n"],
    )
    scanned = [
        tree.alias(dialect.scanned(tree.column(f"c{i}", "s"), t), f"c{i}") for i, t in enumerate(schema.types)
    ]
    source = tree.select([*scanned, tree.column("n", "s")], tree.alias(tree.raw("batch"), "s"))
    query = tree.select(columns, tree.subquery(source, "i"))
    query.set("order", exp.Order(expressions=[tree.column("n", "i")]))
    hosted = HostedCalls(dialect.functions.found, {"table.local-time-zone": zone})
    with contextlib.closing(hosted), duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        hosted.register(connection)
        connection.register("batch", numbered)
        answer = connection.sql(to_sql(query, dialect)).to_arrow_table().combine_chunks()
    fields = to_arrow_schema(Schema.of(*((f"v{i}", g.expression.type) for i, g in enumerate(given))))
    columns_of = zip(answer.columns, fields, given, strict=True)
    return [cast_column(column.chunk(0), field).take(pa.array(g.rows)) for column, field, g in columns_of]
