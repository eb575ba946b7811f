"""The calls of OVER over sorted rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.aggregates.numbers import from_numbers, present_rows
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.group import group
from sqlstream.runtime.operators.over.frame_bounds import frame_bounds
from sqlstream.runtime.operators.over.framed_aggregates import FRAMED, Framed, framed_aggregate
from sqlstream.runtime.operators.over.neighbours import lag_or_lead, value_at
from sqlstream.runtime.operators.over.ranking import ranking
from sqlstream.runtime.operators.over.sorted_rows import SortedRows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.schema import Schema
from sqlstream.specs.over import NEIGHBOURS, RANKING, WHOLE_PARTITION_RANKING, Frame, OverCall
from sqlstream.types import BIGINT

_PAIRS_MAX = 1 << 20
"""Rows of frames that are laid out at a time, for aggregates that read every row of every frame."""

Prior = list[list[pa.Array] | None]


def carried_call(call: OverCall, is_first_of_peers: int) -> AggregateCall:
    """The accumulator that stands for all rows before a frame without a start; `is_first_of_peers` is a column of its input."""
    if call.function in RANKING:
        by_peers = is_first_of_peers if call.function == "DENSE_RANK" else -1
        return AggregateCall("COUNT", (), BIGINT.not_null(), filter=by_peers)
    return AggregateCall(call.function, call.args, call.type, filter=call.filter, ref=call.ref)


class FramedCalls:
    """Computes the calls of one OVER. No state."""

    def __init__(self, calls: tuple[OverCall, ...], schema: Schema) -> None:
        self._calls = calls
        self._types = tuple(tuple(schema.types[a] for a in call.args) for call in calls)

    def compute(self, rows: SortedRows, prior: Prior | None = None) -> list[pa.Array]:
        """A column per call. `prior`, by call: the columns of the accumulators of earlier rows, by partition."""
        bounds: dict[Frame, tuple[Array, Array]] = {}
        columns = []
        for i, call in enumerate(self._calls):
            if call.frame not in bounds and call.function not in _WITHOUT_FRAME:
                bounds[call.frame] = frame_bounds(call.frame, rows)
            before = None if prior is None else prior[i]
            columns.append(self._column(i, rows, bounds.get(call.frame, _NO_BOUNDS), before))
        return columns

    def _column(
        self, number: int, rows: SortedRows, bounds: tuple[Array, Array], prior: list[pa.Array] | None
    ) -> pa.Array:
        call, types = self._calls[number], self._types[number]
        declared = to_arrow_type(call.type)
        if call.function in RANKING | WHOLE_PARTITION_RANKING:
            before = None if prior is None else view_values(prior[0], np.int64)
            return from_numbers(ranking(call, rows, before), declared)
        if call.function in NEIGHBOURS:
            return lag_or_lead(call, rows)
        arguments = [rows.batch.column(a) for a in call.args]
        takes_part = filtered(call, rows)
        if call.function in ("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"):
            if call.skips_nulls:
                takes_part &= present_rows(arguments[0])
            found = value_at(call, arguments[0], takes_part, *bounds)
            return found if prior is None else _with_prior(call, found, prior, rows)
        if call.ref is not None and not call.is_distinct:
            from sqlstream.runtime.operators.over.user_framed import user_framed

            return user_framed(call, types, rows, takes_part, bounds, prior)
        is_whole = call.frame.start is None
        if call.function in FRAMED and (is_whole or not call.is_distinct or call.function in ("MIN", "MAX")):
            for argument in arguments:
                takes_part &= present_rows(argument)
            if call.is_distinct and call.function not in ("MIN", "MAX"):
                takes_part = first_of_equals(arguments, takes_part, rows)
            found = framed_aggregate(call, arguments, types, Framed(rows, takes_part, *bounds, prior))
        else:
            found = _laid_out(call, types, rows, *bounds)
        return found if found.type == declared else found.cast(declared)


_WITHOUT_FRAME = RANKING | WHOLE_PARTITION_RANKING | NEIGHBOURS
_NO_BOUNDS = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def filtered(call: OverCall, rows: SortedRows) -> Array:
    if call.filter < 0:
        return np.ones(len(rows), dtype=bool)
    condition = rows.batch.column(call.filter)
    return np.array(pc.fill_null(condition, False).to_numpy(zero_copy_only=False), dtype=bool)


def _with_prior(call: OverCall, found: pa.Array, prior: list[pa.Array], rows: SortedRows) -> pa.Array:
    """The value that is first, or last, of the one before these rows and of the one in them. Where NULLs are values, `prior` is
    the first value and whether there is one."""
    owners = pa.array(rows.partitions)
    earlier = prior[0].cast(found.type).take(owners)
    if not call.skips_nulls:
        return pc.if_else(prior[1].take(owners), earlier, found)
    both = (earlier, found) if call.function == "FIRST_VALUE" else (found, earlier)
    return pc.coalesce(*both)


def first_of_equals(arguments: list[pa.Array], takes_part: Array, rows: SortedRows) -> Array:
    """Of the rows of a partition that take part and have equal arguments, the first."""
    chosen = np.flatnonzero(takes_part)
    _, first = group([pa.array(rows.partitions[chosen]), *(a.take(pa.array(chosen)) for a in arguments)])
    kept = np.zeros(len(rows), dtype=bool)
    kept[chosen[first]] = True
    return kept


def _laid_out(
    call: OverCall, types: tuple[object, ...], rows: SortedRows, starts: Array, ends: Array
) -> pa.Array:
    """Every frame's rows go to an accumulator of its own: for aggregates and DISTINCT that have no quicker way."""
    own = AggregateCall(call.function, call.args, call.type, call.is_distinct, call.filter, call.ref)
    sizes = ends - starts
    totals = np.cumsum(sizes)
    found: list[pa.Array] = []
    done = 0
    while done < len(rows):
        base = totals[done] - sizes[done]
        stop = max(done + 1, int(np.searchsorted(totals, base + _PAIRS_MAX, side="right")))
        part = sizes[done:stop]
        slots = np.repeat(np.arange(stop - done), part)
        within = np.arange(len(slots)) - np.repeat(np.cumsum(part) - part, part)
        members = np.repeat(starts[done:stop], part) + within
        accumulators = AccumulatorSet((own,), (types,), False, ("value",))  # type: ignore[arg-type]
        accumulators.resize(stop - done)
        if len(slots):
            accumulators.accumulate(slots, rows.batch.take(pa.array(members)))
        found += accumulators.results(np.arange(stop - done))
        done = stop
    return pa.concat_arrays(found) if found else pa.nulls(0, to_arrow_type(call.type))
