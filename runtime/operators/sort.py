"""ORDER BY over bounded input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.aggregates.accumulator import Array
from runtime.operators.operator import KEY_GROUP_COLUMN, Operator, OperatorContext, OperatorSnapshot, Output
from runtime.operators.ordering import sort_indices
from runtime.operators.row_multiset import RowMultiset
from sqlstream.arrow import to_arrow_schema
from sqlstream.specs.rank import SortSpec

_OUTPUT_ROWS = 65_536
_PRUNE_ROWS_MIN = 262_144
"""Rows kept beyond those that can still be fetched, at least, before the rest is thrown away."""


class Sort(Operator[SortSpec]):
    """Emits the final rows in order when the input has ended.

    State: all rows; of an insert-only input with FETCH only those that can still be among the first offset + fetch.
    """

    def __init__(self, spec: SortSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.input_schemas[0])
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._pruned_rows = 0
        self._changes = None if context.input_modes[0].is_insert_only else RowMultiset(self._schema)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._changes is not None:
            self._changes.sweep(self._changes.apply(batch))
            return
        self._batches.append(batch)
        self._rows += batch.num_rows
        limit = max(_PRUNE_ROWS_MIN, 2 * self._pruned_rows)
        if self.spec.fetch >= 0 and self._rows > self.spec.offset + self.spec.fetch + limit:
            self._prune()

    def _prune(self) -> None:
        batch = self._collected()
        best = self._order(batch)[: self.spec.offset + self.spec.fetch]
        # Rows stay in order of arrival: the sort is stable and ties must not change places.
        self._batches = [batch.take(pa.array(np.sort(best)))]
        self._rows = self._pruned_rows = len(best)

    def _order(self, batch: pa.RecordBatch) -> Array:
        columns = [batch.column(k.column) for k in self.spec.order]
        if not columns:
            return np.arange(batch.num_rows)
        return sort_indices([], columns, self.spec.order)

    def _collected(self) -> pa.RecordBatch:
        if self._changes is not None:
            return self._changes.rows()
        if not self._batches:
            return pa.RecordBatch.from_arrays(
                [pa.nulls(0, f.type) for f in self._schema], schema=self._schema
            )
        return pa.concat_batches(self._batches)

    def on_finish(self, output: Output) -> None:
        batch = self._collected()
        stop = None if self.spec.fetch < 0 else self.spec.offset + self.spec.fetch
        rows = self._order(batch)[self.spec.offset : stop]
        for start in range(0, len(rows), _OUTPUT_ROWS):
            output.emit(batch.take(pa.array(rows[start : start + _OUTPUT_ROWS])))
        self._batches = []

    def snapshot(self) -> OperatorSnapshot:
        batch = self._collected()
        groups = pa.array(np.zeros(batch.num_rows, dtype=np.int32))
        names = [KEY_GROUP_COLUMN, *(f"c{i}" for i in range(batch.num_columns))]
        return OperatorSnapshot(keyed={"rows": pa.table([groups, *batch.columns], names=names)})

    def restore(self, snapshot: OperatorSnapshot) -> None:
        table = snapshot.keyed.get("rows")
        if table is None or table.num_rows == 0:
            return
        saved = table.combine_chunks().to_batches()[0]
        batch = pa.RecordBatch.from_arrays(saved.columns[1:], schema=self._schema)
        if self._changes is not None:
            self._changes.apply(batch)
        else:
            self._batches, self._rows = [batch], batch.num_rows

    def state_bytes(self) -> int:
        if self._changes is not None:
            return self._changes.nbytes()
        return sum(batch.nbytes for batch in self._batches)
