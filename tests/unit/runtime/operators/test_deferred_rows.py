"""Rows that are built when they are read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.operators.deferred_rows import DeferredRows, RowsOfBatch, RowsOfState
from sqlstream.runtime.operators.equal_values import key_groups
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore

LEFT = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"]})
RIGHT = pa.record_batch({"c": [10, 20], "d": ["long enough", "y"]})
MINE, THEIRS = np.array([2, 0, 2, 1]), np.array([1, 0, 0, 1])
JOINED = {
    "a": [3, 1, 3, 2],
    "b": ["z", "x", "z", None],
    "c": [20, 10, 10, 20],
    "d": ["y", *["long enough"] * 2, "y"],
}


class WatchedStore(RowStore):
    """State: which columns were read."""

    def __init__(self, schema: pa.Schema) -> None:
        super().__init__(schema)
        self.read: list[list[int]] = []

    def columns(self, row_ids: Array, numbers: Sequence[int]) -> list[pa.Array]:
        self.read.append(list(numbers))
        return super().columns(row_ids, numbers)


def joined() -> tuple[DeferredRows, WatchedStore]:
    store = WatchedStore(RIGHT.schema)
    ids = store.append(RIGHT)
    schema = pa.schema([*LEFT.schema, *RIGHT.schema])
    return DeferredRows(
        schema, 4, [(RowsOfBatch(LEFT, MINE), 2), (RowsOfState(store, ids[THEIRS]), 2)]
    ), store


def test_a_column_is_read_once_and_together_with_others_that_are_asked_for_with_it() -> None:
    rows, store = joined()
    assert [c.to_pylist() for c in rows.columns([3, 0])] == [JOINED["d"], JOINED["a"]]
    assert rows.column(3).to_pylist() == JOINED["d"]
    assert store.read == [[1]]
    assert rows.batch().to_pydict() == JOINED
    assert store.read == [[1], [0]]


def test_rows_are_chosen_before_their_columns_are_read() -> None:
    rows, store = joined()
    assert store.read == []
    chosen = rows.chosen(np.array([3, 1], dtype=np.int32))
    assert chosen.num_rows == 2
    assert chosen.batch().to_pydict() == {name: [values[3], values[1]] for name, values in JOINED.items()}
    assert store.read == [[0, 1]]
    every = RowsOfBatch(LEFT, None)
    assert every.columns([1])[0].to_pylist() == ["x", None, "z"]
    assert every.chosen(np.array([1])).columns([0])[0].to_pylist() == [2]


def test_rows_of_a_state_that_repeat_are_read_and_grouped_once() -> None:
    store = WatchedStore(RIGHT.schema)
    ids = store.append(pa.concat_batches([RIGHT, RIGHT.slice(0, 1)]))
    repeated = RowsOfState(store, ids, np.array([1, 0, 2, 1, 0], dtype=np.int32))
    rows = DeferredRows(RIGHT.schema, 5, [(repeated, 2)])
    assert rows.batch().column(0).to_pylist() == [20, 10, 10, 20, 10]
    groups, first_rows, columns = key_groups(rows, [0, 1])
    # Two rows of the state are equal.
    assert (groups.tolist(), first_rows.tolist()) == ([0, 1, 1, 0, 1], [0, 1])
    assert [column.to_pylist() for column in columns] == [[20, 10], ["y", "long enough"]]
    fewer = rows.chosen(np.array([4, 3, 3, 0]))
    assert [part.tolist() for part in key_groups(fewer, [0])[:2]] == [[0, 1, 1, 1], [0, 1]]
    assert rows.chosen(np.array([2])).batch().to_pylist() == [{"c": 10, "d": "long enough"}]


def test_columns_of_several_parts_are_grouped_by_their_values() -> None:
    rows, _ = joined()
    assert rows.groups([0, 2]) is None
    groups, first_rows, columns = key_groups(rows, [2])
    assert (groups.tolist(), first_rows.tolist(), columns[0].to_pylist()) == ([0, 1, 1, 0], [0, 1], [20, 10])
