"""Lists of a column as positions of their elements: what the functions of arrays and maps compute with."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.kernel import Datum, Values, null_mask
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.runtime.kernels.keys import equal_elements
from sqlstream.runtime.kernels.keys.hashing import hash_columns
from sqlstream.runtime.kernels.keys.words import WordColumn, read_column


@dataclasses.dataclass(frozen=True)
class Lists:
    """The elements `values[starts[i] : starts[i] + lengths[i]]` of each row; a NULL (`nulls`, None for none) has none."""

    starts: Values
    lengths: Values
    values: pa.Array
    nulls: Values | None

    @staticmethod
    def of(column: pa.Array) -> Lists:
        """The lists of a list column, or of the keys and items of a map column as structs."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        nulls = null_mask(column)
        lengths = np.diff(offsets)
        return Lists(offsets[:-1], lengths if nulls is None else lengths * ~nulls, column.values, nulls)

    @staticmethod
    def repeated(constant: pa.Scalar, rows: int) -> Lists:
        """The list of a constant, or NULL, in each row."""
        if not constant.is_valid:
            nothing = np.zeros(rows, np.int64)
            return Lists(nothing, nothing, pa.array([], constant.type.value_type), np.ones(rows, bool))
        return Lists(np.zeros(rows, np.int64), np.full(rows, len(constant.values)), constant.values, None)

    @property
    def rows(self) -> int:
        return len(self.starts)

    def owners(self) -> Values:
        """The row of each element, in the order of `positions`."""
        return np.repeat(np.arange(self.rows), self.lengths)

    def bounds(self) -> Values:
        """int64[rows + 1]: where the elements of each row begin in the order of `positions`, and where the last end."""
        return bounds_of(self.lengths)

    def positions(self) -> Values:
        """The places of all elements in `values`, row by row."""
        bounds = self.bounds()
        places = np.empty(bounds[-1], np.int64)
        equal_elements.places_into(places, bounds[:-1], self.starts, self.lengths, 0)
        return places

    def ordinals(self) -> Values:
        """The number of each element in its row, from 0."""
        before = np.cumsum(self.lengths) - self.lengths
        return np.arange(int(self.lengths.sum())) - np.repeat(before, self.lengths)

    def elements(self) -> pa.Array:
        """All elements, row by row."""
        if self.is_compact():
            return self.values.slice(int(self.starts[0]) if self.rows else 0, int(self.lengths.sum()))
        return self.values.take(pa.array(self.positions()))

    def trimmed(self) -> Lists:
        """The same lists over no more values than they need."""
        if self.is_compact():
            return Lists(
                self.starts - self.starts[0] if self.rows else self.starts,
                self.lengths,
                self.elements(),
                self.nulls,
            )
        if len(self.values) <= int(self.lengths.sum()):
            return self
        return Lists(self.bounds()[:-1], self.lengths, self.elements(), self.nulls)

    def without(self, nulls: Values | None) -> Lists:
        """These lists, but none in the rows where the mask is true."""
        if nulls is None:
            return self
        return Lists(self.starts, self.lengths * ~nulls, self.values, joined_nulls(self.nulls, nulls))

    def is_compact(self) -> bool:
        """Whether the elements stand one after another."""
        return bool(np.all(self.starts[1:] == self.starts[:-1] + self.lengths[:-1]))

    def counted(self, is_chosen: Values) -> Values:
        """How many of the elements of each row are chosen; `is_chosen` is bool of all elements, row by row."""
        return np.bincount(self.owners()[is_chosen], minlength=self.rows)


def joined_nulls(*masks: Values | None) -> Values | None:
    """bool[n], true where any of the masks is; None when all are."""
    given = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(given) if given else None


def bounds_of(lengths: Values) -> Values:
    """int64[n + 1]: where each of n lists that follow each other begins, and where the last ends."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def offsets_of(lengths: Values) -> pa.Array:
    return pa.array(bounds_of(lengths).astype(np.int32))


def lists_of(datum: Datum, rows: int) -> Lists:
    """The lists of a column or a constant, over no more values than they need."""
    return Lists.of(datum).trimmed() if isinstance(datum, pa.Array) else Lists.repeated(datum, rows)


def taken(values: pa.Array, places: Values) -> pa.Array:
    """The values at these places; without a copy when these are all, in order."""
    if len(places) == len(values) and np.array_equal(places, np.arange(len(values))):
        return values
    return values.take(pa.array(places))


def list_column(target: pa.DataType, lengths: Values, values: pa.Array, nulls: Values | None) -> pa.Array:
    """The list column whose rows have these lengths. A row that is NULL may have elements."""
    mask = None if nulls is None or not nulls.any() else pa.array(nulls)
    elements = values if values.type == target.value_type else values.cast(target.value_type)
    return pa.ListArray.from_arrays(offsets_of(lengths), elements, type=target, mask=mask)


def map_column(
    target: pa.DataType, lengths: Values, keys: pa.Array, items: pa.Array, nulls: Values | None
) -> pa.Array:
    """The map column whose rows have these numbers of entries."""
    mask = None if nulls is None or not nulls.any() else pa.array(nulls)
    return pa.MapArray.from_arrays(offsets_of(lengths), keys, items, type=target, mask=mask)


def codes_of(*columns: pa.Array) -> list[Values]:
    """int64 codes of the values of several columns of one type; NULL is -1. -0.0 is 0.0, and NaN is equal to itself."""
    sizes = np.cumsum([len(column) for column in columns])[:-1]
    together = pa.concat_arrays(columns) if len(columns) > 1 else columns[0]
    return list(np.split(_codes(together), sizes))


def _codes(column: pa.Array) -> Values:
    if pa.types.is_struct(column.type):
        codes = np.zeros(len(column), dtype=np.int64)
        for field in column.flatten():
            found = _codes(field) + 1
            codes = np.unique(codes * (int(found.max(initial=0)) + 1) + found, return_inverse=True)[1]
        nulls = null_mask(column)
        return codes if nulls is None else np.where(nulls, -1, codes)
    if pa.types.is_null(column.type):
        return np.full(len(column), -1, dtype=np.int64)
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    indices: Any = column.dictionary_encode().indices
    return pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class Elements:
    """Values as `kernels.keys.equal_elements` compares them: codes, and the bytes of texts that have equal codes."""

    codes: Values
    data: Values
    offsets: Values

    @staticmethod
    def of(column: pa.Array) -> Elements:
        """NULL is equal to itself, and so is NaN; -0.0 is 0.0."""
        no_bytes, no_offsets = np.empty(0, np.uint8), np.empty(0, np.int32)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            offsets, _ = view_offsets(column)
            data = view_buffer(column.buffers()[2], np.uint8, 0, int(offsets[-1]))
            codes = hash_columns([column]).view(np.int64)
            is_taken = codes == equal_elements.NULL_CODE
            codes = np.where(is_taken, 0, codes) if is_taken.any() else codes
            return Elements(_with_null_codes(codes, column), data, offsets)
        if pa.types.is_primitive(column.type):
            words = read_column(column)
            assert isinstance(words, WordColumn)
            codes = words.words.view(np.int64)
            if not column.null_count or not (codes == equal_elements.NULL_CODE).any():
                return Elements(_with_null_codes(codes, column), no_bytes, no_offsets)
        return Elements(_with_null_codes(_codes(column), column), no_bytes, no_offsets)


def _with_null_codes(codes: Values, column: pa.Array) -> Values:
    nulls = null_mask(column)
    return np.ascontiguousarray(codes if nulls is None else np.where(nulls, equal_elements.NULL_CODE, codes))


def distinct_places(
    places: Values, lengths: Values, elements: Elements, *, is_last: bool = False
) -> tuple[Values, Values]:
    """Of lists whose elements are at `places`: the places of the first (last) of equal elements, and how many each list has."""
    kept, counts = np.empty(len(places), np.int64), np.empty(len(lengths), np.int64)
    count = equal_elements.distinct_into(
        kept,
        counts,
        places,
        bounds_of(lengths),
        elements.codes,
        elements.data,
        elements.offsets,
        _slots(lengths),
        is_last,
    )
    return kept[:count], counts


def compared_places(
    lists: Lists, others: Lists, elements: Elements, *, keeps_common: bool
) -> tuple[Values, Values]:
    """The places of the distinct elements of each list that the other list of its row has, or has not, and how many each has.
    `elements`: the values of the lists, then those of the others."""
    places, other_places = lists.positions(), others.positions() + len(lists.values)
    kept, counts = np.empty(len(places), np.int64), np.empty(lists.rows, np.int64)
    count = equal_elements.compared_into(
        *(kept, counts, places, lists.bounds(), other_places, others.bounds()),
        *(elements.codes, elements.data, elements.offsets),
        *(_slots(lists.lengths), _slots(others.lengths)),
        keeps_common,
    )
    return kept[:count], counts


def _slots(lengths: Values) -> Values:
    longest = int(lengths.max(initial=0))
    size = 1 << (2 * longest).bit_length() if longest > equal_elements.FEW_MAX else 0
    return np.full(size, -1, np.int32)


def last_kept(
    target: pa.DataType,
    lengths: Values,
    keys: pa.Array,
    items: pa.Array,
    nulls: Values | None,
    places: Values | None = None,
) -> pa.Array:
    """The map column of these entries (at `places`, where given), by row; of equal keys the last is kept.

    UserError SS5107 for a key that is NULL.
    """
    if keys.null_count:
        raise UserError("SS5107", "a key of a MAP is NULL")
    given = np.arange(len(keys)) if places is None else places
    kept, counts = distinct_places(given, lengths, Elements.of(keys), is_last=True)
    return map_column(target, counts, taken(keys, kept), taken(items, kept), nulls)


def ranks_of(values: pa.Array) -> Values:
    """int64: the place of each value among all by size; equal values may have different ones. NULLs are last."""
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def one_after_another(lists: Sequence[Lists]) -> tuple[Values, pa.Array, Values]:
    """The lists of several columns, row by row: int64 lengths, values, and the places of the elements in them."""
    trimmed = [part.trimmed() for part in lists]
    values = pa.concat_arrays([part.values for part in trimmed])
    lengths = np.sum([part.lengths for part in trimmed], axis=0)
    bounds = bounds_of(lengths)
    places, cursors, shift = np.empty(bounds[-1], np.int64), bounds[:-1], 0
    for part in trimmed:
        equal_elements.places_into(places, cursors, part.starts, part.lengths, shift)
        shift += len(part.values)
    return lengths, values, places
