"""The rows that a changelog leaves, by key, in order."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.expressions import SortKey
from sqlstream.runtime.kernels.row_order import RowOrder
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.row_multiset import Arrival


class OrderedMultiset(KeyedMultiset):
    """A KeyedMultiset whose rows have places under their keys: by `order`, then by arrival.

    A row has a place from `enter` until `leave`, or until its key is forgotten: the operator calls them as the count of the row
    comes above zero and falls to it. With `is_on_demand` it may leave out keys, for the rows of which `arrange` makes up.
    State: as of KeyedMultiset, and a tree per key, which is made again from the rows and not saved.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        keys: tuple[int, ...],
        scope: StateScope,
        order: Sequence[SortKey],
        *,
        list_length: int,
        ttl_ms: int = 0,
        arrival: Arrival = Arrival.OF_ENTRY,
        is_on_demand: bool = False,
    ) -> None:
        super().__init__(name, schema, keys, scope, list_length=list_length, ttl_ms=ttl_ms, arrival=arrival)
        self._is_on_demand = is_on_demand
        self.order = RowOrder(self.rows.index, [(k.column, k.is_descending, k.is_nulls_first) for k in order])

    def enter(self, row_slots: Array) -> None:
        """Give places to rows that have none."""
        self.order.insert(self.keys_of(row_slots), row_slots, self.rows.sequence)

    def leave(self, row_slots: Array) -> None:
        """Take the places of rows."""
        self.order.remove(self.keys_of(row_slots), row_slots)

    def arrange(self, keys: Array) -> None:
        """Give places to all rows of keys of which none has one."""
        _, rows = self.match(keys)
        self.enter(rows[self.rows.counts[rows] > 0])

    def load(self, saved: SavedTables) -> None:
        super().load(saved)
        if not self._is_on_demand:
            self.arrange(self.key_slots())

    def nbytes(self) -> int:
        return super().nbytes() + self.order.nbytes

    def _delete(self, keys: Array) -> None:
        self.order.clear(keys)
        super()._delete(keys)
