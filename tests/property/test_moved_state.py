"""A job that is stopped anywhere and restored at another parallelism leaves the rows of a run that nothing stopped.

Every stateful operator takes part: a job through real task loops is cut three times, and runs with 1, 2, 3 and 1 subtasks.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import random
from collections import Counter
from pathlib import Path

import pytest
from killed_jobs import run_killed_job
from moved_jobs import Script, operators_of, plan_job, run_job, script_of
from operator_harness import Row, final_table

from sqlstream import types as sql
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.runtime import operators
from sqlstream.runtime.operators.dry_run import kept_state
from sqlstream.runtime.operators.operator import Operator
from sqlstream.schema import Schema
from sqlstream.specs import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    SinkSpec,
    SourceSpec,
    WindowAggregateSpec,
)

PARALLELISMS = (1, 2, 3, 1)
SEEDS = 1
SEEDS_SLOW = 40

MANY = range(70)
"""More columns than a word has bits: NULLs of the last ones are marked in another word."""
MANY_VALUES = ", ".join(f"NULLIF(MOD(v + {i}, 4), 3) AS c{i}" for i in MANY)
MANY_NAMES = ", ".join(f"c{i}" for i in MANY)

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
CREATE VIEW highs AS SELECT window_start, window_end, MAX(v) AS high FROM tumbles GROUP BY window_start, window_end;
"""
"""`bids` and `asks` have several splits, so their rows come in any order; `line` has one."""

ROWS = Schema.of(
    ("id", sql.BIGINT), ("k", sql.STRING), ("g", sql.INT), ("v", sql.BIGINT), ("rt", sql.timestamp(3))
)

QUERIES = {
    "aggregate by key": """
        SELECT k, COUNT(*), SUM(v), AVG(v), MIN(id), MAX(k), COUNT(DISTINCT v), CAST(STDDEV_POP(v) AS DECIMAL(9, 4))
        FROM bids GROUP BY k""",
    "aggregate of a union": """
        SELECT k, COUNT(*), SUM(v) FROM (SELECT k, v FROM asks UNION ALL SELECT k, v FROM line) GROUP BY k""",
    "aggregate of the order of arrival": """
        SELECT k, FIRST_VALUE(v), LAST_VALUE(v), LISTAGG(CAST(v AS STRING)) FROM line GROUP BY k""",
    "aggregate of the order of updates": """
        SELECT g, CHAR_LENGTH(LISTAGG(v)), CHAR_LENGTH(LISTAGG(DISTINCT v, '; ')), FIRST_VALUE(g), COUNT(id),
            LAST_VALUE(g) FILTER (WHERE id > 5), CARDINALITY(ARRAY_AGG(ROW(g, ARRAY[v]))),
            CARDINALITY(COLLECT(MAP[COALESCE(g, 0), v])), LAST_VALUE(ARRAY[g])[1], COUNT(DISTINCT ROW(g, ARRAY[v])) FROM (
            SELECT k, g, MAX(id) AS id, CAST(MAX(v) AS STRING) AS v FROM line GROUP BY k, g) GROUP BY g""",
    "aggregate of a user": """
        SELECT k, mean(v, g), seen(v), mean(DISTINCT v, g) FROM bids GROUP BY k""",
    "aggregate of a user, retracting": """
        SELECT g, mean(n, 1) FROM totals GROUP BY g""",
    "aggregate of a user, by window": """
        SELECT window_end, g, mean(v, 1), seen(v) FROM hops GROUP BY window_start, window_end, g""",
    "aggregate of a user, over": """
        SELECT id, mean(v, 1) OVER (PARTITION BY k ORDER BY rt), seen(v) OVER w, mean(v, 1) OVER w FROM line
        WINDOW w AS (PARTITION BY k ORDER BY rt ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)""",
    "aggregate of kept values": """
        SELECT k, ARRAY_JOIN(CAST(ARRAY_AGG(v) AS ARRAY<STRING>), ','), PERCENTILE(v, 0.5), CAST(COLLECT(k) AS STRING)
        FROM line GROUP BY k""",
    "aggregate of bitmaps": """
        SELECT k, BITMAP_TO_STRING(BITMAP_BUILD_AGG(g)), BITMAP_AND_CARDINALITY_AGG(b), BITMAP_OR_CARDINALITY_AGG(b)
        FROM (SELECT k, g, BITMAP_BUILD(ARRAY[g, 7]) AS b FROM bids) GROUP BY k""",
    "aggregate of one group": "SELECT COUNT(*), SUM(v), MAX(k) FROM bids",
    "aggregate of an aggregate": """
        SELECT n, COUNT(*), MIN(total), MAX(k), COUNT(DISTINCT g), SUM(total) FROM totals GROUP BY n""",
    "distinct rows": "SELECT DISTINCT k, g FROM bids",
    "aggregate by many columns": f"""
        SELECT {MANY_NAMES}, COUNT(*), SUM(v) FROM (SELECT v, {MANY_VALUES} FROM bids) GROUP BY {MANY_NAMES}""",
    "left join of updated rows of many columns": f"""
        SELECT t.*, a.id FROM asks a LEFT JOIN (SELECT k, g, {", ".join(f"MAX(c{i}) AS c{i}" for i in MANY)} FROM (
            SELECT k, g, {MANY_VALUES} FROM bids) GROUP BY k, g) t ON t.k = a.k AND t.g = a.g""",
    "best of updated rows of many columns": f"""
        SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY c68, c69 DESC, k) AS n FROM (
            SELECT k, g, {", ".join(f"MAX(c{i}) AS c{i}" for i in MANY)} FROM (
                SELECT k, g, {MANY_VALUES} FROM bids) GROUP BY k, g)) WHERE n <= 2""",
    "join": "SELECT b.id, a.id, b.v FROM bids b JOIN asks a ON b.k = a.k AND b.v < a.v",
    "left join": "SELECT b.id, a.id, a.v FROM bids b LEFT JOIN asks a ON b.k = a.k AND b.g = a.g AND b.v > a.v",
    "left join of a retracting input": "SELECT a.id, t.n, t.total FROM asks a LEFT JOIN totals t ON a.k = t.k AND a.g = t.g",
    "join of retracting inputs": """
        SELECT t.k, t.n, u.m FROM totals t JOIN (SELECT g, COUNT(*) AS m FROM asks GROUP BY g) u ON t.g = u.g""",
    "left join of retracting inputs": """
        SELECT t.k, t.n, u.m FROM totals t LEFT JOIN (SELECT g, COUNT(*) AS m FROM asks GROUP BY g) u ON t.n = u.m""",
    "full join of retracting inputs": """
        SELECT t.k, t.n, u.m FROM totals t FULL JOIN (SELECT g, COUNT(*) AS m FROM asks GROUP BY g) u
        ON t.n = u.m AND t.k < 'b'""",
    "semi join": "SELECT b.id FROM bids b LEFT SEMI JOIN asks a ON b.k = a.k AND b.v < a.v",
    "anti join of retracting inputs": """
        SELECT t.k, t.n FROM totals t LEFT ANTI JOIN (SELECT g, COUNT(*) AS m FROM asks GROUP BY g) u ON t.n = u.m""",
    "full interval join": """
        SELECT b.id, a.id FROM bids b FULL JOIN asks a ON b.k = a.k AND b.v < a.v
        AND b.rt BETWEEN a.rt - INTERVAL '1' SECOND AND a.rt + INTERVAL '1' SECOND""",
    "anti interval join": """
        SELECT b.id FROM bids b LEFT ANTI JOIN asks a ON b.k = a.k AND b.v < a.v
        AND b.rt BETWEEN a.rt - INTERVAL '1' SECOND AND a.rt + INTERVAL '1' SECOND""",
    "full window join": """
        SELECT b.id, a.id FROM tumbles b
        FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE asks, DESCRIPTOR(rt), INTERVAL '2' SECOND))) a
        ON b.window_start = a.window_start AND b.window_end = a.window_end AND b.k = a.k""",
    "temporal join": """
        SELECT b.id, a.id, a.v FROM bids b LEFT JOIN versioned FOR SYSTEM_TIME AS OF b.rt AS a ON b.k = a.k""",
    "temporal join with versions that end": """
        SELECT b.id, a.id, a.v FROM bids b LEFT JOIN ending FOR SYSTEM_TIME AS OF b.rt AS a ON b.k = a.k""",
    "interval join": """
        SELECT b.id, a.id FROM bids b JOIN asks a ON b.k = a.k
        AND a.rt BETWEEN b.rt - INTERVAL '2' SECOND AND b.rt + INTERVAL '3' SECOND""",
    "left interval join": """
        SELECT b.id, a.id FROM bids b LEFT JOIN asks a ON b.k = a.k AND b.v < a.v
        AND a.rt BETWEEN b.rt - INTERVAL '1' SECOND AND b.rt + INTERVAL '1' SECOND""",
    "broadcast interval join": """
        SELECT b.id, h.high FROM bids b JOIN (SELECT window_end AS at, high FROM highs) h
        ON b.rt BETWEEN h.at AND h.at + INTERVAL '5' SECOND AND b.v > h.high - 12""",
    "window join": """
        SELECT b.id, a.id, b.window_end FROM tumbles b
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE asks, DESCRIPTOR(rt), INTERVAL '2' SECOND))) a
        ON b.k = a.k AND b.window_start = a.window_start AND b.window_end = a.window_end""",
    "left window join": """
        SELECT b.id, a.id, b.window_end FROM tumbles b
        LEFT JOIN (SELECT * FROM TABLE(TUMBLE(TABLE asks, DESCRIPTOR(rt), INTERVAL '2' SECOND))) a
        ON b.k = a.k AND b.g = a.g AND b.window_start = a.window_start AND b.window_end = a.window_end""",
    "broadcast window join": """
        SELECT b.id, b.v, h.high FROM tumbles b JOIN highs h
        ON b.window_start = h.window_start AND b.window_end = h.window_end AND b.v > h.high - 4""",
    "tumbling windows": """
        SELECT k, window_start, COUNT(*), SUM(v), MAX(id), COUNT(DISTINCT g) FROM tumbles GROUP BY k, window_start, window_end""",
    "sessions of updated rows": """
        SELECT k, window_start, window_end, COUNT(*), SUM(v), COUNT(DISTINCT g)
        FROM TABLE(SESSION((SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY rt DESC) AS rn FROM line)
            WHERE rn = 1) PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end""",
    "windows of updated rows": """
        SELECT k, window_start, COUNT(*), SUM(v), MAX(id), COUNT(DISTINCT g), LAST_VALUE(k),
            LISTAGG(DISTINCT k) FROM TABLE(TUMBLE((SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY rt DESC) AS rn FROM line) WHERE rn = 1),
            DESCRIPTOR(rt), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end""",
    "windows in order of arrival": """
        SELECT k, window_end, FIRST_VALUE(v), LAST_VALUE(id)
        FROM TABLE(TUMBLE(TABLE line, DESCRIPTOR(rt), INTERVAL '3' SECOND)) GROUP BY k, window_start, window_end""",
    "windows that fire early and late": """
        SELECT k, window_start, window_end, COUNT(*), SUM(v), MAX(id)
        FROM TABLE(HOP(TABLE bids, DESCRIPTOR(rt), INTERVAL '1' SECOND, INTERVAL '2' SECOND))
        GROUP BY k, window_start, window_end""",
    "windows that fire late of values of their own": """
        SELECT k, TUMBLE_END(rt, INTERVAL '3' SECOND), COUNT(DISTINCT v), PERCENTILE(v, 0.5)
        FROM bids GROUP BY TUMBLE(rt, INTERVAL '3' SECOND), k""",
    "sessions that fire early and late": """
        SELECT k, window_start, window_end, COUNT(*), SUM(v), COUNT(DISTINCT g)
        FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' SECOND))
        GROUP BY k, window_start, window_end""",
    "hopping windows": "SELECT k, window_start, COUNT(*), MIN(v) FROM hops GROUP BY k, window_start, window_end",
    "cumulating windows": """
        SELECT g, window_start, window_end, SUM(v), AVG(v)
        FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(rt), INTERVAL '1' SECOND, INTERVAL '4' SECOND))
        GROUP BY g, window_start, window_end""",
    "windows of windows": """
        SELECT window_start, window_end, MAX(n), COUNT(*) FROM
        (SELECT k, window_start, window_end, COUNT(*) AS n FROM hops GROUP BY k, window_start, window_end)
        GROUP BY window_start, window_end""",
    "rows of sessions": """
        SELECT id, k, v, window_start, window_end
        FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' SECOND))""",
    "sessions of some keys by others": """
        SELECT g, window_end, COUNT(*), SUM(v)
        FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' SECOND))
        GROUP BY g, window_start, window_end""",
    "a group window by sets of keys": """
        SELECT TUMBLE_START(rt, INTERVAL '2' SECOND), k, g, COUNT(*), SUM(v)
        FROM bids GROUP BY TUMBLE(rt, INTERVAL '2' SECOND), ROLLUP (k, g)""",
    "sessions": """
        SELECT k, window_start, window_end, COUNT(*), SUM(v)
        FROM TABLE(SESSION(TABLE bids PARTITION BY k, DESCRIPTOR(rt), INTERVAL '1' SECOND))
        GROUP BY k, window_start, window_end""",
    "best rows of windows": """
        SELECT id, k, rn FROM (SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, k ORDER BY v DESC, id) AS rn FROM tumbles) WHERE rn <= 2""",
    "best rows": """
        SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM bids)
        WHERE rn <= 3""",
    "best rows with their ranks": """
        SELECT id, k, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY v, id) AS rn FROM bids)
        WHERE rn <= 2""",
    "best of all rows": """
        SELECT id, v, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY v DESC, id) AS rn FROM bids) WHERE rn <= 5""",
    "best of retracted rows": """
        SELECT k, g, total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY total DESC, k) AS rn FROM totals)
        WHERE rn <= 2""",
    "best of all retracted rows": """
        SELECT k, g, n, rn FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, total, k, g) AS rn FROM totals)
        WHERE rn <= 4""",
    "first rows": """
        SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY rt) AS rn FROM line) WHERE rn = 1""",
    "last rows": """
        SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, g ORDER BY rt DESC) AS rn FROM line)
        WHERE rn = 1""",
    "first rows to come": """
        SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn FROM line) WHERE rn = 1""",
    "last rows to come": """
        SELECT id, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p DESC) AS rn FROM line)
        WHERE rn = 1""",
    "rows with accumulators of those before": """
        SELECT id, k, SUM(v) OVER w, COUNT(*) OVER w, MAX(k) OVER w, AVG(v) OVER w, DENSE_RANK() OVER w, ROW_NUMBER() OVER (
            PARTITION BY k ORDER BY rt, id) FROM bids WINDOW w AS (PARTITION BY k ORDER BY rt)""",
    "rows with some rows before and after": """
        SELECT id, SUM(v) OVER (w ROWS 3 PRECEDING), LAG(id, 2) OVER w, LEAD(id) OVER w,
            MIN(v) OVER (w ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING), COUNT(DISTINCT v) OVER w
        FROM bids WINDOW w AS (PARTITION BY k, g ORDER BY rt, id)""",
    "rows with the seconds around": """
        SELECT id, SUM(v) OVER (w RANGE INTERVAL '2' SECOND PRECEDING),
            COUNT(*) OVER (w RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND INTERVAL '1' SECOND FOLLOWING)
        FROM bids WINDOW w AS (PARTITION BY g ORDER BY rt)""",
    "rows in order of arrival": """
        SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY p), LAG(id) OVER (PARTITION BY k ORDER BY p),
            MAX(v) OVER (PARTITION BY k ORDER BY p ROWS 2 PRECEDING) FROM line""",
    "ranks of retracted rows": """
        SELECT k, g, n, RANK() OVER w, SUM(total) OVER w, NTILE(2) OVER (PARTITION BY g ORDER BY n, total, k)
        FROM totals WINDOW w AS (PARTITION BY g ORDER BY n)""",
    "ranks of rows in any order": """
        SELECT id, k, v, RANK() OVER w, SUM(v) OVER w, LAG(v) OVER (PARTITION BY k ORDER BY v, id) FROM endless
        WINDOW w AS (PARTITION BY k ORDER BY v)""",
    "sums of unordered rows": "SELECT id, v, SUM(v) OVER (PARTITION BY k), COUNT(*) OVER () FROM bids",
    "matches of a pattern": """
        SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY k ORDER BY rt, id
          MEASURES FIRST(id) AS f, LAST(UP.id) AS l, SUM(UP.v) AS s, MATCH_NUMBER() AS n, PREV(FIRST(id)) AS p
          PATTERN (DOWN+? UP{1,3}) WITHIN INTERVAL '8' SECOND
          DEFINE DOWN AS v < 4 OR COUNT(DOWN.*) > 1, UP AS UP.v > LAST(DOWN.v))""",
    "matches in windows": """
        SELECT k, window_end, COUNT(*), SUM(n) FROM TABLE(TUMBLE((SELECT * FROM bids MATCH_RECOGNIZE (
          PARTITION BY k ORDER BY rt, id MEASURES MATCH_ROWTIME() AS mt, COUNT(*) AS n PATTERN (A B+) DEFINE B AS v > PREV(v))),
          DESCRIPTOR(mt), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end""",
    "rows of matches by arrival": """
        SELECT id, k, c, n FROM line MATCH_RECOGNIZE (PARTITION BY k ORDER BY p
          MEASURES CLASSIFIER() AS c, COUNT(*) AS n ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO LAST B
          PATTERN (A B+ C?) DEFINE B AS v > PREV(v))""",
    "changes by key": """
        SELECT k, COUNT(*), SUM(v), MIN(id) FROM FROM_CHANGELOG(
            input => (SELECT id, MOD(id, 17) AS n, k, v, CASE WHEN v < 0 THEN 'd' ELSE 'u' END AS op FROM line) PARTITION BY n,
            op_mapping => MAP['u', 'UPDATE_AFTER', 'd', 'DELETE']) GROUP BY k""",
    "rows sorted by time": "SELECT id, v FROM endless ORDER BY rt, v, id",
    "sorted rows": "SELECT id, v FROM bids ORDER BY v, id",
    "first of sorted rows": "SELECT id, v FROM bids ORDER BY v DESC, id LIMIT 5 OFFSET 2",
    "sorted retracted rows": "SELECT k, g, total FROM totals ORDER BY total, k, g",
    "limit": "SELECT id FROM line LIMIT 7 OFFSET 3",
    "watermarks of the rows in hopping windows": """
        SELECT k, window_start, COUNT(*), SUM(v) FROM TABLE(HOP(TABLE unmarked, DESCRIPTOR(rt), INTERVAL '1' MINUTE,
            INTERVAL '2' MINUTE)) GROUP BY k, window_start, window_end""",
    "watermarks of the rows": """
        SELECT k, window_start, COUNT(*), SUM(v)
        FROM TABLE(TUMBLE(TABLE unmarked, DESCRIPTOR(rt), INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end""",
}

LATENESS = {"table.exec.emit.allow-lateness": "1 h"}
SETTINGS = {
    "windows that fire early and late": {**LATENESS, "table.exec.emit.early-fire.enabled": "true"},
    "sessions that fire early and late": {**LATENESS, "table.exec.emit.early-fire.enabled": "true"},
    "windows that fire late of values of their own": {
        **LATENESS,
        "table.exec.emit.late-fire.enabled": "true",
        "table.exec.emit.late-fire.delay": "20 ms",
    },
}
"""So late that every row counts, whatever the splits' order."""

STATELESS = {
    "Calc",
    "Expand",
    "MarkChanges",
    "Unnest",
    "DropUpdateBefore",
    "WindowTvf",
    "FromChangelog",
    "ToChangelog",
    "SinkOperator",
    "NotNullEnforcer",
    "TypeLengthEnforcer",
    "LookupJoin",
}
"""What `flush` sends on is no state, and a lookup join may lose its cache."""
MOVED_ALONE = {"ConflictCheck", "KeptValues", "SingleRowCheck"}
"""An operator of INSERT alone, one whose rows differ in each run, one that keeps rows for a moment: their own tests move them."""
KEEPS_NOTHING = {"CompareRows"}
"""Compares two bounded results once, for VERIFY, in a database of its own; such a job starts anew."""


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


@functools.cache
def planned(name: str) -> JobGraph:
    return plan_job(TABLES + QUERIES[name] + ";", SETTINGS.get(name))


@functools.cache
def stayed(name: str, seed: int, batches: tuple[int, int] = BATCHES) -> Counter[Row]:
    """The rows of a run that nothing stops."""
    return final_table(run_job(planned(name), scripts(seed, batches), [1], seed), has_pairs=False)


def check(name: str, seed: int) -> None:
    expected = stayed(name, seed)
    moved = final_table(run_job(planned(name), scripts(seed), PARALLELISMS, seed), has_pairs=False)
    assert moved == expected
    assert expected != Counter()


@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_moves_leaves_the_rows_of_one_that_stays(name: str) -> None:
    for seed in range(SEEDS):
        check(name, seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_moves_leaves_the_rows_of_one_that_stays_with_many_seeds(name: str) -> None:
    for seed in range(SEEDS, SEEDS_SLOW):
        check(name, seed)


MAPPED_QUERIES = (
    "aggregate by key",
    "left join of retracting inputs",
    "interval join",
    "windows of windows",
    "best rows",
    "best of retracted rows",
    "sorted rows",
)
"""Every structure of state takes part; the others of QUERIES are slow tests."""
BACKENDS = ("hashmap", "mapped", "mapped")


@pytest.fixture
def small_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of few entries lie in files too."""
    monkeypatch.setattr("sqlstream.runtime.memory.mapped_memory.MAPPED_BYTES_MIN", 64)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("small_mapped")
@pytest.mark.parametrize(
    "name",
    [name if name in MAPPED_QUERIES else pytest.param(name, marks=pytest.mark.slow) for name in QUERIES],
)
def test_a_job_that_moves_to_another_backend_leaves_the_rows_of_one_that_stays(name: str) -> None:
    expected = stayed(name, 0)
    moved = run_job(planned(name), scripts(0), PARALLELISMS, 0, backends=BACKENDS)
    assert final_table(moved, has_pairs=False) == expected
    assert expected != Counter()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("small_mapped")
@pytest.mark.parametrize("name", MAPPED_QUERIES)
def test_a_job_that_is_killed_on_one_backend_goes_on_from_its_checkpoint_on_another(
    name: str, tmp_path: Path
) -> None:
    check_killed(name, 0, tmp_path, backends=BACKENDS)


def operator_classes() -> dict[str, type]:
    """All operators in the tree, by name, without the base classes of others."""
    found = {}
    for module in pkgutil.walk_packages(operators.__path__, "sqlstream.runtime.operators."):
        for name, value in vars(importlib.import_module(module.name)).items():
            is_operator = inspect.isclass(value) and issubclass(value, Operator)
            if is_operator and value.__module__ == module.name:
                found[name] = value
    bases = {base for value in found.values() for base in value.__mro__[1:]}
    return {name: value for name, value in found.items() if value not in bases}


def test_every_stateful_operator_takes_part() -> None:
    taking_part = {type(o).__name__ for name in QUERIES for o in operators_of(planned(name), scripts(0))}
    assert set(operator_classes()) - taking_part - STATELESS - KEEPS_NOTHING - MOVED_ALONE == set()
    assert {place.partition(":")[0] for place in operators.OPERATORS.values()} <= {
        c.__module__ for c in operator_classes().values()
    }


def check_killed(
    name: str,
    seed: int,
    directory: Path,
    is_unaligned: bool = False,
    aligned_timeout_ms: int = 0,
    concurrent_max: int = 1,
    backends: tuple[str, ...] = ("hashmap",),
) -> dict[str, int]:
    played = scripts(seed, BATCHES_OF_KILLED)
    expected = stayed(name, seed, BATCHES_OF_KILLED)
    figures: dict[str, int] = {}
    # Items in flight belong to their channels, which must be there again until an aligned checkpoint.
    lives = (2, 2, 2, 3) if is_unaligned else PARALLELISMS
    killed = run_killed_job(
        planned(name),
        played,
        lives,
        seed,
        directory,
        figures,
        is_unaligned=is_unaligned,
        aligned_timeout_ms=aligned_timeout_ms,
        concurrent_max=concurrent_max,
        backends=backends,
    )
    assert final_table(killed, has_pairs=False) == expected, figures
    return figures


@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_is_killed_between_checkpoints_commits_the_rows_of_one_that_is_not(
    name: str, tmp_path: Path
) -> None:
    check_killed(name, 0, tmp_path)


@pytest.mark.parametrize("concurrent_max", [1, 3])
@pytest.mark.parametrize("name", ["join", "distinct rows", "interval join", "temporal join"])
def test_a_job_that_counts_rows_at_least_once_loses_none_when_it_is_killed_and_waits_for_no_barrier(
    name: str, concurrent_max: int, tmp_path: Path
) -> None:
    figures: dict[str, int] = {}
    surplus: Counter[Row] = Counter()
    for seed in range(3):
        played = scripts(seed, BATCHES_OF_KILLED)
        expected = stayed(name, seed, BATCHES_OF_KILLED)
        killed = run_killed_job(
            planned(name), played, PARALLELISMS, seed, tmp_path / str(seed), figures,
            concurrent_max=concurrent_max, mode="AT_LEAST_ONCE",
        )  # fmt: skip
        found = final_table(killed, has_pairs=False)
        assert expected - found == Counter(), figures
        surplus += found - expected
    assert figures["completed"], figures
    assert figures["longest alignment"] == 0
    if name == "join":
        assert surplus, "no row came twice: barriers have blocked"


UNALIGNED_QUERIES = ("left join of retracting inputs", "windows of windows", "best of retracted rows")


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_that_is_killed_between_unaligned_checkpoints_commits_the_rows_of_one_that_is_not(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, is_unaligned=True)
    assert figures["items in outputs"], figures


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_whose_barriers_pass_rows_after_a_while_commits_the_rows_of_one_that_is_not_killed(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, is_unaligned=True, aligned_timeout_ms=30)
    assert figures["items in outputs"], figures


@pytest.mark.parametrize("name", UNALIGNED_QUERIES)
def test_a_job_with_several_checkpoints_at_once_commits_the_rows_of_one_that_is_not_killed(
    name: str, tmp_path: Path
) -> None:
    figures = check_killed(name, 0, tmp_path, concurrent_max=4)
    assert figures["begun beside another"], figures


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("aggregate of a user, by window", 12),
        ("aggregate of a user, by window", 21),
        ("broadcast window join", 33),
        ("broadcast interval join", 9),
        ("broadcast interval join", 24),
    ],
)
def test_subtasks_that_had_come_to_different_places_in_event_time_go_on_from_their_own(
    name: str, seed: int, tmp_path: Path
) -> None:
    check_killed(name, seed, tmp_path, is_unaligned=True, aligned_timeout_ms=20 * (seed % 4))


@pytest.mark.parametrize("is_unaligned", [False, True])
def test_a_job_whose_local_aggregates_have_ended_in_part_goes_on_from_checkpoints(
    is_unaligned: bool, tmp_path: Path
) -> None:
    """Their sources have fewer splits than subtasks."""
    figures: Counter[str] = Counter()
    for seed in range(4):
        figures.update(check_killed("aggregate of a union", seed, tmp_path / str(seed), is_unaligned))
    assert figures["begun with a vertex that has ended in part"], figures


def test_rows_that_are_emitted_at_the_end_are_in_a_checkpoint_that_is_still_being_written(
    tmp_path: Path,
) -> None:
    check_killed("ranks of retracted rows", 25, tmp_path, concurrent_max=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUERIES)
def test_a_job_that_is_killed_between_checkpoints_commits_the_rows_of_one_that_is_not_with_many_seeds(
    name: str, tmp_path: Path
) -> None:
    seen: Counter[str] = Counter()
    for seed in range(1, SEEDS_SLOW):
        seen.update(
            check_killed(
                name,
                seed,
                tmp_path / str(seed),
                is_unaligned=seed % 3 == 0,
                aligned_timeout_ms=20 * (seed % 4) if seed % 3 == 0 else 0,
                concurrent_max=3 if seed % 3 == 1 else 1,
            )
        )
    events = ("killed", "completed", "savepoints", "aborted: given up", "begun beside another")
    assert all(seen[event] for event in events), seen


OF_RUNTIME = {
    *("$touched_ms", "$count", "$matches", "$sequence", "$time_ms", "$is_matched"),
    *("$subtask", "$removed_until_ms"),
}


def stateful(name: str) -> list[ChainedOperator]:
    operators = (o for v in planned(name).vertices for o in v.operators)
    return [o for o in operators if o.state is not None and not isinstance(o.spec, SourceSpec | SinkSpec)]


@pytest.mark.parametrize("name", QUERIES)
def test_tables_that_are_named_in_a_plan_have_the_columns_that_it_says(name: str) -> None:
    for operator in stateful(name):
        assert operator.state is not None
        tables = {t.name: t for t in kept_state(operator, {}).tables}
        declared = {n.partition(".")[0] for n in tables}
        for rows in operator.state.rows:
            # A table without rows at the end of the trial is not saved.
            assert rows.table in declared, (operator.name, declared)
            found = [n for n in tables[rows.table].columns.names if n not in OF_RUNTIME]
            if isinstance(operator.spec, DeduplicateSpec):
                found = found[len(operator.spec.keys) + 1 :]
            if isinstance(operator.spec, ChangelogNormalizeSpec):
                # Its keys stand before the row that they are part of.
                found = found[len(operator.spec.keys) :]
            assert len(found) == len(rows.columns), operator.name
            if not isinstance(operator.spec, GroupAggregateSpec | WindowAggregateSpec):
                side = 1 if rows.table == "right" else 0
                names = list(operator.input_schemas[side].names)
                assert [n.rpartition("_")[0] or n for n in found[: len(names)]] == [
                    n.rpartition("_")[0] or n for n in names
                ]
        parts = {n for n in tables if "." in n}
        assert parts <= set(operator.state.parts), operator.name


def test_every_operator_that_keeps_something_has_an_identity() -> None:
    for name in QUERIES:
        operators = (o for v in planned(name).vertices for o in v.operators)
        assert all(o.state is not None for o in operators if o.spec.kept_state()), name
