"""Logical types and literals as Spark SQL.

TIMESTAMP and TIMESTAMP_LTZ are TIMESTAMP_NTZ (LTZ: the instant in UTC). Intervals are whole numbers, BIGINT milliseconds and
INT months, and TIME is INT milliseconds of the day, because Spark's own types order, add and print otherwise. CHAR is
STRING: its values are padded already. Which type is which stands in `sqlstream.spark_types`.
"""

from __future__ import annotations

import datetime
import functools

from sqlglot import exp

from sqlstream import spark_types
from sqlstream.expressions import Literal
from sqlstream.planner.lower import tree
from sqlstream.types import BINARY_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

_EPOCH = datetime.datetime(1970, 1, 1)
_Kind = exp.DType


def _plain(kind: exp.DType) -> exp.DataType:
    return exp.DataType(this=kind)


BOOLEAN, INT, BIGINT, DOUBLE, FLOAT = map(
    _plain, (_Kind.BOOLEAN, _Kind.INT, _Kind.BIGINT, _Kind.DOUBLE, _Kind.FLOAT)
)
STRING, BINARY, DATE = map(_plain, (_Kind.TEXT, _Kind.BINARY, _Kind.DATE))
TIMESTAMP = _plain(_Kind.TIMESTAMPNTZ)


def decimal_type(precision: int, scale: int) -> exp.DataType:
    sizes = [exp.DataTypeParam(this=tree.number(n)) for n in (precision, scale)]
    return exp.DataType(this=_Kind.DECIMAL, expressions=sizes)


def spark_type(t: LogicalType) -> exp.DataType:
    """The type of `sqlstream.spark_types` as a tree. UserError SS3301."""
    return _parsed(spark_types.spark_type(t)).copy()


@functools.lru_cache(maxsize=256)
def _parsed(written: str) -> exp.DataType:
    return exp.DataType.build(written, dialect="spark")


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
