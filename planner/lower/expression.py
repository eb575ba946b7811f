"""Resolved expressions as trees in an engine's dialect."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream.errors import UserError
from sqlstream.expressions import Expression, InputRef, Literal
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect
from sqlstream.planner.lower.hosting import Hosted
from sqlstream.planner.relational.correlation import OUTER
from sqlstream.types import LogicalType

Columns = Callable[[int], exp.Expr]
"""The tree of an input column."""

HEIGHT_MAX = 6
"""Levels of calls that stay a tree: sqlglot's generator takes many nested Python calls for each, and Python bounds these."""


def lower_expression(expression: Expression, engine: EngineDialect, columns: Columns) -> exp.Expr:
    """The expression over the given columns. UserError SS3301 for what the engine cannot compute exactly.

    Deep parts are text already, in `exp.Var`.
    """
    lowered, _ = _lower(expression, engine, columns)
    return lowered


def _lower(expression: Expression, engine: EngineDialect, columns: Columns) -> tuple[exp.Expr, int]:
    """The tree, and how many levels of calls it has."""
    match expression:
        case InputRef(index):
            return columns(index), 0
        case Literal():
            return engine.literal(expression), 0
    if expression.function == OUTER:
        depth, column = (str(arg) for arg in expression.args)
        return tree.column(f"c{column}", f"outer_{depth}"), 0
    if not all(engine.has_type(arg.type) for arg in expression.args) and (
        hosted := engine.hosted(expression)
    ):
        return _lower_hosted(hosted, expression.type, engine, columns)
    args = [_lower(arg, engine, columns) for arg in expression.args]
    try:
        lowered = engine.call(expression, [arg for arg, _ in args])
    except UserError as error:
        found = engine.hosted(expression) if error.code == "SS3301" else None
        if found is None:
            raise
        return _lower_hosted(found, expression.type, engine, columns)
    height = 1 + max((height for _, height in args), default=0)
    if height < HEIGHT_MAX:
        return lowered, height
    return tree.rendered(lowered, engine.sqlglot_name), 0


def _lower_hosted(
    hosted: Hosted, type_: LogicalType, engine: EngineDialect, columns: Columns
) -> tuple[exp.Expr, int]:
    args = [_lower(arg, engine, columns) for arg in hosted.arguments]
    lowered = tree.cast(tree.call(hosted.name, *(arg for arg, _ in args)), engine.type_(type_))
    height = 1 + max(height for _, height in args)
    return (lowered, height) if height < HEIGHT_MAX else (tree.rendered(lowered, engine.sqlglot_name), 0)
