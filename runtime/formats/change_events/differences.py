"""Events that carry rows as they are after a change, and how fields were that it updated: Canal's and Maxwell's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.change_events.events import (
    DELETES,
    INSERTS,
    NOTHING,
    TELLS,
    TRUNCATES,
    UNKNOWN,
    UNKNOWN_KIND,
    UPDATES,
    Changes,
    Fault,
    KeysAt,
    Mask,
    Numbers,
    Operations,
    coded,
    none_told,
    patched,
)
from sqlstream.schema import Field, Schema
from sqlstream.text.regular_expressions import linear_regex
from sqlstream.types import STRING, LogicalType, array

_CANAL = {
    "INSERT": INSERTS,
    "UPDATE": UPDATES,
    "DELETE": DELETES,
    "TRUNCATE": TRUNCATES,
    **dict.fromkeys(("CREATE", "ALTER", "ERASE", "RENAME", "QUERY", "CINDEX", "DINDEX"), TELLS),
}
_MAXWELL = {
    "insert": INSERTS,
    "update": UPDATES,
    "delete": DELETES,
    "bootstrap-insert": INSERTS,
    **dict.fromkeys(("bootstrap-start", "bootstrap-complete", "heartbeat"), TELLS),
    **{f"{what}-{done}": TELLS for what in ("database", "table") for done in ("create", "alter", "drop")},
}


@dataclass(frozen=True)
class Canal:
    """`{"data": [{…}, …], "old": [{…}, …], "type": "UPDATE", "database": …, "table": …}`; `old` is null but in updates.

    Events of other databases or tables than those that the expressions match say nothing."""

    databases: str | None = None
    tables: str | None = None

    @property
    def identifier(self) -> str:
        return "canal-json"

    def envelope(self, row: LogicalType, old: LogicalType, more: tuple[Field, ...]) -> Schema:
        names = ["type"]
        names += ["database"] * (self.databases is not None) + ["table"] * (self.tables is not None)
        texts = tuple(Field(name, STRING) for name in names)
        beside = tuple(f for f in more if f.name not in names)
        return Schema((Field("data", array(row)), Field("old", array(old)), *texts, *beside))

    def opened(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        return envelopes

    def operations(self, events: pa.RecordBatch) -> Operations:
        operations = coded(events.column(2), _CANAL)
        for pattern, name in ((self.databases, "database"), (self.tables, "table")):
            if pattern is not None:
                is_meant = pc.match_substring_regex(events.column(name), f"^(?:{linear_regex(pattern)})$")
                operations[~pc.fill_null(is_meant, False).to_numpy(zero_copy_only=False)] = NOTHING
        return operations

    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        documents = read_lines(texts)
        is_ddl = pc.equal(documents.texts(documents.member(documents.roots, "isDdl")), "true").fill_null(
            False
        )
        operations = np.where(is_ddl.to_numpy(zero_copy_only=False), TELLS, UNKNOWN).astype(np.int8)
        return operations, [UNKNOWN_KIND] * len(texts)

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        data, old = events.column(0), events.column(1)
        owners, rows = _rows_of(data)
        old_firsts, old_counts = _ranges(old)
        place = np.arange(len(owners)) - np.searchsorted(owners, owners)
        # There are as many lists of names as rows in `old`.
        old_rows = _places(np.where(place < old_counts[owners], old_firsts[owners] + place, -1))
        names = None if keys else keys_at("old", None).take(old_rows)
        return _changes(owners, operations[owners], rows, pc.list_flatten(old).take(old_rows), names)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        kinds = pc.if_else(pa.array(is_insert), '],"type":"INSERT"}', '],"type":"DELETE"}')
        return pc.binary_join_element_wise('{"data":[', rows, kinds, "")


class Maxwell:
    """`{"data": {…}, "old": {…}, "type": "update"}`; `old` is there in updates alone."""

    identifier = "maxwell-json"

    def envelope(self, row: LogicalType, old: LogicalType, more: tuple[Field, ...]) -> Schema:
        return Schema((Field("data", row), Field("old", old), Field("type", STRING), *more))

    def opened(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        return envelopes

    def operations(self, events: pa.RecordBatch) -> Operations:
        return coded(events.column(2), _MAXWELL)

    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        return none_told(texts)

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        owners = np.arange(events.num_rows)
        names = None if keys else keys_at("old", None)
        return _changes(owners, operations, events.column(0), events.column(1), names)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        kinds = pc.if_else(pa.array(is_insert), ',"type":"insert"}', ',"type":"delete"}')
        return pc.binary_join_element_wise('{"data":', rows, kinds, "")


def _ranges(lists: pa.ListArray) -> tuple[Numbers, Numbers]:
    """Where the elements of each list begin among those of all, and how many there are."""
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
    return np.cumsum(counts) - counts, counts


def _rows_of(data: pa.ListArray) -> tuple[Numbers, pa.StructArray]:
    """The rows of all events, and the event of each; an event without any list has one row, which is not there."""
    is_missing = data.is_null().to_numpy(zero_copy_only=False)
    firsts, counts = _ranges(data)
    owners = np.repeat(np.arange(len(data)), np.where(is_missing, 1, counts))
    place = np.arange(len(owners)) - np.searchsorted(owners, owners)
    rows = np.where(is_missing[owners], -1, firsts[owners] + place)
    return owners, pc.list_flatten(data).take(_places(rows))


def _places(places: Numbers) -> pa.Array:
    """Where to take elements from; nothing is taken for a negative number."""
    return pa.array(places, mask=places < 0)


def _changes(
    owners: Numbers,
    operations: Operations,
    data: pa.StructArray,
    old: pa.StructArray,
    names: pa.ListArray | None,
) -> Changes:
    """`old` and `names` belong to the rows of `data`, one each. Without names `old` has the columns of the key, which is never
    NULL: what it has has changed."""
    updated = _with_old_key(data, old) if names is None else patched(data, old, names)
    is_update = operations == UPDATES
    both = pa.concat_arrays([updated, data])
    before = both.take(pa.array(np.arange(len(data)) + len(data) * ~is_update))
    return Changes(owners, operations, before, data, {})


def _with_old_key(data: pa.StructArray, old: pa.StructArray) -> pa.StructArray:
    columns = data.flatten()
    for field, column in zip(old.type, old.flatten(), strict=True):
        place = data.type.get_field_index(field.name)
        columns[place] = pc.coalesce(column, columns[place])
    return pa.StructArray.from_arrays(columns, fields=list(data.type), mask=data.is_null())
