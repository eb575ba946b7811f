"""What an operator saves of its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.keys.hashing import hash_columns, key_groups
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.state.snapshots.current_rows import current_rows, whole_rows
from sqlstream.runtime.state.storage.arrays import Array

Value = TypeVar("Value")

KEY_GROUP_COLUMN = "$key_group"
"""First column, int32, of every keyed snapshot table."""


class SnapshotAborted(Exception):
    """What a snapshot copied was given up, because its checkpoint was aborted."""


@dataclasses.dataclass
class SavedTables:
    """State as plain Arrow tables by name.

    `keyed` tables start with KEY_GROUP_COLUMN; a restore gets only the rows of its own key groups, already concatenated.
    `shared` tables (small: a watermark, a flag) are concatenated over all old subtasks, and each new subtask receives all of
    them.
    A keyed table named in `increments` holds only what changed since the checkpoint with that id, one that was completed: its
    segments follow those of that checkpoint. All other tables are whole.
    While it is written, a keyed table may be a `pa.RecordBatchReader`, which is read once.
    """

    keyed: dict[str, pa.Table | pa.RecordBatchReader] = dataclasses.field(default_factory=dict)
    shared: dict[str, pa.Table] = dataclasses.field(default_factory=dict)
    increments: dict[str, int] = dataclasses.field(default_factory=dict)

    def batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of a keyed table that no increment has replaced, piece by piece: as one array, strings may be too long for
        Arrow."""
        table = self.keyed.get(name)
        return iter(()) if table is None else current_rows(table.to_batches())

    def whole_rows(self, name: str) -> int:
        """How many rows the whole copies of a keyed table have, without those of increments."""
        table = self.keyed.get(name)
        return 0 if table is None else whole_rows(table.to_batches())


class OperatorSnapshot(SavedTables):
    """The saved tables of all state that one operator of one subtask declares; those of a declared table are named as it
    is, or `name.part`."""

    def include(self, saved: SavedTables) -> None:
        """Add the tables of one piece of state."""
        self.keyed |= saved.keyed
        self.shared |= saved.shared
        self.increments |= saved.increments

    def of(self, name: str) -> SavedTables:
        """The tables that the declared table `name` has saved."""
        return SavedTables(_named(self.keyed, name), _named(self.shared, name), _named(self.increments, name))


def _named(tables: dict[str, Value], name: str) -> dict[str, Value]:
    return {key: table for key, table in tables.items() if key == name or key.startswith(f"{name}.")}


def key_group_column(keys: list[pa.Array], rows: int, max_parallelism: int) -> pa.Array:
    """Key group of each row, int32; 0 without keys, where the operator runs in one subtask."""
    if not keys:
        return pa.array(np.zeros(rows, dtype=np.int32))
    return pa.array(key_groups(hash_columns(keys), max_parallelism))


def slot_key_groups(index: KeyIndex | None, slots: Array, max_parallelism: int) -> Array:
    """int32[n]: the key group of each live slot, of which the index has the hash; 0 without an index."""
    if index is None:
        return np.zeros(len(slots), dtype=np.int32)
    return key_groups(index.hashes(slots), max_parallelism)
