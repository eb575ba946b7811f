"""Subqueries that are used as values, over rows that change: several rows fail the job where they stay.

SINGLE_ROW fails as soon as it gets such a row, which is right where no row is ever retracted. Elsewhere rows come from several
subtasks, and of two that change places the new one may come before the old one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from sqlstream.errors import Span
from sqlstream.expressions import (
    Call,
    Expression,
    InputRef,
    Literal,
    conjunction,
    conjuncts,
    inputs_of,
    transform,
)
from sqlstream.graph.stream_graph import FORWARD, ExchangeKind
from sqlstream.planner.physical.description import describe, describe_expression
from sqlstream.planner.physical.exchanges import hash_or_singleton, hashable, shortest_key
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.specs import AggregatePhase, CalcSpec, GroupAggregateSpec, JoinKind, JoinSpec
from sqlstream.specs.single_row_check import SingleRowCheckSpec
from sqlstream.types import BIGINT, BOOLEAN

_CHECK = "SINGLE_ROW"
_ONE = Literal(1, BIGINT.not_null())


def plan_single_row_check(
    planning: Planning,
    source: PhysicalNode,
    projections: tuple[Expression, ...],
    condition: Expression | None,
    span: Span | None,
) -> PhysicalNode:
    """`source` without the rows for which one of these expressions would fail; `source` itself where these may fail at once."""
    if isinstance(source.spec, SingleRowCheckSpec):
        # Of a Calc that becomes a part of this one.
        source = source.inputs[0].node
    demanded = list(_demanded(projections, condition))
    checks = tuple(dict.fromkeys(check for check, _ in demanded))
    if all(_only_grows(source, inputs_of(check.args[1])) for check in checks):
        return source
    # The number comes first, so that nothing else is computed for rows that have one.
    several = dict.fromkeys(_all_of((_call(">", check.args[1], _ONE), *guards)) for check, guards in demanded)
    has_several = _call("OR", *several) if len(several) > 1 else next(iter(several))
    placed = _placed_by(source)
    distribution = hashable(source.schema, shortest_key(source)) if placed is None else placed
    exchange = hash_or_singleton(distribution) if placed is None else FORWARD
    return planning.node(
        "SingleRowCheck",
        SingleRowCheckSpec(
            has_several, checks, distribution, source.traits.is_bounded, planning.state_ttl_ms
        ),
        over(source, exchange),
        source.schema,
        source.traits.distributed(distribution) if placed is None else source.traits,
        describe("SingleRowCheck", holdsBack=f"[{describe_expression(has_several, source.schema)}]"),
        span,
    )


_Demand = tuple[Call, tuple[Expression, ...]]
"""A call of SINGLE_ROW, and the conditions under which an expression needs its value."""


def _demanded(projections: tuple[Expression, ...], condition: Expression | None) -> Iterator[_Demand]:
    kept = () if condition is None else (condition,)
    checking: set[int] = set()
    for expression in kept:
        if _checks(expression, checking):
            yield from _demands(expression, (), checking)
    needing = [projection for projection in projections if _checks(projection, checking)]
    guards = tuple(map(_unchecked, kept)) if needing else ()
    for projection in needing:
        yield from _demands(projection, guards, checking)


def _checks(expression: Expression, checking: set[int]) -> bool:
    """Whether SINGLE_ROW is called in an expression; adds the `id` of each part in which it is. Expressions may have thousands of
    terms, of which few have a subquery: only those parts are looked at more closely."""
    if not isinstance(expression, Call):
        return False
    is_found = expression.function == _CHECK
    for argument in expression.args:
        is_found |= _checks(argument, checking)
    if is_found:
        checking.add(id(expression))
    return is_found


def _demands(expression: Expression, guards: tuple[Expression, ...], checking: set[int]) -> Iterator[_Demand]:
    """Those of a branch of CASE, COALESCE, AND and OR hold where the branch is computed."""
    if not isinstance(expression, Call):
        return
    if expression.function == _CHECK:
        yield expression.with_args(tuple(map(_unchecked, expression.args))), guards
    for argument, own in _guarded(expression):
        if id(argument) in checking:
            yield from _demands(argument, (*guards, *map(_unchecked, own)), checking)


def _guarded(call: Call) -> Iterator[tuple[Expression, Iterable[Expression]]]:
    """The arguments, each with what has to be TRUE of a row for which it is computed; that is made when it is asked for."""
    args = call.args
    match call.function:
        case "CASE" | "IF":
            conditions = args[0:-1:2]
            for i, (condition, value) in enumerate(zip(conditions, args[1:-1:2], strict=True)):
                yield condition, _calls("IS NOT TRUE", conditions[:i])
                yield value, chain(_calls("IS NOT TRUE", conditions[:i]), (condition,))
            yield args[-1], _calls("IS NOT TRUE", conditions)
        case "AND" | "OR" | "COALESCE" | "IFNULL":
            for i, argument in enumerate(args):
                yield argument, _calls(_OPEN[call.function], args[:i])
        case _:
            yield from ((argument, ()) for argument in args)


_OPEN = {"AND": "IS NOT FALSE", "OR": "IS NOT TRUE", "COALESCE": "IS NULL", "IFNULL": "IS NULL"}
"""What is TRUE of the arguments behind which the next one is computed."""


def _unchecked(expression: Expression) -> Expression:
    """The expression, which does not fail for several rows: their own demands say where it would."""
    return transform(expression, lambda e: e.args[0] if isinstance(e, Call) and e.function == _CHECK else e)


def _call(function: str, *args: Expression) -> Expression:
    return Call(function, args, BOOLEAN)


def _calls(function: str, of: tuple[Expression, ...]) -> Iterator[Expression]:
    return (_call(function, each) for each in of)


def _all_of(parts: tuple[Expression, ...]) -> Expression:
    made = conjunction(parts)
    assert made is not None
    return made


def _only_grows(node: PhysicalNode, columns: frozenset[int]) -> bool:
    """Whether nothing changes the rows but the numbers in these columns, which only grow: what is counted is never retracted."""
    if node.traits.is_insert_only:
        return True
    match node.spec:
        case CalcSpec() as spec:
            computed = (*(spec.projections[c] for c in columns), *conjuncts(spec.condition))
            return _only_grows(node.inputs[0].node, inputs_of(*computed))
        case JoinSpec(kind=JoinKind.INNER | JoinKind.LEFT) as spec:
            left, right = (i.node for i in node.inputs)
            width = len(left.schema)
            read = columns | inputs_of(*conjuncts(spec.condition))
            of_left = {c for c in read if c < width} | set(spec.left_keys)
            of_right = {c - width for c in read if c >= width} | set(spec.right_keys)
            return _only_grows(left, frozenset(of_left)) and _only_grows(right, frozenset(of_right))
        case GroupAggregateSpec() as spec:
            is_fixed = all(
                c < len(spec.keys) or spec.aggregates[c - len(spec.keys)].function == "COUNT" for c in columns
            )
            below = node.inputs[0].node
            if spec.phase is AggregatePhase.GLOBAL:
                below = below.inputs[0].node
            return is_fixed and below.traits.is_insert_only
    return False


def _placed_by(node: PhysicalNode) -> tuple[int, ...] | None:
    """The columns by which the rows are distributed; none where one subtask has all, None where nothing is known of it."""
    match node.spec:
        case JoinSpec(kind=JoinKind.INNER | JoinKind.LEFT):
            exchange = node.inputs[0].exchange
            if exchange.kind is ExchangeKind.HASH:
                return exchange.keys
            return () if exchange.kind is ExchangeKind.SINGLETON else None
        case CalcSpec() as spec:
            below = _placed_by(node.inputs[0].node)
            copies = {p.index: i for i, p in enumerate(spec.projections) if isinstance(p, InputRef)}
            return (
                None if below is None or not copies.keys() >= set(below) else tuple(copies[c] for c in below)
            )
    return None
