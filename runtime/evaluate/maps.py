"""Functions of maps."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Kernel, is_literal, literal_of, with_target
from sqlstream.runtime.evaluate.lists import (
    Lists,
    joined_nulls,
    last_kept,
    list_column,
    one_after_another,
    taken,
)
from sqlstream.runtime.evaluate.text.pattern import escape_regex
from sqlstream.text.regular_expressions import linear_regex


def _keys(target: pa.DataType, column: pa.Array) -> pa.Array:
    entries = Lists.of(column)
    keys = column.keys.take(pa.array(entries.positions()))
    return list_column(target, entries.lengths, keys, entries.nulls)


def _values(target: pa.DataType, column: pa.Array) -> pa.Array:
    entries = Lists.of(column)
    values = column.items.take(pa.array(entries.positions()))
    return list_column(target, entries.lengths, values, entries.nulls)


def _entries(target: pa.DataType, column: pa.Array) -> pa.Array:
    entries = Lists.of(column)
    places = pa.array(entries.positions())
    fields = list(target.value_type)
    pairs = pa.StructArray.from_arrays([column.keys.take(places), column.items.take(places)], fields=fields)
    return list_column(target, entries.lengths, pairs, entries.nulls)


def _from_arrays(target: pa.DataType, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Of equal keys the last is kept."""
    left, right = Lists.of(keys), Lists.of(values)
    nulls = joined_nulls(left.nulls, right.nulls)
    unlike = left.lengths != right.lengths
    if nulls is not None:
        unlike &= ~nulls
    if unlike.any():
        row = int(np.argmax(unlike))
        raise UserError(
            "SS5102",
            f"MAP_FROM_ARRAYS got {left.lengths[row]} keys and {right.lengths[row]} values",
            hint="give it arrays of the same length",
        )
    if nulls is not None:
        left, right = (
            Lists(part.starts, np.where(nulls, 0, part.lengths), part.values, nulls) for part in (left, right)
        )
    return last_kept(target, left.lengths, left.elements(), right.elements(), nulls)


def _union(target: pa.DataType, *maps: pa.Array) -> pa.Array:
    """All entries; of equal keys that of the last map."""
    lists = [Lists.of(part) for part in maps]
    nulls = joined_nulls(*(part.nulls for part in lists))
    lengths, entries, places = one_after_another(lists)
    keys, items = entries.flatten()
    return last_kept(target, lengths, keys, items, nulls, places)


def map_from_text(call: Call, context: EvaluationContext) -> Kernel:
    """STR_TO_MAP: both delimiters are regular expressions; a pair without a value has NULL."""
    target = to_arrow_type(call.type)
    given = len(call.args)
    if is_literal(call, 1, 2):
        return _pairs_of(target, *(literal_of(call, i) for i in range(1, given)))
    return by_parameter(lambda *delimiters: _pairs_of(target, *delimiters), target)


def _splitter(regex: str) -> Callable[..., pa.Array]:
    """Splits texts at a regular expression; one that stands for itself needs no engine."""
    checked = linear_regex(regex)
    is_plain = checked != "" and escape_regex(checked) == checked
    return functools.partial(pc.split_pattern if is_plain else pc.split_pattern_regex, pattern=checked)


def _pairs_of(target: pa.DataType, between_pairs: str = ",", between_parts: str = "=") -> Kernel:
    split_pairs, split_parts = _splitter(between_pairs), _splitter(between_parts)

    def kernel(text: pa.Array, *_: object) -> pa.Array:
        pieces = Lists.of(split_pairs(text))
        elements = pieces.elements()
        owners, ordinals = pieces.owners(), pieces.ordinals()
        # As Java splits: empty pieces at the end are none.
        filled = np.flatnonzero(pc.not_equal(elements, "").to_numpy(zero_copy_only=False))
        last = np.full(pieces.rows, -1, dtype=np.int64)
        # Of several in a row the last is written last.
        last[owners[filled]] = ordinals[filled]
        kept = np.flatnonzero(ordinals <= last[owners])
        parts = Lists.of(split_parts(taken(elements, kept), max_splits=1))
        keys = parts.values.take(pa.array(parts.starts))
        items = parts.values.take(pa.array(parts.starts + 1, mask=parts.lengths < 2))
        lengths = np.bincount(owners[kept], minlength=pieces.rows)
        return last_kept(target, lengths, keys, items, pieces.nulls)

    return kernel


MAP_KEYS = with_target(_keys)
MAP_VALUES = with_target(_values)
MAP_ENTRIES = with_target(_entries)
MAP_FROM_ARRAYS = with_target(_from_arrays)
MAP_UNION = with_target(_union)
