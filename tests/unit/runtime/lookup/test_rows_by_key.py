"""Keys with their rows: known, unknown, without rows, and forgotten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream.runtime.lookup.cache import RowsByKey

SCHEMA = pa.schema([("name", pa.string()), ("k", pa.int64()), ("k2", pa.string())])
Row = tuple[Any, ...]


def batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def keys(*pairs: tuple[int | None, str | None]) -> list[pa.Array]:
    return [pa.array([p[0] for p in pairs], pa.int64()), pa.array([p[1] for p in pairs], pa.string())]


def found(table: RowsByKey, *pairs: tuple[int | None, str | None]) -> list[list[str]]:
    """The names under each key."""
    slots = table.find(keys(*pairs))
    positions, row_ids = table.match(slots)
    names = table.gather(row_ids).column(0).to_pylist()
    result: list[list[str]] = [[] for _ in pairs]
    for position, name in zip(positions.tolist(), names, strict=True):
        result[position].append(name)
    assert table.counts(slots).tolist() == [len(r) for r in result]
    return result


def test_added_keys_are_known_with_all_their_rows_and_other_rows_are_left_out() -> None:
    table = RowsByKey(SCHEMA, (1, 2))
    rows = [("a1", 1, "x"), ("b", 2, "x"), ("a2", 1, "x"), ("other", 9, "x"), ("null", None, "x")]
    slots = table.add(keys((1, "x"), (2, "x"), (3, "y")), batch(rows))
    assert (table.key_count, table.row_count) == (3, 3)
    assert found(table, (1, "x"), (3, "y"), (2, "x"), (9, "x"), (None, "x")) == [
        ["a1", "a2"],
        [],
        ["b"],
        [],
        [],
    ]
    known = table.find(keys((3, "y"), (9, "x"), (None, "x")))
    assert known.tolist() == [slots[2], -1, -1]
    # A batch of later keys does not add rows to those that are known.
    table.add(keys((4, "x")), batch([("a3", 1, "x"), ("d", 4, "x")]))
    assert found(table, (1, "x"), (4, "x")) == [["a1", "a2"], ["d"]]


def test_forgotten_keys_are_unknown_and_leave_room() -> None:
    table = RowsByKey(SCHEMA, (1, 2))
    slots = table.add(
        keys((1, "x"), (2, "x"), (3, "x")), batch([("a", 1, "x"), ("b", 2, "x"), ("b2", 2, "x")])
    )
    table.forget(slots[1:])
    assert (table.key_count, table.row_count) == (1, 1)
    assert table.slots().tolist() == [slots[0]]
    assert found(table, (1, "x"), (2, "x")) == [["a"], []]
    assert table.find(keys((2, "x"), (3, "x"))).tolist() == [-1, -1]
    table.add(keys((2, "x")), batch([("b3", 2, "x")]))
    assert found(table, (2, "x")) == [["b3"]]
    assert table.slot_count <= 3


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_loaded_table_holds_its_rows_without_those_that_cannot_match(is_repeated: bool) -> None:
    rows = [("a", 1, "x"), ("no", None, "x"), ("b", 2, "x"), ("no", 1, None), ("c", 1, "y")]
    if is_repeated:
        rows.append(("a2", 1, "x"))
    table = RowsByKey(SCHEMA, (1, 2))
    table.load(batch(rows))
    assert (table.key_count, table.row_count) == (3, 3 + is_repeated)
    expected = ["a", "a2"] if is_repeated else ["a"]
    assert found(table, (2, "x"), (1, "x"), (7, "x"), (1, "y")) == [["b"], expected, [], ["c"]]
    assert len(np.unique(table.slots())) == 3


def test_an_empty_table_knows_nothing() -> None:
    table = RowsByKey(SCHEMA, (1,))
    table.load(batch([]))
    assert (table.key_count, table.row_count) == (0, 0)
    assert table.find([pa.array([1], pa.int64())]).tolist() == [-1]
