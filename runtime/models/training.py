"""What models learn from mini-batches: linear and logistic regression by stochastic gradient descent, and k-means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.models import K_MEANS, LINEAR
from sqlstream.specs.train_model import INTERCEPT, TrainModelSpec

Array = np.ndarray[Any, np.dtype[np.float64]]

PROBABILITY_MIN = 1e-15
"""The logarithm of less would make one row the whole loss."""


class Training(Protocol):
    """The weights of a model, and what they are learned with. What it does follows from the mini-batches alone."""

    def learn(self, x: Array, y: Array, batches: int) -> float:
        """Change the weights by one mini-batch, which comes behind as many. Returns its mean loss, measured before."""

    def weights(self) -> tuple[Sequence[int | None], list[str], list[float]]:
        """The cluster, feature and value of each weight."""

    def tables(self) -> dict[str, pa.Table]:
        """All that goes on with the next mini-batch."""

    def load(self, tables: dict[str, pa.Table]) -> None:
        """Take over such tables; those without rows may be missing."""

    def nbytes(self) -> int: ...


def training_of(spec: TrainModelSpec) -> Training:
    return KMeans(spec) if spec.algorithm == K_MEANS else Regression(spec)


def scores(x: Array, weights: Array, intercept: float) -> Array:
    found: Array = x @ weights + intercept
    return found


def probabilities(score: Array) -> Array:
    """The logistic function, which overflows nowhere."""
    small = np.exp(-np.abs(score))
    found: Array = np.where(score >= 0, 1 / (1 + small), small / (1 + small))
    return found


class Regression:
    """Gradient descent on the mean of half the squared errors, or of the logarithmic loss, and of `l2` half the squared weights.

    With `standardizes` a step is taken as if features had mean 0 and deviation 1, by the rows so far. The weights are kept for
    features as they are, so that what is predicted does not change when these two do.
    State: weights and intercept; mean and sum of squared deviations of each feature, over `count` rows.
    """

    def __init__(self, spec: TrainModelSpec) -> None:
        self._spec = spec
        self._is_linear = spec.algorithm == LINEAR
        width = len(spec.features)
        self._weights, self._intercept = np.zeros(width), 0.0
        self._mean, self._squares, self._count = np.zeros(width), np.zeros(width), 0

    def learn(self, x: Array, y: Array, batches: int) -> float:
        spec = self._spec
        if spec.standardizes:
            self._measure(x)
        deviation = np.sqrt(self._squares / max(self._count, 1))
        scale = np.where(deviation > 0, deviation, 1.0)
        moved = (x - self._mean) / scale
        weights = self._weights * scale
        intercept = self._intercept + float(self._weights @ self._mean)
        score = scores(moved, weights, intercept)
        said = score if self._is_linear else probabilities(score)
        loss = self._loss(said, y)
        missed = said - y
        rate = spec.learning_rate / (1 + spec.learning_rate_decay * batches)
        weights = weights - rate * (missed @ moved / len(y) + spec.l2 * weights)
        intercept -= rate * float(missed.mean())
        self._weights = weights / scale
        self._intercept = intercept - float(self._weights @ self._mean)
        return loss

    def _loss(self, said: Array, y: Array) -> float:
        if self._is_linear:
            return float(np.mean((said - y) ** 2))
        likely = np.maximum(np.where(y > 0, said, 1 - said), PROBABILITY_MIN)
        return float(-np.mean(np.log(likely)))

    def _measure(self, x: Array) -> None:
        """Mean and squares over all rows so far, from those of parts (Chan, Golub and LeVeque 1979)."""
        added = len(x)
        total = self._count + added
        mean = x.mean(axis=0)
        apart = mean - self._mean
        self._squares = (
            self._squares + ((x - mean) ** 2).sum(axis=0) + apart**2 * (self._count * added / total)
        )
        self._mean = self._mean + apart * (added / total)
        self._count = total

    def weights(self) -> tuple[list[int | None], list[str], list[float]]:
        names = [*self._spec.features, INTERCEPT]
        return [None] * len(names), names, [*self._weights.tolist(), self._intercept]

    def tables(self) -> dict[str, pa.Table]:
        names = [*self._spec.features, INTERCEPT]
        weights = {
            "feature": names,
            "weight": [*self._weights.tolist(), self._intercept],
            "mean": [*self._mean.tolist(), 0.0],
            "squares": [*self._squares.tolist(), 0.0],
            "count": [self._count] * len(names),
        }
        return {"weights": pa.table(weights)}

    def load(self, tables: dict[str, pa.Table]) -> None:
        table = tables["weights"]
        values = {name: table.column(name).to_numpy() for name in ("weight", "mean", "squares")}
        self._weights, self._intercept = values["weight"][:-1].copy(), float(values["weight"][-1])
        self._mean, self._squares = values["mean"][:-1].copy(), values["squares"][:-1].copy()
        self._count = int(table.column("count")[0].as_py())

    def nbytes(self) -> int:
        return self._weights.nbytes + self._mean.nbytes + self._squares.nbytes


class KMeans:
    """Mini-batch k-means (Sculley 2010): a centre is the mean of the rows that came to it, of which earlier ones count `decay`
    as much with each further mini-batch. The first centres are rows, chosen by k-means++; they are as many as there are
    different rows, until there are `clusters`.
    State: the centres, and for each what its rows count for.
    """

    def __init__(self, spec: TrainModelSpec) -> None:
        self._spec = spec
        self._centres, self._counts = np.zeros((0, len(spec.features))), np.zeros(0)

    def learn(self, x: Array, y: Array, batches: int) -> float:
        if len(self._centres) < self._spec.clusters:
            self._choose(x, batches)
        nearest, squares = nearest_centres(x, self._centres)
        width = len(self._centres)
        came = np.bincount(nearest, minlength=width).astype(np.float64)
        sums = np.zeros_like(self._centres)
        np.add.at(sums, nearest, x)
        kept = self._counts * self._spec.decay
        total = kept + came
        has_rows = came > 0
        moved = self._centres.copy()
        moved[has_rows] = (self._centres * kept[:, None] + sums)[has_rows] / total[has_rows, None]
        self._centres, self._counts = moved, total
        return float(squares.mean())

    def _choose(self, x: Array, batches: int) -> None:
        """Add centres among the rows: each is a row chosen by the square of its distance from the nearest one (Arthur and
        Vassilvitskii 2007)."""
        draws = np.random.default_rng([self._spec.seed, batches])
        while len(self._centres) < self._spec.clusters:
            far = nearest_centres(x, self._centres)[1] if len(self._centres) else np.ones(len(x))
            total = float(far.sum())
            if not total > 0:
                return
            chosen = int(np.searchsorted(np.cumsum(far), draws.random() * total, side="right"))
            self._centres = np.vstack([self._centres, x[min(chosen, len(x) - 1)]])
            self._counts = np.append(self._counts, 0.0)

    def weights(self) -> tuple[Sequence[int | None], list[str], list[float]]:
        count, width = self._centres.shape
        clusters: list[int] = np.repeat(np.arange(count), width).tolist()
        return clusters, [*self._spec.features] * count, self._centres.ravel().tolist()

    def tables(self) -> dict[str, pa.Table]:
        clusters, features, values = self.weights()
        counts = np.repeat(self._counts, len(self._spec.features))
        types = pa.schema(
            [
                ("cluster", pa.int32()),
                ("feature", pa.string()),
                ("weight", pa.float64()),
                ("count", pa.float64()),
            ]
        )
        columns = [clusters, features, values, counts]
        return {"weights": pa.table(dict(zip(types.names, columns, strict=True)), schema=types)}

    def load(self, tables: dict[str, pa.Table]) -> None:
        table, width = tables.get("weights"), len(self._spec.features)
        if table is None:
            return
        self._centres = table.column("weight").to_numpy().reshape(-1, width).copy()
        self._counts = table.column("count").to_numpy()[::width].copy()

    def nbytes(self) -> int:
        return self._centres.nbytes + self._counts.nbytes


def nearest_centres(x: Array, centres: Array) -> tuple[np.ndarray[Any, np.dtype[np.intp]], Array]:
    """For each row the number of the nearest centre, the first of several, and the square of its distance."""
    # The square of x is the same for all centres.
    nearest = ((centres**2).sum(axis=1) - 2 * (x @ centres.T)).argmin(axis=1)
    squares: Array = ((x - centres[nearest]) ** 2).sum(axis=1)
    return nearest, squares
