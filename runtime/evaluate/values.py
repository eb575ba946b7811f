"""Literal rows as batches: what a VALUES source emits."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.schema import Schema
from sqlstream.specs.source import ValuesSpec
from sqlstream.types import BINARY_ROOTS, LogicalType, TypeRoot, is_timestamp


def values_batches(spec: ValuesSpec, schema: Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of `spec`, at most `batch_rows` per batch, in the Arrow schema of `schema`."""
    arrow = to_arrow_schema(schema)
    for start in range(0, len(spec.rows), batch_rows):
        rows = spec.rows[start : start + batch_rows]
        if not schema.fields:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
            continue
        columns = [
            _column(values, f.type, a.type)
            for values, f, a in zip(zip(*rows, strict=True), schema.fields, arrow, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


def _column(values: tuple[LiteralValue, ...], logical: LogicalType, arrow: pa.DataType) -> pa.Array:
    """A loop over values, because there are only as many literals as the statement spells out."""
    return pa.array(list(_evaluated(values, logical)), arrow)


def _evaluated(values: tuple[LiteralValue, ...], logical: LogicalType) -> Iterator[Any]:
    for value in values:
        check_not_given_up()
        # Arrow makes no MAP of a NULL that is a scalar.
        yield None if value is None else evaluate_literal(Literal(value, logical))


# Literals as Arrow scalars.


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
        from sqlstream.runtime.evaluate.time.time_range import bounds_of, out_of_range

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
