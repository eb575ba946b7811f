"""What a process table function is given with its rows, and the rows that it puts out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.operators.process.states import KeySet, column_of
from sqlstream.runtime.python.values import shown
from sqlstream.runtime.state.storage.arrays import Array


class Called:
    """What all calls of one operator share. `watermark_ms` is None before there is one."""

    def __init__(self, ref: FunctionRef, states: Sequence[Any], now_ms: Callable[[], int]) -> None:
        self.ref = ref
        self.states = tuple(states)
        self.now_ms = now_ms
        self.watermark_ms: int | None = None
        fields = ref.result_type.fields
        self.names = tuple(field.name for field in fields)
        self.types = tuple(field.type for field in fields)


class Emitted:
    """Rows that were put out: columns of the function, and the rows of the batch or the keys that they belong to (neither: each
    row of the batch has one)."""

    def __init__(self, columns: list[pa.Array], rows: Array | None, keys: KeySet | None) -> None:
        self.columns, self.rows, self.keys = columns, rows, keys


class BatchContext:
    """Implements `Context` for one batch. State: the rows that were put out."""

    def __init__(
        self, called: Called, table: str, batch: pa.RecordBatch, groups: Array | None, keys: KeySet | None
    ) -> None:
        self.table = table
        self.emitted: list[Emitted] = []
        self._called = called
        self._rows = batch.num_rows
        self._groups, self._keys = groups, keys

    @property
    def keys(self) -> KeySet:
        if self._keys is None:
            raise self._refusal(
                "there are no keys: the table has row semantics", "declare it as SET_SEMANTIC_TABLE"
            )
        return self._keys

    @property
    def groups(self) -> Array:
        _ = self.keys
        assert self._groups is not None
        return self._groups

    @functools.cached_property
    def _order(self) -> tuple[Array, Array]:
        return argsort_stable_by(self.groups, len(self.keys))

    @property
    def row_counts(self) -> Array:
        return np.diff(self._order[1])

    @functools.cached_property
    def row_numbers(self) -> Array:
        order, starts = self._order
        numbers = np.empty(self._rows, dtype=np.int64)
        numbers[order] = np.arange(self._rows) - np.repeat(starts[:-1], np.diff(starts))
        return numbers

    @property
    def watermark_ms(self) -> int | None:
        return self._called.watermark_ms

    @property
    def now_ms(self) -> int:
        return self._called.now_ms()

    def clear_all(self, keys: KeySet | None = None) -> None:
        for state in self._called.states:
            state.clear(self.keys if keys is None else keys)

    def emit(self, columns: Any, *, rows: Any = None, keys: KeySet | None = None) -> None:
        if rows is not None and keys is not None:
            raise self._refusal(
                "rows and keys are given both", "say which rows, or which keys, the output belongs to"
            )
        count = self._rows
        if rows is not None:
            rows = self._positions(rows)
            count = len(rows)
        elif keys is not None:
            count = len(keys)
        self.emitted.append(Emitted(self._columns(columns, count), rows, keys))

    def _positions(self, rows: Any) -> Array:
        found: Array = np.asarray(rows)
        if found.dtype == np.bool_ and len(found) == self._rows:
            return np.flatnonzero(found)
        if found.dtype.kind not in "iu" or (len(found) and not 0 <= found.min() <= found.max() < self._rows):
            message = f"rows are whole numbers below {self._rows}, the rows of the batch"
            raise self._refusal(
                message, "pass the positions in the batch of the rows that the output belongs to"
            )
        return found.astype(np.int64, copy=False)

    def _columns(self, given: Any, count: int) -> list[pa.Array]:
        called = self._called
        if isinstance(given, pa.RecordBatch | pa.Table):
            given = dict(zip(given.schema.names, given.columns, strict=True))
        if isinstance(given, Mapping):
            if set(given) != set(called.names):
                said = f"columns {', '.join(map(str, given))} for {', '.join(called.names)}"
                raise self._refusal(said, "give each column of result_type, by its name")
            given = [given[name] for name in called.names]
        elif isinstance(given, pa.Array | np.ndarray):
            given = [given]
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(called.names):
            said = f"{shown(given)} for the columns {', '.join(called.names)}"
            raise self._refusal(said, "give a mapping of names to columns, or a list of all columns")
        return [
            column_of(values, t, count, f'column "{name}" of {called.ref.name}')
            for values, t, name in zip(given, called.types, called.names, strict=True)
        ]

    def _refusal(self, message: str, hint: str) -> UserError:
        return UserError("SS5411", f"Python function {self._called.ref.name}: {message}", hint=hint)


class RowContext:
    """Implements `Context` for the rows of one batch, one after another. State: which row it is."""

    def __init__(self, called: Called, table: str, keys: list[tuple[Any, ...]]) -> None:
        self.table = table
        self.group = 0
        self._called = called
        self._keys = keys

    @property
    def key(self) -> tuple[Any, ...]:
        return self._keys[self.group] if self._keys else ()

    @property
    def watermark_ms(self) -> int | None:
        return self._called.watermark_ms

    @property
    def now_ms(self) -> int:
        return self._called.now_ms()

    def clear_all(self, keys: object = None) -> None:
        for state in self._called.states:
            state.clear()


def columns_of_rows(items: list[Any], called: Called) -> list[pa.Array]:
    """The columns of rows that a function yielded: values, tuples or dicts. UserError SS5131 for one that does not fit."""
    names = called.names
    if len(names) == 1:
        only = [i[names[0]] if isinstance(i, dict) and i.keys() == {names[0]} else i for i in items]
        values: list[Iterable[Any]] = [[i[0] if isinstance(i, tuple) and len(i) == 1 else i for i in only]]
    else:
        values = [[] for _ in names]
        for item in items:
            if isinstance(item, dict) and item.keys() <= set(names):
                item = [item.get(name) for name in names]
            if not isinstance(item, tuple | list) or len(item) != len(names):
                raise UserError(
                    "SS5131",
                    f"Python function {called.ref.name} made {shown(item)} for a row of {len(names)} columns",
                    hint=f"yield tuples of {', '.join(names)}",
                )
            for column, value in zip(values, item, strict=True):
                column.append(value)  # type: ignore[attr-defined]
    return [
        column_of(list(column), t, len(items), f'column "{name}" of {called.ref.name}')
        for column, t, name in zip(values, called.types, names, strict=True)
    ]


def taken(arrays: Sequence[pa.Array], rows: Array | None) -> list[pa.Array]:
    """The columns at these rows; None is all of them."""
    return list(arrays) if rows is None else [take_rows(a, rows.astype(np.int32)) for a in arrays]


def as_declared(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)
