"""EXPLAIN UPGRADE: what a changed statement keeps, and the words for why it does not keep more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from plan_harness import compile_script

from sqlstream.client.diagnosis import upgrade as found
from sqlstream.client.diagnosis.upgrade import Upgrade, upgrade_of
from sqlstream.client.statements.upgrade import upgrade_text
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.jobmanager.checkpoints.build_manifest import foreseen_manifest
from sqlstream.runtime.jobmanager.checkpoints.restored_state import restorable_checkpoint
from sqlstream.runtime.jobmanager.checkpoints.state_claims import begun_empty, claims_of, left_out

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "upgrades"
DDL = """
CREATE TABLE s (k BIGINT, v BIGINT, name STRING, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = 'stream');
CREATE TABLE d (k BIGINT, label STRING) WITH ('connector' = 'stream');
CREATE TABLE a (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE b (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole');
CREATE TABLE n (k STRING, c BIGINT) WITH ('connector' = 'blackhole');
"""
SUM = "INSERT INTO a SELECT k, SUM(v) FROM s WHERE v > 10 GROUP BY k"
JOIN = "INSERT INTO n SELECT d.label, s.v FROM s JOIN d ON s.k = d.k"
BEST = """INSERT INTO a SELECT k, v FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM s) WHERE r <= 3"""
WINDOW = """INSERT INTO a SELECT k, SUM(v) FROM TUMBLE(TABLE s, DESCRIPTOR(rt), INTERVAL '1' MINUTE)
  GROUP BY k, window_start, window_end"""
CASES = {
    "unchanged": (SUM, SUM),
    "another_layout_of_the_text": (SUM, SUM.replace(" WHERE", "\n WHERE").replace("SUM(v)", "SUM(v) AS total")),
    "filter_below": (SUM, SUM.replace("v > 10", "v > 20")),
    "filter_above": (SUM, f"{SUM} HAVING SUM(v) > 100"),
    "filter_on_the_key": (SUM, SUM.replace("v > 10", "v > 10 AND k > 4")),
    "type_of_the_key": (SUM, "INSERT INTO n SELECT CAST(k AS STRING), SUM(v) FROM s WHERE v > 10 GROUP BY CAST(k AS STRING)"),
    "another_call": (SUM, SUM.replace("SUM", "MAX")),
    "another_table": (SUM, SUM.replace("INTO a", "INTO b")),
    "table_beside": (SUM, f"EXECUTE STATEMENT SET BEGIN {SUM}; INSERT INTO b SELECT k, COUNT(*) FROM s GROUP BY k; END"),
    "join_kind": (JOIN, JOIN.replace("JOIN", "LEFT JOIN")),
    "join_condition": (JOIN, JOIN.replace("d.k", "d.k AND s.v > CHAR_LENGTH(d.label)")),
    "top_3_to_5": (BEST, BEST.replace("r <= 3", "r <= 5")),
    "top_3_to_1": (BEST, BEST.replace("r <= 3", "r <= 1")),
    "window_size": (WINDOW, WINDOW.replace("'1' MINUTE", "'2' MINUTE")),
    "window_to_group": (WINDOW, SUM),
    "stateless_filter": ("INSERT INTO a SELECT k, v FROM s WHERE v > 10", "INSERT INTO a SELECT k, v FROM s WHERE v > 20"),
    "columns_in_another_order": (
        JOIN.replace("s.v", "s.v + CHAR_LENGTH(s.name)"),
        "INSERT INTO n SELECT d.label, s.v + CHAR_LENGTH(s.name) FROM (SELECT name, v, k FROM s) s JOIN d ON s.k = d.k",
    ),
}  # fmt: skip


@functools.cache
def planned(sql: str, settings: str = "") -> JobGraph:
    (plan,) = compile_script(f"{settings}{DDL}{sql};", {"parallelism.default": "2"})
    return plan.job_graph


def upgrade(old: str, new: str, settings: str = "") -> Upgrade:
    saved = StoredCheckpoint("/saved", "/saved", foreseen_manifest(planned(old)))
    return upgrade_of(saved, planned(new, settings), "savepoint", {})


@pytest.mark.parametrize("name", CASES)
def test_an_upgrade_is_explained_as_its_golden_file_says(
    name: str, golden: Callable[[Path, str], None]
) -> None:
    old, new = CASES[name]
    golden(GOLDEN / f"{name}.out", f"-- {old}\n-- {new}\n\n{upgrade_text(upgrade(old, new))}")


STATEMENTS = (
    *dict.fromkeys(sql for pair in CASES.values() for sql in pair),
    "INSERT INTO a SELECT DISTINCT k, v FROM s",
    "INSERT INTO a SELECT k, COUNT(DISTINCT v) FROM s GROUP BY k",
    "INSERT INTO a SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY rt) FROM s",
    "INSERT INTO n SELECT d.label, s.v FROM d JOIN s ON s.k = d.k WHERE s.name = 'x'",
    "INSERT INTO a SELECT k, v FROM s UNION ALL SELECT k, k FROM d",
    "INSERT INTO a SELECT k, SUM(c) FROM (SELECT k, COUNT(*) AS c FROM s GROUP BY k, name) GROUP BY k",
    "INSERT INTO a SELECT x.k, y.v FROM s x, s y WHERE x.k = y.k AND x.rt BETWEEN y.rt - INTERVAL '5' SECOND AND y.rt",
)


@pytest.mark.parametrize("old", STATEMENTS)
def test_it_says_what_a_start_from_the_savepoint_does(old: str) -> None:
    manifest = foreseen_manifest(planned(old))
    for new in STATEMENTS:
        told, job = upgrade(old, new), planned(new)
        claims = claims_of(manifest, job)
        assert sorted(f.title for f in told.findings if f.verdict == found.DROPPED) == sorted(
            left_out(manifest, claims)
        )
        empty = [f.title for f in told.findings if f.verdict in (found.EMPTY, found.ANEW)]
        assert sorted(empty) == sorted(begun_empty(job, claims))
        try:
            restorable_checkpoint(
                StoredCheckpoint("/s", "/s", manifest), job, is_owned=False, ignores_unclaimed=False
            )
            is_refused = False
        except UserError:
            is_refused = True
        assert told.is_refused == is_refused


def test_states_of_other_ids_differ_in_an_aspect_and_equal_ones_in_filters_of_keys_alone() -> None:
    states = [
        o.state
        for sql in STATEMENTS
        for v in planned(sql).vertices
        for o in v.operators
        if o.state is not None
    ]
    kept = [s for s in states if not s.sql.startswith(("the position", "the rows of table", "WATERMARK"))]
    assert len({s.id for s in kept}) >= 15
    for old, new in product(kept, kept):
        differing = {a.name for a in found._unequal(old, new)}
        if old.id != new.id:
            assert differing, (old.sql, new.sql)
        else:
            assert differing <= {"filter", "condition"}, (old, new)


def test_names_are_no_difference() -> None:
    old, new = (
        next(
            o.state for v in planned(sql).vertices for o in v.operators if o.state and "GROUP" in o.state.sql
        )
        for sql in (
            SUM,
            SUM.replace("FROM s", "FROM (SELECT k AS key, v AS value, name FROM s) AS t (k, v, name)"),
        )
    )
    assert list(found._differences(old, new)) == []


def test_settings_that_change_what_is_kept_are_told() -> None:
    told = upgrade(SUM, SUM, "SET 'table.exec.state.ttl' = '1 h';")
    assert told.notes == (
        "table.exec.state.ttl is another: it counts from the last change of an entry, also of one that is kept",
    )
    assert not told.is_refused
    ignored = upgrade(SUM, CASES["another_call"][1], f"SET '{found.IGNORES}' = 'true';")
    assert (ignored.is_refused, ignored.refusals) == (False, ())
    groups = upgrade(SUM, SUM, "SET 'pipeline.max-parallelism' = '64';")
    assert groups.is_refused
    assert groups.refusals[0].startswith("SS6205: ")
    assert groups.advice == ("set 'pipeline.max-parallelism' to 128, and no parallelism above it",)


def test_a_source_whose_place_is_open_is_refused_with_its_reason() -> None:
    alone = "SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';"
    both = (
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT k, v FROM s; INSERT INTO b SELECT k, v FROM s; END"
    )
    saved = StoredCheckpoint("/saved", "/saved", foreseen_manifest(planned(both, alone)))
    told = upgrade_of(saved, planned("INSERT INTO n SELECT name, v FROM s"), "savepoint", {})
    assert told.is_refused
    (refusal,) = told.refusals
    assert refusal.startswith("SS6204: it is open where the position in table s of INSERT INTO n goes on")
    assert upgrade_text(told).startswith("savepoint: the statement would be refused\n\nrefused: SS6204")


def test_a_source_beside_goes_on_where_its_table_stands() -> None:
    alone = "SET 'table.optimizer.reuse-sub-plan-enabled' = 'false';"
    beside = f"EXECUTE STATEMENT SET BEGIN {SUM}; INSERT INTO b SELECT k, COUNT(*) FROM s GROUP BY k; END"
    first, second = upgrade(SUM, beside, alone).of("source")
    assert (first.verdict, first.reasons) == (found.GOES_ON, ())
    assert (second.verdict, second.reasons) == (
        found.GOES_ON,
        (
            "where the position in table s of INSERT INTO a stands: what it feeds alone has not seen the rows before",
        ),
    )
