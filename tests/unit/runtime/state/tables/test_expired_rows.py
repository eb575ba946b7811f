"""The log of expired rows against a list of rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import ManualClock, share_of

from sqlstream.expired_rows import NOT_KEPT
from sqlstream.graph.state_identity import ExpiredColumn, ExpiredState
from sqlstream.runtime.state.operator_state import OperatorState, StateScope
from sqlstream.runtime.state.tables.expired_rows import ExpiredRows, keeper_of
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
KEPT = ExpiredState("rows", ("t",), (ExpiredColumn(1, "t", "n", "t.n"), ExpiredColumn(0, "t", "k", "t.k")))
TTL_MS, RETENTION_MS = 10, 100
CONFIG = {"sqlstream.state.expired-rows.retention": f"{RETENTION_MS} ms"}
Rows = list[tuple[str | None, int]]


class Subtask:
    """One subtask of an operator with a table that expires, whose rows are kept."""

    def __init__(
        self, clock: ManualClock, config: dict[str, str], kept: ExpiredState = KEPT, subtask: int = 0
    ) -> None:
        self.counts: Counter[str] = Counter()
        scope = StateScope(subtask, 128, clock)
        keeper = keeper_of((kept,), scope, config, "j", lambda name, n: self.counts.update({name: n}))
        self.state = OperatorState(scope, lambda n: self.counts.update(expired=n), keeper)
        self.rows = self.state.add(KeyedRows("rows", SCHEMA, (0,), scope, ttl_ms=TTL_MS))
        log = self.state.tables[1]
        assert isinstance(log, ExpiredRows)
        self.log = log

    def add(self, rows: Rows) -> None:
        self.state.expire()
        self.rows.append(pa.record_batch({"k": [k for k, _ in rows], "n": [n for _, n in rows]}, SCHEMA))

    def kept(self) -> list[dict[str, Any]]:
        self.state.expire()
        return self.log.gather(self.log.row_ids()).to_pylist()


TURNS = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from([None, "a", "b", "é"]), st.integers(0, 9)), max_size=4),
              st.integers(0, 40)),
    max_size=12,
)  # fmt: skip


@given(TURNS, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_what_expires_is_kept_for_the_retention_also_in_other_subtasks(
    turns: list[tuple[Rows, int]], parallelism: int
) -> None:
    clock = ManualClock(0)
    subtask = Subtask(clock, CONFIG)
    come: list[tuple[int, str | None, int]] = []
    for rows, wait_ms in turns:
        subtask.add(rows)
        come += [(clock.now_ms, k, n) for k, n in rows]
        for _ in range(wait_ms):
            # A task sweeps at each due time.
            clock.now_ms += 1
            subtask.state.expire()

    def expected() -> Counter[tuple[int, str | None, int]]:
        return Counter(row for row in come if TTL_MS <= clock.now_ms - row[0] < TTL_MS + RETENTION_MS)

    assert Counter((r["$last_used_ms"], r["t.k"], r["t.n"]) for r in subtask.kept()) == expected()
    assert subtask.counts["expired"] == sum(clock.now_ms - at >= TTL_MS for at, _, _ in come)
    snapshot = subtask.state.snapshot()
    moved = [Subtask(clock, CONFIG, subtask=number) for number in range(parallelism)]
    for number, part in enumerate(moved):
        part.state.restore(share_of([snapshot], number, parallelism, 128))
    clock.now_ms += 25
    found = [row for part in moved for row in part.kept()]
    assert Counter((r["$last_used_ms"], r["t.k"], r["t.n"]) for r in found) == expected()


def test_the_oldest_rows_go_first_and_are_counted() -> None:
    clock = ManualClock(0)
    subtask = Subtask(clock, {**CONFIG, "sqlstream.state.expired-rows.max-rows": "8"})
    for n in range(9):
        subtask.add([("a", n)])
        clock.now_ms += 1
    clock.now_ms = TTL_MS + 9
    assert sorted(row["t.n"] for row in subtask.kept()) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert subtask.counts[NOT_KEPT] == 1
    subtask.add([("b", n) for n in range(20)])
    clock.now_ms += TTL_MS
    assert {row["t.k"] for row in subtask.kept()} == {"b"}
    assert len(subtask.kept()) == 7
    assert subtask.counts[NOT_KEPT] + len(subtask.kept()) == subtask.counts["expired"] == 29


def test_the_bytes_of_rows_are_bounded() -> None:
    clock = ManualClock(0)
    subtask = Subtask(clock, {**CONFIG, "sqlstream.state.expired-rows.max-bytes": "100 kb"})
    for n in range(50):
        subtask.add([("x" * 10_000, n)])
        clock.now_ms += 1
    clock.now_ms += TTL_MS
    kept = [row["t.n"] for row in subtask.kept()]
    assert sorted(kept) == list(range(50 - len(kept), 50))
    assert 7 <= len(kept) <= 10
    assert subtask.counts[NOT_KEPT] == 50 - len(kept)


def test_columns_are_found_by_their_names_after_a_change_of_the_statement() -> None:
    clock = ManualClock(0)
    subtask = Subtask(clock, CONFIG)
    subtask.add([("a", 1)])
    clock.now_ms = TTL_MS
    subtask.state.expire()
    other = ExpiredState(
        "rows", ("t",), (ExpiredColumn(0, "t", "k", "t.k"), ExpiredColumn(1, "t", "m", "t.m"))
    )
    changed = Subtask(clock, CONFIG, other)
    changed.state.restore(subtask.state.snapshot())
    (row,) = changed.kept()
    assert (row["t.k"], row["t.m"], row["$job"], row["$rows"]) == ("a", None, "j", 1)


def test_rows_in_the_log_are_no_entries_of_state() -> None:
    clock = ManualClock(0)
    subtask = Subtask(clock, CONFIG)
    subtask.add([("a", 1), ("b", 1)])
    assert subtask.state.entries() == 2
    clock.now_ms = TTL_MS
    assert len(subtask.kept()) == 2
    assert subtask.state.entries() == 0
    clock.now_ms += RETENTION_MS
    assert subtask.kept() == []
    assert subtask.counts == {"expired": 2}


@pytest.mark.parametrize("config", [{}, {"sqlstream.state.expired-rows.retention": "0 ms"}])
def test_without_a_retention_nothing_is_kept(config: dict[str, str]) -> None:
    scope = StateScope(0, 128, ManualClock(0))
    state = OperatorState(scope, keep_expired=keeper_of((KEPT,), scope, config, "j", lambda name, n: None))
    state.add(KeyedRows("rows", SCHEMA, (0,), scope, ttl_ms=TTL_MS))
    assert [table.name for table in state.tables] == ["rows"]
