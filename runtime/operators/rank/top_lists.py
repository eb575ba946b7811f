"""Enters the rows of a batch into the lists of their keys, best first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.rank import rank_within
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.operator import OperatorContext
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
