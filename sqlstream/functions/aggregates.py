"""Aggregate functions, and the columns in which LOCAL sends their accumulators to GLOBAL."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.functions.arguments import (
    ANY,
    AS_BIGINT,
    AS_DOUBLE,
    AS_NARROW_INT,
    MANY,
    NUMBER,
    TEXT,
    Argument,
    aggregate,
    always,
    as_given,
    convert_each,
)
from sqlstream.functions.bitmap import BITMAP_ARGUMENT
from sqlstream.functions.comparison import NESTED
from sqlstream.functions.signature import AggregateFunction, DescribedFunction
from sqlstream.functions.user import aggregate_signature
from sqlstream.schema import Field, Schema
from sqlstream.types import BIGINT, DOUBLE, LogicalType, TypeRoot

Types = tuple[LogicalType, ...]
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


def _variance(usage: str) -> AggregateFunction:
    return aggregate(usage, "sums:Variance", (AS_DOUBLE,), always(DOUBLE), _variance_accumulator)


def _bitmap(usage: str, argument: Argument) -> AggregateFunction:
    result = BIGINT if "CARDINALITY" in usage else sql.BITMAP
    is_alike = "XOR" not in usage
    return aggregate(
        usage, "bitmap_aggregate:BitmapAggregate", (argument,), always(result), ignores_distinct=is_alike
    )


def _extreme(usage: str) -> AggregateFunction:
    return aggregate(
        usage,
        "extreme:Extreme",
        (_COMPARABLE,),
        _nullable_argument,
        lambda types: (_nullable_argument(types),),
        retracting="extreme:RetractableExtreme",
        ignores_distinct=True,
    )


def _ordered(usage: str) -> AggregateFunction:
    return aggregate(
        usage, "ordered:OrderedValue", (ANY,), _nullable_argument, retracting="ordered:KeptOrder"
    )


_BITS = "BITMAP_BUILD(ARRAY[v, 2])"

FUNCTIONS: tuple[AggregateFunction, ...] = (
    aggregate(
        "COUNT(*) or COUNT(value, …)",
        "sums:Count",
        as_given,
        always(BIGINT.not_null()),
        lambda types: (BIGINT,),
        args=(0, MANY),
    ).described("The number of rows, or of those in which no value is NULL.", "COUNT(v)", "3"),
    aggregate("SUM(numeric)", "sums:Sum", (NUMBER,), _sum, _sum_accumulator).described(
        "The sum of the values that are not NULL, in their type; NULL when there is none.", "SUM(v)", "7"
    ),
    aggregate("AVG(numeric)", "sums:Average", (NUMBER,), _average, _sum_accumulator).described(
        "The mean of the values that are not NULL; of whole numbers it is whole.", "AVG(v)", "2"
    ),
    _extreme("MIN(value)").described("The least value that is not NULL.", "MIN(v)", "1"),
    _extreme("MAX(value)").described("The greatest value that is not NULL.", "MAX(v)", "3"),
    _variance("STDDEV(numeric)").described(
        "The standard deviation of a sample, as STDDEV_SAMP.", "STDDEV(v * 3)", "3.4641016151377544"
    ),
    _variance("STDDEV_POP(numeric)").described(
        "The standard deviation of a whole population.", "STDDEV_POP(v)", "0.9428090415820634"
    ),
    _variance("STDDEV_SAMP(numeric)").described(
        "The standard deviation of a sample.", "STDDEV_SAMP(v * 3)", "3.4641016151377544"
    ),
    _variance("VAR_POP(numeric)").described("The variance of a whole population.", "VAR_POP(v * 3)", "8.0"),
    _variance("VAR_SAMP(numeric)").described("The variance of a sample.", "VAR_SAMP(v * 3)", "12.0"),
    _variance("VARIANCE(numeric)").described(
        "The variance of a sample, as VAR_SAMP.", "VARIANCE(v * 3)", "12.0"
    ),
    _ordered("FIRST_VALUE(value)").described(
        "The first value that is not NULL, in order of arrival.", "FIRST_VALUE(v)", "3"
    ),
    _ordered("LAST_VALUE(value)").described(
        "The last value that is not NULL, in order of arrival.", "LAST_VALUE(v)", "3"
    ),
    aggregate(
        "ARRAY_AGG(value [IGNORE NULLS])",
        "lists:ArrayAggregate",
        (_COLLECTED,),
        lambda types: sql.array(types[0].without_time_attribute()),
    ).described(
        "The values as an array in order of arrival, NULLs too unless IGNORE NULLS says otherwise.",
        "ARRAY_AGG(v)",
        "[3, 1, NULL, 3]",
    ),
    aggregate(
        "COLLECT(value)",
        "multiset:Collect",
        (_COLLECTED,),
        lambda types: sql.multiset(types[0].without_time_attribute().not_null()).not_null(),
        ignores_distinct=True,
    ).described("The values that are not NULL as a multiset.", "COLLECT(v)", "{3=2, 1=1}"),
    aggregate(
        "PERCENTILE(numeric, percentage[, frequency])",
        "multiset:Percentile",
        _percentile_arguments,
        lambda types: sql.array(DOUBLE) if types[1].root is TypeRoot.ARRAY else DOUBLE,
        ignores_distinct=True,
    ).described(
        "The value at a percentage (0 to 1), or at several, of all values by size, interpolated.",
        "PERCENTILE(v, 0.25)",
        "2.0",
    ),
    _bitmap("BITMAP_BUILD_AGG(integer)", AS_NARROW_INT).described(
        "The set of the numbers that are not NULL.", "BITMAP_TO_STRING(BITMAP_BUILD_AGG(v))", "{1,3}"
    ),
    _bitmap("BITMAP_BUILD_CARDINALITY_AGG(integer)", AS_NARROW_INT).described(
        "How many distinct numbers there are, without NULL.", "BITMAP_BUILD_CARDINALITY_AGG(v)", "2"
    ),
    _bitmap("BITMAP_AND_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "The values that all bitmaps have.", f"BITMAP_TO_STRING(BITMAP_AND_AGG({_BITS}))", "{2}"
    ),
    _bitmap("BITMAP_AND_CARDINALITY_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "How many values all bitmaps have.", f"BITMAP_AND_CARDINALITY_AGG({_BITS})", "1"
    ),
    _bitmap("BITMAP_OR_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "The values that any bitmap has.", f"BITMAP_TO_STRING(BITMAP_OR_AGG({_BITS}))", "{1,2,3}"
    ),
    _bitmap("BITMAP_OR_CARDINALITY_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "How many values the bitmaps have together.", f"BITMAP_OR_CARDINALITY_AGG({_BITS})", "3"
    ),
    _bitmap("BITMAP_XOR_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "The values that an odd number of the bitmaps has.",
        f"BITMAP_TO_STRING(BITMAP_XOR_AGG({_BITS}))",
        "{1}",
    ),
    _bitmap("BITMAP_XOR_CARDINALITY_AGG(bitmap)", BITMAP_ARGUMENT).described(
        "How many values an odd number of the bitmaps has.", f"BITMAP_XOR_CARDINALITY_AGG({_BITS})", "1"
    ),
    aggregate(
        "LISTAGG(string[, separator])",
        "lists:ListAggregate",
        (TEXT, TEXT),
        always(sql.STRING),
        retracting="lists:KeptTexts",
    ).described(
        "The texts that are not NULL with a separator, by default a comma, between.",
        "LISTAGG(CAST(v AS STRING))",
        "3,1,3",
    ),
)

REWRITTEN = (
    DescribedFunction("APPROX_COUNT_DISTINCT", "APPROX_COUNT_DISTINCT(value)").described(
        "The number of distinct values that are not NULL, which is exact.", "APPROX_COUNT_DISTINCT(v)", "2"
    ),
    DescribedFunction("JSON_ARRAYAGG", "JSON_ARRAYAGG(value [{NULL | ABSENT} ON NULL])").described(
        "A JSON array of the values, in order of arrival, by default without NULL.",
        "JSON_ARRAYAGG(v)",
        "[3,1,3]",
    ),
    DescribedFunction(
        "JSON_OBJECTAGG", "JSON_OBJECTAGG([KEY] key VALUE value [{NULL | ABSENT} ON NULL])"
    ).described(
        "A JSON object of keys, each of which occurs once, and values.",
        "JSON_OBJECTAGG(KEY 'n' VALUE v) FILTER (WHERE v = 1)",
        '{"n":1}',
    ),
)
"""Aggregates that the parser writes as others: JSON's as functions of an ARRAY_AGG, the approximate count as the exact one."""


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
