"""An append-only log of rows or partials, cut by slice: the state of window operators."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.kernels.keys.group import extent
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.logs.chunk_changes import (
    ChunkChanges,
    ChunkCopy,
    SavedByChunks,
    in_order,
    runs_of_small,
)
from sqlstream.runtime.state.operator_state import NeverExpires, PendingTables, StateScope
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, key_group_column
from sqlstream.runtime.state.storage.arrays import Array, held_bytes, self_contained

_SLICES_CUT_MAX = 4
"""A batch is cut into at most this many runs of rows of one slice; one with more is kept whole."""
_SMALL_CHUNKS_MAX = 64
"""With more small chunks than this, they are merged: bounds the work per chunk when windows close."""
_LARGE_ROWS = 4_096
"""A chunk of at least this many rows is not merged: its cost when windows close depends on its rows alone."""


@dataclasses.dataclass
class SliceChunk:
    """Columns of rows whose slices end between `first_end` and `last_end`, both inclusive; immutable.

    `number` is its place in the log as snapshots have it, 0 before the first one. A part of a chunk, and what it is merged into
    with later ones, have its number. `stamp` is that of these rows. `is_grouped`: no two rows have one key and slice.
    """

    columns: list[pa.Array]
    first_end: int
    last_end: int
    number: int = 0
    stamp: int = dataclasses.field(default_factory=itertools.count().__next__)
    is_grouped: bool = False

    @property
    def rows(self) -> int:
        return len(self.columns[-1])

    @property
    def is_one_slice(self) -> bool:
        return self.first_end == self.last_end


@dataclasses.dataclass(frozen=True)
class SliceColumns:
    """The columns of a SliceLog: their names, which of them are the key, and which holds the slice ends, int64 ms."""

    names: Sequence[str]
    keys: Sequence[int]
    end: int


class SliceLog(SavedByChunks, NeverExpires):
    """Rows or partials of open windows, in order of arrival.

    Rows of one slice usually arrive in one run; a long run becomes a chunk of its own, so that firing, forgetting and
    merging work on whole chunks. Chunks are never written to: a snapshot keeps references to them and copies nothing.
    A log that is not `is_by_key` (before an exchange) has rows of key groups that other subtasks have too: it is always saved
    whole, since an increment finds the chunk that it changes by key group and number.
    State: all rows that were appended and not yet removed or forgotten. No row expires by processing time: windows forget
    their rows when they close.
    """

    def __init__(
        self, name: str, columns: SliceColumns, scope: StateScope, *, is_by_key: bool = True
    ) -> None:
        self.name = name
        self._columns = columns
        self._scope = scope
        self._is_by_key = is_by_key
        self.chunks: list[SliceChunk] = []
        self._small_chunks = 0
        self._memory = memory_in_force()
        self._changes = ChunkChanges(name, columns.names)

    # -- what the runtime calls ----------------------------------------------------------------------

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        return super().begin(checkpoint_id, is_full=is_full or not self._is_by_key)

    def chunk_copies(self) -> list[ChunkCopy]:
        """The chunks as they are. Their key groups are computed when they are collected."""
        last = 0
        for chunk in self.chunks:
            if chunk.number <= last:
                chunk.number = self._changes.next_number()
            last = chunk.number
        return [
            ChunkCopy(c.number, c.stamp, c.rows, functools.partial(self._saved, c.columns))
            for c in self.chunks
        ]

    def _saved(self, columns: list[pa.Array]) -> tuple[pa.Array, list[pa.Array]]:
        keys = [columns[key] for key in self._columns.keys]
        return key_group_column(keys, len(columns[-1]), self._scope.max_parallelism), columns

    def load(self, saved: SavedTables) -> None:
        for batch in in_order(saved.batches(self.name)):
            self.append(batch.columns[FIXED_COLUMNS:])

    def nbytes(self) -> int:
        return held_bytes(column for chunk in self.chunks for column in chunk.columns) + self._changes.nbytes

    # -- what operators call -------------------------------------------------------------------------

    @property
    def rows(self) -> int:
        return sum([len(chunk.columns[-1]) for chunk in self.chunks])

    @property
    def first_end(self) -> int:
        """The least slice end, WATERMARK_MAX when the log is empty."""
        return min((chunk.first_end for chunk in self.chunks), default=WATERMARK_MAX)

    @property
    def last_end(self) -> int:
        """The greatest slice end, WATERMARK_MIN when the log is empty."""
        return max((chunk.last_end for chunk in self.chunks), default=WATERMARK_MIN)

    def ends(self, columns: list[pa.Array]) -> Array:
        return view_values(columns[self._columns.end], np.int64)

    def append(self, columns: list[pa.Array]) -> int:
        """Add the rows of these columns, at least one; returns the least of their slice ends."""
        added = self._cut(self._memory.settled(self_contained(columns)))
        self.chunks += added
        self._small_chunks += sum(chunk.rows < _LARGE_ROWS for chunk in added)
        if self._small_chunks > _SMALL_CHUNKS_MAX:
            self._compact()
        return min(chunk.first_end for chunk in added)

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
            SliceChunk(_run(columns, low, high), int(ends[low]), int(ends[low]))
            for low, high in itertools.pairwise(bounds)
        ]

    def _chunk(self, columns: list[pa.Array], number: int = 0) -> SliceChunk:
        first, last = extent(self.ends(columns))
        return SliceChunk(columns, int(first), int(last), number)

    def _settled(self, columns: list[pa.Array], number: int = 0) -> SliceChunk:
        """A chunk in the memory that the log takes."""
        return self._chunk(self._memory.settled(columns), number)

    def _compact(self) -> None:
        """Merge each run of small chunks into one, up to the size of a large one; the order is kept."""
        runs = runs_of_small(self.chunks, lambda chunk: chunk.rows, _LARGE_ROWS)
        self.replace(self._settled(concat(run), run[0].number) if len(run) > 1 else run[0] for run in runs)

    def replace(self, chunks: Iterable[SliceChunk]) -> None:
        """Replace all chunks."""
        self.chunks = list(chunks)
        self._small_chunks = 0

    def replace_by(self, columns: list[pa.Array]) -> SliceChunk | None:
        """Replace all chunks by one, which is returned; by none when the columns have no rows."""
        chunk = self._settled(columns) if len(columns[-1]) else None
        self.replace([] if chunk is None else [chunk])
        return chunk

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
        taken = self.take_chunks_until(last_end)
        return concat(taken) if taken else None

    def take_chunks_until(self, last_end: int) -> list[SliceChunk]:
        """As `take_until`, by chunk."""
        taken: list[SliceChunk] = []
        self._split(taken, lambda ends: ends <= last_end)
        return taken

    def take_all(self) -> list[pa.Array] | None:
        """Remove and return all rows, in order of arrival; None when there are none."""
        taken = self.chunks
        self.replace([])
        return concat(taken) if taken else None

    def forget(self, is_over: Callable[[Array], Array]) -> None:
        """Drop the rows for whose slice ends `is_over` is true; it must be true up to some end, and false beyond."""
        self._split([], is_over)

    def _split(self, taken: list[SliceChunk], is_taken: Callable[[Array], Array]) -> None:
        kept: list[SliceChunk] = []
        extents = np.array([(chunk.first_end, chunk.last_end) for chunk in self.chunks], dtype=np.int64)
        of_ends = is_taken(extents.reshape(-1)).reshape(-1, 2).tolist()
        for chunk, (first, last) in zip(self.chunks, of_ends, strict=True):
            if first == last:
                (taken if first else kept).append(chunk)
                continue
            mask = is_taken(self.ends(chunk.columns))
            taken.append(self._taken(chunk, mask))
            kept.append(self._settled(self._select(chunk, ~mask).columns, chunk.number))
        self.chunks = kept

    def _taken(self, chunk: SliceChunk, mask: Array) -> SliceChunk:
        count = int(np.count_nonzero(mask))
        # Rows that came by time are a run, which is not copied: it is not kept.
        if mask[:count].all():
            return self._chunk([column.slice(0, count) for column in chunk.columns], chunk.number)
        return self._select(chunk, mask)

    def _select(self, chunk: SliceChunk, mask: Array) -> SliceChunk:
        rows = to_array(pa.int64(), np.flatnonzero(mask))
        return self._chunk([column.take(rows) for column in chunk.columns], chunk.number)


def concat(chunks: list[SliceChunk]) -> list[pa.Array]:
    """The concatenated columns of at least one chunk."""
    if len(chunks) == 1:
        return chunks[0].columns
    width = len(chunks[0].columns)
    return [pa.concat_arrays([chunk.columns[i] for chunk in chunks]) for i in range(width)]


def _run(columns: list[pa.Array], low: int, high: int) -> list[pa.Array]:
    """Rows [low, high) of columns: a copy of a short run, which would keep the memory of the whole columns."""
    if 2 * (high - low) < len(columns[-1]):
        rows = to_array(pa.int64(), np.arange(low, high))
        return [column.take(rows) for column in columns]
    return [column.slice(low, high - low) for column in columns]
