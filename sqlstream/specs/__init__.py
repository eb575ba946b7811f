"""Operator specs: what each operator must do, as data. `Spec` is their union, for plans and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from sqlstream.operators import OPERATORS
from sqlstream.specs.aggregate import AggregatePhase, EmitSpec, GroupAggregateSpec, WindowAggregateSpec
from sqlstream.specs.backfill import BackfillSpec
from sqlstream.specs.batch_query import BatchQuerySpec
from sqlstream.specs.calc import (
    CalcSpec,
    DropUpdateBeforeSpec,
    ExpandSpec,
    KeptValuesSpec,
    LimitSpec,
    MarkChangesSpec,
    SingleRowCheckSpec,
    UnnestSpec,
)
from sqlstream.specs.changelog_functions import ChangelogNormalizeSpec, FromChangelogSpec, ToChangelogSpec
from sqlstream.specs.compare_rows import CompareRowsSpec
from sqlstream.specs.graph import GraphAlgorithm, GraphSpec
from sqlstream.specs.iterate import (
    InnerOperator,
    IterateInputSpec,
    IterateSpec,
    MutualIterateSpec,
    UnrollSpec,
)
from sqlstream.specs.join import (
    IntervalJoinSpec,
    JoinKind,
    JoinSpec,
    LookupJoinSpec,
    RetryOnMiss,
    SnapshotJoinSpec,
    TemporalJoinSpec,
    VectorSearchSpec,
    WindowJoinSpec,
)
from sqlstream.specs.model_predict import ModelPredictSpec, RemotePredictSpec
from sqlstream.specs.over import Frame, OverCall, OverSpec, OverTiming
from sqlstream.specs.process_table import ProcessInput, ProcessOutputSpec, ProcessTableSpec
from sqlstream.specs.rank import (
    DeduplicateSpec,
    Keep,
    RankPhase,
    RankSpec,
    SortSpec,
    TemporalSortSpec,
    WindowRankSpec,
)
from sqlstream.specs.sink import ChangingSinkSpec, ConflictCheckSpec, MetadataSinkSpec, SinkSpec
from sqlstream.specs.source import (
    EventSourceSpec,
    InferTableSpec,
    InspectFunctionSpec,
    SourceSpec,
    SourceWatermark,
    ValuesSpec,
)
from sqlstream.specs.spec import OperatorSpec
from sqlstream.specs.train_model import TrainModelSpec
from sqlstream.specs.watermark import EmitStrategy, WatermarkAssignerSpec
from sqlstream.specs.window import WindowKind, WindowSpec, WindowTvfSpec

if TYPE_CHECKING:
    Spec = OperatorSpec
else:
    Spec = Union[tuple(entry.load_spec() for entry in OPERATORS if entry.spec)]  # noqa: UP007
"""The union of all specs, by whose tags messages are decoded."""

__all__ = [
    "AggregatePhase",
    "BackfillSpec",
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
    "GraphAlgorithm",
    "GraphSpec",
    "GroupAggregateSpec",
    "InferTableSpec",
    "InnerOperator",
    "InspectFunctionSpec",
    "IntervalJoinSpec",
    "IterateInputSpec",
    "IterateSpec",
    "JoinKind",
    "JoinSpec",
    "Keep",
    "KeptValuesSpec",
    "LimitSpec",
    "LookupJoinSpec",
    "MarkChangesSpec",
    "MetadataSinkSpec",
    "ModelPredictSpec",
    "MutualIterateSpec",
    "OverCall",
    "OverSpec",
    "OverTiming",
    "ProcessInput",
    "ProcessOutputSpec",
    "ProcessTableSpec",
    "RankPhase",
    "RankSpec",
    "RemotePredictSpec",
    "RetryOnMiss",
    "SingleRowCheckSpec",
    "SinkSpec",
    "SnapshotJoinSpec",
    "SortSpec",
    "SourceSpec",
    "SourceWatermark",
    "Spec",
    "TemporalJoinSpec",
    "TemporalSortSpec",
    "ToChangelogSpec",
    "TrainModelSpec",
    "UnnestSpec",
    "UnrollSpec",
    "ValuesSpec",
    "VectorSearchSpec",
    "WatermarkAssignerSpec",
    "WindowAggregateSpec",
    "WindowJoinSpec",
    "WindowKind",
    "WindowRankSpec",
    "WindowSpec",
    "WindowTvfSpec",
]
