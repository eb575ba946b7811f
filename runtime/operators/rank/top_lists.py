"""The best rows of each key, and the changes that they make to a result."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.rank import missing_in_row, rank_changes_into, rank_within
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.operator import OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import are_numbers, sort_indices, sort_keys
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore
from sqlstream.runtime.state.storage.id_lists import NO_ROW, IdLists
from sqlstream.runtime.state.tables.row_lists import RowLists
from sqlstream.specs.rank import RankSpec


def has_sort_keys(spec: RankSpec, context: OperatorContext) -> bool:
    """Whether rows are compared by sort keys, as long as no value of them has that of NULL."""
    return len(spec.order) > 0 and are_numbers(spec.order, context.input_schemas[0].types)


def key_width(spec: RankSpec, context: OperatorContext) -> int:
    """The `width` of the lists for this spec."""
    return len(spec.order) if has_sort_keys(spec, context) else 1


class TopLists:
    """The best rows of each slot by the spec's order; of equal rows the older one is better.

    State: the caller's `lists`; whether their sort keys are kept, which compare rows faster than their columns."""

    def __init__(self, spec: RankSpec, context: OperatorContext, lists: IdLists) -> None:
        self.lists = lists
        self._order = spec.order
        self._types = context.input_schemas[0].types
        self._has_sort_keys = has_sort_keys(spec, context)

    def insert(
        self, batch: pa.RecordBatch | DeferredRows, slots: Array, first_row: int, store: RowStore | None
    ) -> None:
        """Enter row i of the batch as id `first_row + i`; `store` has the rows that are in the lists."""
        if self._has_sort_keys:
            keys = self._sort_keys([batch.column(key.column) for key in self._order])
            if keys is not None:
                self.lists.insert(slots, keys, first_row)
                return
            # The sort key of such a value is that of NULL: from here on rows are compared by their columns.
            self._has_sort_keys = False
        self._insert_sorted(batch, slots, first_row, store)

    def rebuild_sort_keys(self, state: RowLists) -> None:
        """Compute the sort keys of all rows in the lists."""
        if not self._has_sort_keys:
            return
        slots = state.live_slots()
        lists = self.lists.lists(slots)
        columns = [key.column for key in self._order]
        keys = self._sort_keys(state.rows.columns(lists[lists != NO_ROW], columns))
        if keys is None:
            self._has_sort_keys = False
        else:
            self.lists.set_sort_keys(slots, keys)

    def _sort_keys(self, columns: list[pa.Array]) -> Array | None:
        return sort_keys(columns, self._order, self._types)

    def _insert_sorted(
        self, batch: pa.RecordBatch | DeferredRows, slots: Array, first_row: int, store: RowStore | None
    ) -> None:
        """For any ORDER BY: sort the rows of the touched lists and the new rows in one go."""
        lists = self.lists
        touched = np.unique(slots)
        held = lists.lists(touched)
        present = held != NO_ROW
        ids = np.concatenate([held[present], first_row + np.arange(batch.num_rows)])
        owners = np.concatenate([np.repeat(touched, present.sum(axis=1)), slots])
        columns = self._order_columns(batch, held[present], store)
        order = sort_indices([owners], columns, self._order)
        owners, ids = owners[order], ids[order]
        positions = np.searchsorted(touched, owners)
        ranks = np.empty(len(owners), dtype=np.int64)
        rank_within(ranks, positions, len(touched))
        kept = ranks <= lists.size
        best = np.full((len(touched), int(ranks[kept].max(initial=0))), NO_ROW, dtype=np.int64)
        best[positions[kept], ranks[kept] - 1] = ids[kept]
        lists.set(touched, best)

    def _order_columns(
        self, batch: pa.RecordBatch | DeferredRows, held: Array, store: RowStore | None
    ) -> list[pa.Array]:
        # Rows of the lists come first, so that the stable sort ranks the older of equal rows first.
        numbers = [key.column for key in self._order]
        fresh = [batch.column(number) for number in numbers]
        if store is None or len(held) == 0:
            return fresh
        return [
            pa.concat_arrays([old, new]) for old, new in zip(store.columns(held, numbers), fresh, strict=True)
        ]


_WIDTH_MAX = 1_024
"""Of longer lists, those that were replaced as a whole are found more quickly by sorting."""


class Rows(Protocol):
    """Looks rows up by id."""

    def gather(self, row_ids: Array) -> pa.RecordBatch: ...


class RankChanges:
    """Compares lists of row ids, int64[keys, at most rank_end], best first, NO_ROW where a list ends."""

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        self._spec = spec
        self._mode = context.output_mode
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)

    def emit(self, before: Array, after: Array, rows: Rows, output: Output) -> None:
        """Emit the changes of the ranks from rank_start to rank_end. `rows` must still hold the rows of `before`."""
        ids, ranks, kinds = (
            self._by_rank(before, after) if self._spec.outputs_rank else self._by_row(before, after)
        )
        if len(ids) == 0:
            return
        columns = list(rows.gather(ids).columns)
        if self._spec.outputs_rank:
            columns.append(to_array(pa.int64(), ranks))
        if self._mode is not ChangelogMode.INSERT_ONLY:
            columns.append(to_array(pa.int8(), kinds))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _by_rank(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per rank: -U then +U where its row is replaced, +I where the rank is new, -D where it no longer exists."""
        first = self._spec.rank_start - 1
        most = 2 * before.shape[0] * max(0, before.shape[1] - first)
        ids, ranks = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
        kinds = np.empty(most, dtype=np.int8)
        keeps_updates_before = self._mode is not ChangelogMode.UPSERT
        count = rank_changes_into(before, after, first, keeps_updates_before, ids, ranks, kinds)
        return ids[:count], ranks[:count], kinds[:count]

    def _by_row(self, before: Array, after: Array) -> tuple[Array, Array, Array]:
        """Per row: -D where it leaves the list, +I where it enters it; a row that only changes its rank is not emitted."""
        shown = slice(self._spec.rank_start - 1, self._spec.rank_end)
        before, after = np.ascontiguousarray(before[:, shown]), np.ascontiguousarray(after[:, shown])
        leaving, entering = before[_missing(before, after)], after[_missing(after, before)]
        ids = np.concatenate([leaving, entering])
        kinds = np.full(len(ids), RowKind.INSERT, dtype=np.int8)
        kinds[: len(leaving)] = RowKind.DELETE
        return ids, ids, kinds


def _missing(items: Array, others: Array) -> Array:
    """bool, shaped as `items`: whether there is an id that is not in the same row of `others`."""
    if items.shape[1] > _WIDTH_MAX:
        # An id belongs to one key.
        return (items != NO_ROW) & ~np.isin(items, others)
    is_missing = np.empty(items.shape, dtype=bool)
    missing_in_row(items, others, NO_ROW, is_missing)
    return is_missing
