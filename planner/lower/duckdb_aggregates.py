"""Aggregate calls as DuckDB SQL."""

from __future__ import annotations

from planner.lower.duckdb_expressions import scaled_quotient, unscaled
from planner.lower.duckdb_types import type_name
from planner.lower.refusals import refuse
from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.schema import Schema
from sqlstream.types import TypeRoot

_PLAIN = {
    "MIN": "min",
    "MAX": "max",
    "STDDEV_POP": "stddev_pop",
    "STDDEV_SAMP": "stddev_samp",
    "VAR_POP": "var_pop",
    "VAR_SAMP": "var_samp",
    "VARIANCE": "var_samp",
}


def lower_aggregate_call(call: AggregateCall, input_schema: Schema) -> str:
    """One call over columns c0, c1 … of the relation `i`. UserError SS3301 when the result depends on the order of rows."""
    distinct = "DISTINCT " if call.is_distinct else ""
    suffix = f" FILTER (WHERE i.c{call.filter})" if call.filter >= 0 else ""
    if call.function == "COUNT":
        return f"count({_counted(call, distinct)}){suffix}"
    argument = f"{distinct}i.c{call.args[0]}" if call.args else ""
    if call.function in ("SUM", "AVG"):
        total, count = f"sum({argument}){suffix}", f"count({argument}){suffix}"
        if call.function == "SUM":
            return f"CAST({total} AS {type_name(call.type)})"
        return _average(call, input_schema, total, count)
    function = _PLAIN.get(call.function)
    if function is None:
        raise refuse(
            call.function, hint="its result depends on the order of rows, which a batch does not have"
        )
    return f"{function}({argument}){suffix}"


def _counted(call: AggregateCall, distinct: str) -> str:
    if not call.args:
        return "*"
    if len(call.args) == 1:
        return f"{distinct}i.c{call.args[0]}"
    columns = [f"i.c{a}" for a in call.args]
    is_present = " AND ".join(f"{c} IS NOT NULL" for c in columns)
    return f"{distinct}CASE WHEN {is_present} THEN row({', '.join(columns)}) END"


def _average(call: AggregateCall, input_schema: Schema, total: str, count: str) -> str:
    """Whole numbers divide towards zero; decimals round half up."""
    argument = input_schema.types[call.args[0]]
    if sql.is_integer(argument):
        return f"CAST({total} // {count} AS {type_name(call.type)})"
    if argument.root is TypeRoot.DECIMAL:
        quotient = scaled_quotient(
            unscaled(total, argument.scale),
            call.type.scale - argument.scale,
            f"CAST({count} AS HUGEINT)",
            call.type,
        )
        return f"CASE WHEN {count} > 0 THEN {quotient} END"
    return f"CAST({total} / {count} AS {type_name(call.type)})"
