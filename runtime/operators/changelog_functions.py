"""A column of operations becomes the kinds of rows, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import row_kinds, to_arrow_schema, with_row_kinds, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.formats.file_rows import quoted
from sqlstream.runtime.operators.held_rows import HoldingOperator
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.update_pairs import moved_kinds, portion_kinds
from sqlstream.specs.changelog_functions import FromChangelogSpec, ToChangelogSpec

INVALID = "numInvalidOperations"


class FromChangelog(HoldingOperator[FromChangelogSpec]):
    """Looks the operations of a batch up at once. A -U at its end waits for the next batch, which may begin with its +U, but not
    longer than until `flush`. State: none that is saved; that -U."""

    def __init__(self, spec: FromChangelogSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._codes = pa.array(spec.codes, pa.string())
        self._kinds = pa.array(spec.kinds, pa.int8())
        places = [i for i in range(len(context.input_schemas[0])) if i != spec.op and i not in spec.keys]
        self._columns = [*spec.keys, *places]
        self._waiting: pa.RecordBatch | None = None

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        places = pc.index_in(batch.column(self.spec.op), self._codes)
        columns = [batch.column(i) for i in self._columns]
        if places.null_count:
            self._check(batch.column(self.spec.op), places)
            is_known = places.is_valid()
            columns, places = [c.filter(is_known) for c in columns], places.filter(is_known)
        if self.context.output_mode.is_insert_only:
            output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        elif len(places):
            columns.append(self._kinds.take(places))
            self._emit(pa.RecordBatch.from_arrays(columns, schema=self._schema), output)

    def _emit(self, rows: pa.RecordBatch, output: Output) -> None:
        if self._waiting is not None:
            rows, self._waiting = pa.concat_batches([self._waiting, rows]), None
        kinds = row_kinds(rows)
        if kinds[-1] == RowKind.UPDATE_BEFORE:
            self._waiting = rows.slice(rows.num_rows - 1)
            rows, kinds = rows.slice(0, rows.num_rows - 1), kinds[:-1]
        if rows.num_rows:
            output.emit(with_row_kinds(rows, portion_kinds(kinds)))

    def flush(self, output: Output) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            output.emit(with_row_kinds(waiting, RowKind.DELETE))

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
        raise UserError("SS5079", f"FROM_CHANGELOG came upon {said}")


class ToChangelog(Operator[ToChangelogSpec]):
    """Writes the kinds of a batch's rows as texts. No state."""

    def __init__(self, spec: ToChangelogSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._codes = pa.array(spec.codes, pa.string())

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        data = without_row_kinds(batch).columns
        keys = [data[key] for key in self.spec.keys]
        kinds = moved_kinds(row_kinds(batch), keys)
        operations = self._codes.take(pa.array(kinds.astype(np.int64)))
        rest = [column for number, column in enumerate(data) if number not in self.spec.keys]
        columns = [*keys, operations, *rest]
        if operations.null_count:
            is_told = operations.is_valid()
            columns = [column.filter(is_told) for column in columns]
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
