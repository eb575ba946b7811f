"""Resolved expressions as trees in an engine's dialect.

An engine computes natively what its whitelist has. Any other expression is one call of a hosted function: the stream's own
evaluator, which gets the columns that the expression reads. A condition is cut into its conjuncts first, so that an engine
still prunes by those that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlstream.expressions import Call, Expression, InputRef, Literal, conjunction, inputs_of, walk
from sqlstream.functions.bitmap import BATCH_REASON
from sqlstream.functions.json import JSON_REASON
from sqlstream.planner.lower import tree
from sqlstream.planner.lower.engine import EngineDialect, refuse
from sqlstream.planner.relational.correlation import OUTER
from sqlstream.types import TypeRoot

Columns = Callable[[int], exp.Expr]
"""The tree of an input column."""

HEIGHT_MAX = 6
"""Levels of calls that stay a tree: sqlglot's generator takes many nested Python calls for each, and Python bounds these."""

COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})


REFUSED: dict[str, str] = {
    "CURRENT_WATERMARK": "the rows of a batch have no watermark",
    "PROCTIME": "the rows of a batch arrive at no time that could order them",
}
"""The scalar functions that batch engines do not have, each with the reason."""

_UNHELD = {TypeRoot.BITMAP: BATCH_REASON, TypeRoot.VARIANT: JSON_REASON}
"""Why no engine holds values of a type."""


def lower_expression(expression: Expression, engine: EngineDialect, columns: Columns) -> exp.Expr:
    """The expression over the given columns. UserError SS3301 for a type that the engine cannot hold.

    Deep parts are text already, in `exp.Var`.
    """
    native = _native(expression, engine, columns)
    return _hosted(expression, engine, columns) if native is None else native


def lower_condition(parts: Sequence[Expression], engine: EngineDialect, columns: Columns) -> exp.Expr:
    """The conjunction of conditions."""
    found = [_native(part, engine, columns) for part in parts]
    lowered = [made for made in found if made is not None]
    if len(lowered) < len(parts):
        # Engines choose the order of conditions: one that guards another is computed with it.
        last = max(place for place, made in enumerate(found) if made is None)
        guarded = conjunction(parts[: last + 1])
        assert guarded is not None
        lowered.append(_hosted(guarded, engine, columns))
    return tree.all_of(lowered) if lowered else tree.boolean(True)


def lower_join_condition(
    parts: Sequence[Expression], engine: EngineDialect, columns: Columns, split: int, *, is_inner: bool
) -> exp.Expr:
    """The conjunction of conditions over two relations, of which the right one has the columns from `split` on. What reads one of
    them is computed apart from the other; so are both sides of a comparison, by whose operator engines join."""
    compared: list[exp.Expr] = []
    of_side: dict[tuple[bool, bool], list[Expression]] = {}
    for part in parts:
        made = _compared_sides(part, engine, columns, split)
        if made is not None:
            compared.append(made)
        else:
            of_side.setdefault(_sides_of(part, split), []).append(part)
    if not is_inner and not engine.joins_by_functions:
        for part in calls_over_both(of_side.get((True, True), ()), engine, split):
            what = f"{_function_of(part)} in a condition of both sides of an outer join"
            raise refuse(engine.title, what)
    return tree.all_of(
        [*compared, *(lower_condition(group, engine, columns) for group in of_side.values())]
        or [tree.boolean(True)]
    )


def calls_over_both(parts: Sequence[Expression], engine: EngineDialect, split: int) -> tuple[Expression, ...]:
    """The conditions of a join that a hosted function computes from columns of both sides."""
    return tuple(
        part
        for part in parts
        if all(_sides_of(part, split))
        and _native(part, engine, tree.input_column) is None
        and _compared_sides(part, engine, tree.input_column, split) is None
    )


def _sides_of(part: Expression, split: int) -> tuple[bool, bool]:
    """Whether a condition reads the left side, and the right one."""
    read = inputs_of(part)
    return any(index < split for index in read), any(index >= split for index in read)


def _function_of(expression: Expression) -> str:
    return expression.function if isinstance(expression, Call) else str(expression)


def _compared_sides(part: Expression, engine: EngineDialect, columns: Columns, split: int) -> exp.Expr | None:
    """A comparison of an expression over one side with one over the other; None for any other condition."""
    if not isinstance(part, Call) or part.function not in COMPARISONS:
        return None
    sides = [{index < split for index in inputs_of(arg)} for arg in part.args]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return None
    if not all(engine.has_type(arg.type) for arg in part.args):
        return None
    return engine.native(part, [lower_expression(arg, engine, columns) for arg in part.args])


def _native(expression: Expression, engine: EngineDialect, columns: Columns) -> exp.Expr | None:
    found = _native_tree(expression, engine, columns)
    return None if found is None else found[0]


def _native_tree(
    expression: Expression, engine: EngineDialect, columns: Columns
) -> tuple[exp.Expr, int] | None:
    """The tree and how many levels of calls it has; None where the engine lacks a part."""
    if isinstance(expression, InputRef):
        return columns(expression.index), 0
    if not engine.has_type(expression.type):
        return None
    if isinstance(expression, Literal):
        return engine.literal(expression), 0
    if expression.function == OUTER:
        return _outer_column(expression), 0
    if expression.ref is not None:
        return None
    args = []
    for arg in expression.args:
        found = _native_tree(arg, engine, columns)
        if found is None:
            return None
        args.append(found)
    lowered = engine.native(expression, [arg for arg, _ in args])
    if lowered is None:
        return None
    height = 1 + max((height for _, height in args), default=0)
    return (lowered, height) if height < HEIGHT_MAX else (tree.rendered(lowered, engine.sqlglot_name), 0)


def _hosted(expression: Expression, engine: EngineDialect, columns: Columns) -> exp.Expr:
    if isinstance(expression, Call) and expression.type.root in _UNHELD:
        raise refuse(engine.title, expression.function, hint=_UNHELD[expression.type.root])
    made = engine.type_(expression.type)
    if not isinstance(expression, Call):
        return engine.literal(expression) if isinstance(expression, Literal) else columns(expression.index)
    for node in walk(expression):
        if isinstance(node, Call) and node.function in REFUSED:
            raise refuse(engine.title, node.function, hint=REFUSED[node.function])
        if isinstance(node, Call) and node.ref is not None and not engine.calls_python:
            hint = "DuckDB calls Python functions: SET 'execution.batch.engine' = 'duckdb'"
            raise refuse(engine.title, f"Python function {node.function}", hint=hint, span=node.span)
    function, read = engine.functions.host(expression)
    args = [_native_tree(arg, engine, columns) for arg in read]
    return tree.cast(tree.call(function.name, *(found[0] for found in args if found is not None)), made)


def _outer_column(call: Call) -> exp.Expr:
    depth, column = (str(arg) for arg in call.args)
    return tree.column(f"c{column}", f"outer_{depth}")
