"""Rows with the first numbers within partitions."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream.errors import UserError
from sqlstream.expressions import SortKey
from sqlstream.planner.physical.description import describe, describe_columns, describe_order
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import refuse_ttl
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.aggregate import history_below
from sqlstream.planner.relational.planner import Inputs
from sqlstream.schema import Schema
from sqlstream.specs import DeduplicateSpec, Keep, RankPhase, RankSpec, WindowRankSpec
from sqlstream.types import TimeAttribute, is_proctime


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Rank(base.SingleInputNode):
    """The rows whose ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) is rank_start … rank_end (1-based inclusive);
    `outputs_rank`: with a column of it. `ttl_ms`: what a hint says of its state."""

    partition_keys: tuple[int, ...]
    order: tuple[SortKey, ...]
    rank_start: int
    rank_end: int
    outputs_rank: bool
    ttl_ms: int | None = None

    def describe(self) -> str:
        return (
            f"partition=[{base.columns_text(self.partition_keys)}], order=[{base.order_text(self.order)}],"
            f" rank=[{self.rank_start}..{self.rank_end}], outputs_rank=[{str(self.outputs_rank).lower()}]"
            + ("" if self.ttl_ms is None else f", stateTtl=[{self.ttl_ms} ms]")
        )

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        own = len(self.input.schema)
        has_number = self.outputs_rank and own in wanted
        below = (
            frozenset(c for c in wanted if c < own)
            | set(self.partition_keys)
            | {k.column for k in self.order}
        )
        source = pruning.exactly(self.input, below, time)
        kept = tuple(sorted(below)) or tuple(sorted(base.one_column(self.input.schema)))
        places = base.places_of(kept)
        made = base.over_input(
            self,
            source,
            schema=Schema(source.schema.fields + (self.schema.fields[own:] if has_number else ())),
            partition_keys=tuple(places[k] for k in self.partition_keys),
            order=base.moved_order(self.order, places),
            outputs_rank=has_number,
        )
        return made, places | {own: len(kept)}

    def result_keys(self) -> tuple[base.Key, ...]:
        if self.rank_start == self.rank_end:
            return (self.partition_keys,)
        if self.outputs_rank:
            return ((*self.partition_keys, len(self.schema) - 1),)
        return self.input.result_keys()

    def passed(self, conditions: tuple[base.Condition, ...]) -> list[list[base.Condition]]:
        return [base.of_columns(conditions, self.partition_keys)]

    def origin(self, column: int) -> tuple[base.RelationalNode, int] | None:
        return self.copied(column)


# Ranks: Top-N over the whole stream or by window, and deduplication.


RETRACTABLE_RANKS_MAX = 65_535
"""Highest rank that the operator can number while rows are retracted."""


def plan_rank(planning: Planning, inputs: Inputs, node: Rank) -> PhysicalNode:
    if (backfill := history_below(node.input)) is not None:
        from sqlstream.planner.relational.backfill import plan_backfilled_rank

        return plan_backfilled_rank(planning, inputs, node, backfill)
    return rank_rows(planning, inputs[0], node)


def rank_rows(planning: Planning, source: PhysicalNode, node: Rank) -> PhysicalNode:
    """By window when PARTITION BY has both window bounds; deduplication when one row per key is kept by time; else a
    Rank."""
    if source.traits.is_insert_only:
        window = _window(source, node)
        if window is not None:
            return _window_rank(planning, source, node, window)
        if _is_deduplication(source, node):
            return _deduplicate(planning, source, node)
    return _rank(planning, source, node)


def _window(source: PhysicalNode, node: Rank) -> WindowTrait | None:
    keys = set(node.partition_keys)
    for trait in source.traits.windows:
        if trait.starts & keys and trait.ends & keys and trait.spec.is_event_time:
            return trait
    return None


def _is_deduplication(source: PhysicalNode, node: Rank) -> bool:
    if node.rank_start != 1 or node.rank_end != 1 or len(node.order) != 1:
        return False
    return source.schema.types[node.order[0].column].time_attribute is not TimeAttribute.NONE


def _window_rank(planning: Planning, source: PhysicalNode, node: Rank, trait: WindowTrait) -> PhysicalNode:
    refuse_ttl(node.ttl_ms, "a window Top-N", node.span)
    keys = tuple(k for k in node.partition_keys if k not in trait.columns)
    start, end = (min(c & set(node.partition_keys)) for c in (trait.starts, trait.ends))
    spec = WindowRankSpec(
        partition_keys=keys,
        order=node.order,
        window_start_column=start,
        window_end_column=end,
        rank_start=node.rank_start,
        rank_end=node.rank_end,
        outputs_rank=node.outputs_rank,
        time_zone=trait.spec.time_zone,
    )
    closed = dataclasses.replace(trait, is_closed=True)
    is_one = node.rank_start == node.rank_end
    traits = Traits(
        is_bounded=source.traits.is_bounded,
        keys=source.traits.keys | _rank_keys(node, is_one),
        windows=(closed,),
        times=source.traits.times & (trait.ends | trait.times),
        is_single_row_per_window=is_one and not keys,
    )
    return planning.node(
        "WindowRank",
        spec,
        over(source, hash_or_singleton(keys)),
        node.schema,
        traits,
        _describe("WindowRank", node, source, window=f"[{trait.spec}]"),
        node.span,
        parallelism=0 if keys else 1,
    )


def _deduplicate(planning: Planning, source: PhysicalNode, node: Rank) -> PhysicalNode:
    """LOCAL keeps one row per key and batch, and only these cross the network."""
    key = node.order[0]
    on_clock = is_proctime(source.schema.types[key.column])
    spec = DeduplicateSpec(
        keys=node.partition_keys,
        keep=Keep.LAST if key.is_descending else Keep.FIRST,
        time_column=-1 if on_clock else key.column,
        outputs_rank=node.outputs_rank,
        state_ttl_ms=planning.ttl_ms(node.ttl_ms),
    )
    is_final = on_clock and spec.keep is Keep.FIRST
    traits = Traits(
        is_insert_only=is_final,
        is_bounded=source.traits.is_bounded,
        keys=_rank_keys(node, is_one=True),
        # A row that is never replaced is emitted as it comes.
        times=source.traits.times if is_final else frozenset(),
    )
    keep = spec.keep.value
    local_spec = msgspec.structs.replace(spec, phase=RankPhase.LOCAL, outputs_rank=False, state_ttl_ms=0)
    description = _describe("Deduplicate", node, source, keep=keep)
    local = planning.node(
        "LocalDeduplicate",
        local_spec,
        over(source),
        source.schema,
        source.traits,
        f"Local{description}",
        node.span,
    )
    return planning.node(
        "Deduplicate",
        spec,
        over(local if planning.wants_two_phases else source, hash_or_singleton(node.partition_keys)),
        node.schema,
        traits,
        description,
        node.span,
        parallelism=0 if node.partition_keys else 1,
    )


def _rank(planning: Planning, source: PhysicalNode, node: Rank) -> PhysicalNode:
    """LOCAL keeps the first N rows per key of each batch; it needs rows that are never retracted."""
    is_retracting = not source.traits.is_insert_only
    if is_retracting and node.rank_end > RETRACTABLE_RANKS_MAX:
        raise UserError(
            "SS3091",
            f"a Top-N over updating input keeps at most {RETRACTABLE_RANKS_MAX} ranks, not {node.rank_end}",
            span=node.span,
            hint="keep fewer ranks, or rank rows that are never retracted",
        )
    spec = RankSpec(
        partition_keys=node.partition_keys,
        order=node.order,
        rank_start=node.rank_start,
        rank_end=node.rank_end,
        outputs_rank=node.outputs_rank,
        is_retracting=is_retracting,
        state_ttl_ms=planning.ttl_ms(node.ttl_ms),
    )
    below = source
    if not is_retracting and planning.wants_two_phases:
        local_spec = msgspec.structs.replace(
            spec, phase=RankPhase.LOCAL, rank_start=1, outputs_rank=False, state_ttl_ms=0
        )
        description = _describe("LocalRank", dataclasses.replace(node, outputs_rank=False), source)
        below = planning.node(
            "LocalRank", local_spec, over(source), source.schema, source.traits, description, node.span
        )
    is_one = node.rank_start == node.rank_end
    keys, moving = _rank_keys(node, is_one), frozenset[Columns]()
    if not is_one and not node.outputs_rank:
        # A row that leaves the first N is deleted; with a rank column the row of the same rank replaces it instead.
        behind = source.traits.distributed(node.partition_keys)
        keys, moving = keys | behind.keys, behind.moving_keys
    traits = Traits(
        is_insert_only=False, is_bounded=source.traits.is_bounded, keys=keys, moving_keys=moving - keys
    )
    return planning.node(
        "Rank",
        spec,
        over(below, hash_or_singleton(node.partition_keys)),
        node.schema,
        traits,
        _describe("Rank", node, source),
        node.span,
        parallelism=0 if node.partition_keys else 1,
    )


def _rank_keys(node: Rank, is_one: bool) -> frozenset[frozenset[int]]:
    """Keys of the output besides those of the input: the partition, with the rank column where several ranks are kept."""
    partition = frozenset(node.partition_keys)
    if is_one:
        return frozenset({partition})
    return frozenset({partition | {len(node.input.schema)}}) if node.outputs_rank else frozenset()


def _describe(name: str, node: Rank, source: PhysicalNode, **more: str) -> str:
    schema = source.schema
    return describe(
        name,
        **more,
        rankRange=f"[{node.rank_start}, {node.rank_end}]",
        partitionBy=describe_columns(node.partition_keys, schema),
        orderBy=describe_order(node.order, schema),
        outputsRank="true" if node.outputs_rank else "",
    )
