"""ORDER BY over bounded input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.state.logs.row_list import RowList
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.row_multiset import RowMultiset
from sqlstream.specs.rank import SortSpec

_OUTPUT_ROWS = 65_536
_PRUNE_ROWS_MIN = 262_144
"""No rows are dropped while there are fewer than this many."""


class Sort(Operator[SortSpec]):
    """Emits the final rows in order when the input has ended.

    State: all rows; for an insert-only input with FETCH only those that can still be among the first offset + fetch rows.
    """

    def __init__(self, spec: SortSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = to_arrow_schema(context.input_schemas[0])
        self._prune_above = spec.offset + spec.fetch + _PRUNE_ROWS_MIN
        # One of the two, by whether the input retracts.
        self._rows: RowList | None = None
        self._changes: RowMultiset | None = None
        if context.input_modes[0].is_insert_only:
            self._rows = context.state.add(RowList("rows", schema))
        else:
            self._changes = context.state.add(RowMultiset(schema, "rows"))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._changes is not None:
            self._changes.sweep(self._changes.apply(batch)[0])
        elif self._rows is not None:
            self._rows.append(batch)
            if self.spec.fetch >= 0 and len(self._rows) > self._prune_above:
                self._prune(self._rows)

    def _prune(self, rows: RowList) -> None:
        batch = rows.collected()
        stop = self.spec.offset + self.spec.fetch
        best = self._order(batch)[:stop]
        # Rows remain in order of arrival: the sort is stable, and ties must keep their order.
        rows.replace([batch.take(pa.array(np.sort(best)))])
        self._prune_above = stop + max(_PRUNE_ROWS_MIN, 2 * len(best))

    def _order(self, batch: pa.RecordBatch) -> Array:
        columns = [batch.column(k.column) for k in self.spec.order]
        if not columns:
            return np.arange(batch.num_rows)
        return sort_indices([], columns, self.spec.order)

    def _collected(self) -> pa.RecordBatch:
        if self._rows is not None:
            return self._rows.collected()
        assert self._changes is not None
        return self._changes.rows()

    def on_finish(self, output: Output) -> None:
        batch = self._collected()
        stop = None if self.spec.fetch < 0 else self.spec.offset + self.spec.fetch
        rows = self._order(batch)[self.spec.offset : stop]
        for start in range(0, len(rows), _OUTPUT_ROWS):
            output.emit(batch.take(pa.array(rows[start : start + _OUTPUT_ROWS])))
        if self._rows is not None:
            self._rows.replace([])
