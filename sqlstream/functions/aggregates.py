"""Aggregate functions, and the columns in which LOCAL sends their accumulators to GLOBAL."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.functions.arguments import (
    ANY,
    AS_BIGINT,
    AS_DOUBLE,
    AS_NARROW_INT,
    NUMBER,
    TEXT,
    Argument,
    always,
    convert_each,
)
from sqlstream.functions.bitmap import BITMAP_ARGUMENT
from sqlstream.functions.comparison import NESTED
from sqlstream.functions.signature import AggregateFunction
from sqlstream.functions.user import aggregate_signature
from sqlstream.schema import Field, Schema
from sqlstream.types import BIGINT, DOUBLE, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
_MANY = 100_000
_AVERAGE_SCALE_MIN = 6
_COMPARABLE = Argument(lambda t: t.root not in NESTED, sql.NULL)


_COLLECTED = Argument(lambda t: t.root is not TypeRoot.NULL, sql.INT)
_PERCENTAGES = Argument(
    lambda t: t.root is TypeRoot.ARRAY and t.element is not None and sql.is_numeric(t.element),
    sql.array(DOUBLE),
    target=sql.array(DOUBLE),
)


def _percentile_arguments(types: Types) -> Types | None:
    """A number, a percentage or an array of these, and how often the number counts."""
    percentage = _PERCENTAGES if types[1].root is TypeRoot.ARRAY else AS_DOUBLE
    return convert_each(AS_DOUBLE, percentage, AS_BIGINT)(types)


def _nullable_argument(types: Types) -> LogicalType:
    return types[0].without_time_attribute().with_nullable(True)


def _sum(types: Types) -> LogicalType:
    """Whole and floating numbers keep their type, as in Flink; decimals get all 38 digits."""
    t = types[0]
    return (
        sql.decimal(sql.DECIMAL_PRECISION_MAX, t.scale)
        if t.root is TypeRoot.DECIMAL
        else _nullable_argument(types)
    )


def _average(types: Types) -> LogicalType:
    t = types[0]
    if t.root is TypeRoot.DECIMAL:
        return sql.decimal(sql.DECIMAL_PRECISION_MAX, max(t.scale, _AVERAGE_SCALE_MIN))
    return _nullable_argument(types)


def _sum_accumulator(types: Types) -> Types:
    """The sum, in the widest type of its kind so that partial sums do not overflow, and the number of values."""
    t = types[0]
    if t.root is TypeRoot.DECIMAL:
        return sql.decimal(sql.DECIMAL_PRECISION_MAX, t.scale), BIGINT
    return (BIGINT if sql.is_integer(t) else DOUBLE), BIGINT


def _variance_accumulator(types: Types) -> Types:
    """Count, mean and sum of squared deviations, merged by Chan's formula: safe where the mean is large."""
    return BIGINT, DOUBLE, DOUBLE


def _extreme(name: str) -> AggregateFunction:
    return AggregateFunction(
        name,
        f"{name}(value)",
        1,
        1,
        _nullable_argument,
        lambda types: (_nullable_argument(types),),
        coerce=convert_each(_COMPARABLE),
    )


def _variance(name: str) -> AggregateFunction:
    return AggregateFunction(
        name,
        f"{name}(numeric)",
        1,
        1,
        lambda types: DOUBLE,
        _variance_accumulator,
        coerce=convert_each(AS_DOUBLE),
    )


def _ordered(name: str) -> AggregateFunction:
    return AggregateFunction(
        name,
        f"{name}(value)",
        1,
        1,
        _nullable_argument,
        None,
        coerce=convert_each(ANY),
    )


def _bitmap(operation: str, argument: Argument, usage: str) -> tuple[AggregateFunction, AggregateFunction]:
    """The aggregate, and that of the number of its values."""
    return tuple(  # type: ignore[return-value]
        AggregateFunction(
            f"BITMAP_{operation}_{suffix}",
            f"BITMAP_{operation}_{suffix}({usage})",
            1,
            1,
            always(result),
            None,
            coerce=convert_each(argument),
        )
        for suffix, result in (("AGG", sql.BITMAP), ("CARDINALITY_AGG", BIGINT))
    )


FUNCTIONS: tuple[AggregateFunction, ...] = (
    AggregateFunction(
        "COUNT",
        "COUNT(*) or COUNT(value, …)",
        0,
        _MANY,
        lambda types: BIGINT.not_null(),
        lambda types: (BIGINT,),
    ),
    AggregateFunction("SUM", "SUM(numeric)", 1, 1, _sum, _sum_accumulator, coerce=convert_each(NUMBER)),
    AggregateFunction("AVG", "AVG(numeric)", 1, 1, _average, _sum_accumulator, coerce=convert_each(NUMBER)),
    _extreme("MIN"),
    _extreme("MAX"),
    *(_variance(name) for name in ("STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP", "VARIANCE")),
    _ordered("FIRST_VALUE"),
    _ordered("LAST_VALUE"),
    AggregateFunction(
        "ARRAY_AGG",
        "ARRAY_AGG(value [IGNORE NULLS])",
        1,
        1,
        lambda types: sql.array(types[0].without_time_attribute()),
        None,
        coerce=convert_each(_COLLECTED),
    ),
    AggregateFunction(
        "COLLECT",
        "COLLECT(value)",
        1,
        1,
        lambda types: sql.multiset(types[0].without_time_attribute().not_null()).not_null(),
        None,
        coerce=convert_each(_COLLECTED),
    ),
    AggregateFunction(
        "PERCENTILE",
        "PERCENTILE(numeric, percentage[, frequency])",
        2,
        3,
        lambda types: sql.array(DOUBLE) if types[1].root is TypeRoot.ARRAY else DOUBLE,
        None,
        coerce=_percentile_arguments,
    ),
    *_bitmap("BUILD", AS_NARROW_INT, "integer"),
    *(f for name in ("AND", "OR", "XOR") for f in _bitmap(name, BITMAP_ARGUMENT, "bitmap")),
    AggregateFunction(
        "LISTAGG",
        "LISTAGG(string[, separator])",
        1,
        2,
        lambda types: sql.STRING,
        None,
        coerce=convert_each(TEXT, TEXT),
    ),
)


def _find(name: str) -> AggregateFunction:
    return next(f for f in FUNCTIONS if f.name == name)


def accumulator_fields(call: AggregateCall, input_schema: Schema) -> tuple[Field, ...] | None:
    """The columns in which LOCAL sends this call's accumulator; None when the call has one phase only.

    `input_schema` is the schema whose columns the call's arguments number.
    """
    layout = (aggregate_signature(call.ref) if call.ref is not None else _find(call.function)).accumulator
    if layout is None or call.is_distinct:
        return None
    types = layout(tuple(input_schema.fields[a].type for a in call.args))
    return tuple(Field(f"{call.function.lower()}${i}", t) for i, t in enumerate(types))
