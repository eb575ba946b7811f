"""What the events of a format say: which rows come, and which go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.changelog import RowKind
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, row

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Operations = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

INSERTS, UPDATES, DELETES, NOTHING, UNKNOWN = range(5)
"""What an event does with rows. NOTHING: it changes no row, such as a change of the schema."""


@dataclass(frozen=True)
class Changes:
    """The rows of some events: `before` and `after` are structs with a field per column, of `owners`' length, and `owners` are
    the events that they belong to, in order. An inserted row has no `before`, a deleted row no `after`."""

    owners: Numbers
    operations: Operations
    before: pa.StructArray
    after: pa.StructArray

    def missing(self) -> dict[str, Mask]:
        """By the name of what is missing: the rows of which it is."""
        needs_before = np.isin(self.operations, (UPDATES, DELETES))
        needs_after = np.isin(self.operations, (INSERTS, UPDATES))
        return {
            "row before the change": needs_before & ~_is_there(self.before),
            "row after the change": needs_after & ~_is_there(self.after),
        }

    def kept(self, is_kept: Mask) -> Changes:
        chosen = pa.array(np.flatnonzero(is_kept))
        return Changes(
            self.owners[is_kept],
            self.operations[is_kept],
            self.before.take(chosen),
            self.after.take(chosen),
        )

    def rows(self) -> tuple[pa.StructArray, np.ndarray[Any, np.dtype[np.int8]]]:
        """The rows in the order of their events, an update's old row before its new one, and the kind of each."""
        count = len(self.operations)
        is_update = self.operations == UPDATES
        copies = np.where(is_update, 2, 1)
        sources = np.repeat(np.arange(count), copies)
        is_second = np.zeros(len(sources), dtype=bool)
        is_second[np.cumsum(copies)[is_update] - 1] = True
        operations = self.operations[sources]
        takes_after = is_second | (operations == INSERTS)
        kinds = np.select(
            [operations == INSERTS, operations == DELETES, is_second],
            [int(RowKind.INSERT), int(RowKind.DELETE), int(RowKind.UPDATE_AFTER)],
            int(RowKind.UPDATE_BEFORE),
        ).astype(np.int8)
        both = pa.concat_arrays([self.before, self.after])
        return both.take(pa.array(sources + count * takes_after)), kinds


class ChangeEventFormat(Protocol):
    """One kind of envelope."""

    @property
    def identifier(self) -> str:
        """The name of the format."""

    def envelope(self, row: LogicalType) -> Schema:
        """The fields of an event that are read; `row` is a ROW of the columns."""

    def operations(self, events: pa.RecordBatch) -> Operations:
        """What each event does."""

    def changes(self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt) -> Changes:
        """The rows of the events, of which none does NOTHING or something UNKNOWN."""

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        """The text of an event for each row, which is the text of an object."""


KeysAt = Callable[[str], pa.ListArray]
"""From a path within the events, such as `$.old`, to a list for each of them: the names of the fields of the object there."""


def row_type(schema: Schema) -> LogicalType:
    """The ROW of the columns, all of which may be missing in an event."""
    return row(*((f.name, f.type.with_nullable(True)) for f in schema.fields))


def coded(names: pa.Array, codes: dict[str, int]) -> Operations:
    """The operation that each text names."""
    places = pc.fill_null(pc.index_in(names, pa.array(list(codes))), len(codes))
    numbers = np.array([*codes.values(), UNKNOWN], dtype=np.int8)
    return numbers[places.to_numpy(zero_copy_only=False)]


def patched(after: pa.StructArray, old: pa.StructArray, keys: pa.ListArray) -> pa.StructArray:
    """The rows before an update: the fields whose names are among `keys` are as in `old`, also those that are null there, and
    the others as in `after`. A row without `old` is not there."""
    parents, names = pc.list_parent_indices(keys), pc.list_flatten(keys)
    columns = []
    for field, old_column, new_column in zip(after.type, old.flatten(), after.flatten(), strict=True):
        is_old = np.zeros(len(after), dtype=bool)
        is_old[parents.filter(pc.equal(names, field.name)).to_numpy()] = True
        columns.append(pc.if_else(pa.array(is_old), old_column, new_column))
    is_missing = pc.invert(pc.and_(after.is_valid(), old.is_valid()))
    return pa.StructArray.from_arrays(columns, fields=list(after.type), mask=is_missing)


def nothing(type_: LogicalType, count: int) -> pa.StructArray:
    """As many rows that are not there."""
    return pa.nulls(count, to_arrow_type(type_))


def _is_there(rows: pa.StructArray) -> Mask:
    mask: Mask = rows.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    return mask
