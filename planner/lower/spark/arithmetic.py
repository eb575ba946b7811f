"""Operators and functions of numbers as Spark SQL; whole numbers wrap, and a decimal that does not fit is NULL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import Call, InputRef
from sqlstream.functions.merging import as_decimal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.constants import constant_number
from sqlstream.planner.lower.spark import points
from sqlstream.planner.lower.spark.decimals import absolute, exact_sum, negated, product, quotient, remainder
from sqlstream.planner.lower.spark.scope import ENGINE, Builder, fail, let, let_all, refuse
from sqlstream.planner.lower.spark.types import BIGINT, DOUBLE, FLOAT, double, spark_type, whole, zero
from sqlstream.row_errors import RAISED_DIVISION
from sqlstream.types import LogicalType, TypeRoot

_SYMBOLS: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}


def _plus_or_minus(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if len(call.args) > 2:
        # The sum so far has the type of the call.
        head = Call(call.function, call.args[:-1], call.type, call.span)
        so_far = _plus_or_minus(head, args[:-1], time_zone)
        last = Call(call.function, (InputRef(0, call.type), call.args[-1]), call.type, call.span)
        return _plus_or_minus(last, [so_far, args[-1]], time_zone)
    if not all(sql.is_numeric(a.type) for a in call.args):
        return points.moved_or_difference(call, args, time_zone)
    if call.type.root is TypeRoot.DECIMAL:
        a, b = (as_decimal(arg.type) for arg in call.args)
        return exact_sum(_SYMBOLS[call.function], args[0], a, args[1], b, call.type)
    return tree.operate(_SYMBOLS[call.function], *args)


def _times(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if sql.is_interval(call.type):
        return points.multiplied_interval(call, args)
    if call.type.root is TypeRoot.DECIMAL:
        a, b = (as_decimal(arg.type) for arg in call.args)
        return product(args[0], a, args[1], b, call.type)
    return tree.operate(exp.Mul, *args)


def _unless_zero(call: Call, args: list[exp.Expr], result: Callable[..., exp.Expr]) -> exp.Expr:
    """`result(left, right)`, but an error for a zero divisor of a dividend that is not NULL."""
    error = fail(RAISED_DIVISION, spark_type(call.type))

    def guarded(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        is_zero = tree.all_of([tree.operate(exp.EQ, right, zero(call.args[1].type)), tree.is_not_null(left)])
        return tree.case([(is_zero, error)], result(left, right))

    if isinstance(args[1], exp.Cast) and isinstance(args[1].this, exp.Literal) and args[1].this.this != "0":
        return result(*args)
    return let_all(args, guarded)


def _divided(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.type.root in sql.APPROXIMATE_ROOTS:
        return let_all([_as_double(a) for a in args], lambda a, b: _in_type(_float_quotient(a, b), call.type))
    if call.type.root is TypeRoot.DECIMAL:
        a, b = (as_decimal(arg.type) for arg in call.args)
        return _unless_zero(call, args, lambda x, y: quotient(x, a, y, b, call.type))
    return _unless_zero(
        call, args, lambda x, y: tree.cast(tree.operate(exp.IntDiv, x, y), spark_type(call.type))
    )


def _float_quotient(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    """Spark's own quotient by zero is NULL. The quotient of two FLOATs is rounded once more without harm: a DOUBLE has more
    than twice their digits."""
    is_zero = tree.operate(exp.EQ, b, tree.number(0))
    by_zero = tree.operate(exp.Mul, a, tree.call("power", b, double("-1")))
    return tree.case([(is_zero, by_zero)], tree.operate(exp.Div, a, b))


def _remainder(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.type.root is TypeRoot.DECIMAL:
        a, b = (as_decimal(arg.type) for arg in call.args)
        return _unless_zero(call, args, lambda x, y: remainder(x, a, y, b, call.type))
    if call.type.root in sql.APPROXIMATE_ROOTS:
        return let_all(
            [_as_double(a) for a in args], lambda a, b: _in_type(_float_remainder(a, b), call.type)
        )

    def rest(x: exp.Expr, y: exp.Expr) -> exp.Expr:
        wide = [tree.cast(v, BIGINT) for v in (x, y)]
        return tree.cast(tree.operate(exp.Mod, *wide), spark_type(call.type))

    return _unless_zero(call, args, rest)


def _float_remainder(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    is_zero = tree.all_of([tree.operate(exp.EQ, b, tree.number(0)), tree.is_not_null(a)])
    return tree.case([(is_zero, double("NaN"))], tree.operate(exp.Mod, a, b))


def _as_double(value: exp.Expr) -> exp.Expr:
    return tree.cast(value, DOUBLE)


def _in_type(value: exp.Expr, t: LogicalType) -> exp.Expr:
    return tree.cast(value, FLOAT) if t.root is TypeRoot.FLOAT else value


def _negated(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if sql.is_interval(call.type):
        return points.checked_interval("try_subtract", whole(0, spark_type(call.type)), args[0], call.type)
    if call.type.root is TypeRoot.DECIMAL:
        return negated(args[0], call.type)
    return exp.Paren(this=exp.Neg(this=exp.Paren(this=args[0].copy())))


def _absolute(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    if call.type.root is TypeRoot.DECIMAL:
        return absolute(args[0], call.type)
    if not sql.is_interval(call.type):
        return tree.call("abs", args[0])

    def positive(value: exp.Expr) -> exp.Expr:
        is_negative = tree.operate(exp.LT, value, tree.number(0))
        minus = points.checked_interval("try_subtract", zero(call.type), value, call.type)
        return tree.case([(is_negative, minus)], value)

    return let(args[0], positive)


def _sign(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    nothing, wanted = zero(call.args[0].type), spark_type(call.type)

    def sign(value: exp.Expr) -> exp.Expr:
        branches = [
            (tree.operate(exp.GT, value, nothing), tree.cast(tree.number(1), wanted)),
            (tree.operate(exp.LT, value, nothing), tree.cast(tree.text("-1"), wanted)),
            (tree.operate(exp.EQ, value, nothing), nothing),
        ]
        return tree.case(branches)

    return let(args[0], sign)


def _floor_or_ceil(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    is_floor = call.function == "FLOOR"
    if len(call.args) == 2:
        return points.floor_or_ceil(call, args, time_zone, is_floor=is_floor)
    if sql.is_integer(call.type):
        return args[0]
    if call.type.root is TypeRoot.DECIMAL:
        return tree.cast(tree.call("floor" if is_floor else "ceil", args[0]), spark_type(call.type))
    value = _as_double(args[0])
    if is_floor:
        return _in_type(let(value, _float_floor), call.type)
    minus = exp.Paren(this=exp.Neg(this=value))
    return _in_type(exp.Paren(this=exp.Neg(this=exp.Paren(this=let(minus, _float_floor)))), call.type)


def _float_floor(value: exp.Expr) -> exp.Expr:
    """Spark's floor() is a BIGINT, which neither large numbers nor -0.0 fit."""
    near = tree.call("rint", value)
    return tree.case([(tree.operate(exp.GT, near, value), tree.operate(exp.Sub, near, tree.number(1)))], near)


def _rounded(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    digits = constant_number(call, 1, ENGINE) if len(call.args) == 2 else 0
    t, value = call.args[0].type, args[0]
    is_round = call.function == "ROUND"
    if (t.root is TypeRoot.DECIMAL and digits >= t.scale) or (sql.is_integer(t) and digits >= 0):
        return tree.cast(value, spark_type(call.type))
    places = tree.cast(tree.text(str(digits)), spark_type(sql.INT))
    if sql.is_integer(t):
        return _rounded_integer(value, -digits, call.type, is_round=is_round)
    if t.root is TypeRoot.DECIMAL:
        return tree.cast(_rounded_decimal(value, t, places, is_round=is_round), spark_type(call.type))
    if not is_round:
        raise refuse("TRUNCATE of FLOAT and DOUBLE", hint="cast the number to DECIMAL")
    if not 0 <= digits <= 15:
        raise refuse(f"ROUND to {digits} digits")
    return _in_type(
        tree.call("round", _as_double(tree.cast(value, spark_type(sql.STRING))), places), call.type
    )


def _rounded_decimal(value: exp.Expr, t: LogicalType, places: exp.Expr, *, is_round: bool) -> exp.Expr:
    if is_round:
        return tree.call("round", value, places)
    return let(
        value,
        lambda v: tree.case(
            [(tree.operate(exp.LT, v, zero(t)), tree.call("ceil", v, places))],
            tree.call("floor", v, places),
        ),
    )


def _rounded_integer(value: exp.Expr, zeros: int, t: LogicalType, *, is_round: bool) -> exp.Expr:
    if zeros > 18:
        return tree.operate(exp.Mul, value, whole(0, spark_type(t)))
    unit = whole(10**zeros)

    def rounded(v: exp.Expr) -> exp.Expr:
        rest = tree.operate(exp.Mod, v, unit)
        cut = tree.operate(exp.Sub, v, rest)
        if not is_round:
            return cut
        half = whole(10**zeros // 2)
        return tree.case(
            [
                (tree.operate(exp.GTE, rest, half), tree.operate(exp.Add, cut, unit)),
                (
                    tree.operate(exp.LTE, rest, whole(-(10**zeros // 2))),
                    tree.operate(exp.Sub, cut, unit),
                ),
            ],
            cut,
        )

    return tree.cast(let(tree.cast(value, BIGINT), rounded), spark_type(t))


def _logarithm(name: str) -> Callable[[exp.Expr], exp.Expr]:
    """ln and the others, which Spark makes NULL for 0 and below."""

    def of(value: exp.Expr) -> exp.Expr:
        return let(
            value,
            lambda v: tree.case(
                [
                    (tree.operate(exp.GT, v, tree.number(0)), tree.call(name, v)),
                    (tree.operate(exp.EQ, v, tree.number(0)), double("-Infinity")),
                    (tree.is_not_null(v), double("NaN")),
                ]
            ),
        )

    return of


def _log(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    logarithms = [_logarithm("ln")(a) for a in args]
    if len(args) == 1:
        return logarithms[0]
    return let_all([logarithms[1], logarithms[0]], _float_quotient)


def _atan2(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    """Spark takes -0.0 for 0.0."""

    def angle(y: exp.Expr, x: exp.Expr) -> exp.Expr:
        is_y_zero, is_x_zero = (tree.operate(exp.EQ, v, tree.number(0)) for v in (y, x))
        is_y_minus, is_x_minus = (
            tree.operate(exp.LT, tree.call("power", v, double("-1")), tree.number(0)) for v in (y, x)
        )
        is_left = tree.all_of([is_y_zero, is_x_zero, is_x_minus])
        above = tree.case([(is_left, tree.call("pi"))], tree.call("atan2", y, x))
        below = exp.Paren(this=exp.Neg(this=exp.Paren(this=above.copy())))
        return tree.case([(tree.all_of([is_y_zero, is_y_minus]), below)], above)

    return let_all(args, angle)


def _plain(name: str) -> Builder:
    return lambda call, args, _: tree.call(name, *args)


def _hex(call: Call, args: list[exp.Expr], time_zone: str) -> exp.Expr:
    return tree.call("hex", tree.cast(args[0], BIGINT) if sql.is_integer(call.args[0].type) else args[0])


_SAME_NAME = (
    *("SIN", "SINH", "COS", "COSH", "TAN", "TANH", "COT", "ASIN", "ACOS", "ATAN"),
    *("SQRT", "EXP", "POWER", "DEGREES", "RADIANS", "PI", "E", "BIN"),
)

ARITHMETIC: dict[str, Builder] = {
    "+": _plus_or_minus,
    "-": _plus_or_minus,
    "*": _times,
    "/": _divided,
    "%": _remainder,
    "MOD": _remainder,
    "NEGATE": _negated,
    "ABS": _absolute,
    "SIGN": _sign,
    "FLOOR": _floor_or_ceil,
    "CEIL": _floor_or_ceil,
    "CEILING": _floor_or_ceil,
    "ROUND": _rounded,
    "TRUNCATE": _rounded,
    "ATAN2": _atan2,
    "LOG": _log,
    "LN": lambda call, args, _: _logarithm("ln")(args[0]),
    "LOG2": lambda call, args, _: _logarithm("log2")(args[0]),
    "LOG10": lambda call, args, _: _logarithm("log10")(args[0]),
    "HEX": _hex,
    **{name: _plain(name.lower()) for name in _SAME_NAME},
}
"""By name of the function."""
