"""ORDER BY over bounded input."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.order.ordering import sort_indices
from runtime.state.arrays import Array
from runtime.state.row_multiset import RowMultiset
from runtime.state.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.arrow import to_arrow_schema
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
        self._schema = to_arrow_schema(context.input_schemas[0])
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._pruned_rows = 0
        self._changes = None if context.input_modes[0].is_insert_only else RowMultiset(self._schema)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._changes is not None:
            self._changes.sweep(self._changes.apply(batch)[0])
            return
        if batch.schema != self._schema:
            # Inputs of a UNION ALL may differ in their column names; the batches are concatenated.
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        self._batches.append(batch)
        self._rows += batch.num_rows
        limit = max(_PRUNE_ROWS_MIN, 2 * self._pruned_rows)
        if self.spec.fetch >= 0 and self._rows > self.spec.offset + self.spec.fetch + limit:
            self._prune()

    def _prune(self) -> None:
        batch = self._collected()
        best = self._order(batch)[: self.spec.offset + self.spec.fetch]
        # Rows remain in order of arrival: the sort is stable, and ties must keep their order.
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
        if self._changes is not None:
            columns, names = self._changes.save()
        else:
            columns = self._collected().columns
            names = [f"c{i}" for i in range(len(columns))]
        # Parallelism is 1, so all rows may be in any one key group.
        groups = pa.array(np.zeros(len(columns[0]) if columns else 0, dtype=np.int32))
        return OperatorSnapshot(
            keyed={"rows": pa.table([groups, *columns], names=[KEY_GROUP_COLUMN, *names])}
        )

    def restore(self, snapshot: OperatorSnapshot) -> None:
        table = snapshot.keyed.get("rows")
        if table is None or table.num_rows == 0:
            return
        columns = table.combine_chunks().to_batches()[0].columns[1:]
        if self._changes is not None:
            self._changes.load(columns)
        else:
            self._batches = [pa.RecordBatch.from_arrays(columns, schema=self._schema)]
            self._rows = table.num_rows

    def state_bytes(self) -> int:
        if self._changes is not None:
            return self._changes.nbytes()
        return sum(batch.nbytes for batch in self._batches)
