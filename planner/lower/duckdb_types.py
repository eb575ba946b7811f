"""Logical types and literals as DuckDB SQL.

TIMESTAMP and TIMESTAMP_LTZ are DuckDB TIMESTAMPs (LTZ: the instant in UTC); intervals are whole numbers, BIGINT milliseconds
and INTEGER months, because DuckDB's own INTERVAL orders and adds otherwise than SQL's two kinds.
"""

from __future__ import annotations

from planner.lower.refusals import refuse
from sqlstream.expressions import Literal
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

TIMESTAMP_PRECISION_MAX = 6

_PLAIN: dict[TypeRoot, str] = {
    TypeRoot.CHAR: "VARCHAR",
    TypeRoot.VARCHAR: "VARCHAR",
    TypeRoot.BOOLEAN: "BOOLEAN",
    TypeRoot.BINARY: "BLOB",
    TypeRoot.VARBINARY: "BLOB",
    TypeRoot.TINYINT: "TINYINT",
    TypeRoot.SMALLINT: "SMALLINT",
    TypeRoot.INTEGER: "INTEGER",
    TypeRoot.BIGINT: "BIGINT",
    TypeRoot.FLOAT: "FLOAT",
    TypeRoot.DOUBLE: "DOUBLE",
    TypeRoot.DATE: "DATE",
    TypeRoot.TIME: "TIME",
    TypeRoot.INTERVAL_DAY_TIME: "BIGINT",
    TypeRoot.INTERVAL_YEAR_MONTH: "INTEGER",
    TypeRoot.NULL: "INTEGER",
    TypeRoot.SYMBOL: "VARCHAR",
}


def type_name(t: LogicalType) -> str:
    """The DuckDB type that holds all values of `t`. UserError for timestamps finer than a microsecond and nested types
    without one."""
    plain = _PLAIN.get(t.root)
    if plain is not None:
        return plain
    match t.root:
        case TypeRoot.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if t.precision <= TIMESTAMP_PRECISION_MAX:
            return "TIMESTAMP"
        case TypeRoot.ARRAY if t.element is not None:
            return f"{type_name(t.element)}[]"
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            return f"MAP({type_name(t.key)}, {type_name(t.element)})"
        case TypeRoot.ROW:
            return "STRUCT(" + ", ".join(f"{quote(f.name)} {type_name(f.type)}" for f in t.fields) + ")"
    raise refuse(f"type {t.with_nullable(True)}")


def quote(name: str) -> str:
    """A name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def literal(node: Literal) -> str:
    """A constant with its type."""
    name = type_name(node.type)
    if node.value is None:
        return f"CAST(NULL AS {name})"
    return f"CAST({_value(node)} AS {name})"


def _value(node: Literal) -> str:
    value, root = node.value, node.type.root
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return text(repr(value))
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return f"from_hex({text(str(value))})"
    if root in TIMESTAMP_ROOTS:
        return f"make_timestamp(CAST({int(str(value)) // 1000} AS BIGINT))"
    if isinstance(value, int):
        match root:
            case TypeRoot.DATE:
                return f"make_date(CAST({value} AS INTEGER))"
            case TypeRoot.TIME:
                return f"TIME '00:00:00' + to_microseconds({value * 1000})"
        return str(value)
    return text(str(value))
