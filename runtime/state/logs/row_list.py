"""Rows in order of arrival: the state of a sort."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa

from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.logs.chunk_changes import ChunkChanges, ChunkCopy, SavedByChunks, in_order
from sqlstream.runtime.state.operator_state import NeverExpires
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.key_group_column import key_group_column
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.held_memory import held_bytes, self_contained


class RowList(SavedByChunks, NeverExpires):
    """The rows of an operator that runs in one subtask. State: the batches, none of which is held for a few of its rows."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._batches: dict[int, pa.RecordBatch] = {}
        self._memory = memory_in_force()
        self._changes = ChunkChanges(name, schema.names)
        self._nbytes = 0
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
            columns = self._memory.settled(self_contained(batch.columns))
            number = self._changes.next_number()
            self._batches[number] = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            self._nbytes += held_bytes(columns)
            self._rows += batch.num_rows

    def replace(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Forget all rows, and keep these instead."""
        self._batches, self._nbytes, self._rows = {}, 0, 0
        for batch in batches:
            self.append(batch)

    def collected(self) -> pa.RecordBatch:
        """All rows as one batch."""
        if not self._batches:
            return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in self.schema], schema=self.schema)
        return pa.concat_batches([*self._batches.values()])

    def chunk_copies(self) -> list[ChunkCopy]:
        """The batches as they are, all in key group 0."""
        return [
            ChunkCopy(number, 0, batch.num_rows, functools.partial(_saved, batch))
            for number, batch in self._batches.items()
        ]

    def load(self, saved: SavedTables) -> None:
        for batch in in_order(saved.batches(self.name)):
            self.append(pa.RecordBatch.from_arrays(batch.columns[FIXED_COLUMNS:], schema=self.schema))

    def nbytes(self) -> int:
        return self._nbytes + self._changes.nbytes


def _saved(batch: pa.RecordBatch) -> tuple[pa.Array, list[pa.Array]]:
    return key_group_column([], batch.num_rows, 1), batch.columns
