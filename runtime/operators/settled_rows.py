"""The rows of recursive queries in which a better value may come for a row, and no rounds are kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_accumulate, row_kinds, to_arrow_schema
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.aggregates.numbers import (
    NumberClass,
    as_numbers,
    from_numbers,
    number_class,
    present_rows,
)
from sqlstream.runtime.evaluate.nested_keys import identities, identity_types
from sqlstream.runtime.kernels.buffers import view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.slots.supports import (
    CHANGED,
    IS_NULL,
    MARKS,
    RANK,
    VALUE,
    WIDTH,
    choose_best,
    find_unsupported,
    note_changes,
)
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn
from sqlstream.runtime.state.tables.keyed_multiset import KeyedMultiset
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.schema import Field, Schema
from sqlstream.specs.iterate import ROUND_COLUMN
from sqlstream.types import BIGINT

_NONE = np.empty(0, dtype=np.int64)
_NULL_COLUMN = "$is_null"


def _identities(columns: Schema) -> pa.Schema:
    schema = to_arrow_schema(columns)
    return pa.schema([f.with_type(t) for f, t in zip(schema, identity_types(schema), strict=True)])


class BestValues:
    """The values of a column of which the least is best, or with `is_greatest` the greatest, as numbers of 64 bits of which lower
    ones are better. NaN is the greatest number, and -0.0 is 0.0, as in MIN and MAX. `summed_in` are the queries in which values
    of FLOAT and DOUBLE are parts of sums, empty where they are not."""

    def __init__(self, field: Field, extreme: int, summed_in: str) -> None:
        self._class = number_class(field.type)
        self._arrow = to_arrow_schema(Schema((field,))).types[0]
        self._is_greatest = extreme > 0
        self._summed_in = summed_in if self._class is NumberClass.FLOAT64 else ""

    def saved_name(self, name: str) -> str:
        """Of a column of such numbers."""
        return f"{name}$inverted" if self._is_greatest else name

    def numbers(self, column: pa.Array) -> tuple[Array, Array]:
        """(int64[n], 0 for NULL; int8[n]: 1 for NULL). UserError SS3585 for a sum that is NaN."""
        given = as_numbers(column, self._class)
        if self._class is NumberClass.FLOAT64:
            numbers = self._ordered(given, column)
        elif self._class is NumberClass.INT128:
            numbers = given[:, 0].astype(np.int64)
        else:
            numbers = np.array(given)
        if self._is_greatest:
            np.invert(numbers, out=numbers)
        if not column.null_count:
            return numbers, np.zeros(len(numbers), dtype=np.int8)
        is_null = ~present_rows(column)
        numbers[is_null] = 0
        return numbers, is_null.astype(np.int8)

    def _ordered(self, values: Array, column: pa.Array) -> Array:
        is_nan = np.isnan(values)
        if self._summed_in and is_nan.any() and (is_nan & present_rows(column)).any():
            raise UserError(
                "SS3585",
                f'a sum of the recursive query "{self._summed_in}" is NaN, of which it is not known whether it gets better',
                hint="leave NaN and infinite values out by a WHERE, or take sums of whole numbers; ERROR AT RECURSION LIMIT has"
                " WITH MUTUALLY RECURSIVE keep rounds, which take any value",
            )
        bits = np.where(is_nan, np.nan, values + 0.0).view(np.int64)
        return _in_order(bits)

    def column(self, numbers: Array, is_null: Array) -> pa.Array:
        """The inverse."""
        values = np.invert(numbers) if self._is_greatest else numbers
        valid = is_null == 0
        if self._class is NumberClass.FLOAT64:
            values = _in_order(values).view(np.float64)
        elif self._class is NumberClass.INT128:
            values = np.stack([values, values >> 63], axis=1).view(np.uint64)
        return from_numbers(values, self._arrow, valid)


def _in_order(bits: Array) -> Array:
    """Bits of float64 as whole numbers in the order of these, and back: negative numbers have theirs in descending order."""
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


class BetterRows:
    """The rows of a query of which none goes: those of a key are one row, with its best values.

    State: a row for each key.
    """

    def __init__(
        self,
        columns: Schema,
        extremes: tuple[int, ...],
        context: OperatorContext,
        name: str,
        summed_in: str = "",
    ) -> None:
        self._keys = [place for place, extreme in enumerate(extremes) if not extreme]
        self._extremes = [
            (place, BestValues(columns.fields[place], extreme, summed_in))
            for place, extreme in enumerate(extremes)
            if extreme
        ]
        self._schema = to_arrow_schema(columns)
        self._changes = to_arrow_schema(columns, ChangelogMode.RETRACT)
        names = [best.saved_name(columns.names[place]) for place, best in self._extremes]
        self._values = [NumberColumn(n, pa.int64()) for n in names]
        self._nulls = [NumberColumn(f"{n}{_NULL_COLUMN}", pa.int8()) for n in names]
        numbers = [*self._values, *self._nulls]
        keys = _identities(columns.select(tuple(self._keys)))
        self._table = context.state.add(KeyedTable(name, keys, numbers, context.state.scope))
        self._is_changed = GrowingArray(np.int8)
        # By batch: the rows of keys that changed for the first time since `take_changes`, and what they had.
        self._before: list[tuple[Array, list[pa.Array], list[Array], Array]] = []
        self.bytes = 0

    def new_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of the keys that have better values now, each once."""
        slots, is_new = self._table.get_or_create(identities([batch.column(k) for k in self._keys]))
        given = [best.numbers(batch.column(place)) for place, best in self._extremes]
        better = is_new.copy()
        old = [*(c.values for c in self._values), *(c.values for c in self._nulls)]
        old_values, old_nulls = old[: len(given)], old[len(given) :]
        is_of_new = np.zeros(len(slots), dtype=bool)
        self._is_changed.reserve(self._table.slot_count)
        if is_new.any():
            fresh = slots[is_new]
            for nulls in old_nulls:
                nulls[fresh] = 2
            is_of_new = (old_nulls[0][slots] == 2) if old_nulls else is_new
        for (numbers, is_null), values, nulls in zip(given, old_values, old_nulls, strict=True):
            better |= (is_null < nulls[slots]) | ((is_null == nulls[slots]) & (numbers < values[slots]))
        rows = np.flatnonzero(better)
        if not len(rows):
            return batch.slice(0, 0)
        own, first = np.unique(slots[rows], return_index=True)
        first = rows[first]
        self._log(own, first, is_of_new[first], batch)
        self._table.writing(own)
        for (numbers, is_null), values, nulls in zip(given, old_values, old_nulls, strict=True):
            self._improve(slots[rows], numbers[rows], is_null[rows], values, nulls)
        columns = batch.take(pa.array(first)).columns
        for (place, best), values, nulls in zip(self._extremes, old_values, old_nulls, strict=True):
            columns[place] = best.column(values[own], nulls[own])
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    @staticmethod
    def _improve(slots: Array, numbers: Array, is_null: Array, values: Array, nulls: Array) -> None:
        # What had no value takes any.
        known = is_null == 0
        without = slots[nulls[slots] != 0]
        values[without] = np.iinfo(np.int64).max
        np.minimum.at(nulls, slots, is_null)
        np.minimum.at(values, slots[known], numbers[known])
        values[without[nulls[without] != 0]] = 0

    def _log(self, slots: Array, rows: Array, is_new: Array, batch: pa.RecordBatch) -> None:
        unknown = self._is_changed.values[slots] == 0
        slots, rows, is_new = slots[unknown], rows[unknown], is_new[unknown]
        self._is_changed.values[slots] = 1
        taken = pa.array(rows)
        keys = [batch.column(k).take(taken) for k in self._keys]
        numbers = [c.values[slots] for c in (*self._values, *self._nulls)]
        self._before.append((slots, keys, numbers, is_new))
        self.bytes += sum(k.nbytes for k in keys) + 9 * len(numbers) * len(slots)

    def take_changes(self) -> pa.RecordBatch | None:
        """What is other since the last call: -D before +I."""
        if not self._before:
            return None
        before, self._before, self.bytes = self._before, [], 0
        slots = np.concatenate([each[0] for each in before])
        is_new = np.concatenate([each[3] for each in before])
        self._is_changed.values[slots] = 0
        keys = [pa.concat_arrays(parts) for parts in zip(*(each[1] for each in before), strict=True)]
        old = [np.concatenate(parts) for parts in zip(*(each[2] for each in before), strict=True)]
        new = [c.values[slots] for c in (*self._values, *self._nulls)]
        gone = np.flatnonzero(~is_new)
        order = np.concatenate([gone, np.arange(len(slots))])
        columns: list[pa.Array] = [None] * len(self._schema)
        for place, column in zip(self._keys, keys, strict=True):
            columns[place] = column.take(pa.array(order))
        for number, (place, best) in enumerate(self._extremes):
            values, nulls = (
                np.concatenate([old[n][gone], new[n]]) for n in (number, number + len(self._extremes))
            )
            columns[place] = best.column(values, nulls)
        return pa.RecordBatch.from_arrays([*columns, _kinds(len(gone), len(slots))], schema=self._changes)


class SupportedRows:
    """The rows of a query of which some may go: those of a key are one row, with the best value that it is made with.

    A row has a rank. It is supported by the same row if that is made of rows of lower ranks: so rows in a circle do not support
    each other. When the last support goes, the row goes (`unsupported`). When no more rows go, keys take the best rows that they
    are made with (`chosen`), at a rank above all that there are.
    State: how often each row is made, by the rank of what it is made of, and the row of each key with its rank.
    """

    def __init__(
        self,
        columns: Schema,
        extremes: tuple[int, ...],
        context: OperatorContext,
        number: int,
        summed_in: str = "",
    ) -> None:
        self._keys = tuple(place for place, extreme in enumerate(extremes) if not extreme)
        self._value = next((place for place, extreme in enumerate(extremes) if extreme), -1)
        self._best: BestValues | None = None
        if self._value >= 0:
            self._best = BestValues(columns.fields[self._value], extremes[self._value], summed_in)
        self._width = len(columns)
        ranked = Schema((*columns.fields, Field(ROUND_COLUMN, BIGINT.not_null())))
        self._ranked = to_arrow_schema(ranked, ChangelogMode.RETRACT)
        self._result_schema = to_arrow_schema(columns, ChangelogMode.RETRACT)
        scope = context.state.scope
        made = to_arrow_schema(ranked)
        self._made = context.state.add(
            KeyedMultiset(f"rows{number + 1}", made, self._keys, scope, list_length=0)
        )
        value = self._best.saved_name("$value") if self._best is not None else "$value"
        names = (value, _NULL_COLUMN, ROUND_COLUMN)
        self._saved = [NumberColumn(n, pa.int64()) for n in names]
        keys = _identities(columns.select(self._keys))
        self._result = context.state.add(KeyedTable(f"result{number + 1}", keys, self._saved, scope))
        self._rows = GrowingArray(np.int64, WIDTH)
        self._chosen = GrowingArray(np.int64, WIDTH)
        self._marks = GrowingArray(np.int8, MARKS)
        self._touched: list[Array] = []
        self._doubtful: list[Array] = []
        self._swept: list[Array] = []
        # Keys that have other rows since `take_changes`, and which they had.
        self._before: list[tuple[Array, Array]] = []
        self.bytes = 0

    def on_restored(self) -> int:
        """The greatest rank."""
        slots = self._made.rows.slots()
        self._reserve()
        self._rows.values[slots] = self._given(self._made.rows.columns(slots, range(self._width + 1)))
        saved = self._result.slots()
        keys = self._made.find(self._result.keys(saved))
        for column, numbers in enumerate(self._saved):
            self._chosen.values[keys, column] = numbers.values[saved]
        return int(self._chosen.values[keys, RANK].max(initial=0))

    def _reserve(self) -> None:
        self._rows.reserve(self._made.rows.slot_count)
        self._chosen.reserve(self._made.key_slot_count)
        self._marks.reserve(self._made.key_slot_count)

    def _given(self, columns: list[pa.Array]) -> Array:
        given = np.zeros((len(columns[0]), WIDTH), dtype=np.int64)
        if self._best is not None:
            given[:, VALUE], given[:, IS_NULL] = self._best.numbers(columns[self._value])
        given[:, RANK] = view_values(columns[self._width], np.int64)
        return given

    def apply(self, batch: pa.RecordBatch) -> None:
        """Rows that are made once more or once less, with the ranks of those that they are made of."""
        keys, slots = self._made.apply(pa.RecordBatch.from_arrays(batch.columns, schema=self._ranked))
        self._reserve()
        signs = (~is_accumulate(row_kinds(batch))).astype(np.int8)
        touched, doubtful = (np.empty(len(keys), dtype=np.int64) for _ in range(2))
        state = self._rows.values, self._chosen.values, self._marks.values
        lengths = note_changes(keys, slots, signs, self._given(batch.columns), *state, touched, doubtful)
        for found, kept, length in zip(
            (touched, doubtful), (self._touched, self._doubtful), lengths, strict=True
        ):
            if length:
                kept.append(found[:length])
        zero = slots[self._made.rows.counts[slots] == 0]
        if len(zero):
            self._swept.append(zero)

    def unsupported(self) -> pa.RecordBatch | None:
        """Rows that go, with their ranks, as none supports them any more."""
        keys = _joined(self._doubtful)
        found = np.empty(len(keys), dtype=np.int64)
        found = found[: find_unsupported(*self._chains(), *self._state(), keys, found)]
        if not len(found):
            return None
        before = self._chosen.values[found]
        self._chosen.values[found, RANK] = 0
        return self._went_and_came(found, before)

    def chosen(self, rank: int) -> pa.RecordBatch | None:
        """What is other in the rows with their ranks, when keys take the best ones."""
        self._doubtful.clear()
        keys = _joined(self._touched)
        found = np.empty(len(keys), dtype=np.int64)
        before = np.empty((len(keys), WIDTH), dtype=np.int64)
        count = choose_best(*self._chains(), *self._state(), keys, rank, found, before)
        return self._went_and_came(found[:count], before[:count]) if count else None

    def _chains(self) -> tuple[Array, Array, Array]:
        return (*self._made.chains, self._made.rows.counts)

    def _state(self) -> tuple[Array, Array, Array]:
        return self._rows.values, self._chosen.values, self._marks.values

    def _went_and_came(self, keys: Array, before: Array) -> pa.RecordBatch:
        marks = self._marks.values
        is_first = marks[keys, CHANGED] == 0
        if is_first.any():
            marks[keys, CHANGED] = 1
            self._before.append((keys[is_first], before[is_first]))
            self.bytes += (WIDTH + 1) * 8 * int(is_first.sum())
        return self._batch(keys, before, self._chosen.values[keys], has_rank=True)

    def _batch(self, keys: Array, before: Array, after: Array, *, has_rank: bool) -> pa.RecordBatch:
        went, came = np.flatnonzero(before[:, RANK]), np.flatnonzero(after[:, RANK])
        keys = np.concatenate([keys[went], keys[came]])
        numbers = np.concatenate([before[went], after[came]])
        rows = self._made.first_rows(keys)
        columns = self._made.rows.columns(rows, range(self._width))
        if self._best is not None:
            columns[self._value] = self._best.column(numbers[:, VALUE], numbers[:, IS_NULL])
        if has_rank:
            columns.append(pa.array(numbers[:, RANK] - 1))
        schema = self._ranked if has_rank else self._result_schema
        return pa.RecordBatch.from_arrays([*columns, _kinds(len(went), len(came))], schema=schema)

    def take_changes(self, *, is_read: bool) -> pa.RecordBatch | None:
        """What is other since the last call, which is saved: -D before +I, if it `is_read`."""
        changes = None
        if self._before:
            keys, before = (np.concatenate(parts) for parts in zip(*self._before, strict=True))
            self._before, self.bytes = [], 0
            self._marks.values[keys, CHANGED] = 0
            after = self._chosen.values[keys]
            self._save(keys, after)
            had, has = before[:, RANK] != 0, after[:, RANK] != 0
            is_other = (had | has) & ((before[:, :RANK] != after[:, :RANK]).any(axis=1) | (had != has))
            if is_read and is_other.any():
                changes = self._batch(keys[is_other], before[is_other], after[is_other], has_rank=False)
        self._made.sweep(_joined(self._swept))
        return changes

    def _save(self, keys: Array, chosen: Array) -> None:
        columns = self._made.rows.columns(self._made.first_rows(keys), self._keys)
        slots, _ = self._result.get_or_create(identities(columns))
        self._result.writing(slots)
        for column, numbers in enumerate(self._saved):
            numbers.values[slots] = chosen[:, column]
        self._result.forget(slots[chosen[:, RANK] == 0])


def _kinds(went: int, came: int) -> pa.Array:
    """-D of so many rows, then +I."""
    return pa.array(np.repeat(np.array([RowKind.DELETE, RowKind.INSERT], dtype=np.int8), (went, came)))


def _joined(arrays: list[Array]) -> Array:
    joined = np.concatenate(arrays) if len(arrays) > 1 else arrays[0] if arrays else _NONE
    arrays.clear()
    return joined
