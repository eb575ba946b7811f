"""Rows, arrays and maps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Datum,
    Kernel,
    as_array,
    as_arrays,
    literal_of,
    null_mask,
    numbers,
    plain,
    rows_of,
)
from sqlstream.runtime.evaluate.lists import Lists, last_kept
from sqlstream.types import TypeRoot


def field_of(call: Call, context: EvaluationContext) -> Kernel:
    index = literal_of(call, 1)
    return lambda row, _: pc.struct_field(row, [index])


def row_of(call: Call, context: EvaluationContext) -> Kernel:
    fields = list(to_arrow_type(call.type))

    def kernel(*args: Datum) -> pa.Array:
        return pa.StructArray.from_arrays(list(as_arrays(*args)), fields=fields)

    return kernel


def _interleaved(columns: list[Datum], rows: int) -> pa.Array:
    """Row by row, the values of all columns."""
    width = len(columns)
    together = pa.concat_arrays([as_array(c, rows) for c in columns])
    order = np.arange(rows * width).reshape(width, rows).T.ravel()
    return together.take(pa.array(order))


def _offsets(rows: int, width: int) -> pa.Array:
    return pa.array(np.arange(0, (rows + 1) * width, width, dtype=np.int32))


def array_of(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    if not call.args:
        empty = pa.scalar([], target)
        return lambda rows: as_array(empty, rows)

    def kernel(*args: Datum) -> pa.Array:
        rows = rows_of(*args)
        return pa.ListArray.from_arrays(
            _offsets(rows, len(args)), _interleaved(list(args), rows), type=target
        )

    return kernel


@plain
def map_of(*args: Datum) -> pa.Array:
    """MAP; of entries with equal keys the last is kept."""
    rows, width = rows_of(*args), len(args) // 2
    keys, values = _interleaved(list(args[0::2]), rows), _interleaved(list(args[1::2]), rows)
    lengths = np.full(rows, width)
    return last_kept(pa.map_(keys.type, values.type), lengths, keys, values, None)


def item_of(call: Call, context: EvaluationContext) -> Kernel:
    if call.args[0].type.root is TypeRoot.VARIANT:
        from sqlstream.runtime.evaluate.json.variant import variant_item

        return variant_item(call, context)
    if call.args[0].type.root is not TypeRoot.ARRAY:
        return _map_item
    return _array_item


def _array_item(array: Datum, place: Datum) -> pa.Array:
    """The element at a position from 1; NULL outside the array."""
    array, place = as_arrays(array, place)
    offsets = array.offsets.to_numpy()
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:]
    positions = starts + pc.fill_null(place, 0).to_numpy(zero_copy_only=False) - 1
    outside = (positions < starts) | (positions >= ends)
    nulls = null_mask(array, place)
    return array.values.take(pa.array(positions, mask=outside if nulls is None else outside | nulls))


def _map_item(map_: Datum, key: Datum) -> pa.Array:
    """The value of the first entry with this key."""
    maps, keys = as_arrays(map_, key)
    rows = len(maps)
    offsets = maps.offsets.to_numpy().astype(np.int64)
    owner = np.repeat(np.arange(rows), np.diff(offsets))
    entries = maps.keys.slice(offsets[0], offsets[-1] - offsets[0])
    is_match = pc.fill_null(pc.equal(entries, keys.take(pa.array(owner))), False).to_numpy(
        zero_copy_only=False
    )
    places = np.full(rows, -1, dtype=np.int64)
    # Backwards, so that the first match of a row is written last.
    matches = np.flatnonzero(is_match)[::-1]
    places[owner[matches]] = matches + offsets[0]
    missing = places < 0
    nulls = null_mask(maps)
    return maps.items.take(pa.array(places, mask=missing if nulls is None else missing | nulls))


def _cardinality(collection: Datum) -> pa.Array:
    if pa.types.is_null(collection.type):
        return pa.nulls(len(collection), pa.int32())
    if not pa.types.is_map(collection.type):
        return pc.list_value_length(collection)
    lengths = np.diff(collection.offsets.to_numpy())
    return pa.array(lengths, mask=null_mask(collection))


def _size_of_multiset(multiset: pa.Array) -> pa.Array:
    """The number of its elements, each as often as it occurs."""
    lists = Lists.of(multiset)
    counts = numbers(lists.elements().field(1), np.int64)
    sizes = np.bincount(lists.owners(), weights=counts, minlength=lists.rows).astype(np.int64)
    return pa.array(sizes, mask=lists.nulls)


def cardinality_of(call: Call, context: EvaluationContext) -> Kernel:
    return _size_of_multiset if call.args[0].type.root is TypeRoot.MULTISET else _cardinality
