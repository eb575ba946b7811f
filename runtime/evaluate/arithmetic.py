"""Operators and functions of numbers, and of dates and times with intervals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call, InputRef, Literal
from sqlstream.row_errors import division_by_zero
from sqlstream.runtime.evaluate import decimals
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    Values,
    as_array,
    as_arrays,
    literal_of,
    null_mask,
    numbers,
    plain,
    rows_of,
    with_int_parameters,
    zero,
)
from sqlstream.runtime.evaluate.time import intervals
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.overflow import overflowed
from sqlstream.types import TypeRoot


def _operator(
    numeric: Callable[..., Datum],
    checked: Callable[..., Datum] | None,
    exact: Callable[..., pa.Array],
    timed: Callable[[Call], Kernel] | None,
) -> Builder:
    """`numeric` for binary numbers (integers wrap, as in Java; `checked` fails then), `exact` for decimals, `timed` for the rest,
    if there is one."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        if not all(sql.is_numeric(a.type) for a in call.args):
            assert timed is not None
            return timed(call)
        if call.type.root is TypeRoot.DECIMAL:
            return functools.partial(_exact, exact, to_arrow_type(call.type))
        if checked is not None and sql.is_integer(call.type):
            return _wrapping(call, numeric, checked)
        return numeric

    return build


def _wrapping(call: Call, numeric: Callable[..., Datum], checked: Callable[..., Datum]) -> Kernel:
    """The whole numbers that `numeric` gives; it says how many are beyond their type, if `checked` fails."""

    def kernel(*args: Datum) -> Datum:
        try:
            return checked(*args)
        except pa.ArrowInvalid:
            result = numeric(*args)
        exact = numeric(*(pc.cast(arg, _WHOLE) for arg in args))
        differs = pc.not_equal(exact, pc.cast(pc.cast(result, _WHOLE), exact.type))
        overflowed(pc.sum(differs).as_py() or 0, f'"{call.function}"', call.type, call.span)
        return result

    return kernel


_WHOLE = pa.decimal256(19)
"""Holds every BIGINT, and has room for the digits of products."""


def _from_left(build: Builder) -> Builder:
    """A builder for two operands, for two or more; the sum so far has the type of the call."""

    def build_all(call: Call, context: EvaluationContext) -> Kernel:
        if len(call.args) == 2:
            return build(call, context)
        sums = [call.args[0], *[InputRef(0, call.type)] * (len(call.args) - 2)]
        kernels = [
            build(Call(call.function, (total, operand), call.type, call.span), context)
            for total, operand in zip(sums, call.args[1:], strict=True)
        ]
        target = to_arrow_type(call.type)

        def kernel(total: Datum, *operands: Datum) -> Datum:
            for add, operand in zip(kernels, operands, strict=True):
                total = add(total, operand)
                if total.type != target:
                    total = pc.cast(total, target, safe=False)
            return total

        return kernel

    return build_all


def _exact(function: Callable[..., pa.Array], target: pa.DataType, left: Datum, right: Datum) -> pa.Array:
    return function(left, right, target)


def _check_divisor(left: Datum, right: Datum) -> None:
    """Raise a UserError for a zero divisor in a row without NULLs."""
    if isinstance(right, pa.Scalar):
        if right.is_valid and right.as_py() == 0 and pc.any(pc.is_valid(left)).as_py():
            raise division_by_zero()
        return
    is_zero = pc.fill_null(pc.equal(right, zero(right.type)), False)
    if pc.any(is_zero).as_py() and pc.any(pc.and_(is_zero, pc.is_valid(left))).as_py():
        raise division_by_zero()


def _divide(left: Datum, right: Datum) -> Datum:
    if pa.types.is_floating(left.type):
        return pc.divide(left, right)
    _check_divisor(left, right)
    return _quotient(left, right)


def _quotient(left: Datum, right: Datum) -> Datum:
    """Division rounded towards zero. As in Java, MIN / -1 wraps to MIN, where Arrow returns 0."""
    result = pc.divide(left, right)
    minus_one = pa.scalar(-1, right.type)
    is_negated = pc.equal(right, minus_one)
    if isinstance(is_negated, pa.Scalar):
        return pc.negate(left) if is_negated.as_py() else result
    return pc.if_else(is_negated, pc.negate(left), result) if pc.any(is_negated).as_py() else result


def _divide_decimals(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    _check_divisor(left, right)
    return decimals.divide(left, right, target)


def remainder(call: Call, context: EvaluationContext) -> Kernel:
    target = to_arrow_type(call.type)
    if call.type.root is TypeRoot.DECIMAL:
        return lambda left, right: _remainder_of_decimals(left, right, target)
    if call.type.root in sql.APPROXIMATE_ROOTS:
        return _remainder_of_floats
    wide = to_arrow_type(max((a.type for a in call.args), key=lambda t: to_arrow_type(t).bit_width))
    return lambda left, right: _remainder_of_integers(_widen(left, wide), _widen(right, wide))


def _widen(datum: Datum, wide: pa.DataType) -> Datum:
    return datum if datum.type == wide else pc.cast(datum, wide)


def _remainder_of_integers(left: Datum, right: Datum) -> Datum:
    """The remainder with the sign of the dividend."""
    _check_divisor(left, right)
    return pc.subtract(left, pc.multiply(_quotient(left, right), right))


def _remainder_of_decimals(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    _check_divisor(left, right)
    return decimals.remainder(left, right, target)


def _remainder_of_floats(left: Datum, right: Datum) -> pa.Array:
    a, b = as_arrays(left, right)
    with np.errstate(invalid="ignore"):
        values = np.fmod(numbers(a, None), numbers(b, None))
    return pa.array(values, mask=null_mask(a, b))


def _signed(plain_function: Any, checked_function: Any) -> Builder:
    """NEGATE and ABS: numbers wrap, as in Java, intervals do not."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        if sql.is_integer(call.type):
            return _wrapping(call, plain_function, checked_function)
        if not sql.is_interval(call.type):
            return lambda value: plain_function(value)
        target = to_arrow_type(call.type)
        return lambda value: intervals.checked_interval(checked_function, target, value)

    return build


def sign_of(call: Call, context: EvaluationContext) -> Kernel:
    if call.type.root is not TypeRoot.DECIMAL:
        return lambda value: pc.sign(value)
    target = to_arrow_type(call.type)
    return lambda value: decimals.fit(pc.sign(value), target)


def _round(call: Call, context: EvaluationContext) -> Kernel:
    """ROUND (half up, away from zero) and TRUNCATE to a number of digits."""
    target = to_arrow_type(call.type)
    if len(call.args) == 2 and not isinstance(call.args[1], Literal):
        return by_parameter(lambda digits: _round_to(digits, call), target)
    digits = literal_of(call, 1) if len(call.args) == 2 else 0
    if digits is None:
        return lambda value, digits=None: pa.nulls(len(value), target)
    return _round_to(digits, call)


def _round_to(digits: int, call: Call) -> Kernel:
    target = to_arrow_type(call.type)
    is_round = call.function == "ROUND"
    if call.type.root is TypeRoot.DECIMAL:
        mode = "half_towards_infinity" if is_round else "towards_zero"
        return lambda value, _=None: _round_decimal(value, digits, mode, target)
    if sql.is_integer(call.type):
        if digits >= 0:
            return lambda value, _=None: value
        return lambda value, _=None: pc.cast(_round_integer(value, -digits, is_round), target, safe=False)
    return lambda value, _=None: _round_float(value, digits, is_round)


def _round_decimal(value: pa.Array, digits: int, mode: str, target: pa.DataType) -> pa.Array:
    if digits >= value.type.scale:
        return decimals.fit(value, target)
    scale = value.type.scale
    # Room for a carried digit and for the place that is rounded to: Arrow requires it, though no value reaches it.
    precision = max(value.type.precision, scale - digits) + 1
    if precision > decimals.DECIMAL256_DIGITS:
        return pc.if_else(pc.is_valid(value), zero(target), pa.scalar(None, target))
    return decimals.fit(pc.round(pc.cast(value, pa.decimal256(precision, scale)), digits, mode), target)


def _round_integer(value: pa.Array, zeros: int, is_round: bool) -> pa.Array:
    if zeros > 18:
        return pc.multiply(value, pa.scalar(0, value.type))
    unit = 10**zeros
    values = numbers(value, np.int64)
    rest = np.fmod(values, unit)
    result = values - rest
    if is_round:
        result = result + np.where(np.abs(rest) * 2 >= unit, np.sign(values) * unit, 0)
    return pa.array(result, mask=null_mask(value))


_DOUBLE_DIGITS = 308


def _round_float(value: pa.Array, digits: int, is_round: bool) -> pa.Array:
    """Round as Java does, by the shortest decimal that prints as the number: 1.005 to two digits is 1.01.

    In binary 1.005 * 100 is slightly less than 100.5. A value within one unit of the last place of a rounding boundary counts
    as on it.
    """
    if digits > _DOUBLE_DIGITS:
        return value
    values = numbers(value, np.float64)
    if digits < -_DOUBLE_DIGITS:
        # The power of ten is no DOUBLE; half of it is above every number.
        return pa.array(
            np.where(np.isfinite(values), np.copysign(0.0, values), values), mask=null_mask(value)
        )
    factor = 10.0**digits
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.abs(values) * factor
        near = scaled + np.spacing(scaled)
        whole = np.floor(near + 0.5 if is_round else near)
        result = np.where(
            np.isfinite(scaled) & (scaled < 2.0**52), np.copysign(whole / factor, values), values
        )
    return pa.array(result, mask=null_mask(value))


def _float_function(function: Callable[..., Any]) -> Builder:
    """A numpy function of DOUBLE: returns NaN and infinities where Java does, and raises no error."""

    def kernel(*args: Datum) -> pa.Array:
        arrays = as_arrays(*args)
        with np.errstate(all="ignore"):
            return pa.array(function(*(numbers(a, np.float64) for a in arrays)), mask=null_mask(*arrays))

    return plain(kernel)


@plain
def power(*args: Datum) -> pa.Array:
    # The C library's function, as Java's; numpy's vectors are less exact: 0.1 to the power of 2 would be 0.01.
    return pc.power(*(pc.cast(a, pa.float64()) for a in args))


def _log(*args: Any) -> Any:
    return np.log(args[0]) if len(args) == 1 else np.log(args[1]) / np.log(args[0])


def rand(call: Call, context: EvaluationContext) -> Kernel:
    return seeded_doubles(call) if call.args else lambda rows: pa.array(context.random.random(rows))


def rand_integer(call: Call, context: EvaluationContext) -> Kernel:
    """A whole number of at least 0 and below the bound, which must be above 0."""
    if len(call.args) == 2:
        return seeded_integers(call)

    def kernel(bound: pa.Array) -> pa.Array:
        require_bounds(bound)
        values = np.floor(context.random.random(len(bound)) * numbers(bound, np.float64))
        return pa.array(values.astype(np.int32), mask=null_mask(bound))

    return kernel


def _constant(value: float) -> Builder:
    return plain(lambda rows: as_array(pa.scalar(value), rows))


@plain
def binary_digits(value: Datum) -> pa.Array:
    return evaluate_in_duckdb("bin(a0)", as_array(value, rows_of(value)))


PLUS = _from_left(_operator(pc.add, pc.add_checked, decimals.add, intervals.plus))
MINUS = _operator(pc.subtract, pc.subtract_checked, decimals.subtract, intervals.minus)
TIMES = _operator(pc.multiply, pc.multiply_checked, decimals.multiply, intervals.times)
DIVIDE = _operator(_divide, None, _divide_decimals, None)
NEGATE = _signed(pc.negate, pc.negate_checked)
ABS = _signed(pc.abs, pc.abs_checked)
ROUND = with_int_parameters(_round)
ATAN2 = _float_function(np.arctan2)
SQRT = _float_function(np.sqrt)
LN = _float_function(np.log)
LOG10 = _float_function(np.log10)
LOG2 = _float_function(np.log2)
LOG = _float_function(_log)
EXP = _float_function(np.exp)
SIN = _float_function(np.sin)
SINH = _float_function(np.sinh)
COS = _float_function(np.cos)
COSH = _float_function(np.cosh)
TAN = _float_function(np.tan)
TANH = _float_function(np.tanh)
COT = _float_function(lambda x: 1.0 / np.tan(x))
ASIN = _float_function(np.arcsin)
ACOS = _float_function(np.arccos)
ATAN = _float_function(np.arctan)
DEGREES = _float_function(np.degrees)
RADIANS = _float_function(np.radians)
PI = _constant(np.pi)
E = _constant(np.e)


# RAND and RAND_INTEGER with a seed: the same numbers as java.util.Random.


_MULTIPLIER, _MASK = 0x5DEECE66D, (1 << 48) - 1


def seeded_doubles(call: Call) -> Kernel:
    """RAND(seed): a literal seed starts one sequence for all rows, another one a sequence for each row."""
    from sqlstream.runtime.kernels.java_random import doubles_into

    state, is_running = _state_of(call)

    def kernel(seed: Datum) -> pa.Array:
        (seeds,) = as_arrays(seed)
        drawn = np.empty(len(seeds))
        doubles_into(state, view_values(pc.fill_null(seeds, 0), np.int32), is_running, drawn)
        return pa.array(drawn, mask=null_mask(seeds))

    return kernel


def seeded_integers(call: Call) -> Kernel:
    """RAND_INTEGER(seed, bound), as `seeded_doubles`."""
    from sqlstream.runtime.kernels.java_random import integers_into

    state, is_running = _state_of(call)

    def kernel(seed: Datum, bound: Datum) -> pa.Array:
        seeds, bounds = as_arrays(seed, bound)
        require_bounds(bounds)
        drawn = np.empty(len(seeds), dtype=np.int32)
        usable = view_values(pc.fill_null(bounds, 1), np.int32)
        integers_into(state, view_values(pc.fill_null(seeds, 0), np.int32), is_running, usable, drawn)
        return pa.array(drawn, mask=null_mask(seeds, bounds))

    return kernel


def require_bounds(bounds: pa.Array) -> None:
    """UserError SS5106 for a bound of RAND_INTEGER that is not above 0."""
    lowest = pc.min(bounds).as_py()
    if lowest is not None and lowest <= 0:
        raise UserError("SS5106", f"the bound of RAND_INTEGER is {lowest}, not above 0")


def _state_of(call: Call) -> tuple[Values, bool]:
    """The state of the generator, and whether it goes on from row to row."""
    seed = call.args[0]
    is_running = isinstance(seed, Literal) and seed.value is not None
    start = (int(seed.value) ^ _MULTIPLIER) & _MASK if is_running and isinstance(seed, Literal) else 0  # type: ignore[arg-type]
    return np.array([start], dtype=np.uint64), is_running
