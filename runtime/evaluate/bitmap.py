"""Functions of bitmaps: sets of 32-bit numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    BATCH_BYTES_MAX,
    Builder,
    Datum,
    Kernel,
    Values,
    as_array,
    as_arrays,
    null_mask,
    numbers,
    plain,
    rows_of,
    too_large,
)
from sqlstream.runtime.evaluate.lists import Lists, joined_nulls
from sqlstream.runtime.kernels.bitmaps import (
    AND,
    ANDNOT,
    OR,
    XOR,
    cardinalities_into,
    combine,
    sets_into,
    sizes_into,
    values_into,
)
from sqlstream.runtime.kernels.buffers import view_buffer


def _combined(operation: int) -> Builder:
    def kernel(left: Datum, right: Datum) -> pa.Array:
        a, b = (Bitmaps.of(column) for column in as_arrays(left, right))
        return a.combined(operation, b).column()

    return lambda call, context: kernel


def build_bitmap(call: Call, context: EvaluationContext) -> Kernel:
    """The set of an array's elements that are not NULL."""

    def kernel(array: Datum) -> pa.Array:
        lists = Lists.of(as_array(array, rows_of(array)))
        elements, owners = lists.elements(), lists.owners()
        if elements.null_count:
            known = elements.is_valid().to_numpy(zero_copy_only=False)
            elements, owners = elements.drop_null(), owners[known]
        return Bitmaps.of_elements(owners, numbers(elements, np.int32), lists.rows, lists.nulls).column()

    return kernel


def _from_bytes(data: Datum) -> pa.Array:
    """Bytes of other writers may have runs: they are written anew, so that equal sets have equal bytes."""
    if pc.any(pc.equal(pc.binary_length(data), 0)).as_py():
        raise no_bitmap()
    return Bitmaps.of(data).column()


def to_array(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    return lambda bitmap: Bitmaps.of(bitmap).arrays(target)


# Columns of bitmaps as lists of their values: what the functions and aggregates of BITMAP compute with.


_TEXT_CHARACTERS_MAX = 0x80000
"""Where Java's RoaringBitmap ends its text with "..."."""


@dataclasses.dataclass(frozen=True)
class Bitmaps:
    """The ascending unsigned values `values[starts[i]:starts[i + 1]]` of each row; a NULL (`nulls`, None for none) has none, and
    neither have no bytes at all."""

    values: Values
    starts: Values
    nulls: Values | None

    @staticmethod
    def of(column: pa.Array) -> Bitmaps:
        """UserError SS5102 for bytes that are no bitmap."""
        data, places, counts = _counted(column)
        values = np.empty(int(counts.sum()), dtype=np.uint32)
        values_into(data, places, values)
        return Bitmaps(values, _starts_of(counts), null_mask(column))

    @staticmethod
    def of_elements(owners: Values, elements: Values, rows: int, nulls: Values | None) -> Bitmaps:
        """The sets of int32 `elements`, each of which belongs to the row `owners`, in any order and repeated."""
        pairs = np.sort((owners.astype(np.uint64) << np.uint64(32)) | elements.astype(np.uint32))
        # A sort and a comparison: numpy's unique takes ten times as long.
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))] if len(pairs) else pairs
        counts = np.bincount((pairs >> np.uint64(32)).astype(np.int64), minlength=rows)
        return Bitmaps(pairs.astype(np.uint32), _starts_of(counts), nulls)

    @property
    def rows(self) -> int:
        return len(self.starts) - 1

    @property
    def counts(self) -> Values:
        return np.diff(self.starts)

    def owners(self) -> Values:
        """The row of each value."""
        return np.repeat(np.arange(self.rows), self.counts)

    def column(self) -> pa.Array:
        """In the portable form, equal bytes for equal sets."""
        sizes = np.empty(self.rows, dtype=np.int64)
        sizes_into(self.values, self.starts, sizes)
        if self.nulls is not None:
            sizes[self.nulls] = 0
        places = _starts_of(sizes)
        if places[-1] > BATCH_BYTES_MAX:
            raise too_large("bitmaps")
        if self.nulls is None:
            starts, written = self.starts, places[:-1]
        else:
            kept = np.flatnonzero(~self.nulls)
            starts, written = np.append(self.starts[kept], self.starts[-1]), places[kept]
        data = np.zeros(int(places[-1]), dtype=np.uint8)
        sets_into(self.values, np.ascontiguousarray(starts), np.ascontiguousarray(written), data)
        valid = None if self.nulls is None else pa.py_buffer(np.packbits(~self.nulls, bitorder="little"))
        buffers = [valid, pa.py_buffer(places.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), self.rows, buffers)

    def combined(self, operation: int, other: Bitmaps) -> Bitmaps:
        """AND, ANDNOT, OR or XOR, row by row; NULL where one of them is."""
        values = np.empty(len(self.values) + len(other.values), dtype=np.uint32)
        counts = np.empty(self.rows, dtype=np.int64)
        left, right = (self.values, self.starts), (other.values, other.starts)
        total = combine(operation, *left, *right, values, counts)
        values, nulls = values[:total], joined_nulls(self.nulls, other.nulls)
        if nulls is not None:
            values, counts = values[np.repeat(~nulls, counts)], counts * ~nulls
        return Bitmaps(values, _starts_of(counts), nulls)

    def arrays(self, target: pa.DataType) -> pa.Array:
        """The values as lists of INT, whose negative numbers are the greatest."""
        mask = None if self.nulls is None else pa.array(self.nulls)
        offsets = pa.array(self.starts.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array(self.values.view(np.int32)), type=target, mask=mask)

    def texts(self) -> pa.Array:
        """{1,2,3}: unsigned; a long text ends with "..."."""
        words = pc.cast(pa.array(self.values), pa.string())
        # The characters before a value, with the bracket and the commas.
        before = _starts_of(pc.binary_length(words).to_numpy(zero_copy_only=False).astype(np.int64) + 1)
        owners = self.owners()
        starts = self.starts[:-1][owners]
        is_kept = 1 + before[:-1] - before[starts] <= _TEXT_CHARACTERS_MAX
        is_kept[starts[np.arange(len(owners)) == starts]] = True
        counts = np.bincount(owners[is_kept], minlength=self.rows)
        is_cut = counts < self.counts
        lists = pa.ListArray.from_arrays(
            pa.array(_starts_of(counts).astype(np.int32)), words.filter(pa.array(is_kept))
        )
        ends = pa.array(np.where(is_cut, ",...}", "}"))
        text = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), ends, "")
        return text if self.nulls is None else pc.if_else(pa.array(self.nulls), None, text)


def cardinalities(column: pa.Array) -> pa.Array:
    """The number of values of each bitmap, without reading them one by one."""
    return pa.array(_counted(column)[2], mask=null_mask(column))


def _counted(column: pa.Array) -> tuple[Values, Values, Values]:
    """The bytes, where the bitmap of each row begins and ends in them (at one place for NULL), and its number of values."""
    _, offsets, data = column.buffers()
    ends = view_buffer(offsets, np.int32, column.offset, len(column) + 1 if len(column) else 0)
    places = np.zeros((len(column), 2), dtype=np.int64)
    if len(column):
        places[:, 0], places[:, 1] = ends[:-1], ends[1:]
    nulls = null_mask(column)
    if nulls is not None:
        places[nulls] = 0
    memory = view_buffer(data, np.uint8, 0, 0 if data is None else data.size)
    counts = np.empty(len(column), dtype=np.int64)
    if cardinalities_into(memory, places.ravel(), counts) >= 0:
        raise no_bitmap()
    return memory, places.ravel(), counts


def no_bitmap() -> UserError:
    return UserError(
        "SS5102",
        "bytes are not a bitmap",
        hint="write 32-bit Roaring bitmaps in their portable form, or build them with BITMAP_BUILD",
    )


def _starts_of(counts: Values) -> Values:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


# The builders of the functions.

BITMAP_AND = _combined(AND)
BITMAP_ANDNOT = _combined(ANDNOT)
BITMAP_OR = _combined(OR)
BITMAP_XOR = _combined(XOR)
BITMAP_CARDINALITY = plain(cardinalities)
BITMAP_FROM_BYTES = plain(_from_bytes)
BITMAP_TO_BYTES = plain(lambda bitmap: bitmap)
BITMAP_TO_STRING = plain(lambda bitmap: Bitmaps.of(bitmap).texts())
