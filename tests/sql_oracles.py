"""What a case of tests/sql is held to: the rows of its file, and DuckDB's rows for the text and for the plan that a batch
statement lowers.

A generated query is a case, too (`generated`), whose rows are those of the oracles: `check_generated`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
from oracle import ENCODINGS, Row, Tables, assert_same_rows, duckdb_answer
from sql_cases import Case, CaseTable, encoded, header, rows_of, today, written
from sql_runs import Draw, Result, draws, physical_rows, planned, run_case

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.planner.compile import CompiledPlan
from sqlstream.schema import Schema

STRAIGHT = Draw(parallelism=2, batch_rows=7, splits="cut")


def generated(name: str, sql: str, tables: Tables, *words: str, given: Sequence[str] = ()) -> Case:
    """A query that stands in no file."""
    made = {
        table: CaseTable(table, "", columns, tuple([encoded(value) for value in row] for row in rows))
        for table, (columns, rows) in tables.items()
    }
    pairs = (word.partition("=") for word in words)
    return Case("", name, made, tuple(given), sql, {key: value for key, _, value in pairs}, "", ())


def draw_of_the_day(case: Case, place: int, count: int) -> Draw | None:
    """The draw of the day of a query that has one each `count` days."""
    found = draws(str(case))
    return found[today() // count % len(found)] if today() % count == place % count else None


def check_generated(case: Case, directory: Path, draw: Draw | None = None) -> Result:
    """The rows of a query that runs straight, which are those of its oracles, and those that it leaves in this draw."""
    own = directory / str(len(os.listdir(directory)))
    own.mkdir()
    straight = run_case(case, STRAIGHT, own)
    try:
        check_oracles(case, straight)
        if draw is not None:
            lines = written(straight.schema, rows_of(straight.rows), straight.is_ordered)
            held = dataclasses.replace(case, expected=tuple(lines))
            drawn = run_case(held, draw, own)
            check(held, drawn)
            return drawn
    except Exception as error:
        raise AssertionError(f"{draw}\n{case.script}\n{error}") from error
    return straight


def check(case: Case, result: Result) -> None:
    assert header(result.schema) == case.expected[0]
    expected = [tuple(json.loads(line)) for line in case.expected[1:]]
    found = [tuple(row) for row in rows_of(result.rows)]
    if case.is_free("count"):
        assert len(found) == len(expected)
        return
    assert_same_rows(found, expected, is_ordered=result.is_ordered)


def check_oracles(case: Case, result: Result, *, has_text: bool = True, has_bound: bool = True) -> None:
    """`has_text`, `has_bound`: DuckDB is asked for the text and for the bound plan, too."""
    found = [tuple(row) for row in rows_of(result.rows)]
    if has_text and case.is_free("duckdb"):
        theirs = [tuple(row) for row in rows_of(duckdb_rows(case, result.schema))]
        if case.words["duckdb"] == "about":
            assert sorted(map(about, found)) == sorted(map(about, theirs))
        else:
            assert_same_rows(found, theirs, is_ordered=result.is_ordered)
    if case.is_free("no-batch") or case.is_free("late") or case.is_free("count"):
        return
    plan = result.plan
    if case.batch_sql or result.draw.told != "rows":
        plan = planned(dataclasses.replace(case, sql=case.batch_sql or case.sql), "rows", "AUTO", 65_536)
    for answer in batch_rows(case, plan, has_bound=has_bound):
        if isinstance(answer, UserError):
            # The plan of a stream has encodings in place of nested keys, which no engine has.
            assert answer.message.startswith(ENCODINGS), answer
            continue
        theirs = [tuple(encoded(value) for value in row) for row in answer]
        assert_same_rows(found, theirs, is_ordered=result.is_ordered)


def about(row: tuple[object, ...]) -> str:
    """Numbers are alike in six digits, whatever their type."""

    def value(each: object) -> object:
        if isinstance(each, str):
            try:
                return f"{float(each):.6g}"
            except ValueError:
                return each
        if isinstance(each, int | float) and not isinstance(each, bool):
            return f"{float(each):.6g}"
        if isinstance(each, list):
            return [value(one) for one in each]
        return {key: value(one) for key, one in each.items()} if isinstance(each, dict) else each

    return repr([value(each) for each in row])


def duckdb_rows(case: Case, schema: Schema) -> pa.Table:
    """What DuckDB has for the text."""
    with _database().cursor() as connection:
        for table in case.used_tables:
            connection.register(table.name, physical_rows(table))
        for statement in case.given:
            # A view that DuckDB does not know fails where a query reads it.
            with contextlib.suppress(duckdb.Error):
                connection.execute(re.sub(r"^CREATE (TEMPORARY )?VIEW", "CREATE TEMPORARY VIEW", statement))
        answer = connection.sql(case.duckdb_sql or case.sql).to_arrow_table()
    wanted = to_arrow_schema(schema)
    if "about" in case.words.get("duckdb", ""):
        return answer
    columns = [_cast(c, f.type) for c, f in zip(answer.columns, wanted, strict=True)]
    return pa.Table.from_arrays(columns, schema=wanted)


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    """What is registered and made in a cursor is its own."""
    database = duckdb.connect(config={"threads": 1})
    database.execute("SET GLOBAL default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as in Flink
    return database


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(wanted) and wanted.tz:
        return column.cast(pa.timestamp(wanted.unit)).cast(wanted)
    return column.cast(wanted)


def batch_rows(case: Case, plan: CompiledPlan, *, has_bound: bool = True) -> Iterator[list[Row] | UserError]:
    """What DuckDB has for the bound plan and for the optimised one, as a batch statement would lower them."""
    tables = {table.name: physical_rows(table) for table in case.used_tables}
    zone = case.settings.get("table.local-time-zone", "UTC")
    schema = plan.relational[0].schema
    if has_bound:
        yield duckdb_answer(plan.relational[0], schema, tables, zone)
    try:
        yield duckdb_answer(plan.optimised[0], schema, tables, zone)
    except UserError as error:
        yield error
