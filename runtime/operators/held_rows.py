"""Small batches that an operator holds to work on them as one, and when it emits them."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pyarrow as pa

from sqlstream.runtime.operators.operator import Operator, Output, SpecT
from sqlstream.runtime.state.operator_state import SavesNothing
from sqlstream.runtime.state.snapshots.snapshot import SavedTables


class HeldRows(SavesNothing):
    """Implements `StateTable`: its bytes count, but nothing of it is saved. `settle`, a method, takes the rows before a snapshot;
    without it, the operator's `flush` has done so.

    State: the batches, until `take`."""

    name = "held"

    def __init__(self, settle: Callable[[], None] | None = None) -> None:
        # No reference back to the operator: without a cycle its state goes as soon as it does.
        self._settle = weakref.WeakMethod(settle) if settle is not None else None
        self._batches: list[pa.RecordBatch] = []
        self.rows = 0
        self.bytes = 0

    def append(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        # What the batch keeps in memory, which may be more than its own rows.
        self.bytes += batch.get_total_buffer_size()

    def take(self) -> pa.RecordBatch | None:
        """All rows; nothing is held then."""
        batches, self._batches, self.rows, self.bytes = self._batches, [], 0, 0
        if len(batches) <= 1:
            return batches[0] if batches else None
        schema = batches[0].schema
        # Types are the same; what is said of NULL in each may differ.
        alike = (
            b if b.schema.equals(schema) else pa.RecordBatch.from_arrays(b.columns, schema=schema)
            for b in batches
        )
        return pa.concat_batches(alike)

    def save_later(self) -> Callable[[], SavedTables]:
        settle = self._settle() if self._settle is not None else None
        if settle is not None:
            settle()
        assert not self._batches
        return super().save_later()

    def nbytes(self) -> int:
        return self.bytes


class HoldingOperator(Operator[SpecT]):
    """An operator that holds rows which `flush` emits: before whatever must not overtake them."""

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self.flush(output)
        return watermark_ms

    def on_idle(self, is_idle: bool, output: Output) -> bool | None:
        self.flush(output)
        return is_idle

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        self.flush(output)

    def on_finish(self, output: Output) -> None:
        self.flush(output)
