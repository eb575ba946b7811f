"""Values as text, as CAST to STRING gives them, and nested values in the same manner."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

NULL_IN_CAST = "NULL"
"""What CAST to STRING gives for a NULL within an array, map or row, as in Flink: it is not told from the text."""


def sql_texts(
    column: pa.Array, type_: LogicalType, time_zone: str, nested_null: str = NULL_IN_CAST
) -> pa.Array:
    """Each value as text; NULL stays NULL, and is `nested_null` within arrays, maps and rows."""

    def filled(values: pa.Array, inner: LogicalType) -> list[str]:
        texts: list[str] = sql_texts(values, inner, time_zone, nested_null).fill_null(nested_null).to_pylist()
        return texts

    match type_.root:
        case TypeRoot.NULL:
            return pa.nulls(len(column), pa.string())
        case _ if type_.root in (*sql.STRING_ROOTS, TypeRoot.VARIANT):
            return column
        case _ if type_.root in sql.BINARY_ROOTS:
            return pa.array([None if v is None else f"x'{v.hex()}'" for v in column.to_pylist()], pa.string())
        case TypeRoot.ARRAY:
            assert type_.element is not None
            return _listed(column, filled(column.values, type_.element), "[", "]")
        case TypeRoot.MAP | TypeRoot.MULTISET:
            key, item = (type_.key, type_.element) if type_.key else (type_.element, sql.INT)
            assert key is not None
            assert item is not None
            keys, items = filled(column.keys, key), filled(column.items, item)
            return _listed(column, [f"{k}={v}" for k, v in zip(keys, items, strict=True)], "{", "}")
        case TypeRoot.ROW:
            fields = [filled(c, f.type) for c, f in zip(column.flatten(), type_.fields, strict=True)]
            texts = [f"({', '.join(values)})" for values in zip(*fields, strict=True)]
            return pa.array(texts, pa.string(), mask=column.is_null().to_numpy(zero_copy_only=False))
        case _:
            from sqlstream.runtime.evaluate.cast_to_text import text_writer

            return text_writer(type_, time_zone)(column)


def _listed(column: pa.Array, items: Sequence[str], opening: str, closing: str) -> pa.Array:
    """For each value of the nested `column`, the texts of its elements in brackets."""
    offsets = column.offsets.to_pylist()
    ranges = zip(offsets[:-1], offsets[1:], column.is_valid().to_pylist(), strict=True)
    texts = [opening + ", ".join(items[a:b]) + closing if valid else None for a, b, valid in ranges]
    return pa.array(texts, pa.string())
