"""Spec of the operator that trains a model, and the table of weights that it publishes."""

from __future__ import annotations

from sqlstream import types as sql
from sqlstream.schema import Schema
from sqlstream.specs.spec import OperatorSpec, StateBound

WEIGHTS = "model-weights"
"""The connector of the sink behind the training; no table can name it."""

INTERCEPT = "(intercept)"
"""The feature of the weight that is added in all rows. It stands behind those of the columns."""

PUBLISHED = Schema.of(
    ("version", sql.BIGINT),
    ("algorithm", sql.STRING),
    ("rows", sql.BIGINT),
    ("skipped", sql.BIGINT),
    ("loss", sql.DOUBLE),
    ("cluster", sql.INT),
    ("feature", sql.STRING),
    ("weight", sql.DOUBLE),
)
"""What the training emits: a row for each weight of a version."""

WEIGHTS_MAX = 10_000
"""How many weights a model may have: they are published with each checkpoint, in its manifest."""


class TrainModelSpec(OperatorSpec, frozen=True, tag="train_model"):
    """Learns from mini-batches of exactly `mini_batch_size` rows, in the order in which they come; the last one of a bounded
    input may be smaller. Input columns are `features`, as DOUBLE, then the label unless `algorithm` is k-means: a DOUBLE of a
    linear regression, a BOOLEAN of a logistic one. Rows with a NULL, NaN or infinity are left out, and counted. Emits PUBLISHED
    before each checkpoint, and at the end. Input is insert-only, and comes to one subtask."""

    model: str
    algorithm: str
    features: tuple[str, ...]
    mini_batch_size: int
    learning_rate: float = 0.0
    learning_rate_decay: float = 0.0
    l2: float = 0.0
    standardizes: bool = False
    clusters: int = 0
    seed: int = 0
    decay: float = 1.0

    def kept_state(self) -> str:
        return "the weights and the rows of the mini-batch that is not full; dropped: never"

    def state_bound(self) -> StateBound:
        return StateBound("the number of weights and the size of a mini-batch", True, "model")
