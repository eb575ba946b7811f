"""Growing columns of values and tables of rows, addressed by slot or by row id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.storage.arrays import Array, grown
from sqlstream.runtime.state.storage.nested_column import NestedColumn
from sqlstream.runtime.state.storage.records import Records, is_recordable


class VarColumn:
    """Arrow values of any type by slot.

    A slot that was never set, or was deleted, is NULL. State: the values, as records where their type permits, else in chunks;
    memory of overwritten and deleted values is used again.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self._values = _Recorded(data_type) if is_recordable(data_type) else NestedColumn(data_type)

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._values.nbytes

    def put(self, slots: np.ndarray, values: pa.Array) -> None:
        """Set slots; for a slot that occurs twice the last value is kept."""
        if len(slots):
            self._values.put(slots, values)

    def gather(self, slots: np.ndarray) -> pa.Array:
        """The values of slots, NULL for a slot without one."""
        return self._values.gather(slots)

    def delete(self, slots: np.ndarray) -> None:
        """Make slots NULL and forget their values."""
        self._values.delete(slots)


class _Recorded:
    """Values by slot, each as a record."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._records = Records([data_type])

    @property
    def nbytes(self) -> int:
        return self._records.nbytes

    def put(self, slots: Array, values: pa.Array) -> None:
        self._records.reserve(int(slots.max()) + 1)
        self._records.write(slots, [values], np.arange(len(values)))

    def gather(self, slots: Array) -> pa.Array:
        self._records.reserve(int(slots.max(initial=-1)) + 1)
        return self._records.read(slots, may_miss=True)[0]

    def delete(self, slots: Array) -> None:
        self._records.forget(slots)


class RowStore:
    """Whole rows by row id.

    `append` copies the rows, so that no batch is kept in memory for a few of them; `delete` frees their ids for later rows.
    State: the rows as records, without the columns whose type no record has; those are columns by row id of their own; and the
    free ids.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._numbers = [n for n, field in enumerate(schema) if is_recordable(field.type)]
        self._records = Records([schema.field(n).type for n in self._numbers])
        self._others = {
            n: VarColumn(field.type) for n, field in enumerate(schema) if n not in set(self._numbers)
        }
        self._memory = memory_in_force()
        self._free = np.empty(0, dtype=np.int64)
        self._free_count = 0
        self._next = 0

    def __len__(self) -> int:
        return self._next - self._free_count

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        others = sum(column.nbytes for column in self._others.values())
        return self._records.nbytes + others + self._free.nbytes

    @property
    def id_count(self) -> int:
        """One more than the highest row id ever assigned: the length that columns addressed by row id need."""
        return self._next

    def append(self, batch: pa.RecordBatch, rows: Array | None = None) -> Array:
        """int64[n]: the ids of the batch's rows, of those with the numbers `rows` unless None. Ids of deleted rows are reused."""
        if rows is None:
            rows = np.arange(batch.num_rows)
        row_ids = self._allocate(len(rows))
        self._records.reserve(self._next)
        self._records.write(row_ids, [batch.column(n) for n in self._numbers], rows)
        for number, column in self._others.items():
            column.put(row_ids, batch.column(number).take(to_array(pa.int64(), rows)))
        return row_ids

    def gather(self, row_ids: Array) -> pa.RecordBatch:
        """The rows of live ids, in their order, repeats allowed."""
        return _batch_of(self.schema, self.columns(row_ids, range(len(self.schema))), len(row_ids))

    def columns(self, row_ids: Array, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns of the rows of live ids."""
        recorded = [n for n in numbers if n not in self._others]
        found = dict(
            zip(
                recorded, self._records.read(row_ids, [self._numbers.index(n) for n in recorded]), strict=True
            )
        )
        return [self._others[n].gather(row_ids) if n in self._others else found[n] for n in numbers]

    def delete(self, row_ids: Array) -> None:
        """Forget rows. An id that is not live, or occurs twice, is ignored."""
        forgotten = self._records.forget(row_ids)
        for column in self._others.values():
            column.delete(forgotten)
        self._free = grown(self._free, self._free_count + len(forgotten), memory=self._memory)
        self._free[self._free_count : self._free_count + len(forgotten)] = forgotten
        self._free_count += len(forgotten)

    def _allocate(self, count: int) -> Array:
        reused = min(count, self._free_count)
        self._free_count -= reused
        fresh = np.arange(self._next, self._next + count - reused)
        self._next += count - reused
        if reused == 0:
            return fresh
        return np.concatenate([self._free[self._free_count : self._free_count + reused], fresh])


def _batch_of(schema: pa.Schema, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
    """A batch of these columns; without columns it still has `rows` rows."""
    if not columns:
        return pa.record_batch({"": pa.nulls(rows)}).select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)
