"""Formats `debezium-json`, `canal-json`, `maxwell-json` and `ogg-json`."""

from __future__ import annotations

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.formats.change_events.metadata import (
    CANAL_METADATA,
    DEBEZIUM_METADATA,
    MAXWELL_METADATA,
    OGG_METADATA,
    EventMetadata,
)
from sqlstream.runtime.formats.change_events.options import (
    CanalOptions,
    ChangeEventOptions,
    DebeziumOptions,
    json_options,
)
from sqlstream.runtime.formats.json import Json
from sqlstream.schema import Schema
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor, ReadRequest
from sqlstream.spi.table_options import descriptors_of, parse_options

if TYPE_CHECKING:
    from sqlstream.runtime.formats.change_events.events import ChangeEventFormat


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
        from sqlstream.runtime.formats.change_events.writer import ChangeEventWriter

        return ChangeEventWriter(stream, schema, json_options(options), self.events(options))

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
