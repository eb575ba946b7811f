"""A statement that has changed goes on with state of the same meaning, and is refused, or begins anew, with other state."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from pathlib import Path

import pytest
from changed_statements import (
    Planned,
    Stopped,
    planned,
    restore_new,
    run_new,
    stop_old,
    table_of,
    without_zeros,
)
from moved_jobs import Script, script_of
from operator_harness import Row

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from sqlstream.schema import Schema

ROWS = Schema.of(
    ("id", sql.BIGINT), ("k", sql.STRING), ("g", sql.INT), ("v", sql.BIGINT), ("rt", sql.timestamp(3))
)
COLUMNS = "id BIGINT, k STRING, g INT, v BIGINT, rt TIMESTAMP(3)"
BIDS = f"CREATE TABLE bids ({COLUMNS}, WATERMARK FOR rt AS rt) WITH ('connector' = 'scripted', 'path' = 'a');"
TABLES = f"""
CREATE TABLE asks ({COLUMNS}, WATERMARK FOR rt AS rt) WITH ('connector' = 'scripted');
CREATE TABLE s (k STRING, n BIGINT, total BIGINT) WITH ('connector' = 'scripted');
CREATE TABLE t (k STRING, n BIGINT, total BIGINT) WITH ('connector' = 'scripted');
CREATE TABLE p (a BIGINT, b BIGINT) WITH ('connector' = 'scripted');
CREATE TABLE q (a BIGINT, b BIGINT) WITH ('connector' = 'scripted');
CREATE TABLE w (k STRING, at TIMESTAMP(3), n BIGINT) WITH ('connector' = 'scripted');
"""
SPLITS = {"bids": 3, "asks": 2}

TOTALS = "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM bids GROUP BY k"
BY_GROUP = "SELECT CAST(g AS STRING) AS k, COUNT(*) AS n, MAX(v) AS total FROM bids GROUP BY g"
PAIRS = "SELECT b.id AS a, a.id AS b FROM bids b JOIN asks a ON b.k = a.k AND b.v < a.v"
LEFT = "SELECT b.id AS a, a.v AS b FROM bids b LEFT JOIN asks a ON b.k = a.k AND b.g = a.g"
BEST = """SELECT k, id AS n, v AS total FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM bids) WHERE rn <= 3"""
LAST = """SELECT k, id AS n, v AS total FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, id ORDER BY rt DESC) AS rn FROM bids) WHERE rn = 1"""
WINDOWS = """SELECT k, window_start AS at, COUNT(*) AS n
  FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rt), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end"""
INTERVAL = """SELECT b.id AS a, a.id AS b FROM bids b JOIN asks a ON b.k = a.k
  AND a.rt BETWEEN b.rt - INTERVAL '2' SECOND AND b.rt + INTERVAL '3' SECOND"""
NESTED = f"SELECT CAST(n AS STRING) AS k, COUNT(*) AS n, SUM(total) AS total FROM ({TOTALS}) GROUP BY n"
BEST_TOTALS = f"""SELECT k, n, total FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY n ORDER BY total DESC, k) AS rn FROM ({TOTALS})) WHERE rn <= 2"""
BEST_OF_WINDOWS = """SELECT k, window_start, id FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v DESC, id) AS rn
   FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rt), INTERVAL '2' SECOND))) WHERE rn <= 2"""
REORDERED = f"SELECT CAST(n AS STRING), SUM(total), COUNT(*) FROM ({TOTALS}) GROUP BY n"
OF_WINDOWS = """
  FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rt), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end"""
BOTH = "SELECT k, v FROM bids UNION ALL SELECT k, v FROM asks"


def script(text: str) -> str:
    """With all tables, but for `bids` where the text has one of its own."""
    return f"{'' if 'CREATE TABLE bids' in text else BIDS} {TABLES} {text}"


def into(table: str, query: str) -> str:
    return f"INSERT INTO {table} {query};"


def together(*inserts: str) -> str:
    return f"EXECUTE STATEMENT SET BEGIN {' '.join(inserts)} END;"


@dataclasses.dataclass(frozen=True)
class Change:
    """`tables` are those whose state is kept. `is_same`: the new statement writes into them what the old one did, so that what
    both have written is the answer; else the new one goes on from the answer over what the old one has read."""

    old: str
    new: str
    tables: tuple[str, ...] = ("s",)
    is_same: bool = False


KEPT = {
    "a renamed alias": Change(
        into("s", TOTALS),
        into("s", "SELECT b.k AS x, COUNT(*) AS y, SUM(b.v) AS z FROM bids AS b GROUP BY b.k"),
    ),
    "another layout of the text": Change(
        into("s", TOTALS),
        "\n\n-- the totals\n INSERT INTO s\nSELECT k,\n  COUNT(*) AS n, -- bids\n  SUM(v) AS total\nFROM bids\nGROUP BY k;",
    ),
    "an insert behind": Change(into("s", TOTALS), together(into("s", TOTALS), into("t", BY_GROUP))),
    "an insert before": Change(into("s", TOTALS), together(into("t", BY_GROUP), into("s", TOTALS))),
    "the same query into another table too": Change(
        into("s", TOTALS), together(into("t", TOTALS), into("s", TOTALS)), ("s", "t")
    ),
    "an insert of a join with the same table": Change(
        into("s", TOTALS), together(into("p", PAIRS), into("s", TOTALS))
    ),
    "another table to write": Change(into("s", TOTALS), into("t", TOTALS), ("t",)),
    "a filter above": Change(into("s", TOTALS), into("s", f"SELECT * FROM ({TOTALS}) WHERE n > 4")),
    "a filter of keys above": Change(
        into("s", TOTALS), into("s", f"SELECT * FROM ({TOTALS}) WHERE k <> 'a'")
    ),
    "a projection above": Change(into("s", TOTALS), into("s", f"SELECT k, n + 1, total * 2 FROM ({TOTALS})")),
    "more columns below": Change(
        into("s", TOTALS),
        into("s", "SELECT k, COUNT(*), SUM(v) FROM (SELECT id, k, g, v, id + v AS w FROM bids) GROUP BY k"),
    ),
    "columns below in another order": Change(
        into("s", TOTALS), into("s", "SELECT k, COUNT(*), SUM(v) FROM (SELECT v, k FROM bids) GROUP BY k")
    ),
    "an expression in a query below": Change(
        into("s", "SELECT k, COUNT(*), SUM(v * 2 + g) FROM bids GROUP BY k"),
        into("s", "SELECT k, COUNT(*), SUM(d + g) FROM (SELECT k, g, v * 2 AS d FROM bids) GROUP BY k"),
    ),
    "a view": Change(into("s", TOTALS), f"CREATE VIEW named AS {TOTALS}; {into('s', 'SELECT * FROM named')}"),
    "another path of the source": Change(
        into("s", TOTALS), into("s", TOTALS.replace("bids", "bids /*+ OPTIONS('path' = 'b') */"))
    ),
    "columns of the table that nobody reads": Change(
        into("s", TOTALS),
        "CREATE TABLE bids (k STRING, v BIGINT) WITH ('connector' = 'scripted');" + into("s", TOTALS),
    ),
    "a time to live": Change(into("s", TOTALS), f"SET 'table.exec.state.ttl' = '1 d'; {into('s', TOTALS)}"),
    "no time to live": Change(f"SET 'table.exec.state.ttl' = '1 d'; {into('s', TOTALS)}", into("s", TOTALS)),
    "one phase": Change(
        into("s", TOTALS), f"SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'; {into('s', TOTALS)}"
    ),
    "values of renamed calls": Change(
        into("s", "SELECT k, COUNT(DISTINCT g) AS x, COUNT(DISTINCT v) AS y FROM bids GROUP BY k"),
        into("s", "SELECT k, COUNT(DISTINCT g) AS y, COUNT(DISTINCT v) AS x FROM bids GROUP BY k"),
    ),
    "calls in another order": Change(
        into("s", "SELECT k, COUNT(*), SUM(v) + MIN(id) + AVG(g) FROM bids GROUP BY k"),
        into(
            "s",
            "SELECT k, c, a + n + s FROM (SELECT k, AVG(g), MIN(id), COUNT(*), SUM(v) FROM bids GROUP BY k) t (k, a, n, c, s)",
        ),
    ),
    "calls over retracted rows in another order": Change(
        into("s", NESTED), into("s", f"SELECT k, c, s FROM ({REORDERED}) t (k, s, c)")
    ),
    "values of calls in the same order beside other names": Change(
        into("s", "SELECT k, COUNT(DISTINCT g), SUM(v) FROM bids GROUP BY k"),
        into("s", "SELECT k AS x, COUNT(DISTINCT g) AS total, SUM(v) AS n FROM bids GROUP BY k"),
    ),
    "calls of windows in another order": Change(
        into("w", "SELECT k, MAX(rt), COUNT(*) + SUM(v)" + OF_WINDOWS),
        into(
            "w", f"SELECT k, m, n + s FROM (SELECT k, SUM(v), COUNT(*), MAX(rt){OF_WINDOWS}) t (k, s, n, m)"
        ),
        ("w",),
        is_same=True,
    ),
    "aggregates of aggregates, renamed": Change(
        into("s", NESTED), into("s", NESTED.replace("total", "sum_of_v"))
    ),
    "a filter above aggregates of aggregates": Change(
        into("s", NESTED), into("s", f"SELECT * FROM ({NESTED}) WHERE total > 3")
    ),
    "branches of a union in another order": Change(
        into("s", f"SELECT k, COUNT(*), SUM(v) FROM ({BOTH}) GROUP BY k"),
        into(
            "s",
            "SELECT k, COUNT(*), SUM(v) FROM (SELECT k, v FROM asks UNION ALL SELECT k, v FROM bids) GROUP BY k",
        ),
    ),
    "aliases of a join": Change(
        into("p", PAIRS),
        into("p", "SELECT x.id AS i, y.id AS j FROM bids AS x JOIN asks AS y ON x.k = y.k AND x.v < y.v"),
        ("p",),
    ),
    "an insert beside a join": Change(
        into("p", PAIRS), together(into("s", TOTALS), into("p", PAIRS)), ("p",)
    ),
    "a filter over both sides of a join": Change(
        into("p", PAIRS), into("p", f"{PAIRS} WHERE b.v + a.v > 3"), ("p",)
    ),
    "more columns below a join": Change(
        into("p", PAIRS),
        into(
            "p",
            "SELECT b.id, a.id FROM (SELECT rt, g, id, k, v FROM bids) b JOIN (SELECT *, v + 1 AS w FROM asks) a"
            " ON b.k = a.k AND b.v < a.v",
        ),
        ("p",),
    ),
    "columns below a join in another order": Change(
        into("p", PAIRS),
        into(
            "p",
            "SELECT b.id, a.id FROM (SELECT v, id, k FROM bids) b JOIN (SELECT v, k, id FROM asks) a"
            " ON b.k = a.k AND b.v < a.v",
        ),
        ("p",),
    ),
    "columns below an interval join in another order": Change(
        into("p", INTERVAL),
        into(
            "p",
            "SELECT b.id, a.id FROM (SELECT rt, k, id FROM bids) b JOIN (SELECT k, id, rt FROM asks) a ON b.k = a.k"
            " AND a.rt BETWEEN b.rt - INTERVAL '2' SECOND AND b.rt + INTERVAL '3' SECOND",
        ),
        ("p",),
        is_same=True,
    ),
    "columns below a rank in another order": Change(
        into("s", BEST), into("s", BEST.replace("FROM bids", "FROM (SELECT v, k, id FROM bids) t"))
    ),
    "columns below the best of retracted rows in another order": Change(
        into("s", BEST_TOTALS),
        into("s", BEST_TOTALS.replace(f"({TOTALS})", f"(SELECT total, n, k FROM ({TOTALS}))")),
    ),
    "columns below the last rows in another order": Change(
        into("s", LAST), into("s", LAST.replace("FROM bids", "FROM (SELECT v, rt, id, k FROM bids) t"))
    ),
    "columns below the best rows of windows in another order": Change(
        into("w", BEST_OF_WINDOWS),
        f"CREATE VIEW others AS SELECT v, rt, k, id FROM bids; {into('w', BEST_OF_WINDOWS.replace('bids', 'others'))}",
        ("w",),
        is_same=True,
    ),
    "a projection above a left join": Change(
        into("p", LEFT), into("p", f"SELECT a + 1, b FROM ({LEFT})"), ("p",)
    ),
    "an insert beside an interval join": Change(
        into("p", INTERVAL), together(into("s", TOTALS), into("p", INTERVAL)), ("p",), is_same=True
    ),
    "a renamed rank": Change(into("s", BEST), into("s", BEST.replace("rn", "place"))),
    "a filter above a rank": Change(
        into("s", BEST), into("s", f"SELECT * FROM ({BEST}) WHERE n + total > 3")
    ),
    "a filter of keys above a rank": Change(
        into("s", BEST), into("s", f"SELECT * FROM ({BEST}) WHERE k < 'c'")
    ),
    "an insert beside the last rows": Change(into("s", LAST), together(into("t", BY_GROUP), into("s", LAST))),
    "renamed windows": Change(
        into("w", WINDOWS),
        into("w", WINDOWS.replace("AS at", "AS start").replace("AS n", "AS c")),
        ("w",),
        is_same=True,
    ),
    "an insert before windows": Change(
        into("w", WINDOWS), together(into("s", TOTALS), into("w", WINDOWS)), ("w",), is_same=True
    ),
    "a later watermark": Change(
        into("w", WINDOWS),
        f"CREATE TABLE bids ({COLUMNS}, WATERMARK FOR rt AS rt - INTERVAL '1' SECOND)"
        f" WITH ('connector' = 'scripted'); {into('w', WINDOWS)}",
        ("w",),
        is_same=True,
    ),
}

IN_ORDER = {"columns below in another order", "branches of a union in another order"}
"""What is kept has no order of columns."""

LOST = {
    "a filter below": (
        TOTALS,
        TOTALS.replace("GROUP BY", "WHERE v > 0 GROUP BY"),
        "GROUP BY k (COUNT(*), SUM(v))",
    ),
    "a filter of keys that is gone": (
        f"SELECT * FROM ({TOTALS}) WHERE k <> 'a'",
        TOTALS,
        "GROUP BY k (COUNT(*), SUM(v))",
    ),
    "another key": (TOTALS, BY_GROUP.replace("MAX", "SUM"), "GROUP BY k (COUNT(*), SUM(v))"),
    "another call": (TOTALS, TOTALS.replace("SUM", "MAX"), "GROUP BY k (COUNT(*), SUM(v))"),
    "a call more": (
        "SELECT k, COUNT(*), CAST(NULL AS BIGINT) FROM bids GROUP BY k",
        TOTALS,
        "GROUP BY k (COUNT(*)) of INSERT INTO s",
    ),
    "another type": (
        TOTALS,
        TOTALS.replace("SUM(v)", "SUM(CAST(v AS INT))"),
        "GROUP BY k (COUNT(*), SUM(v))",
    ),
    "another expression": (TOTALS, TOTALS.replace("SUM(v)", "SUM(v + 1)"), "GROUP BY k (COUNT(*), SUM(v))"),
    "another number of best rows": (
        BEST,
        BEST.replace("<= 3", "<= 2"),
        "ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC",
    ),
    "another order of best rows": (
        BEST,
        BEST.replace("DESC", "ASC"),
        "ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC",
    ),
}


def scripts(seed: int) -> dict[str, list[Script]]:
    fate = random.Random(seed)
    return {table: [_split(fate, n) for n in range(count)] for table, count in SPLITS.items()}


def _split(fate: random.Random, number: int) -> Script:
    """Rows in order of time from batch to batch; ids are unique in the table."""
    batches, time_ms, id = [], 0, 1_000 * number
    for _ in range(fate.randint(15, 25)):
        rows: list[Row] = []
        for _ in range(fate.randint(1, 5)):
            time_ms += fate.choice([0, 50, 200, 1_100])
            id += 1
            rows.append((id, fate.choice("abc"), fate.choice([0, 1]), fate.randint(-5, 9), time_ms))
        batches.append(rows)
    return script_of(ROWS, "rt", batches)


def check_kept(change: Change, seed: int, directory: Path) -> tuple[CompletedCheckpoint, int]:
    """Returns what the new statement has found, and how many tables it has changed."""
    played = scripts(seed)
    old, new = planned(script(change.old)), planned(script(change.new))
    stopped = stop_old(old, played, seed, directory / "old")
    restored = restore_new(stopped, new)
    assert restored.left_out == ()
    assert not any(f"INSERT INTO {t}" in title for title in restored.begun_empty for t in change.tables)
    story = run_new(restored, new, played, seed, directory / "new")
    whole = {table: table_of(splits, {}) for table, splits in played.items()}
    changed = 0
    for table in change.tables:
        before = (
            stopped.story.changes(old.graph, table)
            if change.is_same
            else _answer_of_read(new, table, stopped, whole)
        )
        after = story.changes(new.graph, table)
        found = Counter(before)
        found.update(after)
        assert without_zeros(found) == dict(new.answer(table, whole))
        changed += bool(without_zeros(after))
    return restored, changed


def _answer_of_read(new: Planned, table: str, stopped: Stopped, whole: dict[str, object]) -> Counter[Row]:
    """The answer over what the old statement had read; of a table that it does not read, that is nothing."""
    read = {name: stopped.read.get(name, rows.slice(0, 0)) for name, rows in whole.items()}  # type: ignore[attr-defined]
    return new.answer(table, read)


@pytest.mark.parametrize("name", KEPT)
def test_state_of_the_same_meaning_is_kept(name: str, tmp_path: Path) -> None:
    restored, changed = check_kept(KEPT[name], 1, tmp_path)
    assert changed == len(KEPT[name].tables)
    states = (state for vertex in restored.vertices.values() for state in vertex.states)
    orders = {t.name: t.order for state in states for o in state.operators for t in o.tables if t.order}
    assert bool(orders) is (name.endswith("in another order") and name not in IN_ORDER)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", KEPT)
def test_state_of_the_same_meaning_is_kept_with_many_seeds(name: str, tmp_path: Path) -> None:
    # Rows that come late may change nothing, such as those behind the best three.
    changed = [check_kept(KEPT[name], seed, tmp_path / str(seed))[1] for seed in range(2, 12)]
    assert sum(changed) > 5 * len(KEPT[name].tables)


@pytest.mark.parametrize("name", LOST)
def test_state_of_another_meaning_is_named_and_left_out(name: str, tmp_path: Path) -> None:
    before, after, title = LOST[name]
    played = scripts(1)
    old, new = planned(script(into("s", before))), planned(script(into("s", after)))
    stopped = stop_old(old, played, 1, tmp_path / "old")
    with pytest.raises(UserError) as raised:
        restore_new(stopped, new)
    assert raised.value.code == "SS6204"
    assert title in raised.value.message
    assert "of INSERT INTO s" in raised.value.detail
    restored = restore_new(stopped, new, ignores_unclaimed=True)
    assert (len(restored.left_out), len(restored.begun_empty)) == (1, 1)
    story = run_new(restored, new, played, 1, tmp_path / "new")
    rest = {name: _rest(played[name], read) for name, read in stopped.read.items()}
    assert without_zeros(story.changes(new.graph, "s")) == dict(new.answer("s", rest))


def _rest(splits: list[Script], read: object) -> object:
    """The rows behind those that were read."""
    whole = table_of(splits, {})
    seen = set(read.column("id").to_pylist())  # type: ignore[attr-defined]
    return whole.filter([id not in seen for id in whole.column("id").to_pylist()])


def test_a_source_that_is_there_anew_goes_on_where_its_table_stands(tmp_path: Path) -> None:
    played = scripts(1)
    old = planned(script(into("s", TOTALS)))
    # Two scans, one of them for the state that is kept.
    text = "SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';"
    new = planned(script(text + together(into("t", BY_GROUP), into("s", TOTALS))))
    stopped = stop_old(old, played, 1, tmp_path / "old")
    restored = restore_new(stopped, new)
    assert [title.partition(" of ")[0] for title in restored.begun_empty] == ["GROUP BY g (COUNT(*), MAX(v))"]
    story = run_new(restored, new, played, 1, tmp_path / "new")
    rest = {"bids": _rest(played["bids"], stopped.read["bids"])}
    assert without_zeros(story.changes(new.graph, "t")) == dict(new.answer("t", rest))  # type: ignore[arg-type]
