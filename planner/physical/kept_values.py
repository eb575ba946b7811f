"""Values that differ each time they are computed, over rows that are retracted: they are computed once.

The retraction of a row must have the values of the row: DISTINCT, a join, a filter or a sink would find another row else. A
consumer that replaces rows by a key, and asks for no -U, never looks at them; there nothing is kept.
"""

from __future__ import annotations

from sqlstream.errors import Span
from sqlstream.expressions import Expression, InputRef, conjunction, conjuncts
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.description import describe, describe_columns, describe_expression
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import (
    Planning,
    hash_or_singleton,
    hashable,
    over,
    shortest_key,
)
from sqlstream.schema import Field, Schema
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
