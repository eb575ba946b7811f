"""Pairs of rows with equal keys, and the rows that they become: what all joins share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, without_row_kinds
from sqlstream.expressions import Expression, inputs_of, remap
from sqlstream.runtime.aggregates.numbers import present_rows
from sqlstream.runtime.evaluate import EvaluationContext, compile_condition
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.take import true_positions
from sqlstream.runtime.operators.deferred_rows import DeferredRows, Rows, RowsOfBatch
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.logs.row_log import RowLog, Spread
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.join import JoinKind


class JoinedRows:
    """Output rows have the left columns, then the right columns. No state."""

    def __init__(self, condition: Expression | None, context: OperatorContext) -> None:
        left, right = context.input_schemas
        self._schema = to_arrow_schema(context.output_schema)
        self._types = [[field.type for field in to_arrow_schema(side)] for side in (left, right)]
        self._left_width = len(left)
        # Only the columns of the condition are built for all pairs; the others only for the pairs that pass.
        self._read = sorted(inputs_of(condition)) if condition is not None else []
        self._condition = None
        if condition is not None:
            place = {column: position for position, column in enumerate(self._read)}
            read = left.concat(right).select(tuple(self._read))
            evaluation = EvaluationContext.of(context.now_ms, context.config)
            self._condition = compile_condition(remap(condition, place), read, evaluation)
            self._read_schema = to_arrow_schema(read)

    def pairs(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> tuple[pa.RecordBatch, Array]:
        """The joined rows for which the condition is TRUE, and their positions among the pairs, int64[m].

        `left_rows[i]` and `right_rows[i]` are the rows of pair i. None: row i of that side's batch belongs to pair i.
        """
        pairs = left.num_rows if left_rows is None else len(left_rows)
        joined, passed = self.deferred(RowsOfBatch(left, left_rows), RowsOfBatch(right, right_rows), pairs)
        return joined.batch(), np.arange(pairs) if passed is None else passed.astype(np.int64)

    def deferred(self, left: Rows, right: Rows, pairs: int) -> tuple[DeferredRows, Array | None]:
        """As `pairs` for row i of both sides, with columns that are built when they are read, and None when all pairs pass."""
        passed = self._passed(left, right, pairs)
        if passed is not None:
            left, right, pairs = left.chosen(passed), right.chosen(passed), len(passed)
        parts = [(left, self._left_width), (right, len(self._schema) - self._left_width)]
        return DeferredRows(self._schema, pairs, parts), passed

    def passing(
        self, left: pa.RecordBatch, right: pa.RecordBatch, left_rows: Array | None, right_rows: Array | None
    ) -> Array:
        """As `pairs` without the joined rows, which SEMI and ANTI do not output."""
        pairs = left.num_rows if left_rows is None else len(left_rows)
        return self.passing_of(RowsOfBatch(left, left_rows), RowsOfBatch(right, right_rows), pairs)

    def passing_of(self, left: Rows, right: Rows, pairs: int) -> Array:
        """As `passing` for row i of both sides."""
        passed = self._passed(left, right, pairs)
        return np.arange(pairs) if passed is None else passed.astype(np.int64)

    def _passed(self, left: Rows, right: Rows, pairs: int) -> Array | None:
        """int32: positions of the pairs for which the condition is TRUE; None when all are."""
        if self._condition is None or pairs == 0:
            return None
        width = self._left_width
        columns = [
            *left.columns([c for c in self._read if c < width]),
            *right.columns([c - width for c in self._read if c >= width]),
        ]
        schema = self._read_schema
        if not columns:
            # A condition without columns still needs the number of rows.
            columns, schema = [pa.nulls(pairs)], pa.schema([pa.field("none", pa.null())])
        mask = self._condition(pa.RecordBatch.from_arrays(columns, schema=schema))
        if mask.true_count == pairs:
            return None
        return true_positions(mask)

    def padded(self, batch: pa.RecordBatch, rows: Array | None, side: int = 0) -> pa.RecordBatch:
        """Rows (None: all) of that side (0: left, 1: right) with NULLs for the columns of the other."""
        count = batch.num_rows if rows is None else len(rows)
        own, nulls = taken(batch, rows), [pa.nulls(count, type_) for type_ in self._types[1 - side]]
        return pa.RecordBatch.from_arrays([*nulls, *own] if side else [*own, *nulls], schema=self._schema)

    def unmatched(
        self, batch: pa.RecordBatch, rows: Array | None, side: int, kind: JoinKind
    ) -> pa.RecordBatch:
        """Rows (None: all) of that side without a match, as a join of that kind outputs them."""
        return self.alone(batch, rows) if kind.is_left_only else self.padded(batch, rows, side)

    def alone(self, left: pa.RecordBatch, rows: Array | None) -> pa.RecordBatch:
        """Left rows (None: all) as SEMI and ANTI output them."""
        return pa.RecordBatch.from_arrays(taken(left, rows), schema=self._schema)


def taken(batch: pa.RecordBatch, rows: Array | None) -> list[pa.Array]:
    """The columns of these rows (None: all), without row kinds."""
    data = without_row_kinds(batch)
    return RowsOfBatch(data, rows).columns(range(data.num_columns))


PAIRS_MAX = 1 << 16
"""Pairs built at once: bounds memory, and the time until a task notices a cancellation, when many rows match many."""

Pairs = Iterator[tuple[Array, Array]]


def equal_pairs(left: list[pa.Array], right: list[pa.Array], rows: tuple[int, int]) -> Pairs:
    """Row numbers (left, right) of all pairs with equal keys, in portions of about PAIRS_MAX. NULL equals nothing.

    `rows` counts the rows of both sides; without key columns every pair is equal. The smaller side is indexed. Within a
    portion, pairs are ordered by left row, then right row; no row of the larger side is in two portions.
    """
    if rows[0] == 0 or rows[1] == 0:
        return
    if rows[0] < rows[1]:
        for small, large in _probe(left, right, rows[0], rows[1]):
            order, _ = argsort_stable_by(small, rows[0])
            yield small[order], large[order]
    else:
        for small, large in _probe(right, left, rows[1], rows[0]):
            yield large, small


def _probe(small: list[pa.Array], large: list[pa.Array], small_rows: int, large_rows: int) -> Pairs:
    """Pairs (small row, large row), ordered by large row, then small row."""
    if not small:
        members = np.arange(small_rows)
        step = max(1, PAIRS_MAX // small_rows)
        for start in range(0, large_rows, step):
            probes = np.arange(start, min(start + step, large_rows))
            yield np.tile(members, len(probes)), np.repeat(probes, small_rows)
        return
    small = [_same_type(s, probe) for s, probe in zip(small, large, strict=True)]
    complete_small = complete_rows(small)
    if complete_small is not None:
        chosen = to_array(pa.int64(), complete_small)
        small = [column.take(chosen) for column in small]
    index = KeyIndex([column.type for column in small])
    slots, _ = index.get_or_insert(small)
    found = index.get(large)
    complete = complete_rows(large)
    hits = np.flatnonzero(found >= 0) if complete is None else complete[found[complete] >= 0]
    for probes, matched in _members(slots, len(index), found[hits]):
        yield matched if complete_small is None else complete_small[matched], hits[probes]


def _members(slots: Array, distinct: int, slots_hit: Array) -> Pairs:
    """(Position in slots_hit, small row) of all matches; `slots` has the slot of each small row."""
    if distinct == len(slots):
        # Every key occurs once, and slots are assigned in order of rows: the slot is the row number.
        yield np.arange(len(slots_hit)), slots_hit
        return
    members, starts = argsort_stable_by(slots, distinct)
    for start, stop in portions(np.diff(starts)[slots_hit]):
        probes, positions = expand(starts, slots_hit[start:stop])
        yield probes + start, members[positions]


def portions(pair_counts: Array) -> Iterator[tuple[int, int]]:
    """Runs [start, stop) of rows with about PAIRS_MAX pairs in total each; one where they are few more."""
    pairs = np.cumsum(pair_counts)
    if len(pairs) == 0 or pairs[-1] <= PAIRS_MAX + PAIRS_MAX // 2:
        yield 0, len(pairs)
        return
    starts = np.flatnonzero(np.diff(pairs // PAIRS_MAX, prepend=-1)).tolist()
    yield from itertools.pairwise([*starts, len(pairs)])


def _same_type(column: pa.Array, other: pa.Array) -> pa.Array:
    return column if column.type == other.type else column.cast(other.type)


def complete_rows(columns: list[pa.Array]) -> Array | None:
    """Row numbers without a NULL in any column; None when these are all rows."""
    if not any(column.null_count for column in columns):
        return None
    complete = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            complete &= present_rows(column)
    return np.flatnonzero(complete)


def expand(starts: Array, slots: Array) -> tuple[Array, Array]:
    """All (probe, member position) pairs of probes into groups `starts[slot] … starts[slot + 1]`, by probe."""
    counts = starts[slots + 1] - starts[slots]
    probes = np.repeat(np.arange(len(slots)), counts)
    within = np.arange(len(probes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return probes, starts[slots][probes] + within


_SIDES = ("left", "right")


def declare_sides(
    context: OperatorContext, keys: tuple[tuple[int, ...], tuple[int, ...]], broadcast_input: int
) -> tuple[RowLog, RowLog]:
    """The logs "left" and "right". All subtasks get the rows of `broadcast_input` (-1: none), and then any rows of the other."""
    left, right = (
        RowLog(
            _SIDES[side],
            to_arrow_schema(schema),
            context.state.scope,
            keys[side],
            _spread(side, broadcast_input),
        )
        for side, schema in enumerate(context.input_schemas)
    )
    return context.state.add(left), context.state.add(right)


def _spread(side: int, broadcast_input: int) -> Spread:
    if broadcast_input < 0:
        return Spread.BY_KEY
    return Spread.EVERYWHERE if side == broadcast_input else Spread.ANYWHERE
