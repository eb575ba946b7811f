"""Aggregate calls in DuckDB."""

from __future__ import annotations

from sqlglot import exp

from planner.lower import tree
from planner.lower.ansi import AGGREGATES, REFUSED_AGGREGATES
from planner.lower.duckdb.numbers import scaled_quotient, unscaled
from planner.lower.duckdb.refusals import refuse
from planner.lower.duckdb.types import HUGEINT, type_
from planner.lower.refusals import PYTHON_HINT
from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot


def lower_aggregate(call: AggregateCall, input_schema: Schema) -> exp.Expr:
    """One call over columns c0, c1 … of the relation `i`. UserError SS3301 when the result depends on the order of rows."""
    if call.function == "COUNT":
        return _aggregated("count", call, _counted(call))
    if call.ref is not None:
        raise refuse(f"Python aggregate {call.function}", hint=PYTHON_HINT)
    if call.function in ("SUM", "AVG"):
        argument = tree.input_column(call.args[0])
        total = _aggregated("sum", call, argument)
        if call.function == "SUM":
            return tree.cast(total, type_(call.type))
        return _average(call, input_schema, total, _aggregated("count", call, argument))
    function = AGGREGATES.get(call.function)
    if function is None:
        raise refuse(call.function, hint=REFUSED_AGGREGATES[call.function])
    return _aggregated(function, call, tree.input_column(call.args[0]))


def _aggregated(function: str, call: AggregateCall, argument: exp.Expr) -> exp.Expr:
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
