"""A log of rows with times, appended at one end and removed by time: the state of interval and window joins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array
from runtime.state.arrays import Array
from runtime.state.chunk_runs import runs_of_small
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN

_SMALL_CHUNKS_MAX = 32
"""With more small chunks than this, they are merged: bounds the work per chunk of each probe."""
_LARGE_ROWS = 16_384
"""A chunk of at least this many rows is not merged: the cost of probing it depends on its rows alone."""


@dataclasses.dataclass
class Chunk:
    """Rows in order of arrival, `times` int64[n] ms, and for each row whether it has matched."""

    batch: pa.RecordBatch
    times: Array
    is_matched: Array
    earliest: int
    latest: int


class RowLog:
    """Rows in order of arrival. State: all rows that were appended and not yet removed."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.chunks: list[Chunk] = []
        self._small_chunks = 0

    def append(self, batch: pa.RecordBatch, times: Array, is_matched: Array | None = None) -> None:
        if batch.num_rows == 0:
            return
        if batch.schema != self.schema:
            # Inputs of a UNION ALL may differ in their column names; chunks are concatenated.
            batch = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        matched = np.zeros(batch.num_rows, dtype=bool) if is_matched is None else is_matched
        self.chunks.append(Chunk(batch, times, matched, int(times.min()), int(times.max())))
        self._small_chunks += batch.num_rows < _LARGE_ROWS
        if self._small_chunks > _SMALL_CHUNKS_MAX:
            self._compact()

    def _compact(self) -> None:
        """Merge each run of small chunks into one, up to the size of a large one; the order is kept."""
        runs = runs_of_small(self.chunks, lambda chunk: len(chunk.times), _LARGE_ROWS)
        self.chunks = [self._concat(run) for run in runs]
        self._small_chunks = 0

    def _concat(self, chunks: list[Chunk]) -> Chunk:
        if len(chunks) == 1:
            return chunks[0]
        batch = pa.concat_batches([c.batch for c in chunks])
        times = np.concatenate([c.times for c in chunks])
        matched = np.concatenate([c.is_matched for c in chunks])
        return Chunk(batch, times, matched, int(times.min()), int(times.max()))

    @property
    def earliest(self) -> int:
        """The least time in the log, WATERMARK_MAX when it is empty."""
        return min((c.earliest for c in self.chunks), default=WATERMARK_MAX)

    def take_until(self, limit: int) -> list[Chunk]:
        """Remove and return all rows with time <= limit, in order."""
        if limit == WATERMARK_MIN or self.earliest > limit:
            return []
        removed, kept = [], []
        for chunk in self.chunks:
            if chunk.latest <= limit:
                removed.append(chunk)
            elif chunk.earliest > limit:
                kept.append(chunk)
            else:
                out = chunk.times <= limit
                removed.append(self._select(chunk, np.flatnonzero(out)))
                kept.append(self._select(chunk, np.flatnonzero(~out)))
        self.chunks = kept
        return removed

    def _select(self, chunk: Chunk, rows: Array) -> Chunk:
        times = chunk.times[rows]
        batch = chunk.batch.take(to_array(pa.int64(), rows))
        return Chunk(batch, times, chunk.is_matched[rows], int(times.min()), int(times.max()))

    def rows(self) -> Chunk | None:
        """All rows as one chunk; None when there are none."""
        return self._concat(self.chunks) if self.chunks else None

    def nbytes(self) -> int:
        return sum(c.batch.nbytes + c.times.nbytes for c in self.chunks)


def concat_batches(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of any number of batches as one."""
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
