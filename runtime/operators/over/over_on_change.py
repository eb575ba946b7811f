"""OVER whose results change with every row of the partition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.operators.equal_values import equal_values
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.operators.order.ordering import sort_indices
from runtime.operators.over.framed_calls import FramedCalls
from runtime.operators.over.sorted_rows import SortedRows
from runtime.state.arrays import Array
from runtime.state.keyed_multiset import KeyedMultiset
from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.changelog import RowKind
from sqlstream.specs.over import OverSpec


class _Results(NamedTuple):
    """The rows of some partitions, by row slot and then by copy, with their results. `offsets` is the first of each slot."""

    rows: pa.RecordBatch
    results: list[pa.Array]
    offsets: Array
    copies: Array


class OverOnChange(Operator[OverSpec]):
    """Computes the partitions of the rows of a batch as they were and as they are, and emits the difference.

    The cost of a batch is all rows of its partitions. Rows of equal order are in order of arrival.
    State: all rows with their counts, by partition. A row is forgotten when its count is zero, a partition with its last row or
    `state_ttl_ms` after it last received one.
    """

    def __init__(self, spec: OverSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = to_arrow_schema(context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._calls = FramedCalls(spec.calls, context.input_schemas[0])
        self._table = context.state.add(
            KeyedMultiset(
                "rows",
                schema,
                spec.partition_keys,
                context.state.scope,
                list_length=0,
                ttl_ms=spec.state_ttl_ms,
            )
        )

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        signs = np.where(is_accumulate(row_kinds(batch)), 1, -1)
        keys, row_slots = self._table.apply(batch)
        touched = np.unique(keys)
        self._table.writing(touched)
        positions, rows = self._table.match(touched)
        changed, changes = np.unique(row_slots, return_inverse=True)
        sums = np.bincount(changes, weights=signs, minlength=len(changed)).astype(np.int64)
        after = self._table.rows.counts[rows]
        places = np.minimum(np.searchsorted(changed, rows), len(changed) - 1)
        before = after - np.where(changed[places] == rows, sums[places], 0)
        old = self._computed(positions, rows, np.maximum(before, 0), len(touched))
        new = self._computed(positions, rows, np.maximum(after, 0), len(touched))
        self._emit(old, new, output)
        self._table.sweep(row_slots)

    def _computed(self, positions: Array, rows: Array, copies: Array, count: int) -> _Results:
        """The results of rows that are there `copies` times, in order of `rows`, which is that of age within a partition."""
        expanded, partitions = np.repeat(rows, copies), np.repeat(positions, copies)
        table = self._table.rows
        batch = table.take(expanded)
        columns = [batch.column(k.column) for k in self.spec.order]
        by_age = np.argsort(table.sequence[expanded], kind="stable")
        order = by_age[
            sort_indices([partitions[by_age]], [c.take(pa.array(by_age)) for c in columns], self.spec.order)
        ]
        own, numbers = np.unique(partitions[order], return_inverse=True)
        sorted_rows = SortedRows(batch.take(pa.array(order)), numbers, len(own), self.spec.order)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        results = [column.take(pa.array(places)) for column in self._calls.compute(sorted_rows)]
        return _Results(batch, results, np.cumsum(copies) - copies, copies)

    def _emit(self, old: _Results, new: _Results, output: Output) -> None:
        """-D of rows that are gone, -U and +U of rows with other results, +I of rows that came."""
        both = np.minimum(old.copies, new.copies)
        was, now = _places(old.offsets, both), _places(new.offsets, both)
        differs = np.zeros(len(was), dtype=bool)
        for before, after in zip(old.results, new.results, strict=True):
            differs |= ~equal_values(before.take(pa.array(was)), after.take(pa.array(now)))
        gone = _places(old.offsets + both, old.copies - both)
        came = _places(new.offsets + both, new.copies - both)
        updates = int(np.count_nonzero(differs))
        # Rows of `old`, then of `new`, in the order in which they are emitted.
        pairs = np.stack([was[differs], now[differs] + old.rows.num_rows], axis=1).reshape(-1)
        places = np.concatenate([gone, pairs, came + old.rows.num_rows])
        kinds = np.full(len(places), RowKind.INSERT, dtype=np.int8)
        kinds[: len(gone)] = RowKind.DELETE
        kinds[len(gone) : len(gone) + 2 * updates : 2] = RowKind.UPDATE_BEFORE
        kinds[len(gone) + 1 : len(gone) + 2 * updates : 2] = RowKind.UPDATE_AFTER
        columns = [
            pa.chunked_array([a, b]).combine_chunks().take(pa.array(places))
            for a, b in zip([*old.rows.columns, *old.results], [*new.rows.columns, *new.results], strict=True)
        ]
        output.emit(pa.RecordBatch.from_arrays([*columns, to_array(pa.int8(), kinds)], schema=self._schema))


def _places(offsets: Array, counts: Array) -> Array:
    """offsets[i], offsets[i] + 1, … for counts[i] numbers, of all i."""
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(offsets, counts) + within
