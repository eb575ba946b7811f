"""Format `protobuf`: each message is one of Protocol Buffers, whose descriptor the options have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream.errors import UserError
from sqlstream.runtime.host.files import file_error
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

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor


@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """How fields and columns correspond."""

    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable messages are counted and passed over instead of failing the job.",
        "false",
    )
    reads_defaults: bool = option(
        "read-default-values",
        OptionType.BOOLEAN,
        "Whether a field that a message does not have is read as its default, instead of NULL.",
        "false",
    )
    null_literal: str = option(
        "write-null-string-literal",
        OptionType.STRING,
        "What is written for a string that is NULL in an array or a map.",
        "",
    )


@dataclass(frozen=True, kw_only=True)
class ProtobufOptions(MessageOptions):
    """The options of a table."""

    message: str = option(
        "message-class-name",
        OptionType.STRING,
        "The message: its full name, or that of its class in Java, such as `org.shop.Orders$Order`.",
        is_required=True,
    )
    descriptor_path: str | None = option(
        "descriptor-path",
        OptionType.STRING,
        "A file with a descriptor set, which `protoc --include_imports --descriptor_set_out` writes.",
    )
    text: str | None = option(
        "schema", OptionType.STRING, "The text of a `.proto` file, instead of a descriptor set."
    )


class Protobuf(MessagesOnlyFormat):
    """Fields are found by the names of columns."""

    descriptor = FormatDescriptor(
        "protobuf",
        descriptors_of(ProtobufOptions),
        "",
        has_messages=True,
        has_files=False,
        path_options=("descriptor-path",),
    )

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.binary_messages import BinaryMessages
        from sqlstream.runtime.formats.protobuf.decoder import Program
        from sqlstream.runtime.formats.protobuf.stored_types import Misfit

        given = parse_options(ProtobufOptions, request.options)
        try:
            return BinaryMessages(
                Program(_message(given), request.types(), reads_defaults=given.reads_defaults)
            )
        except Misfit as error:
            raise misfit("protobuf", error) from error

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.protobuf.encoder import MessageEncoder
        from sqlstream.runtime.formats.protobuf.stored_types import Misfit

        given = parse_options(ProtobufOptions, options)
        message = _message(given)
        missing = [f.name for f in message.fields if f.is_required and f.name not in schema.names]
        if missing:
            raise UserError(
                "SS4006",
                f'message "{message.full_name}" needs a field "{missing[0]}", which the table does not have',
                hint="declare a column with this name",
            )
        try:
            return MessageEncoder(message, schema, given.null_literal)
        except Misfit as error:
            raise misfit("protobuf", error) from error

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        from sqlstream.runtime.formats.protobuf.stored_types import Misfit, stored_row

        message = _message(parse_options(ProtobufOptions, options))
        try:
            stored_row(message, dict(zip(schema.names, schema.types, strict=True)))
        except Misfit as error:
            raise misfit("protobuf", error) from error


def misfit(identifier: str, error: Exception) -> UserError:
    return UserError(
        "SS4006", f'format "{identifier}": {error}', hint="declare the columns as the message has its fields"
    )


def _message(given: ProtobufOptions) -> Descriptor:
    """The descriptor of the message. UserError SS4002, SS4003, SS4005 for options that name none, ExternalError SS5002 for a file
    that cannot be read."""
    from sqlstream.runtime.formats.protobuf.descriptors import files_of_set, files_of_text, message_named

    if given.text is not None and given.descriptor_path is not None:
        raise UserError(
            "SS4003",
            'options "protobuf.schema" and "protobuf.descriptor-path" exclude each other',
            option="descriptor-path",
            hint="leave one of them out",
        )
    if given.text is None and given.descriptor_path is None:
        raise UserError(
            "SS4005",
            'format "protobuf" needs the descriptor of its message',
            hint="add 'protobuf.descriptor-path' = '…', a descriptor set, or 'protobuf.schema' = '…', the text of a .proto file",
        )
    key = "schema" if given.text is not None else "descriptor-path"
    try:
        files = (
            files_of_text(given.text)
            if given.text is not None
            else files_of_set(_read(given.descriptor_path))
        )
    except ValueError as error:
        raise UserError(
            "SS4002",
            f'option "protobuf.{key}" cannot be read: {error}',
            option=key,
            hint="check it with protoc",
        ) from error
    try:
        return message_named(files, given.message)
    except ValueError as error:
        raise UserError(
            "SS4002",
            f'option "protobuf.message-class-name" names no message: {error}',
            option="message-class-name",
            hint="name one of them",
        ) from error


def _read(path: str | None) -> bytes:
    assert path is not None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise file_error("read", path, error) from error
