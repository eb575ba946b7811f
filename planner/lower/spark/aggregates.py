"""Aggregate calls as Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.ansi import AGGREGATES, REFUSED_AGGREGATES
from sqlstream.planner.lower.refusals import AGGREGATE_HINT
from sqlstream.planner.lower.spark.decimals import quotient
from sqlstream.planner.lower.spark.scope import refuse
from sqlstream.planner.lower.spark.types import BIGINT, DOUBLE, spark_type
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot


def lower_aggregate(call: AggregateCall, input_schema: Schema) -> exp.Expr:
    """One call over the columns of the relation `i`. UserError SS3301 when the result depends on the order of rows."""
    condition = tree.input_column(call.filter) if call.filter >= 0 else None
    columns = [tree.input_column(a) for a in call.args]

    def aggregate(name: str, *args: exp.Expr) -> exp.Expr:
        given = [tree.distinct(*args)] if call.is_distinct else args
        return tree.filtered(tree.call(name, *given), condition)

    if call.function == "COUNT":
        return aggregate("count", *(columns or [exp.Star()]))
    if call.ref is not None:
        raise refuse(f"Python aggregate {call.function}", hint=AGGREGATE_HINT)
    if call.function in ("SUM", "AVG"):
        argument = input_schema.types[call.args[0]]
        if call.function == "SUM":
            return tree.cast(aggregate("sum", *columns), spark_type(call.type))
        return _average(aggregate, columns[0], argument, call.type)
    name = AGGREGATES.get(call.function)
    if name is None:
        raise refuse(call.function, hint=REFUSED_AGGREGATES[call.function])
    return aggregate(name, *columns)


def _average(
    aggregate: Callable[..., exp.Expr], column: exp.Expr, argument: LogicalType, result: LogicalType
) -> exp.Expr:
    """Whole numbers divide towards zero; decimals round half up. The quotient by a count of 0 is NULL."""
    total, count = aggregate("sum", column), aggregate("count", column)
    if sql.is_integer(argument):
        return tree.cast(tree.operate(exp.IntDiv, total, count), spark_type(result))
    if argument.root is TypeRoot.DECIMAL:
        wide = sql.decimal(sql.DECIMAL_PRECISION_MAX, argument.scale)
        return quotient(total, wide, count, sql.decimal(19, 0), result)
    doubled = [tree.cast(total, DOUBLE), tree.cast(tree.cast(count, BIGINT), DOUBLE)]
    return tree.cast(tree.operate(exp.Div, *doubled), spark_type(result))
