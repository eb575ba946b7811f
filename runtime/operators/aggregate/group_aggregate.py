"""GROUP BY over the whole stream, in one phase or two; the results are a changelog."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.aggregates.accumulator import NO_WEIGHTS
from runtime.aggregates.accumulator_set import (
    AccumulatorSet,
    partial_argument_types,
    row_argument_types,
)
from runtime.kernels.accumulate import add_into, count_into
from runtime.kernels.buffers import to_array, view_values
from runtime.operators.batch_groups import batch_groups
from runtime.operators.operator import Operator, OperatorContext, Output
from runtime.state.arrays import Array, first_slots
from runtime.state.broadcast import Broadcast
from runtime.state.keyed_table import KeyedTable
from runtime.state.slot_columns import NumberColumn
from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.specs.aggregate import AggregatePhase, GroupAggregateSpec


def make_group_aggregate(spec: GroupAggregateSpec, context: OperatorContext) -> Operator[GroupAggregateSpec]:
    """The operator for the spec's phase."""
    if spec.phase is AggregatePhase.LOCAL:
        return LocalGroupAggregate(spec, context)
    return GroupAggregate(spec, context)


def row_signs(batch: pa.RecordBatch) -> Array:
    """int8[n]: +1 for +I and +U, -1 for -U and -D; NO_WEIGHTS for an insert-only batch."""
    if not is_changelog(batch):
        return NO_WEIGHTS
    return np.where(is_accumulate(row_kinds(batch)), 1, -1).astype(np.int8)


class LocalGroupAggregate(Operator[GroupAggregateSpec]):
    """Emits one partial per key for each batch. No state."""

    def __init__(self, spec: GroupAggregateSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._types = row_argument_types(spec.aggregates, context.input_schemas[0])
        self._schema = to_arrow_schema(context.output_schema)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        keys = [batch.column(k) for k in self.spec.keys]
        groups, first_rows = batch_groups(keys, batch.num_rows)
        signs = row_signs(batch)
        accumulators = AccumulatorSet(self.spec.aggregates, self._types, is_retracting=False)
        accumulators.resize(len(first_rows))
        accumulators.accumulate(groups, batch, signs)
        chosen = pa.array(first_rows)
        columns = [key.take(chosen) for key in keys]
        if self.spec.is_retracting:
            counts = np.zeros(len(first_rows), dtype=np.int64)
            count_into(counts, groups, signs)
            columns.append(to_array(pa.int64(), counts))
        columns += accumulators.columns(first_slots(len(first_rows)))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))


class GroupAggregate(Operator[GroupAggregateSpec]):
    """Keeps one result row per key and emits its changes, at most one update per key and batch.

    State: one slot per key with its accumulators, dropped when the key's last row is retracted (retracting input), or
    `state_ttl_ms` after its last change; and, for the result without keys, whether any row ever arrived.
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

    # -- input -------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        keys = [batch.column(k) for k in self.spec.keys]
        if self._is_global and keys:
            # LOCAL sends one partial per key and batch.
            groups, first_rows = np.arange(batch.num_rows), np.arange(batch.num_rows)
        else:
            groups, first_rows = batch_groups(keys, batch.num_rows)
            chosen = pa.array(first_rows)
            keys = [key.take(chosen) for key in keys]
        slots, is_new = self._groups.get_or_create(keys)
        self._groups.writing(slots)
        before = self._results_before(slots)
        self._apply(batch, slots[groups])
        self._has_emitted.value = True
        self._emit(keys, slots, is_new, before, output)

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
        return self._accumulators.results(slots)

    def _emit(
        self, keys: list[pa.Array], slots: Array, is_new: Array, before: list[pa.Array], output: Output
    ) -> None:
        after = self._accumulators.results(slots)
        is_gone = np.zeros(len(slots), dtype=bool)
        if self.spec.is_retracting and self.spec.keys:
            is_gone = self._row_counts.values[slots] <= 0
        match self.context.output_mode:
            case ChangelogMode.INSERT_ONLY:
                self._emit_new(keys, after, np.flatnonzero(is_new), output)
            case ChangelogMode.UPSERT:
                kinds = np.where(is_new, RowKind.INSERT, RowKind.UPDATE_AFTER).astype(np.int8)
                kinds[is_gone] = RowKind.DELETE
                rows = np.flatnonzero(~(is_new & is_gone))
                self._emit_rows([*keys, *after], rows, kinds[rows], output)
            case ChangelogMode.RETRACT:
                self._emit_pairs(keys, is_new, is_gone, before, after, output)
        if is_gone.any():
            self._groups.forget(slots[is_gone])

    def _emit_new(self, keys: list[pa.Array], results: list[pa.Array], rows: Array, output: Output) -> None:
        if len(rows):
            chosen = pa.array(rows)
            columns = [column.take(chosen) for column in (*keys, *results)]
            output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _emit_rows(self, columns: list[pa.Array], rows: Array, kinds: Array, output: Output) -> None:
        if len(rows) == 0:
            return
        if len(rows) < len(columns[0]):
            chosen = pa.array(rows)
            columns = [column.take(chosen) for column in columns]
        output.emit(pa.RecordBatch.from_arrays([*columns, to_array(pa.int8(), kinds)], schema=self._schema))

    def _emit_pairs(
        self,
        keys: list[pa.Array],
        is_new: Array,
        is_gone: Array,
        before: list[pa.Array],
        after: list[pa.Array],
        output: Output,
    ) -> None:
        """Emit -U directly before its +U, keys in order of first appearance; an unchanged result emits nothing."""
        rows = len(is_new)
        is_changed = ~is_new & ~is_gone & ~_equal_rows(before, after, rows)
        is_retracted = is_changed | (is_gone & ~is_new)
        is_emitted = is_changed | (is_new & ~is_gone)
        # Candidates 2 * i (the old result of row i) and 2 * i + 1 (the new one) keep a -U next to its +U.
        picked = np.column_stack([is_retracted, is_emitted]).ravel()
        row_of = np.repeat(np.arange(rows), 2)[picked]
        is_after = np.tile(np.array([False, True]), rows)[picked]
        kinds = np.where(is_after, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE).astype(np.int8)
        kinds[is_after & is_new[row_of]] = RowKind.INSERT
        kinds[~is_after & is_gone[row_of]] = RowKind.DELETE
        if len(kinds) == 0:
            return
        key_rows = pa.array(row_of)
        value_rows = pa.array(row_of + np.where(is_after, rows, 0))
        columns = [key.take(key_rows) for key in keys]
        columns += [pa.concat_arrays([b, a]).take(value_rows) for b, a in zip(before, after, strict=True)]
        output.emit(pa.RecordBatch.from_arrays([*columns, to_array(pa.int8(), kinds)], schema=self._schema))

    def on_finish(self, output: Output) -> None:
        if self.spec.keys or self._has_emitted.value or self.context.subtask != 0:
            return
        # No row ever arrived: the aggregate of no rows is still a result.
        slots, is_new = self._groups.get_or_create([])
        self._emit([], slots, is_new, self._results_before(slots), output)


def _equal_rows(before: list[pa.Array], after: list[pa.Array], rows: int) -> Array:
    """bool[n]: rows in which all columns are the same, NULL being equal to NULL."""
    equal = np.ones(rows, dtype=bool)
    for old, new in zip(before, after, strict=True):
        if pa.types.is_null(old.type):
            continue
        if pa.types.is_nested(old.type):
            return np.zeros(rows, dtype=bool)
        same = pc.fill_null(pc.equal(old, new), False)
        both_null = pc.and_(pc.is_null(old), pc.is_null(new))
        equal &= pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return equal
