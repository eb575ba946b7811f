"""Spec of the operator that calls a model with each batch."""

from __future__ import annotations

from sqlstream.models import ModelRef
from sqlstream.specs.source import SourceSpec
from sqlstream.specs.spec import OperatorSpec, StateBound


class ModelPredictSpec(OperatorSpec, frozen=True, tag="model_predict"):
    """The columns of the input at `columns`, then the outputs of `model`, whose inputs are the columns at `features`, in their
    order. A row with a NULL among its features is not given to the model: its outputs are NULL. Input is insert-only.

    `weights`: the file of a model that a job trains, as a table that is read while the job runs."""

    model: ModelRef
    columns: tuple[int, ...]
    features: tuple[int, ...]
    weights: SourceSpec | None = None


class RemotePredictSpec(ModelPredictSpec, frozen=True, tag="remote_predict"):
    """The same of a model that a server computes: rows wait for it in the state, in their order, while others are taken in.

    `concurrent_max`: how many requests a subtask waits for at a time; `timeout_ms`: how long one may take, with its retries. 0 of
    either leaves it to the settings."""

    concurrent_max: int = 0
    timeout_ms: int = 0

    def kept_state(self) -> str:
        return "the rows that wait for the server, and the tokens used; dropped: with the answer"

    def state_bound(self) -> StateBound:
        return StateBound("the rows that wait for the server: requests under way, and one batch more", True)
