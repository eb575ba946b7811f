"""One row becomes several: the elements of a collection, or a copy for each grouping set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.update_pairs import derived_kinds, portion_kinds
from sqlstream.specs.calc import ExpandSpec, UnnestSpec

Indices = np.ndarray[Any, Any]

ROWS_MAX = 1 << 16
"""Rows of an emitted batch."""


class Unnest(Operator[UnnestSpec]):
    """Takes rows and elements by their indices, which follow from the offsets of the collections. No state."""

    def __init__(self, spec: UnnestSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = batch.columns[:-1] if is_changelog(batch) else batch.columns
        collections = columns[self.spec.collection]
        passed = [columns[c] for c in self.spec.columns]
        rows, places = _elements(collections)
        numbers = _numbers(rows, batch.num_rows)
        if self.spec.is_outer:
            rows, places, numbers = _with_empty(rows, places, numbers, batch.num_rows)
        elements = collections.keys if pa.types.is_map(collections.type) else collections.values
        kinds = derived_kinds(row_kinds(batch), rows) if is_changelog(batch) else None
        for start in range(0, len(rows), ROWS_MAX):
            part = slice(start, start + ROWS_MAX)
            taken, element = pa.array(rows[part]), elements.take(_or_null(places[part]))
            made = element.flatten() if pa.types.is_struct(element.type) else [element]
            if self.spec.has_ordinality:
                made.append(_or_null(numbers[part], pa.int32()))
            arrays = [c.take(taken) for c in passed] + made
            if kinds is not None:
                arrays.append(pa.array(portion_kinds(kinds[part])))
            output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))


def _elements(collections: pa.Array) -> tuple[Indices, Indices]:
    """The row and the place among all values of every element, row by row. A NULL has none, whatever its offsets are."""
    offsets = collections.offsets.to_numpy()
    counts = np.diff(offsets).astype(np.int64)
    if collections.null_count:
        counts[collections.is_null().to_numpy(zero_copy_only=False)] = 0
    rows = np.repeat(np.arange(len(counts)), counts)
    places = np.repeat(offsets[:-1] - (np.cumsum(counts) - counts), counts) + np.arange(len(rows))
    if pa.types.is_map(collections.type):
        # A MULTISET: how often each element occurs.
        times = collections.items.take(pa.array(places)).to_numpy()
        rows, places = np.repeat(rows, times), np.repeat(places, times)
    return rows, places


def _numbers(rows: Indices, count: int) -> Indices:
    """The number of each element within its row, from 1."""
    sizes = np.bincount(rows, minlength=count)
    return np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1


def _with_empty(
    rows: Indices, places: Indices, numbers: Indices, count: int
) -> tuple[Indices, Indices, Indices]:
    """Rows without elements once too, in their place, with -1 for the place and the number."""
    sizes = np.bincount(rows, minlength=count)
    repeated = np.repeat(np.arange(count), np.maximum(sizes, 1))
    has_element = sizes[repeated] > 0
    found = []
    for values in (places, numbers):
        filled = np.full(len(repeated), -1, dtype=np.int64)
        filled[has_element] = values
        found.append(filled)
    return repeated, found[0], found[1]


def _or_null(values: Indices, t: pa.DataType | None = None) -> pa.Array:
    """An array with NULL for every -1."""
    return pa.array(values, t or pa.int64(), mask=values < 0)


class Expand(Operator[ExpandSpec]):
    """Emits a batch per set: the columns of the input, but NULL where the set leaves a column out. No state."""

    def __init__(self, spec: ExpandSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._left_out = [frozenset(spec.grouped) - frozenset(kept) for kept in spec.sets]

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        count, columns = batch.num_rows, batch.columns
        kinds = [columns.pop()] if is_changelog(batch) else []
        nulls = {c: pa.nulls(count, columns[c].type) for c in self.spec.grouped}
        for number, left_out in enumerate(self._left_out):
            expanded = [nulls[i] if i in left_out else column for i, column in enumerate(columns)]
            id_ = pa.repeat(pa.scalar(number, pa.int32()), count)
            output.emit(pa.RecordBatch.from_arrays([*expanded, id_, *kinds], schema=self._schema))
