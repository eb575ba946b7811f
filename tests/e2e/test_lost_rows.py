"""What a statement could not use is told on standard error after it, also with --quiet."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_harness import sqlstream

TABLES = """
CREATE TABLE readings (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (
  'connector' = 'filesystem', 'path' = '{directory}/readings', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true',
  'scan.watermark.emit.strategy' = 'on-event');
CREATE TABLE counts (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{directory}/counts', 'format' = 'csv');
CREATE TABLE keys (k STRING NOT NULL) WITH ('connector' = 'blackhole');
"""
COUNT = """
SELECT k, COUNT(*) AS n FROM TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY k, window_start, window_end
"""
LATE = [
    "warning: 1 late row was dropped",
    "hint: give the watermark a longer delay: WATERMARK FOR ts AS ts - INTERVAL '…' SECOND",
]


@pytest.fixture
def tables(tmp_path: Path) -> str:
    rows = ["a,2020-01-01 00:00:01", "a,2020-01-01 00:01:00", "a,2020-01-01 00:00:02", "b", "a,yesterday"]
    (tmp_path / "readings").write_text("".join(f"{row}\n" for row in rows))
    return TABLES.format(directory=tmp_path)


@pytest.mark.parametrize("words", [(), ("--quiet",), ("--changelog", "--format", "json")])
def test_a_select_tells_of_lost_rows_and_leaves_nothing_behind(
    tables: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = sqlstream("run", *words, "-", stdin=f"{tables}{COUNT};")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"rejected: {tmp_path}/readings, line 4: it has 1 fields instead of 2: b",
        f'rejected: {tmp_path}/readings, line 5: "yesterday" in column "ts" is no TIMESTAMP(3): a,yesterday',
        *LATE,
        'warning: 2 rows of table "readings" were left out: undecodable; the first ones are shown above',
        "hint: add /*+ OPTIONS('source.rejected-rows.path' = 'directory') */ to the table to keep all of them",
    ]
    assert os.listdir(tmp_path) == ["readings"]


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_an_insert_tells_where_its_rejected_rows_are(
    tables: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = sqlstream("run", *words, "-", stdin=f"{tables}INSERT INTO counts {COUNT};")
    assert done.returncode == 0
    *closing, late, _, rejected, hint = done.stderr.splitlines()
    assert [words[:3] for words in closing] == ([] if words else ["INS"])
    assert late == LATE[0]
    (kept,) = (tmp_path / "_readings.rejected").iterdir()
    pattern = rejected.partition(", kept in ")[2]
    assert list(Path(pattern).parent.glob(Path(pattern).name)) == [kept]
    assert len(kept.read_text().splitlines()) == 2
    assert hint.startswith("hint: ")


def test_rows_dropped_for_a_null_and_expired_keys_are_told() -> None:
    script = """
    SET 'table.exec.sink.not-null-enforcer' = 'DROP';
    CREATE TABLE keys (k STRING NOT NULL) WITH ('connector' = 'blackhole');
    INSERT INTO keys VALUES ('a'), (CAST(NULL AS STRING));
    """
    told = sqlstream("run", "--quiet", "-", stdin=script).stderr.splitlines()
    assert told[0] == "warning: 1 row was dropped for a NULL in a NOT NULL column"


def test_expired_state_is_told_unless_quiet() -> None:
    script = """
    SET 'table.exec.state.ttl' = '1 ms';
    SET 'execution.batch-rows' = '10';
    CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '400', 'rows-per-second' = '1000',
      'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '400');
    SELECT COUNT(*) AS n FROM (SELECT n, COUNT(*) FROM ticks GROUP BY n);
    """
    told = sqlstream("run", "-", stdin=script).stderr
    assert "note: " in told
    assert "of state expired" in told
    assert "'table.exec.state.ttl'" in told
    assert sqlstream("run", "--quiet", "-", stdin=script).stderr == ""
