"""Format `avro-confluent`: each message says by an id which schema of a registry it is written with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from sqlstream.errors import UserError
from sqlstream.runtime.formats.avro.schemas import record_of
from sqlstream.runtime.formats.confluent.registry import FILE_OPTIONS, Registry, RegistryOptions
from sqlstream.schema import Schema
from sqlstream.spi.connector import OptionType
from sqlstream.spi.format import (
    FileReader,
    FileWriter,
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessageWriter,
    ReadRequest,
)
from sqlstream.spi.table_options import descriptors_of, option, parse_options


@dataclass(frozen=True, kw_only=True)
class ConfluentOptions(RegistryOptions):
    """The options of a table."""

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


class AvroConfluent:
    """A message is a zero, the id of its schema in four bytes, and a row in Avro's binary encoding."""

    descriptor = FormatDescriptor(
        "avro-confluent",
        descriptors_of(ConfluentOptions),
        "",
        has_messages=True,
        has_files=False,
        subject_option="subject",
        path_options=FILE_OPTIONS,
    )

    def reader(self, request: ReadRequest) -> FileReader:
        raise _no_files()

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        raise _no_files()

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.avro.confluent_messages import ConfluentMessages

        return ConfluentMessages(request)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.avro.confluent_messages import ConfluentWriter

        return ConfluentWriter(schema, options)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Registry(options, "AVRO")
        record_of(schema, is_legacy=parse_options(ConfluentOptions, options).is_legacy)


def _no_files() -> UserError:
    return UserError("SS4003", 'format "avro-confluent" is one of messages', hint="use format avro for files")
