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
    as_given,
    is_any_nullable,
    returns,
    same_as,
    scalar,
    to_shared,
)
from sqlstream.functions.checks import constant, unsupported, word_among
from sqlstream.functions.merging import (
    as_decimal,
    product_of_decimals,
    quotient_of_decimals,
    remainder_of_decimals,
    round_of_decimal,
    sum_of_decimals,
)
from sqlstream.functions.signature import Coercion, Rejects, ResultType, ScalarFunction
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
        return to_shared(types)
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


def _operator(
    symbol: str, implementation: str, result: ResultType, coerce: Coercion = _operands
) -> ScalarFunction:
    return scalar(f"numeric1 {symbol} numeric2", implementation, coerce, result, name=symbol, args=(2, 2))


def _of_double(name: str) -> ScalarFunction:
    """One of the functions of a DOUBLE."""
    return scalar(f"{name}(numeric)", f"arithmetic:{name}", (AS_DOUBLE,), DOUBLE)


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

FUNCTIONS: tuple[ScalarFunction, ...] = (
    _operator("+", "arithmetic:PLUS", _plus),
    _operator("-", "arithmetic:MINUS", _minus),
    _operator("*", "arithmetic:TIMES", _times),
    _operator("/", "arithmetic:DIVIDE", _divided),
    _operator("%", "arithmetic:remainder", _remainder, _remainder_operands),
    scalar("MOD(numeric1, numeric2)", "arithmetic:remainder", _remainder_operands, _remainder).described(
        "The remainder of a division, with the sign of the first number.", "MOD(-7, 3)", "-1"
    ),
    scalar("- numeric", "arithmetic:NEGATE", (_SIGNED,), same_as(0), name="NEGATE"),
    scalar("ABS(numeric)", "arithmetic:ABS", (_SIGNED,), same_as(0)).described(
        "The number without its sign.", "ABS(-2)", "2"
    ),
    scalar("SIGN(numeric)", "arithmetic:sign_of", (NUMBER,), _sign).described(
        "-1, 0 or 1 for a negative number, zero or a positive one.", "SIGN(-7)", "-1"
    ),
    scalar(
        "FLOOR(numeric) or FLOOR(timepoint TO unit)",
        "decimals:floor_or_ceil",
        as_given,
        _rounded_to_whole,
        args=(1, 2),
        check=_check_unit,
    ).described("The number rounded down, or the start of the unit in which a time lies.", "FLOOR(2.7)", "2"),
    scalar(
        "CEIL(numeric) or CEIL(timepoint TO unit)",
        "decimals:floor_or_ceil",
        as_given,
        _rounded_to_whole,
        args=(1, 2),
        check=_check_unit,
    ).described("The number rounded up, or the start of the next unit of a time.", "CEIL(2.1)", "3"),
    scalar(
        "CEILING(numeric)",
        "decimals:floor_or_ceil",
        as_given,
        _rounded_to_whole,
        args=(1, 2),
        check=_check_unit,
    ).described("The number rounded up.", "CEILING(2.1)", "3"),
    scalar(
        "ROUND(numeric[, digits])", "arithmetic:ROUND", (NUMBER, AS_INT), _rounded, refine=_rounded_to_literal
    ).described("The number rounded half away from zero to a number of digits.", "ROUND(2.345, 2)", "2.35"),
    scalar(
        "TRUNCATE(numeric[, digits])",
        "arithmetic:ROUND",
        (NUMBER, AS_INT),
        _rounded,
        refine=_rounded_to_literal,
    ).described("The number cut off after a number of digits.", "TRUNCATE(2.349, 2)", "2.34"),
    scalar("POWER(numeric1, numeric2)", "arithmetic:power", (AS_DOUBLE, AS_DOUBLE), DOUBLE).described(
        "The first number to the power of the second.", "POWER(2, 10)", "1024.0"
    ),
    scalar("ATAN2(numeric1, numeric2)", "arithmetic:ATAN2", (AS_DOUBLE, AS_DOUBLE), DOUBLE).described(
        "The angle in radians of the point (numeric2, numeric1).", "ATAN2(0, 1)", "0.0"
    ),
    scalar("LOG([base,] numeric)", "arithmetic:LOG", (AS_DOUBLE, AS_DOUBLE), DOUBLE, args=(1, 2)).described(
        "The natural logarithm, or that to a base.", "LOG(2, 8)", "3.0"
    ),
    _of_double("SQRT").described("The square root.", "SQRT(16)", "4.0"),
    _of_double("LN").described("The natural logarithm.", "LN(1)", "0.0"),
    _of_double("LOG10").described("The logarithm to base 10.", "LOG10(1000)", "3.0"),
    _of_double("LOG2").described("The logarithm to base 2.", "LOG2(8)", "3.0"),
    _of_double("EXP").described("e to the power of the number.", "EXP(0)", "1.0"),
    _of_double("SIN").described("The sine of an angle in radians.", "SIN(0)", "0.0"),
    _of_double("SINH").described("The hyperbolic sine.", "SINH(0)", "0.0"),
    _of_double("COS").described("The cosine of an angle in radians.", "COS(0)", "1.0"),
    _of_double("COSH").described("The hyperbolic cosine.", "COSH(0)", "1.0"),
    _of_double("TAN").described("The tangent of an angle in radians.", "TAN(0)", "0.0"),
    _of_double("TANH").described("The hyperbolic tangent.", "TANH(0)", "0.0"),
    _of_double("COT").described("The cotangent of an angle in radians.", "COT(1)", "0.6420926159343306"),
    _of_double("ASIN").described("The arc sine in radians.", "ASIN(0)", "0.0"),
    _of_double("ACOS").described("The arc cosine in radians.", "ACOS(1)", "0.0"),
    _of_double("ATAN").described("The arc tangent in radians.", "ATAN(0)", "0.0"),
    _of_double("DEGREES").described("Radians as degrees.", "DEGREES(0)", "0.0"),
    _of_double("RADIANS").described("Degrees as radians.", "RADIANS(0)", "0.0"),
    scalar("PI()", "arithmetic:PI", (), returns(DOUBLE)).described(
        "The number pi.", "PI()", "3.141592653589793"
    ),
    scalar("E()", "arithmetic:E", (), returns(DOUBLE)).described(
        "Euler's number.", "E()", "2.718281828459045"
    ),
    scalar(
        "RAND([seed])",
        "arithmetic:rand",
        (AS_NARROW_INT,),
        returns(DOUBLE),
        args=(0, 1),
        is_deterministic=False,
    ).described("A random number of at least 0 and below 1, a new one per row.", "RAND() < 1", "TRUE"),
    scalar(
        "RAND_INTEGER([seed, ]bound)",
        "arithmetic:rand_integer",
        (AS_NARROW_INT, AS_NARROW_INT),
        sql.INT,
        args=(1, 2),
        is_deterministic=False,
        rejects=Rejects.VALUES,
    ).described(
        "A random whole number of at least 0 and below the bound, a new one per row.", "RAND_INTEGER(1)", "0"
    ),
    scalar("BIN(integer)", "arithmetic:binary_digits", (AS_BIGINT,), sql.STRING).described(
        "A whole number in binary digits.", "BIN(12)", "1100"
    ),
)
