"""Ranks: Top-N over the whole stream or by window, and deduplication."""

from __future__ import annotations

import dataclasses

import msgspec

from sqlstream.errors import UserError
from sqlstream.planner.physical.description import describe, describe_columns, describe_order
from sqlstream.planner.physical.node import Columns, PhysicalNode, Traits, WindowTrait
from sqlstream.planner.physical.planning import SINGLETON, Planning, hash_or_singleton, over
from sqlstream.planner.physical.refusals import refuse_ttl, require_insert_only, require_time
from sqlstream.planner.relational.nodes import Rank, RelationalNode, Sort
from sqlstream.specs import (
    DeduplicateSpec,
    Keep,
    RankPhase,
    RankSpec,
    SortSpec,
    TemporalSortSpec,
    WindowRankSpec,
)
from sqlstream.specs.calc import LimitSpec
from sqlstream.types import TimeAttribute, is_proctime, is_rowtime

RETRACTABLE_RANKS_MAX = 65_535
"""Highest rank that the operator can number while rows are retracted."""


def plan_rank(planning: Planning, source: PhysicalNode, node: Rank) -> PhysicalNode:
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


# ORDER BY, with or without LIMIT.


def plan_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    """Bounded input: a Sort that emits at the end of input. Unbounded: ORDER BY … LIMIT is an updating Top-N.

    Without LIMIT it is a sort by time: UserError SS3014 for any other order, by which no row could ever be emitted.
    """
    if source.traits.is_bounded:
        return _sort(planning, source, node)
    if node.fetch < 0:
        return _temporal_sort(planning, source, node)
    return _top_n(planning, source, node)


def plan_final_rows(planning: Planning, source: PhysicalNode) -> PhysicalNode:
    """The rows that are left at the end of bounded input, insert-only."""
    return planning.node(
        "FinalRows",
        SortSpec(order=(), offset=0, fetch=-1),
        over(source, SINGLETON),
        source.schema,
        Traits(is_bounded=True, keys=source.traits.unique_keys),
        describe("FinalRows"),
        source.span,
        parallelism=1,
    )


def _sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    spec = SortSpec(order=node.order, offset=node.offset, fetch=node.fetch)
    traits = Traits(is_bounded=True, keys=source.traits.unique_keys)
    return planning.node(
        "Sort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe(
            "Sort",
            orderBy=describe_order(node.order, source.schema),
            offset=str(node.offset) if node.offset else "",
            fetch=str(node.fetch) if node.fetch >= 0 else "",
        ),
        node.span,
        parallelism=1,
    )


def _temporal_sort(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    first = node.order[0] if node.order else None
    time = source.schema.types[first.column] if first is not None else None
    is_time = time is not None and time.time_attribute is not TimeAttribute.NONE
    if first is None or time is None or not is_time or first.is_descending or node.offset:
        raise UserError("SS3014", "ORDER BY on an unbounded table never comes to an end", span=node.span)
    require_insert_only(source, "ORDER BY time", node.span)
    is_event_time = is_rowtime(time)
    if is_event_time:
        require_time(source, first.column, "ORDER BY time", node.span)
    spec = TemporalSortSpec(
        order=node.order if is_event_time else node.order[1:],
        time_column=first.column if is_event_time else -1,
    )
    # Other times of the rows may be behind the watermark by now.
    traits = Traits(
        is_bounded=False,
        keys=source.traits.keys,
        times=source.traits.times & {first.column},
    )
    return planning.node(
        "TemporalSort",
        spec,
        over(source, SINGLETON),
        node.schema,
        traits,
        describe("TemporalSort", orderBy=describe_order(node.order, source.schema)),
        node.span,
        parallelism=1,
    )


def _top_n(planning: Planning, source: PhysicalNode, node: Sort) -> PhysicalNode:
    rank = Rank(
        schema=node.schema,
        span=node.span,
        input=node.input,
        partition_keys=(),
        order=node.order,
        rank_start=node.offset + 1,
        rank_end=node.offset + node.fetch,
        outputs_rank=False,
    )
    return plan_rank(planning, source, rank)


# LIMIT and OFFSET without ORDER BY.


def plan_limit(
    planning: Planning, inputs: tuple[PhysicalNode, ...], node: RelationalNode
) -> PhysicalNode | None:
    """One subtask counts the rows of an insert-only input; the traits of the input stay true."""
    if not isinstance(node, Sort) or node.order or not inputs[0].traits.is_insert_only:
        return None
    offset = str(node.offset) if node.offset else ""
    fetch = str(node.fetch) if node.fetch >= 0 else ""
    return planning.node(
        "Limit",
        LimitSpec(fetch=node.fetch, offset=node.offset),
        over(inputs[0], SINGLETON),
        node.schema,
        dataclasses.replace(inputs[0].traits, row_watermark_column=-1),
        describe("Limit", offset=offset, fetch=fetch),
        node.span,
        parallelism=1,
    )
