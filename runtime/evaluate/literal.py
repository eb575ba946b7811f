"""Literals as Arrow scalars."""

from __future__ import annotations

import decimal

import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import Literal
from sqlstream.types import BINARY_ROOTS, TypeRoot, is_timestamp

_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def evaluate_literal(literal: Literal) -> pa.Scalar:
    """The constant, in the Arrow type that carries its logical type.

    Symbols (units, TRIM modes) are strings.
    """
    value, logical = literal.value, literal.type
    if logical.root is TypeRoot.SYMBOL:
        return pa.scalar(value, pa.string())
    target = to_arrow_type(logical)
    if value is None:
        return pa.scalar(None, target)
    if logical.root is TypeRoot.DECIMAL:
        return pa.scalar(decimal.Decimal(str(value)), target)
    if is_timestamp(logical):
        # Here, because it loads Arrow's functions, which a literal does not need otherwise.
        from sqlstream.runtime.evaluate.time_range import bounds_of, out_of_range

        ticks = int(value) // _NANOSECONDS[target.unit]
        low, high = bounds_of(target)
        # In a comparison the first moment that nanoseconds do not hold stands for all behind it.
        beyond = 1 if target.unit == "ns" else 0
        if not low - beyond <= ticks <= high + beyond:
            raise out_of_range(target)
        return pa.scalar(ticks, pa.int64()).cast(target)
    if logical.root in BINARY_ROOTS:
        return pa.scalar(bytes.fromhex(str(value)), target)
    if logical.root in (TypeRoot.DATE, TypeRoot.TIME):
        return pa.scalar(value, pa.int32()).cast(target)
    if logical.root is TypeRoot.INTERVAL_DAY_TIME:
        return pa.scalar(value, pa.int64()).cast(target)
    return pa.scalar(value, target)
