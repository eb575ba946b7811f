"""A subquery that is used as a value and has several rows fails the job. What others answer stands in tests/sql."""

from __future__ import annotations

import pytest
from oracle import Engine, Tables, rows_of

from sqlstream.errors import JobError

T = [(1, 10, "a"), (2, 20, "b"), (3, 30, None), (None, 40, "a"), (2, 20, "b"), (5, 5, "c"), (None, 0, None)]
U = [(1, 10, "a"), (1, 30, "b"), (2, 20, None), (4, 40, "c"), (None, 50, "a"), (2, 5, "b")]
TABLES: Tables = {
    "t": ("a INT, b INT NOT NULL, s STRING", T),
    "u": ("x INT, y INT NOT NULL, z STRING", U),
    "e": ("p INT, q INT NOT NULL", []),
}


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
