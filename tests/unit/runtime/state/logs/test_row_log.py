"""A log of rows with times: what a restore leaves of it, and what it keeps in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import share_of

from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.state.logs.row_log import RowLog, Spread
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    keys, numbers = zip(*rows, strict=True)
    return pa.record_batch({"k": keys, "n": numbers}, schema=SCHEMA)


def log_of(spread: Spread, rows: list[tuple[str, int]], subtask: int = 0) -> RowLog:
    """A log whose rows have their number as their time; each row is appended alone."""
    log = RowLog("left", SCHEMA, StateScope(subtask), (0,), spread)
    for row in rows:
        log.append(batch([row]), np.array([row[1]]), np.array([row[1] % 2 == 1]))
    return log


def contents(log: RowLog) -> list[tuple[Any, ...]]:
    """Key, number, time and whether it has matched, of each row."""
    return [
        (row["k"], row["n"], time, matched)
        for c in log.chunks
        for row, time, matched in zip(
            c.batch.to_pylist(), c.times.tolist(), c.is_matched.tolist(), strict=True
        )
    ]


def restored(logs: list[RowLog], spread: Spread, subtask: int, parallelism: int) -> RowLog:
    snapshots = []
    for log in logs:
        snapshot = OperatorSnapshot()
        snapshot.include(log.save())
        snapshots.append(snapshot)
    moved = RowLog("left", SCHEMA, StateScope(subtask), (0,), spread)
    moved.load(share_of(snapshots, subtask, parallelism, 128))
    return moved


ROWS = [(f"key {n % 7}", n) for n in range(40)]


@pytest.mark.parametrize("spread", [Spread.BY_KEY, Spread.ANYWHERE])
def test_every_row_is_restored_in_one_subtask_with_its_time_and_flag(spread: Spread) -> None:
    parts = [log_of(spread, ROWS[:25], 0), log_of(spread, ROWS[25:], 1)]
    moved = [contents(restored(parts, spread, subtask, 3)) for subtask in range(3)]
    assert sorted(r for part in moved for r in part) == sorted((k, n, n, n % 2 == 1) for k, n in ROWS)
    for part in moved:
        assert [n for _, n, _, _ in part] == sorted(n for _, n, _, _ in part)


def test_rows_of_a_key_go_to_one_subtask_and_rows_that_may_be_anywhere_to_all() -> None:
    same = [("a", n) for n in range(384)]
    by_key = [restored([log_of(Spread.BY_KEY, same)], Spread.BY_KEY, s, 3) for s in range(3)]
    assert sorted(len(contents(log)) for log in by_key) == [0, 0, 384]
    anywhere = [restored([log_of(Spread.ANYWHERE, same)], Spread.ANYWHERE, s, 3) for s in range(3)]
    assert [len(contents(log)) for log in anywhere] == [129, 129, 126]


def test_of_the_copies_of_all_subtasks_the_one_that_has_removed_least_is_restored() -> None:
    copies = [log_of(Spread.EVERYWHERE, ROWS, subtask) for subtask in range(3)]
    for log, limit in zip(copies, (30, 12, 39), strict=True):
        log.take_until(limit)
    assert contents(copies[2]) == []
    for subtask in range(2):
        moved = contents(restored(copies, Spread.EVERYWHERE, subtask, 2))
        assert [n for _, n, _, _ in moved] == list(range(13, 40))


def test_a_snapshot_does_not_see_what_matches_after_it() -> None:
    log = log_of(Spread.BY_KEY, [("a", 2), ("b", 4)])
    saved = log.save()
    log.chunks[0].is_matched[:] = True
    log.take_until(3)
    assert saved.keyed["left"].column("$is_matched").to_pylist() == [False, False]


def test_a_log_of_a_few_rows_of_each_batch_holds_no_more_memory_than_they_need() -> None:
    log = RowLog("left", SCHEMA, StateScope())
    whole = batch([("x" * 100, n) for n in range(5_000)])
    for _ in range(50):
        part = whole.slice(2_000, 3)
        log.append(part, view_values(part.column(1), np.int64))
    needed = 150 * (100 + 4 + 8 + 8 + 1)
    assert log.nbytes() <= 2 * needed
    held = [buffer for c in log.chunks for column in c.batch.columns for buffer in column.buffers() if buffer]
    assert sum(buffer.size for buffer in held) <= 2 * needed
    assert all(c.times.base is None for c in log.chunks)


def test_the_size_of_a_log_counts_memory_that_times_share_with_a_column_once() -> None:
    rows = batch([("a", n) for n in range(1_000)])
    shared = RowLog("left", SCHEMA, StateScope())
    shared.append(rows, view_values(rows.column(1), np.int64))
    own = RowLog("left", SCHEMA, StateScope())
    own.append(rows, view_values(rows.column(1), np.int64).copy())
    assert own.nbytes() - shared.nbytes() == 8_000
