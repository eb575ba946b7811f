"""Calls a user's process table function, batch by batch or row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionMode
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.operators.equal_values import key_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.process.calls import (
    BatchContext,
    Called,
    Emitted,
    RowContext,
    as_declared,
    columns_of_rows,
    taken,
)
from sqlstream.runtime.operators.process.row_states import Cursor, make_state
from sqlstream.runtime.operators.process.states import KeySet, places_of
from sqlstream.runtime.python.calls import TABLE_ROWS_MAX, failed
from sqlstream.runtime.python.loading import load_target
from sqlstream.runtime.python.values import python_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.process_table import ProcessInput, ProcessTableSpec


class ProcessTable(Operator[ProcessTableSpec]):
    """Emits what the function puts out, behind the columns of PARTITION BY or those that are passed through.

    State: what the function declares, each state in a table of its name.
    """

    def __init__(self, spec: ProcessTableSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema)
        self._inputs = [
            pa.schema(
                [
                    field.with_name(name)
                    for field, name in zip(to_arrow_schema(schema), read.columns, strict=True)
                ]
            )
            for schema, read in zip(context.input_schemas, spec.inputs, strict=True)
        ]
        places = places_of(spec, context)
        self._key_names = places.keys.names
        self._cursor = Cursor() if spec.ref.mode is FunctionMode.GENERAL else None
        target = load_target(spec.ref)
        self._function = self._call("__init__", target)
        self._set_arguments()
        assert spec.ref.process is not None
        self._states = []
        for declared, state_type in zip(spec.ref.process.states, spec.ref.state_types, strict=True):
            given, ttl_ms = getattr(target, declared.name), spec.ttl_of(declared.ttl_ms)
            state = make_state(declared, state_type, given, ttl_ms, places, self._cursor)
            context.state.add(state.table)
            setattr(self._function, declared.name, state)
            self._states.append(state)
        self._called = Called(spec.ref, self._states, context.now_ms)
        self._call("open", self._function.open)

    def _set_arguments(self) -> None:
        """Give the function the constants of the call."""
        assert self.spec.ref.process is not None
        tables = {table.name for table in self.spec.ref.process.tables}
        names = [name for name in self.spec.ref.parameters if name not in tables]
        evaluation = EvaluationContext.of(self.context.now_ms, self.context.config)
        for name, expression in zip(names, self.spec.arguments, strict=True):
            if expression is not None:
                (column,) = Program([expression], evaluation).run([], 1)
                setattr(self._function, name, python_values(column)[0])

    def _call(self, method: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UserError:
            raise
        except BaseException as error:
            raise failed(self.spec.ref, error, [], method) from error

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        # Planning may lose names, and inputs of a UNION ALL may have others.
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._inputs[input_index])
        read = self.spec.inputs[input_index]
        groups: Array | None = None
        keys: KeySet | None = None
        if read.has_set_semantics:
            groups, first_rows, columns = key_groups(batch, read.partition_keys)
            keys = KeySet(self._key_names, columns, len(first_rows))
        if self._cursor is None:
            emitted = self._by_batch(batch, read, groups, keys)
        else:
            emitted = self._by_row(self._cursor, batch, read, groups, keys)
        for part in emitted:
            copied = [
                c for n in range(len(self.spec.inputs)) for c in self._copied(n, input_index, batch, part)
            ]
            columns = [*copied, *part.columns]
            wanted = self._schema.types
            arrays = [as_declared(c, t) for c, t in zip(columns, wanted, strict=True)]
            output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _copied(self, number: int, input_index: int, batch: pa.RecordBatch, part: Emitted) -> list[pa.Array]:
        """The columns of table `number` that stand before those of the function."""
        read = self.spec.inputs[input_index]
        if part.keys is not None:
            return list(part.keys.arrays)
        # Keys of other tables are those of the row.
        columns = read.copied if number == input_index else read.partition_keys
        return taken([batch.column(c) for c in columns], part.rows)

    def _by_batch(
        self, batch: pa.RecordBatch, read: ProcessInput, groups: Array | None, keys: KeySet | None
    ) -> list[Emitted]:
        context = BatchContext(self._called, read.name, batch, groups, keys)
        returned = self._call("on_batch", self._function.on_batch, context, batch)
        if returned is not None:
            context.emit(returned)
        if read.passes_columns and any(part.keys is not None for part in context.emitted):
            raise UserError(
                "SS5411",
                f"Python function {self.spec.ref.name} puts out rows by key, and passes the columns of rows through",
                hint="call ctx.emit with rows, the rows of the batch that they belong to",
            )
        return context.emitted

    def _by_row(
        self,
        cursor: Cursor,
        batch: pa.RecordBatch,
        read: ProcessInput,
        groups: Array | None,
        keys: KeySet | None,
    ) -> list[Emitted]:
        values = [python_values(column) for column in batch.columns]
        names, rows = batch.schema.names, batch.num_rows
        key_values = [] if keys is None else [*zip(*map(python_values, keys.arrays), strict=True)]
        context = RowContext(self._called, read.name, key_values)
        if keys is not None:
            cursor.keys = keys
        items: list[Any] = []
        counts = np.zeros(rows, dtype=np.int64)
        evaluate = self._function.eval
        number, row = 0, {}
        try:
            places = [0] * rows if groups is None else groups.tolist()
            for number, (group, given) in enumerate(zip(places, zip(*values, strict=True), strict=True)):
                context.group = cursor.group = group
                row = dict(zip(names, given, strict=True))
                made = evaluate(context, row)
                if made is not None:
                    before = len(items)
                    items.extend(made)
                    counts[number] = len(items) - before
                    if len(items) > TABLE_ROWS_MAX:
                        raise UserError(
                            "SS5131",
                            f"Python function {self.spec.ref.name} makes more than {TABLE_ROWS_MAX:,} rows of one batch",
                        )
        except UserError:
            raise
        except BaseException as error:
            raise failed(self.spec.ref, error, [row], "eval") from error
        for state in self._states:
            state.finish()
        if not items:
            return []
        return [Emitted(columns_of_rows(items, self._called), np.repeat(np.arange(rows), counts), None)]

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._called.watermark_ms = watermark_ms
        return watermark_ms

    def close(self) -> None:
        self._call("close", self._function.close)
