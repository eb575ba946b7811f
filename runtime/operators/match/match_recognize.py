"""MATCH_RECOGNIZE: rows that follow each other in a pattern."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.match import MATCH, UNMATCHED
from sqlstream.runtime.kernels.rank import rank_within
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.match.matcher import Found, Matcher, Segments, Undecided
from sqlstream.runtime.operators.match.open_runs import OpenRuns, PendingStarts
from sqlstream.runtime.operators.match.values import MatchedRows, MatchValues, ranges
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.window.closing import LATE
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.logs.row_log import RowLog, concat_batches
from sqlstream.runtime.state.storage.arrays import Array, unique_names
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_rows import KeyedRows
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.schema import Schema
from sqlstream.specs.match_recognize import MatchRecognizeSpec, RowsPerMatch


class MatchRows:
    """Builds the output rows of a spec from its matches. No state."""

    def __init__(
        self, spec: MatchRecognizeSpec, input: Schema, output: Schema, evaluation: EvaluationContext
    ) -> None:
        self._spec = spec
        self._schema = to_arrow_schema(output)
        self._width = len(input)
        self._values = MatchValues(spec.measures, input, spec.variables, evaluation)
        self._variable_of = np.array([i.first for i in spec.program], dtype=np.int64)
        self._is_excluded = np.array([i.is_excluded for i in spec.program], dtype=bool)

    def build(self, segments: Segments, found: Found, numbers: Array) -> pa.RecordBatch:
        """The output of the records, in their order; `numbers` are those of the matches."""
        starts = found.records[:, 1]
        is_unmatched = found.records[:, 3] == UNMATCHED
        lengths = np.where(is_unmatched, 0, found.records[:, 2] - starts)
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        rows = ranges(starts, lengths)
        if self._spec.rows_per_match is RowsPerMatch.ONE:
            matches, ends, shown = np.arange(len(starts)), bounds[1:], starts
        else:
            matches, ends, shown = self._all_rows(found, starts, lengths, bounds, is_unmatched)
        begins, key_ends = segments.bounds[:-1], segments.bounds[1:]
        counts = key_ends - begins
        matched = MatchedRows(
            batch=segments.batch,
            partition_begin=np.repeat(begins, counts),
            partition_end=np.repeat(key_ends, counts),
            rows=rows,
            variables=self._variable_of[found.labels],
            starts=bounds,
            numbers=numbers,
            matches=matches,
            ends=ends,
        )
        measures = self._values.compute(matched)
        if is_unmatched.any():
            mask = to_array(pa.bool_(), is_unmatched[matches])
            measures = [_nulled(m, mask) for m in measures]
        is_one = self._spec.rows_per_match is RowsPerMatch.ONE
        copied = self._spec.partition_keys if is_one else range(self._width)
        chosen = to_array(pa.int64(), np.ascontiguousarray(shown))
        columns = [segments.batch.column(c).take(chosen) for c in copied]
        arrays = [*columns, *measures]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _all_rows(
        self, found: Found, starts: Array, lengths: Array, bounds: Array, is_unmatched: Array
    ) -> tuple[Array, Array, Array]:
        """Match, end of what is seen, and row of each output row: those of matches that are not excluded, unmatched rows, and one
        for an empty match."""
        is_alone = lengths == 0
        if self._spec.rows_per_match is RowsPerMatch.ALL_OMIT_EMPTY:
            is_alone = is_alone & is_unmatched
        counts = lengths + is_alone
        matches = np.repeat(np.arange(len(starts)), counts)
        within = ranges(np.zeros(len(counts), dtype=np.int64), counts)
        ends = np.minimum(bounds[matches] + within + 1, bounds[matches + 1])
        shown = starts[matches] + within
        is_mapped = lengths[matches] > 0
        if self._is_excluded.any():
            kept = np.ones(len(matches), dtype=bool)
            kept[is_mapped] = ~self._is_excluded[found.labels]
            matches, ends, shown = matches[kept], ends[kept], shown[kept]
        return matches, ends, shown


def _nulled(column: pa.Array, mask: pa.Array) -> pa.Array:
    rows = np.arange(len(column))
    return column.take(pa.array(rows, mask=mask.to_numpy(zero_copy_only=False)))


_OWN_COLUMNS = ("$time", "$sequence", "$place")
_PAST, _COVERED, _FREE = 1, 2, 4
"""Flags of a kept row: no match can begin at it; it belongs to a match already; an output row to come is later than it."""


@dataclasses.dataclass(frozen=True)
class _SortedRows:
    """Rows with the own columns, sorted by key and place in it; key k has rows `bounds[k]` to `bounds[k + 1]`."""

    batch: pa.RecordBatch
    bounds: Array

    def own(self, column: int) -> Array:
        return view_values(self.batch.column(self.batch.num_columns - len(_OWN_COLUMNS) + column), np.int64)

    def flagged(self, flag: int) -> Array:
        """Per key the end of its rows with a flag, which are its first."""
        before = np.concatenate(([0], np.cumsum((self.own(2) & flag) != 0)))
        first, end = self.bounds[:-1], self.bounds[1:]
        return first + before[end] - before[first]


class MatchRecognize(Operator[MatchRecognizeSpec]):
    """Emits a match as soon as no row can change it; the output is insert-only. Rows behind the watermark are
    dropped and counted.

    A match that waits for rows costs those that come, as long as it only goes on (see OpenRuns).
    State: `waiting`, the rows after the watermark. `rows`, per key those before it: from the first row at which a match can begin
    or has begun, and the `looks_back` before that one. With MATCH_NUMBER() the number of matches per key. Rows are
    forgotten when their start is decided, at the latest when WITHIN is over.
    """

    def __init__(self, spec: MatchRecognizeSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        evaluation = EvaluationContext.of(context.now_ms, context.config)
        self._matcher = Matcher(spec, schema, evaluation, lambda: context.pause_ms(0))
        self._rows_of_matches = MatchRows(spec, schema, context.output_schema, evaluation)
        self._input_schema = to_arrow_schema(schema)
        names = unique_names([*schema.names, *_OWN_COLUMNS])
        types = [*self._input_schema.types, *(pa.int64() for _ in _OWN_COLUMNS)]
        self._kept_schema = pa.schema(list(zip(names, types, strict=True)))
        scope, keys = context.state.scope, spec.partition_keys
        self._waiting = context.state.add(RowLog("waiting", self._input_schema, scope, keys))
        self._rows = context.state.add(KeyedRows("rows", self._kept_schema, keys, scope))
        self._number = NumberColumn("number", pa.int64())
        self._numbers = KeyedTable(
            "numbers", pa.schema([self._input_schema.field(k) for k in keys]), [self._number], scope
        )
        if spec.numbers_matches:
            context.state.add(self._numbers)
        self._watermark_ms = context.state.add(Broadcast("watermark_ms", WATERMARK_MIN, min))
        self._sequence = context.state.add(Broadcast("sequence", 0, max))
        # Derived: the last watermark at which a start waits, and the times that the output's watermark waits for.
        self._deadlines, self._holds = PendingStarts(), PendingStarts()
        # Derived too: where the matches stand that only wait for rows.
        self._open = OpenRuns(spec, self._matcher.conditions, self._rows)
        self._forwarded_ms = WATERMARK_MIN

    # -- time --------------------------------------------------------------------------------------

    @property
    def _is_event_time(self) -> bool:
        return self.spec.time_column >= 0

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if not self._is_event_time:
            now_ms = max(self.context.now_ms(), self._watermark_ms.value + 1)
            self._advance(batch, np.full(batch.num_rows, now_ms, dtype=np.int64), now_ms - 1, output)
            return
        times = times_ms(batch.column(self.spec.time_column))
        late = times <= self._watermark_ms.value
        if late.any():
            self.context.count(LATE, int(np.count_nonzero(late)))
            kept = np.flatnonzero(~late)
            batch, times = batch.take(to_array(pa.int64(), kept)), times[kept]
        if len(times):
            self._waiting.append(batch, np.ascontiguousarray(times), np.zeros(len(times), dtype=bool))

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        if not self._is_event_time:
            return watermark_ms
        if watermark_ms > self._watermark_ms.value:
            chunks = self._waiting.take_until(watermark_ms)
            batch = concat_batches([c.batch for c in chunks], self._input_schema)
            times = np.concatenate([c.times for c in chunks]) if chunks else np.empty(0, dtype=np.int64)
            self._advance(batch, times, watermark_ms, output, is_final=watermark_ms == WATERMARK_MAX)
        if not self.spec.holds_watermark or watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
            return watermark_ms
        # A match whose key did not hold the watermark when it was last forwarded ends with a row that came after.
        self._forwarded_ms = max(self._forwarded_ms, min(watermark_ms, self._holds.earliest - 1))
        return self._forwarded_ms

    def next_processing_time_ms(self) -> int | None:
        earliest = self._deadlines.earliest
        return None if self._is_event_time or earliest == WATERMARK_MAX else earliest + 1

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if not self._is_event_time and now_ms - 1 > self._watermark_ms.value:
            self._advance(self._none(), np.empty(0, dtype=np.int64), now_ms - 1, output)

    def on_finish(self, output: Output) -> None:
        if not self._is_event_time:
            last_ms = self._watermark_ms.value
            self._advance(self._none(), np.empty(0, dtype=np.int64), last_ms, output, is_final=True)

    def _none(self) -> pa.RecordBatch:
        return concat_batches([], self._input_schema)

    # -- matching ----------------------------------------------------------------------------------

    def _advance(
        self, batch: pa.RecordBatch, times: Array, watermark_ms: int, output: Output, is_final: bool = False
    ) -> None:
        """Match the rows of `batch`, which follow all rows that are kept, and the starts that the watermark decides."""
        self._watermark_ms.value = max(watermark_ms, self._watermark_ms.value)
        added = self._with_places(batch, times)
        due = self._rows.row_ids() if is_final else self._deadlines.until(watermark_ms)
        if not is_final:
            added = self._open.follow(added, watermark_ms, self._rows.slots_of(due))
        if added.num_rows == 0 and len(due) == 0:
            return
        rows = self._sorted(self._take_kept(added, due, is_final), added)
        inner = pa.RecordBatch.from_arrays(
            rows.batch.columns[: len(self._input_schema)], schema=self._input_schema
        )
        segments = Segments(inner, rows.bounds, rows.own(0), rows.flagged(_PAST), rows.flagged(_COVERED))
        emitter = _Emitter(self, segments, output)
        undecided = self._matcher.find(segments, watermark_ms, is_final, emitter.emit)
        emitter.finish()
        if not is_final:
            self._keep(rows, undecided)

    def _with_places(self, batch: pa.RecordBatch, times: Array) -> pa.RecordBatch:
        """The rows in order of time, with the own columns."""
        columns, count = batch.columns, len(times)
        if self.spec.order or (count and (np.diff(times) < 0).any()):
            order_columns = [batch.column(k.column) for k in self.spec.order]
            order = sort_indices([times], order_columns, self.spec.order)
            chosen = to_array(pa.int64(), order)
            columns, times = [c.take(chosen) for c in columns], times[order]
        places = np.arange(self._sequence.value, self._sequence.value + count)
        self._sequence.value += count
        own = [to_array(pa.int64(), a) for a in (times, places, np.zeros(count, dtype=np.int64))]
        return pa.RecordBatch.from_arrays([*columns, *own], schema=self._kept_schema)

    def _take_kept(self, added: pa.RecordBatch, due: Array, is_final: bool) -> pa.RecordBatch:
        """Remove and return the kept rows of the keys of `added` and of the starts `due`, in their order."""
        found = due if is_final else self._kept_ids(added, due)
        kept = self._rows.gather(found)
        self._open.forget(self._rows.slots_of(found))
        self._rows.remove(found)
        self._deadlines.remove(found)
        self._holds.remove(found)
        places = view_values(kept.column(len(self._input_schema) + 1), np.int64)
        return kept.take(to_array(pa.int64(), np.argsort(places)))

    def _kept_ids(self, added: pa.RecordBatch, due: Array) -> Array:
        both = pa.concat_batches([added, self._rows.gather(due)]) if len(due) else added
        keys = [both.column(k) for k in self.spec.partition_keys]
        _, first_rows = batch_groups(keys, both.num_rows)
        chosen = pa.array(first_rows)
        slots = self._rows.find([k.take(chosen) for k in keys], len(first_rows))
        return self._rows.match(slots[slots >= 0])[1]

    def _sorted(self, kept: pa.RecordBatch, added: pa.RecordBatch) -> _SortedRows:
        """By key, and within a key as they come: the kept rows, then those that were added."""
        both = pa.concat_batches([kept, added]) if kept.num_rows else added
        groups, first_rows = batch_groups([both.column(k) for k in self.spec.partition_keys], both.num_rows)
        if both.num_rows == 0:
            return _SortedRows(both, np.zeros(1, dtype=np.int64))
        order, bounds = argsort_stable_by(groups, len(first_rows))
        return _SortedRows(both.take(to_array(pa.int64(), order)), bounds)

    def _keep(self, rows: _SortedRows, undecided: Undecided) -> None:
        """Keep the rows from the starts on, and those that are looked back at from there."""
        starts, covered = undecided.starts, undecided.covered
        lengths = np.diff(rows.bounds)
        place = np.arange(rows.batch.num_rows)
        start_of, covered_of = np.repeat(starts, lengths), np.repeat(covered, lengths)
        is_kept = place >= start_of - self.spec.looks_back
        chosen = np.flatnonzero(is_kept)
        is_free = ~np.repeat(undecided.holds, lengths)
        flags = (place < start_of) * _PAST + (place < covered_of) * _COVERED + is_free * _FREE
        kept = rows.batch.take(to_array(pa.int64(), chosen))
        kept = kept.set_column(
            kept.num_columns - 1,
            self._kept_schema.field(kept.num_columns - 1),
            to_array(pa.int64(), flags[chosen].astype(np.int64)),
        )
        ids = self._rows.append(kept)
        is_pending = starts < rows.bounds[1:]
        before = np.cumsum(is_kept) - 1
        first = starts[is_pending]
        first_ids, times = ids[before[first]], rows.own(0)[first]
        self._wait(first_ids, times, undecided.holds[is_pending])
        reads = undecided.read_rows[is_pending]
        read_ids = np.where(reads >= 0, ids[before[reads]], -1)
        # A match is followed once it has all rows that its next one looks back at.
        match_lengths = (rows.bounds[1:] - starts)[is_pending]
        at = np.where(match_lengths >= self.spec.looks_back, undecided.waits_at[is_pending], -1)
        self._open.begin(at, read_ids, first_ids, times, match_lengths)

    def _wait(self, ids: Array, times: Array, holds: Array) -> None:
        if self.spec.within_ms:
            self._deadlines.set(ids, times + self.spec.within_ms - 1)
        if self.spec.holds_watermark:
            self._holds.set(ids[holds], times[holds])

    def on_restored(self) -> None:
        ids = self._rows.row_ids()
        kept = self._rows.gather(ids)
        width = len(self._input_schema)
        places, flags = (view_values(kept.column(width + i), np.int64) for i in (1, 2))
        order = np.argsort(places)
        order = order[(flags[order] & _PAST) == 0]
        first = kept.take(to_array(pa.int64(), order))
        _, first_rows = batch_groups([first.column(k) for k in self.spec.partition_keys], len(order))
        if len(order):
            found = order[first_rows]
            times = view_values(first.column(width), np.int64)[first_rows]
            self._wait(ids[found], times, (flags[found] & _FREE) == 0)

    # -- numbers of matches ------------------------------------------------------------------------

    def number_slots(self, segments: Segments) -> Array:
        """The slots of the keys in the table of numbers."""
        chosen = to_array(pa.int64(), segments.bounds[:-1])
        keys = [segments.batch.column(k).take(chosen) for k in self.spec.partition_keys]
        slots, _ = self._numbers.get_or_create(keys)
        self._numbers.writing(slots)
        return slots


class _Emitter:
    """Emits the matches of one run. State: the number of matches of each key."""

    def __init__(self, operator: MatchRecognize, segments: Segments, output: Output) -> None:
        self._operator = operator
        self._segments = segments
        self._output = output
        keys = len(segments.bounds) - 1
        self._slots = np.empty(0, dtype=np.int64)
        self._numbers = np.zeros(keys, dtype=np.int64)
        if operator.spec.numbers_matches and keys:
            self._slots = operator.number_slots(segments)
            self._numbers = operator._number.values[self._slots].copy()

    def emit(self, found: Found) -> None:
        is_match = found.records[:, 3] == MATCH
        keys = np.ascontiguousarray(found.records[is_match, 0])
        numbers = np.zeros(len(is_match), dtype=np.int64)
        if len(self._slots):
            ranks = np.empty(len(keys), dtype=np.int64)
            rank_within(ranks, keys, len(self._numbers))
            numbers[is_match] = self._numbers[keys] + ranks
            self._numbers += np.bincount(keys, minlength=len(self._numbers))
        self._output.emit(self._operator._rows_of_matches.build(self._segments, found, numbers))

    def finish(self) -> None:
        if len(self._slots):
            self._operator._number.values[self._slots] = self._numbers
