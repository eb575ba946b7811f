"""Messages of format `debezium-avro-confluent`."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.avro.confluent_messages import ConfluentMessages, confluent_writer
from sqlstream.runtime.formats.binary_messages import rejected_message
from sqlstream.runtime.formats.change_events.changelog import ChangelogOfEvents, faults_by_event
from sqlstream.runtime.formats.change_events.debezium import DEBEZIUM
from sqlstream.runtime.formats.change_events.debezium_avro import event_schema
from sqlstream.runtime.formats.change_events.events import (
    DELETES,
    TELLS,
    TOLD,
    TRUNCATED,
    TRUNCATES,
    UNKNOWN,
    UNKNOWN_KIND,
    Changes,
    is_there,
)
from sqlstream.runtime.formats.change_events.formats import insertions
from sqlstream.runtime.formats.change_events.metadata import DEBEZIUM_AVRO_METADATA
from sqlstream.schema import Schema
from sqlstream.spi.files import Files
from sqlstream.spi.format import DecodedMessages, MessageRequest


class EventMessages:
    """Turns each event into the rows that it changes. A message without content, with which Kafka forgets a key, is passed over;
    so is an event that changes no row, and it is counted. State: the counts since they were last taken."""

    def __init__(self, request: MessageRequest) -> None:
        self._changelog = ChangelogOfEvents(
            request.schema, request.columns, request.demand, DEBEZIUM_AVRO_METADATA
        )
        wanted = self._changelog
        envelope = DEBEZIUM.envelope(wanted.row, wanted.old, wanted.more)
        self._events = ConfluentMessages(MessageRequest(envelope, envelope.names, request.options))
        self._counts: Counter[str] = Counter()

    def call_through(self, files: Files) -> None:
        self._events.call_through(files)

    def take_counts(self) -> dict[str, int]:
        counts, self._counts = self._counts, Counter()
        return counts

    def decode(self, messages: pa.Array) -> DecodedMessages:
        is_empty = pc.equal(pc.binary_length(messages), 0)
        if pc.any(is_empty).as_py():
            messages = pc.if_else(is_empty, pa.scalar(None, pa.binary()), messages)
        found = self._events.decode(messages)
        events = found.batch
        assert found.owners is not None
        operations = DEBEZIUM.operations(events)
        # An event that has nothing of a change, not even in its schema, is a heartbeat or such.
        is_told = ~is_there(events.column(2)) & ~is_there(events.column(1)) & ~is_there(events.column(0))
        operations[(operations == UNKNOWN) & is_told] = TELLS
        faults = dict.fromkeys(np.flatnonzero(operations == UNKNOWN).tolist(), UNKNOWN_KIND)
        for event, fault in self._changelog.unreadable_metadata(events):
            operations[event] = UNKNOWN
            faults.setdefault(event, fault)
        self._counts[TRUNCATED] += int((operations == TRUNCATES).sum())
        self._counts[TOLD] += int((operations == TELLS).sum())
        chosen = np.flatnonzero(operations <= DELETES)
        taken = events if len(chosen) == events.num_rows else events.take(pa.array(chosen))
        before, after = taken.column(0), taken.column(1)
        changes = Changes(np.arange(len(chosen)), operations[chosen], before, after, {}).filled()
        faults |= faults_by_event(self._changelog.missing(changes), chosen[changes.owners])
        is_kept = ~np.isin(chosen[changes.owners], list(faults))
        batch, owners = self._changelog.batch(changes.kept(is_kept), events, chosen)
        rejected = [
            rejected_message(messages, place, place, fault.reason)
            for event, fault in faults.items()
            for place in [int(found.owners[event])]
        ]
        rejected = sorted([*found.rejected, *rejected], key=lambda r: r.line)
        return DecodedMessages(batch, found.owners[owners], rejected)


class EventWriter:
    """Writes one event for each row: one that goes is a deletion, one that comes an insertion, as Flink writes them."""

    def __init__(self, schema: Schema, options: dict[str, str]) -> None:
        envelope = event_schema(schema)
        self._type = to_arrow_type(envelope.types[0])
        self._writer = confluent_writer("debezium-avro-confluent", envelope, options)

    def call_through(self, files: Files) -> None:
        self._writer.call_through(files)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        is_insert, batch = insertions(batch)
        fields = list(self._type)
        before, after = (
            pa.StructArray.from_arrays(batch.columns, fields=fields, mask=pa.array(mask))
            for mask in (is_insert, ~is_insert)
        )
        comes, goes = DEBEZIUM.written
        codes = pc.if_else(pa.array(is_insert), comes, goes)
        return self._writer.encode(
            pa.RecordBatch.from_arrays([before, after, codes], names=["before", "after", "op"])
        )
