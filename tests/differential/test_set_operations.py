"""INTERSECT and EXCEPT have the rows that DuckDB has for the same text."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from oracle import Differential, Tables, arrow_table, assert_same_rows, rows_of

T = [(1, "a"), (1, "a"), (1, "a"), (2, None), (2, None), (None, None), (3, "c"), (4, "d"), (4, "d")]
U = [(1, "a"), (1, "a"), (2, None), (None, None), (None, None), (4, "x"), (5, "e")]
TABLES: Tables = {"t": ("a INT, s STRING", T), "u": ("x INT, z STRING", U), "e": ("p INT, q STRING", [])}
SCHEMAS = {
    name: pa.schema([(columns[0], pa.int32()), (columns[1], pa.string())])
    for name, columns in (("t", "as"), ("u", "xz"), ("e", "pq"))
}
QUERIES = {
    "intersect": "SELECT * FROM t INTERSECT SELECT * FROM u",
    "intersect all": "SELECT * FROM t INTERSECT ALL SELECT * FROM u",
    "except": "SELECT * FROM t EXCEPT SELECT * FROM u",
    "except all": "SELECT * FROM t EXCEPT ALL SELECT * FROM u",
    "with no rows": "SELECT * FROM t EXCEPT ALL SELECT * FROM e",
    "of no rows": "SELECT * FROM e EXCEPT SELECT * FROM t",
    "intersect no rows": "SELECT * FROM t INTERSECT ALL SELECT * FROM e",
    "with itself": "SELECT a FROM t INTERSECT ALL SELECT a FROM t",
    "without itself": "SELECT a FROM t EXCEPT SELECT a FROM t",
    "values": "SELECT a FROM t INTERSECT VALUES (1), (3), (9)",
    "values first": "VALUES (1), (1), (2) EXCEPT ALL SELECT x FROM u",
    "types": "SELECT a FROM t EXCEPT SELECT CAST(x AS BIGINT) FROM u",
    "intersect binds tighter": "SELECT a FROM t UNION ALL SELECT x FROM u INTERSECT SELECT a FROM t",
    "intersect before except": "SELECT a FROM t EXCEPT SELECT x FROM u INTERSECT SELECT 1",
    "parentheses": "(SELECT a FROM t UNION SELECT x FROM u) INTERSECT SELECT a FROM t",
    "parentheses on the right": "SELECT a FROM t EXCEPT (SELECT x FROM u EXCEPT SELECT 2)",
    "chain": "SELECT a FROM t EXCEPT SELECT x FROM u EXCEPT SELECT 3",
    "of updating queries":
        "SELECT s, COUNT(*) FROM t GROUP BY s EXCEPT ALL SELECT z, COUNT(*) FROM u GROUP BY z",
    "intersect of updating queries":
        "SELECT a, COUNT(*) FROM t GROUP BY a INTERSECT SELECT x, COUNT(*) + 1 FROM u GROUP BY x",
    "aggregated": "SELECT COUNT(*), SUM(a) FROM (SELECT a FROM t EXCEPT ALL SELECT x FROM u) AS w",
    "ordered": "SELECT a FROM t INTERSECT ALL SELECT x FROM u ORDER BY a DESC NULLS LAST LIMIT 2",
    "in a subquery": "SELECT * FROM t WHERE a IN (SELECT x FROM u EXCEPT SELECT a FROM t WHERE s = 'd')",
    "correlated": "SELECT * FROM t WHERE EXISTS (SELECT x FROM u WHERE x = a INTERSECT SELECT x FROM u WHERE z = s)",
    "in WITH": "WITH w AS (SELECT a FROM t EXCEPT SELECT 1) SELECT w.a, COUNT(*) FROM w JOIN t ON w.a = t.a GROUP BY w.a",
    "several columns": "SELECT a, s FROM t WHERE a < 3 INTERSECT SELECT x, z FROM u WHERE z IS NULL",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_set_operations_have_the_rows_that_duckdb_has_for_the_text(
    name: str, differential: Differential
) -> None:
    rows = differential(QUERIES[name], TABLES, parallelism=2, batch_rows=3)
    with duckdb.connect() as connection:
        for table, schema in SCHEMAS.items():
            connection.register(table, arrow_table(schema, TABLES[table][1]))
        answer = connection.sql(QUERIES[name]).to_arrow_table()
    plain = [c.cast(pa.int64()) if c.type == pa.decimal128(38, 0) else c for c in answer.columns]
    expected = rows_of(pa.Table.from_arrays(plain, names=[f"c{i}" for i in range(len(plain))]))
    assert_same_rows(rows, expected)
