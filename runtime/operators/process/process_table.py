"""Calls a user's process table function, batch by batch or row by row, and its timers as they are due."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionMode
from sqlstream.runtime.evaluate import EvaluationContext
from sqlstream.runtime.evaluate.program import Program
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.equal_values import key_groups
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.process.calls import (
    BatchContext,
    Called,
    Occasion,
    RowContext,
    taken,
)
from sqlstream.runtime.operators.process.in_order import WaitingRows
from sqlstream.runtime.operators.process.outputs import Emitted, as_declared, emitted_of_rows
from sqlstream.runtime.operators.process.row_states import Cursor, make_state
from sqlstream.runtime.operators.process.states import KeySet, places_of
from sqlstream.runtime.operators.process.timers import Firing, Timers
from sqlstream.runtime.operators.window.closing import closed_ms
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.python.calls import TABLE_ROWS_MAX, failed
from sqlstream.runtime.python.loading import load_target
from sqlstream.runtime.python.values import python_values, shown
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.update_pairs import moved_kinds, portion_kinds
from sqlstream.specs.process_table import PROCESSING_TIMERS, TIMERS, ProcessTableSpec, output_places

_EVENT_BUCKET_MS = 1_000
_PROCESSING_BUCKET_MS = 100


class ProcessTable(Operator[ProcessTableSpec]):
    """Emits what the function puts out, behind the columns of PARTITION BY or those that are passed through.

    Rows that timers put out come before the watermark that fires them. At the end of the input all timers of event time fire, and
    none of those that are set then; timers of processing time that are not due are dropped.
    `target` is the class, unless it is imported.
    State: what the function declares, each state in a table of its name; the timers; rows that wait for the
    watermark; and, for these and for late rows, the watermark.
    """

    def __init__(self, spec: ProcessTableSpec, context: OperatorContext, target: Any = None) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
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
        if target is None:
            target = load_target(spec.ref)
        self.function = self._call("__init__", target)
        self._set_arguments()
        assert spec.ref.process is not None
        self._states = []
        for declared, state_type in zip(spec.ref.process.states, spec.ref.state_types, strict=True):
            given, ttl_ms = getattr(target, declared.name), spec.ttl_of(declared.ttl_ms)
            state = make_state(declared, state_type, given, ttl_ms, places, self._cursor)
            context.state.add(state.table)
            setattr(self.function, declared.name, state)
            self._states.append(state)
        self.timers: Timers | None = None
        if "on_timer" in spec.ref.methods:
            name = TIMERS if spec.has_on_time else PROCESSING_TIMERS
            self.timers = Timers(
                name, places, _EVENT_BUCKET_MS if spec.has_on_time else _PROCESSING_BUCKET_MS
            )
            context.state.add(self.timers.table)
        self._passed = context.state.add(closed_ms()) if spec.has_on_late or spec.has_order else None
        self._waiting = WaitingRows(spec.inputs, self._inputs, context) if spec.has_order else None
        self._called = Called(spec.ref, self._states, context.now_ms, self.timers, spec.has_on_time)
        self._call("open", self.function.open)

    def on_restored(self) -> None:
        if self.timers is not None:
            self.timers.restored()
        if self._passed is not None and self._passed.value != WATERMARK_MIN:
            self._called.watermark_ms = self._passed.value

    def _set_arguments(self) -> None:
        """Give the function the constants of the call."""
        assert self.spec.ref.process is not None
        tables = {table.name for table in self.spec.ref.process.tables}
        names = [name for name in self.spec.ref.parameters if name not in tables]
        evaluation = EvaluationContext.of(self.context.now_ms, self.context.config)
        for name, expression in zip(names, self.spec.arguments, strict=True):
            if expression is not None:
                (column,) = Program([expression], evaluation).run([], 1)
                setattr(self.function, name, python_values(column)[0])

    def _call(self, method: str, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UserError:
            raise
        except BaseException as error:
            raise failed(self.spec.ref, error, [], method) from error

    # -- rows ----------------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if not self.context.input_modes[input_index].is_insert_only:
            self._process_changes(batch, input_index, output)
            return
        # Planning may lose names, and inputs of a UNION ALL may have others.
        batch = pa.RecordBatch.from_arrays(batch.columns, schema=self._inputs[input_index])
        watermark_ms = self._called.watermark_ms
        if not self.spec.has_on_late or watermark_ms is None:
            self._arrived(batch, input_index, output)
            return
        is_late = times_ms(batch.column(self.spec.inputs[input_index].time_column)) <= watermark_ms
        if is_late.any():
            self._process(batch.filter(pa.array(is_late)), input_index, "on_late", output)
            batch = batch.filter(pa.array(~is_late))
        if batch.num_rows:
            self._arrived(batch, input_index, output)

    def _process_changes(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        """Half an update whose other half went to another subtask, or has another key, is a row that is deleted or added."""
        rows = pa.RecordBatch.from_arrays(without_row_kinds(batch).columns, schema=self._inputs[input_index])
        keys = [rows.column(k) for k in self.spec.inputs[input_index].partition_keys]
        kinds = moved_kinds(portion_kinds(row_kinds(batch)), keys)
        self._process(rows, input_index, "", output, kinds)

    def _arrived(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        if self._waiting is not None and self.spec.inputs[input_index].order_column >= 0:
            self._waiting.add(batch, input_index, self._called.watermark_ms)
        else:
            self._process(batch, input_index, "", output)

    def _process(
        self, batch: pa.RecordBatch, input_index: int, method: str, output: Output, kinds: Array | None = None
    ) -> None:
        read = self.spec.inputs[input_index]
        groups: Array | None = None
        keys: KeySet | None = None
        if read.has_set_semantics:
            groups, first_rows, columns = key_groups(batch, read.partition_keys)
            keys = KeySet(self._key_names, columns, len(first_rows))
        times = times_ms(batch.column(read.time_column)) if read.time_column >= 0 else None
        occasion = Occasion(input_index, read.name, batch.num_rows, keys, groups, times, batch, kinds=kinds)
        if self._cursor is None:
            self._emit(self._by_batch(occasion, method or "on_batch"), occasion, output)
        else:
            self._emit(self._by_row(self._cursor, occasion, method or "eval"), occasion, output)

    def _emit(self, emitted: list[Emitted], occasion: Occasion, output: Output) -> None:
        for part in emitted:
            copied = [c for n in range(len(self.spec.inputs)) for c in self._copied(n, occasion, part)]
            rows = len(part.columns[0])
            columns = [*copied, *self._own(part, rows)]
            if self.spec.has_on_time:
                columns += self._row_times(occasion, part)
            if self.spec.ref.output_types:
                columns.append(to_array(pa.int8(), np.full(rows, part.output, dtype=np.int8)))
            if not self.context.output_mode.is_insert_only:
                columns.append(to_array(pa.int8(), self._kinds(part, rows, copied)))
            wanted = self._schema.types
            arrays = [as_declared(c, t) for c, t in zip(columns, wanted, strict=True)]
            output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _kinds(self, part: Emitted, rows: int, keys: list[pa.Array]) -> Array:
        """Half an update without the other half behind or before it, or whose key is another one, is a row that is deleted or
        added."""
        if part.kinds is None:
            return np.full(rows, RowKind.INSERT, dtype=np.int8)
        is_paired = self.context.output_mode is ChangelogMode.RETRACT
        return moved_kinds(portion_kinds(part.kinds), keys) if is_paired else part.kinds

    def _own(self, part: Emitted, rows: int) -> list[pa.Array]:
        """The columns of all outputs, NULL those of others."""
        layouts = enumerate(self._called.outputs)
        own = (part.columns if n == part.output else layout.nulls(rows) for n, layout in layouts)
        return [column for columns in own for column in columns]

    def _copied(self, number: int, occasion: Occasion, part: Emitted) -> list[pa.Array]:
        """The columns of table `number` that stand before those of the function."""
        if part.keys is not None:
            return list(part.keys.arrays)
        if occasion.batch is None:
            assert occasion.keys is not None
            return taken(occasion.keys.arrays, part.rows)
        read = self.spec.inputs[occasion.table]
        # Keys of other tables are those of the row.
        columns = read.copied if number == occasion.table else read.partition_keys
        return taken([occasion.batch.column(c) for c in columns], part.rows)

    def _row_times(self, occasion: Occasion, part: Emitted) -> list[pa.Array]:
        if occasion.batch is not None:
            read = self.spec.inputs[occasion.table]
            return taken([occasion.batch.column(read.time_column)], part.rows)
        assert occasion.times is not None
        times = occasion.times if part.rows is None else occasion.times[part.rows]
        target = self._schema.types[output_places(self.spec.inputs, self.spec.ref, 0)[-1]]
        return [to_array(pa.timestamp("ms", target.tz), times)]

    def _by_batch(self, occasion: Occasion, method: str) -> list[Emitted]:
        context = BatchContext(self._called, occasion)
        given = () if occasion.batch is None else (occasion.batch,)
        returned = self._call(method, getattr(self.function, method), context, *given)
        if returned is not None:
            context.emit(returned)
        if self.spec.inputs[occasion.table].passes_columns and any(
            p.keys is not None for p in context.emitted
        ):
            hint = "call ctx.emit with rows, the rows of the batch that they belong to"
            message = "it puts out rows by key, and passes the columns of rows through"
            raise self._called.refusal(message, hint)
        return context.emitted

    def _by_row(self, cursor: Cursor, occasion: Occasion, method: str) -> list[Emitted]:
        context = RowContext(self._called, occasion)
        if occasion.keys is not None:
            cursor.keys = occasion.keys
        items: list[Any] = []
        counts = np.zeros(occasion.rows, dtype=np.int64)
        evaluate = getattr(self.function, method)
        places = range(occasion.rows) if occasion.batch is None else [0] * occasion.rows
        groups = places if occasion.groups is None else occasion.groups.tolist()
        given: tuple[Any, ...] = ()
        try:
            for number, (group, given) in enumerate(zip(groups, _arguments(occasion), strict=True)):
                context.number, context.group = number, group
                cursor.group = group
                made = evaluate(context, *given)
                if made is not None:
                    if isinstance(made, str | bytes | Mapping):
                        message = f"{method} returned {shown(made)} and not the rows to put out"
                        raise self._called.refusal(message, "yield each row, or return a list of rows")
                    before = len(items)
                    items.extend(itertools.islice(made, TABLE_ROWS_MAX + 1 - before))
                    counts[number] = len(items) - before
                    if len(items) > TABLE_ROWS_MAX:
                        message = f"it makes more than {TABLE_ROWS_MAX:,} rows of one batch"
                        raise self._called.refusal(message, "put out fewer rows")
        except UserError:
            raise
        except BaseException as error:
            raise failed(self.spec.ref, error, [*given], method) from error
        for state in self._states:
            state.finish()
        context.finish()
        if not items:
            return []
        return emitted_of_rows(items, np.repeat(np.arange(occasion.rows), counts), self._called.outputs)

    # -- time ----------------------------------------------------------------------------------------

    def on_watermark(self, watermark_ms: int, output: Output) -> int | None:
        self._called.watermark_ms = watermark_ms
        if self._passed is not None:
            self._passed.value = watermark_ms
        if self._waiting is not None:
            self._process_in_order(self._waiting, watermark_ms, output)
        if self.timers is not None and self.spec.has_on_time:
            self._fire(self.timers.due(watermark_ms, takes_new=watermark_ms != WATERMARK_MAX), output)
        return watermark_ms

    def _process_in_order(self, waiting: WaitingRows, watermark_ms: int, output: Output) -> None:
        """The rows that the watermark has passed, and before those of a key its timers of an earlier time."""
        timers = self.timers if self.spec.has_on_time else None
        rounds = waiting.take(watermark_ms, stops_for_timers=timers is not None)
        for turns in rounds or ():
            if timers is not None and rounds is not None:
                self._fire(timers.due(rounds.last_limit, takes_new=True, limits_of=rounds.limits_of), output)
            for turn in turns:
                self._process(turn.batch, turn.table, "", output)

    def next_processing_time_ms(self) -> int | None:
        return None if self.timers is None or self.spec.has_on_time else self.timers.first_ms()

    def on_processing_time(self, now_ms: int, output: Output) -> None:
        if self.timers is not None and not self.spec.has_on_time:
            # What is set on the way waits for the next call: rows are not held up.
            self._fire(self.timers.due(now_ms, takes_new=False), output)

    def _fire(self, firing: Firing, output: Output) -> None:
        assert self.timers is not None
        while len(slots := firing.next_round()):
            keys, names, times = self.timers.fire(slots)
            occasion = Occasion(0, "", len(keys), keys, None, times, None, names)
            if self._cursor is None:
                self._emit(self._by_batch(occasion, "on_timer"), occasion, output)
            else:
                self._emit(self._by_row(self._cursor, occasion, "on_timer"), occasion, output)

    def close(self) -> None:
        self._call("close", self.function.close)


def _arguments(occasion: Occasion) -> Iterator[tuple[Any, ...]]:
    """What each call is given besides the context."""
    if occasion.batch is None:
        yield from [()] * occasion.rows
        return
    names = occasion.batch.schema.names
    for row in zip(*map(python_values, occasion.batch.columns), strict=True):
        yield (dict(zip(names, row, strict=False)),)
