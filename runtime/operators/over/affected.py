"""Which results a changed row can change, and which rows these results read."""

from __future__ import annotations

import dataclasses

import numpy as np

from sqlstream.expressions import SortKey
from sqlstream.runtime.operators.over.frames import VARIANCES
from sqlstream.runtime.operators.over.sorted import order_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_multiset import OrderedMultiset
from sqlstream.schema import Schema
from sqlstream.specs.over import RANKING, WHOLE_PARTITION_RANKING, OverCall, OverSpec
from sqlstream.types import TypeRoot

_CARRIED = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})
_INEXACT = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
_TIED = frozenset({"RANK", "DENSE_RANK"})


@dataclasses.dataclass(frozen=True)
class FrameExtent:
    """How far the frames of an operator's calls extend around a row, all calls together.

    Frames hold up to `rows_before` rows before their row and `rows_after` behind it, and rows whose ORDER BY value differs by
    `low` (negative) to `high`. With `has_peers` they hold whole groups of equal rows.

    `SUM(x) OVER (... ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)` has `rows_before=2, rows_after=1`. When the row at place 5
    changes, the results at places 4 to 7 may, and these read the rows at places 2 to 8.

    `is_running`: frames begin with the partition, so all results behind a change may differ. `reads_all`: these are computed
    from the partition's first row, as no accumulator holds a prefix of the frame. `is_whole`: any result of the partition may
    differ, as with NTILE. `sees_first`: a call returns the value of the partition's first row.
    """

    rows_before: int = 0
    rows_after: int = 0
    low: float = 0
    high: float = 0
    has_peers: bool = False
    is_running: bool = False
    reads_all: bool = False
    is_whole: bool = False
    sees_first: bool = False

    @staticmethod
    def of(spec: OverSpec, schema: Schema) -> FrameExtent:
        """The extent of all calls of an operator together."""
        found = FrameExtent()
        for call in spec.calls:
            found = found._with(_extent_of(call, spec, schema))
        return found

    @property
    def has_range(self) -> bool:
        return self.low != 0 or self.high != 0

    def _with(self, other: FrameExtent) -> FrameExtent:
        return FrameExtent(
            max(self.rows_before, other.rows_before),
            max(self.rows_after, other.rows_after),
            min(self.low, other.low),
            max(self.high, other.high),
            self.has_peers or other.has_peers,
            self.is_running or other.is_running,
            self.reads_all or other.reads_all,
            self.is_whole or other.is_whole,
            self.sees_first or other.sees_first,
        )


_WHOLE = FrameExtent(is_whole=True)


def is_carried(call: OverCall) -> bool:
    """Whether an accumulator can hold the part of its frames that comes before a row."""
    if call.function in RANKING:
        return True
    if not call.has_frame or call.frame.start is not None or call.ref is not None:
        return False
    if call.function in ("FIRST_VALUE", "LAST_VALUE"):
        return call.skips_nulls
    is_plain = not call.is_distinct or call.function in ("MIN", "MAX")
    return is_plain and call.function in _CARRIED


def is_first_value(call: OverCall) -> bool:
    """Whether it has the value of the partition's first row, NULL or not, in every frame that is not empty."""
    return (
        call.function == "FIRST_VALUE"
        and call.frame.start is None
        and call.filter < 0
        and not call.skips_nulls
    )


def _extent_of(call: OverCall, spec: OverSpec, schema: Schema) -> FrameExtent:
    if call.function in WHOLE_PARTITION_RANKING:
        # The number of rows of the partition is in each result.
        return _WHOLE
    if call.function in RANKING:
        return FrameExtent(has_peers=call.function in _TIED, is_running=True)
    if call.function in ("LAG", "LEAD"):
        # NULLs that are passed over may be any number.
        if call.skips_nulls:
            return _WHOLE
        return (
            FrameExtent(rows_before=call.number)
            if call.function == "LAG"
            else FrameExtent(rows_after=call.number)
        )
    if call.frame.end is None:
        # The last row of the partition is in every frame.
        return _WHOLE
    found = _frame_extent(call, spec, schema)
    if call.frame.start is not None:
        return _WHOLE if _depends_on_beginning(call, schema) else found
    is_behind = call.frame.is_range and (call.frame.end or 0) < 0
    if call.function == "LAST_VALUE" and call.filter < 0 and not call.skips_nulls and not is_behind:
        return found
    carries = is_carried(call) or is_first_value(call)
    return dataclasses.replace(found, is_running=True, reads_all=not carries, sees_first=is_first_value(call))


def _frame_extent(call: OverCall, spec: OverSpec, schema: Schema) -> FrameExtent:
    """From the start of the frame, or from its row where the frame starts with the partition, to the end."""
    frame = call.frame
    start = min(frame.start or 0, frame.end or 0, 0)
    end = max(frame.start or 0, frame.end or 0, 0)
    if not frame.is_range:
        return FrameExtent(rows_before=int(-start), rows_after=int(end))
    if start == 0 == end:
        return FrameExtent(has_peers=True)
    if schema.types[spec.order[0].column].root in _INEXACT:
        # value - offset, rounded, is not where value + offset, rounded, ends.
        return _WHOLE
    return FrameExtent(low=start, high=end)


def _depends_on_beginning(call: OverCall, schema: Schema) -> bool:
    """Whether the last digits of a result, or the order of a user's calls, depend on where in the partition the frames before it
    end: sums that slide along with the frames."""
    if call.ref is not None:
        return "retract" in call.ref.methods
    if call.is_distinct and call.function not in ("MIN", "MAX"):
        return False
    is_inexact = call.function in ("SUM", "AVG") and schema.types[call.args[0]].root in _INEXACT
    return call.function in VARIANCES or is_inexact


@dataclasses.dataclass(frozen=True)
class ChangedRows:
    """Ranges of partitions from a first to a last changed row, both at a place in the order of the partition.

    `keys` (ascending) are the partitions, `sizes` their numbers of rows; all arrays have an entry per range.
    """

    keys: Array
    sizes: Array
    first_rows: Array
    last_rows: Array
    first: Array
    last: Array

    @staticmethod
    def each(table: OrderedMultiset, rows: Array) -> ChangedRows:
        """A range per row, in order. `rows` are distinct and have a place."""
        keys, places = table.keys_of(rows), table.order.places(rows)
        by_place = np.lexsort((places, keys))
        keys, places, rows = keys[by_place], places[by_place], rows[by_place]
        return ChangedRows(keys, table.order.sizes(keys), rows, rows, places, places)

    def by_key(self) -> ChangedRows:
        """One range per key, from its first changed row to its last."""
        return self._from(np.append(True, self.keys[1:] != self.keys[:-1]))

    def together(self, first: Array, end: Array, distance: int) -> tuple[ChangedRows, Array, Array]:
        """Merge ranges whose affected rows, `first` to `end`, are at most `distance` apart: (ranges, first, end)."""
        begins = np.append(True, self.keys[1:] != self.keys[:-1])
        begins[1:] |= first[1:] > end[:-1] + distance
        last = np.append(np.flatnonzero(begins)[1:], len(begins)) - 1
        return self._from(begins), first[begins], end[last]

    def _from(self, begins: Array) -> ChangedRows:
        last = np.append(np.flatnonzero(begins)[1:], len(begins)) - 1
        return ChangedRows(
            self.keys[begins],
            self.sizes[begins],
            self.first_rows[begins],
            self.last_rows[last],
            self.first[begins],
            self.last[last],
        )


class AffectedRanges:
    """The places of the results that changed rows may change (`…_affected`), and of the rows that these read (`…_read`). No
    state.

    Ends are exclusive. For the example at FrameExtent: 4 and 8 affected, 2 and 9 read.
    """

    def __init__(self, extent: FrameExtent, order: tuple[SortKey, ...], table: OrderedMultiset) -> None:
        self._extent, self._order, self._table = extent, order, table

    def first_affected(self, changed: ChangedRows) -> Array:
        """The first row whose result may differ."""
        if self._extent.is_whole:
            return np.zeros_like(changed.first)
        found = np.minimum(
            self._start(changed.keys, changed.first_rows, changed.first, self._extent.high), changed.first
        )
        return np.maximum(found - self._extent.rows_after, 0)

    def first_read(self, changed: ChangedRows, first: Array) -> Array:
        """The first row that the results from `first` on read; accumulators hold what is before it."""
        if self._extent.is_whole or self._extent.reads_all:
            return np.zeros_like(first)
        places = np.maximum(first - self._extent.rows_before, 0)
        if self._extent.has_range:
            rows = self._rows_at(changed.keys, first)
            places = np.minimum(places, self._start(changed.keys, rows, first, -self._extent.low))
        if self._extent.has_peers:
            rows = self._rows_at(changed.keys, places)
            places = self._start(changed.keys, rows, places, 0)
        return places

    def end_changed(self, changed: ChangedRows) -> Array:
        """The end of the changed rows and their peers."""
        return self._end(changed.keys, changed.last_rows, changed.last + 1, 0)

    def end_affected(self, changed: ChangedRows, is_settled: Array | None = None) -> Array:
        """The end of the rows whose results may differ: that of the partition for running results that are not `is_settled`."""
        if self._extent.is_whole:
            return changed.sizes
        ends = self._end(changed.keys, changed.last_rows, changed.last + 1, -self._extent.low)
        ends = np.minimum(ends + self._extent.rows_before, changed.sizes)
        return ends if is_settled is None else np.where(is_settled, ends, changed.sizes)

    def end_read(self, changed: ChangedRows, ends: Array) -> Array:
        """The end of the rows that the results before `ends` read."""
        if self._extent.is_whole:
            return changed.sizes
        places = np.minimum(ends + self._extent.rows_after, changed.sizes)
        if self._extent.has_range:
            rows = self._rows_at(changed.keys, ends - 1)
            places = np.maximum(places, self._end(changed.keys, rows, ends, self._extent.high))
        if self._extent.has_peers:
            rows = self._rows_at(changed.keys, places - 1)
            places = self._end(changed.keys, rows, places, 0)
        return places

    def _rows_at(self, keys: Array, places: Array) -> Array:
        return self._table.order.between(keys, places, places + 1)[1]

    def _start(self, keys: Array, rows: Array, places: Array, distance: float) -> Array:
        """The place of the first row that is at most `distance` before `rows`, which are at `places`."""
        return self._bounds(keys, rows, -distance, is_end=False) if self._looks_at_order else places

    def _end(self, keys: Array, rows: Array, places: Array, distance: float) -> Array:
        """The end of the rows at most `distance` behind `rows`, as `_start`."""
        return self._bounds(keys, rows, distance, is_end=True) if self._looks_at_order else places

    @property
    def _looks_at_order(self) -> bool:
        return self._extent.has_peers or self._extent.has_range

    def _bounds(self, keys: Array, rows: Array, step: float, *, is_end: bool) -> Array:
        order = self._table.order
        if not step:
            return order.peers(keys, rows, is_end=is_end)
        key = self._order[0]
        (column,) = self._table.rows.columns(rows, [key.column])
        per_unit, values = order_values(column)
        values = ~values if key.is_descending else values
        distance = int(step * per_unit)
        limit = np.iinfo(np.int64)
        targets = np.clip(values, limit.min - min(distance, 0), limit.max - max(distance, 0)) + distance
        found = order.bounds(keys, targets, is_end=is_end)
        if column.null_count:
            # The frame of a NULL holds NULLs alone.
            is_null = np.asarray(column.is_null())
            found[is_null] = order.peers(keys[is_null], rows[is_null], is_end=is_end)
        return found
