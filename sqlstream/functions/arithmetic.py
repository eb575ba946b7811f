"""Operators and functions of numbers; `+`, `-` and `*` of dates, times and intervals too."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression, Literal, LiteralValue
from sqlstream.functions.arguments import (
    AS_BIGINT,
    AS_DOUBLE,
    AS_INT,
    AS_NARROW_INT,
    NUMBER,
    Argument,
    is_any_nullable,
    returns,
    same_as,
    scalar,
)
from sqlstream.functions.checks import constant, unsupported, word_among
from sqlstream.functions.merging import (
    as_decimal,
    common_type,
    product_of_decimals,
    quotient_of_decimals,
    remainder_of_decimals,
    round_of_decimal,
    sum_of_decimals,
)
from sqlstream.functions.signature import Coercion, ResultType, ScalarFunction
from sqlstream.types import DOUBLE, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
_DATETIME = frozenset((TypeRoot.DATE, TypeRoot.TIME, *sql.TIMESTAMP_ROOTS))


def _operands(types: Types) -> Types | None:
    """Convert whole numbers to the wider type, and a number beside FLOAT or DOUBLE to that type; others remain."""
    known = next((t for t in types if t.root is not TypeRoot.NULL), sql.INT)
    null_type = sql.INTERVAL_DAY_TIME if known.root in _DATETIME else known.with_nullable(True)
    types = tuple(null_type if t.root is TypeRoot.NULL else t for t in types)
    if not all(sql.is_numeric(t) for t in types):
        return types
    if any(t.root in sql.APPROXIMATE_ROOTS for t in types) or all(sql.is_integer(t) for t in types):
        shared = common_type(types)
        return None if shared is None else tuple(shared.with_nullable(t.nullable) for t in types)
    return types


def _numeric_result(
    types: Types, of_decimals: Callable[[LogicalType, LogicalType], LogicalType]
) -> LogicalType | None:
    if not all(sql.is_numeric(t) for t in types):
        return None
    if any(t.root is TypeRoot.DECIMAL for t in types):
        result = of_decimals(as_decimal(types[0]), as_decimal(types[1]))
        return result.with_nullable(is_any_nullable(types))
    return types[0].with_nullable(is_any_nullable(types))


def _plus(types: Types) -> LogicalType | None:
    a, b = types
    nullable = is_any_nullable(types)
    if sql.is_interval(a) and b.root in _DATETIME:
        a, b = b, a
    if sql.is_interval(b) and (a.root in _DATETIME or a.root is b.root):
        if a.root is TypeRoot.TIME and b.root is TypeRoot.INTERVAL_YEAR_MONTH:
            return None
        return a.without_time_attribute().with_nullable(nullable)
    return _numeric_result(types, sum_of_decimals)


def _minus(types: Types) -> LogicalType | None:
    a, b = types
    if a.root in _DATETIME and (a.root is b.root or {a.root, b.root} == {TypeRoot.DATE, TypeRoot.TIMESTAMP}):
        return sql.INTERVAL_DAY_TIME.with_nullable(is_any_nullable(types))
    return None if sql.is_interval(a) and b.root in _DATETIME else _plus(types)


def _times(types: Types) -> LogicalType | None:
    for interval, factor in (types, types[::-1]):
        if sql.is_interval(interval) and sql.is_integer(factor):
            return interval.with_nullable(is_any_nullable(types))
    return _numeric_result(types, product_of_decimals)


def _divided(types: Types) -> LogicalType | None:
    return _numeric_result(types, quotient_of_decimals)


def _remainder(types: Types) -> LogicalType | None:
    """A whole remainder has the divisor's type, as in Flink."""
    if all(sql.is_integer(t) for t in types):
        return types[1].with_nullable(is_any_nullable(types))
    return _numeric_result(types, remainder_of_decimals)


def _remainder_operands(types: Types) -> Types | None:
    return types if all(sql.is_integer(t) for t in types) else _operands(types)


def _operator(symbol: str, result: ResultType, coerce: Coercion = _operands) -> ScalarFunction:
    return ScalarFunction(symbol, f"numeric1 {symbol} numeric2", 2, 2, result, coerce)


def _rounded_to_whole(types: Types) -> LogicalType | None:
    """FLOOR and CEIL: a decimal loses its scale; other numbers, and points in time, keep their type."""
    value = types[0].without_time_attribute()
    if value.root is TypeRoot.DECIMAL:
        value = sql.decimal(value.precision, 0)
    is_by_unit = len(types) == 2
    if is_by_unit != (value.root in _DATETIME) or not (is_by_unit or sql.is_numeric(value)):
        return None
    return value.with_nullable(is_any_nullable(types))


def _rounded(types: Types) -> LogicalType | None:
    """With a number of digits ROUND and TRUNCATE keep the scale; `_rounded_to_literal` decides for a literal one."""
    value = types[0]
    if value.root is TypeRoot.DECIMAL and len(types) == 1:
        value = round_of_decimal(value, 0)
    return value.with_nullable(is_any_nullable(types))


def _rounded_to_literal(result: LogicalType, args: tuple[Expression, ...]) -> LogicalType:
    value, digits = args[0].type, args[1] if len(args) == 2 else None
    if value.root is not TypeRoot.DECIMAL or not isinstance(digits, Literal) or digits.value is None:
        return result
    assert isinstance(digits.value, int)
    return round_of_decimal(value, digits.value).with_nullable(result.nullable)


def _sign(types: Types) -> LogicalType:
    """The type of the argument; a decimal has a digit for the 1."""
    value = types[0]
    if value.root is TypeRoot.DECIMAL and value.precision == value.scale:
        scale = min(value.scale, sql.DECIMAL_PRECISION_MAX - 1)
        value = sql.decimal(scale + 1, scale)
    return value.with_nullable(is_any_nullable(types))


_TIME_UNITS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND")
_FINE_UNITS = ("MICROSECOND", "NANOSECOND")
_UNITS = (
    *("DECADE", "CENTURY", "MILLENNIUM", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY"),
    *(*_TIME_UNITS, *_FINE_UNITS),
)


def rounding_unit(call: Call, value: LiteralValue) -> str:
    """The unit of FLOOR and CEIL, in capitals. UserError SS3102 for another one."""
    unit = word_among(call, value, _UNITS, "to")
    if call.args[0].type.root is TypeRoot.TIME and unit not in _TIME_UNITS:
        raise unsupported(call, f"of a TIME to {unit}", "use HOUR, MINUTE or SECOND")
    return unit


def _check_unit(call: Call) -> None:
    unit = constant(call, 1) if len(call.args) == 2 else None
    if unit is not None:
        rounding_unit(call, unit.value)


_SIGNED = Argument(lambda t: sql.is_numeric(t) or sql.is_interval(t), sql.INT)
_DOUBLE_FUNCTIONS = (
    *("SQRT", "LN", "LOG10", "LOG2", "EXP", "SIN", "SINH", "COS", "COSH", "TAN", "TANH", "COT"),
    *("ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS"),
)

FUNCTIONS: tuple[ScalarFunction, ...] = (
    _operator("+", _plus),
    _operator("-", _minus),
    _operator("*", _times),
    _operator("/", _divided),
    _operator("%", _remainder, _remainder_operands),
    ScalarFunction("MOD", "MOD(numeric1, numeric2)", 2, 2, _remainder, _remainder_operands),
    scalar("NEGATE", "- numeric", (_SIGNED,), same_as(0)),
    scalar("ABS", "ABS(numeric)", (_SIGNED,), same_as(0)),
    scalar("SIGN", "SIGN(numeric)", (NUMBER,), _sign),
    ScalarFunction(
        "FLOOR", "FLOOR(numeric) or FLOOR(timepoint TO unit)", 1, 2, _rounded_to_whole, check=_check_unit
    ),
    ScalarFunction(
        "CEIL", "CEIL(numeric) or CEIL(timepoint TO unit)", 1, 2, _rounded_to_whole, check=_check_unit
    ),
    ScalarFunction("CEILING", "CEILING(numeric)", 1, 2, _rounded_to_whole, check=_check_unit),
    scalar(
        "ROUND",
        "ROUND(numeric[, digits])",
        (NUMBER, AS_INT),
        _rounded,
        args_min=1,
        refine=_rounded_to_literal,
    ),
    scalar(
        "TRUNCATE",
        "TRUNCATE(numeric[, digits])",
        (NUMBER, AS_INT),
        _rounded,
        args_min=1,
        refine=_rounded_to_literal,
    ),
    scalar("POWER", "POWER(numeric1, numeric2)", (AS_DOUBLE, AS_DOUBLE), DOUBLE),
    scalar("ATAN2", "ATAN2(numeric1, numeric2)", (AS_DOUBLE, AS_DOUBLE), DOUBLE),
    scalar("LOG", "LOG([base,] numeric)", (AS_DOUBLE, AS_DOUBLE), DOUBLE, args_min=1),
    *(scalar(name, f"{name}(numeric)", (AS_DOUBLE,), DOUBLE) for name in _DOUBLE_FUNCTIONS),
    scalar("PI", "PI()", (), returns(DOUBLE)),
    scalar("E", "E()", (), returns(DOUBLE)),
    scalar("RAND", "RAND([seed])", (AS_NARROW_INT,), returns(DOUBLE), args_min=0, is_deterministic=False),
    scalar(
        "RAND_INTEGER",
        "RAND_INTEGER([seed, ]bound)",
        (AS_NARROW_INT, AS_NARROW_INT),
        sql.INT,
        args_min=1,
        is_deterministic=False,
    ),
    scalar("BIN", "BIN(integer)", (AS_BIGINT,), sql.STRING),
)
