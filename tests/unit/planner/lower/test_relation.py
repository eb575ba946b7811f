"""Plans as queries: what is shared, what stays small, and what the relations of tables must hold."""

from __future__ import annotations

import contextlib
import dataclasses

import duckdb
import pytest
from planner_harness import TABLES, Planner

from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef
from sqlstream.planner.lower.duckdb import DuckDbDialect, lower_duckdb
from sqlstream.planner.lower.engine import HostedFunctions
from sqlstream.planner.lower.relation import lower, to_sql
from sqlstream.planner.relational.nodes import Filter, Join, RelationalNode, TableScan, rewrite
from sqlstream.runtime.batch.hosted_functions import HostedCalls
from sqlstream.schema import Schema
from sqlstream.specs.join import JoinKind
from sqlstream.types import BOOLEAN, INT

RELATIONS = {
    "t": "(SELECT * FROM (VALUES (1, 5, 'x', 0), (2, 7, NULL, 1), (NULL, 9, 'z', 2)) AS v(a, b, s, d))"
}


def bind(query: str) -> RelationalNode:
    planner = Planner()
    planner.run(TABLES)
    return planner.bind(query)


def answer(node: RelationalNode) -> list[tuple[object, ...]]:
    functions = HostedFunctions()
    sql = lower_duckdb(node, RELATIONS, functions=functions)
    with duckdb.connect() as connection, contextlib.closing(HostedCalls(functions.found, {})) as hosted:
        hosted.register(connection)
        return sorted(connection.sql(sql).fetchall(), key=repr)


def test_what_is_read_twice_is_written_once() -> None:
    node = bind(
        "WITH c AS (SELECT a, COUNT(*) AS n FROM t GROUP BY a) SELECT x.a, y.n FROM c AS x JOIN c AS y ON x.a = y.a"
    )
    sql = lower_duckdb(node, RELATIONS)
    assert sql.count("GROUP BY") == 1
    assert sql.startswith("WITH shared_0 AS (")
    assert answer(node) == [(1, 1), (2, 1)]


def test_a_scan_that_is_read_twice_stays_where_it_is_read() -> None:
    sql = lower_duckdb(bind("SELECT x.a FROM t AS x JOIN t AS y ON x.a = y.a"), RELATIONS)
    assert "WITH" not in sql


def test_the_text_grows_with_the_statement_and_not_with_its_tree() -> None:
    def chain(levels: int) -> str:
        parts = ["c0 AS (SELECT a FROM t)"]
        parts += [
            f"c{i} AS (SELECT x.a FROM c{i - 1} AS x JOIN c{i - 1} AS y ON x.a = y.a)"
            for i in range(1, levels + 1)
        ]
        return f"WITH {', '.join(parts)} SELECT a FROM c{levels}"

    sizes = [len(lower_duckdb(bind(chain(n)), RELATIONS)) for n in (10, 20, 30)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])
    assert answer(bind(chain(30))) == [(1,), (2,)]


def test_a_common_table_has_a_name_that_no_relation_has() -> None:
    node = bind(
        "SELECT * FROM (SELECT DISTINCT a FROM t) AS x JOIN (SELECT DISTINCT a FROM t) AS y ON x.a = y.a"
    )
    sql = lower_duckdb(node, {"t": "Shared_0"})
    assert sql.startswith("WITH shared__0 AS (")


def test_plans_and_expressions_may_be_deep() -> None:
    query = "SELECT a FROM t"
    for level in range(40):
        query = f"SELECT a FROM ({query}) AS t{level} WHERE a IS NOT NULL"
    assert answer(bind(query)) == [(1,), (2,)]
    deep = "a"
    for _ in range(40):
        deep = f"ABS({deep} - 1)"
    assert len(answer(bind(f"SELECT {deep} FROM t"))) == 3


def test_the_order_is_that_of_the_outermost_select_also_below_a_projection() -> None:
    node = bind("SELECT s FROM t ORDER BY b DESC LIMIT 2")
    sql = lower_duckdb(node, RELATIONS)
    assert sql.endswith("ORDER BY o.c1 DESC")
    assert duckdb.sql(sql).fetchall() == [("z",), (None,)]


def condition() -> Call:
    return Call("=", (InputRef(0, INT), InputRef(1, INT)), BOOLEAN)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [(JoinKind.SEMI, [(2,)]), (JoinKind.ANTI, [(1,), (None,)])],
)
def test_semi_and_anti_joins_keep_rows_of_the_left_once(
    kind: JoinKind, rows: list[tuple[object, ...]]
) -> None:
    left, right = bind("SELECT a FROM t"), bind("VALUES (2), (2), (3), (CAST(NULL AS INT))")
    node = Join(left=left, right=right, kind=kind, condition=condition(), schema=Schema.of(("a", INT)))
    assert answer(node) == rows


def test_filters_of_a_scan_are_applied_whether_or_not_the_relation_has_them_applied() -> None:
    node = bind("SELECT b FROM t WHERE a > 1")

    def into_scan(node: RelationalNode) -> RelationalNode:
        if isinstance(node, Filter) and isinstance(node.input, TableScan):
            return dataclasses.replace(node.input, filters=(node.condition,))
        return node

    assert answer(rewrite(node, into_scan)) == answer(node) == [(7,)]


def test_metadata_columns_are_columns_of_the_relation() -> None:
    planner = Planner()
    planner.run(
        "CREATE TABLE f (a INT, p STRING NOT NULL METADATA FROM 'file.path' VIRTUAL)"
        " WITH ('connector' = 'files', 'path' = '/x', 'format' = 'csv')"
    )
    sql = lower_duckdb(planner.bind("SELECT p, a FROM f"), {"f": "(SELECT 1 AS a, 'x.csv' AS \"file.path\")"})
    assert duckdb.sql(sql).fetchall() == [("x.csv", 1)]


def test_a_row_time_that_is_null_stops_the_query_as_it_stops_a_stream() -> None:
    planner = Planner()
    planner.run(
        "CREATE TABLE e (id INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'datagen')"
    )
    node = planner.bind("SELECT id FROM e")
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE e AS SELECT 1 AS id, TIMESTAMP '2024-01-01' AS rt")
        sql = lower_duckdb(node, {"e": "e"})
        assert connection.sql(sql).fetchall() == [(1,)]
        connection.execute("UPDATE e SET rt = NULL")
        with pytest.raises(duckdb.Error, match='rowtime "rt" is null'):
            connection.sql(sql).fetchall()


def test_each_scan_may_have_a_relation_of_its_own() -> None:
    node = bind("SELECT x.a FROM t AS x JOIN t /*+ OPTIONS('number-of-rows' = '1') */ AS y ON x.a = y.a")
    engine = DuckDbDialect()
    query = lower(
        node, engine, lambda scan: "one" if dict(scan.options).get("number-of-rows") else "all_rows"
    )
    sql = to_sql(query, engine)
    assert "FROM one AS s" in sql
    assert "FROM all_rows AS s" in sql


def test_a_table_without_a_relation_is_refused_at_its_place() -> None:
    with pytest.raises(UserError) as caught:
        lower_duckdb(bind("SELECT a FROM t"), {})
    assert caught.value.code == "SS3301"
    assert caught.value.span is not None
