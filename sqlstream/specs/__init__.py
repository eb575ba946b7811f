"""Operator specs: what each operator must do, as data. `Spec` is their union, for plans and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from sqlstream.operators import OPERATORS
from sqlstream.specs.aggregate import AggregatePhase, EmitSpec, GroupAggregateSpec, WindowAggregateSpec
from sqlstream.specs.batch_query import BatchQuerySpec
from sqlstream.specs.calc import CalcSpec, DropUpdateBeforeSpec
from sqlstream.specs.changelog_functions import FromChangelogSpec, ToChangelogSpec
from sqlstream.specs.changelog_normalize import ChangelogNormalizeSpec
from sqlstream.specs.compare_rows import CompareRowsSpec
from sqlstream.specs.conflict_check import ConflictCheckSpec
from sqlstream.specs.expand import ExpandSpec
from sqlstream.specs.infer_table import InferTableSpec
from sqlstream.specs.inspect_function import InspectFunctionSpec
from sqlstream.specs.join import IntervalJoinSpec, JoinKind, JoinSpec, WindowJoinSpec
from sqlstream.specs.kept_values import KeptValuesSpec
from sqlstream.specs.limit import LimitSpec
from sqlstream.specs.lookup_join import LookupJoinSpec, RetryOnMiss
from sqlstream.specs.mark_changes import MarkChangesSpec
from sqlstream.specs.over import Frame, OverCall, OverSpec, OverTiming
from sqlstream.specs.rank import (
    DeduplicateSpec,
    Keep,
    RankPhase,
    RankSpec,
    SortSpec,
    TemporalSortSpec,
    WindowRankSpec,
)
from sqlstream.specs.single_row_check import SingleRowCheckSpec
from sqlstream.specs.sink import ChangingSinkSpec, SinkSpec
from sqlstream.specs.source import EventSourceSpec, SourceSpec, SourceWatermark, ValuesSpec
from sqlstream.specs.spec import OperatorSpec
from sqlstream.specs.temporal_join import TemporalJoinSpec
from sqlstream.specs.unnest import UnnestSpec
from sqlstream.specs.watermark import EmitStrategy, WatermarkAssignerSpec
from sqlstream.specs.window import WindowKind, WindowSpec, WindowTvfSpec

if TYPE_CHECKING:
    Spec = OperatorSpec
else:
    Spec = Union[tuple(entry.load_spec() for entry in OPERATORS)]  # noqa: UP007
"""The union of all specs, by whose tags messages are decoded."""

__all__ = [
    "AggregatePhase",
    "BatchQuerySpec",
    "CalcSpec",
    "ChangelogNormalizeSpec",
    "ChangingSinkSpec",
    "CompareRowsSpec",
    "ConflictCheckSpec",
    "DeduplicateSpec",
    "DropUpdateBeforeSpec",
    "EmitSpec",
    "EmitStrategy",
    "EventSourceSpec",
    "ExpandSpec",
    "Frame",
    "FromChangelogSpec",
    "GroupAggregateSpec",
    "InferTableSpec",
    "InspectFunctionSpec",
    "IntervalJoinSpec",
    "JoinKind",
    "JoinSpec",
    "Keep",
    "KeptValuesSpec",
    "LimitSpec",
    "LookupJoinSpec",
    "MarkChangesSpec",
    "OverCall",
    "OverSpec",
    "OverTiming",
    "RankPhase",
    "RankSpec",
    "RetryOnMiss",
    "SingleRowCheckSpec",
    "SinkSpec",
    "SortSpec",
    "SourceSpec",
    "SourceWatermark",
    "Spec",
    "TemporalJoinSpec",
    "TemporalSortSpec",
    "ToChangelogSpec",
    "UnnestSpec",
    "ValuesSpec",
    "WatermarkAssignerSpec",
    "WindowAggregateSpec",
    "WindowJoinSpec",
    "WindowKind",
    "WindowRankSpec",
    "WindowSpec",
    "WindowTvfSpec",
]
