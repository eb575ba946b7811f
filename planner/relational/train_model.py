"""The training of a model by the rows of a query."""

from __future__ import annotations

import dataclasses

from sqlstream.planner.physical.description import describe
from sqlstream.planner.physical.node import PhysicalNode, Traits
from sqlstream.planner.physical.planning import SINGLETON, Planning, over
from sqlstream.planner.physical.refusals import require_insert_only
from sqlstream.planner.relational import node as base
from sqlstream.planner.relational.planner import Inputs
from sqlstream.specs.train_model import TrainModelSpec


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainModel(base.SingleInputNode):
    """The weights of each version of the model. The input has the features, and then the label where there is one."""

    training: TrainModelSpec

    def describe(self) -> str:
        return f"model=[{self.training.model}], algorithm=[{self.training.algorithm}]"


def plan_train_model(planning: Planning, inputs: Inputs, node: TrainModel) -> PhysicalNode:
    """All rows come to one subtask. UserError SS3011 for rows that change: what was learned is not forgotten."""
    source = inputs[0]
    hint = (
        "train before the rows are aggregated or joined, or over windows, whose results are never retracted"
    )
    require_insert_only(source, "CREATE MODEL … AS", node.span, hint)
    spec = node.training
    return planning.node(
        "TrainModel",
        spec,
        over(source, SINGLETON),
        node.schema,
        Traits(is_bounded=source.traits.is_bounded),
        describe(
            "TrainModel",
            model=spec.model,
            algorithm=spec.algorithm,
            features=f"[{', '.join(spec.features)}]",
            miniBatch=str(spec.mini_batch_size),
        ),
        node.span,
        parallelism=1,
    )
