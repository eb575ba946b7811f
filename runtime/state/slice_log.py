"""An append-only log of window partials, cut by slice: the state of a window aggregate."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from runtime.kernels.buffers import to_array, view_values
from runtime.kernels.group import extent
from runtime.state.arrays import Array
from runtime.state.chunk_runs import runs_of_small
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN

_SLICES_CUT_MAX = 4
"""A batch is cut into at most this many runs of rows of one slice; one with more is kept whole."""
_SMALL_CHUNKS_MAX = 64
"""With more small chunks than this, they are merged: bounds the work per chunk when windows close."""
_LARGE_ROWS = 4_096
"""A chunk of at least this many rows is not merged: its cost when windows close depends on its rows alone."""


@dataclasses.dataclass(frozen=True)
class SliceChunk:
    """Columns of partials whose slices end between `first_end` and `last_end`, both inclusive."""

    columns: list[pa.Array]
    first_end: int
    last_end: int

    @property
    def rows(self) -> int:
        return len(self.columns[-1])

    @property
    def is_one_slice(self) -> bool:
        return self.first_end == self.last_end


class SliceLog:
    """Partials in order of arrival; column `end_position` holds the slice ends, int64 ms.

    State: all rows that were appended and not yet removed or forgotten. Rows of one slice usually arrive in one run; a long
    run becomes a chunk of its own, so that firing, forgetting and merging work on whole chunks.
    """

    def __init__(self, end_position: int) -> None:
        self._end_position = end_position
        self.chunks: list[SliceChunk] = []
        self._small_chunks = 0

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def first_end(self) -> int:
        """The least slice end, WATERMARK_MAX when the log is empty."""
        return min((chunk.first_end for chunk in self.chunks), default=WATERMARK_MAX)

    @property
    def last_end(self) -> int:
        """The greatest slice end, WATERMARK_MIN when the log is empty."""
        return max((chunk.last_end for chunk in self.chunks), default=WATERMARK_MIN)

    def ends(self, columns: list[pa.Array]) -> Array:
        return view_values(columns[self._end_position], np.int64)

    def append(self, columns: list[pa.Array]) -> None:
        """Add the rows of these columns, at least one."""
        added = self._cut(columns)
        self.chunks += added
        self._small_chunks += sum(chunk.rows < _LARGE_ROWS for chunk in added)
        if self._small_chunks > _SMALL_CHUNKS_MAX:
            self._compact()

    def _cut(self, columns: list[pa.Array]) -> list[SliceChunk]:
        whole = self._chunk(columns)
        if whole.is_one_slice or whole.rows < _LARGE_ROWS:
            return [whole]
        ends = self.ends(columns)
        cuts = np.flatnonzero(ends[1:] != ends[:-1]) + 1
        if len(cuts) >= _SLICES_CUT_MAX:
            return [whole]
        bounds = [0, *cuts.tolist(), len(ends)]
        return [
            SliceChunk([c.slice(low, high - low) for c in columns], int(ends[low]), int(ends[low]))
            for low, high in itertools.pairwise(bounds)
        ]

    def _chunk(self, columns: list[pa.Array]) -> SliceChunk:
        first, last = extent(self.ends(columns))
        return SliceChunk(columns, int(first), int(last))

    def _compact(self) -> None:
        """Merge each run of small chunks into one, up to the size of a large one; the order is kept."""
        runs = runs_of_small(self.chunks, lambda chunk: chunk.rows, _LARGE_ROWS)
        self.replace(self._chunk(concat(run)) if len(run) > 1 else run[0] for run in runs)

    def replace(self, chunks: Iterable[SliceChunk]) -> None:
        """Replace all chunks."""
        self.chunks = list(chunks)
        self._small_chunks = 0

    def by_slice(self) -> list[list[SliceChunk]]:
        """The chunks of each slice, and one more list with the chunks that hold several slices."""
        groups: dict[int | None, list[SliceChunk]] = {}
        for chunk in self.chunks:
            groups.setdefault(chunk.first_end if chunk.is_one_slice else None, []).append(chunk)
        return list(groups.values())

    def sorted_until(self, last_end: int) -> list[pa.Array]:
        """All rows of slices up to `last_end` (and perhaps some later ones), by slice, then by arrival."""
        chunks = [chunk for chunk in self.chunks if chunk.first_end <= last_end]
        if all(chunk.is_one_slice for chunk in chunks):
            return concat(sorted(chunks, key=lambda chunk: chunk.first_end))
        columns = concat(chunks)
        order = to_array(pa.int64(), np.argsort(self.ends(columns), kind="stable"))
        return [column.take(order) for column in columns]

    def take_until(self, last_end: int) -> list[pa.Array] | None:
        """Remove and return all rows of slices up to `last_end`, in order of arrival; None when there are none."""
        taken: list[SliceChunk] = []
        self._split(taken, lambda ends: ends <= last_end)
        return concat(taken) if taken else None

    def forget(self, is_over: Callable[[Array], Array]) -> None:
        """Drop the rows for whose slice ends `is_over` is true; it must be true up to some end, and false beyond."""
        self._split([], is_over)

    def _split(self, taken: list[SliceChunk], is_taken: Callable[[Array], Array]) -> None:
        kept: list[SliceChunk] = []
        for chunk in self.chunks:
            first, last = is_taken(np.array([chunk.first_end, chunk.last_end])).tolist()
            if first == last:
                (taken if first else kept).append(chunk)
                continue
            mask = is_taken(self.ends(chunk.columns))
            taken.append(self._select(chunk, mask))
            kept.append(self._select(chunk, ~mask))
        self.chunks = kept

    def _select(self, chunk: SliceChunk, mask: Array) -> SliceChunk:
        rows = to_array(pa.int64(), np.flatnonzero(mask))
        return self._chunk([column.take(rows) for column in chunk.columns])

    def nbytes(self) -> int:
        return sum(column.nbytes for chunk in self.chunks for column in chunk.columns)


def concat(chunks: list[SliceChunk]) -> list[pa.Array]:
    """The concatenated columns of at least one chunk."""
    if len(chunks) == 1:
        return chunks[0].columns
    width = len(chunks[0].columns)
    return [pa.concat_arrays([chunk.columns[i] for chunk in chunks]) for i in range(width)]
