"""Values that differ each time they are computed, over rows that are retracted: they are computed once.

The retraction of a row must have the values of the row: DISTINCT, a join, a filter or a sink would find another row else. A
consumer that replaces rows by a key, and asks for no -U, never looks at them; there nothing is kept.
"""

from __future__ import annotations

import dataclasses

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import Span, UserError
from sqlstream.expressions import Call, Expression, InputRef, conjunction, conjuncts, substitute, walk
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, walk_plan
from sqlstream.planner.physical.planning import (
    Planning,
    digest,
    hash_or_singleton,
    hashable,
    over,
    shortest_key,
)
from sqlstream.schema import Field, Schema
from sqlstream.specs import CalcSpec
from sqlstream.specs.calc import KeptValuesSpec

STRATEGY = "table.optimizer.non-deterministic-update.strategy"


def keeps_values(planning: Planning, source: PhysicalNode) -> bool:
    return not source.traits.is_insert_only and planning.setting(STRATEGY) == "TRY_RESOLVE"


def plan_kept_values(
    planning: Planning,
    source: PhysicalNode,
    projections: tuple[Expression, ...],
    condition: Expression | None,
    span: Span | None,
) -> tuple[PhysicalNode, tuple[Expression, ...], Expression | None]:
    """The node that keeps the values of these expressions which are not deterministic, and the expressions over its columns."""
    expressions: list[Expression] = []
    names = list(source.schema.names)
    fields = list(source.schema.fields)

    def column_of(expression: Expression) -> Expression:
        # Equal expressions are several draws, each with a column of its own.
        if is_deterministic(expression):
            return expression
        expressions.append(expression)
        names.append(_free(names))
        fields.append(Field(names[-1], expression.type))
        return InputRef(len(fields) - 1, expression.type)

    projections = tuple(map(column_of, projections))
    condition = conjunction(tuple(map(column_of, conjuncts(condition))))
    keys = shortest_key(source)
    distribution = hashable(source.schema, keys)
    described = ", ".join(describe_expression(e, source.schema) for e in expressions)
    kept = planning.node(
        "KeptValues",
        KeptValuesSpec(keys, distribution, tuple(expressions), planning.state_ttl_ms),
        over(source, hash_or_singleton(distribution)),
        Schema(tuple(fields)),
        source.traits.distributed(distribution),
        describe("KeptValues", key=describe_columns(keys, source.schema), values=f"[{described}]"),
        span,
    )
    return kept, projections, condition


def _free(names: list[str]) -> str:
    return next(name for i in range(len(names) + 1) if (name := f"$value{i}") not in names)


def without_idle_keeping(sinks: tuple[PhysicalNode, ...]) -> tuple[PhysicalNode, ...]:
    """The plan in which values are computed anew where no consumer reads -U rows."""
    nodes = list(walk_plan(sinks))
    idle = {id(n) for n in nodes if _is_idle(n)}
    if not idle:
        return sinks
    rebuilt: dict[int, PhysicalNode] = {}
    for node in nodes:
        inputs = tuple(PhysicalInput(rebuilt[id(i.node)], i.exchange) for i in node.inputs)
        rebuilt[id(node)] = dataclasses.replace(node, inputs=inputs)
        if len(node.inputs) == 1 and id(node.inputs[0].node) in idle:
            rebuilt[id(node)] = _computing(node, inputs[0].node)
    return tuple(rebuilt[id(sink)] for sink in sinks)


def _is_idle(node: PhysicalNode) -> bool:
    return isinstance(node.spec, KeptValuesSpec) and node.changelog_mode is ChangelogMode.UPSERT


def _computing(calc: PhysicalNode, kept: PhysicalNode) -> PhysicalNode:
    """The Calc over what `kept` reads."""
    assert isinstance(calc.spec, CalcSpec)
    assert isinstance(kept.spec, KeptValuesSpec)
    source = kept.inputs[0].node
    below = (*(InputRef(i, f.type) for i, f in enumerate(source.schema.fields)), *kept.spec.expressions)
    condition = None if calc.spec.condition is None else substitute(calc.spec.condition, below)
    spec = CalcSpec(tuple(substitute(p, below) for p in calc.spec.projections), condition)
    return dataclasses.replace(
        calc, spec=spec, inputs=over(source), uid=digest(spec, over(source), calc.schema)
    )


def refuse_changing_condition(
    planning: Planning, condition: Expression | None, inputs: tuple[PhysicalNode, ...], span: Span | None
) -> None:
    """UserError SS3034 for a condition of a join that may find another answer for the retraction of a row."""
    if condition is None or is_deterministic(condition) or not any(keeps_values(planning, i) for i in inputs):
        return
    called = next(n for n in walk(condition) if isinstance(n, Call) and not is_deterministic(n))
    innermost = next((n for n in walk(called) if isinstance(n, Call) and _is_draw(n)), called)
    raise UserError(
        "SS3034",
        f"{innermost.function} in the condition of a join may answer otherwise when a row is retracted",
        span=innermost.span or span,
        hint=f"compute it in a subquery below the join, where its value is kept, or SET '{STRATEGY}' = 'IGNORE'",
    )


def _is_draw(call: Call) -> bool:
    return all(is_deterministic(argument) for argument in call.args)
