"""Aggregate calls in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.planner.lower import ansi, tree
from sqlstream.planner.lower.ansi import AGGREGATES
from sqlstream.planner.lower.duckdb.numbers import scaled_quotient, unscaled
from sqlstream.planner.lower.duckdb.refusals import refuse
from sqlstream.planner.lower.duckdb.types import DOUBLE, HUGEINT, type_
from sqlstream.planner.lower.refusals import AGGREGATE_HINT
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot

REFUSED_AGGREGATES = {name: why for name, why in ansi.REFUSED_AGGREGATES.items() if name != "PERCENTILE"}
"""Aggregate functions that have no exact counterpart, each with the reason."""


def lower_aggregate(call: AggregateCall, input_schema: Schema) -> exp.Expr:
    """One call over columns c0, c1 … of the relation `i`. UserError SS3301 when the result depends on the order of rows."""
    if call.function == "COUNT":
        return aggregated("count", call, _counted(call))
    if call.ref is not None:
        raise refuse(f"Python aggregate {call.function}", hint=AGGREGATE_HINT)
    if call.function in ("SUM", "AVG"):
        argument = tree.input_column(call.args[0])
        total = aggregated("sum", call, argument)
        if call.function == "SUM":
            return tree.cast(total, type_(call.type))
        return _average(call, input_schema, total, aggregated("count", call, argument))
    if call.function == "PERCENTILE":
        return _percentile(call, input_schema)
    function = AGGREGATES.get(call.function)
    if function is None:
        raise refuse(call.function, hint=REFUSED_AGGREGATES[call.function])
    return aggregated(function, call, tree.input_column(call.args[0]))


def aggregated(function: str, call: AggregateCall, argument: exp.Expr) -> exp.Expr:
    """DuckDB's aggregate function of one argument, with DISTINCT and FILTER as in the call."""
    condition = tree.input_column(call.filter) if call.filter >= 0 else None
    return tree.filtered(
        tree.call(function, tree.distinct(argument) if call.is_distinct else argument), condition
    )


def _counted(call: AggregateCall) -> exp.Expr:
    if not call.args:
        return exp.Star()
    columns = [tree.input_column(a) for a in call.args]
    if len(columns) == 1:
        return columns[0]
    is_present = tree.all_of([tree.is_not_null(column) for column in columns])
    return tree.case([(is_present, tree.call("row", *columns))])


def _average(call: AggregateCall, input_schema: Schema, total: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Whole numbers divide towards zero; decimals round half up."""
    argument = input_schema.types[call.args[0]]
    if argument.root is TypeRoot.DECIMAL:
        shift = call.type.scale - argument.scale
        quotient = scaled_quotient(
            unscaled(total, argument.scale), shift, tree.cast(count, HUGEINT), call.type
        )
        return tree.case([(tree.operate(exp.GT, count, tree.number(0)), quotient)])
    division = exp.IntDiv if sql.is_integer(argument) else exp.Div
    return tree.cast(tree.operate(division, total, count), type_(call.type))


def _percentile(call: AggregateCall, input_schema: Schema) -> exp.Expr:
    """Interpolated between the two nearest values in the stream's order of operations, which `quantile_cont` has too, but for
    constant shares only."""
    if len(call.args) == 3:
        raise refuse("PERCENTILE with frequencies")
    value = tree.operate(
        exp.Add, tree.cast(tree.input_column(call.args[0]), DOUBLE), tree.cast(tree.number(0), DOUBLE)
    )
    share = tree.input_column(call.args[1])
    is_array = input_schema.types[call.args[1]].root is TypeRoot.ARRAY
    shares = tree.cast(share if is_array else tree.call("list_value", share), type_(sql.array(sql.DOUBLE)))
    condition = tree.input_column(call.filter) if call.filter >= 0 else None
    values = tree.call(
        "list_sort",
        tree.call("list_filter", aggregated("list", call, value), tree.raw("lambda x: x IS NOT NULL")),
    )
    given = tree.filtered(tree.call("any_value", shares), condition)

    # Lambdas hold no aggregates, so that both are computed before.
    both = tree.call("list_value", tree.call("row", values, given))
    made = tree.call(
        "list_extract", tree.call("list_transform", both, tree.raw(_INTERPOLATED)), tree.number(1)
    )
    return tree.cast(made if is_array else tree.call("list_extract", made, tree.number(1)), type_(call.type))


_AT = "list_extract(struct_extract(s, 1), 1 + CAST({}(p * (len(struct_extract(s, 1)) - 1)) AS BIGINT))"
_LOW, _HIGH = _AT.format("floor"), _AT.format("ceil")
_PLACE = "p * (len(struct_extract(s, 1)) - 1)"
_INTERPOLATED = (
    "lambda s: CASE WHEN len(struct_extract(s, 1)) > 0 THEN list_transform(struct_extract(s, 2), lambda p:"
    f" CASE WHEN p BETWEEN 0 AND 1 THEN {_LOW} + ({_HIGH} - {_LOW}) * ({_PLACE} - floor({_PLACE})) END) END"
)
"""The values at the shares of a row of both: sorted values, and shares."""
