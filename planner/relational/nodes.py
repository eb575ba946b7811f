"""The relational plan: what a statement means, resolved and typed, before it is planned how to run it.

Nodes are frozen and compare by meaning: equality ignores `span`, so equal sub-plans are found by `==` and hash.
A plan is a graph: a CTE that is read twice is one node with two readers. As a tree it may be exponentially larger than the
statement, so every walk visits each node once (`rewrite`, hashes, comparisons).
Column references are indexes into the input's schema (for a join: left columns, then right columns).
"""

from __future__ import annotations

from sqlstream.planner.relational.aggregate import Aggregate
from sqlstream.planner.relational.calc import Filter, Project
from sqlstream.planner.relational.changelog_functions import FromChangelog, ToChangelog
from sqlstream.planner.relational.correlation import Apply
from sqlstream.planner.relational.expand import Expand
from sqlstream.planner.relational.graph import GraphFunction
from sqlstream.planner.relational.join import Join
from sqlstream.planner.relational.lookup_join import LookupJoin
from sqlstream.planner.relational.match_recognize import MatchRecognize
from sqlstream.planner.relational.model_predict import ModelPredict
from sqlstream.planner.relational.node import (
    ChosenColumnsNode,
    RelationalNode,
    SameColumnsNode,
    SingleInputNode,
    TwoInputNode,
    rewrite,
    walk_nodes,
)
from sqlstream.planner.relational.process_table import ProcessOutput, ProcessTable
from sqlstream.planner.relational.rank import Rank
from sqlstream.planner.relational.recursive_query import (
    Iterate,
    IterateInput,
    MutualIterate,
    RecursiveScan,
    Unroll,
)
from sqlstream.planner.relational.scan import TableScan
from sqlstream.planner.relational.sink import Sink
from sqlstream.planner.relational.snapshot_join import SnapshotJoin
from sqlstream.planner.relational.sort import Sort
from sqlstream.planner.relational.temporal_join import TemporalJoin
from sqlstream.planner.relational.train_model import TrainModel
from sqlstream.planner.relational.union import Union
from sqlstream.planner.relational.unnest import Unnest
from sqlstream.planner.relational.values import Values
from sqlstream.planner.relational.vector_search import VectorSearch
from sqlstream.planner.relational.watermark import LateRows, Watermark
from sqlstream.planner.relational.window import Window
from sqlstream.planner.relational.window_tvf import WindowTvf

__all__ = [
    "Aggregate",
    "Apply",
    "ChosenColumnsNode",
    "Expand",
    "Filter",
    "FromChangelog",
    "GraphFunction",
    "Iterate",
    "IterateInput",
    "Join",
    "LateRows",
    "LookupJoin",
    "MatchRecognize",
    "ModelPredict",
    "MutualIterate",
    "ProcessOutput",
    "ProcessTable",
    "Project",
    "Rank",
    "RecursiveScan",
    "RelationalNode",
    "SameColumnsNode",
    "SingleInputNode",
    "Sink",
    "SnapshotJoin",
    "Sort",
    "TableScan",
    "TemporalJoin",
    "ToChangelog",
    "TrainModel",
    "TwoInputNode",
    "Union",
    "Unnest",
    "Unroll",
    "Values",
    "VectorSearch",
    "Watermark",
    "Window",
    "WindowTvf",
    "rewrite",
    "walk_nodes",
]
