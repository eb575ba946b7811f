"""Conditions as plain conjuncts where they say the same in other words: other rules find equalities and filters in these."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import TRUE, Call, Expression, conjunction, conjuncts
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.relational.nodes import Filter, Join, RelationalNode
from sqlstream.planner.rules.filter_merge import unique
from sqlstream.types import BOOLEAN


def simplify_conditions(node: RelationalNode) -> RelationalNode:
    """The condition of a Filter or a Join, TRUE for the same rows:

    * `(a AND b) OR (a AND c)` is `a AND (b OR c)`
    * `x = y OR (x IS NULL AND y IS NULL)` is `x IS NOT DISTINCT FROM y`
    * `(x = y) IS TRUE` and `(x = y) = TRUE` are `x = y`, and so is `x IN (y)`
    """
    if not isinstance(node, Filter | Join) or node.condition is None:
        return node
    before = conjuncts(node.condition)
    parts = tuple(part for old in before for part in _plain(old))
    if parts == before:
        return node
    condition = conjunction(unique(parts))
    if isinstance(node, Filter):
        return dataclasses.replace(node, condition=condition or TRUE)
    return dataclasses.replace(node, condition=condition)


def _plain(part: Expression) -> tuple[Expression, ...]:
    """The conjuncts that are all TRUE where `part` is."""
    if not isinstance(part, Call):
        return (part,)
    args = part.args
    match part.function:
        case "IS TRUE":
            return _of(args[0])
        case "=" if TRUE in args and args[0].type.root is BOOLEAN.root:
            return _of(args[1] if args[0] == TRUE else args[0])
        case "IN" if len(args) == 2:
            return (Call("=", args, part.type, part.span),)
        case "OR":
            return _of_any(part)
    return (part,)


def _of(condition: Expression) -> tuple[Expression, ...]:
    return tuple(plain for part in conjuncts(condition) for plain in _plain(part))


def _of_any(disjunction: Call) -> tuple[Expression, ...]:
    alternatives = [_of(a) for a in _alternatives(disjunction)]
    if len(alternatives) == 2 and (same := _null_safe(alternatives, disjunction)) is not None:
        return (same,)
    common = tuple(p for p in alternatives[0] if all(p in other for other in alternatives[1:]))
    if not common or not is_deterministic(*common):
        return (disjunction,)
    others = [conjunction([p for p in parts if p not in common]) for parts in alternatives]
    rest = tuple(other for other in others if other is not None)
    if len(rest) < len(others):
        # One alternative is what all have in common.
        return common
    is_nullable = any(other.type.nullable for other in rest)
    return (*common, Call("OR", rest, BOOLEAN.with_nullable(is_nullable), disjunction.span))


def _alternatives(condition: Expression) -> tuple[Expression, ...]:
    if isinstance(condition, Call) and condition.function == "OR":
        return tuple(one for arg in condition.args for one in _alternatives(arg))
    return (condition,)


def _null_safe(alternatives: list[tuple[Expression, ...]], origin: Call) -> Expression | None:
    """`x IS NOT DISTINCT FROM y`, of which one alternative is `x = y` and the other that both are NULL."""
    equal, nulls = sorted(alternatives, key=len)
    if len(equal) != 1 or len(nulls) != 2:
        return None
    (part,) = equal
    if not isinstance(part, Call) or part.function != "=" or not is_deterministic(*part.args):
        return None
    are_null = {p.args[0] for p in nulls if isinstance(p, Call) and p.function == "IS NULL"}
    if are_null != set(part.args):
        return None
    return Call("IS NOT DISTINCT FROM", part.args, BOOLEAN.not_null(), origin.span or part.span)
