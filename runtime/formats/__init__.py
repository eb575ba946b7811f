"""The hand-written list of formats: one line each. A module is imported when its format is first asked for."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from runtime.registry import Descriptors, make_named
from sqlstream.spi.format import Format, FormatDescriptor

FORMATS: dict[str, str] = {
    "canal-json": "runtime.formats.change_events.formats:CanalJson",
    "csv": "runtime.formats.csv:Csv",
    "debezium-json": "runtime.formats.change_events.formats:DebeziumJson",
    "json": "runtime.formats.json:Json",
    "maxwell-json": "runtime.formats.change_events.formats:MaxwellJson",
    "ogg-json": "runtime.formats.change_events.formats:OggJson",
    "parquet": "runtime.formats.parquet:Parquet",
    "raw": "runtime.formats.raw:Raw",
}
"""Identifier, as in `'format' = '…'`, to `module:Class`."""


@functools.cache
def format_of(identifier: str) -> Format:
    """The format of that name. UserError SS4004 with a suggestion when there is none."""
    made: Format = make_named("format", "SS4004", FORMATS, identifier)
    return made


def descriptors() -> Mapping[str, FormatDescriptor]:
    """The descriptors of all formats, for the planner."""
    return Descriptors(FORMATS, lambda identifier: format_of(identifier).descriptor)


def format_options(identifier: str, options: dict[str, str]) -> dict[str, str]:
    """The options of the format among those of a table, without the format's prefix."""
    prefix = f"{identifier}."
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
