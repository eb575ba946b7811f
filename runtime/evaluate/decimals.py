"""Exact decimal arithmetic with Flink's rounding (half up) and its NULL on overflow."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.arithmetic import rounding_unit
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Datum,
    Kernel,
    as_array,
    as_arrays,
    literal_of,
    null_mask,
    numbers,
    rows_of,
)
from sqlstream.runtime.evaluate.time.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time.time_parts import PERIODS, period_start
from sqlstream.runtime.evaluate.time.time_range import require_range
from sqlstream.runtime.kernels.buffers import valid_mask, view_buffer
from sqlstream.times import DAY_MS, UNIT_MS, UNIT_NS
from sqlstream.types import TypeRoot

INT64_DIGITS = 18
_DOUBLE_DIGITS = 15
_FLOAT_DIGITS = 7
"""Digits of a whole number that the type holds exactly."""
DECIMAL128_DIGITS = 38
DECIMAL256_DIGITS = 76
_EXACT = decimal.Context(prec=DECIMAL256_DIGITS)


def fit(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Round half up to the target's scale; NULL where the result has more digits than the target."""
    if values.type == target:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    if pa.types.is_integer(values.type):
        values = pc.cast(values, pa.decimal128(19, 0))
    have = values.type
    if have.scale > target.scale:
        values = pc.round(with_headroom(values), target.scale, "half_towards_infinity")
    elif have.precision - have.scale <= target.precision - target.scale:
        return pc.cast(values, target)
    digits_max = DECIMAL128_DIGITS if pa.types.is_decimal128(values.type) else DECIMAL256_DIGITS
    if values.type.precision + target.scale - values.type.scale <= digits_max:
        try:
            return pc.cast(values, target)
        except pa.ArrowInvalid:
            pass
    # Compared before the cast: Arrow does not detect when the digits of a greater scale overflow its words.
    wide = pc.cast(values, pa.decimal256(DECIMAL256_DIGITS, values.type.scale))
    limit = pa.scalar(decimal.Decimal(10) ** (target.precision - target.scale), wide.type)
    fits = pc.less(pc.abs(wide), limit)
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), target)


def to_floats(values: pa.Array, target: pa.DataType) -> pa.Array:
    """FLOAT or DOUBLE, correctly rounded as in Java; Arrow's cast is off by some units of the last place."""
    t, is_double = values.type, target == pa.float64()
    if t.precision > (_DOUBLE_DIGITS if is_double else _FLOAT_DIGITS) or not pa.types.is_decimal128(t):
        return pc.cast(pc.cast(values, pa.string()), target)
    # Both whole numbers are exact, so their quotient is rounded once.
    dtype = np.float64 if is_double else np.float32
    return pa.array(low_words(values).astype(dtype) / dtype(10**t.scale), target, mask=null_mask(values))


def with_headroom(values: pa.Array) -> pa.Array:
    """One digit more before the point: rounding up 9.99 must not overflow, and a value below 1 has a whole part too."""
    t = values.type
    if pa.types.is_decimal128(t) and t.precision < DECIMAL128_DIGITS:
        return pc.cast(values, pa.decimal128(t.precision + 1, t.scale))
    return pc.cast(values, pa.decimal256(min(max(t.precision + 1, 39), DECIMAL256_DIGITS), t.scale))


def _digits_and_scale(t: pa.DataType) -> tuple[int, int]:
    if pa.types.is_decimal(t):
        return t.precision, t.scale
    return {8: 3, 16: 5, 32: 10, 64: 19}[t.bit_width], 0


def _as_decimal256(datum: Datum, scale: int | None = None) -> Datum:
    digits, own_scale = _digits_and_scale(datum.type)
    scale = own_scale if scale is None else scale
    precision = digits + scale - own_scale
    _check_digits(precision)
    if not pa.types.is_decimal(datum.type):
        datum = pc.cast(datum, pa.decimal128(max(digits, 3), 0))
    return pc.cast(datum, pa.decimal256(max(precision, 1), scale))


def _check_digits(precision: int) -> None:
    if precision > DECIMAL256_DIGITS:
        raise UserError("SS5103", f"the operands have too many digits for exact arithmetic ({precision})")


def _arithmetic(function: Any, left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    """For all operands: computed as DECIMAL256, whose 76 digits hold every exact sum and nearly every product."""
    a, b = _as_decimal256(left), _as_decimal256(right)
    if a.type.precision + b.type.precision >= DECIMAL256_DIGITS:
        a, b = _tightened(a), _tightened(b)
        digits = _digits_needed(function, a.type, b.type)
        if digits > DECIMAL256_DIGITS:
            return _in_halves(lambda a, b: _arithmetic(function, a, b, target), left, right, target, digits)
    result = function(a, b)
    return fit(as_array(result, rows_of(left, right)), target)


def _digits_needed(function: Any, a: pa.DataType, b: pa.DataType) -> int:
    """The digits that Arrow reserves for the result."""
    if function is pc.multiply:
        return int(a.precision + b.precision + 1)
    return int(max(a.precision - a.scale, b.precision - b.scale) + max(a.scale, b.scale) + 1)


def _in_halves(
    compute: Callable[[pa.Array, pa.Array], pa.Array],
    left: Datum,
    right: Datum,
    target: pa.DataType,
    digits: int,
) -> pa.Array:
    """For rows that need too many digits together: whether a row fails must not depend on the rows beside it."""
    left, right = as_arrays(left, right)
    rows = len(left)
    if left.null_count == rows or right.null_count == rows:
        return pa.nulls(rows, target)
    if rows == 1:
        _check_digits(digits)
    middle = rows // 2
    return pa.concat_arrays([compute(left[:middle], right[:middle]), compute(left[middle:], right[middle:])])


def _tightened(datum: Datum) -> Datum:
    """Cast to the precision that its values have, so that Arrow accepts that the result fits."""
    highest = pc.max(pc.abs(as_array(datum, 1))).as_py()
    scale = datum.type.scale
    digits = 1 if highest is None else len(str(int(highest.scaleb(scale, _EXACT))))
    return pc.cast(datum, pa.decimal256(max(digits, scale, 1), scale))


def add(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    return _sum(pc.add, left, right, target)


def subtract(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    return _sum(pc.subtract, left, right, target)


def _sum(function: Any, left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    if target.precision == DECIMAL128_DIGITS:
        return _arithmetic(function, left, right, target)
    # Flink's result type holds every sum, so both operands fit it and nothing can overflow.
    return fit(function(_widened(left, target), _widened(right, target)), target)


def _widened(datum: Datum, target: pa.DataType) -> Datum:
    if not pa.types.is_decimal(datum.type):
        digits, _ = _digits_and_scale(datum.type)
        datum = pc.cast(datum, pa.decimal128(digits, 0))
    return pc.cast(datum, pa.decimal128(target.precision - 1, target.scale))


def multiply(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    _, left_scale = _digits_and_scale(left.type)
    _, right_scale = _digits_and_scale(right.type)
    is_short = _is_word(left.type) and _is_word(right.type)
    if not is_short or left_scale + right_scale != target.scale:
        return _arithmetic(pc.multiply, left, right, target)
    return _multiply_words(left, right, target)


def _is_word(t: pa.DataType) -> bool:
    """Whether the unscaled values fit into 64 bits: all integers do, decimals of up to 18 digits."""
    return not pa.types.is_decimal(t) or t.precision <= INT64_DIGITS


def _multiply_words(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    """Factors of one machine word each: a compiled 64 x 64 → 128-bit loop."""
    from sqlstream.runtime.kernels.decimals import multiply_into

    rows = rows_of(left, right)
    if any(isinstance(d, pa.Scalar) and not d.is_valid for d in (left, right)):
        return pa.nulls(rows, target)
    product = np.empty(2 * rows, dtype=np.int64)
    multiply_into(product, *_words(left), *_words(right))
    return pa.Array.from_buffers(target, rows, [_validity(left, right), pa.py_buffer(product)])


def _words(datum: Datum) -> tuple[Any, int]:
    """The unscaled values as int64 and the step between them: 0 for a constant, 2 in a decimal column."""
    if isinstance(datum, pa.Scalar):
        datum, is_constant = pa.array([datum.as_py()], datum.type), True
    else:
        is_constant = False
    if pa.types.is_decimal(datum.type):
        if not pa.types.is_decimal128(datum.type):
            datum = pc.cast(datum, pa.decimal128(datum.type.precision, datum.type.scale))
        return view_buffer(
            datum.buffers()[1], np.int64, 2 * datum.offset, 2 * len(datum)
        ), 0 if is_constant else 2
    words = datum if datum.type == pa.int64() else pc.cast(datum, pa.int64())
    return view_buffer(words.buffers()[1], np.int64, words.offset, len(words)), 0 if is_constant else 1


def _validity(*datums: Datum) -> pa.Buffer | None:
    valid = None
    for datum in datums:
        mask = valid_mask(datum) if isinstance(datum, pa.Array) else None
        if mask is not None:
            valid = mask if valid is None else valid & mask
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def divide(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    """Arrow cuts the quotient off; one digit more than the target's is enough to round half up exactly."""
    a, b = _as_decimal256(left), _as_decimal256(right)
    if _quotient_digits(a.type, b.type, target) > DECIMAL256_DIGITS:
        a, b = _tightened(a), _tightened(b)
        digits = _quotient_digits(a.type, b.type, target)
        if digits > DECIMAL256_DIGITS:
            return _in_halves(lambda a, b: divide(a, b, target), left, right, target, digits)
    result = pc.divide(_as_decimal256(a, _dividend_scale(a.type, b.type, target)), b)
    return fit(as_array(result, rows_of(left, right)), target)


def _dividend_scale(left: pa.DataType, right: pa.DataType, target: pa.DataType) -> int:
    """The scale at which Arrow's quotient has at least one digit more than the target."""
    return int(max(left.scale, target.scale - right.precision + right.scale))


def _quotient_digits(left: pa.DataType, right: pa.DataType, target: pa.DataType) -> int:
    """The precision of Arrow's quotient."""
    scale = _dividend_scale(left, right, target)
    whole_digits = left.precision - left.scale + right.scale
    return int(whole_digits + max(6, scale + right.precision + 1))


def remainder(left: Datum, right: Datum, target: pa.DataType) -> pa.Array:
    """With the dividend's sign; exact for operands that have more than 38 digits in one scale, too."""
    from sqlstream.runtime.kernels.decimals import remainders_into

    a, b = (_as_decimal128(x) for x in as_arrays(left, right))
    scale = max(a.type.scale, b.type.scale)
    words = np.empty(2 * len(a), dtype=np.uint64)
    dividends, divisors = (view_buffer(x.buffers()[1], np.uint64, 2 * x.offset, 2 * len(x)) for x in (a, b))
    remainders_into(words, dividends, divisors, scale - a.type.scale, scale - b.type.scale)
    own = pa.decimal128(DECIMAL128_DIGITS, scale)
    return fit(pa.Array.from_buffers(own, len(a), [_validity(a, b), pa.py_buffer(words)]), target)


def _as_decimal128(column: pa.Array) -> pa.Array:
    digits, scale = _digits_and_scale(column.type)
    return pc.cast(column, pa.decimal128(digits, scale))


def low_words(values: pa.Array) -> Any:
    """The low 64 bits of the unscaled values (items under NULLs are arbitrary)."""
    return view_buffer(values.buffers()[1], np.int64, 2 * values.offset, 2 * len(values))[::2]


# FLOOR and CEIL, of numbers and of points in time.


def floor_or_ceil(call: Call, context: EvaluationContext) -> Kernel:
    is_floor = call.function == "FLOOR"
    if len(call.args) == 2:
        return _temporal(call, context, is_floor)
    if sql.is_integer(call.type):
        return lambda value: value
    function = pc.floor if is_floor else pc.ceil
    if call.type.root is TypeRoot.DECIMAL:
        target = to_arrow_type(call.type)
        return lambda value: fit(function(_with_headroom(value)), target)
    return lambda value: function(value)


def _with_headroom(value: pa.Array) -> pa.Array:
    """CEIL(9.9) has a digit more than its argument."""
    return pc.cast(value, pa.decimal256(value.type.precision + 1, value.type.scale))


def _temporal(call: Call, context: EvaluationContext, is_floor: bool) -> Kernel:
    unit = rounding_unit(call, literal_of(call, 1))
    root = call.args[0].type.root
    if unit in UNIT_NS and root is TypeRoot.DATE:
        return lambda value, _: value
    if root is TypeRoot.TIME:
        return lambda value, _: _floor_time(value, UNIT_MS[unit], is_floor)

    def kernel(value: pa.Array, _: pa.Scalar) -> pa.Array:
        local = to_local(value, context.time_zone)
        if unit in PERIODS:
            moved = period_start(local, unit)
            if not is_floor:
                moved = pc.if_else(pc.equal(moved, local), local, period_start(local, unit, after=1))
            return require_range(from_local(moved, value.type, context.time_zone))
        # Weeks start on Sunday here, as in Calcite and unlike WEEK().
        moved = pc.floor_temporal(local, unit=unit.lower(), week_starts_monday=False)
        if not is_floor:
            above = pc.ceil_temporal(local, unit=unit.lower(), week_starts_monday=False)
            # Arrow moves the first day of a month, quarter or year to the next one.
            moved = pc.if_else(pc.equal(moved, local), local, above)
        return require_range(from_local(moved, value.type, context.time_zone))

    return kernel


def _floor_time(value: pa.Array, unit_ms: int, is_floor: bool) -> pa.Array:
    values = numbers(value, np.int32)
    result = values // unit_ms * unit_ms if is_floor else -(-values // unit_ms) * unit_ms
    if (result >= DAY_MS).any():
        raise UserError("SS5102", "time out of range", hint="a TIME ends at 23:59:59.999")
    return pa.array(result, pa.int32(), mask=null_mask(value)).view(pa.time32("ms"))
