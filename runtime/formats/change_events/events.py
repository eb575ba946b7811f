"""What the events of a format say: which rows come, and which go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.changelog import RowKind
from sqlstream.schema import Field, Schema
from sqlstream.types import LogicalType, row

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Operations = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

INSERTS, UPDATES, DELETES, NOTHING, TRUNCATES, TELLS, UNKNOWN = range(7)
"""What an event does with rows. NOTHING: it is none of this table's. TELLS: it changes no row, such as a heartbeat or a change of
the schema, and is counted."""

REPLICA_IDENTITY = (
    "declare PRIMARY KEY (…) NOT ENFORCED in the table, by which such events are read, or have the database log whole rows"
    " (Postgres: ALTER TABLE … REPLICA IDENTITY FULL)"
)

TOLD, TRUNCATED = "numEventsPassedOver", "numTruncationsPassedOver"
"""The metrics of events that TELL or TRUNCATE."""


class Fault(NamedTuple):
    """Why an event cannot be read, and what to do about it; without a hint, what to do about any undecodable row."""

    reason: str
    hint: str = ""


UNKNOWN_KIND = Fault("it is a change of no kind that there is")


@dataclass(frozen=True)
class Changes:
    """The rows of some events: `before` and `after` are structs of `owners`' length with a field per column, and `owners` are
    the events that they belong to, in order. An inserted row has no `before`, a deleted row no `after`. `before` may lack columns
    where rows are read by key.

    `unknown`: by the name of a column, the rows whose `after` does not have its value."""

    owners: Numbers
    operations: Operations
    before: pa.StructArray
    after: pa.StructArray
    unknown: Mapping[str, Mask]

    def missing(self, keys: tuple[str, ...]) -> Iterator[tuple[Fault, Mask]]:
        """What is missing of rows, and of which."""
        is_update = self.operations == UPDATES
        is_deletion = self.operations == DELETES
        needs_after = is_update | (self.operations == INSERTS)
        has_before, has_after = is_there(self.before), is_there(self.after)
        yield Fault("the row after the change is missing"), needs_after & ~has_after
        needs_before = is_deletion if keys else is_deletion | is_update
        lacks_before = Fault("the row before the change is missing", REPLICA_IDENTITY)
        if keys:
            lacks_before = Fault(
                "the row before the change is missing, and with it its primary key",
                "have the database log the key of rows (Postgres: ALTER TABLE … REPLICA IDENTITY DEFAULT)",
            )
        yield lacks_before, needs_before & ~has_before
        for key in keys:
            fault = Fault(f'"{key}", which is in the primary key, is NULL or missing')
            yield fault, needs_after & has_after & ~is_there(self.after.field(key))
            yield fault, needs_before & has_before & ~is_there(self.before.field(key))

    def kept(self, is_kept: Mask) -> Changes:
        if is_kept.all():
            return self
        chosen = pa.array(np.flatnonzero(is_kept))
        return Changes(
            self.owners[is_kept],
            self.operations[is_kept],
            self.before.take(chosen),
            self.after.take(chosen),
            {name: mask[is_kept] for name, mask in self.unknown.items()},
        )

    def filled(self) -> Changes:
        """With the values of `before` where `after` does not have them: a value that is left out is unknown, and not NULL."""
        before = {f.name: i for i, f in enumerate(self.before.type)}
        columns, unknown = self.after.flatten(), {}
        for name, mask in self.unknown.items():
            column = self.after.type.get_field_index(name)
            if name in before:
                old = self.before.flatten()[before[name]]
                is_filled = mask & is_there(old)
                columns[column] = pc.if_else(pa.array(is_filled), old, columns[column])
                mask = mask & ~is_filled
            if mask.any():
                unknown[name] = mask
        after = pa.StructArray.from_arrays(columns, fields=list(self.after.type), mask=self.after.is_null())
        return replace(self, after=after, unknown=unknown)

    def rows(self, keys: tuple[str, ...]) -> Rows:
        """The rows in the order of their events, and the kind of each. An update's old row is before its new one; with keys it is
        there if it has another key."""
        count = len(self.operations)
        is_update, is_deletion = self.operations == UPDATES, self.operations == DELETES
        is_double = is_update & self._is_moved(keys) if keys else is_update
        copies = np.where(is_double, 2, 1)
        sources = np.repeat(np.arange(count), copies)
        takes_before = is_deletion[sources]
        takes_before[(np.cumsum(copies) - copies)[is_double]] = True
        kinds = np.full(len(sources), int(RowKind.INSERT), dtype=np.int8)
        kinds[is_update[sources]] = int(RowKind.UPDATE_AFTER)
        kinds[takes_before] = int(RowKind.DELETE)
        kinds[takes_before & is_update[sources]] = int(RowKind.UPDATE_BEFORE)
        unknown = {name: mask[sources] & ~takes_before for name, mask in self.unknown.items()}
        columns = [
            _either(before, after, sources, takes_before)
            for before, after in zip(self._old_columns(keys), self.after.flatten(), strict=True)
        ]
        return Rows(columns, kinds, sources, unknown)

    def _old_columns(self, keys: tuple[str, ...]) -> list[pa.Array | None]:
        """The columns of the rows before, None for those that are not read. The key of a row that is updated is the one that it
        has, unless `before` says otherwise."""
        found = dict(zip((f.name for f in self.before.type), self.before.flatten(), strict=True))
        for key in keys:
            found[key] = pc.coalesce(found[key], self.after.field(key))
        return [found.get(f.name) for f in self.after.type]

    def _is_moved(self, keys: tuple[str, ...]) -> Mask:
        moved = np.zeros(len(self.operations), dtype=bool)
        before, after = self.before.flatten(), self.after.flatten()
        for key in keys:
            old = before[self.before.type.get_field_index(key)]
            new = after[self.after.type.get_field_index(key)]
            differs = pc.fill_null(pc.not_equal(old, new), False)
            moved |= differs.to_numpy(zero_copy_only=False).astype(bool)
        return moved


class Rows(NamedTuple):
    """Rows by column, the kind of each, the place of its change among the changes, and the values that it lacks."""

    columns: list[pa.Array]
    kinds: Operations
    sources: Numbers
    unknown: dict[str, Mask]


def _either(before: pa.Array | None, after: pa.Array, sources: Numbers, takes_before: Mask) -> pa.Array:
    if before is None:
        return after.take(pa.array(sources, mask=takes_before))
    if not takes_before.any():
        return after.take(pa.array(sources))
    return pa.concat_arrays([before, after]).take(pa.array(sources + len(after) * ~takes_before))


class ChangeEventFormat(Protocol):
    """One kind of envelope."""

    @property
    def identifier(self) -> str:
        """The name of the format."""

    def envelope(self, row: LogicalType, old: LogicalType, more: tuple[Field, ...]) -> Schema:
        """The fields of an event that are read; `row` is a ROW of the columns, `old` of those that are read of what was before
        the change. `more` are members beside the rows."""

    def opened(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        """The events in their envelopes: the fields of the format first, and all of `more` under their names."""

    def operations(self, events: pa.RecordBatch) -> Operations:
        """What each event does, by its code."""

    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        """What events do that are UNKNOWN by their code, by their texts, and the fault of each that stays so."""

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        """The rows of the events, all of which change rows. They are read by `keys`, unless there are none."""

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        """The text of an event for each row, which is the text of an object."""


KeysAt = Callable[[str, Numbers | None], pa.ListArray]
"""From a member of the events, such as "old", and some of them (None for all) to lists of names: of the fields of the object
there, one list for each event; or, where it is an array, of the fields of each of its elements."""


def none_told(texts: pa.Array) -> tuple[Operations, list[Fault]]:
    """`told` of a format whose events all have a code: what has none stays UNKNOWN."""
    return np.full(len(texts), UNKNOWN, dtype=np.int8), [UNKNOWN_KIND] * len(texts)


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
    columns = [
        pc.if_else(pa.array(is_named(keys, field.name)), old_column, new_column)
        for field, old_column, new_column in zip(after.type, old.flatten(), after.flatten(), strict=True)
    ]
    is_missing = pc.invert(pc.and_(after.is_valid(), old.is_valid()))
    return pa.StructArray.from_arrays(columns, fields=list(after.type), mask=is_missing)


def is_named(keys: pa.ListArray, name: str) -> Mask:
    """Of lists of names: which ones have this name."""
    found = np.zeros(len(keys), dtype=bool)
    found[pc.list_parent_indices(keys).filter(pc.equal(pc.list_flatten(keys), name)).to_numpy()] = True
    return found


def is_there(rows: pa.Array) -> Mask:
    mask: Mask = rows.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    return mask
