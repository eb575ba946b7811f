"""What computes the models of each provider: the protocol, and where the classes are."""

from __future__ import annotations

import importlib
from typing import Protocol

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.models import MODEL_FILE, ModelRef
from sqlstream.python_functions import cached_file


class Model(Protocol):
    """An opened model of one subtask. Calls come from its thread."""

    def predict(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The outputs in the types that the model declares, for rows without NULL. UserError SS5431, SS5432."""

    def close(self) -> None: ...


_CLASSES = {
    "onnx": "onnx_model:OnnxModel",
    "python": "python_model:PythonModel",
}


def open_model(ref: ModelRef) -> Model:
    """To be called on the thread of the task. UserError SS5430, SS5431 for a model that cannot be opened."""
    module, _, name = _CLASSES[ref.provider].partition(":")
    made: Model = getattr(importlib.import_module(f"sqlstream.runtime.models.{module}"), name)(ref)
    return made


def wrong_count(ref: ModelRef, column: str, values: int, rows: int) -> UserError:
    """SS5433, to be raised, for an output with another number of values than the model was given rows."""
    return UserError(
        "SS5433",
        f'model "{ref.name}" returned {values} values of "{column}" for {rows} rows',
        hint="a model returns a value for each row that it is given",
    )


def local_file(ref: ModelRef) -> str:
    """Where this host keeps the file of the model."""
    return cached_file(MODEL_FILE + ref.version)
