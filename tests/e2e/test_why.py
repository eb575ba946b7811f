"""EXPLAIN WHY and EXPLAIN WHY NOT of a session: over tables that its jobs fill, views, and tables that never end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlstream
from sqlstream.client.dbapi.errors import DataError, ProgrammingError

SCRIPT = """
CREATE TABLE orders (id INT, who STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '{path}/orders', 'format' = 'csv');
CREATE TABLE people (name STRING, city STRING)
  WITH ('connector' = 'filesystem', 'path' = '{path}/people', 'format' = 'csv');
CREATE TABLE totals (who STRING, start_ts TIMESTAMP(3), total BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '{path}/totals', 'format' = 'json');
CREATE TABLE known (who STRING, city STRING, total BIGINT)
  WITH ('connector' = 'filesystem', 'path' = '{path}/known', 'format' = 'json');
CREATE TABLE endless (id INT) WITH ('connector' = 'datagen');
"""
TOTALS = """INSERT INTO totals SELECT who, window_start, SUM(amount)
  FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND))
  WHERE amount > 0 GROUP BY who, window_start, window_end"""
KNOWN = "INSERT INTO known SELECT who, city, total FROM totals JOIN people ON who = name"


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[sqlstream.Cursor]:
    minute = "2024-01-01 00:00:"
    rows = [
        (1, "ann", 10, 1),
        (2, "bob", 20, 2),
        (3, "ann", 30, 9),
        (4, "cid", -5, 11),
        (5, "ann", 7, 12),
        (6, "ann", 1, 3),
    ]
    for folder in ("orders", "people"):
        (tmp_path / folder).mkdir()
    (tmp_path / "orders" / "one").write_text(
        "".join(f"{id},{who},{n},{minute}{s:02}\n" for id, who, n, s in rows)
    )
    (tmp_path / "people" / "one").write_text("ann,Bern\nbob,Rom\n")
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in SCRIPT.format(path=tmp_path).split(";\n")[:-1]:
            cursor.execute(statement)
        cursor.execute("SET 'execution.batch-rows' = '1'")
        cursor.execute("SET 'table.dml-sync' = 'true'")
        for statement in (TOTALS, KNOWN):
            cursor.execute(statement)
        yield cursor


def said(cursor: sqlstream.Cursor, statement: str) -> str:
    cursor.execute(statement)
    return "\n".join(str(row[0]) for row in cursor.fetchall())


def test_a_row_is_traced_through_the_tables_that_jobs_fill_to_the_files(cursor: sqlstream.Cursor) -> None:
    text = said(cursor, "EXPLAIN WHY SELECT * FROM known WHERE who = 'ann' AND total > 20")
    assert "1 row of the query, made of:" in text
    # The late one counts, as it is a row of the table.
    lines = [line for line in text.splitlines() if "/orders/one" in line]
    assert [int(line.split("|")[1]) for line in lines] == [1, 3, 6]
    assert "/people/one" in text
    assert "bob" not in text


def test_what_was_lost_is_told_with_what_the_job_has_dropped(cursor: sqlstream.Cursor) -> None:
    assert said(cursor, "EXPLAIN WHY NOT SELECT * FROM totals WHERE who = 'cid'").splitlines()[0] == (
        "filtered: 1 row came to WHERE, and it keeps none: (amount > 0) keeps 0 rows"
    )
    text = said(cursor, "EXPLAIN WHY NOT SELECT * FROM totals WHERE who = 'ann' AND total = 41")
    first, second = text.splitlines()
    assert first == "nothing is lost: computed from all rows of its tables, the query has 1 row"
    assert second.endswith("which fills the table, has dropped 1 late row")


def test_a_table_that_never_ends_is_refused(cursor: sqlstream.Cursor) -> None:
    with pytest.raises(ProgrammingError, match="SS3482"):
        cursor.execute("EXPLAIN WHY SELECT * FROM endless WHERE id = 1")


def test_a_table_whose_rows_were_changed_or_that_is_another_one_stands_for_itself(
    cursor: sqlstream.Cursor, tmp_path: Path
) -> None:
    why = "EXPLAIN WHY SELECT * FROM known"
    for statement, files in (
        ("INSERT INTO known VALUES ('eve', 'Paris', 1)", {"orders", "people"}),
        ("DELETE FROM known WHERE who = 'bob'", {"known"}),
        (KNOWN, {"known"}),
        (KNOWN.replace("INTO", "OVERWRITE"), {"orders", "people"}),
        ("TRUNCATE TABLE known", set()),
        (KNOWN, {"orders", "people"}),
    ):
        cursor.execute(statement)
        found = {line.split("/")[-2] for line in said(cursor, why).splitlines() if line.count("/") > 1}
        assert found == files, statement
    cursor.execute("DROP TABLE known")
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/people', 'format' = 'csv'"
    cursor.execute(f"CREATE TABLE known (who STRING, town STRING) WITH ({options})")
    assert 'table "known": 2 rows contribute' in said(cursor, why)


def test_rows_that_are_made_of_no_table_are_told_and_one_is_always_shown(cursor: sqlstream.Cursor) -> None:
    assert said(cursor, "EXPLAIN WHY VALUES (1)") == "1 row of the query, made of:\nno row of a table"
    cursor.execute("SET 'sqlstream.verify.contributing-rows-max' = '0'")
    assert said(cursor, "EXPLAIN WHY SELECT * FROM people").startswith("1 and more rows of the query")


def test_an_error_in_the_statement_that_fills_a_table_has_no_place_in_this_one(
    cursor: sqlstream.Cursor,
) -> None:
    with pytest.raises(DataError, match=r"\^"):
        cursor.execute("INSERT INTO known SELECT who, who, CAST(who AS BIGINT) FROM orders")
    with pytest.raises(DataError, match="cannot cast") as caught:
        said(cursor, "EXPLAIN WHY SELECT * FROM known")
    assert "^" not in str(caught.value)


def test_a_column_with_the_name_of_a_place_is_itself(cursor: sqlstream.Cursor, tmp_path: Path) -> None:
    options = f"'connector' = 'filesystem', 'path' = '{tmp_path}/people', 'format' = 'csv'"
    cursor.execute(f"CREATE TABLE odd (`file.path` STRING, town STRING) WITH ({options})")
    text = said(cursor, "EXPLAIN WHY SELECT * FROM odd WHERE town = 'Rom'")
    assert [line.split() for line in text.splitlines() if "bob" in line] == [["|", "bob", "|", "Rom", "|"]]


def test_of_inserts_into_a_table_with_a_key_the_last_one_made_the_row(
    cursor: sqlstream.Cursor, tmp_path: Path
) -> None:
    cursor.execute(
        "CREATE TABLE latest (total BIGINT, who STRING, PRIMARY KEY (who) NOT ENFORCED)"
        f" WITH ('connector' = 'duckdb', 'path' = '{tmp_path}/latest.duckdb')"
    )
    cursor.execute("CREATE VIEW few AS SELECT * FROM orders WHERE id < 4")
    cursor.execute("INSERT INTO latest SELECT 1, name FROM people")
    cursor.execute("INSERT INTO latest SELECT SUM(amount), who FROM few WHERE who = 'ann' GROUP BY who")
    rom = said(cursor, "EXPLAIN WHY SELECT * FROM latest WHERE who = 'bob'")
    assert "/people/one" in rom
    assert "/orders/one" not in rom
    bern = said(cursor, "EXPLAIN WHY SELECT total FROM latest WHERE who = 'ann'")
    assert "/orders/one" in bern
    assert "/people/one" not in bern
    lost = said(cursor, "EXPLAIN WHY NOT SELECT * FROM latest WHERE who = 'ann' AND total = 1")
    assert lost.splitlines()[0] == "replaced: 1 row came, and a later INSERT wrote the primary key of each"
    assert "same time" not in rom + bern + lost


def test_inserts_into_a_table_with_a_key_that_ran_at_the_same_time_all_count(
    cursor: sqlstream.Cursor, tmp_path: Path
) -> None:
    for name in ("latest", "copy"):
        cursor.execute(
            f"CREATE TABLE {name} (who STRING, total BIGINT, PRIMARY KEY (who) NOT ENFORCED)"
            f" WITH ('connector' = 'duckdb', 'path' = '{tmp_path}/latest.duckdb')"
        )
    cursor.execute(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO latest SELECT name, 1 FROM people;"
        " INSERT INTO latest SELECT who, SUM(amount) FROM orders GROUP BY who; END"
    )
    cursor.execute("INSERT INTO copy SELECT * FROM latest")
    text = said(cursor, "EXPLAIN WHY SELECT * FROM copy WHERE who = 'bob'")
    assert "/people/one" in text
    assert "/orders/one" in text
    last = text.splitlines()[-1]
    assert last.startswith('table "latest": the INSERTs of job ')
    assert "ran at the same time" in last
