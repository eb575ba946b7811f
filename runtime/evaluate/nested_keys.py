"""Arrays, maps and rows as bytes that are equal where the values are, so that an index of keys finds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.lists import Lists, offsets_of, ranks_of

_NULL, _COLON, _NOTHING = b"n", b":", b""


def identity_types(schema: pa.Schema) -> list[pa.DataType]:
    """The types of the columns by which whole rows are found: nested ones are encoded."""
    return [pa.binary() if pa.types.is_nested(field.type) else field.type for field in schema]


def identities(columns: list[pa.Array]) -> list[pa.Array]:
    """The values of these types."""
    return [encoded(column) if pa.types.is_nested(column.type) else column for column in columns]


def encoded(column: pa.Array) -> pa.Array:
    """A column of bytes without NULL. Each value is `n` for NULL, or its length, a colon, and its text or the encodings of its
    parts; entries of a map are in the order of their encodings, since a map has none. -0.0 is 0.0.

    >>> encoded(pa.array([[1, None], None], pa.list_(pa.int32()))).to_pylist()
    [b'4:1:1n', b'n']
    """
    parts = _payload(column)
    lengths = pc.cast(pc.cast(pc.binary_length(parts), pa.string()), pa.binary())
    whole = pc.binary_join_element_wise(lengths, _COLON, parts, _NOTHING)
    return pc.if_else(pc.is_valid(column), whole, _NULL) if column.null_count else whole


def _payload(column: pa.Array) -> pa.Array:
    """The bytes within; under a NULL any."""
    t = column.type
    if pa.types.is_null(t):
        return pc.fill_null(column.cast(pa.binary()), b"")
    if pa.types.is_struct(t):
        if not t.num_fields:
            return pc.fill_null(pa.nulls(len(column), pa.binary()), b"")
        return pc.binary_join_element_wise(*(encoded(part) for part in column.flatten()), _NOTHING)
    if pa.types.is_map(t):
        entries = Lists.of(column)
        keys, items = (encoded(part) for part in entries.elements().flatten())
        pairs = pc.binary_join_element_wise(keys, items, _NOTHING)
        order = np.argsort(entries.owners() * (len(pairs) + 1) + ranks_of(pairs))
        return _joined(entries, pairs.take(pa.array(order)))
    if pa.types.is_list(t):
        lists = Lists.of(column)
        return _joined(lists, encoded(lists.elements()))
    if pa.types.is_floating(t):
        column = pc.add(column, pa.scalar(0.0, t))
    if pa.types.is_temporal(t):
        column = column.view(pa.int32() if t.bit_width == 32 else pa.int64())
    text = column if pa.types.is_binary(t) else pc.cast(pc.cast(column, pa.string()), pa.binary())
    return pc.fill_null(text, b"")


def _joined(lists: Lists, elements: pa.Array) -> pa.Array:
    return pc.binary_join(pa.ListArray.from_arrays(offsets_of(lists.lengths), elements), _NOTHING)
