"""Rows of more columns than a machine word has bits are keyed, joined, ranked and sorted as DuckDB does it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from oracle import Row, Tables
from sql_cases import today
from sql_oracles import check_generated, generated
from sql_runs import Draw

COLUMNS = 130
NAMES = ", ".join(f"c{i}" for i in range(COLUMNS))
LAST = f"c{COLUMNS - 1}"
VALUES = (0, 1, None)
TEXTS = ("", "a", "more than eight bytes", None)


def some_rows(count: int, columns: int, seed: int) -> list[Row]:
    """Pairs of rows that differ in one column alone, if in any: a key that forgets a column, or its NULL, has other groups."""
    fate = random.Random(seed)
    rows: list[Row] = []
    for id in range(count):
        values = [fate.choice(VALUES if i % 3 else TEXTS) for i in range(columns)]
        if id % 2:
            values = list(rows[-1][1:])
            changed = fate.choice([0, 63, 64, 65, columns - 2, columns - 1, None])
            if changed is not None:
                values[changed] = fate.choice(VALUES if changed % 3 else TEXTS)
        rows.append((id, *values))
    return rows


def declared(columns: int) -> str:
    return ", ".join(["id INT", *(f"c{i} {'INT' if i % 3 else 'STRING'}" for i in range(columns))])


TABLES: Tables = {
    "a": (declared(COLUMNS), some_rows(24, COLUMNS, 1)),
    "b": (declared(COLUMNS), some_rows(24, COLUMNS, 1)[12:] + some_rows(12, COLUMNS, 2)),
}
LATEST = f"SELECT id, {', '.join(f'MAX(c{i}) AS c{i}' for i in range(COLUMNS))} FROM a GROUP BY id"
"""Rows that are updated."""
QUERIES = {
    "distinct": f"SELECT DISTINCT {NAMES} FROM a",
    "group": f"SELECT {NAMES}, COUNT(*) AS n, SUM(id) AS total FROM a GROUP BY {NAMES}",
    "group of updated rows": f"SELECT {NAMES}, COUNT(*) AS n FROM ({LATEST}) GROUP BY {NAMES}",
    "count of distinct rows": f"SELECT COUNT(DISTINCT ROW({NAMES})) AS n FROM ({LATEST})",
    "join": f"SELECT a.id, b.id AS other FROM a JOIN b ON {' AND '.join(f'a.c{i} = b.c{i}' for i in (62, 64, 65))}",
    "join by all columns": f"""
        SELECT a.id, b.id AS other FROM a JOIN b
        ON {" AND ".join(f"a.c{i} IS NOT DISTINCT FROM b.c{i}" for i in range(COLUMNS))}""",
    "left join of updated rows": f"SELECT l.*, b.{LAST} AS x FROM ({LATEST}) AS l LEFT JOIN b ON l.id = b.id + 12",
    "intersect": f"SELECT {NAMES} FROM a INTERSECT ALL SELECT {NAMES} FROM b",
    "except": f"SELECT * FROM ({LATEST}) EXCEPT SELECT * FROM b",
    "union": "SELECT * FROM a UNION SELECT * FROM b",
    "best rows": f"""
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c1 ORDER BY {LAST}, id) AS n FROM a) WHERE n <= 2""",
    "best of updated rows": f"""
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c1 ORDER BY c64 DESC, {LAST}, id) AS n FROM ({LATEST}))
        WHERE n <= 2""",
    "last row of each key": f"""
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {NAMES} ORDER BY id DESC) AS n FROM a) WHERE n = 1""",
    "over updated rows": f"SELECT *, SUM(id) OVER (PARTITION BY c1, c64 ORDER BY id) AS total FROM ({LATEST})",
    "sorted": f"SELECT * FROM ({LATEST}) ORDER BY c64, {LAST} DESC, id LIMIT 9",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_rows_of_many_columns_are_those_of_duckdb(name: str, tmp_path: Path) -> None:
    # A draw of its own would take as long as all the others.
    alone = Draw(batch_rows=1) if (today() - list(QUERIES).index(name)) % 5 == 0 else None
    assert check_generated(generated(name, QUERIES[name], TABLES), tmp_path, alone).rows.num_rows


def test_a_thousand_columns_are_grouped_and_joined_as_in_duckdb(tmp_path: Path) -> None:
    names = ", ".join(f"c{i}" for i in range(1000))
    tables: Tables = {"a": (declared(1000), some_rows(12, 1000, 3))}
    for query in (
        f"SELECT {names}, COUNT(*) AS n, MIN(id) AS least FROM a GROUP BY {names}",
        "SELECT l.*, r.c999 AS x FROM a AS l LEFT JOIN a AS r ON l.id = r.id + 1",
    ):
        check_generated(generated("thousand", query, tables), tmp_path)
