"""Format `json`: one JSON object per line."""

from __future__ import annotations

from typing import BinaryIO

from sqlstream.errors import UserError
from sqlstream.runtime.formats.flat_types import refuse_types
from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.schema import Schema
from sqlstream.spi.format import (
    FileReader,
    FileWriter,
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessageWriter,
    ReadRequest,
)
from sqlstream.spi.table_options import descriptors_of
from sqlstream.types import STRING_ROOTS, LogicalType, TypeRoot


class Json:
    """Fields are found by name, at every depth; those that the table does not declare are passed over."""

    descriptor = FormatDescriptor(
        "json", descriptors_of(JsonOptions), ".json", is_text=True, has_messages=True
    )

    def reader(self, request: ReadRequest) -> FileReader:
        from sqlstream.runtime.formats.json_reader import JsonReader

        return JsonReader(request)

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        from sqlstream.runtime.formats.json_writer import JsonWriter

        return JsonWriter(stream, schema, options)

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.json_reader import JsonReader
        from sqlstream.runtime.formats.messages import JsonMessages, read_request

        return JsonMessages(JsonReader(read_request(request)))

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.messages import LineMessages

        return LineMessages(lambda stream: self.writer(stream, schema, options))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        refuse_types("json", schema, allows_nested=True)
        for field in schema.fields:
            _check_keys(field.name, field.type)
        _check_names('a table of format "json"', schema.names)


def _check_keys(column: str, t: LogicalType) -> None:
    if t.root is TypeRoot.MULTISET or (t.key is not None and t.key.root not in STRING_ROOTS):
        raise UserError(
            "SS4006",
            f'format "json" cannot carry column "{column}": the keys of {t} are no strings',
            column=column,
            hint="declare it as MAP<STRING, …>",
        )
    _check_names(f'column "{column}" of format "json"', tuple(f.name for f in t.fields))
    for part in (t.element, *(f.type for f in t.fields)):
        if part is not None:
            _check_keys(column, part)


def _check_names(place: str, names: tuple[str, ...]) -> None:
    if "" in names:
        raise UserError("SS4006", f"{place} cannot have a field without a name", hint="name the field")
