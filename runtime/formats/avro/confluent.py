"""Format `avro-confluent`: each message says by an id which schema of a registry it is written with."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.runtime.formats.avro.schemas import Names, find_difference, record_of
from sqlstream.runtime.formats.confluent.registry import FILE_OPTIONS, Registry, RegistryOptions
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.format import (
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessagesOnlyFormat,
    MessageWriter,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options


@dataclass(frozen=True, kw_only=True)
class ConfluentOptions(RegistryOptions):
    """The options of a table."""

    text: str | None = option(
        "schema",
        OptionType.STRING,
        "The schema that is registered for what is written. It must have the columns with their types, in their order; by default"
        " it follows from them.",
    )
    is_legacy: bool = option(
        "timestamp_mapping.legacy",
        OptionType.BOOLEAN,
        "As that of format avro, for what is written.",
        "true",
    )
    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable messages are counted and passed over instead of failing the job.",
        "false",
    )


class AvroConfluent(MessagesOnlyFormat):
    """A message is a zero, the id of its schema in four bytes, and a row in Avro's binary encoding."""

    file_format = "avro"
    descriptor = FormatDescriptor(
        "avro-confluent",
        descriptors_of(ConfluentOptions),
        "",
        has_messages=True,
        has_files=False,
        subject_option="subject",
        path_options=FILE_OPTIONS,
    )

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.avro.confluent_messages import ConfluentMessages

        return ConfluentMessages(request)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.avro.confluent_messages import confluent_writer

        return confluent_writer(self.descriptor.identifier, schema, options)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Registry(options, "AVRO")
        written_schema(self.descriptor.identifier, schema, options)


def written_schema(identifier: str, schema: Schema, options: dict[str, str]) -> str:
    """The text of the schema that rows are written with. UserError SS4006 for columns that it cannot be of, SS4002 for one that
    is none."""
    given = parse_options(ConfluentOptions, options)
    record = record_of(schema, is_legacy=given.is_legacy)
    if given.text is None:
        return json.dumps(record)
    try:
        difference = find_difference(json.loads(given.text), record, Names())
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(
            "SS4002",
            f'option "{identifier}.schema" is no schema of Avro: {error}',
            option="schema",
            hint="write it as JSON",
        ) from error
    if difference is not None:
        raise UserError(
            "SS4006",
            f'option "{identifier}.schema" does not fit the table: {difference}',
            option="schema",
            hint="declare the columns as the schema has its fields, or leave the option out",
        )
    return given.text
