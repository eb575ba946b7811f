"""Lists of a column as positions of their elements: what the functions of arrays and maps compute with.

Elements are compared by codes: whole numbers that are equal where the elements are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.kernel import Values, null_mask
from sqlstream.errors import UserError


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

    @property
    def rows(self) -> int:
        return len(self.starts)

    def owners(self) -> Values:
        """The row of each element, in the order of `positions`."""
        return np.repeat(np.arange(self.rows), self.lengths)

    def positions(self) -> Values:
        """The places of all elements in `values`, row by row."""
        return self.starts_repeated() + self.ordinals()

    def ordinals(self) -> Values:
        """The number of each element in its row, from 0."""
        before = np.cumsum(self.lengths) - self.lengths
        return np.arange(int(self.lengths.sum())) - np.repeat(before, self.lengths)

    def starts_repeated(self) -> Values:
        return np.repeat(self.starts, self.lengths)

    def elements(self) -> pa.Array:
        """All elements, row by row."""
        if self.is_compact():
            return self.values.slice(int(self.starts[0]) if self.rows else 0, int(self.lengths.sum()))
        return self.values.take(pa.array(self.positions()))

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


def offsets_of(lengths: Values) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


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


def first_of_equal(owners: Values, codes: Values) -> Values:
    """Positions, ascending, of the elements that no earlier element of their row equals."""
    _, first = np.unique(_pairs(owners, codes), return_index=True)
    return np.sort(first)


def last_of_equal(owners: Values, codes: Values) -> Values:
    """Positions, ascending, of the elements that no later element of their row equals."""
    _, last = np.unique(_pairs(owners, codes)[::-1], return_index=True)
    return np.sort(len(codes) - 1 - last)


def is_among(owners: Values, codes: Values, others: Values, other_codes: Values) -> Values:
    """bool[n]: whether the element is among those of the same row in `others`."""
    width = max(int(codes.max(initial=0)), int(other_codes.max(initial=0))) + 2
    return np.isin(owners * width + codes, others * width + other_codes)


def last_kept(
    target: pa.DataType, owners: Values, rows: int, keys: pa.Array, items: pa.Array, nulls: Values | None
) -> pa.Array:
    """The map column of these entries, by row; of equal keys the last is kept. UserError SS5107 for a key that is NULL."""
    if keys.null_count:
        raise UserError("SS5107", "a key of a MAP is NULL", hint="give NULL another value: COALESCE(key, …)")
    (codes,) = codes_of(keys)
    kept = last_of_equal(owners, codes)
    places = pa.array(kept)
    lengths = np.bincount(owners[kept], minlength=rows)
    return map_column(target, lengths, keys.take(places), items.take(places), nulls)


def _pairs(owners: Values, codes: Values) -> Values:
    return owners * (int(codes.max(initial=0)) + 2) + codes


def ranks_of(values: pa.Array) -> Values:
    """int64: the place of each value among all by size; equal values may have different ones. NULLs are last."""
    order = pc.sort_indices(values).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def one_after_another(lists: Sequence[Lists]) -> tuple[Values, pa.Array]:
    """The lists of several columns, row by row: int64 lengths, and the elements."""
    values = pa.concat_arrays([part.values for part in lists])
    shifts = np.cumsum([0, *(len(part.values) for part in lists[:-1])])
    owners = np.concatenate([part.owners() for part in lists])
    places = np.concatenate([p.positions() + shift for p, shift in zip(lists, shifts, strict=True)])
    order = np.argsort(owners, kind="stable")
    lengths = np.sum([part.lengths for part in lists], axis=0)
    return lengths, values.take(pa.array(places[order]))
