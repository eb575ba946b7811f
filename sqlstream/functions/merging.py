"""The common type of several types, and the result types of exact arithmetic (Flink: LogicalTypeMerging)."""

from __future__ import annotations

import msgspec

from sqlstream import types as sql
from sqlstream.types import LogicalType, RowField, TypeRoot

_INTEGER_DIGITS = {TypeRoot.TINYINT: 3, TypeRoot.SMALLINT: 5, TypeRoot.INTEGER: 10, TypeRoot.BIGINT: 19}
_SCALE_KEPT_MIN = 6


def as_decimal(t: LogicalType) -> LogicalType:
    """The DECIMAL that holds all values of an exact numeric type, with the same nullability."""
    if t.root is TypeRoot.DECIMAL:
        return t
    return sql.decimal(_INTEGER_DIGITS[t.root], 0).with_nullable(t.nullable)


def common_type(types: tuple[LogicalType, ...]) -> LogicalType | None:
    """The narrowest type that all of `types` convert to, nullable when one is; None when there is none.

    >>> str(common_type((sql.INT, sql.decimal(5, 2))))
    'DECIMAL(12, 2)'
    >>> str(common_type((sql.char(2).not_null(), sql.char(5).not_null())))
    'VARCHAR(5) NOT NULL'
    """
    nullable = any(t.nullable for t in types)
    plain = [t.without_time_attribute() for t in types if t.root is not TypeRoot.NULL]
    if not plain:
        return sql.NULL
    result: LogicalType | None = plain[0]
    for other in plain[1:]:
        result = _merge(result, other) if result is not None else None
    return None if result is None else result.with_nullable(nullable)


def _merge(a: LogicalType, b: LogicalType) -> LogicalType | None:
    if a.same_as(b):
        return a.with_nullable(a.nullable or b.nullable)
    if sql.is_numeric(a) and sql.is_numeric(b):
        return _merge_numeric(a, b)
    if sql.is_string(a) and sql.is_string(b):
        return sql.varchar(max(a.length, b.length))
    roots = {a.root, b.root}
    if roots <= set(sql.BINARY_ROOTS):
        return sql.varbinary(max(a.length, b.length))
    if roots == {TypeRoot.DATE, TypeRoot.TIMESTAMP}:
        return a if a.root is TypeRoot.TIMESTAMP else b
    if a.root is not b.root:
        return None
    if sql.is_timestamp(a) or a.root is TypeRoot.TIME:
        return a if a.precision >= b.precision else b
    return _merge_nested(a, b)


def _merge_numeric(a: LogicalType, b: LogicalType) -> LogicalType:
    roots = {a.root, b.root}
    if TypeRoot.DOUBLE in roots or roots == {TypeRoot.FLOAT, TypeRoot.DECIMAL}:
        return sql.DOUBLE
    if TypeRoot.FLOAT in roots:
        return sql.FLOAT
    if TypeRoot.DECIMAL not in roots:
        return max(a, b, key=lambda t: _INTEGER_DIGITS[t.root])
    x, y = as_decimal(a), as_decimal(b)
    scale = max(x.scale, y.scale)
    whole = max(x.precision - x.scale, y.precision - y.scale)
    precision = min(whole + scale, sql.DECIMAL_PRECISION_MAX)
    return sql.decimal(precision, min(scale, max(0, precision - whole)))


def _merge_nested(a: LogicalType, b: LogicalType) -> LogicalType | None:
    parts: dict[str, LogicalType | None] = {}
    for name in ("element", "key"):
        x, y = getattr(a, name), getattr(b, name)
        if x is not None and y is not None:
            parts[name] = common_type((x, y))
    if len(a.fields) != len(b.fields) or None in parts.values():
        return None
    fields = []
    for f, g in zip(a.fields, b.fields, strict=True):
        merged = common_type((f.type, g.type))
        if merged is None:
            return None
        fields.append(RowField(f.name, merged))
    return msgspec.structs.replace(a, fields=tuple(fields), **parts)


def _bounded(precision: int, scale: int) -> LogicalType:
    """DECIMAL(precision, scale); where 38 digits do not suffice, the scale is reduced, but not below six digits."""
    if precision <= sql.DECIMAL_PRECISION_MAX:
        return sql.decimal(precision, scale)
    whole = precision - scale
    return sql.decimal(
        sql.DECIMAL_PRECISION_MAX, max(sql.DECIMAL_PRECISION_MAX - whole, min(scale, _SCALE_KEPT_MIN))
    )


def sum_of_decimals(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a + b and a - b.

    >>> str(sum_of_decimals(sql.decimal(10, 2), sql.decimal(5, 4)))
    'DECIMAL(13, 4)'
    """
    scale = max(a.scale, b.scale)
    return _bounded(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def product_of_decimals(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a * b.

    >>> str(product_of_decimals(sql.decimal(19, 0), sql.decimal(3, 3)))
    'DECIMAL(23, 3)'
    """
    return _bounded(a.precision + b.precision + 1, a.scale + b.scale)


def quotient_of_decimals(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a / b.

    >>> str(quotient_of_decimals(sql.decimal(5, 2), sql.decimal(3, 1)))
    'DECIMAL(10, 6)'
    """
    scale = max(_SCALE_KEPT_MIN, a.scale + b.precision + 1)
    return _bounded(a.precision - a.scale + b.scale + scale, scale)


def remainder_of_decimals(a: LogicalType, b: LogicalType) -> LogicalType:
    """Type of a % b."""
    scale = max(a.scale, b.scale)
    return _bounded(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def round_of_decimal(a: LogicalType, digits: int) -> LogicalType:
    """Type of ROUND(a, digits).

    >>> str(round_of_decimal(sql.decimal(10, 4), 2))
    'DECIMAL(9, 2)'
    """
    if digits >= a.scale:
        return a
    if digits < 0:
        return sql.decimal(min(sql.DECIMAL_PRECISION_MAX, 1 + a.precision - a.scale), 0)
    return sql.decimal(min(sql.DECIMAL_PRECISION_MAX, 1 + a.precision - a.scale + digits), digits)
