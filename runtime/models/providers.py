"""What computes the models of each provider: the protocol, and where the classes are."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, Protocol

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.models import MODEL_FILE, ModelRef
from sqlstream.python_functions import cached_file
from sqlstream.spi.files import Files


class Model(Protocol):
    """An opened model of one subtask. Calls come from its thread."""

    def predict(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The outputs in the types that the model declares, for rows without NULL. UserError SS5431, SS5432."""

    def close(self) -> None: ...


@dataclasses.dataclass(frozen=True)
class Asking:
    """What a subtask brings to a server: `files` say which addresses may be called, `parallelism` is the number of subtasks,
    which share its limits, and a request with its retries may take `timeout_ms`."""

    files: Files
    concurrent_max: int
    timeout_ms: int
    parallelism: int


@dataclasses.dataclass(frozen=True)
class Answered:
    """The outputs of rows that a server was given, in the types that the model declares; what they have cost, and how many of the
    rows the server has failed for."""

    columns: list[pa.Array]
    tokens: int = 0
    failed: int = 0


class RemoteModel(Protocol):
    """A model that a server computes. `rows_max` is how many rows go into one request; `token_budget` the tokens that a job may
    use, None: any, and `fails_beyond_budget` whether it fails then."""

    rows_max: int
    token_budget: int | None
    fails_beyond_budget: bool

    def ask(self, batch: pa.RecordBatch) -> Answered:
        """For rows without NULL. Threads call it, several at a time. ExternalError SS5440, SS5441; UserError SS5442, SS5443."""

    def abort(self) -> None:
        """End what is under way. Any thread may call it."""

    def close(self) -> None: ...


_CLASSES = {
    "onnx": "onnx_model:OnnxModel",
    "python": "python_model:PythonModel",
}
_REMOTE = {
    "openai": "openai_model:OpenAiModel",
    "triton": "triton_model:TritonModel",
}


def open_model(ref: ModelRef) -> Model:
    """To be called on the thread of the task. UserError SS5430, SS5431 for a model that cannot be opened."""
    made: Model = _class_of(_CLASSES[ref.provider])(ref)
    return made


def remote_model(ref: ModelRef, asking: Asking) -> RemoteModel:
    """UserError SS5341 where no server may be called."""
    made: RemoteModel = _class_of(_REMOTE[ref.provider])(ref, asking)
    return made


def _class_of(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"sqlstream.runtime.models.{module}"), name)


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
