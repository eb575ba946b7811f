"""The operators of the engine, in three packages: what one must do, how it is executed, and what plans it."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class OperatorEntry:
    """One operator, by `module:name` within `sqlstream.specs`, `sqlstream.runtime.operators` and `sqlstream.planner.relational`.

    `spec` is empty where a node becomes edges, or operators of other entries. `operator` is empty for what the task runs itself:
    sources, sinks and batch queries. `reader` is a function of a module of `sqlstream.runtime.operators` that opens what the head
    of a task reads, for those that are one.

    `planner` is a function (planning, inputs, node), which is asked for relational nodes of the class of its parameter `node`. It
    returns the physical node, or None for a node that it leaves to an entry before. One function may choose among several
    operators. It is empty for operators that no relational node stands for.
    """

    spec: str
    operator: str = ""
    planner: str = ""
    reader: str = ""

    def load_spec(self) -> Any:
        return _load("sqlstream.specs", self.spec)


OPERATORS: list[OperatorEntry] = [
    OperatorEntry("source:SourceSpec", planner="scan:plan_scan", reader="source_readers:open_source"),
    OperatorEntry("source:EventSourceSpec", planner="scan:plan_scan", reader="source_readers:open_source"),
    OperatorEntry("source:ValuesSpec", planner="values:plan_values", reader="source_readers:open_values"),
    OperatorEntry("batch_query:BatchQuerySpec"),
    OperatorEntry("source:InferTableSpec", reader="source_readers:open_inference"),
    OperatorEntry("source:InspectFunctionSpec", reader="source_readers:open_inspection"),
    OperatorEntry("", planner="union:plan_union"),
    OperatorEntry("", planner="watermark:plan_late_rows"),
    OperatorEntry("calc:CalcSpec", "calc:Calc", "calc:plan_filter_or_project"),
    OperatorEntry("calc:DropUpdateBeforeSpec", "calc:DropUpdateBefore"),
    OperatorEntry("calc:KeptValuesSpec", "kept_values:KeptValues", "calc:plan_filter_or_project"),
    OperatorEntry("calc:LimitSpec", "order.sort:Limit", "sort:plan_sort"),
    OperatorEntry(
        "changelog_functions:ChangelogNormalizeSpec",
        "changelog_normalize:ChangelogNormalize",
        "scan:plan_scan",
    ),
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
    OperatorEntry("calc:SingleRowCheckSpec", "checks:SingleRowCheck", "calc:plan_filter_or_project"),
    OperatorEntry("sink:ConflictCheckSpec", "checks:ConflictCheck", "sink:plan_sink"),
    OperatorEntry(
        "watermark:WatermarkAssignerSpec",
        "watermark_assigner:WatermarkAssigner",
        "watermark:plan_watermark",
    ),
    OperatorEntry("window:WindowTvfSpec", "window.window_tvf:make_window_tvf", "window_tvf:plan_window_tvf"),
    OperatorEntry("calc:ExpandSpec", "unnest:Expand", "expand:plan_expand"),
    OperatorEntry("calc:UnnestSpec", "unnest:Unnest", "unnest:plan_unnest"),
    OperatorEntry(
        "aggregate:GroupAggregateSpec",
        "aggregate.group_aggregate:make_group_aggregate",
        "aggregate:plan_group_aggregate",
    ),
    OperatorEntry(
        "aggregate:WindowAggregateSpec",
        "window.window_aggregate:make_window_aggregate",
        "window_aggregate:plan_window_aggregate",
    ),
    OperatorEntry(
        "backfill:BackfillSpec",
        planner="backfill:plan_backfill",
        reader="source_readers:open_backfill",
    ),
    OperatorEntry("join:JoinSpec", "join.join:Join", "join:plan_join"),
    OperatorEntry("join:IntervalJoinSpec", "join.interval_join:IntervalJoin", "join:plan_join"),
    OperatorEntry("join:WindowJoinSpec", "window.window_join:WindowJoin", "join:plan_join"),
    OperatorEntry("join:LookupJoinSpec", planner="lookup_join:plan_lookup_join"),
    OperatorEntry("join:VectorSearchSpec", planner="vector_search:plan_vector_search"),
    OperatorEntry(
        "join:TemporalJoinSpec",
        "join.temporal_join:TemporalJoin",
        "temporal_join:plan_temporal_join",
    ),
    OperatorEntry(
        "join:SnapshotJoinSpec",
        "join.snapshot_join:SnapshotJoin",
        "snapshot_join:plan_snapshot_join",
    ),
    OperatorEntry("rank:RankSpec", "rank.rank:make_rank", "rank:plan_rank"),
    OperatorEntry("rank:WindowRankSpec", "window.window_rank:WindowRank", "rank:plan_rank"),
    OperatorEntry("rank:DeduplicateSpec", "rank.deduplicate:make_deduplicate", "rank:plan_rank"),
    OperatorEntry("rank:SortSpec", "order.sort:Sort", "sort:plan_sort"),
    OperatorEntry("over:OverSpec", "over.over:make_over", "window:plan_over"),
    OperatorEntry("iterate:IterateSpec", "iterate:Iterate", "iterate:plan_iterate"),
    OperatorEntry("iterate:IterateInputSpec", planner="iterate:plan_iterate_input"),
    OperatorEntry(
        "iterate:MutualIterateSpec",
        "mutual_iterate:make_mutual_iterate",
        "mutual_recursion:plan_mutual_iterate",
    ),
    OperatorEntry("iterate:UnrollSpec", "unroll:Unroll", "mutual_recursion:plan_unroll"),
    OperatorEntry(
        "match_recognize:MatchRecognizeSpec",
        "match.match_recognize:MatchRecognize",
        "match_recognize:plan_match_recognize",
    ),
    OperatorEntry(
        "model_predict:ModelPredictSpec",
        "model_predict:ModelPredict",
        "model_predict:plan_model_predict",
    ),
    OperatorEntry("train_model:TrainModelSpec", "train_model:TrainModel", "train_model:plan_train_model"),
    OperatorEntry(
        "model_predict:RemotePredictSpec",
        "remote_predict:RemotePredict",
        "model_predict:plan_model_predict",
    ),
    OperatorEntry(
        "process_table:ProcessTableSpec",
        "process.process_table:ProcessTable",
        "process_table:plan_process_table",
    ),
    OperatorEntry(
        "process_table:ProcessOutputSpec",
        "process.outputs:ProcessOutput",
        "process_table:plan_process_output",
    ),
    OperatorEntry("graph:GraphSpec", "graph.graph_function:GraphFunction", "graph:plan_graph_function"),
    OperatorEntry("rank:TemporalSortSpec", "order.sort:TemporalSort", "sort:plan_sort"),
    OperatorEntry("compare_rows:CompareRowsSpec", "compare_rows:CompareRows"),
    OperatorEntry("calc:MarkChangesSpec", "compare_rows:MarkChanges", "sink:plan_sink"),
    OperatorEntry("sink:SinkSpec", planner="sink:plan_sink"),
    OperatorEntry("sink:ChangingSinkSpec", planner="sink:plan_sink"),
    OperatorEntry("sink:MetadataSinkSpec", planner="sink:plan_sink"),
]


def load_planner(place: str) -> Any:
    """The function of an entry."""
    return _load("sqlstream.planner.relational", place)


def _load(package: str, place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(f"{package}.{module}"), name)
