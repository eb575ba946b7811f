"""What a process table function puts out: rows of one or several outputs, in columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.function_ref import FunctionRef
from sqlstream.messages.ledger import FILTERED
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.process.states import KeySet, column_of
from sqlstream.runtime.python.calls import split_rows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.process_table import ProcessOutputSpec
from sqlstream.types import LogicalType


class Emitted:
    """Rows that were put out: columns of the function, and the rows of the occasion or the keys that they belong to; without both
    each row has one. `deletes` are truth values, None for none. `output` is the number of the output."""

    def __init__(
        self,
        columns: list[pa.Array],
        rows: Array | None,
        keys: KeySet | None,
        deletes: Array | None = None,
        output: int = 0,
    ) -> None:
        self.columns, self.rows, self.keys, self.deletes, self.output = columns, rows, keys, deletes, output


@dataclasses.dataclass(frozen=True)
class OutputLayout:
    """The columns of an output, whose `name` is empty for that of `result_type`."""

    ref: FunctionRef
    name: str
    made: LogicalType

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.made.fields)

    @property
    def declared(self) -> str:
        return f'output "{self.name}"' if self.name else "result_type"

    def columns(self, given: Sequence[Any], count: int) -> list[pa.Array]:
        """Columns of these values. UserError SS5131 for one that does not fit."""
        of = f' of output "{self.name}"' if self.name else ""
        return [
            column_of(values, field.type, count, f'column "{field.name}"{of} of {self.ref.name}')
            for values, field in zip(given, self.made.fields, strict=True)
        ]

    def columns_of_rows(self, items: list[Any]) -> list[pa.Array]:
        """The columns of rows that a function yielded: values, tuples or dicts. UserError SS5131 for one that does not fit."""
        names = self.names
        if len(names) == 1:
            only = [i[names[0]] if isinstance(i, dict) and i.keys() == {names[0]} else i for i in items]
            values = [[i[0] if isinstance(i, tuple) and len(i) == 1 else i for i in only]]
        else:
            values = split_rows(items, self.ref, self.made)
        return self.columns(values, len(items))

    def nulls(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, to_arrow_type(field.type)) for field in self.made.fields]


def outputs_of(ref: FunctionRef) -> tuple[OutputLayout, ...]:
    """The output of `result_type`, then the side outputs."""
    assert ref.process is not None
    sides = zip(ref.process.outputs, ref.output_types, strict=True)
    return (OutputLayout(ref, "", ref.result_type), *(OutputLayout(ref, o.name, t) for o, t in sides))


def as_declared(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)


class ProcessOutput(Operator[ProcessOutputSpec]):
    """The rows of one output. No state: those of others are dropped, and counted as filtered."""

    def __init__(self, spec: ProcessOutputSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        self._number = len(context.input_schemas[0]) - 1

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        is_mine = np.asarray(batch.column(self._number)) == self.spec.number
        count = int(np.count_nonzero(is_mine))
        self.context.count(FILTERED, batch.num_rows - count)
        if not count:
            return
        columns = [batch.column(c) for c in self.spec.columns]
        if not self.context.output_mode.is_insert_only:
            columns.append(batch.column(batch.num_columns - 1))
        if count < batch.num_rows:
            mask = to_array(pa.bool_(), is_mine)
            columns = [column.filter(mask) for column in columns]
        output.emit(pa.RecordBatch.from_arrays(columns, schema=self._schema))
