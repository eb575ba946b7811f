"""Subqueries have the rows that DuckDB has for the same text, and for the plan before they became joins."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from oracle import Differential, Engine, Tables, arrow_table, assert_same_rows, rows_of

from sqlstream.errors import JobError

T = [(1, 10, "a"), (2, 20, "b"), (3, 30, None), (None, 40, "a"), (2, 20, "b"), (5, 5, "c"), (None, 0, None)]
U = [(1, 10, "a"), (1, 30, "b"), (2, 20, None), (4, 40, "c"), (None, 50, "a"), (2, 5, "b")]
TABLES: Tables = {
    "t": ("a INT, b INT NOT NULL, s STRING", T),
    "u": ("x INT, y INT NOT NULL, z STRING", U),
    "e": ("p INT, q INT NOT NULL", []),
}
SCHEMAS = {
    "t": pa.schema([("a", pa.int32()), ("b", pa.int32()), ("s", pa.string())]),
    "u": pa.schema([("x", pa.int32()), ("y", pa.int32()), ("z", pa.string())]),
    "e": pa.schema([("p", pa.int32()), ("q", pa.int32())]),
}
QUERIES = {
    "exists": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a)",
    "not exists": "SELECT * FROM t WHERE NOT EXISTS (SELECT * FROM u WHERE x = a AND y > b)",
    "exists uncorrelated": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y > 40)",
    "exists over no rows": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM e)",
    "not exists over no rows": "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM e)",
    "exists with an inequality": "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE y < b)",
    "exists of an aggregate": "SELECT * FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE x = a)",
    "exists with HAVING": "SELECT * FROM t WHERE EXISTS (SELECT COUNT(*) FROM u WHERE x = a HAVING COUNT(*) > 1)",
    "exists of groups": "SELECT * FROM t WHERE EXISTS (SELECT z FROM u WHERE x = a GROUP BY z HAVING SUM(y) > 10)",
    "exists as a value": "SELECT a, EXISTS (SELECT 1 FROM u WHERE x = a) FROM t",
    "exists below OR": "SELECT * FROM t WHERE b = 5 OR EXISTS (SELECT 1 FROM u WHERE x = a)",
    "exists in CASE": "SELECT CASE WHEN EXISTS (SELECT 1 FROM u WHERE z = s) THEN 'y' ELSE 'n' END FROM t",
    "in": "SELECT * FROM t WHERE a IN (SELECT x FROM u)",
    "in of a union": "SELECT * FROM t WHERE a IN (SELECT x FROM u UNION ALL SELECT b FROM t)",
    "in correlated": "SELECT * FROM t WHERE b IN (SELECT y FROM u WHERE z = s)",
    "in as a value": "SELECT a, a IN (SELECT x FROM u), b IN (SELECT y FROM u) FROM t",
    "in no rows": "SELECT a, a IN (SELECT p FROM e), a NOT IN (SELECT p FROM e) FROM t",
    "not in with NULLs": "SELECT * FROM t WHERE a NOT IN (SELECT x FROM u)",
    "not in without NULLs": "SELECT * FROM t WHERE a NOT IN (SELECT x FROM u WHERE x IS NOT NULL)",
    "not in of required columns": "SELECT * FROM t WHERE b NOT IN (SELECT y FROM u)",
    "not in correlated": "SELECT * FROM t WHERE a NOT IN (SELECT x FROM u WHERE z = s)",
    "in rows": "SELECT * FROM t WHERE (a, b) IN (SELECT x, y FROM u)",
    "not in rows": "SELECT * FROM t WHERE (a, b) NOT IN (SELECT x, y FROM u)",
    "in of an expression": "SELECT * FROM t WHERE a + 1 IN (SELECT x FROM u WHERE y > b - 10)",
    "not in below OR": "SELECT a, b FROM t WHERE b > 25 OR a NOT IN (SELECT x FROM u WHERE y > 20)",
    "in of a constant": "SELECT 1 IN (SELECT x FROM u), 7 IN (SELECT y FROM u) FROM t",
    "any": "SELECT a, b > ANY (SELECT y FROM u WHERE x = a), b <= SOME (SELECT y FROM u) FROM t",
    "all": "SELECT a, b > ALL (SELECT y FROM u WHERE x = a), a < ALL (SELECT x FROM u), a >= ALL (SELECT p FROM e) FROM t",
    "equal any and all": "SELECT a = ANY (SELECT x FROM u), a <> ALL (SELECT x FROM u), a = ALL (SELECT x FROM u) FROM t",
    "unequal any": "SELECT a <> ANY (SELECT x FROM u WHERE y = b) FROM t",
    "any in WHERE": "SELECT * FROM t WHERE b >= ALL (SELECT y FROM u WHERE z = s)",
    "scalar": "SELECT a, (SELECT MAX(y) FROM u) AS m FROM t",
    "scalar of no rows": "SELECT a, (SELECT MAX(q) FROM e), (SELECT COUNT(*) FROM e), (SELECT q FROM e) FROM t",
    "scalar of one row": "SELECT a, (SELECT y FROM u WHERE y = 40) FROM t",
    "scalar in WHERE": "SELECT * FROM t WHERE b > (SELECT AVG(y) FROM u)",
    "scalar correlated": "SELECT a, (SELECT SUM(y) FROM u WHERE x = a) FROM t",
    "scalar count": "SELECT a, (SELECT COUNT(*) FROM u WHERE x = a), (SELECT COUNT(z) + 1 FROM u WHERE x = a) FROM t",
    "scalar count of an inequality": "SELECT a, b, (SELECT COUNT(*) FROM u WHERE y < b) FROM t",
    "scalar of two conditions": "SELECT (SELECT MAX(y) FROM u WHERE x = a AND y < b) FROM t",
    "scalar over an outer column": "SELECT a, (SELECT SUM(y + b) FROM u WHERE x = a) FROM t",
    "scalar with HAVING": "SELECT a, (SELECT SUM(y) FROM u WHERE x = a HAVING COUNT(*) = 1) FROM t",
    "scalar with ORDER BY and LIMIT": "SELECT a, (SELECT y FROM u WHERE x = a ORDER BY y DESC LIMIT 1) FROM t",
    "scalar without FROM": "SELECT a, (SELECT b + 1) FROM t",
    "scalar correlated in WHERE": "SELECT * FROM t WHERE b = (SELECT MAX(y) FROM u WHERE x = a)",
    "scalar in an expression": "SELECT COALESCE((SELECT MIN(y) FROM u WHERE x = a), -1) + b FROM t",
    "scalar of a join": "SELECT a, (SELECT COUNT(*) FROM u JOIN t AS t2 ON u.x = t2.a WHERE t2.b = t.b) FROM t",
    "scalar of a union":
        "SELECT a, (SELECT COUNT(*) FROM (SELECT x FROM u WHERE x = a UNION ALL SELECT y FROM u WHERE y = b) AS w)"
        " FROM t",
    "scalar of DISTINCT": "SELECT a, (SELECT COUNT(*) FROM (SELECT DISTINCT z FROM u WHERE x = a) AS w) FROM t",
    "nested exists":
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a AND EXISTS (SELECT 1 FROM t AS v WHERE v.s = u.z))",
    "nested through two levels":
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a AND y IN (SELECT b FROM t AS v WHERE v.s = t.s))",
    "nested scalar": "SELECT a, (SELECT COUNT(*) FROM u WHERE y > (SELECT AVG(b) FROM t AS v WHERE v.a = t.a)) FROM t",
    "having": "SELECT a, SUM(b) FROM t GROUP BY a HAVING SUM(b) > (SELECT MIN(y) FROM u)",
    "having correlated": "SELECT a, SUM(b) FROM t GROUP BY a HAVING EXISTS (SELECT 1 FROM u WHERE x = a)",
    "grouped select list": "SELECT s, COUNT(*), (SELECT MAX(y) FROM u WHERE z = s) FROM t GROUP BY s",
    "over an aggregate": "SELECT * FROM (SELECT a, SUM(b) AS m FROM t GROUP BY a) AS g WHERE m IN (SELECT y + y FROM u)",
    "of an updating query": "SELECT * FROM t WHERE b IN (SELECT SUM(y) FROM u GROUP BY x)",
    "not in an updating query": "SELECT * FROM t WHERE b NOT IN (SELECT MAX(y) FROM u GROUP BY z HAVING MAX(y) IS NOT NULL)",
    "in of DISTINCT": "SELECT DISTINCT s FROM t WHERE a IN (SELECT DISTINCT x FROM u)",
    "of a CTE":
        "WITH w AS (SELECT x, COUNT(*) AS n FROM u GROUP BY x) SELECT a, (SELECT n FROM w WHERE w.x = t.a AND n < 2) FROM t",
    "in ON": "SELECT a, y FROM t JOIN u ON x = a AND y IN (SELECT b FROM t)",
    "scalar in ON": "SELECT a, y FROM t JOIN u ON y < (SELECT MAX(b) FROM t AS v WHERE v.a = t.a)",
    "in ON of a LEFT JOIN": "SELECT a, y FROM t LEFT JOIN u ON x = a AND z NOT IN (SELECT s FROM t WHERE s = 'b')",
    "in ON of a LEFT JOIN correlated": "SELECT b, y FROM t LEFT JOIN u ON EXISTS (SELECT 1 FROM t AS v WHERE v.s = z) AND y < b",
    "in an aggregate": "SELECT s, SUM((SELECT MAX(y) FROM u WHERE x = a)), COUNT(*) FROM t GROUP BY s",
    "in FILTER": "SELECT s, COUNT(*) FILTER (WHERE a IN (SELECT x FROM u)), COUNT(a) FROM t GROUP BY s",
    "in a global aggregate": "SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM u WHERE x = a) THEN 1 ELSE 0 END) FROM t",
    "of a CASE operand": "SELECT CASE (SELECT COUNT(*) FROM u WHERE x = a) WHEN 2 THEN 'two' WHEN 0 THEN 'none' END FROM t",
    "between subqueries": "SELECT * FROM t WHERE b BETWEEN (SELECT MIN(y) FROM u) AND (SELECT AVG(y) FROM u)",
    "in an IN list": "SELECT * FROM t WHERE b IN (5, (SELECT MAX(y) FROM u WHERE x = a), (SELECT MIN(y) FROM u))",
    "a scalar operand of IN": "SELECT a, (SELECT MAX(y) FROM u WHERE x = a) IN (SELECT b FROM t) FROM t",
    "EXISTS of nothing correlated in a nested FROM":
        "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM (SELECT x, SUM(y) AS w FROM u GROUP BY x) AS g WHERE g.x = a AND g.w > b)",
    "correlated derived table": "SELECT a, (SELECT COUNT(*) FROM (SELECT y FROM u WHERE x = a) AS w) FROM t",
    "correlated semi join inside":
        "SELECT a, (SELECT COUNT(*) FROM u WHERE x IN (SELECT v.a FROM t AS v WHERE v.s = t.s)) FROM t",
    "correlated left join inside":
        "SELECT a, (SELECT COUNT(v.b) FROM u LEFT JOIN t AS v ON v.a = u.x AND v.b < t.b) FROM t",
    "ORDER BY an alias": "SELECT b, (SELECT COUNT(*) FROM u WHERE x = a) AS n FROM t ORDER BY n, b LIMIT 4",
    "ORDER BY a subquery": "SELECT b FROM t ORDER BY (SELECT COUNT(*) FROM u WHERE x = a), b LIMIT 4",
    "a name that both have": "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS v WHERE v.a = t.b / 10 AND b > 10)",
    "UNION of subqueries": "SELECT a FROM t WHERE a IN (SELECT x FROM u) UNION SELECT y FROM u WHERE y = ANY (SELECT b FROM t)",
    "unnest of an outer column": "SELECT b, (SELECT COUNT(*) FROM UNNEST(SPLIT(s, 'b')) AS w (c) WHERE c <> 'a') FROM t",
    "lateral unnest": "SELECT b, c FROM t, LATERAL (SELECT c || '!' AS c FROM UNNEST(SPLIT(s, 'b')) AS w (c)) AS q",
    "lateral": "SELECT a, b, y FROM t CROSS JOIN LATERAL (SELECT y FROM u WHERE x = a) AS q",
    "lateral left": "SELECT a, b, y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE x = a) AS q ON TRUE",
    "lateral after a comma": "SELECT a, m FROM t, LATERAL (SELECT MAX(y) AS m FROM u WHERE y < b) AS q",
    "lateral Top-N": "SELECT a, y FROM t, LATERAL (SELECT y FROM u WHERE x = a ORDER BY y LIMIT 1) AS q",
    "lateral Top-N of an inequality":
        "SELECT b, y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE y < b ORDER BY y DESC LIMIT 2) AS q ON TRUE",
    "lateral over outer columns": "SELECT a, w FROM t, LATERAL (SELECT b * y AS w FROM u WHERE x = a) AS q",
    "lateral left over outer columns":
        "SELECT a, w FROM t LEFT JOIN LATERAL (SELECT b + 1 AS w FROM u WHERE x = a) AS q ON TRUE",
    "lateral with a condition":
        "SELECT a, b, y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE x = a) AS q ON q.y > b",
    "lateral twice":
        "SELECT a, y, n FROM t, LATERAL (SELECT y FROM u WHERE x = a) AS q,"
        " LATERAL (SELECT COUNT(*) AS n FROM u WHERE u.y < q.y) AS r",
    "lateral grouped": "SELECT a, z, n FROM t, LATERAL (SELECT z, COUNT(*) AS n FROM u WHERE x = a GROUP BY z) AS q",
    "lateral over grouping sets":
        "SELECT a, z, n FROM t LEFT JOIN LATERAL (SELECT z, COUNT(*) AS n FROM u WHERE x = a GROUP BY CUBE (z)) AS q ON n > 0",
    "in PARTITION BY": "SELECT b, SUM(b) OVER (PARTITION BY (SELECT MAX(y) FROM u WHERE x = a)) FROM t",
    "in the argument of an OVER": "SELECT b, SUM((SELECT MAX(y) FROM u WHERE x = a)) OVER (PARTITION BY s) FROM t",
    "in QUALIFY":
        "SELECT b FROM t QUALIFY RANK() OVER (ORDER BY b) <= (SELECT COUNT(*) FROM u WHERE x < 2) AND EXISTS"
        " (SELECT 1 FROM u WHERE z = s)",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_subqueries_have_the_rows_that_duckdb_has_for_the_text(name: str, differential: Differential) -> None:
    rows = differential(QUERIES[name], TABLES, parallelism=2, batch_rows=3)
    with duckdb.connect() as connection:
        for table, schema in SCHEMAS.items():
            connection.register(table, arrow_table(schema, TABLES[table][1]))
        answer = connection.sql(QUERIES[name]).to_arrow_table()
    # SUM of INT is a HUGEINT there.
    plain = [c.cast(pa.int64()) if c.type == pa.decimal128(38, 0) else c for c in answer.columns]
    expected = rows_of(pa.Table.from_arrays(plain, names=[f"c{i}" for i in range(len(plain))]))
    assert_same_rows(rows, expected)


def test_a_scalar_subquery_of_several_rows_fails_with_a_sentence(engine: Engine) -> None:
    engine.configure(1, 100)
    for name, (columns, rows) in TABLES.items():
        engine.create(name, columns, rows, 1)
    with pytest.raises(JobError, match="a subquery that is used as a value has 2 rows"):
        engine.run("SELECT a, (SELECT y FROM u WHERE x = a) FROM t")
    (found,) = engine.run("SELECT b, (SELECT y FROM u WHERE x = a) FROM t WHERE a > 2")
    assert sorted(rows_of(found.table)) == [(5, None), (30, None)]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_of_a_scalar_subquery_that_stay_fail_at_the_end_of_their_changes(
    parallelism: int, engine: Engine
) -> None:
    engine.configure(parallelism, 1)
    for name, (columns, rows) in TABLES.items():
        engine.create(name, columns, rows, 1)
    lowest = "(SELECT x, y FROM (SELECT x, y, ROW_NUMBER() OVER (PARTITION BY x ORDER BY y) AS n FROM u) WHERE n <= 2)"
    with pytest.raises(JobError, match=r"a subquery that is used as a value has \d rows"):
        engine.run(f"SELECT a, (SELECT y FROM {lowest} AS q WHERE x = a) FROM t")
    (found,) = engine.run(f"SELECT b, (SELECT y FROM {lowest} AS q WHERE x = a) FROM t WHERE a > 2")
    assert sorted(rows_of(found.table)) == [(5, None), (30, None)]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (
            "(a, b) IN ((1, 10), (2, 5), (NULL, 40))",
            "a = 1 AND b = 10 OR a = 2 AND b = 5 OR a = NULL AND b = 40",
        ),
        ("(a, s) NOT IN ((3, 'x'), (5, 'c'))", "NOT (a = 3 AND s = 'x' OR a = 5 AND s = 'c')"),
        ("(a, b) = (1, 10)", "a = 1 AND b = 10"),
        ("ROW(a, s) <> (2, 'b')", "a <> 2 OR s <> 'b'"),
    ],
)
def test_rows_of_values_are_compared_value_by_value(rows: str, columns: str, engine: Engine) -> None:
    engine.configure(1, 100)
    engine.create("t", *TABLES["t"], 1)
    found = [engine.run(f"SELECT {text}, a, b FROM t")[0] for text in (rows, columns)]
    assert sorted(map(repr, rows_of(found[0].table))) == sorted(map(repr, rows_of(found[1].table)))
