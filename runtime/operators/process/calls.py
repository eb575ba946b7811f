"""What a process table function is given with its rows or timers, and the rows that it puts out."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.arrow import signs_of
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.function_ref import FunctionRef
from sqlstream.process_functions import SideOutput
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.operators.process.outputs import Emitted, outputs_of, place_of, refusal
from sqlstream.runtime.operators.process.states import KeySet
from sqlstream.runtime.operators.process.timers import Timers, to_time, to_times
from sqlstream.runtime.python.values import python_values, shown
from sqlstream.runtime.state.storage.arrays import Array


class Called:
    """What all calls of one operator share. `watermark_ms` is None before there is one. `timers` are of the clock that the call
    has: event time with `has_on_time`, else processing time; None for a function without `on_timer`."""

    def __init__(
        self,
        ref: FunctionRef,
        states: Sequence[Any],
        now_ms: Callable[[], int],
        timers: Timers | None,
        has_on_time: bool,
    ) -> None:
        self.ref = ref
        self.states = tuple(states)
        self.now_ms = now_ms
        self.timers = timers
        self.has_on_time = has_on_time
        self.watermark_ms: int | None = None
        self.outputs = outputs_of(ref)

    def timers_of(self, is_event_time: bool) -> Timers:
        if self.timers is None:
            raise self.refusal("it has no on_timer", "give its class a method on_timer")
        if is_event_time is not self.has_on_time:
            message = (
                "timers of event time need on_time"
                if is_event_time
                else "with on_time timers are of event time"
            )
            hint = (
                "call it with on_time => DESCRIPTOR(ts)"
                if is_event_time
                else "register_on_time, or call it without on_time"
            )
            raise self.refusal(message, hint)
        return self.timers

    def refusal(self, message: str, hint: str) -> UserError:
        return refusal(self.ref, message, hint)


@dataclasses.dataclass(frozen=True)
class Occasion:
    """A batch of rows of the table with this number, or (`names` is not None) timers of different keys.

    `keys` and `groups` are None for a table with row semantics; `times` are milliseconds by row or timer, None without a row
    time."""

    table: int
    name: str
    rows: int
    keys: KeySet | None
    groups: Array | None
    times: Array | None = None
    batch: pa.RecordBatch | None = None
    names: pa.Array | None = None
    kinds: Array | None = None


class _Context:
    """What both forms are told."""

    def __init__(self, called: Called, occasion: Occasion) -> None:
        self.table = occasion.name
        self._called, self._occasion = called, occasion

    @property
    def watermark_ms(self) -> int | None:
        return self._called.watermark_ms

    @property
    def now_ms(self) -> int:
        return self._called.now_ms()


class BatchContext(_Context):
    """Implements `Context` for one batch, or for timers of different keys. State: the rows that were put out."""

    def __init__(self, called: Called, occasion: Occasion) -> None:
        super().__init__(called, occasion)
        self.emitted: list[Emitted] = []
        self._rows = occasion.rows

    @property
    def keys(self) -> KeySet:
        if self._occasion.keys is None:
            hint = "declare it as SET_SEMANTIC_TABLE"
            raise self._called.refusal("there are no keys: the table has row semantics", hint)
        return self._occasion.keys

    @property
    def groups(self) -> Array:
        groups = self._occasion.groups
        return np.arange(len(self.keys)) if groups is None else groups

    @property
    def kinds(self) -> Array:
        kinds = self._occasion.kinds
        return np.zeros(self._rows, dtype=np.int8) if kinds is None else kinds

    @property
    def signs(self) -> Array:
        return signs_of(self.kinds)

    @property
    def times_ms(self) -> Array | None:
        return self._occasion.times

    @property
    def timers(self) -> pa.Array | None:
        return self._occasion.names

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

    # -- timers and state ----------------------------------------------------------------------------

    def register_on_time(self, *arguments: Any, keys: KeySet | None = None) -> None:
        self._register(self._called.timers_of(True), arguments, keys)

    def register_on_processing_time(self, *arguments: Any, keys: KeySet | None = None) -> None:
        self._register(self._called.timers_of(False), arguments, keys)

    def _register(self, timers: Timers, arguments: tuple[Any, ...], keys: KeySet | None) -> None:
        name, time = named_time(self._called, arguments)
        keys = self.keys if keys is None else keys
        timers.register(keys, name, to_times(time, len(keys)))

    def clear_timer(self, name: str, keys: KeySet | None = None) -> None:
        timers = self._called.timers_of(self._called.has_on_time)
        timers.clear(self.keys if keys is None else keys, name)

    def clear_all_timers(self, keys: KeySet | None = None) -> None:
        if self._called.timers is not None:
            self._called.timers.clear_all(self.keys if keys is None else keys)

    def clear_all_state(self, keys: KeySet | None = None) -> None:
        for state in self._called.states:
            state.clear(self.keys if keys is None else keys)

    def clear_all(self, keys: KeySet | None = None) -> None:
        self.clear_all_state(keys)
        self.clear_all_timers(keys)

    # -- output --------------------------------------------------------------------------------------

    def emit(
        self,
        columns: Any,
        *,
        rows: Any = None,
        keys: KeySet | None = None,
        kinds: Any = None,
        deletes: Any = None,
        output: SideOutput | None = None,
    ) -> None:
        if rows is not None and keys is not None:
            hint = "say which rows, or which keys, the output belongs to"
            raise self._called.refusal("rows and keys are given both", hint)
        if keys is not None and self._called.has_on_time:
            hint = "call ctx.emit with rows: the rows of the batch, or the numbers of the timers, that the output belongs to"
            raise self._called.refusal("output by key has no rowtime, which on_time asks for", hint)
        count = self._rows
        if rows is not None:
            rows = self._positions(rows)
            count = len(rows)
        elif keys is not None:
            count = len(keys)
        place = place_of(self._called.outputs, "" if output is None else output.name)
        if deletes is not None:
            if kinds is not None:
                raise self._called.refusal("kinds and deletes are given both", "give the kinds alone")
            kinds = np.where(self._deletes(deletes, count), RowKind.DELETE, RowKind.INSERT).astype(np.int8)
        made = None if kinds is None else self._called.outputs[place].kinds(kinds, count)
        self.emitted.append(Emitted(self._columns(columns, count, place, made), rows, keys, made, place))

    def _deletes(self, given: Any, count: int) -> Array:
        found: Array = np.asarray(given)
        if found.ndim == 0:
            found = np.full(count, bool(found))
        if found.dtype != np.bool_ or len(found) != count:
            raise self._called.refusal(
                f"deletes are {count} truth values", "give one for each row that is put out"
            )
        return found

    def _positions(self, rows: Any) -> Array:
        found: Array = np.asarray(rows)
        if found.dtype == np.bool_ and len(found) == self._rows:
            return np.flatnonzero(found)
        if len(found) == 0:
            return np.empty(0, dtype=np.int64)
        if found.dtype.kind not in "iu" or not 0 <= found.min() <= found.max() < self._rows:
            message = f"rows are whole numbers below {self._rows}, the rows of the batch"
            hint = "pass the positions in the batch of the rows that the output belongs to"
            raise self._called.refusal(message, hint)
        return found.astype(np.int64, copy=False)

    def _columns(self, given: Any, count: int, place: int, kinds: Array | None) -> list[pa.Array]:
        called, layout = self._called, self._called.outputs[place]
        if given is None and kinds is not None and (kinds == RowKind.DELETE).all():
            layout.check_key_alone()
            return layout.nulls(count)
        if isinstance(given, pa.RecordBatch | pa.Table):
            given = dict(zip(given.schema.names, given.columns, strict=True))
        if isinstance(given, Mapping):
            if set(given) != set(layout.names):
                said = f"columns {', '.join(map(str, given))} for {', '.join(layout.names)}"
                raise called.refusal(said, f"give each column of {layout.declared}, by its name")
            given = [given[name] for name in layout.names]
        elif isinstance(given, pa.Array | np.ndarray):
            given = [given]
        if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != len(layout.names):
            said = f"{shown(given)} for the columns {', '.join(layout.names)}"
            raise called.refusal(said, "give a mapping of names to columns, or a list of all columns")
        return layout.columns(given, count)


def named_time(called: Called, arguments: tuple[Any, ...]) -> tuple[str | None, Any]:
    """The name, None for none, and the time of `register_on_time([name,] time)`."""
    if len(arguments) == 1:
        return None, arguments[0]
    if len(arguments) == 2 and isinstance(arguments[0], str):
        return arguments[0], arguments[1]
    raise called.refusal(
        "a timer takes a time, or a name and a time", "write ctx.register_on_time('name', time)"
    )


class RowContext(_Context):
    """Implements `Context` for the rows of one batch, or for timers, one after another. State: which it is, and the timers that
    were set and cleared, until `finish`."""

    def __init__(self, called: Called, occasion: Occasion) -> None:
        super().__init__(called, occasion)
        self.number = 0
        self.group = 0
        keys = occasion.keys
        self._keys = (
            [] if keys is None or not keys.arrays else [*zip(*map(python_values, keys.arrays), strict=True)]
        )
        self._kinds = None if occasion.kinds is None else occasion.kinds.tolist()
        self._times = None if occasion.times is None else occasion.times.tolist()
        self._names = None if occasion.names is None else occasion.names.to_pylist()
        # By key and name (or time) the time; None where a timer is cleared.
        self._set: dict[tuple[int, str | int], int | None] = {}
        self._cleared: dict[int, None] = {}

    @property
    def key(self) -> tuple[Any, ...]:
        return self._keys[self.group] if self._keys else ()

    @property
    def kind(self) -> RowKind:
        return RowKind.INSERT if self._kinds is None else RowKind(self._kinds[self.number])

    @property
    def time_ms(self) -> int | None:
        return None if self._times is None else self._times[self.number]

    @property
    def timer(self) -> str | None:
        return None if self._names is None else self._names[self.number]

    def register_on_time(self, *arguments: Any) -> None:
        self._called.timers_of(True)
        self._register(arguments)

    def register_on_processing_time(self, *arguments: Any) -> None:
        self._called.timers_of(False)
        self._register(arguments)

    def _register(self, arguments: tuple[Any, ...]) -> None:
        name, given = named_time(self._called, arguments)
        time = to_time(given)
        self._set[self.group, time if name is None else name] = time

    def clear_timer(self, name: str) -> None:
        self._called.timers_of(self._called.has_on_time)
        self._set[self.group, name] = None

    def clear_all_timers(self) -> None:
        self._set = {place: time for place, time in self._set.items() if place[0] != self.group}
        self._cleared[self.group] = None

    def clear_all_state(self) -> None:
        for state in self._called.states:
            state.clear()

    def clear_all(self) -> None:
        self.clear_all_state()
        self.clear_all_timers()

    def finish(self) -> None:
        """Write what the rows have set."""
        timers, keys = self._called.timers, self._occasion.keys
        if timers is None or keys is None:
            return
        if self._cleared:
            timers.clear_all(keys.take(np.array([*self._cleared])))
        if not self._set:
            return
        gone = [(group, name) for (group, name), time in self._set.items() if time is None]
        if gone:
            timers.clear(_repeated(keys, [g for g, _ in gone]), [str(name) for _, name in gone])
        kept = [(group, name, time) for (group, name), time in self._set.items() if time is not None]
        if kept:
            names = [name if isinstance(name, str) else None for _, name, _ in kept]
            times = np.array([time for *_, time in kept], dtype=np.int64)
            timers.register(_repeated(keys, [g for g, *_ in kept]), names, times)


def _repeated(keys: KeySet, groups: list[int]) -> KeySet:
    """A key for each of the positions, which may repeat."""
    return KeySet([*keys.columns], taken(keys.arrays, np.array(groups, dtype=np.int64)), len(groups))


def taken(arrays: Sequence[pa.Array], rows: Array | None) -> list[pa.Array]:
    """The columns at these rows; None is all of them."""
    return list(arrays) if rows is None else [take_rows(a, rows.astype(np.int32)) for a in arrays]
