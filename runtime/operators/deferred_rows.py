"""Rows whose columns are built when they are read: an operator that drops most of them, or reads few columns, saves the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.keys.group import group_numbers
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.state.storage.arrays import Array


class Rows(Protocol):
    """Some rows with the same columns."""

    def columns(self, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns, built anew."""

    def chosen(self, positions: Array) -> Rows:
        """The rows at these positions among them."""

    def groups(self) -> tuple[Array, Array] | None:
        """(group of each row, first row of each group), where rows are known to repeat: those of a group are the same row."""


class RowsOfBatch:
    """Rows of a batch by their numbers, repeats allowed; None: all of them. Implements `Rows`. No state."""

    def __init__(self, batch: pa.RecordBatch, rows: Array | None) -> None:
        self._batch = batch
        self._rows = rows

    def columns(self, numbers: Sequence[int]) -> list[pa.Array]:
        columns = [self._batch.column(number) for number in numbers]
        if self._rows is None:
            return columns
        positions = self._rows.astype(np.int32, copy=False)
        return [take_rows(column, positions) for column in columns]

    def chosen(self, positions: Array) -> RowsOfBatch:
        return RowsOfBatch(self._batch, positions if self._rows is None else self._rows.take(positions))

    def groups(self) -> None:
        return None


class StoredRows(Protocol):
    """State that finds rows by id."""

    def columns(self, row_ids: Array, numbers: Sequence[int]) -> list[pa.Array]: ...


class RowsOfState:
    """Rows of a state by their ids, repeats allowed, as long as they are there. Implements `Rows`. No state of its own.

    With `places` row i is the one of `row_ids[places[i]]`: each id is read once, however often it repeats.
    """

    def __init__(self, store: StoredRows, row_ids: Array, places: Array | None = None) -> None:
        self._store = store
        self._row_ids = row_ids
        self._places = places

    def columns(self, numbers: Sequence[int]) -> list[pa.Array]:
        if not numbers:
            return []
        columns = self._store.columns(self._row_ids, numbers)
        if self._places is None:
            return columns
        positions = self._places.astype(np.int32, copy=False)
        return [take_rows(column, positions) for column in columns]

    def chosen(self, positions: Array) -> RowsOfState:
        if self._places is None:
            return RowsOfState(self._store, self._row_ids.take(positions))
        places = self._places.take(positions)
        if len(places) < len(self._row_ids):
            return RowsOfState(self._store, self._row_ids.take(places))
        return RowsOfState(self._store, self._row_ids, places)

    def groups(self) -> tuple[Array, Array] | None:
        return None if self._places is None else group_numbers(self._places, len(self._row_ids))


class DeferredRows:
    """A batch of insertions whose columns are those of its parts, one part after the other.

    It may be read during the call that it is handed over in, and not after it: its parts may be state that changes then.
    State: the columns that were read, so that several readers build them once.
    """

    def __init__(self, schema: pa.Schema, num_rows: int, parts: Sequence[tuple[Rows, int]]) -> None:
        """`parts`: rows and how many columns they have; all have `num_rows` rows."""
        self.schema = schema
        self.num_rows = num_rows
        self._parts = parts
        self._built: dict[int, pa.Array] = {}

    def columns(self, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns. Read together, columns of a state cost little more than one of them."""
        missing = sorted(set(numbers) - self._built.keys())
        first = 0
        for rows, width in self._parts:
            own = [number for number in missing if first <= number < first + width]
            if own:
                built = rows.columns([number - first for number in own])
                self._built.update(zip(own, built, strict=True))
            first += width
        return [self._built[number] for number in numbers]

    def column(self, number: int) -> pa.Array:
        return self.columns([number])[0]

    def chosen(self, positions: Array) -> DeferredRows:
        """The rows at these positions."""
        parts = [(rows.chosen(positions), width) for rows, width in self._parts]
        return DeferredRows(self.schema, len(positions), parts)

    def groups(self, numbers: Sequence[int]) -> tuple[Array, Array] | None:
        """(group of each row, first row of each group), where all these columns are of rows that are known to repeat. Rows of two
        groups may have equal values too."""
        first = 0
        for rows, width in self._parts:
            if numbers and all(first <= number < first + width for number in numbers):
                return rows.groups()
            first += width
        return None

    def batch(self) -> pa.RecordBatch:
        """All columns."""
        return pa.RecordBatch.from_arrays(self.columns(range(len(self.schema))), schema=self.schema)
