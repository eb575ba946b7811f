"""The states of a process table function: what `self.count` is while the engine calls it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_schema, to_arrow_type
from sqlstream.errors import UserError
from sqlstream.process_functions import ListState, MapState, ValueState
from sqlstream.runtime.aggregates.slot_values import SlotValues
from sqlstream.runtime.evaluate.lists import Lists
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.keys.index import KeyIndex
from sqlstream.runtime.kernels.keys.row_order import argsort_stable_by
from sqlstream.runtime.kernels.slots.chains import Chains
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.python.values import arrow_values, check_length
from sqlstream.runtime.state.operator_state import StateScope
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.growing_lists import GrowingLists
from sqlstream.runtime.state.storage.slot_columns import SlotColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.process_table import ProcessTableSpec
from sqlstream.types import LogicalType, TypeRoot


class KeySet:
    """Distinct keys. Implements `Keys` (process_functions). State: their columns, and where a table has them, until entries of it
    are forgotten."""

    def __init__(self, names: Sequence[str], arrays: list[pa.Array], count: int) -> None:
        self._names = tuple(names)
        self.arrays = arrays
        self._count = count
        self._slots: dict[int, tuple[int, Array]] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def columns(self) -> Mapping[str, pa.Array]:
        return dict(zip(self._names, self.arrays, strict=True))

    def take(self, rows: Array) -> KeySet:
        rows = np.asarray(rows)
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        rows = rows.astype(np.int64, copy=False)
        # A kernel reads them, and does not check.
        if len(rows) and not 0 <= rows.min() <= rows.max() < self._count:
            raise IndexError(f"a position among {self._count} keys is out of range")
        taken = KeySet(self._names, [take_rows(a, rows.astype(np.int32)) for a in self.arrays], len(rows))
        taken._slots = {table: (version, slots[rows]) for table, (version, slots) in self._slots.items()}
        return taken

    def found(self, table: StateEntries) -> Array:
        """int64[n]: the entry of each key, -1 for one without."""
        kept = self._slots.get(id(table))
        if kept is not None and kept[0] == table.version:
            return kept[1]
        slots = table.find(self.arrays)
        self._slots[id(table)] = table.version, slots
        return slots

    def made(self, table: StateEntries) -> Array:
        """int64[n]: the entry of each key, which is about to be written."""
        kept = self._slots.get(id(table))
        if kept is not None and kept[0] == table.version and (kept[1] >= 0).all():
            slots = kept[1]
        else:
            slots = table.get_or_create(self.arrays)[0]
            self._slots[id(table)] = table.version, slots
        table.writing(slots)
        return slots


class StateEntries(KeyedTable):
    """A KeyedTable that counts in `version` how often it has forgotten entries, whose slots others then get."""

    version = 0

    def _drop(self, slots: Array) -> None:
        self.version += 1
        super()._drop(slots)


class _Column:
    """Implements `SlotColumn`: values of a SQL type by slot, NULL in an empty one. What was saved is cast to the type."""

    def __init__(self, name: str, value_type: LogicalType) -> None:
        self.name, self.type = name, to_arrow_type(value_type)
        self.fields = [pa.field(name, self.type)]

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.put(slots, cast_saved(columns[0], self.type, self.name))

    def put(self, slots: Array, values: pa.Array) -> None:
        raise NotImplementedError


class ValueColumn(_Column):
    """One value per slot. State: the values."""

    def __init__(self, name: str, value_type: LogicalType) -> None:
        super().__init__(name, value_type)
        self._values = SlotValues(value_type)
        self.resize, self.reset, self.nbytes = self._values.resize, self._values.reset, self._values.nbytes
        self.get, self.put = self._values.get, self._values.put  # type: ignore[method-assign]

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self._values.get(slots)]


class ListColumn(_Column):
    """A list per slot. State: the lists."""

    def __init__(self, name: str, list_type: LogicalType) -> None:
        super().__init__(name, list_type)
        self.lists = GrowingLists(self.type)
        self.resize, self.reset, self.nbytes = self.lists.resize, self.lists.reset, self.lists.nbytes

    def columns(self, slots: Array) -> list[pa.Array]:
        return [self.lists.get(slots)]

    def put(self, slots: Array, values: pa.Array) -> None:
        lists = Lists.of(values)
        self.lists.put(slots, lists.elements(), np.append(0, np.cumsum(lists.lengths)))


def cast_saved(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    """UserError SS5412 for saved values of a type that those of the declared type cannot be made of."""
    if values.type == wanted:
        return values
    try:
        return pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UserError(
            "SS5412",
            f'state "{name}" was saved as {values.type}, and what it has is no {wanted}',
            detail=str(error)[:500],
            hint="declare the type that was saved, or one with more room; or give the state another name",
        ) from error


def sequence_of(values: Any, what: str) -> pa.Array | pa.Scalar | list[Any]:
    """What user code gives as a column, with a length or as one value for all. UserError SS5131 for what is no column."""
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array | pa.Scalar | list):
        return values
    if isinstance(values, np.ndarray) and values.ndim == 1:
        # Arrow takes some arrays of objects and other elements only by value.
        with contextlib.suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return pa.array(values)
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        with contextlib.suppress(TypeError):  # an array of numpy without dimensions
            return list(values)
    raise UserError(
        "SS5131",
        f"{what} is a value of type {type(values).__name__}, which is no column",
        hint="give an array of Arrow or numpy, or a list, with as many values as there are keys or rows",
    )


def column_of(values: Any, wanted: LogicalType, count: int, what: str) -> pa.Array:
    """An array of Arrow or numpy, or a sequence, as a column. UserError SS5131 for values that do not fit, SS5410 for another
    number of them."""
    target = to_arrow_type(wanted)
    values = sequence_of(values, what)
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, count)
    if not isinstance(values, pa.Array):
        values = arrow_values(values, wanted, what)
    if len(values) != count:
        raise UserError(
            "SS5410",
            f"{what} has {len(values)} values for {count}",
            hint="give as many as there are keys or rows",
        )
    if values.type != target:
        try:
            values = pc.cast(values, target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            hint = "give a pyarrow.Array of the declared type"
            shown = wanted.with_nullable(True)
            message = f"{what} has values of {values.type} for {shown}"
            raise UserError("SS5131", message, detail=str(error)[:500], hint=hint) from error
    try:
        check_length(values, wanted)
    except ValueError as error:
        hint = "give shorter values, or declare more room"
        raise UserError("SS5131", f"{what} has values that are no {wanted}: {error}", hint=hint) from error
    if not wanted.nullable and values.null_count:
        raise UserError("SS5131", f"{what} has NULL for {wanted}", hint="declare it without NOT NULL")
    return values


@dataclasses.dataclass(frozen=True)
class Places:
    """Where states are in one operator: the schema of its keys, and what its tables use."""

    keys: pa.Schema
    scope: StateScope


def places_of(spec: ProcessTableSpec, context: OperatorContext) -> Places:
    """Of an operator: its keys are the columns of PARTITION BY of its first table, by the names that these have there."""
    read, schema = spec.inputs[0], to_arrow_schema(context.input_schemas[0])
    fields = [schema.field(k).with_name(read.columns[k]) for k in read.partition_keys]
    return Places(pa.schema(fields), context.state.scope)


class KeyedValue(ValueState):
    """State: a value per key, in `table`."""

    def __init__(self, name: str, value_type: LogicalType, default: Any, ttl_ms: int, places: Places) -> None:
        super().__init__(str(value_type), default=default, ttl=ttl_ms)
        self.name, self.logical = name, value_type
        self._column = ValueColumn(name, value_type)
        self.table = StateEntries(name, places.keys, [self._column], places.scope, ttl_ms=ttl_ms)
        self._default: pa.Scalar | None = None
        if default is not None:
            self._default = arrow_values([default], value_type, f'the default of state "{name}"')[0]

    def get(self, keys: Any) -> pa.Array:
        slots = keys.found(self.table)
        is_there = slots >= 0
        if is_there.all():
            values = self._column.get(slots)
        elif not is_there.any():
            values = pa.nulls(len(slots), self._column.type)
        else:
            found = self._column.get(slots[is_there])
            values = found.take(to_array(pa.int64(), np.cumsum(is_there) - 1, is_there))
        if self._default is not None and values.null_count:
            values = pc.fill_null(values, self._default)
        return values

    def put(self, keys: Any, values: Any) -> None:
        column = column_of(values, self.logical.with_nullable(True), len(keys), f'state "{self.name}"')
        if len(keys):
            self._column.put(keys.made(self.table), column)

    def clear(self, keys: Any = None) -> None:
        forget(self.table, keys)


def forget(table: StateEntries, keys: KeySet) -> None:
    slots = keys.found(table)
    slots = slots[slots >= 0]
    if len(slots):
        table.forget(slots)


class KeyedList(ListState):
    """State: a list per key, in `table`."""

    def __init__(self, name: str, list_type: LogicalType, ttl_ms: int, places: Places) -> None:
        assert list_type.element is not None
        super().__init__(str(list_type.element), ttl=ttl_ms)
        self.name, self.logical = name, list_type
        self.element: LogicalType = list_type.element
        self._column = ListColumn(name, list_type)
        self.table = StateEntries(name, places.keys, [self._column], places.scope, ttl_ms=ttl_ms)

    def get(self, keys: Any) -> pa.ListArray:
        slots = keys.found(self.table)
        is_there = slots >= 0
        lists = Lists.of(self._column.lists.get(slots[is_there]))
        lengths = np.zeros(len(slots), dtype=np.int64)
        lengths[is_there] = lists.lengths
        offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), lists.elements(), type=self._column.type)

    def append(self, keys: Any, groups: Array, values: Any) -> None:
        groups = positions(groups, len(keys))
        column = column_of(values, self.element, len(groups), f'state "{self.name}"')
        if len(groups) == 0:
            return
        order, starts = argsort_stable_by(groups, len(keys))
        touched = np.flatnonzero(np.diff(starts))
        slots = (keys if len(touched) == len(keys) else keys.take(touched)).made(self.table)
        self._column.lists.append(
            slots, column.take(to_array(pa.int64(), order)), np.append(starts[touched], len(groups))
        )

    def put(self, keys: Any, lists: Any) -> None:
        column = column_of(lists, self.logical, len(keys), f'state "{self.name}"')
        if len(keys):
            self._column.put(keys.made(self.table), column)

    def clear(self, keys: Any = None) -> None:
        forget(self.table, keys)


def positions(groups: Any, count: int) -> Array:
    """UserError SS5411 for positions beyond the keys, which a kernel would not check."""
    found: Array = np.asarray(groups)
    if found.dtype.kind not in "iu" or (len(found) and not 0 <= found.min() <= found.max() < count):
        raise UserError(
            "SS5411",
            f"groups are whole numbers below {count}, the number of keys",
            hint="pass ctx.keys with ctx.groups, or the positions in the keys that you pass",
        )
    return found.astype(np.int64, copy=False)


class MapEntries(StateEntries):
    """Entries by key and what stands behind the `owner_columns` of the key, such as the key of a map.

    State: those; once all entries of a key were asked for, the entries of each key in a chain."""

    _chains: Chains | None = None
    _owners: KeyIndex | None = None

    def __init__(
        self,
        name: str,
        keys: pa.Schema,
        columns: Sequence[SlotColumn],
        scope: StateScope,
        *,
        ttl_ms: int = 0,
        placed_by: int = -1,
        owner_columns: int,
    ) -> None:
        super().__init__(name, keys, columns, scope, ttl_ms=ttl_ms, placed_by=placed_by)
        self._owner_types = keys.types[:owner_columns]

    def get_or_create(self, key_columns: Sequence[pa.Array]) -> tuple[Array, Array]:
        slots, is_new = super().get_or_create(key_columns)
        if self._chains is not None and is_new.any():
            self._link(slots[is_new])
        return slots, is_new

    def _link(self, slots: Array) -> None:
        assert self._chains is not None
        self._chains.append(
            self._owner_slots(self.keys(slots)[: len(self._owner_types)], len(slots), is_made=True), slots
        )

    def _owner_slots(self, columns: list[pa.Array], count: int, *, is_made: bool) -> Array:
        if not columns:
            return np.zeros(count, dtype=np.int64)
        assert self._owners is not None
        return self._owners.get_or_insert(columns)[0] if is_made else self._owners.get(columns)

    def of_keys(self, keys: KeySet) -> tuple[Array, Array]:
        """(position in `keys`, entry) of all entries of the keys."""
        if self._chains is None:
            # Made when it is first needed.
            self._chains, self._owners = Chains(), KeyIndex(self._owner_types) if self._owner_types else None
            self._link(self.slots())
        return self._chains.match(self._owner_slots(keys.arrays, len(keys), is_made=False))

    def _drop(self, slots: Array) -> None:
        if self._chains is not None and len(slots):
            emptied = self._chains.remove(slots)
            if self._owners is not None:
                self._owners.delete(emptied)
        super()._drop(slots)

    def nbytes(self) -> int:
        chains = 0 if self._chains is None else self._chains.nbytes
        return super().nbytes() + chains + (0 if self._owners is None else self._owners.nbytes)


class KeyedMap(MapState):
    """State: a value per key and map key, in `table`."""

    def __init__(self, name: str, map_type: LogicalType, ttl_ms: int, places: Places) -> None:
        assert map_type.root is TypeRoot.MAP
        assert map_type.key is not None
        assert map_type.element is not None
        super().__init__(str(map_type.key), str(map_type.element), ttl=ttl_ms)
        self.name = name
        self.key_type, self.element = map_type.key, map_type.element
        self._column = ValueColumn("value", self.element)
        self._key_arrow = to_arrow_type(self.key_type)
        self.table = MapEntries(
            name,
            pa.schema([*places.keys, pa.field("key", self._key_arrow)]),
            [self._column],
            places.scope,
            ttl_ms=ttl_ms,
            placed_by=len(places.keys) or -1,
            owner_columns=len(places.keys),
        )

    def _entry_keys(self, keys: KeySet, groups: Any, map_keys: Any) -> list[pa.Array]:
        groups = positions(groups, len(keys))
        column = column_of(
            map_keys, self.key_type.with_nullable(True), len(groups), f'a key of state "{self.name}"'
        )
        rows = groups.astype(np.int32)
        return [*(take_rows(a, rows) for a in keys.arrays), column]

    def get(self, keys: Any, groups: Any, map_keys: Any) -> pa.Array:
        slots = self.table.find(self._entry_keys(keys, groups, map_keys))
        is_there = slots >= 0
        found = self._column.get(slots[is_there])
        return (
            found if is_there.all() else found.take(to_array(pa.int64(), np.cumsum(is_there) - 1, is_there))
        )

    def put(self, keys: Any, groups: Any, map_keys: Any, values: Any) -> None:
        entry_keys = self._entry_keys(keys, groups, map_keys)
        count = len(entry_keys[-1])
        column = column_of(values, self.element, count, f'state "{self.name}"')
        if count == 0:
            return
        slots, _ = self.table.get_or_create(entry_keys)
        # Of equal entries the last counts.
        distinct, places = np.unique(slots[::-1], return_index=True)
        self.table.writing(distinct)
        self._column.put(distinct, column.take(to_array(pa.int64(), count - 1 - places)))

    def remove(self, keys: Any, groups: Any, map_keys: Any) -> None:
        slots = self.table.find(self._entry_keys(keys, groups, map_keys))
        slots = np.unique(slots[slots >= 0])
        if len(slots):
            self.table.forget(slots)

    def entries(self, keys: Any) -> tuple[Array, pa.Array, pa.Array]:
        places, slots = self.table.of_keys(keys)
        return places, self.table.keys(slots)[-1].cast(self._key_arrow), self._column.get(slots)

    def clear(self, keys: Any = None) -> None:
        _, slots = self.table.of_keys(keys)
        if len(slots):
            self.table.forget(slots)
