"""Growing columns of values and tables of rows, addressed by slot or by row id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.places import forget, point
from runtime.state.arrays import Array, grown
from runtime.state.chunk_log import ChunkLog, batch_of
from runtime.state.records import Records, is_recordable

_GARBAGE_ROWS_MIN = 4096
_REWRITE_ROWS = 1 << 18


class VarColumn:
    """Arrow values of any type by slot.

    A slot that was never set, or was deleted, is NULL. State: the values, as records where their type permits, else in a log of
    chunks; memory of overwritten and deleted values is used again.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self._values = _Recorded(data_type) if is_recordable(data_type) else _Logged(data_type)

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
    """Values as records by slot."""

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


class _Logged:
    """Values in a log of chunks, and one int64 per slot with the position of its value in the log. Overwritten and deleted values
    are dropped when they are more than half of the log."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._schema = pa.schema([pa.field("value", data_type)])
        self._log = ChunkLog(self._schema)
        self._places = np.empty(0, dtype=np.int64)
        self._live = 0

    @property
    def nbytes(self) -> int:
        return self._log.nbytes + self._places.nbytes

    def put(self, slots: Array, values: pa.Array) -> None:
        self._places = grown(self._places, int(slots.max()) + 1, -1)
        first = self._log.append(pa.RecordBatch.from_arrays([values], schema=self._schema))
        self._live += point(self._places, slots, first)
        self._compact()

    def gather(self, slots: Array) -> pa.Array:
        places = np.full(len(slots), -1, dtype=np.int64)
        known = slots < len(self._places)
        places[known] = self._places[slots[known]]
        if len(self._log) == 0:
            return pa.nulls(len(slots), self._type)
        absent = places < 0
        if not absent.any():
            return self._log.gather(places).column(0)
        present = ~absent
        found = self._log.gather(places[present]).column(0)
        # `take` returns NULL for a NULL index.
        return found.take(to_array(pa.int64(), np.cumsum(present) - 1, present))

    def delete(self, slots: Array) -> None:
        self._live -= forget(self._places, slots, np.empty_like(slots))
        self._compact()

    def _compact(self) -> None:
        if len(self._log) > 2 * self._live + _GARBAGE_ROWS_MIN:
            live = np.flatnonzero(self._places >= 0)
            self._log = _rewritten(self._log, self._places, live)


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
        return batch_of(self.schema, self.columns(row_ids, range(len(self.schema))), len(row_ids))

    def columns(self, row_ids: Array, numbers: Sequence[int]) -> list[pa.Array]:
        """These columns of the rows of live ids."""
        recorded = [n for n in numbers if n not in self._others]
        found = dict(
            zip(recorded, self._records.read(row_ids, [self._numbers.index(n) for n in recorded]), strict=True)
        )
        return [
            self._others[n].gather(row_ids) if n in self._others else found[n] for n in numbers
        ]

    def delete(self, row_ids: Array) -> None:
        """Forget rows. An id that is not live, or occurs twice, is ignored."""
        forgotten = self._records.forget(row_ids)
        for column in self._others.values():
            column.delete(forgotten)
        self._free = grown(self._free, self._free_count + len(forgotten), 0)
        self._free[self._free_count : self._free_count + len(forgotten)] = forgotten
        self._free_count += len(forgotten)

    def live_row_ids(self) -> Array:
        """int64[len(self)]: the live row ids, ascending."""
        return self._records.ids()

    def _allocate(self, count: int) -> Array:
        reused = min(count, self._free_count)
        self._free_count -= reused
        fresh = np.arange(self._next, self._next + count - reused)
        self._next += count - reused
        if reused == 0:
            return fresh
        return np.concatenate([self._free[self._free_count : self._free_count + reused], fresh])


def _rewritten(log: ChunkLog, places: np.ndarray, live: np.ndarray) -> ChunkLog:
    """A log of the live rows alone, in the order of the old one; `places` is updated to the new positions."""
    live = live[np.argsort(places[live], kind="stable")]
    compacted = ChunkLog(log.schema)
    for start in range(0, len(live), _REWRITE_ROWS):
        compacted.append(log.gather(places[live[start : start + _REWRITE_ROWS]]))
    places[live] = np.arange(len(live))
    return compacted
