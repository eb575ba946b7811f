"""Runs a process table function without a cluster: a test hands it rows, moves watermark and clock, and reads its state."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, to_arrow_schema, with_row_kinds, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.elements import WATERMARK_MAX
from sqlstream.errors import UserError, did_you_mean
from sqlstream.expressions import Expression, SortKey
from sqlstream.function_ref import DeclaredTable, FunctionRef, StateShape
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.planner.relational.process_table import chosen_schema, key_places, made_schema
from sqlstream.planner.statements.functions import function_ref
from sqlstream.process_functions import ProcessTableFunction, declared_function
from sqlstream.runtime.operators.dry_run import Nowhere
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.operators.process.outputs import ProcessOutput
from sqlstream.runtime.operators.process.process_table import ProcessTable
from sqlstream.runtime.operators.process.timers import to_time
from sqlstream.runtime.python.values import arrow_values, python_values
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.runtime.taskmanager.mailbox import next_due_ms
from sqlstream.schema import Field, Schema
from sqlstream.specs.process_table import ProcessInput, ProcessOutputSpec, ProcessTableSpec, output_places
from sqlstream.types import as_rowtime, is_timestamp

Row = tuple[Any, ...]
Time = int | str | datetime.datetime


class ProcessHarness:
    """One subtask of a function: the operator that a job runs, fed by a test.

        with ProcessHarness(Numbered, "k STRING, v BIGINT", partition_by="k", first=10) as numbered:
            numbered.feed([("a", 1), ("b", 2), ("a", 3)])
            assert numbered.take() == [("a", 10), ("b", 10), ("a", 11)]
            assert numbered.state("count") == {"a": 2, "b": 1}

    `tables` are the columns of the table as SQL text, or of each table by the name of its argument. `partition_by`, `on_time` and
    `order_by`, which begins with a row time, name columns, which all tables have. Other arguments are those of the call. A time
    is in milliseconds, a datetime, or its text.
    """

    def __init__(
        self,
        function: type[ProcessTableFunction],
        tables: str | Mapping[str, str],
        *,
        partition_by: str | Sequence[str] = (),
        on_time: str = "",
        order_by: str | Sequence[str] = (),
        state_ttl_ms: int = 0,
        now: Time = 0,
        **arguments: Any,
    ) -> None:
        self._function = function
        self._arguments = arguments
        ref = function_ref(
            function.__name__, function.__module__, function.__name__, declared_function(function).declared
        )
        assert ref.process is not None
        names = [table.name for table in ref.process.tables]
        texts = {names[0]: tables} if isinstance(tables, str) else dict(tables)
        if sorted(texts) != sorted(names):
            raise ValueError(f"{function.__name__} reads {', '.join(names)}, and not {', '.join(texts)}")
        keys = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
        self._schemas = [_schema(texts[name], {on_time, *order[:1]}) for name in names]
        reads = tuple(
            _read(t, s, keys, on_time, order) for t, s in zip(ref.process.tables, self._schemas, strict=True)
        )
        _check_arguments(ref, arguments, names)
        constants: tuple[Expression | None, ...] = (None,) * (len(ref.parameters) - len(names))
        self._spec = ProcessTableSpec(ref, "f", reads, constants, state_ttl_ms)
        self._now_ms = _ms(now)
        self._taken = _Taken()
        self._operator = self._opened()

    def _opened(self) -> ProcessTable:
        assert self._spec.ref.process is not None
        process = self._spec.ref.process
        modes = tuple(_mode("SUPPORT_UPDATES" in table.traits) for table in process.tables)
        reads = self._spec.inputs
        at = reads[0].time_column
        time = Field("rowtime", self._schemas[0].fields[at].type) if at >= 0 else None
        made = made_schema(self._spec.ref, reads, self._schemas, time)
        mode = process.mode
        if mode is ChangelogMode.UPSERT and not reads[0].partition_keys:
            raise ValueError(f"{self._spec.ref.name} replaces rows by their key: name partition_by")
        context = OperatorContext(tuple(self._schemas), modes, made, mode, now_ms=lambda: self._now_ms)
        operator = ProcessTable(self._spec, context, self._function)
        names = ("", *(output.name for output in process.outputs)) if process.outputs else ()
        self._outputs = {"": made}
        self._taken.outputs = {}
        if self._taken.played is None and not mode.is_insert_only:
            self._taken.played = _Played(mode, key_places(reads))
        for number, name in enumerate(names):
            chosen = chosen_schema(self._spec.ref, reads, made, number)
            changes = ChangelogMode.INSERT_ONLY if number else mode
            own = ProcessOutputSpec(number, output_places(reads, self._spec.ref, number))
            self._outputs[name] = chosen
            self._taken.outputs[name] = ProcessOutput(own, OperatorContext((made,), (mode,), chosen, changes))
        for name, value in self._arguments.items():
            setattr(operator.function, name, value)
        return operator

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._operator.close()

    # -- input -----------------------------------------------------------------------------------------

    def feed(
        self, rows: Iterable[Row] | pa.RecordBatch, table: str = "", *, kinds: Sequence[RowKind] | None = None
    ) -> Self:
        """One batch of rows of a table, of the first where none is named. `kinds` are those of the rows of a table with
        SUPPORT_UPDATES; without them all are added."""
        number = self._number(table) if table else 0
        schema = to_arrow_schema(self._schemas[number])
        if not isinstance(rows, pa.RecordBatch):
            columns = [*zip(*rows, strict=True)] or [()] * len(schema)
            types = self._schemas[number].types
            arrays = [
                arrow_values(
                    [_value(v) if is_timestamp(t) else v for v in column],
                    t.without_time_attribute(),
                    "the test",
                )
                for column, t in zip(columns, types, strict=True)
            ]
            rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        if not self._operator.context.input_modes[number].is_insert_only:
            given = [RowKind.INSERT] * rows.num_rows if kinds is None else list(kinds)
            rows = with_row_kinds(rows, np.array(given, dtype=np.int8))
        elif kinds is not None:
            raise ValueError("the table has no SUPPORT_UPDATES")
        if rows.num_rows:
            self._operator.context.state.expire()
            self._operator.on_batch(rows, number, self._taken)
        return self

    def _number(self, table: str) -> int:
        names = [read.name for read in self._spec.inputs]
        if table not in names:
            raise ValueError(f'there is no table "{table}": {did_you_mean(table, names) or ", ".join(names)}')
        return names.index(table)

    def advance_watermark(self, time: Time) -> Self:
        """The watermark of all tables rises: timers of event time that are due fire."""
        self._operator.on_watermark(_ms(time), self._taken)
        return self

    def advance_clock(self, time: Time) -> Self:
        """Processing time moves on: timers fire, and state expires, each when it is due."""
        until = _ms(time)
        while (due := next_due_ms(self._operator)) is not None and due <= until:
            self._now_ms = max(self._now_ms, due)
            self._operator.context.state.expire()
            self._operator.on_processing_time(self._now_ms, self._taken)
        self._now_ms = until
        return self

    def finish(self) -> Self:
        """The tables have ended."""
        self._operator.on_watermark(WATERMARK_MAX, self._taken)
        self._operator.on_processing_time(self._now_ms, self._taken)
        self._operator.on_finish(self._taken)
        return self

    def restart(self, function: type[ProcessTableFunction] | None = None) -> Self:
        """As after a failure, or of another version of the class after ALTER FUNCTION: a new instance with the saved state."""
        snapshot = self.snapshot()
        self._operator.close()
        if function is not None:
            declared = declared_function(function).declared
            ref = function_ref(function.__name__, function.__module__, function.__name__, declared)
            self._function = function
            self._spec = ProcessTableSpec(
                ref, "f", self._spec.inputs, self._spec.arguments, self._spec.state_ttl_ms
            )
        self._operator = self._opened()
        self._operator.context.state.restore(snapshot)
        self._operator.on_restored()
        return self

    # -- output ----------------------------------------------------------------------------------------

    def take_batches(self, output: str = "") -> list[pa.RecordBatch]:
        """What was put out since it was last asked for: by the function itself, or to one of its side outputs."""
        self._check_output(output)
        return self._taken.batches.pop(output, [])

    def take(self, output: str = "") -> list[Row]:
        """The same as rows of Python's values; those of a class that changes rows begin with "+I", "-U", "+U" or "-D"."""
        return [row for batch in self.take_batches(output) for row in _rows(batch)]

    def table(self) -> list[Row]:
        """The rows that all changes so far have made, of a class that changes rows, in any order."""
        if self._taken.played is None:
            raise ValueError(f"{self._spec.ref.name} only adds rows: take() has them")
        return self._taken.played.table()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the output's columns."""
        return self.columns_of("")

    def columns_of(self, output: str) -> tuple[str, ...]:
        """Those of a side output."""
        self._check_output(output)
        return self._outputs[output].names

    def _check_output(self, name: str) -> None:
        if name not in self._outputs:
            others = [known for known in self._outputs if known]
            raise ValueError(
                f'there is no output "{name}": {did_you_mean(name, others) or ", ".join(others)}'
            )

    # -- state -----------------------------------------------------------------------------------------

    def snapshot(self) -> OperatorSnapshot:
        """What a checkpoint would save."""
        return self._operator.context.state.snapshot()

    def state(self, name: str) -> dict[Any, Any]:
        """What a state holds by key: the value, the list, or a dict of a map. A key of several columns is a tuple."""
        assert self._spec.ref.process is not None
        names = [state.name for state in self._spec.ref.process.states]
        if name not in names:
            raise ValueError(f'there is no state "{name}": {did_you_mean(name, names) or ", ".join(names)}')
        keys, rest = self._saved(name)
        if self._spec.ref.process.states[names.index(name)].shape is not StateShape.MAP:
            return dict(zip(keys, (value for (value,) in rest), strict=True))
        found: dict[Any, Any] = {}
        for key, (map_key, value) in zip(keys, rest, strict=True):
            found.setdefault(key, {})[map_key] = value
        return found

    def timers(self) -> list[tuple[Any, str | None, int]]:
        """(key, name, milliseconds) of all timers that are set, in order of time."""
        if self._operator.timers is None:
            return []
        keys, rest = self._saved(self._operator.timers.table.name)
        found = [(key, name, time) for key, (name, _, time) in zip(keys, rest, strict=True)]
        return sorted(found, key=lambda timer: (timer[2], str(timer[0]), timer[1] or ""))

    def _saved(self, name: str) -> tuple[list[Any], list[Row]]:
        """The keys, and what stands behind them, of a table of state."""
        table = next(t for t in self._operator.context.state.tables if t.name == name)
        _, arrays = table.saved(table.slots())  # type: ignore[attr-defined]
        names = table.saved_names  # type: ignore[attr-defined]
        width = len(self._spec.inputs[0].partition_keys)
        first = len(arrays) - (len(names) - names.index(table.schema.names[0]))  # type: ignore[attr-defined]
        rows = [*zip(*map(python_values, arrays[first:]), strict=True)]
        keys = [row[0] if width == 1 else row[:width] for row in rows]
        return keys, [row[width:] for row in rows]


def _mode(changes: bool) -> ChangelogMode:
    return ChangelogMode.RETRACT if changes else ChangelogMode.INSERT_ONLY


class _Taken(Nowhere):
    """What was put out, by output: `outputs` are the operators that choose the rows of each, of a function that has several."""

    def __init__(self, output: str = "", into: dict[str, list[pa.RecordBatch]] | None = None) -> None:
        self.batches = {} if into is None else into
        self.outputs: dict[str, ProcessOutput] = {}
        self.played: _Played | None = None
        self._output = output

    def emit(self, batch: pa.RecordBatch) -> None:
        for name, chosen in self.outputs.items():
            part = _Taken(name, self.batches)
            part.played = None if name else self.played
            chosen.on_batch(batch, 0, part)
        if batch.num_rows and not self.outputs:
            if self.played is not None:
                self.played.play(batch)
            self.batches.setdefault(self._output, []).append(batch)


class _Played:
    """The table that the changes of a function make. State: its rows; with UPSERT the one of each key, in columns `keys`."""

    def __init__(self, mode: ChangelogMode, keys: tuple[int, ...]) -> None:
        self._mode, self._keys = mode, keys
        self._rows: dict[str, list[Row]] = {}

    def play(self, batch: pa.RecordBatch) -> None:
        """AssertionError for a change of a row that is not there."""
        for symbol, *values in _rows(batch):
            row = tuple(values)
            is_by_key = self._mode is ChangelogMode.UPSERT
            name = repr(tuple(row[key] for key in self._keys) if is_by_key else row)
            held = self._rows.setdefault(name, [])
            if symbol in ("-U", "-D"):
                if not held:
                    what = (
                        f"of key {name}, which has no row"
                        if is_by_key
                        else f"{name} of a row that is not there"
                    )
                    raise AssertionError(f"the function has put out {symbol} {what}")
                held.pop()
            else:
                held[:] = [row] if is_by_key else [*held, row]

    def table(self) -> list[Row]:
        return [row for rows in self._rows.values() for row in rows]


def _rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows of Python's values; those of a changelog begin with the symbols of their kinds."""
    columns: list[list[Any]] = [python_values(column) for column in without_row_kinds(batch).columns]
    if is_changelog(batch):
        columns.insert(0, [RowKind(kind).symbol for kind in row_kinds(batch)])
    return [*zip(*columns, strict=True)]


def _schema(text: str, row_times: set[str]) -> Schema:
    fields = parse_type(f"ROW<{text}>").fields
    return Schema(tuple(Field(f.name, as_rowtime(f.type) if f.name in row_times else f.type) for f in fields))


def _read(
    table: DeclaredTable, schema: Schema, keys: tuple[str, ...], on_time: str, order: tuple[str, ...]
) -> ProcessInput:
    is_set = "SET_SEMANTIC_TABLE" in table.traits
    for name in (*keys, *order, *([on_time] if on_time else [])):
        if name not in schema.names:
            raise ValueError(f'table "{table.name}" has no column "{name}"')
    if is_set and not keys and "OPTIONAL_PARTITION_BY" not in table.traits:
        raise ValueError(f'table "{table.name}" needs partition_by')
    return ProcessInput(
        table.name,
        schema.names,
        tuple(map(schema.index_of, keys)) if is_set else (),
        is_set,
        "PASS_COLUMNS_THROUGH" in table.traits,
        schema.index_of(on_time) if on_time else -1,
        schema.index_of(order[0]) if order else -1,
        tuple(SortKey(schema.index_of(name)) for name in order[1:]),
    )


def _check_arguments(ref: FunctionRef, given: Mapping[str, Any], tables: Sequence[str]) -> None:
    wanted = [name for name in ref.parameters if name not in tables]
    for name in given:
        if name not in wanted:
            raise ValueError(
                f'{ref.name} has no argument "{name}": {did_you_mean(name, wanted) or ", ".join(wanted)}'
            )
    for name in ref.parameters[: ref.args_min]:
        if name in wanted and name not in given:
            raise ValueError(f'{ref.name} needs its argument "{name}"')


def _value(given: Any) -> Any:
    return datetime.datetime.fromisoformat(given) if isinstance(given, str) else given


def _ms(given: Time) -> int:
    try:
        return to_time(_value(given))
    except UserError as error:
        raise ValueError(error.message) from None
