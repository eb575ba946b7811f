"""GROUP BY over the whole stream, in one phase or two; the results are a changelog."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream import config as options
from sqlstream.arrow import is_changelog, row_kinds, signs_of, to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.graph.latency_choice import hold_ms
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.aggregates.accumulator_set import (
    AccumulatorSet,
    partial_argument_types,
    row_argument_types,
)
from sqlstream.runtime.kernels.accumulate import add_into, count_into
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.aggregate.result_changes import result_changes
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.equal_values import batch_groups, key_groups
from sqlstream.runtime.operators.held_rows import HoldingOperator
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.broadcast import Broadcast
from sqlstream.runtime.state.handed_over import HandedOver
from sqlstream.runtime.state.operator_state import SavesNothing
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array, first_slots, picked
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.aggregate import AggregatePhase, GroupAggregateSpec
from sqlstream.types import LogicalType

_ROWS_MIN = 32_768
"""So many partials are emitted at once, or as many as a source puts in a batch where these are fewer."""
_BYTES_MIN = 8 << 20


def make_group_aggregate(spec: GroupAggregateSpec, context: OperatorContext) -> Operator[GroupAggregateSpec]:
    """The operator for the spec's phase."""
    if spec.phase is AggregatePhase.LOCAL:
        return LocalGroupAggregate(spec, context)
    return GroupAggregate(spec, context)


def arguments_read(spec: GroupAggregateSpec) -> list[int]:
    """The columns of the input that arguments and filters are."""
    return sorted({a for call in spec.aggregates for a in (*call.args, call.filter)} - {-1})


def row_signs(batch: pa.RecordBatch | DeferredRows) -> Array:
    """int8[n]: +1 for +I and +U, -1 for -U and -D; NO_WEIGHTS for an insert-only batch."""
    if not is_changelog(batch):
        return NO_WEIGHTS
    return signs_of(row_kinds(batch)).astype(np.int8)


def _first(keys: list[pa.Array], first_rows: Array) -> list[pa.Array]:
    """The keys of these rows, which are ascending."""
    if keys and len(first_rows) == len(keys[0]):
        return keys
    chosen = pa.array(first_rows)
    return [key.take(chosen) for key in keys]


class HeldPartials(SavesNothing):
    """The partials of some batches, to be emitted as one: each is a slot of one set of accumulators. Implements `StateTable`: its
    bytes count, but nothing of it is saved, as the operator's `flush` comes before a snapshot.

    State: the keys and accumulators, until `take`."""

    name = "held"

    def __init__(self, spec: GroupAggregateSpec, types: tuple[tuple[LogicalType, ...], ...]) -> None:
        self._spec = spec
        self._types = types
        self._empty()

    def _empty(self) -> None:
        self.rows = 0
        self._keys: list[list[pa.Array]] = []
        self._key_bytes = 0
        self._accumulators: AccumulatorSet | None = None
        self._row_counts = GrowingArray(np.int64)

    def append(
        self, batch: pa.RecordBatch | DeferredRows, groups: Array, keys: list[pa.Array], count: int
    ) -> None:
        """Add the partials of the groups of a batch, `count` of them; `groups` (that of each row) become their slots."""
        first, self.rows = self.rows, self.rows + count
        if self._accumulators is None:
            # One for several batches: where a batch has evicted it from the caches, the code that makes one takes 0.1 ms.
            self._accumulators = AccumulatorSet(self._spec.aggregates, self._types, is_retracting=False)
        self._accumulators.resize(self.rows)
        # Groups are nobody else's, and fresh memory of this size is not in the caches.
        slots, signs = np.add(groups, first, out=groups), row_signs(batch)
        self._accumulators.accumulate(slots, batch, signs)
        if self._spec.is_retracting:
            self._row_counts.reserve(self.rows)
            count_into(self._row_counts.values, slots, signs)
        self._keys.append(keys)
        # What a key keeps in memory, which may be more than its own rows.
        self._key_bytes += sum(key.get_total_buffer_size() for key in keys)

    def take(self) -> list[pa.Array]:
        """The columns of all partials, of which there are some; nothing is held then."""
        assert self._accumulators is not None
        slots = first_slots(self.rows)
        columns = [
            parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            for parts in zip(*self._keys, strict=True)
        ]
        if self._spec.is_retracting:
            columns.append(to_array(pa.int64(), picked(self._row_counts.values, slots)))
        columns += self._accumulators.columns(slots)
        self._empty()
        return columns

    def save_later(self) -> Callable[[], SavedTables]:
        assert not self.rows
        return super().save_later()

    def nbytes(self) -> int:
        accumulators = 0 if self._accumulators is None else self._accumulators.nbytes()
        return self._key_bytes + self._row_counts.nbytes + accumulators


class LocalGroupAggregate(HoldingOperator[GroupAggregateSpec]):
    """Turns each batch into one partial per key.

    Few partials are held and emitted as one batch, because what GLOBAL and an exchange cost is mostly per batch: for at most
    `hold_ms` while the task has other work, and not at all otherwise.
    State: the held partials, which are emitted before any watermark, at the end, and by `flush`.
    """

    def __init__(self, spec: GroupAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._arguments = arguments_read(spec)
        types = row_argument_types(spec.aggregates, context.input_schemas[0])
        self._held = context.state.add(HeldPartials(spec, types))
        self._held_since_ms = 0
        self._hold_ms = hold_ms(context.config)
        self._rows_min = min(_ROWS_MIN, options.get(context.config, "execution.batch-rows"))

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        self._aggregate(batch, output)

    def on_deferred(self, rows: DeferredRows, output: Output) -> None:
        self._aggregate(rows, output)

    def _aggregate(self, batch: pa.RecordBatch | DeferredRows, output: Output) -> None:
        groups, first_rows, keys = key_groups(batch, self.spec.keys, self._arguments)
        if not self._held.rows:
            self._held_since_ms = self.context.now_ms()
        self._held.append(batch, groups, keys, len(first_rows))
        if self._held.rows >= self._rows_min or self._held.nbytes() >= _BYTES_MIN:
            self.flush(output)

    def flush(self, output: Output) -> None:
        if self._held.rows:
            output.emit(pa.RecordBatch.from_arrays(self._held.take(), schema=self._schema))

    def next_processing_time_ms(self) -> int | None:
        return self._held_since_ms + self._hold_ms if self._held.rows else None


class GroupAggregate(Operator[GroupAggregateSpec]):
    """Keeps one result row per key and emits its changes, at most one update per key and batch. With `holds_history` none is
    emitted before the histories of the statement have ended, and that of each key then.

    State: one slot per key with its accumulators, dropped when the key's last row is retracted (retracting input), or
    `state_ttl_ms` after its last change; and, for the result without keys, whether any row ever arrived; with `holds_history`
    the key groups whose results have been emitted.
    """

    def __init__(self, spec: GroupAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema = context.input_schemas[0]
        self._is_global = spec.phase is AggregatePhase.GLOBAL
        first = len(spec.keys) + (1 if spec.is_retracting else 0)
        if self._is_global:
            types = partial_argument_types(spec.aggregates, schema, first)
        else:
            types = row_argument_types(spec.aggregates, schema)
        self._first_accumulator = first
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        fields = list(self._schema)
        keys, names = fields[: len(spec.keys)], [field.name for field in fields[len(spec.keys) :]]
        calls = len(spec.aggregates)
        self._accumulators = AccumulatorSet(spec.aggregates, types, spec.is_retracting, names[:calls])
        self._row_counts = NumberColumn("row_count", pa.int64())
        self._groups = context.state.add(
            KeyedTable(
                "groups",
                pa.schema(keys),
                [self._accumulators, *([self._row_counts] if spec.is_retracting else [])],
                context.state.scope,
                ttl_ms=spec.state_ttl_ms,
                parts=self._accumulators.parts,
            )
        )
        # Whether any row ever arrived.
        self._has_emitted = Broadcast("has_emitted", False, any)
        if not spec.keys:
            context.state.add(self._has_emitted)
        self._handed_over = HandedOver(context.state.scope, context.parallelism, holds=spec.holds_history)
        if spec.holds_history:
            context.state.add(self._handed_over)

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._is_global and self.spec.keys:
            keys = [batch.column(k) for k in self.spec.keys]
            # Few keys are in several partials: to look all of them up takes less than to group them before.
            slots, is_new = self._groups.get_or_create(keys)
            groups, first_rows = batch_groups([to_array(pa.int64(), slots)], batch.num_rows)
            slots, is_new, keys = slots[first_rows], is_new[first_rows], _first(keys, first_rows)
        else:
            groups, _, keys = key_groups(batch, self.spec.keys)
            slots, is_new = self._groups.get_or_create(keys)
        self._groups.writing(slots)
        if not self._handed_over.is_complete:
            self._hold(batch, keys, slots, is_new, groups, output)
            return
        before = self._results_before(slots)
        self._apply(batch, slots[groups])
        self._has_emitted.value = True
        self._emit(keys, slots, is_new, before, output)

    def _hold(
        self,
        batch: pa.RecordBatch,
        keys: list[pa.Array],
        slots: Array,
        is_new: Array,
        groups: Array,
        output: Output,
    ) -> None:
        """Nothing is emitted, but for what has been before a restore."""
        is_emitted = self._handed_over.of(self._groups.key_groups(slots))
        rows = np.flatnonzero(is_emitted)
        before = self._results_before(slots[rows])
        self._apply(batch, slots[groups])
        self._has_emitted.value = True
        held = slots[~is_emitted]
        if len(rows):
            chosen = pa.array(rows)
            self._emit([key.take(chosen) for key in keys], slots[rows], is_new[rows], before, output)
        self._forget(held, self._are_gone(held))

    def _apply(self, batch: pa.RecordBatch, slots: Array) -> None:
        if self._is_global:
            self._accumulators.merge(slots, batch.columns[self._first_accumulator :])
            if self.spec.is_retracting:
                counts = view_values(batch.column(self._first_accumulator - 1), np.int64)
                add_into(self._row_counts.values, slots, counts)
            return
        signs = row_signs(batch)
        self._accumulators.accumulate(slots, batch, signs)
        if self.spec.is_retracting:
            count_into(self._row_counts.values, slots, signs)

    # -- output ------------------------------------------------------------------------------------

    def _results_before(self, slots: Array) -> list[pa.Array]:
        """The results that were emitted last, for a -U or -D that repeats them; empty unless the output mode is RETRACT."""
        if self.context.output_mode is not ChangelogMode.RETRACT:
            return []
        return self._accumulators.results(slots, are_new=False)

    def _emit(
        self, keys: list[pa.Array], slots: Array, is_new: Array, before: list[pa.Array], output: Output
    ) -> None:
        after = self._accumulators.results(slots)
        is_gone = self._are_gone(slots)
        changes = result_changes(self.context.output_mode, is_new, is_gone, before, after)
        if len(changes.rows):
            if len(changes.rows) < len(slots) or changes.is_paired:
                chosen = pa.array(changes.rows)
                keys = [key.take(chosen) for key in keys]
            columns = [*keys, *changes.results, *changes.kinds]
            output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._forget(slots, is_gone)

    def _are_gone(self, slots: Array) -> Array:
        if self.spec.is_retracting and self.spec.keys:
            is_gone: Array = self._row_counts.values[slots] <= 0
            return is_gone
        return np.zeros(len(slots), dtype=bool)

    def _forget(self, slots: Array, is_gone: Array) -> None:
        if is_gone.any():
            self._groups.forget(slots[is_gone])

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self.on_hand_over(output)
        return watermark_ms

    def on_hand_over(self, output: Output) -> bool:
        groups = self._groups
        for slots in self._handed_over.take_held(groups.slots, groups.key_groups, _ROWS_MIN):
            is_new = np.ones(len(slots), dtype=bool)
            self._emit(groups.keys(slots), slots, is_new, self._results_before(slots), output)
        return True

    def on_finish(self, output: Output) -> None:
        if self.spec.keys or self._has_emitted.value or self.context.subtask != 0:
            return
        # No row ever arrived: the aggregate of no rows is still a result.
        slots, is_new = self._groups.get_or_create([])
        self._emit([], slots, is_new, self._results_before(slots), output)
