"""Messages of format `avro-confluent`: each is read by the schema of its writer."""

from __future__ import annotations

import json

from sqlstream.errors import UserError
from sqlstream.runtime.formats.avro.confluent import written_schema
from sqlstream.runtime.formats.avro.decoder import Program, Unfit
from sqlstream.runtime.formats.avro.encoder import RowEncoder
from sqlstream.runtime.formats.confluent.messages import FramedMessages, FramedWriter
from sqlstream.runtime.formats.confluent.registry import RegisteredSchema, Registry
from sqlstream.schema import Schema
from sqlstream.spi.format import MessageRequest


class ConfluentMessages(FramedMessages):
    """Reads each message by the schema of its writer."""

    def __init__(self, request: MessageRequest) -> None:
        super().__init__(request, "AVRO")

    def compiled(self, schema: RegisteredSchema) -> Program:
        try:
            record = json.loads(schema.text)
        except ValueError as error:
            raise UserError(
                "SS5324", f"the schema {schema.number} of the registry is none of Avro"
            ) from error
        try:
            return Program(record, self.columns)
        except Unfit as error:
            raise UserError(
                "SS5324",
                f'column "{error.column}" is {error.stored} in the schema {schema.number} of the registry, the table'
                f" declares {self.columns[error.column]}",
                hint="declare the column with the type that it has there",
            ) from error

    def nothing(self) -> Program:
        """That of a schema without fields, which reads no message."""
        nullable = {name: t.with_nullable(True) for name, t in self.columns.items()}
        return Program({"type": "record", "name": "none", "fields": []}, nullable)


def confluent_writer(identifier: str, schema: Schema, options: dict[str, str]) -> FramedWriter:
    return FramedWriter(
        written_schema(identifier, schema, options), RowEncoder(schema), Registry(options, "AVRO")
    )
