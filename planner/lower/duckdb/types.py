"""Logical types and constants in DuckDB.

TIMESTAMP and TIMESTAMP_LTZ are DuckDB TIMESTAMPs (LTZ: the instant in UTC); intervals are whole numbers, BIGINT milliseconds
and INTEGER months, because DuckDB's own INTERVAL orders and adds otherwise than SQL's two kinds.
"""

from __future__ import annotations

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

TIMESTAMP_PRECISION_MAX = 6

_PLAIN: dict[TypeRoot, exp.DType] = {
    TypeRoot.CHAR: exp.DType.VARCHAR,
    TypeRoot.VARCHAR: exp.DType.VARCHAR,
    TypeRoot.BOOLEAN: exp.DType.BOOLEAN,
    TypeRoot.BINARY: exp.DType.VARBINARY,
    TypeRoot.VARBINARY: exp.DType.VARBINARY,
    TypeRoot.TINYINT: exp.DType.TINYINT,
    TypeRoot.SMALLINT: exp.DType.SMALLINT,
    TypeRoot.INTEGER: exp.DType.INT,
    TypeRoot.BIGINT: exp.DType.BIGINT,
    TypeRoot.FLOAT: exp.DType.FLOAT,
    TypeRoot.DOUBLE: exp.DType.DOUBLE,
    TypeRoot.DATE: exp.DType.DATE,
    TypeRoot.TIME: exp.DType.TIME,
    TypeRoot.INTERVAL_DAY_TIME: exp.DType.BIGINT,
    TypeRoot.INTERVAL_YEAR_MONTH: exp.DType.INT,
    TypeRoot.NULL: exp.DType.INT,
    TypeRoot.SYMBOL: exp.DType.VARCHAR,
}


def type_(t: LogicalType) -> exp.DataType:
    """The DuckDB type that holds all values of `t`. UserError for timestamps finer than a microsecond and nested types
    without one."""
    if t.root in _PLAIN:
        return plain(_PLAIN[t.root])
    match t.root:
        case TypeRoot.DECIMAL:
            return decimal(t.precision, t.scale)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if t.precision <= TIMESTAMP_PRECISION_MAX:
            return TIMESTAMP.copy()
        case TypeRoot.ARRAY if t.element is not None:
            return exp.DataType(this=exp.DType.ARRAY, expressions=[type_(t.element)], nested=True)
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            return exp.DataType(this=exp.DType.MAP, expressions=[type_(t.key), type_(t.element)], nested=True)
        case TypeRoot.ROW if len({f.name.lower() for f in t.fields}) == len(t.fields):
            # DuckDB takes names that differ in case alone for one.
            fields = [
                exp.ColumnDef(this=exp.Identifier(this=f.name, quoted=True), kind=type_(f.type))
                for f in t.fields
            ]
            return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    raise refuse(f"type {t.with_nullable(True)}")


def has_type(t: LogicalType) -> bool:
    """Whether `type_` has one."""
    try:
        type_(t)
    except UserError:
        return False
    return True


def type_name(t: LogicalType) -> str:
    """`type_` as text."""
    return type_(t).sql(dialect="duckdb")


def quote(name: str) -> str:
    """A name as a quoted identifier."""
    return exp.Identifier(this=name, quoted=True).sql(dialect="duckdb")


def plain(dtype: exp.DType) -> exp.DataType:
    return exp.DataType(this=dtype)


def decimal(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=tree.number(size)) for size in (precision, scale)]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=sizes)


TEXT = plain(exp.DType.VARCHAR)
TINYINT = plain(exp.DType.TINYINT)
INTEGER = plain(exp.DType.INT)
BIGINT = plain(exp.DType.BIGINT)
HUGEINT = plain(exp.DType.INT128)
DOUBLE = plain(exp.DType.DOUBLE)
DATE = plain(exp.DType.DATE)
TIME = plain(exp.DType.TIME)
TIMESTAMP = plain(exp.DType.TIMESTAMP)


def in_type(value: exp.Expr, t: LogicalType) -> exp.Expr:
    """`value` as `t`; a decimal that does not fit is NULL, as in Flink."""
    cast = tree.try_cast if t.root is TypeRoot.DECIMAL else tree.cast
    return cast(value, type_(t))


def literal(node: Literal) -> exp.Expr:
    """A constant with its type."""
    return tree.cast(tree.null() if node.value is None else _value(node), type_(node.type))


def failure(message: str | exp.Expr, type_: exp.DataType) -> exp.Expr:
    """A value of this type that stops the query with an error when it is computed."""
    text = tree.text(message) if isinstance(message, str) else message
    return tree.cast(tree.call("error", text), type_)


def _value(node: Literal) -> exp.Expr:
    value, root = node.value, node.type.root
    if isinstance(value, bool):
        return tree.boolean(value)
    if isinstance(value, float):
        return tree.text(repr(value))
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return tree.call("from_hex", tree.text(str(value)))
    if root in TIMESTAMP_ROOTS:
        micros = int(str(value)) // 1000
        return tree.call("make_timestamp", tree.cast(tree.number(micros), BIGINT))
    if isinstance(value, int):
        match root:
            case TypeRoot.DATE:
                return tree.call("make_date", tree.cast(tree.number(value), INTEGER))
            case TypeRoot.TIME:
                micros_of_day = tree.call("to_microseconds", tree.number(value * 1000))
                return tree.operate(exp.Add, tree.cast(tree.text("00:00:00"), TIME), micros_of_day)
        return tree.number(value)
    return tree.text(str(value))
