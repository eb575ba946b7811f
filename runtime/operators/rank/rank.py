"""Top-N per key: the rows whose ROW_NUMBER() lies between two ranks, updated with each batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.kernels.rank import distinct_into
from sqlstream.runtime.kernels.take import ascending
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.rank.retractable_rank import RetractableRank
from sqlstream.runtime.operators.rank.top_lists import RankChanges, RowLists, TopLists, key_width
from sqlstream.runtime.state.storage.arrays import Array, grown
from sqlstream.runtime.state.storage.id_lists import NO_ROW, IdLists
from sqlstream.specs.rank import RankPhase, RankSpec


def make_rank(spec: RankSpec, context: OperatorContext) -> Operator[RankSpec]:
    """The operator for the spec's phase and for insert-only or retracting input."""
    if spec.phase is RankPhase.LOCAL:
        return LocalRank(spec, context)
    return RetractableRank(spec, context) if spec.is_retracting else AppendRank(spec, context)


class LocalRank(Operator[RankSpec]):
    """Drops the rows of a batch that rank after `rank_end` rows of the same key and batch. No state.

    In the task of the GLOBAL phase it passes batches on: that phase drops such rows by one comparison, and to find and copy the
    others here took a sixth of Nexmark's q19. Columns of deferred rows are not built for rows that are dropped."""

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        rows = None if self.context.feeds_global_phase else self._best(batch)
        if rows is None:
            output.emit(batch)
        else:
            output.emit_rows(batch, rows)

    def on_deferred(self, rows: DeferredRows, output: Output) -> None:
        rows.columns([*self.spec.partition_keys, *(key.column for key in self.spec.order)])
        best = self._best(rows)
        output.emit_deferred(rows if best is None else rows.chosen(best))

    def _best(self, batch: pa.RecordBatch | DeferredRows) -> Array | None:
        """int32: the rows that are kept, ascending; None: all."""
        groups, first_rows = batch_groups([batch.column(k) for k in self.spec.partition_keys], batch.num_rows)
        if len(first_rows) == batch.num_rows:
            return None
        rows = self._best_of(batch, groups, len(first_rows))
        return None if len(rows) == batch.num_rows else ascending(rows, batch.num_rows)

    def _best_of(self, batch: pa.RecordBatch | DeferredRows, groups: Array, count: int) -> Array:
        lists = IdLists(self.spec.rank_end, key_width(self.spec, self.context))
        lists.resize(count)
        TopLists(self.spec, self.context, lists).insert(batch, groups, 0, None)
        kept = lists.lists(np.arange(count))
        return kept[kept != NO_ROW]


class AppendRank(Operator[RankSpec]):
    """Top-N over insert-only rows. State: the best `rank_end` rows per key, dropped `state_ttl_ms` after the key's last row."""

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        schema, scope = to_arrow_schema(context.input_schemas[0]), context.state.scope
        self._state = context.state.add(
            RowLists(
                "rows",
                schema,
                spec.partition_keys,
                spec.rank_end,
                spec.state_ttl_ms,
                scope,
                key_width(spec, context),
            )
        )
        self._top = TopLists(spec, context, self._state.lists)
        self._changes = RankChanges(spec, context, self._state.key_groups_of)
        self._marks: Array = np.empty(0, dtype=np.uint8)

    def on_restored(self) -> None:
        self._top.rebuild_sort_keys(self._state)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        state = self._state
        slots = state.slots_of(batch)
        touched = self._distinct(slots)
        state.writing(touched)
        before = state.lists.lists(touched)
        # Rows of the batch get ids beyond all stored ones; rows that remain in a list are stored and get their stored ids.
        first_row = state.rows.id_count
        self._top.insert(batch, slots, first_row, state.rows)
        after = state.lists.lists(touched)
        if np.array_equal(before, after):
            return
        # No list has become shorter.
        before = np.pad(before, ((0, 0), (0, after.shape[1] - before.shape[1])), constant_values=NO_ROW)
        after = state.enter(batch, touched, after, first_row)
        self._changes.emit(touched, before, after, state.rows, output)
        state.drop_removed(before, after)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self.on_hand_over(output)
        return watermark_ms

    def on_hand_over(self, output: Output) -> bool:
        state = self._state
        self._changes.hand_over(state.live_slots, state.lists.lists, state.rows, output)
        return True

    def _distinct(self, slots: Array) -> Array:
        self._marks = grown(self._marks, self._state.lists.slot_count)
        distinct = np.empty(len(slots), dtype=np.int64)
        return distinct[: distinct_into(self._marks, slots, distinct)]
