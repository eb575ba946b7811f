"""Rows in order of arrival: the state of a sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from runtime.state.held_memory import held_bytes, self_contained
from runtime.state.key_group_column import key_group_column
from runtime.state.operator_state import NeverExpires, SavedWhole
from runtime.state.slot_columns import unique_names
from runtime.state.snapshot import KEY_GROUP_COLUMN, SavedTables


class RowList(SavedWhole, NeverExpires):
    """The rows of an operator that runs in one subtask. State: the batches, none of which is held for a few of its rows."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.name = name
        self.schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._nbytes = 0
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
            columns = self_contained(batch.columns)
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            self._nbytes += held_bytes(columns)
            self._rows += batch.num_rows

    def replace(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Forget all rows, and keep these instead."""
        self._batches, self._nbytes, self._rows = [], 0, 0
        for batch in batches:
            self.append(batch)

    def collected(self) -> pa.RecordBatch:
        """All rows as one batch."""
        if not self._batches:
            return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in self.schema], schema=self.schema)
        return pa.concat_batches(self._batches)

    def save_later(self) -> Callable[[], SavedTables]:
        """The batches as they are, all in key group 0."""
        name, names, batches = (
            self.name,
            unique_names([KEY_GROUP_COLUMN, *self.schema.names]),
            [*self._batches],
        )
        return lambda: SavedTables(
            keyed={
                name: pa.Table.from_batches(
                    pa.RecordBatch.from_arrays([key_group_column([], b.num_rows, 1), *b.columns], names=names)
                    for b in batches
                )
            }
            if batches
            else {}
        )

    def load(self, saved: SavedTables) -> None:
        for batch in saved.batches(self.name):
            self.append(pa.RecordBatch.from_arrays(batch.columns[1:], schema=self.schema))

    def nbytes(self) -> int:
        return self._nbytes
