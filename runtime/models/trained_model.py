"""Models whose weights a job publishes while they are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.models import ALGORITHM, K_MEANS, LINEAR, PROVIDERS, TRAINED, ModelRef
from sqlstream.runtime.models.training import Array, nearest_centres, probabilities, scores
from sqlstream.runtime.models.weights import Weights, decode_weights, read_weights
from sqlstream.spi.files import Files, FileStatus

SETTLED_MS = 2_000


class TrainedModel:
    """The file of the weights is looked at before a batch, once in 'refresh-interval'. While there is none, outputs are NULL.
    State: the newest weights that were read."""

    def __init__(self, ref: ModelRef, path: str, files: Files, now_ms: Callable[[], int]) -> None:
        self._ref, self._path, self._files, self._now_ms = ref, path, files, now_ms
        provider = PROVIDERS[TRAINED]
        self._algorithm: str = provider.parsed(ref.options, ALGORITHM)
        self._refresh_ms: int = provider.parsed(ref.options, "refresh-interval")
        self._looked_ms: int | None = None
        self._status: FileStatus | None = None
        self._weights: Weights | None = None

    def predict(self, batch: pa.RecordBatch) -> list[pa.Array]:
        self._refresh()
        outputs = self._ref.outputs.fields
        if self._weights is None:
            return [pa.nulls(batch.num_rows, to_arrow_type(field.type)) for field in outputs]
        x = np.column_stack([column.cast(pa.float64(), safe=False).to_numpy() for column in batch.columns])
        # NaN and infinity among the inputs are said of the outputs alone.
        with np.errstate(all="ignore"):
            found = self._outputs(x, self._weights)
        return [
            pa.array(values).cast(to_arrow_type(field.type))
            for field, values in zip(outputs, found, strict=False)
        ]

    def _outputs(self, x: Array, weights: Weights) -> tuple[np.ndarray, ...]:
        if self._algorithm == K_MEANS:
            nearest, squares = nearest_centres(x, weights.values)
            return nearest.astype(np.int32), np.sqrt(squares)
        score = scores(x, weights.values[0], weights.intercept)
        if self._algorithm == LINEAR:
            return (score,)
        likely = probabilities(score)
        return likely >= 0.5, likely

    def _refresh(self) -> None:
        now_ms = self._now_ms()
        if self._looked_ms is not None and now_ms - self._looked_ms < self._refresh_ms:
            return
        self._looked_ms = now_ms
        # What is published after this look is seen by the next one.
        status = self._files.status(self._path)
        if status is None or status == self._status:
            return
        weights = decode_weights(read_weights(self._path, self._files), self._path)
        expected = (self._algorithm, self._ref.inputs.names)
        if (weights.algorithm, weights.features) != expected:
            raise UserError(
                "SS3534",
                f'the weights that model "{self._ref.name}" reads are of another model: {weights.algorithm} of '
                f"{', '.join(weights.features)}",
                detail=f"{self._path} should have those of {self._algorithm} of {', '.join(self._ref.inputs.names)}",
                hint="declare the algorithm and the INPUT of the model that is trained, with its names in its order",
            )
        # One that has just been published may be replaced within the same tick of its store's clock.
        self._weights, self._status = weights, status if now_ms - status.modified_ms > SETTLED_MS else None

    def close(self) -> None:
        """Nothing is open."""
