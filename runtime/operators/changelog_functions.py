"""A column of operations becomes the kinds of rows, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.formats.rejection import quoted
from runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.arrow import row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.errors import UserError
from sqlstream.specs.changelog_functions import FromChangelogSpec, ToChangelogSpec

INVALID = "numInvalidOperations"


class FromChangelog(Operator[FromChangelogSpec]):
    """Looks the operations of a batch up at once. No state."""

    def __init__(self, spec: FromChangelogSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._codes = pa.array(spec.codes, pa.string())
        self._kinds = pa.array(spec.kinds, pa.int8())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        places = pc.index_in(batch.column(self.spec.op), self._codes)
        columns = [c for i, c in enumerate(batch.columns) if i != self.spec.op]
        if places.null_count:
            self._check(batch.column(self.spec.op), places)
            is_known = places.is_valid()
            columns, places = [c.filter(is_known) for c in columns], places.filter(is_known)
        if not self.context.output_mode.is_insert_only:
            columns.append(self._kinds.take(places))
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _check(self, texts: pa.Array, places: pa.Array) -> None:
        if self.spec.skips_invalid:
            self.context.count(INVALID, places.null_count)
            return
        text = texts.filter(places.is_null())[0].as_py()
        said = (
            "a row without an operation"
            if text is None
            else f"the operation {quoted(text)}, which is not mapped"
        )
        raise UserError(
            "SS5079",
            f"FROM_CHANGELOG came upon {said}",
            hint="add it to op_mapping, or leave such rows out: invalid_op_handling => 'SKIP'",
        )


class ToChangelog(Operator[ToChangelogSpec]):
    """Writes the kinds of a batch's rows as texts. No state."""

    def __init__(self, spec: ToChangelogSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._codes = pa.array(spec.codes, pa.string())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        operations = self._codes.take(pa.array(row_kinds(batch).astype(np.int64)))
        columns = [operations, *without_row_kinds(batch).columns]
        if operations.null_count:
            is_told = operations.is_valid()
            columns = [column.filter(is_told) for column in columns]
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
