"""The history of a table, and the table itself behind it."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

import msgspec

from sqlstream import types as sql
from sqlstream.errors import Span, UserError
from sqlstream.expressions import AggregateCall, Call, Expression, InputRef, Literal, SortKey
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalInput, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.relational.aggregate import Aggregate, history_below
from sqlstream.planner.relational.calc import Project
from sqlstream.planner.relational.first_rows import first_rows
from sqlstream.planner.relational.join import Join
from sqlstream.planner.relational.node import RelationalNode, rewrite
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.rank import Rank
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.sort import Sort
from sqlstream.planner.relational.union import Backfill, Union
from sqlstream.planner.relational.window_tvf import WindowTvf
from sqlstream.schema import Field, Schema
from sqlstream.specs import (
    AggregatePhase,
    BackfillSpec,
    CalcSpec,
    GroupAggregateSpec,
    JoinSpec,
    WindowAggregateSpec,
    WindowRankSpec,
)
from sqlstream.types import BIGINT, DOUBLE, LogicalType, is_proctime

HISTORY, LIVE = 0, 1
CAN_BE_BUILT = (
    "built from a history are aggregates, the first rows by ROW_NUMBER(), and joins over all rows; filters, projections and"
    " windows may stand between these and the table, but no OVER, MATCH_RECOGNIZE, SESSION, UNION ALL, or join by time"
)
AS_A_STREAM = "read both as a stream: FROM (SELECT … FROM history UNION ALL SELECT … FROM table)"
_Reading = TypeVar("_Reading", Aggregate, Rank)


def plan_backfill(planning: Planning, inputs: Inputs, node: Backfill) -> PhysicalNode:
    """UserError SS3503: what reads these rows is nothing that is built from a history."""
    raise UserError(
        "SS3503",
        f'the query uses rows of table "{node.table}" in a way that is not built from a history',
        span=node.span,
        detail=CAN_BE_BUILT,
        hint=AS_A_STREAM,
    )


def plan_backfilled_aggregate(
    planning: Planning, inputs: Inputs, node: Aggregate, backfill: Backfill
) -> PhysicalNode:
    """GROUP BY over a table with a history: the GLOBAL phase gets what the LOCAL phase makes of the table's rows, and what a
    batch engine makes of the history's, or for windows another LOCAL phase.

    Partial results may be merged in any order, so the state is that of one run over all rows. UserError SS3503 where there is no
    LOCAL phase, SS3502 for windows of event time that close by rows of the history."""
    planned = inputs.of(_only(LIVE, node, backfill), needs_row_watermark=False)
    return _with_history(planning, inputs, planned, node, backfill)


def plan_backfilled_rank(planning: Planning, inputs: Inputs, node: Rank, backfill: Backfill) -> PhysicalNode:
    """ROW_NUMBER() over a table with a history: the operator gets the rows of the table, and those of the history that are among
    the first of all its rows, which a batch engine finds.

    What ranks among all rows ranks among those of the history, so the state is that of one run over all rows. UserError SS3503
    for an order of arrival, SS3502 for windows of event time that close by rows of the history."""
    planned = inputs.of(_only(LIVE, node, backfill), needs_row_watermark=False)
    if any(is_proctime(node.input.schema.types[key.column]) for key in node.order):
        raise UserError(
            "SS3503",
            "rows are ranked by the time at which they come, which rows of a history do not have",
            span=node.span or backfill.span,
            hint="rank them by a column, such as the one of the watermark",
        )
    if isinstance(planned.spec, WindowRankSpec):
        _check_by_time(backfill)
    below = planned.inputs[0]
    history = _only(HISTORY, node, backfill)
    read = _read(planning, first_rows(history), below.node.schema, 0, backfill)
    return _with_input(planning, planned, _both(planning, below.node, read, backfill))


def plan_backfilled_sides(
    planning: Planning, inputs: Inputs, node: Join
) -> tuple[PhysicalNode, PhysicalNode]:
    """The sides of a join over all rows. A table with a history is a UNION ALL of both there: the history is read first, as a
    stream, and one history after another.

    The state of a join does not depend on the order in which rows come. UserError SS3503 for a join by time, which forgets
    rows as time goes on."""
    backfills = [history_below(side) for side in node.inputs]
    backfill = next(b for b in backfills if b is not None)
    live = node.with_inputs(tuple(map(_live, node.inputs)))
    joined = inputs.of(live, needs_row_watermark=False)
    while isinstance(joined.spec, CalcSpec):
        joined = joined.inputs[0].node
    if not isinstance(joined.spec, JoinSpec):
        raise UserError(
            "SS3503",
            f'table "{backfill.table}" is joined by time, and only a join over all rows is built from a history',
            span=node.span or backfill.span,
            detail=CAN_BE_BUILT,
            hint=AS_A_STREAM,
        )
    left, right = (inputs.of(rewrite(side, _in_its_turn), needs_row_watermark=False) for side in node.inputs)
    return left, right


def _live(side: RelationalNode) -> RelationalNode:
    return rewrite(side, lambda n: n.branches[LIVE] if isinstance(n, Backfill) else n)


def _in_its_turn(node: RelationalNode) -> RelationalNode:
    """A table and its history as a UNION ALL, where the history is read when it is its turn."""
    if not isinstance(node, Backfill):
        return node
    return Union(branches=(node.branches[LIVE], _turned(node)), schema=node.schema, span=node.span)


def _turned(node: Backfill) -> RelationalNode:
    """The rows of the history as a stream. UserError SS3302 for a table that never ends."""

    def turned(n: RelationalNode) -> RelationalNode:
        if not isinstance(n, TableScan):
            return n
        if not n.is_bounded:
            raise UserError(
                "SS3302",
                f'table "{n.table.path.name}" never ends, so it is no history',
                span=n.span,
                hint="bound the table (DESCRIBE CONNECTOR shows how)",
            )
        return dataclasses.replace(n, waits_for=node.group, turn=node.turn)

    return rewrite(node.branches[HISTORY], turned)


def _only(branch: int, node: _Reading, backfill: Backfill) -> _Reading:
    """The node over the history alone, or over the table alone."""
    below = rewrite(node.input, lambda n: backfill.branches[branch] if n is backfill else n)
    return dataclasses.replace(node, input=below)


def _with_history(
    planning: Planning, inputs: Inputs, node: PhysicalNode, aggregate: Aggregate, backfill: Backfill
) -> PhysicalNode:
    """The plan of an aggregation with one more input of its GLOBAL phase."""
    below = node.inputs[0]
    if isinstance(node.spec, CalcSpec):
        source = _with_history(planning, inputs, below.node, aggregate, backfill)
    elif getattr(node.spec, "phase", None) is AggregatePhase.GLOBAL:
        local = below.node
        assert isinstance(local.spec, GroupAggregateSpec | WindowAggregateSpec)
        if isinstance(local.spec, WindowAggregateSpec):
            _check_windows(aggregate, local.spec, backfill)
        if isinstance(local.spec, WindowAggregateSpec) and local.spec.time_column >= 0:
            read = _local_phase(planning, inputs, local, aggregate, backfill)
        else:
            root = _partials(_only(HISTORY, aggregate, backfill), local, backfill)
            read = _read(planning, root, local.schema, _bounds(local), backfill)
        source = _both(planning, local, read, backfill)
    else:
        raise _refusal(
            "is computed in one phase, and a history gives partial results", aggregate, backfill.span
        )
    return _with_input(planning, node, source)


def _local_phase(
    planning: Planning, inputs: Inputs, local: PhysicalNode, node: Aggregate, backfill: Backfill
) -> PhysicalNode:
    """The LOCAL phase of windows over the rows of the history, without a watermark: none of them is late. Rows that come about in
    the order of time fill few slices at once, which costs less than grouping all rows in a batch engine."""
    assert isinstance(local.spec, WindowAggregateSpec)
    assert isinstance(node.input, WindowTvf)
    below = rewrite(node.input.input, lambda n: _turned(backfill) if n is backfill else n)
    rows = inputs.of(below, needs_row_watermark=False)
    if not rows.traits.is_insert_only:
        raise UserError(
            "SS3503",
            f'the history of table "{backfill.table}" changes its rows, and windows are built from rows that stay',
            span=backfill.span,
            hint="write the rows of the history to a table by a batch statement, and name that table",
        )
    return planning.node(
        local.name,
        msgspec.structs.replace(local.spec, row_watermark_column=-1),
        over(rows),
        local.schema,
        Traits(is_bounded=True),
        local.description,
        local.span,
    )


def _both(planning: Planning, live: PhysicalNode, read: PhysicalNode, backfill: Backfill) -> PhysicalNode:
    """The rows of a table, and those of its history, as one input."""
    return planning.node(
        "Union",
        None,
        (PhysicalInput(live), PhysicalInput(read)),
        live.schema,
        live.traits,
        describe("Union", all="[true]", union=f"[{', '.join(live.schema.names)}]"),
        backfill.span,
    )


def _with_input(planning: Planning, node: PhysicalNode, source: PhysicalNode) -> PhysicalNode:
    """The operator over another input."""
    return planning.node(
        node.name,
        node.spec,
        over(source, node.inputs[0].exchange),
        node.schema,
        node.traits,
        node.description,
        node.span,
        parallelism=node.parallelism,
    )


def _refusal(problem: str, node: Aggregate, span: Span | None) -> UserError:
    calls = ", ".join(dict.fromkeys(call.function for call in node.calls)) or "DISTINCT"
    return UserError(
        "SS3503",
        f"the aggregation of {calls} {problem}",
        span=node.span or span,
        detail="COUNT, SUM, AVG, MIN, MAX, variances and DISTINCT have partial results; calls with DISTINCT, calls that depend on"
        " the order of rows, and SESSION windows have none",
        hint="leave WITH BACKFILL out and read both as a stream, or RESET 'table.optimizer.agg-phase-strategy'"
        " if that is ONE_PHASE",
    )


def _read(
    planning: Planning, root: RelationalNode, schema: Schema, bounds: int, backfill: Backfill
) -> PhysicalNode:
    """What the batch engine makes of the history, as rows of this schema, whose last columns are `bounds` of windows."""
    try:
        lowered = planning.lower_history(root, planning.connectors, planning.settings)
    except UserError as error:
        if error.code == "SS3301":
            error.hint = "leave WITH BACKFILL out and read both as a stream"
        raise error.at(backfill.span) from None
    width = len(schema)
    spec = BackfillSpec(
        backfill.table,
        backfill.group,
        lowered.sql,
        lowered.sources,
        lowered.shared,
        lowered.changes,
        lowered.functions,
        tuple(range(width - bounds, width)),
    )
    names = ", ".join(dict.fromkeys(source.table for source in lowered.sources))
    return planning.node(
        f"Backfill: {backfill.table}",
        spec,
        (),
        schema,
        Traits(),
        describe("Backfill", table=f"[{backfill.table}]", history=f"[{names}]", engine="duckdb"),
        backfill.span,
        parallelism=1,
    )


def _bounds(local: PhysicalNode) -> int:
    """How many columns of the LOCAL phase are bounds of windows."""
    return 2 if isinstance(local.spec, WindowAggregateSpec) else 0


def _partials(node: Aggregate, local: PhysicalNode, backfill: Backfill) -> RelationalNode:
    """The relational plan of the partial results, in the order of their keys."""
    source, keys = node.input, node.keys
    if isinstance(local.spec, WindowAggregateSpec):
        keys = _window_keys(node, local.spec)
    calls, projected = _calls(node, source.schema, len(keys))
    types = source.schema.types
    fields = (Field(f"k{i}", types[k]) for i, k in enumerate(keys))
    sums = (Field(f"a{i}", call.type) for i, call in enumerate(calls))
    # Without calls the partial result of a group is its keys.
    grouped = Aggregate(input=source, keys=keys, calls=calls, schema=Schema((*fields, *sums)), span=node.span)
    bounds = _bounds(local)
    own = len(keys) - bounds
    references = tuple(InputRef(i, types[k]) for i, k in enumerate(keys))
    columns = (*references[:own], *projected, *references[own:])
    names = (f"c{i}" for i in range(len(columns)))
    schema = Schema(tuple(Field(name, c.type) for name, c in zip(names, columns, strict=True)))
    made = Project(input=grouped, expressions=columns, schema=schema, span=node.span)
    places = (*range(own), *range(len(columns) - bounds, len(columns)))
    order = tuple(SortKey(place, is_descending=False, is_nulls_first=True) for place in places)
    return Sort(input=made, order=order, schema=schema, span=node.span) if order else made


def _window_keys(node: Aggregate, spec: WindowAggregateSpec) -> tuple[int, ...]:
    """The keys with the bounds of the windows behind them."""
    source = node.input
    if isinstance(source, WindowTvf):
        width = len(source.input.schema)
        if {width, width + 1} <= set(node.keys):
            # The window function is part of the aggregation.
            return (*spec.keys, width + 1, width)
    # An operator below has made the columns of the bounds.
    return (*spec.keys, spec.window_end_column, spec.window_start_column)


def _check_windows(node: Aggregate, spec: WindowAggregateSpec, backfill: Backfill) -> None:
    if not spec.window.is_event_time:
        raise UserError(
            "SS3503",
            "the windows are of processing time, which rows of a history do not have",
            span=node.span or backfill.span,
            hint="group by windows of a column with a watermark",
        )
    _check_by_time(backfill)


def _check_by_time(backfill: Backfill) -> None:
    if not backfill.is_by_time:
        raise UserError(
            "SS3502",
            f'rows of table "{backfill.table}" may be older than those of its history, and late behind them',
            span=backfill.span,
            hint="part the rows by event time: HAND OVER AT ts >= TIMESTAMP '2026-01-01 00:00:00'",
        )


def _calls(
    node: Aggregate, schema: Schema, key_count: int
) -> tuple[tuple[AggregateCall, ...], tuple[Expression, ...]]:
    """The calls that an engine computes for the partial results, and the partial results as expressions over their columns, which
    stand behind `key_count` keys: for AVG these are SUM, or 0, and COUNT."""
    calls: list[AggregateCall] = []
    columns: list[Expression] = []

    def added(call: AggregateCall, function: str, t: LogicalType) -> InputRef:
        made = msgspec.structs.replace(call, function=function, type=t)
        if made not in calls:
            calls.append(made)
        return InputRef(key_count + calls.index(made), t)

    for call in node.calls:
        fields = accumulator_fields(call, schema)
        if fields is None or call.ref is not None:
            raise _refusal(f"has no partial result of {call.function}", node, node.span)
        match call.function:
            case "COUNT":
                columns.append(added(call, "COUNT", BIGINT.not_null()))
            case "MIN" | "MAX":
                columns.append(added(call, call.function, fields[0].type))
            case "SUM" | "AVG":
                columns.append(_or_zero(added(call, "SUM", fields[0].type)))
                columns.append(added(call, "COUNT", BIGINT.not_null()))
            case _:
                count = added(call, "COUNT", BIGINT.not_null())
                number = Call("CAST", (count,), DOUBLE.not_null())
                mean, variance = (_or_zero(added(call, f, DOUBLE)) for f in ("AVG", "VAR_POP"))
                columns += [count, mean, Call("*", (variance, number), DOUBLE.not_null())]
    return tuple(calls), tuple(columns)


def _or_zero(value: InputRef) -> Expression:
    """The sum of no values is NULL in an engine, and 0 in a partial result."""
    t = value.type.not_null()
    zero: int | float | str = 0
    if t.root is sql.TypeRoot.DECIMAL:
        zero = "0"
    elif t.root is sql.TypeRoot.DOUBLE:
        zero = 0.0
    return Call("COALESCE", (value, Literal(zero, t)), t)
