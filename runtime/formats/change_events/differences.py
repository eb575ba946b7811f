"""Events that carry rows as they are after a change, and how fields were that it updated: Canal's and Maxwell's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.change_events.events import (
    DELETES,
    INSERTS,
    NOTHING,
    UPDATES,
    Changes,
    KeysAt,
    Mask,
    Numbers,
    Operations,
    coded,
    patched,
)
from sqlstream.regular_expressions import linear_regex
from sqlstream.schema import Field, Schema
from sqlstream.types import STRING, LogicalType, array

_CANAL = {"INSERT": INSERTS, "UPDATE": UPDATES, "DELETE": DELETES, "CREATE": NOTHING}
_MAXWELL = {"insert": INSERTS, "update": UPDATES, "delete": DELETES}


@dataclass(frozen=True)
class Canal:
    """`{"data": [{…}, …], "old": [{…}, …], "type": "UPDATE", "database": …, "table": …}`; `old` is null but in updates.

    Events of other databases or tables than those that the expressions match say nothing."""

    databases: str | None = None
    tables: str | None = None

    @property
    def identifier(self) -> str:
        return "canal-json"

    def envelope(self, row: LogicalType) -> Schema:
        texts = (Field(name, STRING) for name in ("type", "database", "table"))
        return Schema((Field("data", array(row)), Field("old", array(row)), *texts))

    def operations(self, events: pa.RecordBatch) -> Operations:
        operations = coded(events.column(2), _CANAL)
        for pattern, names in ((self.databases, events.column(3)), (self.tables, events.column(4))):
            if pattern is not None:
                is_meant = pc.match_substring_regex(names, f"^(?:{linear_regex(pattern)})$")
                operations[~pc.fill_null(is_meant, False).to_numpy(zero_copy_only=False)] = NOTHING
        return operations

    def changes(self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt) -> Changes:
        data, old, keys = events.column(0), events.column(1), keys_at("$.old[*]")
        owners, rows = _rows_of(data)
        old_firsts, old_counts = _ranges(old)
        place = np.arange(len(owners)) - np.searchsorted(owners, owners)
        # There are as many lists of keys as rows in `old`.
        old_rows = np.where(place < old_counts[owners], old_firsts[owners] + place, -1)
        before, names = (pc.list_flatten(part).take(_places(old_rows)) for part in (old, keys))
        return _changes(owners, operations[owners], rows, before, names)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        kinds = pc.if_else(pa.array(is_insert), '],"type":"INSERT"}', '],"type":"DELETE"}')
        return pc.binary_join_element_wise('{"data":[', rows, kinds, "")


class Maxwell:
    """`{"data": {…}, "old": {…}, "type": "update"}`; `old` is there in updates alone."""

    identifier = "maxwell-json"

    def envelope(self, row: LogicalType) -> Schema:
        return Schema((Field("data", row), Field("old", row), Field("type", STRING)))

    def operations(self, events: pa.RecordBatch) -> Operations:
        return coded(events.column(2), _MAXWELL)

    def changes(self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt) -> Changes:
        owners = np.arange(events.num_rows)
        return _changes(owners, operations, events.column(0), events.column(1), keys_at("$.old"))

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
    owners: Numbers, operations: Operations, data: pa.StructArray, old: pa.StructArray, keys: pa.ListArray
) -> Changes:
    """`old` and `keys` belong to the rows of `data`, one each."""
    updated = patched(data, old, keys)
    is_update = operations == UPDATES
    both = pa.concat_arrays([updated, data])
    before = both.take(pa.array(np.arange(len(data)) + len(data) * ~is_update))
    return Changes(owners, operations, before, data)
