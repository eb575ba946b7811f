"""The hand-written list of formats: one line each. A module is imported when its format is first asked for."""

from __future__ import annotations

import functools
import importlib

from sqlstream.errors import UserError, did_you_mean
from sqlstream.spi.format import Format, FormatDescriptor

FORMATS: dict[str, str] = {
    "csv": "runtime.formats.csv:Csv",
    "json": "runtime.formats.json:Json",
    "parquet": "runtime.formats.parquet:Parquet",
    "raw": "runtime.formats.raw:Raw",
}
"""Identifier, as in `'format' = '…'`, to `module:Class`."""


@functools.cache
def format_of(identifier: str) -> Format:
    """The format of that name. UserError SS4004 with a suggestion when there is none."""
    found = FORMATS.get(identifier)
    if found is None:
        hint = did_you_mean(identifier, list(FORMATS)) or f"choose one of {', '.join(sorted(FORMATS))}"
        raise UserError("SS4004", f'unknown format "{identifier}"', hint=hint)
    module, _, name = found.partition(":")
    made: Format = getattr(importlib.import_module(module), name)()
    return made


def descriptors() -> dict[str, FormatDescriptor]:
    """What the planner is told of every format."""
    return {identifier: format_of(identifier).descriptor for identifier in FORMATS}


def format_options(identifier: str, options: dict[str, str]) -> dict[str, str]:
    """The options of the format among those of a table, without the format's prefix."""
    prefix = f"{identifier}."
    return {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
