"""The relational plan: what a statement means, resolved and typed, before it is planned how to run it.

Nodes are frozen and compare by meaning: equality ignores `span`, so equal sub-plans are found by `==` and hash.
A plan is a graph: a CTE that is read twice is one node with two readers. As a tree it may be exponentially larger than the
statement, so every walk visits each node once (`rewrite`, hashes, comparisons).
Column references are indexes into the input's schema (for a join: left columns, then right columns).
"""

from __future__ import annotations

from planner.relational.aggregate import Aggregate
from planner.relational.apply import Apply
from planner.relational.calc import Filter, Project
from planner.relational.expand import Expand
from planner.relational.from_changelog import FromChangelog
from planner.relational.join import Join, LookupJoin, RelationalJoinKind
from planner.relational.late_rows import LateRows
from planner.relational.match_recognize import MatchRecognize
from planner.relational.node import (
    RelationalNode,
    SameColumnsNode,
    SingleInputNode,
    TwoInputNode,
    rewrite,
    walk_nodes,
)
from planner.relational.rank import Rank
from planner.relational.scan import TableScan
from planner.relational.sink import Sink
from planner.relational.sort import Sort
from planner.relational.temporal_join import TemporalJoin
from planner.relational.to_changelog import ToChangelog
from planner.relational.union import Union
from planner.relational.unnest import Unnest
from planner.relational.values import Values
from planner.relational.watermark import Watermark
from planner.relational.window import Window
from planner.relational.window_tvf import WindowTvf

__all__ = [
    "Aggregate",
    "Apply",
    "Expand",
    "Filter",
    "FromChangelog",
    "Join",
    "LateRows",
    "LookupJoin",
    "MatchRecognize",
    "Project",
    "Rank",
    "RelationalJoinKind",
    "RelationalNode",
    "SameColumnsNode",
    "SingleInputNode",
    "Sink",
    "Sort",
    "TableScan",
    "TemporalJoin",
    "ToChangelog",
    "TwoInputNode",
    "Union",
    "Unnest",
    "Values",
    "Watermark",
    "Window",
    "WindowTvf",
    "rewrite",
    "walk_nodes",
]
