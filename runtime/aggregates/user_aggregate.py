"""Users' aggregates: one Python accumulator per slot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.accumulator import Accumulator, present
from sqlstream.runtime.python.calls import failed
from sqlstream.runtime.python.loading import load_target
from sqlstream.runtime.python.values import arrow_values, python_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType, TypeRoot

_SAMPLE = 16


class UserAggregate(Accumulator):
    """Calls `accumulate` or `retract` for each row, `merge` for each partial, `get_value` for each result.

    Rows with NULL for an argument that is declared NOT NULL are skipped. State: the accumulator of each slot, which is a value of
    the declared type; it is written and read as a column of that type.
    """

    takes_nulls = True

    def __init__(self, call: AggregateCall, argument_types: tuple[LogicalType, ...]) -> None:
        super().__init__(call, argument_types)
        assert call.ref is not None
        assert call.ref.accumulator_type is not None
        self.ref = call.ref
        self.aggregate = load_target(call.ref)
        self._type = call.ref.accumulator_type
        self._values: list[Any] = []
        declared = (call.ref.argument_type(i) for i in range(len(call.args)))
        self._strict = [i for i, t in enumerate(declared) if t is not None and not t.nullable]
        self._container: type | None = None

    def resize(self, capacity: int) -> None:
        self._values.extend([_EMPTY] * (capacity - len(self._values)))

    def accumulate(self, slots: Array, args: list[pa.Array], weights: Array) -> None:
        weights = self.weights(args, weights)
        values = self._values
        if len(weights) == 0:
            for slot, row in zip(slots.tolist(), self.rows(args, len(slots)), strict=True):
                values[slot] = self.added(values[slot], row)
            return
        chosen = np.flatnonzero(weights)
        taken = [a.take(pa.array(chosen)) for a in args] if len(chosen) < len(weights) else args
        signs = weights[chosen].tolist()
        rows = self.rows(taken, len(chosen))
        for slot, sign, row in zip(slots[chosen].tolist(), signs, rows, strict=True):
            change = self.added if sign > 0 else self.retracted
            values[slot] = change(values[slot], row)

    def weights(self, args: list[pa.Array], weights: Array) -> Array:
        """`weights` with 0 for the rows that are not passed on."""
        return present(weights, *(args[i] for i in self._strict))

    def rows(self, args: list[pa.Array], count: int) -> Iterator[tuple[Any, ...]]:
        """The arguments of each row."""
        if not args:
            return iter([()] * count)
        return zip(*(python_values(a) for a in args), strict=True)

    def created(self) -> Any:
        try:
            return self.aggregate.create_accumulator()
        except BaseException as error:
            raise failed(self.ref, error, [], "create_accumulator") from error

    def added(self, accumulator: Any, row: tuple[Any, ...]) -> Any:
        """The accumulator with a row more."""
        if accumulator is _EMPTY:
            accumulator = self.created()
        try:
            return _changed(accumulator, self.aggregate.accumulate(accumulator, *row))
        except BaseException as error:
            raise failed(self.ref, error, list(row), "accumulate") from error

    def retracted(self, accumulator: Any, row: tuple[Any, ...]) -> Any:
        if accumulator is _EMPTY:
            accumulator = self.created()
        try:
            return _changed(accumulator, self.aggregate.retract(accumulator, *row))
        except BaseException as error:
            raise failed(self.ref, error, list(row), "retract") from error

    def value(self, accumulator: Any) -> Any:
        if accumulator is _EMPTY:
            accumulator = self.created()
        try:
            return self.aggregate.get_value(accumulator)
        except BaseException as error:
            raise failed(self.ref, error, [], "get_value") from error

    def merge(self, slots: Array, columns: list[pa.Array]) -> None:
        values = self._values
        for slot, other in zip(slots.tolist(), self.loaded(columns[0]), strict=True):
            if other is _EMPTY:
                continue
            own = values[slot]
            if own is _EMPTY:
                values[slot] = other
                continue
            try:
                values[slot] = _changed(own, self.aggregate.merge(own, other))
            except BaseException as error:
                raise failed(self.ref, error, [], "merge") from error

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        for slot, accumulator in zip(slots.tolist(), self.loaded(columns[0]), strict=True):
            self._values[slot] = accumulator

    def loaded(self, column: pa.Array) -> list[Any]:
        """Accumulators of a column that `columns` returned. A ROW is what `create_accumulator` makes of one: a tuple, a list,
        or a dict."""
        found = python_values(column)
        if self._type.root is TypeRoot.ROW:
            if self._container is None:
                self._container = type(self.created())
            made = self._container
            if issubclass(made, tuple | list):
                build = made._make if hasattr(made, "_make") else made
                return [_EMPTY if v is None else build(v.values()) for v in found]
        return [_EMPTY if v is None else v for v in found]

    def columns(self, slots: Array) -> list[pa.Array]:
        values = self._values
        kept = [None if (v := values[slot]) is _EMPTY else v for slot in slots.tolist()]
        return [arrow_values(kept, self._type.with_nullable(True), f"{self.ref.name}, whose accumulator")]

    def results(self, slots: Array) -> pa.Array:
        values = self._values
        return arrow_values([self.value(values[s]) for s in slots.tolist()], self.call.type, self.ref.name)

    def reset(self, slots: Array) -> None:
        for slot in slots.tolist():
            self._values[slot] = _EMPTY

    def nbytes(self) -> int:
        """Estimated by a few accumulators."""
        if not self._values:
            return 0
        step = max(1, len(self._values) // _SAMPLE)
        sample = [_size(v) for v in self._values[::step]]
        return int(8 * len(self._values) + sum(sample) / len(sample) * len(self._values))


def _changed(accumulator: Any, returned: Any) -> Any:
    """What a method has made of an accumulator: one that changes a list or dict in place may return nothing."""
    return accumulator if returned is None and isinstance(accumulator, list | dict) else returned


class _Empty:
    """The accumulator of a slot without rows."""


_EMPTY: Any = _Empty()


def _size(value: Any) -> int:
    if value is _EMPTY:
        return 0
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + 64 * 2 * len(value)
    return size + 64 * len(value) if isinstance(value, list | tuple) else size
