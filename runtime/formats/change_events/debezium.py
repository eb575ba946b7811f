"""Events that carry the row before and the one after a change: Debezium's, and those of Oracle GoldenGate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
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


def _is_change(at: str) -> str:
    """The condition, in DuckDB's SQL, that the event at this path has an operation or a row."""
    members = ", ".join(f"json_extract_string(a0, '{at}.{name}')" for name in ("op", "after", "before"))
    return f"(coalesce({members}) IS NOT NULL)"


class DebeziumEvents(WholeRows):
    def told(self, texts: pa.Array) -> tuple[Operations, list[Fault]]:
        """An event without an operation is a heartbeat, a change of the schema or the bounds of a transaction."""
        kinds = evaluate_in_duckdb(
            "CASE WHEN json_exists(a0, '$.schema') AND json_exists(a0, '$.payload') THEN"
            f" CASE WHEN json_exists(a0, '$.payload.ts_ms') AND NOT {_is_change('$.payload')} THEN 2 ELSE 1 END"
            f" WHEN {_is_change('$')} THEN 0"
            " WHEN json_exists(a0, '$.ts_ms') OR json_exists(a0, '$.ddl') OR json_exists(a0, '$.tableChanges')"
            " OR json_exists(a0, '$.databaseName') OR json_exists(a0, '$.status') THEN 2 ELSE 0 END",
            texts,
        ).to_numpy()
        envelope = Fault(
            "the event is in an envelope with its schema",
            f"add '{SCHEMA_INCLUDE}' = 'true' to the table: its events stand beside their schema",
        )
        operations = np.where(kinds == 2, TELLS, UNKNOWN).astype(np.int8)
        return operations, [envelope if kind == 1 else UNKNOWN_KIND for kind in kinds]


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
        payload_type = evaluate_in_duckdb("json_type(a0, '$.payload')", texts)
        has_payload = is_there(payload_type)
        payloads = evaluate_in_duckdb("coalesce(json_extract(a0, '$.payload'), '{}')", texts)
        operations, faults = DEBEZIUM.told(payloads.cast(pa.string()))
        # A tombstone, with which Kafka forgets the key.
        operations[pc.fill_null(pc.equal(payload_type, "NULL"), False).to_numpy(zero_copy_only=False)] = (
            NOTHING
        )
        return operations, [
            fault if is_known else bare for fault, is_known in zip(faults, has_payload, strict=True)
        ]

    def changes(
        self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt, keys: tuple[str, ...]
    ) -> Changes:
        return DEBEZIUM.changes(events, operations, keys_at, keys)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        raise AssertionError("a table with schema-include cannot be written")
