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
<<<<<<< HEAD


class ConfluentMessages:
    """Reads each message by the schema of its writer. State: the schemas that it has met."""

    def __init__(self, request: MessageRequest) -> None:
        types = dict(zip(request.schema.names, request.schema.types, strict=True))
        self._columns = {name: types[name] for name in request.columns}
        self._registry = Registry(request.options)
        self._programs: dict[int, Program] = {}

    def decode(self, messages: pa.Array) -> DecodedMessages:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from sqlstream.runtime.formats.avro.messages import decoded
        from sqlstream.runtime.formats.file_rows import joined_rows

        # A message without content has no row.
        there = np.flatnonzero(messages.is_valid().to_numpy(zero_copy_only=False))
        filled = messages if len(there) == len(messages) else messages.take(pa.array(there))
        is_framed = np.asarray(pc.starts_with(filled, _MAGIC)) & (
            pc.binary_length(filled).to_numpy() >= _HEADER_BYTES
        )
        rejected = [
            Rejected(
                int(m),
                "it does not begin with a zero and the id of a schema",
                messages[m].as_py()[:_TEXT_BYTES_MAX].hex(" "),
            )
            for m in there[~is_framed].tolist()
        ]
        if rejected:
            there, filled = there[is_framed], filled.filter(pa.array(is_framed))
        ids = _ids(filled)
        numbers = np.unique(ids) if len(ids) else np.empty(0, dtype=np.int64)
        parts = []
        for number in numbers.tolist():
            places = np.flatnonzero(ids == number)
            own = filled if len(numbers) == 1 else filled.take(pa.array(places))
            parts.append(decoded(self._program(number), own, there[places], _HEADER_BYTES))
        empty = pa.array([], pa.binary())
        if not parts:
            parts.append(decoded(self._nothing(), empty, np.empty(0, dtype=np.int64)))
        found = joined_rows(parts)
        failed = sorted([*rejected, *found.rejected], key=lambda r: r.line)
        return DecodedMessages(found.batch, found.owners, failed)

    def _program(self, number: int) -> Program:
        from sqlstream.runtime.formats.avro.decoder import Program, Unfit

        if number not in self._programs:
            schema = self._registry.schema(number)
            try:
                self._programs[number] = Program(schema, self._columns)
            except Unfit as error:
                raise UserError(
                    "SS5324",
                    f'column "{error.column}" is {error.stored} in the schema {number} of the registry, the table declares'
                    f" {self._columns[error.column]}",
                    hint="declare the column with the type that it has there",
                ) from error
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise UserError(
                    "SS5324", f"the schema {number} of the registry cannot be read: {error}"
                ) from error
        return self._programs[number]

    def _nothing(self) -> Program:
        """That of a schema without fields, which reads no message."""
        from sqlstream.runtime.formats.avro.decoder import Program

        nullable = {name: t.with_nullable(True) for name, t in self._columns.items()}
        return Program({"type": "record", "name": "none", "fields": []}, nullable)


def _ids(messages: pa.Array) -> Any:
    """The ids of the schemas of messages, which have one each."""
    import numpy as np

    if not len(messages):
        return np.empty(0, dtype=np.int64)
    _, offsets, data = messages.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[messages.offset :][: len(messages)].astype(np.int64)
    digits = np.frombuffer(data, dtype=np.uint8)[starts[:, None] + np.arange(1, _HEADER_BYTES)]
    return digits.astype(np.int64) @ np.array([1 << 24, 1 << 16, 1 << 8, 1])


class ConfluentWriter:
    """Registers the schema of the table's rows before the first of them is written. State: its id."""

    def __init__(self, schema: Schema, options: dict[str, str]) -> None:
        from sqlstream.runtime.formats.avro.encoder import RowEncoder

        self._record = record_of(schema, is_legacy=parse_options(ConfluentOptions, options).is_legacy)
        self._encoder = RowEncoder(schema)
        self._registry = Registry(options)
        self._header: bytes | None = None

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._header is None:
            self._header = _MAGIC + self._registry.registered(self._record).to_bytes(4, "big")
        binary = pa.binary()
        header, nothing = pa.scalar(self._header, binary), pa.scalar(b"", binary)
        return pc.binary_join_element_wise(header, self._encoder.encode(batch), nothing)
=======
>>>>>>> 6cb23ff9 (Format protobuf, and protobuf-confluent with a registry: messages are read by a kernel from their descriptor, and written)
