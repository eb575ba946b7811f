"""Rows once per grouping set."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.arrow import is_changelog, to_arrow_schema
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.specs.expand import ExpandSpec


class Expand(Operator[ExpandSpec]):
    """Emits a batch per set: the columns of the input, but NULL where the set leaves a column out. No state."""

    def __init__(self, spec: ExpandSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._left_out = [frozenset(spec.grouped) - frozenset(kept) for kept in spec.sets]

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        count, columns = batch.num_rows, batch.columns
        kinds = [columns.pop()] if is_changelog(batch) else []
        nulls = {c: pa.nulls(count, columns[c].type) for c in self.spec.grouped}
        for number, left_out in enumerate(self._left_out):
            expanded = [nulls[i] if i in left_out else column for i, column in enumerate(columns)]
            id_ = pa.repeat(pa.scalar(number, pa.int32()), count)
            output.emit(pa.RecordBatch.from_arrays([*expanded, id_, *kinds], schema=self._schema))
