"""Rows that an operator holds back only to emit them together."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables


class HeldRows(SavedWhole, NeverExpires):
    """Implements `StateTable`: its bytes count, but the operator's `flush` emits the rows before a snapshot, so that nothing of
    them is saved. State: the batches, until `take`."""

    name = "held"

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows

    def take(self) -> tuple[list[pa.RecordBatch], int]:
        """All batches and the number of their rows; nothing is held then."""
        taken = self.batches, self.rows
        self.batches, self.rows = [], 0
        return taken

    def save_later(self) -> Callable[[], SavedTables]:
        assert not self.batches
        return SavedTables

    def load(self, saved: SavedTables) -> None:
        return None

    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)
