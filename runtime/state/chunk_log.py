"""An append-only log of rows in Arrow chunks, which are merged in tiers so that a read touches few of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.gather import gather, locate

_FAN_IN = 8
_TIER_ROWS_MIN = 1024
_LARGE_ROWS = 1 << 16
_CHUNKS_MAX = 256
_MERGED_ROWS_MAX = 1 << 20
_MERGED_BYTES_MAX = 512 << 20
_PINNED_BYTES_RATIO = 1.25
"""Memory that a chunk may keep from being freed, in multiples of its own rows' bytes."""


class ChunkLog:
    """Rows by position: 0, 1, 2, … in the order of `append`.

    An appended batch becomes a chunk without a copy, unless it is a slice that would keep a larger batch in memory. Eight
    chunks of one size are merged into one of the next size, up to 65,536 rows, so that a row is copied only a few times.
    Larger chunks are not merged while there are few, because copying a row costs more than all other work on it. Beyond 256
    chunks the oldest are merged, up to a million rows. Nothing is forgotten.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._chunks: list[pa.RecordBatch] = []
        self._starts: list[int] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of the rows in their chunks."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, batch: pa.RecordBatch) -> int:
        """Add the rows; returns the position of the first, which the others follow."""
        start = self._length
        if batch.num_rows:
            self._chunks.append(_self_contained(batch))
            self._starts.append(start)
            self._length += batch.num_rows
            self._merge_tail()
            if len(self._chunks) > _CHUNKS_MAX:
                self._merge_oldest()
        return start

    def gather(self, positions: np.ndarray) -> pa.RecordBatch:
        """The rows at int64 positions, in their order, repeats allowed."""
        if len(positions) == 0 or not self._chunks:
            return empty_batch(self.schema)
        chunks, rows = self._locate(positions)
        columns = [
            gather([chunk.column(number) for chunk in self._chunks], chunks, rows)
            for number in range(len(self.schema))
        ]
        return batch_of(self.schema, columns, len(positions))

    def _locate(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return locate(np.array(self._starts, dtype=np.int64), positions)

    def _merge_tail(self) -> None:
        while True:
            tier = _tier(self._chunks[-1].num_rows)
            first = len(self._chunks) - 1
            while first > 0 and _tier(self._chunks[first - 1].num_rows) <= tier:
                first -= 1
            tail = self._chunks[first:]
            rows = sum(chunk.num_rows for chunk in tail)
            if len(tail) < _FAN_IN or rows > _LARGE_ROWS or _bytes(tail) > _MERGED_BYTES_MAX:
                return
            self._merge(first, len(self._chunks))

    def _merge_oldest(self) -> None:
        """Merge the first neighbours, at most eight, whose total size is small enough."""
        for first in range(len(self._chunks) - 1):
            last, rows = first, 0
            while last < min(first + _FAN_IN, len(self._chunks)):
                rows += self._chunks[last].num_rows
                if rows > _MERGED_ROWS_MAX:
                    break
                last += 1
            if last - first > 1 and _bytes(self._chunks[first:last]) <= _MERGED_BYTES_MAX:
                self._merge(first, last)
                return

    def _merge(self, first: int, last: int) -> None:
        self._chunks[first:last] = [_concatenate(self.schema, self._chunks[first:last])]
        self._starts[first + 1 : last] = []

    @property
    def chunk_count(self) -> int:
        return len(self._chunks)


def _self_contained(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, copied when its buffers hold much more than its rows, as for a slice made by `partition`."""
    if batch.get_total_buffer_size() <= _PINNED_BYTES_RATIO * batch.nbytes:
        return batch
    return batch.take(pa.array(np.arange(batch.num_rows)))


def _bytes(chunks: list[pa.RecordBatch]) -> int:
    return sum(chunk.nbytes for chunk in chunks)


def _tier(rows: int) -> int:
    tier, bound = 0, _TIER_ROWS_MIN
    while rows > bound:
        tier, bound = tier + 1, bound * _FAN_IN
    return tier


def _concatenate(schema: pa.Schema, chunks: list[pa.RecordBatch]) -> pa.RecordBatch:
    columns = [pa.concat_arrays([chunk.column(n) for chunk in chunks]) for n in range(len(schema))]
    return batch_of(schema, columns, sum(chunk.num_rows for chunk in chunks))


def batch_of(schema: pa.Schema, columns: list[pa.Array], rows: int) -> pa.RecordBatch:
    """A batch of these columns; without columns it still has `rows` rows."""
    if not columns:
        return pa.record_batch({"": pa.nulls(rows)}).select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of this schema without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], type=field.type) for field in schema], schema=schema)
