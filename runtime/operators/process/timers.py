"""Timers of a process table function by key: which are set, and which are due."""

from __future__ import annotations

import datetime
import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.operators.equal_values import batch_groups
from sqlstream.runtime.operators.process.states import KeySet, MapEntries, Places
from sqlstream.runtime.operators.window.windowing import times_ms
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn

_NEVER = np.iinfo(np.int64).max
_NO_SLOTS: Array = np.empty(0, dtype=np.int64)
_ROUNDS_MAX = 1_000_000
_EPOCH = datetime.datetime(1970, 1, 1)


LimitsOf = Callable[["Timers", Array], Array]


class DueSlots:
    """Slots by time, for few looks at each: a slot waits in a bucket of times that is not later than its own. It moves when its
    bucket is due, and its own time is not. State: the buckets, and by slot the time for which it waits."""

    def __init__(self, bucket_ms: int) -> None:
        self._bucket_ms = bucket_ms
        self._buckets: dict[int, list[Array]] = {}
        self._order: list[int] = []
        self._waits_for = GrowingArray(np.int64, fill=_NEVER)

    @property
    def nbytes(self) -> int:
        return self._waits_for.nbytes + sum(part.nbytes for parts in self._buckets.values() for part in parts)

    def add(self, slots: Array, times: Array) -> None:
        """Distinct slots have these times now."""
        if len(slots) == 0:
            return
        self._waits_for.reserve(int(slots.max()) + 1)
        waits_for = self._waits_for.values
        is_earlier = times < waits_for[slots]
        if not is_earlier.any():
            return
        slots, times = slots[is_earlier], times[is_earlier]
        waits_for[slots] = times
        numbers = times // self._bucket_ms
        order = np.argsort(numbers, kind="stable")
        distinct, starts = np.unique(numbers[order], return_index=True)
        for number, part in zip(distinct.tolist(), np.split(slots[order], starts[1:]), strict=True):
            if number not in self._buckets:
                self._buckets[number] = []
                heapq.heappush(self._order, number)
            self._buckets[number].append(part)

    def take(self, limit_ms: int, times: Array, table: MapEntries) -> Array:
        """The slots whose time, in `times` by slot, is not later than this; they wait no more."""
        found = []
        while self._order and self._order[0] <= limit_ms // self._bucket_ms:
            found += self._buckets.pop(heapq.heappop(self._order))
        if not found:
            return _NO_SLOTS
        slots = np.unique(np.concatenate(found))
        self._waits_for.values[slots] = _NEVER
        slots = slots[table.is_live(slots)]
        own = times[slots]
        is_due = own <= limit_ms
        self.add(slots[~is_due], own[~is_due])
        return slots[is_due]

    def first_ms(self, times: Array, table: MapEntries) -> int | None:
        """The earliest time of all slots."""
        while self._order:
            number = self._order[0]
            slots = np.unique(np.concatenate(self._buckets[number]))
            slots = slots[table.is_live(slots)]
            own = times[slots]
            is_here = own // self._bucket_ms <= number
            if is_here.any():
                return int(own[is_here].min())
            heapq.heappop(self._order)
            self._waits_for.values[np.unique(np.concatenate(self._buckets.pop(number)))] = _NEVER
            self.add(slots, own)
        return None


class Timers:
    """The timers of one clock. One with a name is the only one of its key and name; those without are told apart by their times.

    State: a time for each, in `table`; and derived from it, which are due next."""

    def __init__(self, name: str, places: Places, bucket_ms: int) -> None:
        self._places = places
        self._times = NumberColumn("time_ms", pa.int64())
        keys = pa.schema([*places.keys, pa.field("timer", pa.string()), pa.field("at_ms", pa.int64())])
        self.table = MapEntries(
            name,
            keys,
            [self._times],
            places.scope,
            placed_by=len(places.keys) or -1,
            owner_columns=len(places.keys),
        )
        self._due = DueSlots(bucket_ms)

    def restored(self) -> None:
        slots = self.table.slots()
        self._due.add(slots, self._times.values[slots])

    def register(self, keys: KeySet, names: list[str | None] | str | None, times: Array) -> None:
        """A timer for each key. A name that is None is none."""
        if len(keys) == 0:
            return
        entry_keys = self._entry_keys(keys, names, times)
        slots, _ = self.table.get_or_create(entry_keys)
        # Of one timer that is set twice the last time counts.
        distinct, places = np.unique(slots[::-1], return_index=True)
        self.table.writing(distinct)
        self._times.values[distinct] = times[::-1][places]
        self._due.add(distinct, times[::-1][places])

    def _entry_keys(self, keys: KeySet, names: list[str | None] | str | None, times: Array) -> list[pa.Array]:
        given = names if isinstance(names, list) else [names] * len(keys)
        column = pa.array(given, pa.string())
        at_ms = np.where(np.asarray(column.is_null()), times, 0)
        return [*keys.arrays, column, to_array(pa.int64(), at_ms)]

    def clear(self, keys: KeySet, names: list[str | None] | str) -> None:
        """Forget the timers with a name of these keys."""
        slots = self.table.find(self._entry_keys(keys, names, np.zeros(len(keys), dtype=np.int64)))
        slots = np.unique(slots[slots >= 0])
        if len(slots):
            self.table.forget(slots)

    def clear_all(self, keys: KeySet) -> None:
        _, slots = self.table.of_keys(keys)
        if len(slots):
            self.table.forget(slots)

    def first_ms(self) -> int | None:
        return self._due.first_ms(self._times.values, self.table)

    def due(self, limit_ms: int, *, takes_new: bool, limits_of: LimitsOf | None = None) -> Firing:
        """Those whose time has come, to be fired until none is left; with those that are set on the way, if it `takes_new`. With
        `limits_of` each has a limit of its own, `limit_ms` at most."""
        return Firing(self, limit_ms, takes_new, limits_of)

    def take(self, limit_ms: int) -> Array:
        return self._due.take(limit_ms, self._times.values, self.table)

    def wait(self, slots: Array) -> None:
        """Slots that were taken and not fired, of which some may be gone, are due later."""
        slots = slots[self.table.is_live(slots)]
        self._due.add(slots, self._times.values[slots])

    def are_due(self, slots: Array, limit_ms: int, limits_of: LimitsOf | None = None) -> Array:
        """Those of the slots whose timers are still there, and due."""
        slots = slots[self.table.is_live(slots)]
        limits = limit_ms if limits_of is None or len(slots) == 0 else limits_of(self, slots)
        return slots[self._times.values[slots] <= limits]

    def in_order(self, slots: Array) -> tuple[Array, Array]:
        """(slots in order of time, for each how many of its key stand before it)."""
        keys = self.table.keys(slots)
        order = np.lexsort((_ranks(keys[-2]), self._times.values[slots]))
        slots = slots[order]
        owners = [column.take(to_array(pa.int64(), order)) for column in keys[:-2]]
        groups, firsts = batch_groups(owners, len(slots))
        by_group = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[by_group], np.arange(len(firsts)))
        numbers = np.empty(len(slots), dtype=np.int64)
        numbers[by_group] = np.arange(len(slots)) - starts[groups[by_group]]
        return slots, numbers

    def fire(self, slots: Array) -> tuple[KeySet, pa.Array, Array]:
        """(keys, names, times) of these timers, of different keys, which are forgotten."""
        *owners, names, _ = self.table.keys(slots)
        times = self._times.values[slots]
        self.table.forget(slots)
        fields = self._places.keys
        arrays = [c if c.type == f.type else c.cast(f.type) for c, f in zip(owners, fields, strict=True)]
        return KeySet(fields.names, arrays, len(slots)), names.cast(pa.string()), times


def _ranks(names: pa.Array) -> Array:
    """Numbers in the order of the names, no name first."""
    texts = np.array([name or "" for name in names.to_pylist()], dtype=object)
    ranks: Array = np.unique(texts, return_inverse=True)[1]
    return ranks


class Firing:
    """Rounds of due timers, each with one of each key, its earliest: those that are set or cleared on the way count.

    State: the slots that are due, in order, and the round of each; and those that wait for the next firing."""

    def __init__(self, timers: Timers, limit_ms: int, takes_new: bool, limits_of: LimitsOf | None) -> None:
        self._timers, self._limit_ms, self._takes_new = timers, limit_ms, takes_new
        self._limits_of = limits_of
        self._slots = self._rounds = self._later = _NO_SLOTS
        self._next = self._count = 0
        self._arrange(timers.take(limit_ms))

    def _are_due(self, slots: Array) -> Array:
        return self._timers.are_due(slots, self._limit_ms, self._limits_of)

    def _arrange(self, fresh: Array) -> None:
        left = self._slots[self._rounds >= self._next]
        candidates = np.unique(np.concatenate([left, fresh]))
        slots = self._are_due(candidates)
        self._later = np.union1d(self._later, np.setdiff1d(candidates, slots))
        self._slots, self._rounds = self._timers.in_order(slots) if len(slots) else (_NO_SLOTS, _NO_SLOTS)
        self._next = 0

    def next_round(self) -> Array:
        """The slots of the next round; none when no timer is due any more. UserError SS5411 for timers that set others without
        end."""
        self._count += 1
        if self._count > _ROUNDS_MAX:
            hint = "set timers behind the time of the one that fires"
            raise UserError(
                "SS5411", f"timers of a key have fired {_ROUNDS_MAX:,} times at one watermark", hint=hint
            )
        while True:
            if len(fresh := self._timers.take(self._limit_ms)):
                if not self._takes_new:
                    # Those that were due already may have got another time.
                    is_known = np.isin(fresh, self._slots[self._rounds >= self._next])
                    self._later = np.union1d(self._later, fresh[~is_known])
                    fresh = fresh[is_known]
                self._arrange(fresh)
            if self._next > self._rounds.max(initial=-1):
                self._timers.wait(self._later)
                return _NO_SLOTS
            chosen = self._are_due(self._slots[self._rounds == self._next])
            self._next += 1
            if len(chosen):
                return chosen


def to_times(given: Any, count: int) -> Array:
    """int64 milliseconds of whole numbers, datetimes or timestamps, one for all or one each. UserError SS5411 for others."""
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, int | np.integer | datetime.datetime):
        return np.full(count, to_time(given), dtype=np.int64)
    if isinstance(given, pa.Array) and pa.types.is_timestamp(given.type) and not given.null_count:
        found = times_ms(given)
    else:
        array = given.to_numpy(zero_copy_only=False) if isinstance(given, pa.Array) else np.asarray(given)
        if np.issubdtype(array.dtype, np.datetime64):
            array = array.astype("datetime64[ms]").astype(np.int64)
        if array.dtype.kind not in "iu":
            raise _wrong_time(f"an array of {array.dtype}")
        found = array.astype(np.int64)
    if len(found) != count:
        raise UserError(
            "SS5410", f"{len(found)} times of timers for {count} keys", hint="give a time for each key"
        )
    return found


def to_time(given: Any) -> int:
    """Milliseconds of a whole number or a datetime, whose time zone is UTC where it has none."""
    if isinstance(given, datetime.datetime):
        plain = given.astimezone(datetime.UTC).replace(tzinfo=None) if given.tzinfo is not None else given
        return (plain - _EPOCH) // datetime.timedelta(milliseconds=1)
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or abs(int(given)) >= 2**62:
        raise _wrong_time(repr(given)[:100])
    return int(given)


def _wrong_time(shown: str) -> UserError:
    return UserError(
        "SS5411", f"the time of a timer is {shown}", hint="give milliseconds as whole numbers, or datetimes"
    )
