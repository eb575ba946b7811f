"""What a process table function puts out: rows of one or several outputs, in columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef
from sqlstream.messages.ledger import FILTERED
from sqlstream.process_functions import KEY_ALONE, Change, Deletion, OutputRow
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.operators.process.states import KeySet, column_of
from sqlstream.runtime.python.calls import split_rows
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.specs.process_table import ProcessOutputSpec
from sqlstream.types import LogicalType, row


class Emitted:
    """Rows that were put out: columns of the function, and the rows of the occasion or the keys that they belong to; without both
    each row has one. `kinds` are RowKinds, None for rows that are added. `output` is the number of the output."""

    def __init__(
        self,
        columns: list[pa.Array],
        rows: Array | None,
        keys: KeySet | None,
        kinds: Array | None = None,
        output: int = 0,
    ) -> None:
        self.columns, self.rows, self.keys, self.kinds, self.output = columns, rows, keys, kinds, output


def refusal(ref: FunctionRef, message: str, hint: str) -> UserError:
    return UserError("SS5411", f"Python function {ref.name}: {message}", hint=hint)


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
    def mode(self) -> ChangelogMode:
        assert self.ref.process is not None
        return ChangelogMode.INSERT_ONLY if self.name else self.ref.process.mode

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

    def of_nullable(self) -> OutputLayout:
        """For rows of which some have no values."""
        fields = ((f.name, f.type.with_nullable(True)) for f in self.made.fields)
        return dataclasses.replace(self, made=row(*fields))

    def kinds(self, given: Any, count: int) -> Array:
        """int8 of each row: of a kind for all, or one each. UserError SS5411 for what is no kind, and as `check_kinds`."""
        if isinstance(given, pa.Array | pa.ChunkedArray):
            given = None if given.null_count else given.to_numpy(zero_copy_only=False)
        found: Array = np.asarray(given)
        if found.ndim == 0 and found.dtype.kind in "iu":
            found = np.full(count, found)
        is_of_rows = found.ndim == 1 and len(found) == count
        if not is_of_rows or (count and not (found.dtype.kind in "iu" and np.isin(found, [*RowKind]).all())):
            said = f"kinds are {count} values of RowKind, and none of them is NULL"
            raise refusal(self.ref, said, "give one for each row that is put out, or one for all")
        kinds = found.astype(np.int8)
        self.check_kinds(kinds)
        return kinds

    def check_kinds(self, kinds: Array) -> None:
        """UserError SS5411 for changes that the class does not declare."""
        if self.mode is ChangelogMode.RETRACT:
            return
        wrong = kinds != RowKind.INSERT if self.mode.is_insert_only else kinds == RowKind.UPDATE_BEFORE
        if not wrong.any():
            return
        symbol = RowKind(kinds[wrong][0]).symbol
        if self.name:
            said = f'it puts out {symbol} to output "{self.name}", which only adds rows'
            raise refusal(self.ref, said, "put it out by a column that says so")
        if self.mode.is_insert_only:
            said = f"it puts out {symbol}, and its class declares that it only adds rows"
            raise refusal(self.ref, said, "declare changelog_mode = ChangelogMode.RETRACT in the class")
        hint = "leave it out: UPDATE_AFTER replaces the row with its key"
        raise refusal(self.ref, "it puts out -U, and its class declares changelog_mode UPSERT", hint)

    def check_key_alone(self) -> None:
        if self.mode is not ChangelogMode.UPSERT:
            hint = "name the row that goes: the function remembers it, or declares changelog_mode UPSERT"
            raise refusal(self.ref, "it deletes a row that it does not name", hint)

    def nulls(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, to_arrow_type(field.type)) for field in self.made.fields]


def outputs_of(ref: FunctionRef) -> tuple[OutputLayout, ...]:
    """The output of `result_type`, then the side outputs."""
    assert ref.process is not None
    sides = zip(ref.process.outputs, ref.output_types, strict=True)
    return (OutputLayout(ref, "", ref.result_type), *(OutputLayout(ref, o.name, t) for o, t in sides))


def place_of(outputs: Sequence[OutputLayout], name: str) -> int:
    """The number of a side output; 0 for the output of `result_type`, which has no name."""
    for place, layout in enumerate(outputs):
        if layout.name == name:
            return place
    raise refusal(outputs[0].ref, f'it has no output "{name}"', "declare it in its class as a SideOutput")


def emitted_of_rows(items: list[Any], rows: Array, outputs: Sequence[OutputLayout]) -> list[Emitted]:
    """What a function yielded for these rows, or timers: values, tuples or dicts, some as Change or OutputRow."""
    if OutputRow not in set(map(type, items)):
        return [_emitted(items, rows, outputs, 0)]
    places = np.array([place_of(outputs, i.output) if isinstance(i, OutputRow) else 0 for i in items])
    made = []
    for place in np.unique(places).tolist():
        numbers = np.flatnonzero(places == place)
        own = [items[n].row if place else items[n] for n in numbers.tolist()]
        made.append(_emitted(own, rows[numbers], outputs, place))
    return made


def _emitted(items: list[Any], rows: Array, outputs: Sequence[OutputLayout], place: int) -> Emitted:
    kinds: Array | None = None
    layout = outputs[place]
    if not {Change, Deletion}.isdisjoint(map(type, items)):
        kinds = np.array([i.kind if isinstance(i, Change) else RowKind.INSERT for i in items], dtype=np.int8)
        layout.check_kinds(kinds)
        items = [item.row if isinstance(item, Change) else item for item in items]
        if any(item is KEY_ALONE for item in items):
            layout.check_key_alone()
            none = (None,) * len(layout.names)
            items = [none if item is KEY_ALONE else item for item in items]
            layout = layout.of_nullable()
    return Emitted(layout.columns_of_rows(items), rows, None, kinds, place)


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
