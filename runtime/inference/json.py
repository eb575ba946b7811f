"""Columns of files with a JSON object on each line: DuckDB infers the types, and the reader of format `json` has the last
word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.runtime.formats.json_objects import JsonObjects, parse_values
from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.runtime.inference.duckdb_sniffer import DATE_FORMAT, first_line, nested_type, sniffing
from sqlstream.runtime.inference.samples import are_cut, cannot_infer, read_samples
from sqlstream.schema import Field, Schema
from sqlstream.spi.files import FileStatus
from sqlstream.spi.table_options import parse_options
from sqlstream.types import LogicalType, TypeRoot

_TEMPORAL = (TypeRoot.DATE, TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_TWINS = "an object within its objects has two fields that differ in case alone"
_RENAMED = re.compile(r"_\d+$")
"""DuckDB numbers the second of two names that differ in case alone."""


def infer_json(found: list[FileStatus], options: dict[str, str], files: Any) -> Schema:
    """The columns of the files: all fields of their objects, in the order in which they appear. `options` are those of format
    `json` that the user gives."""
    samples = read_samples(found, files)
    for path, sample in samples:
        if sample.lstrip()[:1] != b"{":
            kind = "a JSON array" if sample.lstrip()[:1] == b"[" else "no JSON object"
            hint = "write one object on each line; jq -c '.[]' does it for an array"
            raise cannot_infer(path, f"it begins with {kind}", hint)
    text = b"\n".join(sample.strip() for _, sample in samples)
    ignores_errors = parse_options(JsonOptions, options).ignores_errors
    return _readable(text, _sniffed(samples[0][0], text, ignores_errors))


def _sniffed(path: str, text: bytes, ignores_errors: bool) -> Schema:
    import duckdb

    try:
        with sniffing(text) as (connection, sample):
            found = connection.sql(
                "FROM read_json($path, format = 'newline_delimited', sample_size = -1, dateformat = $date,"
                " ignore_errors = $ignores)",
                params={"path": sample, "date": DATE_FORMAT, "ignores": ignores_errors},
            )
            names, types = list(found.columns), [nested_type(t) for t in found.types]
            within = [name for t in types for name in _names_within(t)]
            if names == ["json"] or any(_RENAMED.search(name) for name in names + within):
                names = _names(path, names, within, connection, sample)
            return Schema(tuple(Field(name, t) for name, t in zip(names, types, strict=True)))
    except (duckdb.Error, UnicodeDecodeError) as error:
        if "Duplicate name" in str(error):
            raise cannot_infer(path, _TWINS) from error
        hint = "write one object on each line; jq -c . does it"
        raise cannot_infer(path, "it is not one JSON object on each line", hint, first_line(error)) from error


def _names_within(t: LogicalType) -> Iterator[str]:
    for field in t.fields:
        yield field.name
        yield from _names_within(field.type)
    if t.element is not None:
        yield from _names_within(t.element)


def _names(path: str, names: list[str], within: list[str], connection: Any, sample: str) -> list[str]:
    """The names of the columns as they stand in the objects. UserError SS5024 where objects have no fields, or where names
    within columns are made up for two that differ in case alone."""
    grouped = connection.execute("SELECT json_group_structure(json) FROM read_ndjson_objects(?)", [sample])
    structure = json.loads(grouped.fetchone()[0])
    if names == ["json"] and list(structure) != names:
        raise cannot_infer(path, "its objects have no fields that could be columns")
    if not set(within) <= set(_keys(structure)):
        raise cannot_infer(path, _TWINS)
    return list(structure)


def _keys(structure: Any) -> Iterator[str]:
    if isinstance(structure, list):
        for part in structure:
            yield from _keys(part)
    elif isinstance(structure, dict):
        for key, part in structure.items():
            yield key
            yield from _keys(part)


def _readable(text: bytes, schema: Schema) -> Schema:
    """The columns, with STRING for those of which the format's reader would refuse a value, or cut it."""
    lines = pa.array([line for line in text.splitlines() if line.strip()], pa.binary())
    try:
        texts = lines.cast(pa.string())
    except pa.ArrowInvalid:
        # The reader names the line that is no text.
        return schema
    texts = texts.filter(pa.array(JsonObjects(texts, {}).is_object))
    return Schema(tuple(Field(f.name, _readable_type(f, texts)) for f in schema.fields))


def _readable_type(field: Field, lines: pa.Array) -> LogicalType:
    check_not_given_up()
    for t in (field.type, _without_times(field.type)):
        if _reads(field.name, t, lines):
            return t
    return sql.STRING


def _reads(name: str, t: LogicalType, lines: pa.Array) -> bool:
    objects = JsonObjects(lines, {name: t})
    if objects.is_misshapen[name].any():
        return False
    values = objects.values.field(0)
    try:
        parse_values(values, t)
    except pa.ArrowInvalid:
        return False
    return not _is_cut(values, t)


def _is_cut(values: pa.Array, t: LogicalType) -> bool:
    """Whether a text, at any depth, has more digits of a second than its type keeps."""
    if t.fields:
        return any(_is_cut(part, f.type) for part, f in zip(values.flatten(), t.fields, strict=True))
    if t.element is not None:
        return _is_cut(values.items if t.key is not None else values.flatten(), t.element)
    return are_cut(values, t)


def _without_times(t: LogicalType) -> LogicalType:
    """The type with STRING for dates and times at any depth."""
    if t.root in _TEMPORAL:
        return sql.STRING
    if t.fields:
        return sql.row(*[(f.name, _without_times(f.type)) for f in t.fields])
    if t.key is not None and t.element is not None:
        return sql.map_of(t.key, _without_times(t.element))
    return sql.array(_without_times(t.element)) if t.element is not None else t
