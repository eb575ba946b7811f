"""Format `protobuf-confluent`: each message says by an id, and a place in it, which message of a registry it is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.errors import UserError
from sqlstream.runtime.formats.confluent.registry import FILE_OPTIONS, Registry, RegistryOptions
from sqlstream.runtime.formats.protobuf.format import MessageOptions, misfit
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
class ConfluentProtobufOptions(MessageOptions, RegistryOptions):
    """The options of a table."""

    text: str | None = option(
        "schema",
        OptionType.STRING,
        "The text of a `.proto` file, whose first message is written; by default it follows from the columns.",
    )


class ProtobufConfluent(MessagesOnlyFormat):
    """A message is a zero, the id of its schema in four bytes, the place of its message there, and the message."""

    descriptor = FormatDescriptor(
        "protobuf-confluent",
        descriptors_of(ConfluentProtobufOptions),
        "",
        has_messages=True,
        has_files=False,
        subject_option="subject",
        path_options=FILE_OPTIONS,
    )

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.protobuf.confluent_messages import ConfluentMessages

        given = parse_options(ConfluentProtobufOptions, request.options)
        return ConfluentMessages(request, reads_defaults=given.reads_defaults)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.protobuf.confluent_messages import confluent_writer

        given = parse_options(ConfluentProtobufOptions, options)
        return confluent_writer(schema, options, given.text, given.null_literal)

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        from sqlstream.runtime.formats.protobuf.confluent_messages import written_message
        from sqlstream.runtime.formats.protobuf.proto_writer import proto_of
        from sqlstream.runtime.formats.protobuf.stored_types import Misfit, stored_row

        Registry(options, "PROTOBUF")
        text = parse_options(ConfluentProtobufOptions, options).text
        try:
            message = written_message(proto_of(schema) if text is None else text)
            stored_row(message, dict(zip(schema.names, schema.types, strict=True)))
        except Misfit as error:
            raise misfit("protobuf-confluent", error) from error
        except ValueError as error:
            raise UserError(
                "SS4002",
                f'option "protobuf-confluent.schema" cannot be read: {error}',
                option="schema",
                hint="check it with protoc",
            ) from error
