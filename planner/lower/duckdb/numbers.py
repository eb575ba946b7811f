"""Arithmetic in DuckDB with Flink's results.

Integer overflow stops the query with DuckDB's error. Comparisons with NaN differ from Flink's: DuckDB finds it equal to itself
and greater than every number (docs/batch.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, Literal
from sqlstream.functions.merging import as_decimal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.duckdb.bound import bound
from sqlstream.planner.lower.duckdb.handler import Handler, constant_number, named, of_arguments
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.times import floor_or_ceil_to_unit, moved_point, time_between
from sqlstream.planner.lower.duckdb.types import DOUBLE, HUGEINT, TEXT, decimal, failure, in_type, type_
from sqlstream.planner.lower.duckdb.wrapping import wrapped
from sqlstream.row_errors import RAISED_DIVISION
from sqlstream.types import DECIMAL_PRECISION_MAX, LogicalType, TypeRoot

_OPERATORS: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}


def _sum(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """`+` and `-`, from left to right; every sum on the way has the type of the call."""
    total, type_of_total = args[0], call.args[0].type
    for arg, given in zip(args[1:], call.args[1:], strict=True):
        total = _plus_or_minus(call, (total, type_of_total), (arg, given.type), time_zone)
        type_of_total = call.type
    return total


def _plus_or_minus(
    call: Call, left: tuple[exp.Expr, LogicalType], right: tuple[exp.Expr, LogicalType], time_zone: str
) -> exp.Expr:
    if call.function == "+" and sql.is_interval(left[1]) and not sql.is_interval(right[1]):
        left, right = right, left
    if sql.is_numeric(left[1]) or sql.is_interval(left[1]):
        return _exact(call.function, left, right, call.type)
    if not sql.is_interval(right[1]):
        return time_between(left, right, time_zone)
    amount = right[0] if call.function == "+" else exp.Neg(this=exp.Paren(this=right[0]))
    return moved_point(left, (amount, right[1]), call.type)


def _product(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    left, right = zip(args, (a.type for a in call.args), strict=True)
    return _exact("*", left, right, call.type)


def _exact(
    symbol: str, left: tuple[exp.Expr, LogicalType], right: tuple[exp.Expr, LogicalType], result: LogicalType
) -> exp.Expr:
    value = left[0]
    if result.root is TypeRoot.DECIMAL:
        # DuckDB's result overflows at 18 digits unless an operand has more.
        value = tree.cast(value, decimal(DECIMAL_PRECISION_MAX, as_decimal(left[1]).scale))
    return in_type(tree.operate(_OPERATORS[symbol], value, right[0]), result)


def _divided(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.type.root in sql.APPROXIMATE_ROOTS:
        return tree.operate(exp.Div, *args)
    dividend, divisor = (as_decimal(arg.type) for arg in call.args)

    def quotient(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        if call.type.root is TypeRoot.DECIMAL:
            return _decimal_quotient(left, dividend, right, divisor, call.type)
        return in_type(tree.operate(exp.IntDiv, left, right), call.type)

    return bound(args[0], lambda a: bound(args[1], lambda b: _unless_zero(a, b, quotient(a, b), call.type)))


def _remainder(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.type.root is TypeRoot.DECIMAL:
        a, b = (as_decimal(arg.type) for arg in call.args)
        digits = max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale)
        if digits > DECIMAL_PRECISION_MAX:
            raise refuse("a remainder of decimals with more than 38 digits", hint="cast to fewer digits")

    def rest(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return in_type(tree.operate(exp.Mod, left, right), call.type)

    if call.type.root in sql.APPROXIMATE_ROOTS:
        return rest(*args)
    return bound(args[0], lambda a: bound(args[1], lambda b: _unless_zero(a, b, rest(a, b), call.type)))


def _unless_zero(left: exp.Expr, right: exp.Expr, result: exp.Expr, t: LogicalType) -> exp.Expr:
    """`result`, but an error for division by zero, as in a stream; DuckDB gives NULL."""
    is_error = tree.all_of([tree.is_not_null(left), tree.operate(exp.EQ, right, tree.number(0))])
    return tree.case([(is_error, failure(RAISED_DIVISION, type_(t)))], result)


def _decimal_quotient(
    left: exp.Expr, a: LogicalType, right: exp.Expr, b: LogicalType, result: LogicalType
) -> exp.Expr:
    """`left / right` rounded half up to the scale of `result`, in whole numbers: DuckDB divides decimals as DOUBLE."""
    shift = result.scale + b.scale - a.scale
    if shift < 0 or 2 * max(a.scale, b.scale) > DECIMAL_PRECISION_MAX:
        what = f"division of {a.with_nullable(True)} by {b.with_nullable(True)}"
        few = DECIMAL_PRECISION_MAX // 2
        hint = f"cast the operand with more than {few} digits behind the point to fewer"
        raise refuse(what, hint=hint)
    digits = max(a.precision + shift, a.precision + a.scale, b.precision + b.scale)
    if digits <= DECIMAL_PRECISION_MAX:
        return scaled_quotient(unscaled(left, a.scale), shift, unscaled(right, b.scale), result)

    def divided(dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
        return long_quotient(dividend, shift, divisor, result)

    return bound(
        long_unscaled(left, a.scale), lambda x: bound(long_unscaled(right, b.scale), lambda y: divided(x, y))
    )


def unscaled(value: exp.Expr, scale: int) -> exp.Expr:
    """A decimal's digits as a whole number, where digits and scale are 38 together at most."""
    return tree.cast(tree.operate(exp.Mul, value, _power(scale)), HUGEINT)


def _power(scale: int) -> exp.Expr:
    return tree.cast(tree.number(10**scale), decimal(scale + 1, 0))


def _huge(value: int) -> exp.Expr:
    # As text: a number of so many digits may be read as DOUBLE.
    return tree.cast(tree.text(str(value)), HUGEINT)


def long_unscaled(value: exp.Expr, scale: int) -> exp.Expr:
    """`unscaled` of up to 38 digits, of which half are behind the point at most."""
    if not scale:
        return tree.cast(value, HUGEINT)

    def digits(value: exp.Expr) -> exp.Expr:
        whole = tree.call("trunc", value)
        fraction = tree.operate(exp.Mul, tree.operate(exp.Sub, value, whole), _power(scale))
        shifted = tree.operate(exp.Mul, tree.cast(whole, HUGEINT), _huge(10**scale))
        return tree.operate(exp.Add, shifted, tree.cast(fraction, HUGEINT))

    return bound(value, digits)


def long_quotient(dividend: exp.Expr, shift: int, divisor: exp.Expr, result: LogicalType) -> exp.Expr:
    """`scaled_quotient` of a dividend whose digits and `shift` are more than 38 together: by long division, in which only the
    rest of the whole quotient is shifted. NULL when the result does not fit, and an error when the rest is too long for it."""
    bound_digits = _huge(10 ** (DECIMAL_PRECISION_MAX - shift))
    whole = tree.operate(exp.IntDiv, dividend, divisor)
    sign = tree.operate(exp.Mul, tree.call("sign", dividend), tree.call("sign", divisor))

    def behind(rest: exp.Expr) -> exp.Expr:
        """The digits behind the whole quotient."""
        shifted = tree.operate(exp.Mul, rest, _huge(10**shift))
        return bound(shifted, lambda s: _rounded_quotient(s, divisor, sign))

    def joined(rest: exp.Expr) -> exp.Expr:
        is_long = tree.operate(exp.GT, tree.call("abs", rest), bound_digits)
        fail = failure("a divisor of this many digits has no exact counterpart in DuckDB", HUGEINT)
        digits = tree.operate(
            exp.Add,
            tree.operate(exp.Mul, whole, _huge(10**shift)),
            tree.case([(is_long, fail)], behind(rest)),
        )
        is_beyond = tree.operate(exp.GT, tree.call("abs", whole), bound_digits)
        return tree.case([(is_beyond, tree.null())], digits)

    return _with_scale(bound(tree.operate(exp.Mod, dividend, divisor), joined), result)


def scaled_quotient(dividend: exp.Expr, shift: int, divisor: exp.Expr, result: LogicalType) -> exp.Expr:
    """`dividend * 10^shift / divisor`, all of them whole, as the unscaled digits of a decimal `result`, rounded half up."""
    whole = tree.operate(exp.Mul, dividend, tree.cast(tree.number(10**shift), HUGEINT))
    sign = tree.operate(exp.Mul, tree.call("sign", whole), tree.call("sign", divisor))
    return _with_scale(_rounded_quotient(whole, divisor, sign), result)


def _rounded_quotient(dividend: exp.Expr, divisor: exp.Expr, sign: exp.Expr) -> exp.Expr:
    """Whole numbers, rounded half up, away from zero: one more when twice the rest reaches the divisor."""
    zero, two = (tree.number(n) for n in (0, 2))
    size = tree.call("abs", divisor)
    half = tree.operate(exp.Add, tree.operate(exp.IntDiv, size, two), tree.operate(exp.Mod, size, two))
    rest = tree.call("abs", tree.operate(exp.Mod, dividend, divisor))
    carry = tree.case([(tree.operate(exp.GTE, rest, half), sign)], zero)
    return tree.operate(exp.Add, tree.operate(exp.IntDiv, dividend, divisor), carry)


def _with_scale(digits: exp.Expr, result: LogicalType) -> exp.Expr:
    """A decimal of these unscaled digits; NULL when it does not fit."""
    unit = tree.cast(
        tree.text(f"0.{'1'.zfill(result.scale)}") if result.scale else tree.number(1),
        decimal(max(result.scale, 1), result.scale),
    )
    digits = tree.try_cast(digits, decimal(DECIMAL_PRECISION_MAX, 0))
    return tree.try_cast(tree.operate(exp.Mul, digits, unit), type_(result))


def _rounded(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """ROUND (half up, away from zero) and TRUNCATE to a constant number of digits."""
    if len(args) == 2 and isinstance(call.args[1], Literal) and call.args[1].value is None:
        return tree.cast(tree.null(), type_(call.type))
    digits = constant_number(call, 1) if len(args) == 2 else 0
    value, t = args[0], call.args[0].type
    if t.root is TypeRoot.DECIMAL:
        return _rounded_decimal(value, t, digits, call)
    if sql.is_integer(t):
        return value if digits >= 0 else _rounded_integer(value, -digits, call)
    if not 0 <= digits <= 15:
        raise refuse(f"{call.function} to {digits} digits")
    # Through text, as Java: the shortest decimal that prints as the number is rounded.
    if call.function == "TRUNCATE":
        number = tree.cast(tree.cast(value, TEXT), decimal(38, 19))
        return in_type(tree.call("trunc", number, tree.number(digits)), call.type)
    return in_type(tree.cast(tree.cast(value, TEXT), decimal(38, digits)), call.type)


def _rounded_decimal(value: exp.Expr, t: LogicalType, digits: int, call: Call) -> exp.Expr:
    if digits >= t.scale:
        return in_type(value, call.type)
    if -digits > DECIMAL_PRECISION_MAX - t.scale - 1 or t.precision >= DECIMAL_PRECISION_MAX:
        raise refuse(f"{call.function} of {t.with_nullable(True)} to {digits} digits")
    wide = tree.cast(value, decimal(DECIMAL_PRECISION_MAX, t.scale))
    function = "round" if call.function == "ROUND" else "trunc"
    return in_type(tree.call(function, wide, _whole(digits)), call.type)


def _rounded_integer(value: exp.Expr, zeros: int, call: Call) -> exp.Expr:
    if zeros > 18:
        raise refuse(f"{call.function} to {-zeros} digits")
    unit = tree.cast(tree.number(10**zeros), HUGEINT)
    wide = tree.cast(value, HUGEINT)

    def to_unit(value: exp.Expr) -> exp.Expr:
        rest = tree.operate(exp.Mod, value, unit)
        whole = tree.operate(exp.Sub, value, rest)
        if call.function == "TRUNCATE":
            return tree.cast(whole, type_(call.type))
        twice = tree.operate(exp.Mul, tree.call("abs", rest), tree.number(2))
        step = tree.operate(exp.Mul, tree.call("sign", value), unit)
        is_up = tree.operate(exp.GTE, twice, unit)
        rounded = tree.operate(exp.Add, whole, tree.case([(is_up, step)], tree.number(0)))
        if call.type.root is TypeRoot.BIGINT:
            return tree.cast(rounded, type_(call.type))
        return wrapped(rounded, call.type.root)

    return bound(wide, to_unit)


def _negated(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    # DuckDB takes the least number of a type for a wider one when it is a constant.
    negative = exp.Paren(this=exp.Neg(this=exp.Paren(this=args[0])))
    return in_type(negative, call.type) if sql.is_integer(call.type) else negative


def _logarithm(value: exp.Expr, argument: exp.Expr | None = None) -> exp.Expr:
    """LOG([base,] number)."""
    if argument is None:
        return tree.call("ln", value)
    return tree.operate(exp.Div, tree.call("ln", argument), tree.call("ln", value))


def _cotangent(value: exp.Expr) -> exp.Expr:
    return tree.operate(exp.Div, tree.cast(tree.number(1), DOUBLE), tree.call("tan", value))


def _whole(value: int) -> exp.Expr:
    """A number that may be negative."""
    return tree.number(value) if value >= 0 else exp.Neg(this=tree.number(-value))


def _floor_or_ceil(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if len(args) == 2:
        return floor_or_ceil_to_unit(call, args, time_zone)
    function = "floor" if call.function == "FLOOR" else "ceil"
    return args[0] if sql.is_integer(call.type) else in_type(tree.call(function, args[0]), call.type)


def _extreme(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """GREATEST or LEAST, which are NULL if an argument is."""

    def build(values: Sequence[exp.Expr], rest: Sequence[exp.Expr]) -> exp.Expr:
        if rest:
            return bound(rest[0], lambda value: build((*values, value), rest[1:]))
        is_missing = tree.any_of([tree.is_null(value) for value in values])
        return tree.case([(is_missing, tree.null())], tree.call(call.function.lower(), *values))

    return build((), args)


HANDLERS: dict[str, Handler] = {
    "+": _sum,
    "-": _sum,
    "*": _product,
    "/": _divided,
    "%": _remainder,
    "MOD": _remainder,
    **dict.fromkeys(("ROUND", "TRUNCATE"), _rounded),
    **dict.fromkeys(("FLOOR", "CEIL", "CEILING"), _floor_or_ceil),
    **dict.fromkeys(("GREATEST", "LEAST"), _extreme),
    "NEGATE": _negated,
    **{
        name: named(name.lower())
        for name in (
            *("ABS", "SQRT", "LN", "LOG10", "LOG2", "EXP", "SIN", "COS", "TAN", "ATAN", "ATAN2"),
            *("ASIN", "ACOS", "SINH", "COSH", "TANH", "DEGREES", "RADIANS", "PI"),
        )
    },
    "SIGN": lambda call, args, time_zone: in_type(tree.call("sign", *args), call.type),
    "POWER": named("pow"),
    "LOG": of_arguments(_logarithm),
    "COT": of_arguments(_cotangent),
    "BIN": named("bin"),
    "E": of_arguments(lambda: tree.call("exp", tree.number("1.0"))),
}
