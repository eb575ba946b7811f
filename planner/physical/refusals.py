"""Refusals that several operators share, in Flink's words."""

from __future__ import annotations

from sqlstream.errors import Span, UserError
from sqlstream.expressions import AggregateCall, Call, Expression, walk
from sqlstream.functions.determinism import is_deterministic
from sqlstream.planner.physical.kept_values import STRATEGY, keeps_values
from sqlstream.planner.physical.node import PhysicalNode
from sqlstream.planner.physical.planning import Planning
from sqlstream.specs import JoinSpec, OverSpec, OverTiming, WindowAggregateSpec

_WINDOWED = "aggregate by window_start and window_end below it: a window's result is never retracted"


def require_insert_only(
    source: PhysicalNode, operator: str, span: Span | None, hint: str = _WINDOWED
) -> None:
    """UserError SS3011 when the input retracts rows, which the operator cannot consume."""
    if not source.traits.is_insert_only:
        raise UserError(
            "SS3011",
            f"{operator} doesn't support consuming update and delete changes,"
            f" which {producer(source).name} produces",
            span=span or source.span,
            hint=hint,
        )


def refuse_ttl(ttl_ms: int | None, what: str, span: Span | None) -> None:
    """UserError SS3497 for a hint STATE_TTL of state that is dropped by event time."""
    if ttl_ms is not None:
        raise UserError(
            "SS3497",
            f"the hint STATE_TTL has no use: the state of {what} is dropped when the watermark has passed it",
            span=span,
            hint="leave the hint out",
        )


def require_retractable(source: PhysicalNode, calls: tuple[AggregateCall, ...], span: Span | None) -> None:
    """UserError SS3011 for an aggregate of a user that cannot retract."""
    for call in calls:
        if call.ref is not None and "retract" not in call.ref.methods and not source.traits.is_insert_only:
            raise UserError(
                "SS3011",
                f"aggregate {call.function} has no retract, and {producer(source).name} updates the rows that it reads",
                span=span or source.span,
                hint=f"give {call.ref.module}.{call.ref.attribute} a method retract, then ALTER FUNCTION",
            )


def require_time(source: PhysicalNode, column: int, what: str, span: Span | None) -> None:
    """UserError SS3412 for a row time that rows may be behind the watermark with, so that they would be dropped as late."""
    if column not in source.traits.times:
        raise UserError(
            "SS3412",
            f'{what} needs the watermark of "{source.schema.names[column]}", which this query has lost',
            span=span or source.span,
            hint="put it before the operator that emits rows later than their times, such as a join of all rows or an OVER with"
            " following rows",
        )


def require_prompt_rows(source: PhysicalNode, column: int, what: str, span: Span | None) -> None:
    """UserError SS3412 for a time that is behind the watermark, because an operator below emits rows long after they came:
    `what` would drop them as late."""
    if column in source.traits.times:
        return
    nodes, seen = [source], set()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        delaying = _delaying(node)
        if delaying is not None:
            reason, hint = delaying
            raise UserError(
                "SS3412",
                f'{what} needs the watermark of "{source.schema.names[column]}", which this query has lost',
                span=span or source.span,
                detail=f"{reason}; {what} would drop it as late",
                hint=hint,
            )
        nodes += [physical_input.node for physical_input in node.inputs]


def _delaying(node: PhysicalNode) -> tuple[str, str] | None:
    """Why rows of this operator may come behind the watermark, and what to write instead."""
    match node.spec:
        case JoinSpec():
            return (
                "a row of a join of all rows comes with the later of the two, long after the time of the other",
                "bound the distance of the times in ON (a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts),"
                " join FOR SYSTEM_TIME AS OF, or put it below the join",
            )
        case OverSpec(timing=OverTiming.ROW_TIME) as spec if spec.rows_after:
            return "an OVER emits a row after those that follow it in its frame", "put it below the OVER"
        case WindowAggregateSpec() as spec if spec.lateness_ms:
            return (
                "a window with 'table.exec.emit.allow-lateness' emits updates after its end",
                "RESET 'table.exec.emit.allow-lateness' for this query",
            )
        case _:
            return None


def producer(node: PhysicalNode) -> PhysicalNode:
    """The first operator that retracts rows, upstream of `node`."""
    for physical_input in node.inputs:
        if not physical_input.node.traits.is_insert_only:
            return producer(physical_input.node)
    return node


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


ADDITIVE = frozenset({"COUNT", "SUM", "AVG"})
"""Calls whose partial results may be negative: a batch may retract rows that an earlier batch added."""
