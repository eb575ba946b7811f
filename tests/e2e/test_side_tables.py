"""The tables beside a table: its late rows, and those that could not be decoded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sqlstream
from sqlstream.runtime.connectors.files.rejected_rows import origin_of
from sqlstream.runtime.connectors.rejected_rows import RejectedRows
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.format import Rejected

TABLES = """
CREATE TEMPORARY TABLE r (k INT, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = '{path}/in', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
CREATE TEMPORARY TABLE fine (k INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'filesystem', 'path' = '{path}/fine', 'format' = 'csv');
CREATE TEMPORARY TABLE o (k INT) WITH ('connector' = 'filesystem', 'path' = '{path}/out', 'format' = 'csv');
CREATE TEMPORARY TABLE black (k INT) WITH ('connector' = 'blackhole');
CREATE TEMPORARY TABLE generated (k INT, ts AS LOCALTIMESTAMP, WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TEMPORARY VIEW v AS SELECT k FROM r;
"""


@pytest.fixture
def cursor(tmp_path: Path) -> Iterator[sqlstream.Cursor]:
    (tmp_path / "in").mkdir()
    minute = "2020-01-01 00:00:"
    rows = [
        "1",
        "2,x",
        *(f"{k},{minute}{s:02}" for k, s in [(1, 1), (2, 11), (3, 9), (4, 8), (5, 30), (6, 10)]),
    ]
    (tmp_path / "in" / "a.csv").write_text("".join(f"{row}\n" for row in rows))
    (tmp_path / "in" / "b.csv").write_text(f"7,{minute}02\n")
    (tmp_path / "fine").write_text(f"1,{minute}05.009Z\n2,{minute}05.001Z\n3,{minute}05.010Z\n")
    with sqlstream.connect("embedded://") as connection:
        cursor = connection.cursor()
        for statement in TABLES.format(path=tmp_path).split(";\n")[:-1]:
            cursor.execute(statement)
        yield cursor


def read(cursor: sqlstream.Cursor, statement: str) -> list[tuple[object, ...]]:
    cursor.execute(statement)
    return cursor.fetchall()


def test_late_rows_are_those_that_windows_drop_and_come_again_in_each_run(cursor: sqlstream.Cursor) -> None:
    late = "SELECT k, CAST(`$watermark` AS STRING) FROM r$late"
    for parallelism in (1, 2):
        cursor.execute(f"SET 'parallelism.default' = '{parallelism}'")
        assert sorted(read(cursor, late)) == [
            (3, "2020-01-01 00:00:09.000"),
            (4, "2020-01-01 00:00:09.000"),
            (6, "2020-01-01 00:00:28.000"),
        ]
        # In windows of ten seconds only the last of them is beyond the end of its window.
        counted = read(
            cursor,
            "SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM TUMBLE(DATA => TABLE r, TIMECOL => DESCRIPTOR(ts),"
            " SIZE => INTERVAL '10' SECOND) GROUP BY window_start, window_end)",
        )
        assert counted in ([(6,)], [(7,)])
    end = "FLOOR(TIMESTAMPADD(SECOND, 0, ts) TO MINUTE)"
    assert read(cursor, f"SELECT COUNT(*), MIN({end}) FROM r$late GROUP BY {end}")[0][0] == 3
    assert sorted(read(cursor, "SELECT k FROM fine$late")) == [(2,)]
    cursor.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert sorted(read(cursor, "SELECT k, `$watermark` - ts >= INTERVAL '0' SECOND FROM fine$late")) == [
        (2, True)
    ]


def test_late_rows_have_no_row_time_to_make_windows_of(cursor: sqlstream.Cursor) -> None:
    names = [(row[0], row[1]) for row in read(cursor, "DESCRIBE r$late")]
    assert names == [
        ("k", "INT"),
        ("ts", "TIMESTAMP(3)"),
        ("p", "TIMESTAMP_LTZ(3) *PROCTIME*"),
        ("$watermark", "TIMESTAMP(3)"),
    ]
    with pytest.raises(sqlstream.Error, match="SS3002"):
        cursor.execute("SELECT * FROM TUMBLE(TABLE r$late, DESCRIPTOR(ts), INTERVAL '1' SECOND)")


def test_errors_are_what_inserts_could_not_decode(cursor: sqlstream.Cursor, tmp_path: Path) -> None:
    assert read(cursor, "SELECT * FROM r$errors") == []
    cursor.execute("SET 'table.dml-sync' = 'true'")
    for _ in range(2):
        cursor.execute("INSERT INTO o SELECT k FROM r WHERE ts IS NOT NULL")
    found = read(cursor, "SELECT job, rejected_at, file, line, reason, text FROM r$errors")
    assert len({row[0] for row in found}) == 2
    assert all(row[1] is not None and row[2] == str(tmp_path / "in" / "a.csv") for row in found)
    assert sorted(row[3:] for row in found) == sorted(
        2 * [(1, "it has 1 fields instead of 2", "1"), (2, '"x" in column "ts" is no TIMESTAMP(3)', "2,x")]
    )
    assert read(cursor, "SELECT COUNT(*) FROM r$errors AS e JOIN o ON e.line = o.k AND o.k < 2") == [(4,)]
    elsewhere = f"/*+ OPTIONS('source.rejected-rows.path' = '{tmp_path}/elsewhere') */"
    read(cursor, f"SELECT * FROM r {elsewhere}")
    assert read(cursor, f"SELECT line FROM r$errors {elsewhere} ORDER BY line LIMIT 5") == [(1,), (2,)]


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("SELECT * FROM o$late", "SS3003", "declares no WATERMARK"),
        ("SELECT * FROM generated$errors", "SS3003", "keeps no rejected rows"),
        ("SELECT * FROM v$errors", "SS2001", "does not exist"),
        ("SELECT * FROM nothing$late", "SS2001", "does not exist"),
        ("SELECT * FROM r$other", "SS2001", "does not exist"),
        ("INSERT INTO r$errors SELECT 1", "SS2001", "does not exist"),
        ("DROP TABLE r$late", "SS2001", "does not exist"),
        ("SELECT * FROM r$errors /*+ OPTIONS('source.rejected-rows.path' = '') */", "SS4002", "keeps no"),
        (
            "SELECT * FROM r$errors /*+ OPTIONS('source.reads' = 'rows') */",
            "SS4003",
            "table of rejected rows",
        ),
        ("SELECT * FROM r$errors /*+ OPTIONS('format' = 'csv') */", "SS4003", "table of rejected rows"),
    ],
)
def test_what_has_no_such_table_says_why(
    cursor: sqlstream.Cursor, statement: str, code: str, said: str
) -> None:
    with pytest.raises(sqlstream.Error, match=f"(?s){code}.*{re.escape(said)}"):
        read(cursor, statement)


def test_kept_rows_of_all_attempts_together_are_bounded(tmp_path: Path) -> None:
    for attempt in range(20):
        context = ConnectorContext(
            job_id="j", vertex_id="v", subtask=0, parallelism=1, batch_rows=10, now_ms=lambda at=1_600_000_000_000 + attempt: at,
            attempt=0, config={}, count=lambda name, n: None, files=LocalFiles(),
        )  # fmt: skip
        kept = RejectedRows(str(tmp_path), context, bytes_max=4_000)
        for line in range(10 * attempt, 10 * attempt + 10):
            kept.keep(origin_of("f"), [Rejected(line, "reason", "text")])
        kept.close()
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) <= 4_200
    assert '"line":199,' in (tmp_path / "rejected-j-v-0-1600000000019.json").read_text()


def test_kept_rows_are_bounded_in_size_and_age(tmp_path: Path) -> None:
    now_ms = 1_600_000_000_000
    for name, age_ms in (("rejected-old-a.json", 5_000), ("rejected-new-a.json", 500), ("other.json", 5_000)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (0, (now_ms - age_ms) / 1000))
    context = ConnectorContext(
        job_id="j", vertex_id="v", subtask=0, parallelism=1, batch_rows=10, now_ms=lambda: now_ms,
        attempt=0, config={}, count=lambda name, n: None, files=LocalFiles(),
    )  # fmt: skip
    kept = RejectedRows(str(tmp_path), context, bytes_max=4_000, retention_ms=1_000)
    for line in range(100):
        kept.keep(origin_of("f"), [Rejected(line, "reason", "text")])
    kept.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:3] == ["other.json", f"rejected-j-v-0-{now_ms}.4.json", f"rejected-j-v-0-{now_ms}.5.json"]
    assert "rejected-new-a.json" in names
    lines = "".join(p.read_text() for p in sorted(tmp_path.glob("rejected-j-*"))).splitlines()
    assert 20 <= len(lines) < 50
    assert '"line":99,' in lines[-1]
    assert sum(p.stat().st_size for p in tmp_path.glob("rejected-j-*")) <= 4_200
