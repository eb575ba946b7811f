"""GROUP BY and DISTINCT."""

from __future__ import annotations

import dataclasses

from sqlstream.expressions import AggregateCall, references, substitute
from sqlstream.functions.aggregates import accumulator_fields
from sqlstream.planner.physical.calc import narrow
from sqlstream.planner.physical.description import describe, describe_calls, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import ADDITIVE, require_retractable
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.expand import Expand
from sqlstream.planner.relational.planner import Inputs
from sqlstream.planner.relational.recursive_query import Iterate
from sqlstream.planner.relational.union import Backfill
from sqlstream.planner.relational.unnest import Unnest
from sqlstream.planner.relational.window_tvf import WindowTvf
from sqlstream.schema import Field, Schema
from sqlstream.specs import AggregatePhase, GroupAggregateSpec
from sqlstream.specs.window import WindowKind
from sqlstream.types import BIGINT


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate(base.SingleInputNode):
    """GROUP BY columns `keys`; schema: key columns, then one column per call. DISTINCT is an Aggregate without calls.
    `ttl_ms`: what a hint says of its state."""

    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl_ms: int | None = None

    def describe(self) -> str:
        calls = zip(self.schema.names[len(self.keys) :], self.calls, strict=True)
        return base.join_parts(
            f"group=[{base.columns_text(self.keys)}]",
            *(f"{name}=[{call}]" for name, call in calls),
            "" if self.ttl_ms is None else f"stateTtl=[{self.ttl_ms} ms]",
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        key_count = len(self.keys)
        kept = tuple(i for i in range(len(self.calls)) if key_count + i in wanted)
        if not self.keys and not kept:
            kept = (0,)
        calls = tuple(self.calls[i] for i in kept)
        source, places = pruning.trim(self.input, frozenset(read_columns(self.keys, calls)), time)
        calls = tuple(call.moved(places) for call in calls)
        columns = tuple(range(key_count)) + tuple(key_count + i for i in kept)
        keys = tuple(places[k] for k in self.keys)
        aggregate = base.over_input(self, source, keys=keys, calls=calls, schema=self.schema.select(columns))
        return aggregate, base.places_of(columns)

    def result_keys(self) -> tuple[base.Key, ...]:
        every = tuple(range(len(self.keys)))
        bounds = {}
        for column in every:
            window, place = _window_column(self.input, self.keys[column])
            if window is not None and window.window.kind in (WindowKind.TUMBLE, WindowKind.HOP):
                bounds[place] = column
        if not bounds.keys() >= {0, 1}:
            return (every,)
        # The two bounds of a window that always has the same size follow from each other.
        return (every, _without(every, bounds[1]), _without(every, bounds[0]))

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        keys = references(self.input.schema.types, self.keys)
        found = base.of_columns(conditions, range(len(keys)))
        return [[base.Condition(substitute(c.expression, keys), c.is_of_key) for c in found]]

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return (self.input, self.keys[column]) if column < len(self.keys) else None


def _window_column(node: base.RelationalNode, column: int) -> tuple[WindowTvf | None, int]:
    """The window that makes a column, and whether it is its start (0), end (1) or time (2)."""
    while not isinstance(node, Aggregate):
        if isinstance(node, WindowTvf) and column >= len(node.input.schema):
            return node, column - len(node.input.schema)
        found = node.origin(column)
        # The sides of a join may have different windows.
        if found is None or len(node.inputs) != 1:
            break
        node, column = found
    return None, 0


def _without(key: base.Key, column: int) -> base.Key:
    return tuple(each for each in key if each != column)


def history_below(node: base.RelationalNode) -> Backfill | None:
    """The table with a history that the rows come from, unless an operator that keeps rows is between."""
    while not isinstance(node, Backfill):
        is_session = isinstance(node, WindowTvf) and node.window.kind is WindowKind.SESSION
        if not isinstance(node, Filter | Project | Expand | Unnest | WindowTvf) or is_session:
            return None
        node = node.input
    return node


# Group aggregates: GROUP BY over the whole stream, in one phase or two.


ROW_COUNT_COLUMN = "$row_count"


def plan_group_aggregate(planning: Planning, inputs: Inputs, node: Aggregate) -> PhysicalNode:
    """LOCAL before the exchange and GLOBAL behind it, so that few rows per group and batch cross the network; one
    phase where a call's accumulator cannot be sent. Of a recursive query of which only the best rows are wanted, no others are
    made."""
    if isinstance(node.input, Iterate) and node.input not in planning.shared:
        from sqlstream.planner.relational.settled_values import best_of_recursion

        if (best := best_of_recursion(node, node.input)) is not None:
            return inputs.of(best, False)
    source = inputs[0]
    is_retracting = not source.traits.is_insert_only
    require_retractable(source, node.calls, node.span)
    accumulators = split_calls(planning, node.calls, source.schema, is_retracting)
    key_count = len(node.keys)
    traits = Traits(
        is_insert_only=False,
        is_bounded=source.traits.is_bounded,
        keys=frozenset({frozenset(range(key_count))}),
    )
    if accumulators is None:
        return _single(planning, source, node, traits, is_retracting)
    count = (Field(ROW_COUNT_COLUMN, BIGINT.not_null()),) if is_retracting else ()
    keys = source.schema.select(node.keys)
    local_spec = _spec(planning, node, AggregatePhase.LOCAL, node.keys, is_retracting)
    local = planning.node(
        "LocalGroupAggregate",
        local_spec,
        over(source),
        Schema(keys.fields + count + accumulators),
        Traits(is_bounded=source.traits.is_bounded),
        _describe("LocalGroupAggregate", node, source.schema),
        node.span,
    )
    own_keys = tuple(range(key_count))
    return planning.node(
        "GlobalGroupAggregate",
        _spec(planning, node, AggregatePhase.GLOBAL, own_keys, is_retracting),
        over(local, hash_or_singleton(own_keys)),
        node.schema,
        traits,
        _describe("GlobalGroupAggregate", node, source.schema),
        node.span,
        parallelism=0 if node.keys else 1,
    )


def split_calls(
    planning: Planning, calls: tuple[AggregateCall, ...], schema: Schema, is_retracting: bool
) -> tuple[Field, ...] | None:
    """The accumulator columns of all calls between LOCAL and GLOBAL; None where only one phase is possible.

    Over retracted rows, MIN and MAX need all values, and a partial keeps one. A variance has no partial result for a negative
    number of rows.
    """
    if not planning.wants_two_phases:
        return None
    fields: list[Field] = []
    for call in calls:
        own = accumulator_fields(call, schema)
        if own is None or (is_retracting and call.function not in ADDITIVE):
            return None
        fields += own
    return tuple(fields)


def read_columns(keys: tuple[int, ...], calls: tuple[AggregateCall, ...], *others: int) -> tuple[int, ...]:
    """The columns that an aggregation reads, ascending."""
    columns = {*keys, *(o for o in others if o >= 0)}
    for call in calls:
        columns |= {*call.args, *([call.filter] if call.filter >= 0 else [])}
    return tuple(sorted(columns))


def _single(
    planning: Planning, source: PhysicalNode, node: Aggregate, traits: Traits, is_retracting: bool
) -> PhysicalNode:
    columns = read_columns(node.keys, node.calls) or (0,)
    narrowed = narrow(planning, source, columns)
    places = {c: i for i, c in enumerate(columns)}
    keys = tuple(places[k] for k in node.keys)
    spec = GroupAggregateSpec(
        keys=keys,
        aggregates=tuple(call.moved(places) for call in node.calls),
        phase=AggregatePhase.SINGLE,
        is_retracting=is_retracting,
        state_ttl_ms=planning.ttl_ms(node.ttl_ms),
    )
    return planning.node(
        "GroupAggregate",
        spec,
        over(narrowed, hash_or_singleton(keys)),
        node.schema,
        traits,
        _describe("GroupAggregate", node, source.schema),
        node.span,
        parallelism=0 if keys else 1,
    )


def _spec(
    planning: Planning, node: Aggregate, phase: AggregatePhase, keys: tuple[int, ...], is_retracting: bool
) -> GroupAggregateSpec:
    return GroupAggregateSpec(
        keys=keys,
        aggregates=node.calls,
        phase=phase,
        is_retracting=is_retracting,
        state_ttl_ms=planning.ttl_ms(node.ttl_ms) if phase is not AggregatePhase.LOCAL else 0,
    )


def _describe(name: str, node: Aggregate, schema: Schema) -> str:
    return describe(
        name, groupBy=describe_columns(node.keys, schema), select=describe_calls(node.calls, schema)
    )
