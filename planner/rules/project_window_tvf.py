"""Compute expressions below a window function, so that an aggregation right above it can absorb it."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import Expression, InputRef, inputs_of, remap
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Project, RelationalNode, WindowTvf
from sqlstream.schema import Field, Schema


def push_project_below_window_tvf(node: RelationalNode) -> RelationalNode:
    """Project(WindowTvf(x)) with computed columns becomes Project of references(WindowTvf(Project(x))).

    Expressions that read window columns stay above. Each row is then computed once instead of once per window.
    """
    if not isinstance(node, Project) or not isinstance(node.input, WindowTvf):
        return node
    tvf = node.input
    own = len(tvf.input.schema)
    computed = tuple(
        dict.fromkeys(e for e in node.expressions if not isinstance(e, InputRef) and _belongs_below(e, own))
    )
    if not computed:
        return node
    widened = _widen(tvf.input, computed)
    extra = len(computed)
    fields = widened.schema.fields + tvf.schema.fields[own:]
    new_tvf = dataclasses.replace(tvf, input=widened, schema=Schema(fields))

    def lift(expression: Expression) -> Expression:
        if expression in computed:
            return InputRef(own + computed.index(expression), expression.type)
        return remap(expression, {i: i if i < own else i + extra for i in inputs_of(expression)})

    return dataclasses.replace(node, input=new_tvf, expressions=tuple(lift(e) for e in node.expressions))


def _belongs_below(expression: Expression, own: int) -> bool:
    """Whether the expression moves below. Constants do too: the 1 of COUNT(1) must not separate aggregation and window.

    One with RAND() is drawn for each window of a row, and stays above.
    """
    return is_deterministic(expression) and max(inputs_of(expression), default=-1) < own


def _widen(node: RelationalNode, computed: tuple[Expression, ...]) -> Project:
    own = tuple(InputRef(i, f.type) for i, f in enumerate(node.schema.fields))
    fields = tuple(Field(f"$f{i}", e.type) for i, e in enumerate(computed))
    return Project(
        schema=Schema(node.schema.fields + fields), span=node.span, input=node, expressions=own + computed
    )
