"""Formats `debezium-json`, `canal-json`, `maxwell-json` and `ogg-json`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from runtime.formats.change_events.options import (
    CanalOptions,
    ChangeEventOptions,
    DebeziumOptions,
    json_options,
)
from runtime.formats.json import Json
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.spi.format import FileReader, FileWriter, FormatDescriptor
from sqlstream.spi.table_options import descriptors_of, parse_options

if TYPE_CHECKING:
    from runtime.formats.change_events.events import ChangeEventFormat


class _ChangeEvents(ABC):
    """What the formats share: all but the envelope."""

    descriptor: ClassVar[FormatDescriptor]

    @abstractmethod
    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        """The envelope of a table with these options."""

    def reader(
        self,
        stream: BinaryIO,
        path: str,
        schema: Schema,
        columns: tuple[str, ...],
        options: dict[str, str],
        batch_rows: int,
        skip_rows: int = 0,
        block_bytes: int | None = None,
    ) -> FileReader:
        from runtime.formats.change_events.reader import ChangeEventReader

        events = self.events(options)
        return ChangeEventReader(
            stream, path, schema, columns, json_options(options), skip_rows, events, block_bytes
        )

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        from runtime.formats.change_events.writer import ChangeEventWriter

        return ChangeEventWriter(stream, schema, json_options(options), self.events(options))

    def validate(self, schema: Schema, options: dict[str, str]) -> None:
        Json().validate(schema, json_options(options))


def _descriptor(identifier: str, options: type[Any]) -> FormatDescriptor:
    return FormatDescriptor(
        identifier,
        descriptors_of(options),
        ".json",
        is_text=True,
        source_mode=ChangelogMode.RETRACT,
        sink_mode=ChangelogMode.RETRACT,
    )


class DebeziumJson(_ChangeEvents):
    descriptor = _descriptor("debezium-json", DebeziumOptions)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from runtime.formats.change_events.debezium import DEBEZIUM, DebeziumWithSchema

        return DebeziumWithSchema() if parse_options(DebeziumOptions, options).has_schema else DEBEZIUM

    def writer(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> FileWriter:
        if parse_options(DebeziumOptions, options).has_schema:
            raise UserError(
                "SS4006",
                "a table of format \"debezium-json\" with 'debezium-json.schema-include' can only be read",
                hint="leave the option out, and the events are written without their schema",
            )
        return super().writer(stream, schema, options)


class OggJson(_ChangeEvents):
    descriptor = _descriptor("ogg-json", ChangeEventOptions)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from runtime.formats.change_events.debezium import OGG

        return OGG


class CanalJson(_ChangeEvents):
    descriptor = _descriptor("canal-json", CanalOptions)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from runtime.formats.change_events.differences import Canal

        given = parse_options(CanalOptions, options)
        return Canal(given.databases, given.tables)


class MaxwellJson(_ChangeEvents):
    descriptor = _descriptor("maxwell-json", ChangeEventOptions)

    def events(self, options: dict[str, str]) -> ChangeEventFormat:
        from runtime.formats.change_events.differences import Maxwell

        return Maxwell()
