"""A log of rows with times, appended at one end and removed by time: the state of interval and window joins."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.logs.chunk_changes import (
    ChunkChanges,
    ChunkCopy,
    SavedByChunks,
    in_order,
    runs_of_small,
)
from sqlstream.runtime.state.operator_state import LaterTables, NeverExpires, PendingTables, StateScope
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS
from sqlstream.runtime.state.snapshots.snapshot import SavedTables, key_group_column
from sqlstream.runtime.state.storage.arrays import Array, held_bytes, self_contained, unique_names

_SMALL_CHUNKS_MAX = 32
"""With more small chunks than this, they are merged: bounds the work per chunk of each probe."""
_LARGE_ROWS = 16_384
"""A chunk of at least this many rows is not merged: the cost of probing it depends on its rows alone."""
_SUBTASK_COLUMN = "$subtask"
_REMOVED_COLUMN = "$removed_until_ms"
_ROW_COLUMNS = ("$time_ms", "$is_matched")


class Spread(enum.Enum):
    """Which subtask holds which rows of a log.

    BY_KEY: a row is in the subtask of its key group; without keys all rows are in one subtask. ANYWHERE: a row may be in any
    subtask. EVERYWHERE: each subtask holds all rows, but for those that it has removed.
    """

    BY_KEY = "BY_KEY"
    ANYWHERE = "ANYWHERE"
    EVERYWHERE = "EVERYWHERE"


@dataclasses.dataclass
class Chunk:
    """Rows in order of arrival, `times` int64[n] ms, and for each row whether it has matched, which alone is written to.

    `nbytes` is the memory that it holds. `key_groups` are those of the rows, int32, once a snapshot has asked for them. `number`
    is its place in the log as snapshots have it, 0 before the first one; a part of a chunk, and what it is merged into with later
    ones, have its number. `index` is what an operator has derived from these rows, after so many
    `probes`. `stamp` is that of these rows.
    """

    batch: pa.RecordBatch
    times: Array
    is_matched: Array
    earliest: int
    latest: int
    nbytes: int
    number: int = 0
    key_groups: pa.Array | None = None
    index: Any = None
    probes: int = 0
    stamp: int = dataclasses.field(default_factory=itertools.count().__next__)


class RowLog(SavedByChunks, NeverExpires):
    """Rows in order of arrival; `keys` are the columns that their key group comes from. No batch is held for a few of its rows.

    State: all rows that were appended and not yet removed. No row expires by itself: the operator removes rows by their times.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        scope: StateScope,
        keys: tuple[int, ...] = (),
        spread: Spread = Spread.BY_KEY,
    ) -> None:
        self.name = name
        self.schema = schema
        self.chunks: list[Chunk] = []
        self._scope = scope
        self._keys = keys
        self._spread = spread
        self._small_chunks = 0
        self._removed_until = WATERMARK_MIN
        self._next_group = scope.subtask
        self._memory = memory_in_force()
        self._changes = ChunkChanges(name, [*_ROW_COLUMNS, *schema.names])

    # -- what operators call -------------------------------------------------------------------------

    def append(self, batch: pa.RecordBatch, times: Array, is_matched: Array | None = None) -> None:
        """Add rows; the log keeps and changes `is_matched`."""
        if batch.num_rows == 0:
            return
        # Inputs of a UNION ALL may differ in their column names; chunks are concatenated.
        given = batch.columns
        columns = self_contained(given)
        if times.base is not None and any(new is not old for new, old in zip(columns, given, strict=True)):
            # A view of a column would hold the memory that the copies are to release.
            times = times.copy()
        kept = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        matched = np.zeros(batch.num_rows, dtype=bool) if is_matched is None else is_matched
        self.chunks.append(self._settled(_chunk(kept, times, matched)))
        self._small_chunks += batch.num_rows < _LARGE_ROWS
        if self._small_chunks > _SMALL_CHUNKS_MAX:
            self._compact()

    def _compact(self) -> None:
        """Merge each run of small chunks into one, up to the size of a large one; the order is kept."""
        runs = runs_of_small(self.chunks, lambda chunk: len(chunk.times), _LARGE_ROWS)
        self.chunks = [run[0] if len(run) == 1 else self._settled(_concat(run)) for run in runs]
        self._small_chunks = 0

    def _settled(self, chunk: Chunk) -> Chunk:
        """The same rows, in the memory that the log takes."""
        columns = [*chunk.batch.columns, to_array(pa.int64(), chunk.times)]
        settled = self._memory.settled(columns)
        if settled is columns:
            return chunk
        batch = pa.RecordBatch.from_arrays(settled[:-1], schema=self.schema)
        return dataclasses.replace(chunk, batch=batch, times=view_values(settled[-1], np.int64))

    @property
    def row_count(self) -> int:
        return sum(chunk.batch.num_rows for chunk in self.chunks)

    @property
    def earliest(self) -> int:
        """The least time in the log, WATERMARK_MAX when it is empty."""
        return min((c.earliest for c in self.chunks), default=WATERMARK_MAX)

    def take_until(self, limit: int) -> list[Chunk]:
        """Remove and return all rows with time <= limit, in order."""
        self._removed_until = max(self._removed_until, limit)
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
                removed.append(_select(chunk, np.flatnonzero(out)))
                kept.append(self._settled(_select(chunk, np.flatnonzero(~out))))
        self.chunks = kept
        return removed

    # -- what the runtime calls ----------------------------------------------------------------------

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        """A log that is EVERYWHERE is a shared table, always whole. The logs of the subtasks differ only by the rows that they
        have removed, more of them the later their limit: the log with the least limit holds the rows of all others."""
        if self._spread is not Spread.EVERYWHERE:
            # A chunk is known by its key group and number. Rows that may be anywhere have key groups of all subtasks.
            return super().begin(checkpoint_id, is_full=is_full or self._spread is Spread.ANYWHERE)
        copies, removed_until = self.chunk_copies(), self._removed_until
        return LaterTables(lambda: self._shared(copies, removed_until))

    def save(self) -> SavedTables:
        """A whole copy, at once."""
        return self.begin(0, is_full=True).collect()

    def chunk_copies(self) -> list[ChunkCopy]:
        """The chunks as they are: only the flags of matched rows are copied, where there are any."""
        last, copies = 0, []
        for chunk in self.chunks:
            if chunk.number <= last:
                chunk.number = self._changes.next_number()
            last = chunk.number
            matched = int(np.count_nonzero(chunk.is_matched))
            is_matched = to_array(pa.bool_(), chunk.is_matched) if matched else None
            make = functools.partial(self._saved, chunk, is_matched)
            copies.append(ChunkCopy(chunk.number, (chunk.stamp, matched), len(chunk.times), make))
        return copies

    def _saved(self, chunk: Chunk, is_matched: pa.Array | None) -> tuple[pa.Array, list[pa.Array]]:
        rows = len(chunk.times)
        if chunk.key_groups is None:
            chunk.key_groups = self._key_groups(chunk.batch)
        flags = to_array(pa.bool_(), np.zeros(rows, dtype=bool)) if is_matched is None else is_matched
        return chunk.key_groups, [to_array(pa.int64(), chunk.times), flags, *chunk.batch.columns]

    def _shared(self, copies: list[ChunkCopy], removed_until: int) -> SavedTables:
        if not copies:
            return SavedTables()
        names = unique_names([_SUBTASK_COLUMN, _REMOVED_COLUMN, *_ROW_COLUMNS, *self.schema.names])
        batches = []
        for copy in copies:
            groups, columns = copy.make()
            fixed = [
                pa.repeat(pa.scalar(self._scope.subtask, pa.int32()), len(groups)),
                pa.repeat(pa.scalar(removed_until, pa.int64()), len(groups)),
            ]
            batches.append(pa.RecordBatch.from_arrays([*fixed, *columns], names=names))
        return SavedTables(shared={self.name: pa.Table.from_batches(batches)})

    def _key_groups(self, batch: pa.RecordBatch) -> pa.Array:
        if self._spread is Spread.ANYWHERE:
            # Any subtask may get the rows: spread them evenly over all.
            numbers = np.arange(self._next_group, self._next_group + batch.num_rows)
            self._next_group = (self._next_group + batch.num_rows) % self._scope.max_parallelism
            return pa.array(numbers % self._scope.max_parallelism, pa.int32())
        keys = [batch.column(k) for k in self._keys]
        return key_group_column(keys, batch.num_rows, self._scope.max_parallelism)

    def load(self, saved: SavedTables) -> None:
        if self._spread is Spread.EVERYWHERE:
            table = _most_complete(saved.shared.get(self.name))
            self._load([] if table is None else table.to_batches(), 2)
        else:
            self._load(in_order(saved.batches(self.name)), FIXED_COLUMNS)

    def _load(self, batches: list[pa.RecordBatch], skipped: int) -> None:
        for batch in batches:
            times, matched, *columns = batch.columns[skipped:]
            self.append(
                pa.RecordBatch.from_arrays(columns, schema=self.schema),
                view_values(times, np.int64).copy(),
                matched.to_numpy(zero_copy_only=False).astype(bool),
            )

    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self.chunks) + self._changes.nbytes


def _chunk(batch: pa.RecordBatch, times: Array, is_matched: Array, number: int = 0) -> Chunk:
    columns = [*batch.columns, to_array(pa.int64(), times)]
    nbytes = held_bytes(columns) + is_matched.nbytes
    return Chunk(batch, times, is_matched, int(times.min()), int(times.max()), nbytes, number)


def _concat(chunks: list[Chunk]) -> Chunk:
    batch = pa.concat_batches([c.batch for c in chunks])
    times = np.concatenate([c.times for c in chunks])
    return _chunk(batch, times, np.concatenate([c.is_matched for c in chunks]), chunks[0].number)


def _select(chunk: Chunk, rows: Array) -> Chunk:
    batch = chunk.batch.take(to_array(pa.int64(), rows))
    return _chunk(batch, chunk.times[rows], chunk.is_matched[rows], chunk.number)


def _most_complete(table: pa.Table | None) -> pa.Table | None:
    """Of the logs of all old subtasks the one that had removed least."""
    if table is None or table.num_rows == 0:
        return None
    least = int(np.argmin(table.column(_REMOVED_COLUMN).to_numpy()))
    return table.filter(pc.equal(table.column(_SUBTASK_COLUMN), table.column(_SUBTASK_COLUMN)[least]))


def concat_batches(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of any number of batches as one."""
    if not batches:
        return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
