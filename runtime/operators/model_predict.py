"""Calls a model with the rows of each batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.models import PROVIDERS
from sqlstream.runtime.evaluate.kernel import null_mask
from sqlstream.runtime.models.providers import Model, open_model
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.specs.model_predict import ModelPredictSpec


class ModelPredict(Operator[ModelPredictSpec]):
    """Emits the rows that it gets, in their order, with the outputs of the model. No state.

    Only rows without a NULL among their features are given to the model, at most 'batch-size' at once."""

    def __init__(self, spec: ModelPredictSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._inputs = to_arrow_schema(spec.model.inputs)
        self._outputs = to_arrow_schema(spec.model.outputs)
        options = spec.model.options
        self._rows_max: int = PROVIDERS[spec.model.provider].parsed(options, "batch-size")
        self._model = self._trained() if spec.weights is not None else open_model(spec.model)

    def _trained(self) -> Model:
        from sqlstream.runtime.connectors.files.file_paths import table_path
        from sqlstream.runtime.host.file_systems import files_of
        from sqlstream.runtime.models.trained_model import TrainedModel

        weights, files = self.spec.weights, self.context.files
        assert weights is not None
        assert files is not None
        path, files = table_path(weights.options["path"]), files_of(weights.options, files)
        return TrainedModel(self.spec.model, path, files, self.context.now_ms)

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        columns = batch.columns
        features = [columns[f] for f in self.spec.features]
        missing = null_mask(*features)
        if missing is None or not missing.any():
            outputs = self._predict(features, batch.num_rows)
        else:
            present = np.flatnonzero(~missing)
            taken = pa.array(present)
            found = self._predict([column.take(taken) for column in features], len(present))
            places = pa.array(np.cumsum(~missing) - 1, mask=missing)
            outputs = [column.take(places) for column in found]
        arrays = [*(columns[c] for c in self.spec.columns), *outputs]
        output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _predict(self, features: list[pa.Array], rows: int) -> list[pa.Array]:
        given = pa.RecordBatch.from_arrays(features, schema=self._inputs)
        parts = []
        for start in range(0, rows, self._rows_max):
            part = given.slice(start, self._rows_max)
            parts.append(self._model.predict(part))
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return [pa.nulls(0, field.type) for field in self._outputs]
        return [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]

    def close(self) -> None:
        self._model.close()
