"""Columns of a keyed table: one value per slot, in numbers or whole rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.storage.columns import RowStore

if TYPE_CHECKING:
    from sqlstream.runtime.state.snapshots.changes import Changes
    from sqlstream.runtime.state.snapshots.collection import TableLock


class SlotColumn(Protocol):
    """Values by slot, saved as one or more Arrow columns (`fields`). A slot is empty until it is written or loaded.

    A thread that collects a snapshot calls `columns` of other slots than those that the operator's thread writes meanwhile. It
    holds the table's lock, as `resize` and `reset` do; arrays that grow as slots are written need a lock of their own, because
    they are empty for a moment."""

    @property
    def fields(self) -> list[pa.Field]: ...

    def resize(self, slots: int) -> None:
        """Slots 0 … slots - 1 are in use from here on; never fewer than before."""

    def columns(self, slots: Array) -> list[pa.Array]:
        """The values of these slots, one array per field; later writes do not change them."""

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """The inverse of `columns`, on empty slots."""

    def reset(self, slots: Array) -> None:
        """Empty these slots."""

    def nbytes(self) -> int:
        """Memory held, in bytes."""


class SlotPart(Protocol):
    """Any number of entries per slot, saved as a table of its own: $owner, the slot, then one column per field. A column it
    belongs to empties and measures it."""

    @property
    def changes(self) -> Changes:
        """Which of its entries have changed."""

    def belong_to(self, lock: TableLock, key_groups: Callable[[Array], Array]) -> None:
        """The table of the slots gives its lock, with which every change is made, and the key groups of slots."""

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        """Take over saved columns; what several old subtasks saved comes in several calls."""


class NumberColumn:
    """A number per slot: `values`, an array that kernels read and write. State: 8 bytes per slot (those of its type)."""

    def __init__(self, name: str, data_type: pa.DataType, fill: Any = 0) -> None:
        self.fields = [pa.field(name, data_type)]
        self._fill = fill
        self._array = GrowingArray(data_type.to_pandas_dtype(), fill=fill)

    @property
    def values(self) -> Array:
        return self._array.values

    def resize(self, slots: int) -> None:
        self._array.reserve(slots)

    def columns(self, slots: Array) -> list[pa.Array]:
        return [to_array(self.fields[0].type, self.values.take(slots))]

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.values[slots] = view_values(columns[0], self.values.dtype)

    def reset(self, slots: Array) -> None:
        self.values[slots] = self._fill

    def nbytes(self) -> int:
        return self._array.nbytes


class RowColumn:
    """A whole row per slot, or none. State: the rows, and 8 bytes per slot."""

    def __init__(self, schema: pa.Schema) -> None:
        self.fields = list(schema)
        self._rows = RowStore(schema)
        self._ids = GrowingArray(np.int64, fill=-1)

    def resize(self, slots: int) -> None:
        self._ids.reserve(slots)

    def get(self, slots: Array) -> pa.RecordBatch:
        """The rows of slots that have one, in their order."""
        return self._rows.gather(self._ids.values[slots])

    def put(self, slots: Array, rows: pa.RecordBatch) -> None:
        """Set the rows of distinct slots."""
        self.reset(slots)
        self._ids.values[slots] = self._rows.append(rows)

    def columns(self, slots: Array) -> list[pa.Array]:
        return self.get(slots).columns

    def load(self, slots: Array, columns: list[pa.Array]) -> None:
        self.put(slots, pa.RecordBatch.from_arrays(columns, schema=self._rows.schema))

    def reset(self, slots: Array) -> None:
        ids = self._ids.values[slots]
        self._rows.delete(ids[ids >= 0])
        self._ids.values[slots] = -1

    def nbytes(self) -> int:
        return int(self._rows.nbytes) + self._ids.nbytes
