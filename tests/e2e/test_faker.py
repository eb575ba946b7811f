"""Tables of connector faker in SQL: scripts run as they are published, lookups, and where an error is."""

from __future__ import annotations

import pytest

import sqlstream
from sqlstream.client.dbapi.errors import ProgrammingError
from sqlstream.testing.check import rows_of

# As in README.md of flink-faker, with an end.
CHARACTERS = """
CREATE TEMPORARY TABLE characters (`character_id` INT, `name` STRING) WITH (
  'connector' = 'faker',
  'fields.character_id.expression' = '#{number.numberBetween ''0'',''100''}',
  'fields.name.expression' = '#{harry_potter.characters}')
"""
UPDATES = """
CREATE TEMPORARY TABLE location_updates (`character_id` INT, `location` STRING, `proctime` AS PROCTIME()) WITH (
  'connector' = 'faker', 'number-of-rows' = '50',
  'fields.character_id.expression' = '#{number.numberBetween ''0'',''10''}',
  'fields.location.expression' = '#{harry_potter.location}')
"""
JOIN = """
SELECT c.character_id, l.character_id, l.location, c.name FROM location_updates AS l
JOIN characters FOR SYSTEM_TIME AS OF proctime AS c ON l.character_id = c.character_id
"""


def test_a_lookup_finds_one_row_for_every_key() -> None:
    rows = rows_of([CHARACTERS, UPDATES, JOIN])
    assert len(rows) == 50
    assert all(found == wanted for found, wanted, _, _ in rows)
    names = {(key, name) for key, _, _, name in rows}
    assert len(names) == len({key for key, _ in names}) > 5


def test_event_time_windows_over_made_moments() -> None:
    table = """
    CREATE TABLE bids (bid_id STRING, currency_code STRING, price DOUBLE, bid_time TIMESTAMP(3),
      WATERMARK FOR bid_time AS bid_time - INTERVAL '5' SECONDS) WITH (
      'connector' = 'faker', 'rows-per-second' = '100000', 'number-of-rows' = '1000',
      'fields.bid_id.expression' = '#{Internet.UUID}',
      'fields.currency_code.expression' = '#{regexify ''(EUR|USD|GBP)''}',
      'fields.price.expression' = '#{Number.randomDouble ''2'',''1'',''150''}',
      'fields.bid_time.expression' = '#{date.past ''5'',''SECONDS''}')"""
    rows = rows_of(
        [
            table,
            "SELECT currency_code, SUM(n) FROM (SELECT currency_code, COUNT(DISTINCT bid_id) AS n, window_end "
            "FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end, currency_code) GROUP BY currency_code",
        ],
        {"execution.runtime-mode": "batch"},
    )
    assert sum(count for _, count in rows) == 1000
    assert {code for code, _ in rows} == {"EUR", "USD", "GBP"}


@pytest.mark.parametrize("statement", ["CREATE", "ALTER"])
def test_an_error_stands_at_its_option(statement: str) -> None:
    wrong = "'fields.a.expression' = '#{colour.nam}'"
    right = "CREATE TABLE t (a STRING) WITH ('connector' = 'faker', 'fields.a.expression' = 'x')"
    text = right.replace("'fields.a.expression' = 'x'", wrong)
    statements = [text] if statement == "CREATE" else [right, text := f"ALTER TABLE t SET ({wrong})"]
    with pytest.raises(ProgrammingError) as caught:
        rows_of(statements)
    shown = str(caught.value).splitlines()
    assert "SS4002" in shown[0]
    assert shown[2].index("^") == shown[1].index("'#{colour")
    assert "color.name" in shown[3]


def test_a_lookup_join_may_name_the_time_of_the_table_that_is_looked_up() -> None:
    expression = "'connector' = 'faker', 'number-of-rows' = '2', 'fields.k.expression' = '1'"
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        cursor.execute(f"CREATE TABLE o (k STRING) WITH ({expression})")
        more = "'fields.name.expression' = 'a', 'fields.p.expression' = '#{date.past ''1'',''DAYS''}'"
        cursor.execute(f"CREATE TABLE t (k STRING, name STRING, p AS PROCTIME()) WITH ({expression}, {more})")
        cursor.execute("SELECT o.k, t.name FROM o JOIN t FOR SYSTEM_TIME AS OF p AS t ON o.k = t.k")
        assert [tuple(row) for row in cursor] == [("1", "a"), ("1", "a")]
