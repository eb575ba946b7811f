"""The formats that come with sqlstream, one line each, and those of other packages.

A module is imported when its format is first asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypeVar

from sqlstream.errors import UserError
from sqlstream.runtime.registry import Descriptors, make_named
from sqlstream.schema import Schema
from sqlstream.specs import EventSourceSpec, SourceSpec
from sqlstream.spi.files import Files
from sqlstream.spi.format import (
    VALUE_PREFIX,
    CallsServers,
    CountsEvents,
    EventDemand,
    Format,
    FormatDescriptor,
)
from sqlstream.spi.packages import Kind

T = TypeVar("T")

FORMATS: dict[str, str] = {
    "avro": "sqlstream.runtime.formats.avro.format:Avro",
    "avro-confluent": "sqlstream.runtime.formats.avro.confluent:AvroConfluent",
    "canal-json": "sqlstream.runtime.formats.change_events.formats:CanalJson",
    "csv": "sqlstream.runtime.formats.csv:Csv",
    "debezium-avro-confluent": "sqlstream.runtime.formats.change_events.debezium_avro:DebeziumAvroConfluent",
    "debezium-json": "sqlstream.runtime.formats.change_events.formats:DebeziumJson",
    "json": "sqlstream.runtime.formats.json:Json",
    "json-registry": "sqlstream.runtime.formats.json_registry:JsonRegistry",
    "maxwell-json": "sqlstream.runtime.formats.change_events.formats:MaxwellJson",
    "ogg-json": "sqlstream.runtime.formats.change_events.formats:OggJson",
    "orc": "sqlstream.runtime.formats.columnar.orc:Orc",
    "parquet": "sqlstream.runtime.formats.columnar.parquet:Parquet",
    "protobuf": "sqlstream.runtime.formats.protobuf.format:Protobuf",
    "protobuf-confluent": "sqlstream.runtime.formats.protobuf.confluent:ProtobufConfluent",
    "raw": "sqlstream.runtime.formats.raw:Raw",
}
"""Identifier, as in `'format' = '…'`, to `module:Class`."""


@functools.cache
def format_of(identifier: str) -> Format:
    """The format of that name. UserError SS4004 with a suggestion when there is none, SS4014 to SS4016 for a package that cannot
    be used."""
    made: Format = make_named(Kind.FORMAT, "SS4004", FORMATS, identifier, FormatDescriptor)
    return made


def descriptors() -> Mapping[str, FormatDescriptor]:
    """The descriptors of all formats, for the planner."""
    return Descriptors(Kind.FORMAT, FORMATS, lambda identifier: format_of(identifier).descriptor)


def validate_format(identifier: str, prefix: str, schema: Schema, options: dict[str, str]) -> None:
    """`Format.validate`, whose errors name options as the table has them: with the prefix of the format's options. One that names
    neither an option nor a column is shown at the name of the format."""
    try:
        format_of(identifier).validate(schema, options)
    except UserError as error:
        if error.option:
            error.option = f"{prefix}.{error.option}"
        elif not error.column:
            error.option = f"{prefix.removesuffix(identifier)}format"
        raise


def event_demand(spec: SourceSpec, format_: Format) -> EventDemand:
    """What a table that is read wants of the events of its format."""
    known = format_.descriptor.metadata
    metadata = tuple(f for f in spec.metadata if f.name.removeprefix(VALUE_PREFIX) in known)
    if not isinstance(spec, EventSourceSpec):
        return EventDemand(metadata=metadata)
    return EventDemand(spec.keys, metadata, spec.columns if spec.marks_unknown else ())


def count_events(reader: CountsEvents | object, count: Callable[[str, int], None]) -> None:
    """Add to metrics what a reader has counted since the last call."""
    # To ask for each batch whether it is CountsEvents would take many times as long.
    if (take_counts := getattr(reader, "take_counts", None)) is not None:
        for metric, number in take_counts().items():
            count(metric, number)


def calling_through(made: T, files: Files) -> T:
    """A reader or writer of messages, which calls only whom these files let it call."""
    if isinstance(made, CallsServers):
        made.call_through(files)
    return made


IGNORE_PARSE_ERRORS = "ignore-parse-errors"


def can_skip_errors(identifier: str) -> bool:
    """Whether a format has the option that `skips_errors` asks for."""
    return any(option.key == IGNORE_PARSE_ERRORS for option in format_of(identifier).descriptor.options)


def skips_errors(options: Mapping[str, str]) -> bool:
    """Whether undecodable rows are counted and passed over, by the options of a format without their prefix."""
    return options.get(IGNORE_PARSE_ERRORS, "").lower() == "true"


def format_options(identifier: str, options: dict[str, str]) -> dict[str, str]:
    """The options of the format among those of a table, without the format's prefix."""
    prefix = f"{identifier}."
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
