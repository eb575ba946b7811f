"""State of one row a key: a key index and a column a value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, unpack_bits, valid_mask, view_buffer, view_values
from runtime.kernels.hashing import key_groups
from runtime.kernels.index import KeyIndex
from runtime.kernels.words import storage_dtype
from runtime.state.chunk_log import batch_of
from runtime.state.columns import FixedColumn, VarColumn
from runtime.state.key_groups import KEY_GROUP, in_key_group_order, rows_of_key_groups


class KeyedTable:
    """A map of keys to one row of values each, for whole batches of keys.

    A key without a `put` has NULL values. State: the index, and a column a value; a deleted key's slot is
    reused. Values may also be reached as `columns[n]` (FixedColumn for numbers, times and booleans, VarColumn
    for the rest).
    """

    def __init__(self, key_schema: pa.Schema, value_schema: pa.Schema) -> None:
        self.key_schema = key_schema
        self.value_schema = value_schema
        self.index = KeyIndex([field.type for field in key_schema])
        self.columns: list[FixedColumn | VarColumn] = [_column(field.type) for field in value_schema]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def schema(self) -> pa.Schema:
        """Key columns, then value columns."""
        return pa.schema([*self.key_schema, *self.value_schema])

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self.index.nbytes + sum(column.nbytes for column in self.columns)

    def get_or_create(
        self, key_columns: Sequence[pa.Array], hashes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(slots int64[n], is_new bool[n]): is_new marks the first row of each key that was absent; its
        values are NULL.
        """
        slots, is_new = self.index.get_or_insert(key_columns, hashes)
        if is_new.any():
            self._clear(slots[is_new])
        return slots, is_new

    def get(self, key_columns: Sequence[pa.Array], hashes: np.ndarray | None = None) -> np.ndarray:
        """int64[n]: the slot of each row's key, -1 where it is absent."""
        return self.index.get(key_columns, hashes)

    def values(self, slots: np.ndarray) -> pa.RecordBatch:
        """The values of live slots."""
        columns = [
            _read(column, field.type, slots)
            for column, field in zip(self.columns, self.value_schema, strict=True)
        ]
        return batch_of(self.value_schema, columns, len(slots))

    def put(self, slots: np.ndarray, values: pa.RecordBatch | Sequence[pa.Array]) -> None:
        """Set the values of live slots; of a slot that comes twice the last row stays."""
        arrays = values.columns if isinstance(values, pa.RecordBatch) else values
        for column, array in zip(self.columns, arrays, strict=True):
            _write(column, slots, array)

    def delete(self, slots: np.ndarray) -> None:
        """Forget the keys of slots and their values."""
        self.index.delete(slots)
        for column in self.columns:
            if isinstance(column, VarColumn):
                column.delete(slots)

    def keys(self, slots: np.ndarray) -> list[pa.Array]:
        """The key columns of live slots, in the types of the key schema."""
        return [
            array if array.type == field.type else array.cast(field.type)
            for array, field in zip(self.index.keys(slots), self.key_schema, strict=True)
        ]

    def rows(self, slots: np.ndarray) -> pa.RecordBatch:
        """Keys and values of live slots."""
        return batch_of(self.schema, [*self.keys(slots), *self.values(slots).columns], len(slots))

    def scan(self) -> pa.RecordBatch:
        """Keys and values of every key, in order of slot."""
        return self.rows(self.index.slots())

    def snapshot(self, max_parallelism: int) -> pa.Table:
        """Every row in order of key group, which is the int32 column `$key_group` before the keys and
        values.
        """
        slots = self.index.slots()
        groups = key_groups(self.index.hashes(slots), max_parallelism)
        schema = pa.schema([pa.field(KEY_GROUP, pa.int32()), *self.schema])
        batches = [
            batch_of(schema, [to_array(pa.int32(), groups[part]), *self.rows(slots[part]).columns], len(part))
            for part in in_key_group_order(groups, max_parallelism)
        ]
        return pa.Table.from_batches(batches, schema=schema)

    def restore(self, table: pa.Table, key_group_start: int, key_group_end: int) -> None:
        """Add the rows of a snapshot whose key group is in [key_group_start, key_group_end)."""
        keys = len(self.key_schema)
        for batch in rows_of_key_groups(table, key_group_start, key_group_end):
            slots, _ = self.get_or_create(batch.columns[1 : 1 + keys])
            self.put(slots, batch.columns[1 + keys :])

    def _clear(self, slots: np.ndarray) -> None:
        nothing = np.zeros(len(slots), dtype=np.uint8)
        for column in self.columns:
            if isinstance(column, FixedColumn):
                column.put(slots, nothing.astype(column.values.dtype), nothing)


def _column(data_type: pa.DataType) -> FixedColumn | VarColumn:
    if pa.types.is_boolean(data_type):
        return FixedColumn(np.uint8)
    if pa.types.is_primitive(data_type) and data_type.bit_width <= 64:
        return FixedColumn(storage_dtype(data_type))
    return VarColumn(data_type)


def _read(column: FixedColumn | VarColumn, data_type: pa.DataType, slots: np.ndarray) -> pa.Array:
    if isinstance(column, VarColumn):
        return column.gather(slots)
    return to_array(data_type, *column.get(slots))


def _write(column: FixedColumn | VarColumn, slots: np.ndarray, array: pa.Array) -> None:
    if isinstance(column, VarColumn):
        column.put(slots, array)
    elif pa.types.is_boolean(array.type):
        start, bit = array.offset >> 3, array.offset & 7
        packed = view_buffer(array.buffers()[1], np.uint8, start, (bit + len(array) + 7) >> 3)
        column.put(slots, unpack_bits(packed, bit, len(array)), valid_mask(array))
    else:
        column.put(slots, view_values(array, column.values.dtype), valid_mask(array))
