"""Format `debezium-avro-confluent`: Debezium's events in Avro, whose schemas are in a registry."""

from __future__ import annotations

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.formats.avro.confluent import ConfluentOptions, written_schema
from sqlstream.runtime.formats.change_events.metadata import DEBEZIUM_AVRO_METADATA
from sqlstream.runtime.formats.confluent.registry import FILE_OPTIONS, Registry
from sqlstream.schema import Field, Schema
from sqlstream.spi.format import (
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessagesOnlyFormat,
    MessageWriter,
)
from sqlstream.spi.table_options import descriptors_of
from sqlstream.types import STRING, row


class DebeziumAvroConfluent(MessagesOnlyFormat):
    """A message is a zero, the id of its schema, and an event: the row before a change, the one after it, and what it was."""

    file_format = "debezium-json"
    descriptor = FormatDescriptor(
        "debezium-avro-confluent",
        descriptors_of(ConfluentOptions),
        "",
        source_mode=ChangelogMode.RETRACT,
        sink_mode=ChangelogMode.RETRACT,
        reads_events=True,
        metadata={key: each.type for key, each in DEBEZIUM_AVRO_METADATA.items()},
        varying_metadata=frozenset(key for key, each in DEBEZIUM_AVRO_METADATA.items() if each.varies),
        has_messages=True,
        has_files=False,
        subject_option="subject",
        path_options=FILE_OPTIONS,
    )

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.change_events.debezium_avro_messages import EventMessages

        return EventMessages(request)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.change_events.debezium_avro_messages import EventWriter

        return EventWriter(schema, options)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Registry(options, "AVRO")
        written_schema(self.descriptor.identifier, event_schema(schema), options)


def event_schema(schema: Schema) -> Schema:
    """The fields of an event that is written."""
    of_row = row(*((f.name, f.type) for f in schema.fields))
    return Schema((Field("before", of_row), Field("after", of_row), Field("op", STRING)))
