"""JSON objects taken apart by DuckDB."""

from __future__ import annotations

import json
import threading
from typing import Any

import pyarrow as pa

from sqlstream.types import LogicalType, TypeRoot

_RAW_NUMBERS = "$raw_numbers"
"""A field of no line. Asked for as DECIMAL, it makes DuckDB keep numbers as they are written instead of as doubles."""

_local = threading.local()


def _connection() -> Any:
    """One connection a thread, with one thread of its own: the task's thread is the unit of parallelism."""
    found = getattr(_local, "connection", None)
    if found is None:
        import duckdb

        found = _local.connection = duckdb.connect(":memory:", config={"threads": 1})
    return found


def take_apart(lines: pa.Array, structure: str) -> pa.StructArray:
    """The fields that `structure`, a literal for DuckDB's json_transform, asks for; NULL for a line that is no object.

    ArrowInvalid when a line is no JSON.
    """
    import duckdb

    connection = _connection()
    connection.register("lines", pa.table({"line": lines}))
    try:
        # A relation hands over its rows as they are; the result of `execute` would copy them once more.
        taken = connection.sql(
            f"SELECT json_transform(line, {structure}) AS fields FROM lines"
        ).to_arrow_table()
    except (duckdb.Error, UnicodeDecodeError) as error:
        # DuckDB's message quotes the line, and may cut it within a character: then there is no error to decode.
        raise pa.ArrowInvalid(str(error).split("\n", 1)[0]) from error
    finally:
        connection.unregister("lines")
    return taken.column(0).combine_chunks()


def structure_of(types: dict[str, LogicalType], *, keeps_numbers: bool) -> str:
    """The literal for `take_apart` that asks for these fields, all their values as text.

    `keeps_numbers`: as they are written, not as doubles are printed.
    """
    structure = {name: _text_structure(t) for name, t in types.items()}
    if keeps_numbers or not structure:
        structure[_RAW_NUMBERS] = "DECIMAL(1,0)" if keeps_numbers else "VARCHAR"
    return _sql_literal(json.dumps(structure))


def holds_decimal(t: LogicalType) -> bool:
    """Whether a DECIMAL stands anywhere in a type: its digits must be kept as they are written."""
    parts = (t.element, t.key, *(f.type for f in t.fields))
    return t.root is TypeRoot.DECIMAL or any(holds_decimal(part) for part in parts if part is not None)


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
