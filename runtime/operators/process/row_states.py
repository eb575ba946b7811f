"""The states of a process table function that is called row by row.

A batch of rows is called with Python values, which are read once for all keys of the batch, and written back at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sqlstream.function_ref import DeclaredState, StateShape
from sqlstream.runtime.operators.process.states import (
    KeyedList,
    KeyedMap,
    KeyedValue,
    KeySet,
    Places,
    forget,
)
from sqlstream.runtime.python.values import python_values
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.types import LogicalType


class Cursor:
    """Which key the row that is called has: the `group`-th of `keys`."""

    keys: KeySet
    group = 0


_ABSENT: Any = object()


def make_state(
    declared: DeclaredState,
    state_type: LogicalType,
    given: Any,
    ttl_ms: int,
    places: Places,
    cursor: Cursor | None,
) -> Any:
    """The state as the function calls it, by row with a `cursor`; its `table` is to be declared by the operator. `given` is what
    the class has under its name."""
    name = declared.name
    if cursor is None:
        match declared.shape:
            case StateShape.VALUE:
                return KeyedValue(name, state_type, getattr(given, "default", None), ttl_ms, places)
            case StateShape.LIST:
                return KeyedList(name, state_type, ttl_ms, places)
        return KeyedMap(name, state_type, ttl_ms, places)
    match declared.shape:
        case StateShape.VALUE:
            return RowValue(cursor, name, state_type, given.default, ttl_ms, places)
        case StateShape.LIST:
            return RowList(cursor, name, state_type, ttl_ms, places)
    return RowMap(cursor, name, state_type, ttl_ms, places)


def _store(
    state: KeyedValue | KeyedList, keys: KeySet, kept: Mapping[int, Any], written: Iterable[int]
) -> None:
    """Keep what the keys with these numbers have now, and forget the others that were written."""
    gone = [group for group in written if group not in kept]
    if kept:
        state.put(keys.take(np.array([*kept])), [*kept.values()])
    if gone:
        forget(state.table, keys.take(np.array(gone)))


class RowValue(KeyedValue):
    """State besides that of the batch form: the values of the keys of the batch, until `finish`."""

    def __init__(self, cursor: Cursor, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cursor = cursor
        self._values: list[Any] | None = None
        self._written: dict[int, None] = {}

    @property
    def value(self) -> Any:
        if self._values is None:
            self._values = python_values(self.get(self._cursor.keys))
        group = self._cursor.group
        found = self._values[group]
        if isinstance(found, list | dict):
            # It may be changed in place.
            self._written[group] = None
        return self.default if found is None else found

    @value.setter
    def value(self, value: Any) -> None:
        if self._values is None:
            self._values = python_values(self.get(self._cursor.keys))
        self._values[self._cursor.group] = value
        self._written[self._cursor.group] = None

    def clear(self, keys: Any = None) -> None:
        self.value = None

    def finish(self) -> None:
        values, self._values = self._values, None
        written, self._written = self._written, {}
        if values is None or not written:
            return
        _store(self, self._cursor.keys, {g: values[g] for g in written if values[g] is not None}, written)


class RowList(KeyedList):
    """State besides that of the batch form: what was added, and once read the lists of the keys of the batch, until `finish`."""

    def __init__(self, cursor: Cursor, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cursor = cursor
        self._lists: list[list[Any]] | None = None
        self._added: list[tuple[int, Any]] = []
        self._replaced: dict[int, None] = {}

    def _list(self) -> list[Any]:
        if self._lists is None:
            self._lists = python_values(self.get(self._cursor.keys))
            for group, value in self._added:
                self._lists[group].append(value)
        return self._lists[self._cursor.group]

    def add(self, value: Any) -> None:
        if self._lists is not None:
            self._lists[self._cursor.group].append(value)
        if self._cursor.group not in self._replaced:
            self._added.append((self._cursor.group, value))

    def update(self, values: Iterable[Any]) -> None:
        held = self._list()
        held[:] = list(values)
        self._replaced[self._cursor.group] = None

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(self._list()))

    def __len__(self) -> int:
        return len(self._list())

    def clear(self, keys: Any = None) -> None:
        self.update(())

    def finish(self) -> None:
        lists, self._lists = self._lists, None
        added, self._added = self._added, []
        replaced, self._replaced = self._replaced, {}
        keys = self._cursor.keys
        added = [(g, v) for g, v in added if g not in replaced]
        if added:
            self.append(keys, np.array([g for g, _ in added]), [v for _, v in added])
        if lists is None or not replaced:
            return
        _store(self, keys, {g: lists[g] for g in replaced if lists[g]}, replaced)


class RowMap(KeyedMap):
    """State besides that of the batch form: the entries that were read or written, until `finish`. One entry is read by itself,
    all of a key when the row iterates."""

    def __init__(self, cursor: Cursor, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._cursor = cursor
        self._known: dict[int, dict[Any, Any]] = {}
        self._is_whole: set[int] = set()
        self._changed: dict[tuple[int, Any], None] = {}

    def _entry(self, map_key: Any) -> Any:
        group = self._cursor.group
        known = self._known.setdefault(group, {})
        if map_key not in known and group not in self._is_whole:
            found = self.table.find(self._entry_keys(self._cursor.keys, np.array([group]), [map_key]))
            known[map_key] = python_values(self._column.get(found))[0] if found[0] >= 0 else _ABSENT
        return known.get(map_key, _ABSENT)

    def _all(self) -> dict[Any, Any]:
        group = self._cursor.group
        known = self._known.setdefault(group, {})
        if group not in self._is_whole:
            _, map_keys, values = self.entries(self._cursor.keys.take(np.array([group])))
            for map_key, value in zip(python_values(map_keys), python_values(values), strict=True):
                known.setdefault(map_key, value)
            self._is_whole.add(group)
        return known

    def __getitem__(self, map_key: Any) -> Any:
        found = self._entry(map_key)
        if found is _ABSENT:
            raise KeyError(map_key)
        return found

    def __setitem__(self, map_key: Any, value: Any) -> None:
        self._known.setdefault(self._cursor.group, {})[map_key] = value
        self._changed[self._cursor.group, map_key] = None

    def __delitem__(self, map_key: Any) -> None:
        if self._entry(map_key) is _ABSENT:
            raise KeyError(map_key)
        self[map_key] = _ABSENT

    def __contains__(self, map_key: Any) -> bool:
        return self._entry(map_key) is not _ABSENT

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, value in self._all().items() if value is not _ABSENT])

    def __len__(self) -> int:
        return sum(value is not _ABSENT for value in self._all().values())

    def items(self) -> list[tuple[Any, Any]]:
        return [(key, value) for key, value in self._all().items() if value is not _ABSENT]

    def clear(self, keys: Any = None) -> None:
        for map_key in list(self):
            self[map_key] = _ABSENT

    def finish(self) -> None:
        known, self._known = self._known, {}
        changed, self._changed = self._changed, {}
        self._is_whole = set()
        keys = self._cursor.keys
        kept = [(g, k) for g, k in changed if known[g][k] is not _ABSENT]
        gone = [(g, k) for g, k in changed if known[g][k] is _ABSENT]
        if kept:
            self.put(keys, _groups(kept), [k for _, k in kept], [known[g][k] for g, k in kept])
        if gone:
            self.remove(keys, _groups(gone), [k for _, k in gone])


def _groups(entries: list[tuple[int, Any]]) -> Array:
    return np.array([group for group, _ in entries])
