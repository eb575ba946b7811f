"""The rows that EXPLAIN WHY names make the row: without all others the query has it again, and as often."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from oracle import database
from planner_harness import Planner

from sqlstream.arrow import to_arrow_schema
from sqlstream.client.verification.contributing import key_conditions, literal
from sqlstream.errors import UserError
from sqlstream.expressions import conjunction
from sqlstream.planner.lower.duckdb import lower_duckdb
from sqlstream.planner.relational.nodes import Filter, RelationalNode
from sqlstream.planner.why import contributions, lost_rows

COLUMNS = "id INT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3)"
TABLES = f"""
CREATE TABLE a ({COLUMNS}, WATERMARK FOR rt AS rt) WITH ('connector' = 'files', 'path' = 'a', 'format' = 'json');
CREATE TABLE b ({COLUMNS}, WATERMARK FOR rt AS rt) WITH ('connector' = 'files', 'path' = 'b', 'format' = 'json');
CREATE VIEW big AS SELECT * FROM a WHERE v > 2;
"""
QUERIES = {
    "projection": "SELECT k, v + 1 FROM a",
    "filter": "SELECT id, k FROM big WHERE g IS NOT NULL OR k = 'x'",
    "filter of a projection": "SELECT * FROM (SELECT id, v * 2 AS w FROM a) WHERE w > 6",
    "inner join": "SELECT a.id, b.id, a.k FROM a JOIN b ON a.k = b.k AND a.v < b.v",
    "join of values": "SELECT a.k, b.v FROM a JOIN b ON a.g = b.g",
    "left join": "SELECT a.id, b.id FROM a LEFT JOIN b ON a.k = b.k AND b.v > a.v",
    "right join": "SELECT a.id, b.id FROM a RIGHT JOIN b ON a.k = b.k AND b.v > a.v",
    "full join": "SELECT a.k, b.g FROM a FULL JOIN b ON a.v = b.v",
    "self join": "SELECT x.id, y.id FROM a x JOIN a y ON x.v = y.v + 1",
    "semi join": "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE v > 1)",
    "exists": "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v > a.v)",
    "anti join": "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.v > a.v)",
    "group": "SELECT k, COUNT(*), SUM(v), MAX(g) FROM a GROUP BY k",
    "group of NULL": "SELECT g, COUNT(*) FROM a GROUP BY g",
    "one group": "SELECT COUNT(*), SUM(v) FROM a WHERE g = 1",
    "having": "SELECT k, SUM(v) AS s FROM a GROUP BY k HAVING COUNT(*) > 1",
    "group of a join": "SELECT a.k, COUNT(*), SUM(b.v) FROM a LEFT JOIN b ON a.id = b.id GROUP BY a.k",
    "group of groups": "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) GROUP BY n",
    "distinct": "SELECT DISTINCT k, g FROM a",
    "union": "SELECT k, v FROM a UNION ALL SELECT k, v FROM b WHERE v > 0",
    "union distinct": "SELECT k FROM a UNION SELECT k FROM b",
    "intersection": "SELECT k FROM a INTERSECT SELECT k FROM b",
    "tumbling windows": "SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(rt), "
    "INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end",
    "hopping windows": "SELECT window_start, COUNT(*) FROM TABLE(HOP(TABLE a, DESCRIPTOR(rt), INTERVAL '1' SECOND, "
    "INTERVAL '3' SECOND)) GROUP BY window_start, window_end",
    "sessions": "SELECT k, window_start, window_end, COUNT(*) FROM TABLE(SESSION(TABLE a PARTITION BY k, "
    "DESCRIPTOR(rt), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end",
    "rows of sessions": "SELECT id, window_start, window_end FROM TABLE(SESSION(TABLE a PARTITION BY k, "
    "DESCRIPTOR(rt), INTERVAL '1' SECOND))",
    "last row": "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY rt DESC, id) AS n FROM a) "
    "WHERE n = 1",
    "first three": "SELECT id, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, id) AS n FROM a) "
    "WHERE n <= 3",
    "sorted": "SELECT id, v FROM a ORDER BY v, id LIMIT 4",
    "over": "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY rt, id) FROM a",
}  # fmt: skip
ROWS = pa.schema(
    [("id", pa.int32()), ("k", pa.string()), ("g", pa.int32()), ("v", pa.int64()), ("rt", pa.timestamp("ms"))]
)
SEEDS = 4
ANSWERS_MAX = 5


def table(fate: random.Random) -> pa.Table:
    rows = [
        {
            "id": id,
            "k": fate.choice(["x", "y", "z", None]),
            "g": fate.choice([0, 1, None]),
            "v": fate.randint(0, 6),
            "rt": fate.randint(0, 9_000),
        }
        for id in range(fate.randint(3, 14))
    ]
    return pa.Table.from_pylist(rows, ROWS)


def planned(sql: str) -> RelationalNode:
    planner = Planner()
    planner.run(TABLES)
    return planner.bind(sql)


def lowered(node: RelationalNode) -> str:
    return lower_duckdb(node, {"a": "a", "b": "b"})


def answer(node: RelationalNode, tables: dict[str, pa.Table], text: str = "") -> pa.Table:
    """`text`: what `lowered` has for the node, where it is asked for often."""
    with database().cursor() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        found = connection.sql(text or lowered(node)).arrow()
        found = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
    return found.cast(to_arrow_schema(node.schema))


def rows_of(found: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("name", QUERIES)
def test_the_rows_that_are_named_are_enough_for_the_row(name: str) -> None:
    node, is_traced = planned(QUERIES[name]), False
    text = lowered(node)
    for seed in range(SEEDS):
        fate = random.Random(f"{name} {seed}")
        tables = {"a": table(fate), "b": table(fate)}
        found = answer(node, tables, text)
        whole = rows_of(found)
        for place in fate.sample(range(found.num_rows), min(ANSWERS_MAX, found.num_rows)):
            row = tuple(column[place] for column in found.columns)
            values = {i: literal(value, node.schema.types[i]) for i, value in enumerate(row)}
            wanted = conjunction([c.expression for c in key_conditions(node.schema.types, values)])
            assert wanted is not None
            asked = Filter(input=node, condition=wanted, schema=node.schema)
            kept = {name: rows.slice(0, 0) for name, rows in tables.items()}
            for each in contributions(asked):
                kept[each.scan.table.path.name] = answer(each.rows, tables)
            as_value = tuple(value.as_py() for value in row)
            assert rows_of(answer(node, kept, text))[as_value] == whole[as_value], (seed, as_value, kept)
            for name_of, rows in kept.items():
                assert rows_of(rows) <= rows_of(tables[name_of])
            is_traced = True
    assert is_traced


def ids(sql: str, tables: dict[str, pa.Table]) -> dict[str, list[int]]:
    return {
        each.scan.table.path.name: sorted(answer(each.rows, tables).column("id").to_pylist())
        for each in contributions(planned(sql))
    }


FIXED = pa.Table.from_pylist(
    [
        {"id": id, "k": k, "g": id % 2, "v": v, "rt": 1_000 * id}
        for id, (k, v) in enumerate([("x", 1), ("y", 2), ("x", 3), ("z", 4), ("x", 5)])
    ],
    ROWS,
)


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("SELECT * FROM (SELECT k, SUM(v) AS s FROM big GROUP BY k) WHERE k = 'x'", {"a": [2, 4]}),
        ("SELECT a.id FROM a JOIN b ON a.v = b.v + 1 WHERE a.k = 'x'", {"a": [2, 4], "b": [1, 3]}),
        ("SELECT k FROM a WHERE id = 2", {"a": [2]}),
        ("SELECT x.id FROM a x JOIN a y ON x.v = y.v + 1 WHERE x.id = 1", {"a": [0, 1]}),
        (
            "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS n FROM a) WHERE n = 1 AND v = 2",
            {"a": [1]},
        ),
        ("SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.v = a.v + 1) AND id = 4", {"a": [4]}),
    ],
)  # fmt: skip
def test_no_other_rows_are_named(sql: str, named: dict[str, list[int]]) -> None:
    assert ids(sql, {"a": FIXED, "b": FIXED}) == named


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT k FROM a WHERE v > RAND()", "a function that has another value each time"),
        ("SELECT k, g, COUNT(*) FROM a GROUP BY ROLLUP (k, g)", "GROUPING SETS, ROLLUP or CUBE"),
        ("SELECT id FROM a ORDER BY id LIMIT 2 OFFSET 1", "OFFSET"),
    ],
)
def test_what_is_not_traced_is_refused_by_name(sql: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        contributions(planned(sql))
    assert (caught.value.code, caught.value.message) == ("SS3483", f"EXPLAIN WHY does not trace {what}")


@pytest.mark.parametrize(
    ("sql", "lines"),
    [
        ("SELECT * FROM big WHERE id = 0", ["filtered: 1 row came to WHERE, and it keeps none: (v > 2) keeps 0 rows"]),
        ("SELECT * FROM big WHERE id = 9", ["table \"a\" has no row where (id = 9)"]),
        ("SELECT * FROM big WHERE id = 2", ["nothing is lost: computed from all rows of its tables, the query has 1 row"]),
        (
            "SELECT * FROM (SELECT a.id, b.v FROM a JOIN b ON a.v = b.v + 9) WHERE id = 3",
            ["no partner: 1 row of the left side and 5 rows of the right side came to the INNER join, and none of them meet"],
        ),
        (
            "SELECT * FROM (SELECT a.id, b.v FROM a JOIN b ON a.id = b.id) WHERE id = 7",
            ["table \"a\" has no row where (id = 7)", "table \"b\" has no row where (id = 7)"],
        ),
        (
            "SELECT * FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k HAVING COUNT(*) > 2) WHERE k = 'y'",
            ["filtered: 1 row came to WHERE, and it keeps none: (EXPR$0 > 2) keeps 0 rows"],
        ),
        (
            "SELECT * FROM (SELECT id, k FROM a WHERE v > 1 UNION ALL SELECT id, k FROM b WHERE v > 4) WHERE id = 0",
            [
                "filtered: 1 row came to WHERE, and it keeps none: (v > 1) keeps 0 rows",
                "filtered: 1 row came to WHERE, and it keeps none: (v > 4) keeps 0 rows",
            ],
        ),
        (
            "SELECT * FROM a JOIN b ON a.id = b.id WHERE a.v + b.v = 99",
            ["5 rows of the left side and 5 rows of the right side came to the INNER join, and none of its rows is as asked for"],
        ),
        (
            "SELECT * FROM a LEFT JOIN b ON a.id = b.id + 9 WHERE b.v = 3",
            ["no partner: 5 rows of the left side and 1 row of the right side came to the LEFT join, and none of them meet"],
        ),
        (
            "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id) AND k = 'x'",
            ["partners: 3 rows of the left side and 5 rows of the right side came to the ANTI join,"
             " and each of the left side meets one of the right side"],
        ),
        (
            "SELECT * FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) WHERE k = 'x' AND n = 4",
            ["3 rows came to Aggregate, and none of its rows is as asked for"],
        ),
        (
            "WITH RECURSIVE r (n) AS (SELECT 1 UNION SELECT b.id FROM r JOIN b ON b.v = n) SELECT * FROM r WHERE n = 9",
            ["WITH RECURSIVE r: it starts with 1 row, and no round makes a row where (n = 9)"],
        ),
        (
            "WITH RECURSIVE r (n) AS (SELECT id FROM a WHERE id = 9 UNION SELECT b.id FROM r JOIN b ON b.v = n) SELECT * FROM r",
            ["filtered: 5 rows came to WHERE, and it keeps none: (id = 9) keeps 0 rows"],
        ),
        (
            "WITH MUTUALLY RECURSIVE r (n INT) AS (SELECT 1 UNION SELECT n + 1 FROM q WHERE n < 3),"
            " q (n INT) AS (SELECT n FROM r)"
            " SELECT * FROM q WHERE n = 9",
            ["WITH MUTUALLY RECURSIVE r, q: no round makes a row where (n = 9)"],
        ),
    ],
)  # fmt: skip
def test_what_is_not_there_is_lost_at_the_first_operator_that_hands_none_on(
    sql: str, lines: list[str]
) -> None:
    tables = {"a": FIXED, "b": FIXED}
    assert lost_rows(planned(sql), lambda node: answer(node, tables).num_rows) == lines
