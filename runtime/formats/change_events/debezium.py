"""Events that carry the row before and the one after a change: Debezium's, and those of Oracle GoldenGate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.json.documents import Documents, read_lines
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
    Operations,
    coded,
    is_named,
    is_there,
    none_told,
)
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.schema import Field, Schema
from sqlstream.types import STRING, LogicalType, row

SCHEMA_INCLUDE = "debezium-json.schema-include"


@dataclass(frozen=True)
class WholeRows:
    """`{"before": {…}, "after": {…}, "<operation>": "<code>"}`."""

    identifier: str
    operation: str
    codes: dict[str, int]
    written: tuple[str, str]
    """The codes that are written for a row that comes and for one that goes."""

    def envelope(self, row: LogicalType, old: LogicalType, more: tuple[Field, ...]) -> Schema:
        return Schema((Field("before", old), Field("after", row), Field(self.operation, STRING), *more))

    def opened(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        return envelopes

    def operations(self, events: pa.RecordBatch) -> Operations:
        return coded(events.column(2), self.codes)

    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        return none_told(texts)

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        before, after = events.column(0), events.column(1)
        return Changes(np.arange(events.num_rows), operations, before, after, {})

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        comes, goes = (f',"{self.operation}":"{code}"}}' for code in self.written)
        inserts = pc.binary_join_element_wise('{"before":null,"after":', rows, comes, "")
        deletes = pc.binary_join_element_wise('{"before":', rows, ',"after":null' + goes, "")
        return pc.if_else(pa.array(is_insert), inserts, deletes)


class GoldenGateEvents(WholeRows):
    """By default an update has the key and what it changes, and a deletion the key alone: other columns are absent."""

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        changes = super().changes(events, operations, keys_at, keys)
        after = changes.after.flatten()
        # Most rows are whole: names are looked for where a value may be absent.
        is_doubtful = np.zeros(len(operations), dtype=bool)
        for column in after:
            is_doubtful |= ~is_there(column)
        doubtful = np.flatnonzero(is_doubtful & (operations == UPDATES) & is_there(changes.after))
        if not len(doubtful):
            return changes
        names = keys_at("after", doubtful)
        unknown = {}
        for field in changes.after.type:
            is_absent = np.zeros(len(operations), dtype=bool)
            is_absent[doubtful] = ~is_named(names, field.name)
            if is_absent.any():
                unknown[field.name] = is_absent
        return Changes(changes.owners, operations, changes.before, changes.after, unknown)


class DebeziumEvents(WholeRows):
    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        documents = read_lines(texts)
        return _told_at(documents, documents.roots)


def _told_at(documents: Documents, events: Any) -> tuple[Operations, list[Fault]]:
    """An event without an operation is a heartbeat, a change of the schema or the bounds of a transaction."""
    schema, payload = documents.members(events, "schema", "payload")
    has_envelope = (schema >= 0) & (payload >= 0)
    event = np.where(has_envelope, payload, events)
    telling = documents.members(event, "ts_ms", "ddl", "tableChanges", "databaseName", "status") >= 0
    tells = np.where(has_envelope, telling[0], telling.any(axis=0))
    kinds = [documents.kinds(members) for members in documents.members(event, "op", "after", "before")]
    is_change = np.any([(kind >= 0) & (kind != json_tape.NULL) for kind in kinds], axis=0)
    envelope = Fault(
        "the event is in an envelope with its schema",
        f"add '{SCHEMA_INCLUDE}' = 'true' to the table: its events stand beside their schema",
    )
    operations = np.where(tells & ~is_change, TELLS, UNKNOWN).astype(np.int8)
    return operations, [envelope if has else UNKNOWN_KIND for has in has_envelope]


DEBEZIUM = DebeziumEvents(
    "debezium-json",
    "op",
    {"c": INSERTS, "r": INSERTS, "u": UPDATES, "d": DELETES, "t": TRUNCATES, "m": TELLS},
    ("c", "d"),
)
OGG = GoldenGateEvents(
    "ogg-json", "op_type", {"I": INSERTS, "U": UPDATES, "D": DELETES, "T": TRUNCATES}, ("I", "D")
)


class DebeziumWithSchema:
    """Debezium's events as Kafka Connect's JSON converter writes them: `{"schema": …, "payload": {…}}`."""

    identifier = DEBEZIUM.identifier

    def envelope(self, row_: LogicalType, old: LogicalType, more: tuple[Field, ...]) -> Schema:
        beside = tuple(f for f in more if f.name == "schema")
        fields = DEBEZIUM.envelope(row_, old, tuple(f for f in more if f.name != "schema")).fields
        return Schema((Field("payload", row(*((f.name, f.type) for f in fields))), *beside))

    def opened(self, envelopes: pa.RecordBatch) -> pa.RecordBatch:
        payload = envelopes.column(0)
        columns = [*payload.flatten(), *envelopes.columns[1:]]
        names = [*(f.name for f in payload.type), *envelopes.schema.names[1:]]
        return pa.RecordBatch.from_arrays(columns, names=names)

    def operations(self, events: pa.RecordBatch) -> Operations:
        return DEBEZIUM.operations(events)

    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        bare = Fault(
            "the event has no envelope with its schema",
            f"leave '{SCHEMA_INCLUDE}' out of the table: its events do not stand beside their schema",
        )
        documents = read_lines(texts)
        payloads = documents.member(documents.roots, "payload")
        operations, faults = _told_at(documents, payloads)
        # A tombstone, with which Kafka forgets the key.
        operations[documents.kinds(payloads) == json_tape.NULL] = NOTHING
        return operations, [
            fault if is_known else bare for fault, is_known in zip(faults, payloads >= 0, strict=True)
        ]

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        return DEBEZIUM.changes(events, operations, keys_at, keys)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        raise AssertionError("a table with schema-include cannot be written")
