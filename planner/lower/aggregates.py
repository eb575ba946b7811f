"""Aggregate functions whose results are the stream's in every batch engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, references
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.functions.bitmap import BATCH_REASON
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect, refuse
from sqlstream.planner.lower.expression import lower_expression
from sqlstream.planner.relational.aggregate import Aggregate, read_columns
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.node import RelationalNode
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

AGGREGATES = {
    "MIN": "min",
    "MAX": "max",
    "STDDEV_POP": "stddev_pop",
    **dict.fromkeys(("STDDEV", "STDDEV_SAMP"), "stddev_samp"),
    "VAR_POP": "var_pop",
    "VAR_SAMP": "var_samp",
    "VARIANCE": "var_samp",
}
"""Those of one argument, by name."""

_ORDERED = "its result depends on the order of rows, which a batch does not have"
REFUSED_AGGREGATES: dict[str, str] = dict.fromkeys(
    ("ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE", "LISTAGG"), _ORDERED
)
REFUSED_AGGREGATES["COLLECT"] = "a batch engine has no multisets"
REFUSED_AGGREGATES["PERCENTILE"] = "a batch engine interpolates in another order of operations"
REFUSED_AGGREGATES |= dict.fromkeys(
    (name for name in AGGREGATE_FUNCTIONS if name.startswith("BITMAP_")), BATCH_REASON
)
"""Those that have no exact counterpart, each with the reason."""


def lower_aggregate(
    call: AggregateCall, input_schema: Schema, engine: EngineDialect, counted: list[exp.Expr]
) -> exp.Expr:
    """One call over the columns of the relation `i`; `counted` are the arguments of COUNT. UserError SS3301 when the result
    depends on the order of rows."""
    if call.function == "COUNT":
        return aggregated("count", call, *(counted or [exp.Star()]))
    if call.ref is not None:
        hint = "a batch engine calls no Python aggregates: SET 'execution.runtime-mode' = 'STREAMING'"
        raise refuse(engine.title, f"Python aggregate {call.function}", hint=hint)
    if call.function not in ("SUM", "AVG", *AGGREGATES):
        raise refuse(engine.title, call.function, hint=REFUSED_AGGREGATES[call.function])
    argument = tree.input_column(call.args[0])
    if call.function in AGGREGATES:
        return aggregated(AGGREGATES[call.function], call, argument)
    total = aggregated("sum", call, argument)
    if call.function == "SUM":
        return tree.cast(total, engine.type_(call.type))
    return _average(
        total, aggregated("count", call, argument), input_schema.types[call.args[0]], call, engine
    )


def aggregated(function: str, call: AggregateCall, *arguments: exp.Expr) -> exp.Expr:
    """The engine's aggregate function, with DISTINCT and FILTER as in the call."""
    condition = tree.input_column(call.filter) if call.filter >= 0 else None
    given = [tree.distinct(*arguments)] if call.is_distinct else arguments
    return tree.filtered(tree.call(function, *given), condition)


def _average(
    total: exp.Expr, count: exp.Expr, argument: LogicalType, call: AggregateCall, engine: EngineDialect
) -> exp.Expr:
    """Whole numbers divide towards zero; decimals round half up. Of no rows the total is NULL, and so is the quotient."""
    result = engine.type_(call.type)
    if sql.is_integer(argument):
        return tree.cast(tree.operate(exp.IntDiv, total, count), result)
    if argument.root is TypeRoot.DECIMAL:
        types = (sql.decimal(sql.DECIMAL_PRECISION_MAX, argument.scale), sql.decimal(19, 0))
        parts = [tree.cast(part, engine.type_(t)) for part, t in zip((total, count), types, strict=True)]
        quotient = Call("/", references(types), call.type)
        return lower_expression(quotient, engine, lambda i: parts[i])
    double = engine.type_(sql.DOUBLE)
    return tree.cast(tree.operate(exp.Div, *(tree.cast(part, double) for part in (total, count))), result)


# Arrays of rows whose order does not show, since all that reads them puts them in order.


ORDERING = frozenset({"ORDERED_ARRAY", "ORDERED_LIST"})
"""Functions of an array and an order, which the array itself may not have."""


def collected_calls(nodes: Iterable[RelationalNode]) -> frozenset[tuple[Aggregate, AggregateCall]]:
    """The calls of ARRAY_AGG (WITHIN GROUP) that nothing but ORDERING reads, of all nodes of a plan."""
    readers: dict[RelationalNode, list[RelationalNode]] = {}
    for node in nodes:
        for input in node.inputs:
            readers.setdefault(input, []).append(node)
    found = set()
    for node in readers:
        if isinstance(node, Aggregate) and any(call.function == "ARRAY_AGG" for call in node.calls):
            read = _shown(node, readers)
            for place, call in enumerate(node.calls, len(node.keys)):
                if call.function == "ARRAY_AGG" and place not in read:
                    found.add((node, call))
    return frozenset(found)


def _shown(node: RelationalNode, readers: Mapping[RelationalNode, list[RelationalNode]]) -> set[int]:
    """The columns of a node that are read, but for what ORDERING puts in order."""
    read = set[int]() if node in readers else set(range(len(node.schema)))
    for reader in readers.get(node, ()):
        if isinstance(reader, Project):
            read = read.union(*map(_read_otherwise, reader.expressions))
        elif isinstance(reader, Filter):
            read |= _read_otherwise(reader.condition) | _shown(reader, readers)
        elif isinstance(reader, Aggregate):
            read |= set(read_columns(reader.keys, reader.calls))
        else:
            read |= set(range(len(node.schema)))
    return read


def _read_otherwise(expression: Expression) -> set[int]:
    """The columns that are read, but for what ORDERING puts in order."""
    if isinstance(expression, InputRef):
        return {expression.index}
    if not isinstance(expression, Call):
        return set()
    is_ordered = expression.function in ORDERING and isinstance(expression.args[0], InputRef)
    return set[int]().union(*map(_read_otherwise, expression.args[1:] if is_ordered else expression.args))
