"""Top-N per key over rows that may be retracted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, signs_of, to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.rank import rank_within
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.order.ordering import sort_indices
from sqlstream.runtime.operators.rank.top_lists import KEYS_AT_ONCE, RankChanges
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.id_lists import NO_ROW
from sqlstream.runtime.state.tables.keyed_multiset import OrderedMultiset
from sqlstream.runtime.state.tables.row_multiset import Arrival
from sqlstream.specs.rank import RankSpec, Ties

_ARRIVALS = {Ties.ANY: Arrival.OF_ENTRY, Ties.LONGEST: Arrival.SINCE, Ties.LAST: Arrival.LAST}
_COPY_BITS = 16
"""An id in a list is `row slot << _COPY_BITS | copy`: equal rows share a slot and differ in `copy`."""


_MANY_ROWS = 4_096
"""A key with fewer rows reads them all."""
_ROWS_READ_FOR_A_PLACE = 50
"""How many rows of a key are read in the time in which one that comes or goes gets its place."""
_NEVER = -1


class RetractableRank(Operator[RankSpec]):
    """Keeps every row, because the next best row replaces a retracted one in the list of its key.

    The cost of a batch is its own rows and the lists of its keys. Only when a row of a full list is retracted, and no equally
    good row of the batch replaces it, are all rows of its key read, once per batch. A key of many rows to which this happens
    again after few changes gets its rows in order: then each later row costs a little more, and none reads all rows again.
    State: all rows with their counts, by key, and the list of ids of each key; not saved, the order of such keys. A row is
    forgotten when its count is zero, a key with its last row or `state_ttl_ms` after it last received one.
    """

    def __init__(self, spec: RankSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        if spec.rank_end >= 1 << _COPY_BITS:
            raise UserError(
                "SS3091", f"a Top-N over updating input keeps at most {(1 << _COPY_BITS) - 1} ranks"
            )
        schema = to_arrow_schema(context.input_schemas[0])
        self._table = context.state.add(
            OrderedMultiset(
                schema,
                spec.partition_keys,
                context.state.scope,
                spec.order,
                list_length=spec.rank_end,
                ttl_ms=spec.state_ttl_ms,
                arrival=_ARRIVALS[spec.ties],
                is_on_demand=True,
            )
        )
        # By key the number of rows that had come when all its rows were last read.
        self._last_read = GrowingArray(np.int64, fill=_NEVER)
        # Whether a key ever got its rows in order.
        self._has_order = False
        self._rows = self._table.rows
        self._changes = RankChanges(spec, context, self._table.key_groups_of)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        first_sequence = self._rows.next_sequence
        keys, row_slots = self._table.apply(batch)
        touched = np.unique(keys)
        self._table.writing(touched)
        self._keep_order(batch, keys, row_slots)
        before = self._table.lists.lists(touched)
        after = self._corrected(touched, before, keys, row_slots, first_sequence)
        self._table.lists.set(touched, after)
        width = max(before.shape[1], after.shape[1])
        self._changes.emit(touched, _widened(before, width), _widened(after, width), self, output)
        self._table.sweep(row_slots)

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self.on_hand_over(output)
        return watermark_ms

    def on_hand_over(self, output: Output) -> bool:
        self._changes.hand_over(self._table.key_slots, self._table.lists.lists, self, output)
        return True

    def on_restored(self) -> None:
        keys = self._table.key_slots()
        for first in range(0, len(keys), KEYS_AT_ONCE):
            part = keys[first : first + KEYS_AT_ONCE]
            self._table.lists.set(part, self._best(part))

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        """The rows of ids from a list."""
        return self._rows.take(row_ids >> _COPY_BITS)

    def _corrected(
        self, touched: Array, before: Array, keys: Array, row_slots: Array, first_sequence: int
    ) -> Array:
        """The new lists of these keys, from candidates where possible: the rows of `before` and of the batch.

        Every other row of a key ranks after the last row of its list, if that was full; otherwise there is no other row. So
        the candidates decide a list that was not full. They decide a full one if at least `rank_end` copies rank no later than
        its old last row. That row must not have gone and come again meanwhile, which puts it behind its peers. The other lists
        are computed from all rows of their keys.
        """
        listed = before != NO_ROW
        positions = np.concatenate([np.nonzero(listed)[0], np.searchsorted(touched, keys)])
        rows, first = np.unique(np.concatenate([before[listed] >> _COPY_BITS, row_slots]), return_index=True)
        by_age = self._by_age(rows)
        positions, rows, copies = self._sorted(positions[first][by_age], rows[by_age])
        is_decided = np.ones(len(touched), dtype=bool)
        if before.shape[1] == self.spec.rank_end:
            is_last = rows == before[positions, -1] >> _COPY_BITS
        else:
            is_last = np.zeros(len(rows), dtype=bool)
        totals = np.bincount(positions, weights=copies, minlength=len(touched)).astype(np.int64)
        up_to = np.cumsum(copies) - (np.cumsum(totals) - totals)[positions]
        is_decided[positions[is_last]] = up_to[is_last] >= self.spec.rank_end
        if self.spec.ties is Ties.LONGEST:
            is_decided[positions[is_last & (self._rows.sequence[rows] >= first_sequence)]] = False
        lists = self._listed(positions, rows, copies, len(touched))
        if not is_decided.all():
            best = self._best(touched[~is_decided])
            lists = _widened(lists, best.shape[1])
            lists[~is_decided] = _widened(best, lists.shape[1])
        return lists

    def _keep_order(self, batch: pa.RecordBatch, keys: Array, row_slots: Array) -> None:
        """Give and take the places of rows whose keys have their rows in order."""
        if not self._has_order:
            return
        chosen = np.flatnonzero(self._table.order.sizes(keys))
        signs = signs_of(row_kinds(batch))[chosen]
        rows, positions = np.unique(row_slots[chosen], return_inverse=True)
        after = self._rows.counts[rows]
        before = after - np.bincount(positions, weights=signs, minlength=len(rows)).astype(np.int64)
        self._table.enter(rows[(before <= 0) & (after > 0)])
        self._table.leave(rows[(before > 0) & (after <= 0)])

    def _best(self, touched: Array) -> Array:
        """The lists of these keys from all their rows, or from those in order."""
        sizes = self._table.order.sizes(touched)
        is_ordered = sizes > 0
        if not is_ordered.any():
            return self._best_of_all(touched)
        ends = np.minimum(sizes[is_ordered], self.spec.rank_end)
        positions, rows = self._table.order.between(touched[is_ordered], np.zeros_like(ends), ends)
        copies = np.clip(self._rows.counts[rows], 0, self.spec.rank_end)
        parts = [(is_ordered, self._listed(positions, rows, copies, len(ends)))]
        if not is_ordered.all():
            parts.append((~is_ordered, self._best_of_all(touched[~is_ordered])))
        lists = np.full((len(touched), max(p.shape[1] for _, p in parts)), NO_ROW, dtype=np.int64)
        for of_part, part in parts:
            lists[of_part, : part.shape[1]] = part
        return lists

    def _best_of_all(self, touched: Array) -> Array:
        positions, rows = self._table.match(touched)
        if self.spec.ties is Ties.ANY:
            self._arrange(touched, np.bincount(positions, minlength=len(touched)))
        is_there = self._rows.counts[rows] > 0
        positions, rows = positions[is_there], rows[is_there]
        if self.spec.ties is not Ties.ANY:
            by_age = self._by_age(rows)
            positions, rows = positions[by_age], rows[by_age]
        return self._listed(*self._sorted(positions, rows), len(touched))

    def _arrange(self, keys: Array, sizes: Array) -> None:
        """Get the rows of keys in order whose rows are read more often than it costs to keep them so."""
        self._last_read.reserve(int(keys.max()) + 1)
        last, now = self._last_read.values[keys], self._rows.next_sequence
        is_often = (sizes >= _MANY_ROWS) & (last != _NEVER) & ((now - last) * _ROWS_READ_FOR_A_PLACE <= sizes)
        if is_often.any():
            self._has_order = True
            self._table.arrange(keys[is_often])
        self._last_read.values[keys] = now

    def _by_age(self, rows: Array) -> Array:
        """The order in which rows of equal rank follow each other."""
        sequence = self._rows.sequence[rows]
        return np.argsort(-sequence if self.spec.ties is Ties.LAST else sequence, kind="stable")

    def _sorted(self, positions: Array, rows: Array) -> tuple[Array, Array, Array]:
        """(positions, rows, copies), sorted by position, then by rank; rows of equal rank keep the given order, by age.

        `copies` is how often a row may be in the list: its count, at most `rank_end`.
        """
        columns = self._rows.columns(rows, [key.column for key in self.spec.order])
        order = sort_indices([positions], columns, self.spec.order)
        rows = rows[order]
        return positions[order], rows, np.clip(self._rows.counts[rows], 0, self.spec.rank_end)

    def _listed(self, positions: Array, rows: Array, copies: Array, count: int) -> Array:
        """int64[count, longest list]: the first ids of each position, NO_ROW where there are fewer."""
        ids = np.repeat(rows << _COPY_BITS, copies)
        ids += np.arange(len(ids)) - np.repeat(np.cumsum(copies) - copies, copies)
        positions = np.repeat(positions, copies)
        ranks = np.empty(len(ids), dtype=np.int64)
        rank_within(ranks, positions, count)
        kept = ranks <= self.spec.rank_end
        lists = np.full((count, int(ranks[kept].max(initial=0))), NO_ROW, dtype=np.int64)
        lists[positions[kept], ranks[kept] - 1] = ids[kept]
        return lists


def _widened(lists: Array, width: int) -> Array:
    """The lists with NO_ROW in further columns, up to `width` of them."""
    missing = width - lists.shape[1]
    return lists if missing <= 0 else np.pad(lists, ((0, 0), (0, missing)), constant_values=NO_ROW)
