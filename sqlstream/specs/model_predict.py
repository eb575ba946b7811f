"""Spec of the operator that calls a model with each batch."""

from __future__ import annotations

from sqlstream.models import ModelRef
from sqlstream.specs.spec import OperatorSpec


class ModelPredictSpec(OperatorSpec, frozen=True, tag="model_predict"):
    """The columns of the input at `columns`, then the outputs of `model`, whose inputs are the columns at `features`, in their
    order. A row with a NULL among its features is not given to the model: its outputs are NULL. Input is insert-only."""

    model: ModelRef
    columns: tuple[int, ...]
    features: tuple[int, ...]
