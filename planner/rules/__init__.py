"""The optimiser: pure rules, relation → relation, applied in order until nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlstream.planner.relational.nodes import RelationalNode, Sink, rewrite
from sqlstream.planner.rules.column_pruning import prune_columns
from sqlstream.planner.rules.constant_folding import fold_constants
from sqlstream.planner.rules.decorrelation import decorrelate
from sqlstream.planner.rules.filter_push_down import (
    merge_filters,
    push_filters_down,
    push_into_scan,
    simplify_conditions,
    simplify_join_condition,
)
from sqlstream.planner.rules.join_keys import (
    encode_nested_keys,
    join_equated_first,
    project_join_keys,
    turn_right_join,
)
from sqlstream.planner.rules.project_merge import (
    merge_project_into_aggregate,
    merge_projects,
    push_project_below_window_tvf,
)
from sqlstream.planner.rules.row_number_to_rank import merge_windows, turn_row_number_into_rank
from sqlstream.planner.rules.watermark_push_down import (
    pull_window_filter_up,
    push_limit_down,
    push_watermark_into_scan,
)
from sqlstream.spi.connector import ConnectorDescriptor

Rule = Callable[[RelationalNode], RelationalNode]

RULES: tuple[Rule, ...] = (
    fold_constants,
    simplify_conditions,
    turn_right_join,
    merge_filters,
    merge_projects,
    turn_row_number_into_rank,
    push_filters_down,
    simplify_join_condition,
    join_equated_first,
    project_join_keys,
    pull_window_filter_up,
    push_project_below_window_tvf,
    merge_project_into_aggregate,
    push_limit_down,
)
ROUNDS_MAX = 50
"""Rules only move things one way, so a few rounds suffice; the bound prevents a wrong rule from hanging a session."""


def apply_rules(node: RelationalNode, rules: tuple[Rule, ...] = RULES) -> RelationalNode:
    """`node` after all rules, in rounds, until a round changes nothing (at most ROUNDS_MAX)."""
    for _ in range(ROUNDS_MAX):
        before = node
        for rule in rules:
            node = rewrite(node, rule)
        if node == before:
            break
    return node


def optimise(
    sinks: tuple[Sink, ...],
    connectors: Mapping[str, ConnectorDescriptor],
    is_reuse_enabled: bool = True,
    has_watermarks: bool = True,
) -> tuple[Sink, ...]:
    """The optimised statement set: simplified, with filters pushed down, and pruned to the columns that are read. Without
    watermarks, as in batch, scans get none, and arrays and rows are keys as they are."""

    def into_scan(node: RelationalNode) -> RelationalNode:
        return push_into_scan(node, connectors)

    # First: no other rule knows what a subquery reads of the outer query. Its conditions are moved by their equalities.
    joined = tuple(rewrite(rewrite(s, simplify_conditions), decorrelate) for s in sinks)
    if has_watermarks:
        joined = tuple(rewrite(s, encode_nested_keys) for s in joined)
    simplified = tuple(_sink(apply_rules(s, (*RULES, into_scan))) for s in joined)
    pruned = prune_columns(simplified, is_reuse_enabled)
    settled = tuple(_sink(rewrite(apply_rules(s), merge_windows)) for s in pruned)
    if not has_watermarks:
        return settled
    # Last: the watermark refers to the columns of the scan, which do not change any more.
    return tuple(_sink(rewrite(s, lambda node: push_watermark_into_scan(node, connectors))) for s in settled)


def _sink(node: RelationalNode) -> Sink:
    assert isinstance(node, Sink)
    return node
