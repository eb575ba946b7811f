"""What a cursor holds between the batches of a result and the rows that are fetched one by one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_schema
from sqlstream.client.dbapi.python_values import Row, python_rows
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlstream.runtime.state.tables.row_multiset import RowMultiset

SLICE_ROWS = 8192
"""Rows that become Python objects at once."""


class FetchBuffer:
    """Batches in, rows or batches out, in order.

    Rows of a query that only inserts come out as they come in. A changelog is folded, and comes out as the table that it
    describes when `end` has been called. State: the batches that were not fetched, or the folded table. The caller adds a batch
    only when nothing is left to fetch, so an insert-only result of any length takes the memory of one batch.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.arrow_schema = to_arrow_schema(schema)
        self.is_ended = False
        self._batches: deque[pa.RecordBatch] = deque()
        self._slice: pa.RecordBatch | None = None
        self._rows: list[Row] = []
        self._fetched = 0
        self._folded: RowMultiset | None = None

    @property
    def has_rows(self) -> bool:
        return self._fetched < len(self._rows) or bool(self._batches)

    def add(self, batch: pa.RecordBatch) -> None:
        """Accept a batch of the result."""
        if self._folded is None and not is_changelog(batch):
            if batch.num_rows:
                self._batches.append(batch)
            return
        if self._folded is None:
            from sqlstream.runtime.state.tables.row_multiset import RowMultiset

            self._folded = RowMultiset(self.arrow_schema)
        self._folded.sweep(self._folded.apply(batch)[0])

    def end(self) -> None:
        """The result is complete."""
        self.is_ended = True
        if self._folded is not None:
            rows, self._folded = self._folded.rows(), None
            if rows.num_rows:
                self._batches.append(rows)

    def take(self, count: int) -> list[Row]:
        """Up to `count` rows of those that are there."""
        taken: list[Row] = []
        while len(taken) < count and self.has_rows:
            if self._fetched == len(self._rows):
                self._open_next()
            rows = self._rows[self._fetched : self._fetched + count - len(taken)]
            self._fetched += len(rows)
            taken += rows
        return taken

    def take_batch(self) -> pa.RecordBatch | None:
        """The next rows as a batch: the rest of the one that `take` began, or a whole one. None when there is none."""
        if self._fetched < len(self._rows):
            assert self._slice is not None
            rest = self._slice.slice(self._fetched)
            self._fetched = len(self._rows)
            return rest
        return self._batches.popleft() if self._batches else None

    def _open_next(self) -> None:
        batch = self._batches.popleft()
        if batch.num_rows > SLICE_ROWS:
            self._batches.appendleft(batch.slice(SLICE_ROWS))
            batch = batch.slice(0, SLICE_ROWS)
        self._slice, self._rows, self._fetched = batch, python_rows(batch, self.schema), 0
