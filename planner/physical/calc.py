"""Calc: filters and projections, merged into one operator."""

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
    references,
    substitute,
    transform,
)
from sqlstream.functions.determinism import is_deterministic
from sqlstream.graph.stream_graph import FORWARD, ExchangeKind
from sqlstream.planner.expression_facts import can_substitute, cast_column
from sqlstream.planner.physical.description import describe, describe_expression, describe_select
from sqlstream.planner.physical.kept_values import keeps_values, plan_kept_values
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, hashable, over, shortest_key
from sqlstream.schema import Field, Schema
from sqlstream.specs import AggregatePhase, CalcSpec, GroupAggregateSpec, JoinKind, JoinSpec
from sqlstream.specs.calc import SingleRowCheckSpec
from sqlstream.specs.watermark import ROW_WATERMARK_COLUMN
from sqlstream.types import BIGINT, BOOLEAN


def plan_calc(
    planning: Planning,
    source: PhysicalNode,
    projections: tuple[Expression, ...],
    condition: Expression | None,
    schema: Schema,
    span: Span | None,
    may_merge: bool = True,
    keeps_row_watermark: bool = True,
) -> PhysicalNode:
    """`source` filtered, then projected. A Calc over a Calc becomes one Calc; a Calc that changes nothing is left out.

    What differs each time it is computed is kept by row, where rows are retracted. The watermark of each row (see traits), if
    there is one, stays the last column.
    """
    column = source.traits.row_watermark_column
    if column >= 0 and keeps_row_watermark:
        projections = (*projections, InputRef(column, BIGINT))
        schema = Schema((*schema.fields, Field(ROW_WATERMARK_COLUMN, BIGINT)))
    inner = source.spec
    if isinstance(inner, CalcSpec) and (may_merge or is_rename(inner)):
        reads = projections if condition is None else (*projections, condition)
        if can_substitute(reads, inner.projections):
            lowered = () if condition is None else conjuncts(substitute(condition, inner.projections))
            condition = conjunction(conjuncts(inner.condition) + lowered)
            projections = tuple(substitute(p, inner.projections) for p in projections)
            source = source.inputs[0].node
    source = plan_single_row_check(planning, source, projections, condition, span)
    drawn = projections if condition is None else (*projections, condition)
    if not is_deterministic(*drawn) and keeps_values(planning, source):
        certain = tuple(part for part in conjuncts(condition) if is_deterministic(part))
        if certain and source.traits.row_watermark_column < 0:
            # Rows that are dropped have no values to keep.
            condition = conjunction(tuple(part for part in conjuncts(condition) if part not in certain))
            passed, every = conjunction(certain), references(source.schema.types)
            source = plan_calc(planning, source, every, passed, source.schema, span, may_merge)
        source, projections, condition = plan_kept_values(planning, source, projections, condition, span)
    spec = CalcSpec(projections=projections, condition=condition)
    if (
        condition is None
        and is_rename(spec)
        and len(projections) == len(source.schema)
        and _is_in_order(spec)
    ):
        return source
    return planning.node(
        "Calc",
        spec,
        over(source),
        schema,
        calc_traits(source.traits, projections),
        _describe(spec, schema, source.schema),
        span,
    )


def narrow(planning: Planning, source: PhysicalNode, columns: tuple[int, ...]) -> PhysicalNode:
    """`source` with these columns alone, before an exchange."""
    refs = references(source.schema.types, columns)
    return plan_calc(
        planning, source, refs, None, source.schema.select(columns), source.span, keeps_row_watermark=False
    )


def calc_traits(traits: Traits, projections: tuple[Expression, ...]) -> Traits:
    """The traits after a projection: keys, windows and times whose columns it copies, and keys whose columns it casts without
    making values equal."""
    places: dict[int, set[int]] = {}
    casts: dict[int, int] = {}
    for new, expression in enumerate(projections):
        if isinstance(expression, InputRef):
            places.setdefault(expression.index, set()).add(new)
        elif (column := cast_column(expression)) >= 0:
            casts.setdefault(column, new)
    return traits.projected({column: frozenset(found) for column, found in places.items()}, casts)


def is_rename(spec: CalcSpec) -> bool:
    """Whether the Calc computes nothing and drops no row."""
    return spec.condition is None and all(isinstance(p, InputRef) for p in spec.projections)


def _is_in_order(spec: CalcSpec) -> bool:
    return all(isinstance(p, InputRef) and p.index == i for i, p in enumerate(spec.projections))


def _describe(spec: CalcSpec, schema: Schema, source: Schema) -> str:
    where = "" if spec.condition is None else describe_expression(spec.condition, source)
    select = describe_select(spec.projections, schema.names, source)
    return describe("Calc", select=select, where=f"[{where}]")


# Subqueries that are used as values, over rows that change: several rows fail the job where they stay.
#
# SINGLE_ROW fails as soon as it gets such a row, which is right where no row is ever retracted. Elsewhere rows come
# from several subtasks, and of two that change places the new one may come before the old one is gone.


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
