"""Splits JSON objects into fields, with DuckDB."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.evaluate.duckdb_function import duckdb_connection, evaluate_in_duckdb
from sqlstream.runtime.formats.json_values import entries_of, offsets_of
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot, row

_RAW_NUMBERS = "$raw_numbers"
"""A field that no line has. When it is requested as DECIMAL, DuckDB keeps numbers as written instead of as doubles."""


@dataclass(frozen=True)
class Structure:
    """The fields that lines are split into, all their values as text.

    `keeps_numbers`: as they are written, not as doubles are printed. `decimal_type`: VARCHAR for the text of a DECIMAL, JSON for
    the text of its JSON, which has its quotes.
    """

    types: dict[str, LogicalType]
    keeps_numbers: bool
    decimal_type: str = "VARCHAR"

    def layers(self) -> list[list[str]]:
        """The names in groups of which none has two that differ in case alone: DuckDB's structs take these for one."""
        layers: list[list[str]] = [[]]
        same: Counter[str] = Counter()
        for name in self.types:
            number = same[name.lower()]
            same[name.lower()] += 1
            if number == len(layers):
                layers.append([])
            layers[number].append(name)
        return layers

    def literal(self, names: list[str]) -> str:
        """These fields as a literal for DuckDB's json_transform."""
        structure = {name: _text_structure(self.types[name], self.decimal_type) for name in names}
        if self.keeps_numbers or not structure:
            structure[_RAW_NUMBERS] = "DECIMAL(1,0)" if self.keeps_numbers else "VARCHAR"
        return sql_literal(json.dumps(structure))


def take_apart(lines: pa.Array, structure: Structure) -> pa.StructArray:
    """The fields of each line, and perhaps one more behind them; NULL for a line that is no object.

    ArrowInvalid when a line is no JSON.
    """
    layers = structure.layers()
    parts = _transform(lines, [structure.literal(names) for names in layers])
    if len(layers) == 1 and not any(_has_twins(t) for t in structure.types.values()):
        return parts[0]
    texts: dict[str, pa.Array] = {}
    for names, part in zip(layers, parts, strict=True):
        texts.update(zip(names, part.flatten(), strict=False))
    columns = [_whole(texts[name], t, structure) for name, t in structure.types.items()]
    return pa.StructArray.from_arrays(columns, names=list(structure.types), mask=parts[0].is_null())


def _transform(lines: pa.Array, literals: list[str]) -> list[pa.StructArray]:
    import duckdb

    connection = duckdb_connection()
    connection.register("lines", pa.table({"line": lines}))
    try:
        # A relation returns its rows without a copy; the result of `execute` would copy them once more.
        taken = connection.sql(
            f"SELECT {', '.join(f'json_transform(line, {literal})' for literal in literals)} FROM lines"
        ).to_arrow_table()
    except (duckdb.Error, UnicodeDecodeError) as error:
        # DuckDB's message quotes the line, and may cut it within a character: then there is no error to decode.
        raise pa.ArrowInvalid(str(error).split("\n", 1)[0]) from error
    finally:
        connection.unregister("lines")
    return [column.combine_chunks() for column in taken.columns]


def _whole(texts: pa.Array, t: LogicalType, structure: Structure) -> pa.Array:
    """The texts of a field in the shape of its type, where ROWs whose fields differ in case alone came as their JSON."""
    if not _has_twins(t):
        return texts
    if t.fields:
        fields = {f.name: f.type for f in t.fields}
        if _are_twins(t):
            return take_apart(texts, replace(structure, types=fields))
        parts = [_whole(part, f, structure) for part, f in zip(texts.flatten(), fields.values(), strict=True)]
        return pa.StructArray.from_arrays(parts, names=list(fields), mask=texts.is_null())
    assert t.element is not None
    if t.key is None:
        values = _whole(texts.flatten(), t.element, structure)
        return pa.ListArray.from_arrays(offsets_of(texts), values, mask=texts.is_null())
    entries = entries_of(texts)
    values = _whole(entries.field(1), t.element, structure)
    return pa.MapArray.from_arrays(offsets_of(texts), entries.field(0), values, mask=texts.is_null())


def _are_twins(t: LogicalType) -> bool:
    """Whether fields of a ROW differ in case alone."""
    return len({f.name.lower() for f in t.fields}) < len(t.fields)


def _has_twins(t: LogicalType) -> bool:
    parts = (t.element, *(f.type for f in t.fields))
    return _are_twins(t) or any(_has_twins(part) for part in parts if part is not None)


def holds(lines: pa.Array, condition: str) -> np.ndarray[Any, Any]:
    """bool[n]: whether a condition on `a0`, which is the line, is TRUE for it."""
    if not len(lines):
        return np.zeros(0, dtype=bool)
    booleans = evaluate_in_duckdb(f"coalesce(try({condition}), false)", lines)
    mask: np.ndarray[Any, Any] = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def has_shape_of(types: dict[str, LogicalType]) -> str:
    """The SQL condition on an object `a0` that values of ROW, ARRAY and MAP types have that shape, or are NULL or missing.

    It is checked at every depth, because `take_apart` turns another shape into NULL. Empty when no type is nested.
    """
    return " AND ".join(
        _is_shaped(_member("a0", name), t, depth=0) for name, t in types.items() if t.root in NESTED_ROOTS
    )


def _is_shaped(value: str, t: LogicalType, depth: int) -> str:
    kind = "ARRAY" if t.root is TypeRoot.ARRAY else "OBJECT"
    conditions = [f"json_type({value}) = '{kind}'", *_within(value, t, depth, _is_shaped)]
    return f"({value} IS NULL OR json_type({value}) = 'NULL' OR ({' AND '.join(conditions)}))"


def has_fields_of(types: dict[str, LogicalType]) -> str:
    """The SQL condition on an object `a0` that it has these fields, and so has each object at any depth of its values."""
    return _has_fields("a0", row(*types.items()), depth=0)


def _has_fields(value: str, t: LogicalType, depth: int) -> str:
    conditions = _within(value, t, depth, _has_fields)
    if t.fields:
        pointers = ", ".join(sql_literal("/" + pointer_part(f.name)) for f in t.fields)
        conditions.append(f"list_count(json_type({value}, [{pointers}])) = {len(t.fields)}")
    kind = "ARRAY" if t.root is TypeRoot.ARRAY else "OBJECT"
    return f"(coalesce(json_type({value}), 'NULL') <> '{kind}' OR ({' AND '.join(conditions) or 'true'}))"


def _within(
    value: str, t: LogicalType, depth: int, condition: Callable[[str, LogicalType, int], str]
) -> list[str]:
    """The condition on each part of a value whose type is nested."""
    conditions = [
        condition(_member(value, f.name), f.type, depth) for f in t.fields if f.type.root in NESTED_ROOTS
    ]
    if t.element is not None and t.element.root in NESTED_ROOTS:
        part, path = f"e{depth}", "$[*]" if t.root is TypeRoot.ARRAY else "$.*"
        inner = condition(part, t.element, depth + 1)
        conditions.append(
            f"len(list_filter(json_extract({value}, '{path}'), lambda {part}: NOT {inner})) = 0"
        )
    return conditions


def _member(value: str, name: str) -> str:
    return f"json_extract({value}, {sql_literal('/' + pointer_part(name))})"


def pointer_part(name: str) -> str:
    """The name of a member as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def shows_digits(t: LogicalType) -> bool:
    """Whether a type contains, at any depth, a DECIMAL or text, which keep the digits of a number as they are written."""
    parts = (t.element, *(f.type for f in t.fields))
    return t.root in (TypeRoot.DECIMAL, TypeRoot.CHAR, TypeRoot.VARCHAR) or any(
        shows_digits(part) for part in parts if part is not None
    )


def _text_structure(t: LogicalType, decimal_type: str) -> Any:
    match t.root:
        case TypeRoot.ROW if _are_twins(t):
            return "JSON"
        case TypeRoot.ROW:
            return {f.name: _text_structure(f.type, decimal_type) for f in t.fields}
        case TypeRoot.ARRAY:
            assert t.element is not None
            return [_text_structure(t.element, decimal_type)]
        case TypeRoot.MAP:
            assert t.element is not None
            return f"MAP(VARCHAR, {_text_sql_type(t.element, decimal_type)})"
        case TypeRoot.DECIMAL:
            return decimal_type
        case _:
            return "VARCHAR"


def _text_sql_type(t: LogicalType, decimal_type: str) -> str:
    match t.root:
        case TypeRoot.ROW if _are_twins(t):
            return "JSON"
        case TypeRoot.ROW:
            fields = ", ".join(
                f"{_sql_name(f.name)} {_text_sql_type(f.type, decimal_type)}" for f in t.fields
            )
            return f"STRUCT({fields})"
        case TypeRoot.ARRAY:
            assert t.element is not None
            return f"{_text_sql_type(t.element, decimal_type)}[]"
        case TypeRoot.MAP:
            assert t.element is not None
            return f"MAP(VARCHAR, {_text_sql_type(t.element, decimal_type)})"
        case TypeRoot.DECIMAL:
            return decimal_type
        case _:
            return "VARCHAR"


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sql_literal(text: str) -> str:
    """The text as a literal of DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"
