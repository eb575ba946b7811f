"""Sets of values per slot, with which DISTINCT knows the rows that repeat a value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.errors import InternalError
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.words import (
    WordColumn,
    array_from_words,
    is_bytes_type,
    plain_array,
    plain_type,
    read_column,
    word_count,
)
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.kernels.slots.value_marks import USERS_MAX, ValueMarks, add_bit, bit_weights
from sqlstream.runtime.state.snapshots.changes import Changes
from sqlstream.runtime.state.snapshots.collection import TableLock
from sqlstream.runtime.state.storage.arrays import Array


class ValueSets:
    """Sets of values per slot, one for each of `users`, of which no value is taken out: rows are never retracted.

    What `ValueCounts` keeps for them with a quarter of the memory and time: a bit a user in the place of a count, as Flink's
    DistinctAggCodeGen does. Saved as `ValueCounts` are, with counts of 0 and 1; counts that are restored are 1 from then on.
    State: the values with their bits by slot; once values of a slot were dropped, a chain of its entries per slot.
    """

    @staticmethod
    def can_hold(value_type: pa.DataType, users: int) -> bool:
        """Values of one word each; a row of words takes `ValueCounts`."""
        if pa.types.is_struct(value_type) or users > USERS_MAX:
            return False
        plain = plain_type(value_type)
        return word_count(plain) == 1 and not is_bytes_type(plain)

    def __init__(self, value_type: pa.DataType, users: int = 1) -> None:
        self.value_type = plain_type(value_type)
        self._users = users
        self._values = ValueMarks()
        self._chains: Chains | None = None
        self.changes = Changes(self)
        self._key_groups: Callable[[Array], Array] = lambda slots: np.zeros(len(slots), dtype=np.int32)

    def add_each(self, slots: Array, values: pa.Array, weights: list[Array]) -> list[Array]:
        """Add the values of rows: `weights` (empty: all of them) is 1 where a user takes part, and no value is NULL there.

        Returns int8[n] for each user: 1 for the row that has brought a value."""
        marks = self._marks_of(len(slots), weights)
        column = read_column(plain_array(values))
        assert isinstance(column, WordColumn)
        with self.changes.lock:
            if self.changes.is_counting:
                self.changes.writing(np.unique(self._values.find_changing(slots, column.words, marks)))
            fresh = self._mark(slots, column.words, marks)
        brought = [np.empty(len(slots), dtype=np.int8) for _ in weights]
        for user, rows in enumerate(brought):
            bit_weights(fresh, 1 << user, rows)
        return brought

    @staticmethod
    def _marks_of(rows: int, weights: list[Array]) -> Array:
        everyone = sum(1 << user for user, w in enumerate(weights) if not len(w))
        marks = np.full(rows, everyone, dtype=np.uint32)
        for user, w in enumerate(weights):
            if len(w) and add_bit(marks, w, 1 << user):
                raise InternalError("a row of an insert-only aggregation is retracted")
        return marks

    def _mark(self, slots: Array, words: Array, marks: Array) -> Array:
        fresh, entered = self._values.mark(slots, words, marks)
        self.changes.created(entered)
        if self._chains is not None:
            self._chains.append(self._values.slots(entered), entered)
        return fresh

    def drop(self, slots: Array) -> None:
        """Forget all values of distinct slots."""
        with self.changes.lock:
            if self._chains is None:
                # Made when it is first needed: without a time to live it never is.
                self._chains = Chains()
                live = self._values.live()
                self._chains.append(self._values.slots(live), live)
            entries = self._chains.match(slots)[1]
            if len(entries):
                self.changes.forgetting(entries)
                self._values.delete(entries)
                self._chains.remove(entries)

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """Take over saved columns, of which the first are the values of `slots`; the entries of several old subtasks may come in
        several calls."""
        values, *counts = columns
        column = read_column(plain_array(values))
        assert isinstance(column, WordColumn)
        weights = [(view_values(c, np.int64) > 0).view(np.int8) for c in counts]
        self._mark(slots, column.words, self._marks_of(len(slots), weights))

    def nbytes(self) -> int:
        chains = 0 if self._chains is None else self._chains.nbytes
        return self._values.nbytes + chains + self.changes.nbytes

    # -- what a keyed table and its changes read: implements `SlotPart` and `ChangeSource` --------------

    def belong_to(self, lock: TableLock, key_groups: Callable[[Array], Array]) -> None:
        self.changes.lock, self._key_groups = lock, key_groups

    @property
    def slot_count(self) -> int:
        return self._values.entry_count

    @property
    def row_count(self) -> int:
        return len(self._values)

    def is_live(self, slots: Array) -> Array:
        return self._values.marks(slots) != 0

    def key_groups(self, slots: Array) -> Array:
        return self._key_groups(self._values.slots(slots))

    @property
    def saved_names(self) -> list[str]:
        return ["$owner", "value", "count", *(f"count_{n}" for n in range(1, self._users))]

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        owners = to_array(pa.int32(), self._values.slots(slots).astype(np.int32))
        values = array_from_words(self.value_type, self._values.words(slots), None)
        marks = self._values.marks(slots).view(np.int64)
        counts = [to_array(pa.int64(), (marks >> user) & 1) for user in range(self._users)]
        return slots, [owners, values, *counts]
