"""FLOOR and CEIL, of numbers and of points in time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.arithmetic import rounding_unit
from sqlstream.runtime.evaluate import decimals
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import Kernel, literal_of, null_mask, numbers
from sqlstream.runtime.evaluate.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time_parts import PERIODS, period_start
from sqlstream.runtime.evaluate.time_range import require_range
from sqlstream.time_units import DAY_MS, UNIT_MS, UNIT_NS
from sqlstream.types import TypeRoot


def floor_or_ceil(call: Call, context: EvaluationContext) -> Kernel:
    is_floor = call.function == "FLOOR"
    if len(call.args) == 2:
        return _temporal(call, context, is_floor)
    if sql.is_integer(call.type):
        return lambda value: value
    function = pc.floor if is_floor else pc.ceil
    if call.type.root is TypeRoot.DECIMAL:
        target = to_arrow_type(call.type)
        return lambda value: decimals.fit(function(_with_headroom(value)), target)
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
