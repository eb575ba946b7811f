"""Formats `debezium-json`, `canal-json`, `maxwell-json` and `ogg-json`."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, without_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.formats.change_events.events import ChangeEventFormat
from sqlstream.runtime.formats.change_events.metadata import (
    CANAL_METADATA,
    DEBEZIUM_METADATA,
    MAXWELL_METADATA,
    OGG_METADATA,
    EventMetadata,
)
from sqlstream.runtime.formats.json import Json
from sqlstream.runtime.formats.json_options import JsonOptions, JsonTextOptions
from sqlstream.runtime.formats.json_writer import JsonWriter
from sqlstream.runtime.formats.text_values import joined_lines
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
class ChangeEventOptions(JsonTextOptions):
    """What every one of the formats takes; options that format `json` has too mean the same there."""

    ignores_errors: bool = option(
        "ignore-parse-errors",
        OptionType.BOOLEAN,
        "Whether undecodable events are counted and written to a separate file instead of failing the job.",
        "false",
    )


@dataclass(frozen=True, kw_only=True)
class DebeziumOptions(ChangeEventOptions):
    """The options of `debezium-json`."""

    placeholder: str = option(
        "unavailable-value-placeholder",
        OptionType.STRING,
        "What stands for a value that the log does not have, as `unavailable.value.placeholder` of the connector.",
        "__debezium_unavailable_value",
    )
    decimals: str = option(
        "decimal-handling-mode",
        OptionType.ENUM,
        "What a DECIMAL in quotes is, as `decimal.handling.mode` of the connector: bytes in base64 (`precise`) or digits"
        " (`string`, `double`). With `auto` the schema of the event says it, or the values do.",
        "auto",
        choices=("auto", "precise", "string", "double"),
    )
    time_unit: str = option(
        "time-unit",
        OptionType.ENUM,
        "The unit of a number for a TIMESTAMP or TIME whose event has no schema. With `auto` that of the column's precision,"
        " as with `time.precision.mode` = `adaptive` of the connector: milliseconds up to 3, microseconds up to 6, nanoseconds"
        " up to 9.",
        "auto",
        choices=("auto", "milliseconds", "microseconds", "nanoseconds"),
    )
    has_schema: bool = option(
        "schema-include",
        OptionType.BOOLEAN,
        "Whether each event is the payload beside its schema, as Kafka Connect's JSON converter writes it.",
        "false",
    )


@dataclass(frozen=True, kw_only=True)
class CanalOptions(ChangeEventOptions):
    """The options of `canal-json`."""

    databases: str | None = option(
        "database.include", OptionType.STRING, "A regular expression: only events of such databases are read."
    )
    tables: str | None = option(
        "table.include", OptionType.STRING, "A regular expression: only events of such tables are read."
    )


def json_options(options: dict[str, str]) -> dict[str, str]:
    """Those of the options that the rows within an event are read and written by."""
    shared = {d.key for d in descriptors_of(JsonOptions)}
    return {key: value for key, value in options.items() if key in shared}


_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


class _ChangeEvents(ABC):
    """What the formats share: all but the envelope."""

    descriptor: ClassVar[FormatDescriptor]
    metadata: ClassVar[Mapping[str, EventMetadata]]

    @abstractmethod
    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        """The envelope of a table with these options."""

    def reader(self, request: ReadRequest) -> FileReader:
        return self.make_reader(request.options)(
            dataclasses.replace(request, options=json_options(request.options)),
            self.events(request.options),
            self.metadata,
        )

    def make_reader(self, options: dict[str, str]) -> Callable[..., FileReader]:
        """What makes the reader of a table with these options, of the arguments of ChangeEventReader."""
        from sqlstream.runtime.formats.change_events.reader import ChangeEventReader

        return ChangeEventReader

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        return ChangeEventWriter(stream, schema, json_options(options), self.events(options))

    def message_reader(self, request: MessageRequest) -> MessageReader:
        from sqlstream.runtime.formats.json_reader import JsonReader
        from sqlstream.runtime.formats.messages import JsonMessages, read_request

        reader = self.reader(read_request(request))
        assert isinstance(reader, JsonReader)
        return JsonMessages(reader)

    def message_writer(self, schema: Schema, options: dict[str, str]) -> MessageWriter:
        from sqlstream.runtime.formats.messages import LineMessages

        return LineMessages(lambda stream: self.writer(stream, schema, options))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Json().validate(schema, json_options(options))


def _descriptor(
    identifier: str,
    options: type[Any],
    metadata: Mapping[str, EventMetadata],
    *,
    leaves_out_values: bool = False,
) -> FormatDescriptor:
    return FormatDescriptor(
        identifier,
        descriptors_of(options),
        ".json",
        is_text=True,
        has_messages=True,
        source_mode=ChangelogMode.RETRACT,
        sink_mode=ChangelogMode.RETRACT,
        reads_events=True,
        leaves_out_values=leaves_out_values,
        metadata={key: each.type for key, each in metadata.items()},
        varying_metadata=frozenset(key for key, each in metadata.items() if each.varies),
    )


class DebeziumJson(_ChangeEvents):
    metadata = DEBEZIUM_METADATA
    descriptor = _descriptor("debezium-json", DebeziumOptions, metadata, leaves_out_values=True)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from sqlstream.runtime.formats.change_events.debezium import DEBEZIUM, DebeziumWithSchema

        return DebeziumWithSchema() if parse_options(DebeziumOptions, options).has_schema else DEBEZIUM

    def make_reader(self, options: dict[str, str]) -> Callable[..., FileReader]:
        from sqlstream.runtime.formats.change_events.encodings import Encodings
        from sqlstream.runtime.formats.change_events.whole_rows_reader import DebeziumReader

        given = parse_options(DebeziumOptions, options)
        encodings = Encodings(
            time_unit=_UNITS.get(given.time_unit),
            decimals=None if given.decimals == "auto" else given.decimals,
        )
        return functools.partial(
            DebeziumReader,
            keeps_nulls=not given.leaves_out_nulls,
            encodings=encodings,
            placeholder=given.placeholder,
            has_schema=given.has_schema,
        )

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        if parse_options(DebeziumOptions, options).has_schema:
            raise UserError(
                "SS4006",
                "a table of format \"debezium-json\" with 'debezium-json.schema-include' can only be read",
                hint="leave the option out, and the events are written without their schema",
            )
        return super().writer(stream, schema, options)


class OggJson(_ChangeEvents):
    metadata = OGG_METADATA
    descriptor = _descriptor("ogg-json", ChangeEventOptions, metadata, leaves_out_values=True)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from sqlstream.runtime.formats.change_events.debezium import OGG

        return OGG

    def make_reader(self, options: dict[str, str]) -> Callable[..., FileReader]:
        from sqlstream.runtime.formats.change_events.whole_rows_reader import WholeRowsReader

        keeps_nulls = not parse_options(ChangeEventOptions, options).leaves_out_nulls
        return functools.partial(WholeRowsReader, keeps_nulls=keeps_nulls, logs_nulls=False)


class CanalJson(_ChangeEvents):
    metadata = CANAL_METADATA
    descriptor = _descriptor("canal-json", CanalOptions, metadata)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from sqlstream.runtime.formats.change_events.differences import Canal

        given = parse_options(CanalOptions, options)
        return Canal(given.databases, given.tables)


class MaxwellJson(_ChangeEvents):
    metadata = MAXWELL_METADATA
    descriptor = _descriptor("maxwell-json", ChangeEventOptions, metadata)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from sqlstream.runtime.formats.change_events.differences import Maxwell

        return Maxwell()


# A changelog as lines of change events: a row that goes is a deletion, one that comes an insertion, as Flink writes
# them.


class ChangeEventWriter(JsonWriter):
    """Writes one event for each row. No state but the stream."""

    def __init__(
        self, stream: BinaryIO, schema: Schema, options: dict[str, str], format_: ChangeEventFormat
    ) -> None:
        super().__init__(stream, schema, options)
        self._format = format_

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        is_insert, batch = insertions(batch)
        texts = self.object_texts(batch.columns, self._schema.names, self._schema.types)
        self._stream.write(joined_lines(self._format.event_texts(texts, is_insert), b"\n"))


def insertions(batch: pa.RecordBatch) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], pa.RecordBatch]:
    """Which rows are added, rather than removed, and the rows without their kinds."""
    if not is_changelog(batch):
        return np.ones(batch.num_rows, dtype=bool), batch
    return np.asarray(is_accumulate(row_kinds(batch)), dtype=bool), without_row_kinds(batch)
