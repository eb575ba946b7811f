"""The table behind the live view: literal changes in, literal rows out."""

from __future__ import annotations

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.changelog import RowKind
from sqlstream.client.shell.live_rows import live_rows
from sqlstream.schema import Schema

SCHEMA = Schema.of(("k", sql.STRING), ("n", sql.BIGINT))
PLUS, BEFORE, AFTER, MINUS = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE


def batch(*rows: tuple[str, int], kinds: tuple[RowKind, ...] = ()) -> pa.RecordBatch:
    columns = [pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.int64())]
    names = ["k", "n"]
    if kinds:
        columns, names = [*columns, pa.array([int(k) for k in kinds], pa.int8())], [*names, "$row_kind"]
    return pa.RecordBatch.from_arrays(columns, names)


def rows(live, start: int = 0, count: int = 100) -> list[tuple[str, int]]:  # type: ignore[no-untyped-def]
    found = live.window(start, count)
    return list(zip(*(c.to_pylist() for c in found.columns), strict=True))


def test_an_updated_row_keeps_its_place() -> None:
    live = live_rows(SCHEMA, True, 100)
    live.add(batch(("a", 1), ("b", 1), ("c", 1), kinds=(PLUS, PLUS, PLUS)))
    live.add(batch(("b", 1), ("b", 2), kinds=(BEFORE, AFTER)))
    assert rows(live) == [("a", 1), ("b", 2), ("c", 1)]


def test_updates_in_two_blocks_keep_their_places() -> None:
    live = live_rows(SCHEMA, True, 100)
    live.add(batch(("a", 1), ("b", 1), kinds=(PLUS, PLUS)))
    live.add(batch(("a", 1), ("b", 1), ("a", 2), ("b", 2), kinds=(BEFORE, BEFORE, AFTER, AFTER)))
    assert rows(live) == [("a", 2), ("b", 2)]


def test_a_chain_of_updates_in_one_batch_keeps_its_place() -> None:
    live = live_rows(SCHEMA, True, 100)
    live.add(batch(("a", 1), ("b", 1), kinds=(PLUS, PLUS)))
    live.add(batch(("a", 1), ("a", 2), ("a", 2), ("a", 3), kinds=(BEFORE, AFTER, BEFORE, AFTER)))
    assert rows(live) == [("a", 3), ("b", 1)]


def test_deleted_rows_are_gone_and_equal_rows_are_counted() -> None:
    live = live_rows(SCHEMA, True, 100)
    live.add(batch(("a", 1), ("a", 1), ("b", 1), kinds=(PLUS, PLUS, PLUS)))
    live.add(batch(("a", 1), ("b", 1), kinds=(MINUS, MINUS)))
    assert (rows(live), len(live), live.changes) == ([("a", 1)], 1, 5)


def test_a_window_spans_batches() -> None:
    live = live_rows(SCHEMA, False, 100)
    live.add(batch(("a", 1), ("b", 2)))
    live.add(batch(("c", 3), ("d", 4)))
    assert rows(live, 1, 2) == [("b", 2), ("c", 3)]
    assert rows(live, 3, 5) == [("d", 4)]
    assert rows(live, 4, 5) == []


def test_the_oldest_rows_go_when_there_are_too_many() -> None:
    for is_updating in (False, True):
        live = live_rows(SCHEMA, is_updating, 3)
        live.add(batch(("a", 1), ("b", 2)))
        live.add(batch(("c", 3), ("d", 4), ("e", 5)))
        assert (rows(live), live.dropped, len(live)) == ([("c", 3), ("d", 4), ("e", 5)], 2, 3)
