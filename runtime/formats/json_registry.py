"""Format `json-registry`: JSON behind the id of its JSON Schema in a registry, as Confluent's serializers write it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.runtime.formats.confluent.registry import FILE_OPTIONS, Registry, RegistryOptions
from sqlstream.runtime.formats.json import Json
from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.schema import Schema
from sqlstream.spi.format import (
    DecodedMessages,
    FormatDescriptor,
    MessageReader,
    MessageRequest,
    MessagesOnlyFormat,
    MessageWriter,
)
from sqlstream.spi.table_options import descriptors_of
from sqlstream.types import LogicalType, TypeRoot, is_integer

if TYPE_CHECKING:
    import pyarrow as pa

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.FLOAT: "number",
    TypeRoot.DOUBLE: "number",
    TypeRoot.DECIMAL: "number",
    TypeRoot.NULL: "null",
}


@dataclass(frozen=True, kw_only=True)
class JsonRegistryOptions(JsonOptions, RegistryOptions):
    """The options of a table."""


class JsonRegistry(MessagesOnlyFormat):
    """A message is a zero, the id of its schema in four bytes, and a JSON object."""

    file_format = "json"
    descriptor = FormatDescriptor(
        "json-registry",
        descriptors_of(JsonRegistryOptions),
        "",
        has_messages=True,
        has_files=False,
        subject_option="subject",
        path_options=FILE_OPTIONS,
    )

    def message_reader(self, request: MessageRequest) -> MessageReader:
        return RegistryJsonMessages(request)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.confluent.messages import FramedWriter

        text = json.dumps(json_schema_of(schema))
        return FramedWriter(text, Json().message_writer(schema, options), Registry(options, "JSON"))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Registry(options, "JSON")
        Json().validate(schema, options)


class RegistryJsonMessages:
    """Reads each object as format `json` does: the columns of the table say what is read of it, and not its schema. No state."""

    def __init__(self, request: MessageRequest) -> None:
        self._documents = Json().message_reader(request)

    def decode(self, messages: pa.Array) -> DecodedMessages:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from sqlstream.runtime.formats.binary_messages import rejected_message
        from sqlstream.runtime.formats.confluent.messages import HEADER_BYTES, NO_HEADER, are_framed

        is_framed = are_framed(messages)
        mask, binary = pa.array(is_framed), pa.binary()
        whole = pc.if_else(mask, messages, pa.scalar(bytes(HEADER_BYTES), binary))
        contents = pc.if_else(
            mask, pc.binary_replace_slice(whole, 0, HEADER_BYTES, b""), pa.scalar(None, binary)
        )
        found = self._documents.decode(contents)
        unframed = np.flatnonzero(~is_framed & messages.is_valid().to_numpy(zero_copy_only=False)).tolist()
        if not unframed:
            return found
        rejected = [*found.rejected, *(rejected_message(messages, m, m, NO_HEADER) for m in unframed)]
        return found._replace(rejected=sorted(rejected, key=lambda r: r.line))


def json_schema_of(schema: Schema) -> dict[str, Any]:
    """The JSON Schema of a table's rows, as they are written."""
    columns = [(f.name, f.type) for f in schema.fields]
    return {"$schema": _DRAFT, "title": "Record", **_object(columns)}


def _object(fields: list[tuple[str, LogicalType]]) -> dict[str, Any]:
    made = {"type": "object", "properties": {name: _schema(t) for name, t in fields}}
    required = [name for name, t in fields if not t.nullable]
    return {**made, "required": required} if required else made


def _schema(t: LogicalType) -> dict[str, Any]:
    made: dict[str, Any]
    if t.root is TypeRoot.ROW:
        made = _object([(f.name, f.type) for f in t.fields])
    elif t.root is TypeRoot.ARRAY and t.element is not None:
        made = {"type": "array", "items": _schema(t.element)}
    elif t.root is TypeRoot.MAP and t.element is not None:
        made = {"type": "object", "additionalProperties": _schema(t.element)}
    else:
        # Moments and bytes are texts.
        made = {"type": "integer" if is_integer(t) else _TYPES.get(t.root, "string")}
    return {"oneOf": [{"type": "null"}, made]} if t.nullable and t.root is not TypeRoot.NULL else made
