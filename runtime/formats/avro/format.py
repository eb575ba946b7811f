"""Format `avro`: messages in Avro's binary encoding, and its object container files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from sqlstream.runtime.formats.avro.schemas import record_of
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
class AvroOptions:
    """The options of a table."""

    encoding: str = option(
        "encoding", OptionType.ENUM, "How messages are encoded.", "binary", choices=("binary",)
    )
    codec: str = option(
        "codec",
        OptionType.ENUM,
        "How the blocks of a written file are compressed.",
        "snappy",
        choices=("null", "deflate", "snappy", "bzip2", "xz", "zstandard"),
    )
    is_legacy: bool = option(
        "timestamp_mapping.legacy",
        OptionType.BOOLEAN,
        "Whether TIMESTAMP is Avro's timestamp, as in Flink before 1.19. Otherwise it is a local timestamp, and TIMESTAMP_LTZ"
        " a timestamp.",
        "true",
    )
    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable messages are counted and passed over instead of failing the job.",
        "false",
    )


class Avro:
    """A message is a row in the schema that follows from the table's columns; a file brings the schema of its rows."""

    descriptor = FormatDescriptor("avro", descriptors_of(AvroOptions), ".avro", has_messages=True)

    def reader(self, request: ReadRequest) -> FileReader:
        from sqlstream.runtime.formats.avro.files import AvroReader

        return AvroReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        from sqlstream.runtime.formats.avro.files import AvroWriter

        given = parse_options(AvroOptions, options)
        return AvroWriter(stream, schema, record_of(schema, is_legacy=given.is_legacy), given.codec)

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.avro.decoder import Program
        from sqlstream.runtime.formats.binary_messages import BinaryMessages

        record = record_of(request.schema, is_legacy=parse_options(AvroOptions, request.options).is_legacy)
        return BinaryMessages(Program(record, request.types()))

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.avro.encoder import RowEncoder

        return RowEncoder(schema)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        record_of(schema, is_legacy=parse_options(AvroOptions, options).is_legacy)
