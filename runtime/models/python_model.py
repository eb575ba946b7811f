"""Models that are classes in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.models import ModelRef
from sqlstream.runtime.models.providers import local_file, wrong_count
from sqlstream.runtime.operators.process.states import column_of, sequence_of
from sqlstream.runtime.python.calls import failed
from sqlstream.runtime.python.loading import load_target


class PythonModel:
    """State: an object of the user's class."""

    def __init__(self, ref: ModelRef) -> None:
        self._ref = ref
        assert ref.function is not None
        self._function = ref.function
        self._model = self._call("__init__", load_target(ref.function))
        options = {
            key.removeprefix("option."): value
            for key, value in ref.options.items()
            if key.startswith("option.")
        }
        if ref.version:
            options["path"] = local_file(ref)
        self._call("open", self._model.open, options)

    def _call(self, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UserError:
            raise
        except BaseException as error:
            raise failed(self._function, error, [], method) from error

    def predict(self, batch: pa.RecordBatch) -> list[pa.Array]:
        found = self._call("predict", self._model.predict, batch)
        parts = []
        for column, field in zip(self._columns(found), self._ref.outputs.fields, strict=True):
            what = f'output "{field.name}" of model {self._ref.name}'
            values = sequence_of(column, what)
            if not isinstance(values, pa.Scalar) and len(values) != batch.num_rows:
                raise wrong_count(self._ref, field.name, len(values), batch.num_rows)
            parts.append(column_of(values, field.type, batch.num_rows, what))
        return parts

    def _columns(self, found: Any) -> list[Any]:
        """The columns of OUTPUT in their order. UserError SS5433 for anything else."""
        names = self._ref.outputs.names
        if isinstance(found, pa.RecordBatch | pa.Table):
            found = {name: found.column(name) for name in found.schema.names}
        if isinstance(found, Mapping):
            if set(found) == set(names):
                return [found[name] for name in names]
            what = f"columns {', '.join(map(str, found)) or 'of no name'}"
        elif isinstance(found, list | tuple):
            if len(found) == len(names):
                return list(found)
            what = f"{len(found)} columns"
        else:
            what = type(found).__name__
        raise UserError(
            "SS5433",
            f'model "{self._ref.name}" returned {what}, and OUTPUT has {", ".join(names)}',
            hint="return a mapping with these names, or a list of as many columns",
        )

    def close(self) -> None:
        self._call("close", self._model.close)
