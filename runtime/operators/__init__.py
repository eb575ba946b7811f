"""Operators execute specs; `make_operator` creates the operator of a spec, and loads its module on first use."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from runtime.operators.operator import Operator, OperatorContext
from sqlstream import specs
from sqlstream.errors import InternalError
from sqlstream.specs.spec import OperatorSpec

OPERATORS: dict[type[OperatorSpec], str] = {
    specs.CalcSpec: "runtime.operators.calc:Calc",
    specs.DropUpdateBeforeSpec: "runtime.operators.drop_update_before:DropUpdateBefore",
    specs.LimitSpec: "runtime.operators.order.limit:Limit",
    specs.WatermarkAssignerSpec: "runtime.operators.watermark_assigner:WatermarkAssigner",
    specs.WindowTvfSpec: "runtime.operators.window.window_tvf:WindowTvf",
    specs.GroupAggregateSpec: "runtime.operators.aggregate.group_aggregate:make_group_aggregate",
    specs.WindowAggregateSpec: "runtime.operators.window.window_aggregate:make_window_aggregate",
    specs.JoinSpec: "runtime.operators.join.join:Join",
    specs.IntervalJoinSpec: "runtime.operators.join.interval_join:IntervalJoin",
    specs.WindowJoinSpec: "runtime.operators.window.window_join:WindowJoin",
    specs.RankSpec: "runtime.operators.rank.rank:make_rank",
    specs.WindowRankSpec: "runtime.operators.window.window_rank:WindowRank",
    specs.DeduplicateSpec: "runtime.operators.rank.deduplicate:make_deduplicate",
    specs.SortSpec: "runtime.operators.order.sort:Sort",
    specs.CompareRowsSpec: "runtime.operators.compare_rows:CompareRows",
}
"""Spec → "module:class or function". Sources, VALUES and sinks are run by the task and are no operators."""


def make_operator(spec: OperatorSpec, context: OperatorContext) -> Operator[Any]:
    """A fresh operator for `spec`."""
    place = OPERATORS.get(type(spec))
    if place is None:
        raise InternalError(f"{type(spec).__name__} has no operator")
    module, name = place.split(":")
    # A context of its own: its state is that of one operator.
    own = dataclasses.replace(context)
    operator: Operator[Any] = getattr(importlib.import_module(module), name)(spec, own)
    return operator
