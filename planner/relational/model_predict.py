"""The rows of a table with the outputs of a model (Flink: MLPredictTableFunction)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream.models import PROVIDERS, TRAINED, WEIGHTS_PATH, ModelRef, weights_options
from sqlstream.planner.physical.description import describe, describe_columns
from sqlstream.planner.physical.node import Columns, PhysicalNode
from sqlstream.planner.physical.planning import Planning, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.secrets import masked
from sqlstream.specs.model_predict import ModelPredictSpec, RemotePredictSpec
from sqlstream.specs.source import SourceSpec
from sqlstream.specs.train_model import PUBLISHED

VERSION_DIGITS = 12


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ModelPredict(base.ChosenColumnsNode):
    """The `columns` of the input, then the outputs of `model`, which is given the columns at `features`. Of a model that
    a server computes, `concurrent_max` and `timeout_ms` are those of its spec."""

    model: ModelRef
    features: tuple[int, ...]
    concurrent_max: int = 0
    timeout_ms: int = 0

    def describe(self) -> str:
        return base.join_parts(
            f"model=[{self.model.path}]",
            f"columns=[{base.columns_text(self.columns)}]",
            f"features=[{base.columns_text(self.features)}]",
        )

    def read_columns(self) -> Columns:
        return frozenset(self.features)

    def with_read_columns(self, places: Mapping[int, int]) -> dict[str, object]:
        return {"features": tuple(places[f] for f in self.features)}

    def trim(self, pruning: base.Pruning, wanted: Columns, time: bool) -> base.Trimmed:
        if any(column >= len(self.columns) for column in wanted):
            return super().trim(pruning, wanted, time)
        # Nobody reads what the model says.
        below = frozenset(self.columns[p] for p in wanted) or base.one_column(self.input.schema)
        source, places = pruning.trim(self.input, below, time)
        return source, {p: places[self.columns[p]] for p in wanted}


def _weights(model: ModelRef, planning: Planning) -> SourceSpec | None:
    """The file of the weights of a model that a job trains, as the table `m$weights` reads it."""
    if model.provider != TRAINED:
        return None
    known = planning.connectors["filesystem"].options
    place = weights_options(model.options[WEIGHTS_PATH], planning.settings, known)
    options = {"connector": "filesystem", **place, "format": "json"}
    return SourceSpec(f"{model.name}$weights", "filesystem", options, PUBLISHED, PUBLISHED.names)


def plan_model_predict(planning: Planning, inputs: Inputs, node: ModelPredict) -> PhysicalNode:
    """Computed where the rows are. UserError SS3011 for rows that change: a model need not say the same of a row twice."""
    source = inputs[0]
    hint = "predict before the rows are aggregated or joined"
    require_insert_only(source, "ML_PREDICT", node.span, hint)
    model = node.model
    spec = ModelPredictSpec(model, node.columns, node.features, _weights(model, planning))
    if PROVIDERS[model.provider].asks_server:
        spec = RemotePredictSpec(
            model, node.columns, node.features, concurrent_max=node.concurrent_max, timeout_ms=node.timeout_ms
        )
    endpoint = model.options.get("endpoint", "")
    return planning.node(
        "MLPredictTableFunction",
        spec,
        over(source),
        node.schema,
        dataclasses.replace(source.traits.projected(node.places), row_watermark_column=-1),
        describe(
            "MLPredictTableFunction",
            model=node.model.path,
            provider=node.model.provider,
            version=node.model.version[:VERSION_DIGITS],
            server=masked("endpoint", endpoint) if endpoint else "",
            features=describe_columns(node.features, source.schema),
        ),
        node.span,
    )
