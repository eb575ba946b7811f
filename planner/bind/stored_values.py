"""A value in the type of the column that it is written into."""

from __future__ import annotations

from collections.abc import Mapping

from planner.bind.casts import cast_to
from sqlstream import config as settings
from sqlstream import types as sql
from sqlstream.errors import Span
from sqlstream.expressions import Expression
from sqlstream.types import LogicalType

_TYPE_LENGTHS = "table.exec.sink.type-length-enforcer"


def stored_value(
    value: Expression, column: LogicalType, span: Span | None, config: Mapping[str, str]
) -> Expression:
    """The implicit cast. Where the sink refuses values that are too long, one that may be stays as long as it is: the cast would
    cut it off before the sink sees it."""
    is_text = sql.is_string(column) and sql.is_string(value.type)
    is_bytes = column.root in sql.BINARY_ROOTS and value.type.root in sql.BINARY_ROOTS
    is_longer = (is_text or is_bytes) and value.type.length > column.length
    if is_longer and settings.get(config, _TYPE_LENGTHS) == "ERROR":
        column = (sql.STRING if is_text else sql.BYTES).with_nullable(column.nullable)
    return cast_to(value, column, span)
