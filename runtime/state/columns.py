"""Growing columns of values, addressed by slot or by row id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.kernels.places import forget, point
from runtime.state.arrays import grown
from runtime.state.chunk_log import ChunkLog

_GARBAGE_ROWS_MIN = 4096
_REWRITE_ROWS = 1 << 18


class VarColumn:
    """Arrow values of any type by slot.

    A slot that was never set, or was deleted, is NULL. State: a log of values, and one int64 per slot with the position of
    its value in the log. Overwritten and deleted values are dropped when they are more than half of the log.
    """

    def __init__(self, data_type: pa.DataType) -> None:
        self.type = data_type
        self._schema = pa.schema([pa.field("value", data_type)])
        self._log = ChunkLog(self._schema)
        self._places = np.empty(0, dtype=np.int64)
        self._live = 0

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._log.nbytes + self._places.nbytes

    def put(self, slots: np.ndarray, values: pa.Array) -> None:
        """Set slots; for a slot that occurs twice the last value is kept."""
        if len(slots) == 0:
            return
        self._places = grown(self._places, int(slots.max()) + 1, -1)
        first = self._log.append(pa.RecordBatch.from_arrays([values], schema=self._schema))
        self._live += point(self._places, slots, first)
        self._compact()

    def gather(self, slots: np.ndarray) -> pa.Array:
        """The values of slots, NULL for a slot without one."""
        places = np.full(len(slots), -1, dtype=np.int64)
        known = slots < len(self._places)
        places[known] = self._places[slots[known]]
        if len(self._log) == 0:
            return pa.nulls(len(slots), self.type)
        absent = places < 0
        if not absent.any():
            return self._log.gather(places).column(0)
        present = ~absent
        found = self._log.gather(places[present]).column(0)
        # `take` returns NULL for a NULL index.
        return found.take(to_array(pa.int64(), np.cumsum(present) - 1, present))

    def delete(self, slots: np.ndarray) -> None:
        """Make slots NULL and forget their values."""
        self._live -= forget(self._places, slots, np.empty_like(slots))
        self._compact()

    def _compact(self) -> None:
        if len(self._log) > 2 * self._live + _GARBAGE_ROWS_MIN:
            live = np.flatnonzero(self._places >= 0)
            self._log = _rewritten(self._log, self._places, live)


class RowStore:
    """Whole rows by row id.

    `append` stores the batch without a copy; `delete` frees the ids for later rows, and drops the rows when more than half
    of the log is garbage. State: the log, one int64 per row id with its position in the log, and the free ids.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._log = ChunkLog(schema)
        self._places = np.empty(0, dtype=np.int64)
        self._free = np.empty(0, dtype=np.int64)
        self._free_count = 0
        self._next = 0

    def __len__(self) -> int:
        return self._next - self._free_count

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        return self._log.nbytes + self._places.nbytes + self._free.nbytes

    @property
    def id_count(self) -> int:
        """One more than the highest row id ever assigned: the length that columns addressed by row id need."""
        return self._next

    def append(self, batch: pa.RecordBatch) -> np.ndarray:
        """int64[n]: the ids of the batch's rows. Ids of deleted rows are reused."""
        row_ids = self._allocate(batch.num_rows)
        first = self._log.append(batch)
        self._places = grown(self._places, self._next, -1)
        point(self._places, row_ids, first)
        return row_ids

    def gather(self, row_ids: np.ndarray) -> pa.RecordBatch:
        """The rows of live ids, in their order, repeats allowed."""
        return self._log.gather(self._places[row_ids])

    def delete(self, row_ids: np.ndarray) -> None:
        """Forget rows. An id that is not live, or occurs twice, is ignored."""
        self._free = grown(self._free, self._free_count + len(row_ids), 0)
        self._free_count += forget(self._places, row_ids, self._free[self._free_count :])
        if len(self._log) > 2 * len(self) + _GARBAGE_ROWS_MIN:
            self._log = _rewritten(self._log, self._places, self.live_row_ids())

    def live_row_ids(self) -> np.ndarray:
        """int64[len(self)]: the live row ids, ascending."""
        return np.flatnonzero(self._places[: self._next] >= 0)

    def _allocate(self, count: int) -> np.ndarray:
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
