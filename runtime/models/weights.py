"""The file of a trained model's weights: JSON lines, one for each weight."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from sqlstream.errors import UserError
from sqlstream.runtime.models.training import Array
from sqlstream.specs.train_model import INTERCEPT, WEIGHTS_MAX
from sqlstream.spi.files import Files

BYTES_MAX = 16 * 1024 * 1024


class WeightLine(msgspec.Struct, frozen=True):
    """A line: the columns of specs.train_model.PUBLISHED."""

    version: int
    algorithm: str
    rows: int
    skipped: int
    loss: float
    feature: str
    weight: float
    cluster: int | None = None


class Weights(msgspec.Struct, frozen=True):
    """A version: `values` has a row for each cluster, or one. `intercept` is that of a regression."""

    version: int
    algorithm: str
    features: tuple[str, ...]
    values: Array
    intercept: float = 0.0


def encode_weights(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)


def read_weights(path: str, files: Files) -> bytes:
    """What the file holds. ExternalError SS5001 when it cannot be read."""
    with files.open_read(path) as stream, io.BytesIO() as found:
        found.write(stream.read(BYTES_MAX + 1))
        return found.getvalue()


def decode_weights(content: bytes, path: str) -> Weights:
    """UserError SS3535 for what no training has written."""
    if len(content) > BYTES_MAX:
        raise _damaged(path, f"it has more than {BYTES_MAX} bytes")
    try:
        lines = [msgspec.json.decode(line, type=WeightLine) for line in content.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not lines or len({(line.version, line.algorithm) for line in lines}) > 1:
        raise _damaged(path, "its lines are not of one version")
    first = lines[0]
    intercept = lines.pop().weight if lines[-1].feature == INTERCEPT and lines[-1].cluster is None else 0.0
    features = tuple(line.feature for line in lines if line.cluster == first.cluster)
    is_whole = features and all(
        line.feature == features[i % len(features)]
        and line.cluster == (None if first.cluster is None else i // len(features))
        for i, line in enumerate(lines)
    )
    if not is_whole or len(lines) % len(features) or len(lines) > WEIGHTS_MAX:
        raise _damaged(path, "weights are missing in it, or are there twice")
    values = np.array([line.weight for line in lines]).reshape(-1, len(features))
    return Weights(first.version, first.algorithm, features, values, intercept)


def _damaged(path: str, why: str) -> UserError:
    return UserError(
        "SS3535",
        f'file "{path}" holds no weights of a model',
        detail=why,
        hint="name the 'weights.path' of a model that CREATE MODEL … AS trains, and let nothing else write there",
    )
