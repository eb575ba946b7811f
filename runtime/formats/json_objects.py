"""Splits JSON objects into fields, with DuckDB."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.evaluate.duckdb_function import duckdb_connection, evaluate_in_duckdb
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot

_RAW_NUMBERS = "$raw_numbers"
"""A field that no line has. When it is requested as DECIMAL, DuckDB keeps numbers as written instead of as doubles."""


def take_apart(lines: pa.Array, structure: str) -> pa.StructArray:
    """The fields that `structure`, a literal for DuckDB's json_transform, names; NULL for a line that is no object.

    ArrowInvalid when a line is no JSON.
    """
    import duckdb

    connection = duckdb_connection()
    connection.register("lines", pa.table({"line": lines}))
    try:
        # A relation returns its rows without a copy; the result of `execute` would copy them once more.
        taken = connection.sql(
            f"SELECT json_transform(line, {structure}) AS fields FROM lines"
        ).to_arrow_table()
    except (duckdb.Error, UnicodeDecodeError) as error:
        # DuckDB's message quotes the line, and may cut it within a character: then there is no error to decode.
        raise pa.ArrowInvalid(str(error).split("\n", 1)[0]) from error
    finally:
        connection.unregister("lines")
    return taken.column(0).combine_chunks()


def holds(lines: pa.Array, condition: str) -> np.ndarray[Any, Any]:
    """bool[n]: whether a condition on `a0`, which is the line, is TRUE for it."""
    if not len(lines):
        return np.zeros(0, dtype=bool)
    booleans = evaluate_in_duckdb(f"coalesce(try({condition}), false)", lines)
    mask: np.ndarray[Any, Any] = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def structure_of(types: dict[str, LogicalType], *, keeps_numbers: bool, decimal_type: str = "VARCHAR") -> str:
    """The literal for `take_apart` that requests these fields, all their values as text.

    `keeps_numbers`: as they are written, not as doubles are printed. `decimal_type`: VARCHAR for the text of a DECIMAL, JSON for
    the text of its JSON, which has its quotes.
    """
    structure = {name: _text_structure(t, decimal_type) for name, t in types.items()}
    if keeps_numbers or not structure:
        structure[_RAW_NUMBERS] = "DECIMAL(1,0)" if keeps_numbers else "VARCHAR"
    return _sql_literal(json.dumps(structure))


def has_shape_of(types: dict[str, LogicalType]) -> str:
    """The SQL condition on an object `a0` that values of ROW, ARRAY and MAP types have that shape, or are NULL or missing.

    It is checked at every depth, because `take_apart` turns another shape into NULL. Empty when no type is nested.
    """
    return " AND ".join(
        _is_shaped(_member("a0", name), t, depth=0) for name, t in types.items() if t.root in NESTED_ROOTS
    )


def _is_shaped(value: str, t: LogicalType, depth: int) -> str:
    kind = "ARRAY" if t.root is TypeRoot.ARRAY else "OBJECT"
    conditions = [f"json_type({value}) = '{kind}'"]
    conditions += [
        _is_shaped(_member(value, f.name), f.type, depth) for f in t.fields if f.type.root in NESTED_ROOTS
    ]
    if t.element is not None and t.element.root in NESTED_ROOTS:
        part, path = f"e{depth}", "$[*]" if t.root is TypeRoot.ARRAY else "$.*"
        inner = _is_shaped(part, t.element, depth + 1)
        conditions.append(
            f"len(list_filter(json_extract({value}, '{path}'), lambda {part}: NOT {inner})) = 0"
        )
    return f"({value} IS NULL OR json_type({value}) = 'NULL' OR ({' AND '.join(conditions)}))"


def _member(value: str, name: str) -> str:
    return f"json_extract({value}, {_sql_literal('/' + pointer_part(name))})"


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


def _sql_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
