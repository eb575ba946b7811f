"""Events that carry the whole row before and after a change: Debezium's, and those of Oracle GoldenGate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.change_events.events import (
    DELETES,
    INSERTS,
    UPDATES,
    Changes,
    KeysAt,
    Mask,
    Operations,
    coded,
)
from sqlstream.schema import Field, Schema
from sqlstream.types import STRING, LogicalType, row


@dataclass(frozen=True)
class WholeRows:
    """`{"before": {…}, "after": {…}, "<operation>": "<code>"}`."""

    identifier: str
    operation: str
    codes: dict[str, int]
    written: tuple[str, str]
    """The codes that are written for a row that comes and for one that goes."""

    def envelope(self, row: LogicalType) -> Schema:
        return Schema((Field("before", row), Field("after", row), Field(self.operation, STRING)))

    def operations(self, events: pa.RecordBatch) -> Operations:
        return coded(events.column(2), self.codes)

    def changes(self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt) -> Changes:
        return Changes(np.arange(events.num_rows), operations, events.column(0), events.column(1))

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        comes, goes = (f',"{self.operation}":"{code}"}}' for code in self.written)
        inserts = pc.binary_join_element_wise('{"before":null,"after":', rows, comes, "")
        deletes = pc.binary_join_element_wise('{"before":', rows, ',"after":null' + goes, "")
        return pc.if_else(pa.array(is_insert), inserts, deletes)


DEBEZIUM = WholeRows(
    "debezium-json", "op", {"c": INSERTS, "r": INSERTS, "u": UPDATES, "d": DELETES}, ("c", "d")
)
OGG = WholeRows("ogg-json", "op_type", {"I": INSERTS, "U": UPDATES, "D": DELETES}, ("I", "D"))


class DebeziumWithSchema:
    """Debezium's events as Kafka Connect's JSON converter writes them: `{"schema": …, "payload": {…}}`."""

    identifier = DEBEZIUM.identifier

    def envelope(self, row_: LogicalType) -> Schema:
        fields = DEBEZIUM.envelope(row_).fields
        return Schema((Field("payload", row(*((f.name, f.type) for f in fields))),))

    def operations(self, events: pa.RecordBatch) -> Operations:
        return DEBEZIUM.operations(_payload(events))

    def changes(self, events: pa.RecordBatch, operations: Operations, keys_at: KeysAt) -> Changes:
        return DEBEZIUM.changes(_payload(events), operations, keys_at)

    def event_texts(self, rows: pa.Array, is_insert: Mask) -> pa.Array:
        raise AssertionError("a table with schema-include cannot be written")


def _payload(events: pa.RecordBatch) -> pa.RecordBatch:
    payload = events.column(0)
    return pa.RecordBatch.from_arrays(payload.flatten(), names=[f.name for f in payload.type])
