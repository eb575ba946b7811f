"""CREATE TABLE … AS: the table has the columns and the rows of its query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from oracle import Engine, Finished

from sqlstream.errors import UserError

SOURCE = """
    CREATE TABLE t (id INT, name STRING, `when` TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR `when` AS `when`)
    WITH ('connector' = 'datagen', 'number-of-rows' = '5', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
          'fields.id.end' = '5');
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path / "engine")
    made.configure(1, 65536)
    yield made
    made.close()


def stored(name: str, directory: Path) -> str:
    return f"WITH ('connector' = 'filesystem', 'path' = '{directory}/{name}', 'format' = 'json')"


def rows(finished: Finished) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in finished.table.to_pylist())


def test_a_table_has_the_columns_and_rows_of_its_query(engine: Engine, tmp_path: Path) -> None:
    jobs = engine.run(
        SOURCE + f"CREATE TABLE a {stored('a', tmp_path)} AS SELECT id, id * 2 AS twice, `when` FROM t;"
        "SELECT id, twice FROM a;"
    )
    assert rows(jobs[-1]) == [(i, 2 * i) for i in range(1, 6)]
    assert str(engine.table("a").schema) == "id INT, twice INT, when TIMESTAMP(3)"


def test_columns_that_are_written_come_first_with_their_types(engine: Engine, tmp_path: Path) -> None:
    jobs = engine.run(
        SOURCE
        + f"""
        CREATE TABLE a (id BIGINT, more AS id + 10, PRIMARY KEY (id) NOT ENFORCED) {stored("a", tmp_path)}
        AS SELECT name IS NULL AS b, id FROM t;
        SELECT * FROM a;
        CREATE TABLE c (z, id) {stored("c", tmp_path)} AS SELECT id, id * 3 AS z FROM t;
        SELECT * FROM c;
        """
    )
    assert rows(jobs[0]) == [(i, i + 10, False) for i in range(1, 6)]
    assert str(engine.table("a").schema) == "id BIGINT NOT NULL, more BIGINT, b BOOLEAN NOT NULL"
    assert rows(jobs[1]) == [(3 * i, i) for i in range(1, 6)]


def test_a_table_that_is_there_is_left_alone_or_replaced(engine: Engine, tmp_path: Path) -> None:
    jobs = engine.run(
        SOURCE
        + f"""
        CREATE TABLE a {stored("a", tmp_path)} AS SELECT 1 AS x;
        CREATE TABLE IF NOT EXISTS a {stored("a", tmp_path)} AS SELECT 2 AS y;
        SELECT * FROM a;
        CREATE OR REPLACE TABLE a {stored("b", tmp_path)} AS SELECT 3 AS y;
        SELECT * FROM a;
        REPLACE TABLE a {stored("c", tmp_path)} AS SELECT y + 1 AS z FROM a;
        SELECT * FROM a;
        """
    )
    assert [rows(job) for job in jobs] == [[(1,)], [(3,)], [(4,)]]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE a {} AS SELECT nope FROM t", 'column "nope" does not exist'),
        ("CREATE TABLE a {} AS SELECT id, id FROM t", 'the query has two columns "id"'),
        ("CREATE TABLE a {} AS SELECT NULL AS n", 'column "n" of the query has no type'),
        ("CREATE TABLE a (x, id) {} AS SELECT id FROM t", 'the query has no column "x"'),
        ("CREATE TABLE a (id) {} AS SELECT id, name FROM t", '"name" is missing'),
        ("CREATE TABLE a (id BOOLEAN) {} AS SELECT id FROM t", "cannot become BOOLEAN"),
        ("CREATE TABLE a (id, name STRING) {} AS SELECT id FROM t", 'column "id" has no type'),
        ("CREATE TABLE t {} AS SELECT 1 AS x", '"t" exists already'),
        ("CREATE TABLE a {} AS SELECT id, COUNT(*) AS c FROM t GROUP BY id", "update and delete changes"),
    ],
)
def test_nothing_is_created_when_the_query_does_not_fit(
    statement: str, message: str, engine: Engine, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as raised:
        engine.run(SOURCE + statement.format(stored("a", tmp_path)) + ";")
    assert message in raised.value.message
    assert raised.value.span is not None
    if " TABLE a" in statement:
        with pytest.raises(UserError, match="does not exist"):
            engine.run("SELECT * FROM a;")
