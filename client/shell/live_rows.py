"""The table that a running query has described so far, kept up to date batch by batch."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, to_arrow_schema
from sqlstream.changelog import RowKind

if TYPE_CHECKING:
    from sqlstream.runtime.state.tables.row_multiset import RowMultiset
    from sqlstream.schema import Schema

_ROUNDS_MAX = 16
"""How many updates of one row within one batch keep it in its place; after more it moves to the end."""


class LiveRows(Protocol):
    """Rows in the order in which they arrived; an updated row keeps its place. Thread-safe. `dropped` rows, the oldest, were
    forgotten to keep to the limit; `changes` counts the rows that arrived."""

    changes: int
    dropped: int

    def add(self, batch: pa.RecordBatch) -> None: ...

    def __len__(self) -> int: ...

    def window(self, start: int, count: int) -> pa.RecordBatch:
        """The rows from `start` on, at most `count`."""


def live_rows(schema: Schema, is_updating: bool, rows_max: int) -> LiveRows:
    """An empty table for the rows of a query."""
    arrow = to_arrow_schema(schema)
    return UpdatedRows(arrow, rows_max) if is_updating else AppendedRows(arrow, rows_max)


class AppendedRows:
    """The rows of a query that only inserts. State: the batches with the last `rows_max` rows."""

    def __init__(self, schema: pa.Schema, rows_max: int) -> None:
        self._schema = schema
        self._rows_max = rows_max
        self._batches: deque[pa.RecordBatch] = deque()
        self._count = 0
        self._lock = threading.Lock()
        self.changes = 0
        self.dropped = 0

    def add(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._batches.append(batch)
            self._count += batch.num_rows
            self.changes += batch.num_rows
            while self._count > self._rows_max:
                surplus = self._count - self._rows_max
                first = self._batches.popleft()
                kept = first.slice(surplus)
                if kept.num_rows:
                    self._batches.appendleft(kept)
                self._count -= first.num_rows - kept.num_rows
                self.dropped += first.num_rows - kept.num_rows

    def __len__(self) -> int:
        return self._count

    def window(self, start: int, count: int) -> pa.RecordBatch:
        with self._lock:
            parts = []
            for batch in self._batches:
                if count > 0 and start < batch.num_rows:
                    parts.append(batch.slice(start, count))
                    count -= parts[-1].num_rows
                start = max(0, start - batch.num_rows)
        return (
            pa.Table.from_batches(parts, self._schema).combine_chunks().to_batches()[0]
            if parts
            else _no_rows(self._schema)
        )


class UpdatedRows:
    """The rows of a query that updates and retracts. State: one entry per distinct row; beyond `rows_max` the oldest go."""

    def __init__(self, schema: pa.Schema, rows_max: int) -> None:
        from sqlstream.runtime.state.tables.row_multiset import RowMultiset

        self._schema = schema
        self._rows: RowMultiset = RowMultiset(schema)
        self._rows_max = rows_max
        self._order: np.ndarray | None = None
        self._count = 0
        self._lock = threading.Lock()
        self.changes = 0
        self.dropped = 0

    def add(self, batch: pa.RecordBatch) -> None:
        with self._lock:
            kinds = row_kinds(batch)
            slots, new_rows = self._rows.apply(batch)
            self._keep_places(kinds, slots, new_rows)
            self._rows.sweep(slots)
            self.changes += batch.num_rows
            self._order = None
            self._drop_oldest()

    def _keep_places(self, kinds: np.ndarray, slots: np.ndarray, new_rows: np.ndarray) -> None:
        """Give each row that replaces another one its place in the order."""
        before = np.flatnonzero(kinds == RowKind.UPDATE_BEFORE)
        after = np.flatnonzero(kinds == RowKind.UPDATE_AFTER)
        if not len(before) or len(before) != len(after):
            return
        is_new = np.zeros(len(kinds), dtype=bool)
        is_new[new_rows] = True
        pairs = is_new[after]
        old, new = slots[before[pairs]], slots[after[pairs]]
        sequence = self._rows.sequence
        for _ in range(_ROUNDS_MAX):
            inherited = np.minimum(sequence[new], sequence[old])
            if np.array_equal(inherited, sequence[new]):
                return
            sequence[new] = inherited

    def _drop_oldest(self) -> None:
        order = self._ordered()
        if len(order) > self._rows_max:
            surplus = order[: len(order) - self._rows_max]
            self._rows.delete(np.unique(surplus))
            self.dropped += len(surplus)
            self._order = None

    def _ordered(self) -> np.ndarray:
        """The slots of all rows, in order, each as often as its row occurs."""
        if self._order is None:
            slots = self._rows.slots()
            self._order = np.repeat(slots, np.maximum(self._rows.counts[slots], 0))
            self._count = len(self._order)
        return self._order

    def __len__(self) -> int:
        with self._lock:
            return len(self._ordered())

    def window(self, start: int, count: int) -> pa.RecordBatch:
        with self._lock:
            return self._rows.take(self._ordered()[start : start + count])


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
