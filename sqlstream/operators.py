"""The operators of the engine, in three packages: what one must do, how it is executed, and what plans it."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class OperatorEntry:
    """One operator, by `module:name` within `sqlstream.specs`, `sqlstream.runtime.operators` and `sqlstream.planner.physical`.

    `operator` is empty for what the task runs by itself: sources, sinks and batch queries. `reader` is a function of a module
    of `sqlstream.runtime.operators` that opens what the head of a task reads, for those that are one. `planner` is a function
    (planning, inputs, relational node) that returns the physical node, or None for a node that it does not plan; it is empty
    for an operator that a function of another module plans.
    """

    spec: str
    operator: str = ""
    planner: str = ""
    reader: str = ""

    def load_spec(self) -> Any:
        return _load("sqlstream.specs", self.spec)

    def load_planner(self) -> Any:
        return _load("sqlstream.planner.physical", self.planner)


OPERATORS: list[OperatorEntry] = [
    OperatorEntry("source:SourceSpec", reader="source_readers:open_source"),
    OperatorEntry("source:EventSourceSpec", reader="source_readers:open_source"),
    OperatorEntry("source:ValuesSpec", reader="source_readers:open_values"),
    OperatorEntry("batch_query:BatchQuerySpec"),
    OperatorEntry("source:InferTableSpec", reader="source_readers:open_inference"),
    OperatorEntry("source:InspectFunctionSpec", reader="source_readers:open_inspection"),
    OperatorEntry("calc:CalcSpec", "calc:Calc"),
    OperatorEntry("calc:DropUpdateBeforeSpec", "calc:DropUpdateBefore"),
    OperatorEntry("calc:KeptValuesSpec", "kept_values:KeptValues"),
    OperatorEntry("calc:LimitSpec", "order.sort:Limit", "rank:plan_limit"),
    OperatorEntry("changelog_functions:ChangelogNormalizeSpec", "changelog_normalize:ChangelogNormalize"),
    OperatorEntry(
        "changelog_functions:FromChangelogSpec",
        "changelog_functions:FromChangelog",
        "changelog_functions:plan_from_changelog",
    ),
    OperatorEntry(
        "changelog_functions:ToChangelogSpec",
        "changelog_functions:ToChangelog",
        "changelog_functions:plan_to_changelog",
    ),
    OperatorEntry("calc:SingleRowCheckSpec", "checks:SingleRowCheck"),
    OperatorEntry("sink:ConflictCheckSpec", "checks:ConflictCheck"),
    OperatorEntry("watermark:WatermarkAssignerSpec", "watermark_assigner:WatermarkAssigner"),
    OperatorEntry("window:WindowTvfSpec", "window.window_tvf:make_window_tvf"),
    OperatorEntry("calc:ExpandSpec", "unnest:Expand", "row_shapes:plan_expand"),
    OperatorEntry("calc:UnnestSpec", "unnest:Unnest", "row_shapes:plan_unnest"),
    OperatorEntry("aggregate:GroupAggregateSpec", "aggregate.group_aggregate:make_group_aggregate"),
    OperatorEntry("aggregate:WindowAggregateSpec", "window.window_aggregate:make_window_aggregate"),
    OperatorEntry("join:JoinSpec", "join.join:Join"),
    OperatorEntry("join:IntervalJoinSpec", "join.interval_join:IntervalJoin"),
    OperatorEntry("join:WindowJoinSpec", "window.window_join:WindowJoin"),
    OperatorEntry("join:LookupJoinSpec"),
    OperatorEntry(
        "join:TemporalJoinSpec",
        "join.temporal_join:TemporalJoin",
        "temporal_join:plan_temporal_join",
    ),
    OperatorEntry("rank:RankSpec", "rank.rank:make_rank"),
    OperatorEntry("rank:WindowRankSpec", "window.window_rank:WindowRank"),
    OperatorEntry("rank:DeduplicateSpec", "rank.deduplicate:make_deduplicate"),
    OperatorEntry("rank:SortSpec", "order.sort:Sort"),
    OperatorEntry("over:OverSpec", "over.over:make_over", "over:plan_over"),
    OperatorEntry(
        "match_recognize:MatchRecognizeSpec",
        "match.match_recognize:MatchRecognize",
        "match_recognize:plan_match_recognize",
    ),
    OperatorEntry("rank:TemporalSortSpec", "order.sort:TemporalSort"),
    OperatorEntry("compare_rows:CompareRowsSpec", "compare_rows:CompareRows"),
    OperatorEntry("calc:MarkChangesSpec", "compare_rows:MarkChanges"),
    OperatorEntry("sink:SinkSpec"),
    OperatorEntry("sink:ChangingSinkSpec"),
]


def _load(package: str, place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(f"{package}.{module}"), name)
