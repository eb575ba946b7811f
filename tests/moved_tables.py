"""The tables, rows and queries of jobs that are moved and killed (moved_jobs.py, killed_jobs.py)."""

from __future__ import annotations

import dataclasses
import functools
import random

from moved_jobs import Script, script_of
from operator_harness import Row
from sql_cases import cases_of

from sqlstream import types as sql
from sqlstream.schema import Schema

TABLES = """
CREATE TABLE bids (id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'scripted');
CREATE TABLE asks (id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'scripted');
CREATE TABLE line (id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'scripted');
CREATE TABLE unmarked (id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3),
    WATERMARK FOR rt AS rt - INTERVAL '1' HOUR)
  WITH ('connector' = 'unmarked');
CREATE TABLE endless (id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt)
  WITH ('connector' = 'endless');
CREATE VIEW totals AS SELECT k, g, COUNT(*) AS n, SUM(v) AS total FROM bids GROUP BY k, g;
CREATE VIEW hops AS SELECT * FROM TABLE(HOP(TABLE asks, DESCRIPTOR(rt), INTERVAL '1' SECOND, INTERVAL '2' SECOND));
CREATE VIEW tumbles AS SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rt), INTERVAL '2' SECOND));
CREATE VIEW versioned AS SELECT k, MOD(v, 5) AS v, id, rt FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY rt DESC) AS n FROM line) WHERE n = 1;
CREATE VIEW ending AS SELECT * FROM versioned WHERE v > 1;
CREATE TEMPORARY FUNCTION mean AS 'python_functions.Mean' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION seen AS 'python_functions.Seen' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION numbered AS 'process_functions.Numbered' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION remembered AS 'process_functions.RememberedByRow' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION remembered_in_batches AS 'process_functions.Remembered' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION paired AS 'process_functions.Paired' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION recent AS 'process_functions.Recent' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION gaps AS 'process_functions.Sessions' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION as_of AS 'process_functions.AsOf' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION summed AS 'process_functions.Summed' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION extremes AS 'process_functions.Extremes' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION extremes_retracted AS 'process_functions.ExtremesRetracted' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION extremes_in_batches AS 'process_functions.ExtremesInBatches' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION extremes_retracted_in_batches AS 'process_functions.ExtremesRetractedInBatches' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION sifted AS 'process_functions.Sifted' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION sifted_by_row AS 'process_functions.SiftedByRow' LANGUAGE PYTHON;
CREATE TEMPORARY FUNCTION summed_by_row AS 'process_functions.SummedByRow' LANGUAGE PYTHON;
CREATE VIEW highs AS SELECT window_start, window_end, MAX(v) AS high FROM tumbles GROUP BY window_start, window_end;
"""
"""`bids` and `asks` have several splits, so their rows come in any order; `line` has one."""

ROWS = Schema.of(
    ("id", sql.BIGINT), ("k", sql.STRING), ("g", sql.INT), ("v", sql.BIGINT), ("rt", sql.timestamp(3))
)

CASES = {case.name.replace("_", " "): case for case in cases_of("state").values()}
QUERIES = {name: case.sql for name, case in CASES.items()}
"""Over rows that others are in tests/sql/state.test; there they are moved and killed in each run of the tests."""

BATCHES = (5, 9)
BATCHES_OF_KILLED = (15, 25)
"""As many as a split has, at least and at most: a job that is killed takes several checkpoints before."""


def scripts(seed: int, batches: tuple[int, int] = BATCHES) -> dict[str, list[Script]]:
    """Those of all tables, from their beginning."""
    return {
        table: [dataclasses.replace(script) for script in splits]
        for table, splits in written_scripts(seed, batches).items()
    }


@functools.cache
def written_scripts(seed: int, batches: tuple[int, int]) -> dict[str, list[Script]]:
    fate = random.Random(seed)
    splits = {"bids": 3, "asks": 2, "line": 1, "unmarked": 2, "endless": 2}
    return {table: [split(fate, n, batches) for n in range(count)] for table, count in splits.items()}


def split(fate: random.Random, number: int, count: tuple[int, int]) -> Script:
    """Batches of up to 5 rows, in order of time from batch to batch; ids are unique in the table, and rise in the split."""
    batches, time_ms, id = [], 0, 1_000 * number
    for _ in range(fate.randint(*count)):
        rows: list[Row] = []
        for _ in range(fate.randint(1, 5)):
            time_ms += fate.choice([0, 50, 200, 1_100])
            id += 1
            rows.append((id, fate.choice("abc"), fate.choice([0, 1, None]), fate.randint(-5, 9), time_ms))
        batches.append(rows)
    return script_of(ROWS, "rt", batches)
