"""Logical types and literals as Spark SQL.

TIMESTAMP and TIMESTAMP_LTZ are TIMESTAMP_NTZ (LTZ: the instant in UTC). Intervals are whole numbers, BIGINT milliseconds and
INT months, and TIME is INT milliseconds of the day, because Spark's own types order, add and print otherwise. CHAR is
STRING: its values are padded already.
"""

from __future__ import annotations

import datetime

from sqlglot import exp

from planner.lower import tree
from planner.lower.spark.scope import refuse
from sqlstream.expressions import Literal
from sqlstream.types import BINARY_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

_EPOCH = datetime.datetime(1970, 1, 1)
TIMESTAMP_PRECISION_MAX = 6
_Kind = exp.DType

_PLAIN: dict[TypeRoot, exp.DType] = {
    TypeRoot.CHAR: _Kind.TEXT,
    TypeRoot.VARCHAR: _Kind.TEXT,
    TypeRoot.BOOLEAN: _Kind.BOOLEAN,
    TypeRoot.BINARY: _Kind.BINARY,
    TypeRoot.VARBINARY: _Kind.BINARY,
    TypeRoot.TINYINT: _Kind.TINYINT,
    TypeRoot.SMALLINT: _Kind.SMALLINT,
    TypeRoot.INTEGER: _Kind.INT,
    TypeRoot.BIGINT: _Kind.BIGINT,
    TypeRoot.FLOAT: _Kind.FLOAT,
    TypeRoot.DOUBLE: _Kind.DOUBLE,
    TypeRoot.DATE: _Kind.DATE,
    TypeRoot.TIME: _Kind.INT,
    TypeRoot.INTERVAL_DAY_TIME: _Kind.BIGINT,
    TypeRoot.INTERVAL_YEAR_MONTH: _Kind.INT,
    TypeRoot.NULL: _Kind.INT,
    TypeRoot.SYMBOL: _Kind.TEXT,
}


def _plain(kind: exp.DType) -> exp.DataType:
    return exp.DataType(this=kind)


BOOLEAN, INT, BIGINT, DOUBLE, FLOAT = map(
    _plain, (_Kind.BOOLEAN, _Kind.INT, _Kind.BIGINT, _Kind.DOUBLE, _Kind.FLOAT)
)
STRING, BINARY, DATE = map(_plain, (_Kind.TEXT, _Kind.BINARY, _Kind.DATE))
TIMESTAMP = _plain(_Kind.TIMESTAMPNTZ)
INSTANT = _plain(_Kind.TIMESTAMPLTZ)


def decimal_type(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=tree.number(n)) for n in (precision, scale)]
    return exp.DataType(this=_Kind.DECIMAL, expressions=sizes)


def spark_type(t: LogicalType) -> exp.DataType:
    """The Spark type that holds all values of `t`. UserError SS3301 for timestamps finer than a microsecond, MULTISET, and
    a ROW with two fields of one name."""
    kind = _PLAIN.get(t.root)
    if kind is not None:
        return exp.DataType(this=kind)
    match t.root:
        case TypeRoot.DECIMAL:
            return decimal_type(t.precision, t.scale)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if t.precision <= TIMESTAMP_PRECISION_MAX:
            return TIMESTAMP.copy()
        case TypeRoot.ARRAY if t.element is not None:
            return exp.DataType(this=_Kind.ARRAY, expressions=[spark_type(t.element)], nested=True)
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            entry = [spark_type(t.key), spark_type(t.element)]
            return exp.DataType(this=_Kind.MAP, expressions=entry, nested=True)
        case TypeRoot.ROW if len({f.name for f in t.fields}) == len(t.fields):
            fields = [
                exp.ColumnDef(this=exp.Identifier(this=f.name, quoted=True), kind=spark_type(f.type))
                for f in t.fields
            ]
            return exp.DataType(this=_Kind.STRUCT, expressions=fields, nested=True)
    raise refuse(f"type {t.with_nullable(True)}")


def text(value: str) -> exp.Expr:
    """A string literal. Control characters are given as bytes: Spark reads an escaped one together with digits behind it."""
    if all(c >= " " and c != "\x7f" for c in value):
        return tree.text(value)
    return tree.cast(exp.HexString(this=value.encode().hex().upper()), STRING)


def whole(value: int, type_: exp.DataType = BIGINT) -> exp.Expr:
    """A whole number of this type."""
    written = tree.number(value) if value >= 0 else tree.text(str(value))
    return tree.cast(written, type_)


def zero(t: LogicalType) -> exp.Expr:
    """0 of a number's own type: beside a whole number Spark cuts off digits of a decimal to compare them."""
    return tree.cast(tree.number(0), spark_type(t))


def double(value: str) -> exp.Expr:
    return tree.cast(tree.text(value), DOUBLE)


def literal(node: Literal) -> exp.Expr:
    """A constant with its type."""
    if node.value is None:
        return tree.cast(tree.null(), spark_type(node.type))
    value, root = node.value, node.type.root
    if isinstance(value, bool):
        return tree.boolean(value)
    if root in BINARY_ROOTS:
        return exp.HexString(this=str(value).upper())
    if root in TIMESTAMP_ROOTS:
        spark_type(node.type)
        return moment(int(str(value)) // 1000)
    if root is TypeRoot.DATE:
        day = datetime.date.fromordinal(_EPOCH.toordinal() + int(value))
        return tree.cast(tree.text(f"{day:%Y}".zfill(4) + f"{day:-%m-%d}"), DATE)
    if isinstance(value, int):
        return whole(value, spark_type(node.type))
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.SYMBOL):
        return text(str(value))
    return tree.cast(
        tree.text(repr(value) if isinstance(value, float) else str(value)), spark_type(node.type)
    )


def moment(micros: int) -> exp.Expr:
    """A TIMESTAMP_NTZ by microseconds since 1970."""
    return tree.cast(tree.text((_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(" ")), TIMESTAMP)
