"""Lines of JSON as batches: DuckDB takes the objects apart, Arrow turns the texts of their values into columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.formats.blocks import Block, after_last_newline, read_blocks
from runtime.formats.boolean_option import is_true
from runtime.formats.file_rows import FileRows
from runtime.formats.json_objects import take_apart
from runtime.formats.rejection import undecodable
from runtime.formats.row_count import empty_columns
from runtime.formats.text_values import find_unparsable, parse_decimals, parse_text
from sqlstream.arrow import to_arrow_type
from sqlstream.schema import Schema
from sqlstream.spi.format import Rejected
from sqlstream.types import LogicalType, TypeRoot, is_integer

_RAW_NUMBERS = "$raw_numbers"
"""With a DECIMAL among the fields asked for, DuckDB keeps numbers as they are written instead of as doubles."""


JSON_BLOCK_BYTES = 8 << 20
"""DuckDB takes larger pieces apart a fifth faster than small ones; a poll should still end within 0.1 s."""


class JsonReader(FileRows):
    """Decode the requested fields block by block.

    All values are asked for as text, at every depth, so that what is no value of the column's type is found and never
    bent into one.
    """

    def __init__(
        self,
        stream: BinaryIO,
        path: str,
        schema: Schema,
        columns: tuple[str, ...],
        options: dict[str, str],
        skip_rows: int,
    ) -> None:
        super().__init__(stream, path, schema, columns, skip_rows)
        self._ignores_errors = is_true(options, "ignore-parse-errors")
        self._needs_fields = is_true(options, "fail-on-missing-field")
        self._structure = _sql_literal(json.dumps(_structure(self._types)))

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for block in read_blocks(self._stream, self._path, after_last_newline, JSON_BLOCK_BYTES):
            yield self._decode(block)

    def _decode(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected]]:
        lines = _lines(block)
        try:
            values = self._objects(lines.cast(pa.string()))
            if values.null_count or self._needs_fields:
                return self._decode_doubtful(block, lines)
            return self._convert(values), []
        except pa.ArrowInvalid:
            # Which line is at fault, a closer look at the lines will tell.
            return self._decode_doubtful(block, lines)

    def _objects(self, lines: pa.Array) -> pa.StructArray:
        if not len(lines):
            return pa.array([], _text_type_of(self._types))
        return take_apart(lines, self._structure)

    def _convert(self, values: pa.StructArray) -> pa.RecordBatch:
        if not self._types:
            return empty_columns(len(values))
        parts = values.flatten()
        columns = [_parse(part, t) for part, t in zip(parts, self._types.values(), strict=False)]
        return pa.RecordBatch.from_arrays(columns, names=list(self._types))

    # --- line by line -------------------------------------------------------------------------------------------------

    def _decode_doubtful(self, block: Block, lines: pa.Array) -> tuple[pa.RecordBatch, list[Rejected]]:
        reasons = dict.fromkeys(
            find_unparsable(lines, lambda part: part.cast(pa.string())), "it is no text in UTF-8"
        )
        is_text = np.ones(len(lines), dtype=bool)
        is_text[list(reasons)] = False
        texts = pc.if_else(pa.array(is_text), lines, b"").cast(pa.string())
        rows = np.flatnonzero(~_mask(pc.equal(pc.ascii_trim_whitespace(texts), "")))
        is_object = self._check(texts.take(pa.array(rows)), "json_valid(a0) AND json_type(a0) = 'OBJECT'")
        reasons.update((int(row), "it is no JSON object") for row in rows[~is_object])
        rows = rows[is_object]
        if self._needs_fields and self._types:
            strict = f"try(json_transform_strict(a0, {self._structure_without_marker()})) IS NOT NULL"
            has_all = self._check(texts.take(pa.array(rows)), strict)
            reasons.update((int(row), "a field is missing") for row in rows[~has_all])
            rows = rows[has_all]
        values = self._objects(texts.take(pa.array(rows)))
        is_good = np.ones(len(rows), dtype=bool)
        for (name, t), part in zip(self._types.items(), values.flatten(), strict=False):
            for row in find_unparsable(part, partial(_parse, t=t)):
                is_good[row] = False
                value = json.dumps(part[row].as_py(), ensure_ascii=False)[:60]
                reasons.setdefault(
                    int(rows[row]),
                    f'{value} in field "{name}" is no {t.without_time_attribute().with_nullable(True)}',
                )
        rejected = [self._reject(block, lines, row, reasons[row]) for row in sorted(reasons)]
        return self._convert(values.filter(pa.array(is_good))), rejected

    def _structure_without_marker(self) -> str:
        structure = _structure(self._types)
        structure.pop(_RAW_NUMBERS, None)
        return _sql_literal(json.dumps(structure))

    @staticmethod
    def _check(lines: pa.Array, condition: str) -> np.ndarray[Any, Any]:
        if not len(lines):
            return np.zeros(0, dtype=bool)
        return _mask(pc.fill_null(evaluate_in_duckdb(f"coalesce(try({condition}), false)", lines), False))

    def _reject(self, block: Block, lines: pa.Array, row: int, reason: str) -> Rejected:
        text = lines[row].as_py().decode("utf-8", "replace").rstrip("\r\n")
        rejected = Rejected(block.first_line + row, reason, text)
        if not self._ignores_errors:
            raise undecodable(self._path, rejected, "json.ignore-parse-errors")
        return rejected


def _mask(booleans: pa.Array) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def _lines(block: Block) -> pa.Array:
    """The lines where they stand in the block, each with its line end, which is white space to JSON."""
    ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == 10) + 1
    if not len(ends) or ends[-1] != len(block.data):
        ends = np.append(ends, len(block.data))
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
    )


def _structure(types: dict[str, LogicalType]) -> dict[str, Any]:
    structure = {name: _text_structure(t) for name, t in types.items()}
    if any(_holds_decimal(t) for t in types.values()):
        structure[_RAW_NUMBERS] = "DECIMAL(1,0)"
    return structure or {_RAW_NUMBERS: "VARCHAR"}


def _text_structure(t: LogicalType) -> Any:
    match t.root:
        case TypeRoot.ROW:
            return {f.name: _text_structure(f.type) for f in t.fields}
        case TypeRoot.ARRAY:
            assert t.element is not None
            return [_text_structure(t.element)]
        case TypeRoot.MAP:
            assert t.element is not None
            return f"MAP(VARCHAR, {_text_sql_type(t.element)})"
        case _:
            return "VARCHAR"


def _text_sql_type(t: LogicalType) -> str:
    match t.root:
        case TypeRoot.ROW:
            fields = ", ".join(f"{_sql_name(f.name)} {_text_sql_type(f.type)}" for f in t.fields)
            return f"STRUCT({fields})"
        case TypeRoot.ARRAY:
            assert t.element is not None
            return f"{_text_sql_type(t.element)}[]"
        case TypeRoot.MAP:
            assert t.element is not None
            return f"MAP(VARCHAR, {_text_sql_type(t.element)})"
        case _:
            return "VARCHAR"


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _holds_decimal(t: LogicalType) -> bool:
    parts = (t.element, t.key, *(f.type for f in t.fields))
    return t.root is TypeRoot.DECIMAL or any(_holds_decimal(part) for part in parts if part is not None)


def _text_type_of(types: dict[str, LogicalType]) -> pa.DataType:
    return pa.struct([(name, _text_type(t)) for name, t in types.items()])


def _text_type(t: LogicalType) -> pa.DataType:
    """The Arrow type of a value whose scalars are all text."""
    match t.root:
        case TypeRoot.ROW:
            return pa.struct([(f.name, _text_type(f.type)) for f in t.fields])
        case TypeRoot.ARRAY:
            assert t.element is not None
            return pa.list_(_text_type(t.element))
        case TypeRoot.MAP:
            assert t.element is not None
            return pa.map_(pa.string(), _text_type(t.element))
        case _:
            return pa.string()


def _parse(column: pa.Array, t: LogicalType) -> pa.Array:
    """Texts, at any depth, as values; ArrowInvalid when one of them is none."""
    match t.root:
        case TypeRoot.ROW:
            parts = [_parse(part, f.type) for part, f in zip(column.flatten(), t.fields, strict=True)]
            fields = [pa.field(f.name, p.type) for f, p in zip(t.fields, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())
        case TypeRoot.ARRAY:
            assert t.element is not None
            values = _parse(column.flatten(), t.element)
            return pa.ListArray.from_arrays(
                _offsets(column), values, type=to_arrow_type(t), mask=column.is_null()
            )
        case TypeRoot.MAP:
            assert t.key is not None
            assert t.element is not None
            entries = _entries(column)
            return pa.MapArray.from_arrays(
                _offsets(column),
                _parse(entries.field(0), t.key),
                _parse(entries.field(1), t.element),
                type=to_arrow_type(t),
                mask=column.is_null(),
            )
        case TypeRoot.BOOLEAN:
            return _parse_boolean(column)
        case _ if is_integer(t):
            return _parse_integer(column, t)
        case _:
            return parse_text(column, t)


def _entries(column: pa.MapArray) -> pa.StructArray:
    """The entries of all maps that are not NULL, in the order of `_offsets`."""
    entry = pa.StructArray.from_arrays([column.keys, column.items], ["key", "value"])
    maps = pa.ListArray.from_buffers(
        pa.list_(entry.type), len(column), column.buffers()[:2], column.null_count, column.offset, [entry]
    )
    return maps.flatten()


def _offsets(column: pa.Array) -> pa.Array:
    """Where each list would begin if the elements of those that are not NULL stood one behind the other."""
    if pa.types.is_map(column.type):
        starts = np.frombuffer(column.buffers()[1], dtype=np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        lengths = np.where(_mask(column.is_valid()), np.diff(starts), 0)
    else:
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))


def _parse_boolean(column: pa.Array) -> pa.Array:
    if pc.any(pc.is_in(column, value_set=pa.array(["0", "1"]))).as_py():
        raise pa.ArrowInvalid("a number is no boolean")
    return parse_text(column, LogicalType(TypeRoot.BOOLEAN))


def _parse_integer(column: pa.Array, t: LogicalType) -> pa.Array:
    try:
        return parse_text(column, t)
    except pa.ArrowInvalid:
        # JSON knows no integers: 2.0 and 2e3 are such numbers too, as long as nothing is lost.
        whole = parse_decimals(column, pa.decimal128(38, 18))
        return pc.cast(whole, to_arrow_type(t))
