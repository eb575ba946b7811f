"""SQL types as SQLAlchemy's, and SQLAlchemy's as SQL text."""

# ruff: noqa: N802, N815 (the names are SQLAlchemy's)

from __future__ import annotations

from typing import Any

from sqlalchemy import types
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql.compiler import GenericTypeCompiler

from sqlstream import types as sql
from sqlstream.types import LogicalType, TypeRoot

DECIMAL_DEFAULT = (38, 18)
"""Of NUMERIC without a precision: SQL's default would cut all digits after the point."""

_SIMPLE: dict[TypeRoot, type[types.TypeEngine[Any]]] = {
    TypeRoot.BOOLEAN: types.Boolean,
    TypeRoot.TINYINT: types.SmallInteger,
    TypeRoot.SMALLINT: types.SmallInteger,
    TypeRoot.INTEGER: types.Integer,
    TypeRoot.BIGINT: types.BigInteger,
    TypeRoot.FLOAT: types.Float,
    TypeRoot.DOUBLE: types.Double,
    TypeRoot.DATE: types.Date,
    TypeRoot.TIME: types.Time,
    TypeRoot.INTERVAL_YEAR_MONTH: types.Integer,
    TypeRoot.NULL: types.NullType,
}


class SqlType(types.UserDefinedType[Any]):
    """A type that SQLAlchemy has no class for, by its SQL text: MAP, ROW, MULTISET, INTERVAL. Values pass unchanged."""

    cache_ok = True

    def __init__(self, text: str) -> None:
        self.text = text

    def get_col_spec(self, **ignored: Any) -> str:
        return self.text


def column_type(type_: LogicalType) -> types.TypeEngine[Any]:
    """The SQLAlchemy type of a column.

    >>> column_type(sql.decimal(10, 2))
    Numeric(precision=10, scale=2)
    """
    simple = _SIMPLE.get(type_.root)
    if simple is not None:
        return simple()
    match type_.root:
        case TypeRoot.CHAR:
            return types.CHAR(type_.length)
        case TypeRoot.VARCHAR:
            return types.String(None if type_.length == sql.VARCHAR_LENGTH_MAX else type_.length)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return types.LargeBinary(None if type_.length == sql.VARCHAR_LENGTH_MAX else type_.length)
        case TypeRoot.DECIMAL:
            return types.Numeric(type_.precision, type_.scale)
        case TypeRoot.TIMESTAMP:
            return types.DateTime(timezone=False)
        case TypeRoot.TIMESTAMP_LTZ:
            return types.DateTime(timezone=True)
        case TypeRoot.ARRAY if type_.element is not None and type_.element.root is not TypeRoot.ARRAY:
            return types.ARRAY(column_type(type_.element))
    return SqlType(str(type_.with_nullable(True)))


class SqlStreamTypeCompiler(GenericTypeCompiler):
    """SQLAlchemy's types in the words of the dialect."""

    def visit_string(self, type_: types.String, **kw: Any) -> str:
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_text = visit_unicode = visit_unicode_text = visit_VARCHAR = visit_NVARCHAR = visit_string
    visit_TEXT = visit_CLOB = visit_string

    def visit_enum(self, type_: types.Enum, **kw: Any) -> str:
        return "STRING"

    def visit_INTEGER(self, type_: types.Integer, **kw: Any) -> str:
        return "INT"

    def visit_float(self, type_: types.Float[Any], **kw: Any) -> str:
        return "FLOAT" if type_.precision and type_.precision <= 24 else "DOUBLE"

    visit_FLOAT = visit_REAL = visit_float

    def visit_double(self, type_: types.Double[Any], **kw: Any) -> str:
        return "DOUBLE"

    visit_DOUBLE = visit_DOUBLE_PRECISION = visit_double

    def visit_numeric(self, type_: types.Numeric[Any], **kw: Any) -> str:
        precision, scale = DECIMAL_DEFAULT
        if type_.precision is not None:
            precision, scale = type_.precision, type_.scale or 0
        return f"DECIMAL({precision}, {scale})"

    visit_NUMERIC = visit_DECIMAL = visit_numeric

    def visit_datetime(self, type_: types.DateTime, **kw: Any) -> str:
        return "TIMESTAMP_LTZ(6)" if type_.timezone else "TIMESTAMP(6)"

    visit_DATETIME = visit_TIMESTAMP = visit_datetime

    def visit_time(self, type_: types.Time, **kw: Any) -> str:
        return "TIME(3)"

    visit_TIME = visit_time

    def visit_large_binary(self, type_: types.LargeBinary | types.VARBINARY, **kw: Any) -> str:
        return f"VARBINARY({type_.length})" if type_.length else "BYTES"

    visit_BLOB = visit_VARBINARY = visit_large_binary

    def visit_JSON(self, type_: types.JSON, **kw: Any) -> str:
        return "STRING"

    def visit_uuid(self, type_: types.Uuid[Any], **kw: Any) -> str:
        return "STRING"

    visit_UUID = visit_uuid

    def visit_ARRAY(self, type_: types.ARRAY[Any], **kw: Any) -> str:
        element = self.process(type_.item_type, **kw)
        for _ in range(type_.dimensions or 1):
            element = f"ARRAY<{element}>"
        return element


def type_text(type_: types.TypeEngine[Any], dialect: Dialect) -> str:
    """The SQL text of a SQLAlchemy type."""
    return str(type_.compile(dialect))
