"""What was emitted of the vertices of a graph."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.slot_columns import NumberColumn, SlotColumn
from sqlstream.runtime.state.tables.keyed_table import KeyedTable


class Changed(NamedTuple):
    """Distinct vertices, and for each column what was emitted of them and what is the case now; -1 for no row."""

    vertices: Array
    olds: list[Array]
    news: list[Array]


class EmittedColumn(SlotColumn, Protocol):
    """A column of what is emitted, by slot of a vertex: -1 where there is no row."""

    @property
    def values(self) -> Array: ...

    def arrays(self, values: Array) -> list[pa.Array]:
        """Such values as a column of rows."""


class ValueColumn(NumberColumn):
    """A number per slot, -1 for none. State: 8 bytes per slot."""

    def __init__(self, name: str, data_type: pa.DataType) -> None:
        super().__init__(name, data_type, fill=-1)

    def arrays(self, values: Array) -> list[pa.Array]:
        return [to_array(self.fields[0].type, values)]


class VertexColumn:
    """A vertex per slot of a table of vertices: `values` are slots, -1 for none. Implements `SlotColumn`: vertices are saved by
    their keys, and `settle` finds them again when all are loaded. State: 8 bytes per slot."""

    def __init__(self, field: pa.Field) -> None:
        self.fields = [field]
        self._array = GrowingArray(np.int64, fill=-1)
        self._table: weakref.ref[KeyedTable] | None = None
        self._loaded: list[tuple[Array, pa.Array]] = []

    def refer_to(self, table: KeyedTable) -> None:
        # No reference back to the table: without a cycle it goes as soon as its operator does.
        self._table = weakref.ref(table)

    @property
    def values(self) -> Array:
        return self._array.values

    def arrays(self, values: Array) -> list[pa.Array]:
        """The keys of vertices; NULL for none."""
        assert self._table is not None
        table = self._table()
        assert table is not None
        is_known = values >= 0
        if is_known.all():
            (keys,) = table.keys(values)
        else:
            places = np.cumsum(is_known) - 1
            (found,) = table.keys(values[is_known])
            keys = found.take(pa.array(places, mask=~is_known))
        return [keys if keys.type == self.fields[0].type else keys.cast(self.fields[0].type)]

    def resize(self, slots: int) -> None:
        self._array.reserve(slots)

    def columns(self, slots: Array) -> list[pa.Array]:
        return self.arrays(self.values[slots])

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self._loaded.append((slots, columns[0]))

    def settle(self) -> None:
        assert self._table is not None
        table = self._table()
        assert table is not None
        for slots, keys in self._loaded:
            self.values[slots] = table.find([keys])
        self._loaded = []

    def reset(self, slots: Array) -> None:
        self.values[slots] = -1

    def nbytes(self) -> int:
        return self._array.nbytes


def changed_values(columns: Sequence[EmittedColumn], touched: Array, news: list[Array]) -> Changed:
    """Those of the touched vertices of which something else was emitted than their new values."""
    is_changed = np.zeros(len(touched), dtype=bool)
    for column, new in zip(columns, news, strict=True):
        is_changed |= column.values[touched] != new
    changed = touched[is_changed]
    return Changed(changed, [column.values[changed] for column in columns], [new[is_changed] for new in news])
