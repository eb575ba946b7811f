"""JSON objects taken apart by DuckDB."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa

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
