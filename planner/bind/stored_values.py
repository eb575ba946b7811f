"""A value in the type of the column that it is written into."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sqlstream import config as settings
from sqlstream import types as sql
from sqlstream.errors import Span
from sqlstream.expressions import Expression
from sqlstream.planner.bind.casts import cast_to
from sqlstream.types import LogicalType, TypeRoot

_NESTED = "table.exec.sink.nested-constraint-enforcer"
_TYPE_LENGTHS = "table.exec.sink.type-length-enforcer"


def stored_value(
    value: Expression, column: LogicalType, span: Span | None, config: Mapping[str, str]
) -> Expression:
    """The implicit cast. Where the sink refuses values that are too long, one that may be stays as long as it is: the cast would
    cut it off before the sink sees it."""
    is_text = sql.is_string(column) and sql.is_string(value.type)
    is_bytes = column.root in sql.BINARY_ROOTS and value.type.root in sql.BINARY_ROOTS
    is_longer = (is_text or is_bytes) and value.type.length > column.length
    if settings.get(config, _TYPE_LENGTHS) == "ERROR":
        if is_longer:
            column = _unbounded(column)
        elif (depth := settings.get(config, _NESTED)) != "IGNORE":
            column = _with_unbounded_parts(column, collections=depth == "ROWS_AND_COLLECTIONS")
    return cast_to(value, column, span)


def _unbounded(t: LogicalType) -> LogicalType:
    if sql.is_string(t):
        return sql.STRING.with_nullable(t.nullable)
    return sql.BYTES.with_nullable(t.nullable) if t.root in sql.BINARY_ROOTS else t


def _with_unbounded_parts(t: LogicalType, *, collections: bool) -> LogicalType:
    """The type whose parts that the sink looks into are as long as they like."""

    def changed(part: LogicalType) -> LogicalType:
        return _with_unbounded_parts(_unbounded(part), collections=collections)

    if t.root is TypeRoot.ROW:
        fields = tuple(msgspec.structs.replace(f, type=changed(f.type)) for f in t.fields)
        return msgspec.structs.replace(t, fields=fields)
    if not collections or t.root not in (TypeRoot.ARRAY, TypeRoot.MAP):
        return t
    key = None if t.key is None else changed(t.key)
    return msgspec.structs.replace(t, key=key, element=None if t.element is None else changed(t.element))
