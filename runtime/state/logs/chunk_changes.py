"""The snapshots of a log of chunks: references to what is never written again, and only the chunks that are new."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array, view_values
from sqlstream.runtime.state.operator_state import PendingTables
from sqlstream.runtime.state.snapshots.changes import Link, SnapshotChain
from sqlstream.runtime.state.snapshots.current_rows import FIXED_COLUMNS, SLOT_COLUMN, VERSION_COLUMN
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, SavedTables, SnapshotAborted
from sqlstream.runtime.state.storage.arrays import Array, unique_names

Chunk = TypeVar("Chunk")


def runs_of_small(
    chunks: Iterable[Chunk], rows_of: Callable[[Chunk], int], rows_max: int
) -> list[list[Chunk]]:
    """The chunks in order, as runs to merge: the small neighbours in one run have at most `rows_max` rows in total."""
    runs: list[list[Chunk]] = []
    rows = 0
    for chunk in chunks:
        if not runs or rows + rows_of(chunk) > rows_max:
            runs.append([])
            rows = 0
        runs[-1].append(chunk)
        rows += rows_of(chunk)
    return runs


ChunkStates = dict[int, Hashable]
"""By number of the chunk what is equal as long as its rows are."""


@dataclasses.dataclass(frozen=True)
class ChunkCopy:
    """A chunk as it is when a snapshot begins. `make` returns the key groups of its rows and its saved columns, on any thread."""

    number: int
    state: Hashable
    rows: int
    make: Callable[[], tuple[pa.Array, list[pa.Array]]]


class ChunkChanges:
    """Which chunks of a log each snapshot holds.

    A chunk is an entry of the saved table, whose slot is the chunk's number; numbers rise in the order of the log. State: the
    chain; per chunk of its snapshots the key groups of its rows, which their deletion needs; the schema."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self.name = name
        self.names = unique_names([KEY_GROUP_COLUMN, SLOT_COLUMN, VERSION_COLUMN, *names])
        self.schema: pa.Schema | None = None
        self._lock = threading.Lock()
        self._chain: SnapshotChain[ChunkStates] = SnapshotChain()
        self._key_groups: dict[tuple[int, Hashable], Array] = {}
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        return next(self._numbers)

    def begin(self, checkpoint_id: int, chunks: list[ChunkCopy], *, is_full: bool) -> ChunkCollection:
        with self._lock:
            states = {chunk.number: chunk.state for chunk in chunks}
            rows = sum(chunk.rows for chunk in chunks)
            link = self._chain.begin(checkpoint_id, states, rows, is_full=is_full)
            collection = ChunkCollection(self, link, chunks)
            link.collected = collection
            return collection

    def completed(self, checkpoint_id: int) -> None:
        with self._lock:
            self._chain.completed(checkpoint_id)
            self._forget_unheld()

    def aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            self._chain.aborted(checkpoint_id)
            self._forget_unheld()

    def _forget_unheld(self) -> None:
        pending = self._chain.pending
        # What a pending one follows may be in the chain no more, as a later one has been completed.
        bases = [base for link in pending for base in link.before[-1:]]
        held = {item for link in (*self._chain.links, *pending, *bases) for item in link.mark.items()}
        self._key_groups = {key: groups for key, groups in self._key_groups.items() if key in held}

    def saved(self, chunk: ChunkCopy, batch: pa.RecordBatch) -> None:
        """A collection has copied a chunk."""
        groups = np.unique(view_values(batch.column(0), np.int32))
        with self._lock:
            self.schema = batch.schema
            self._key_groups[chunk.number, chunk.state] = groups

    def key_groups(self, number: int, state: Hashable) -> Array:
        with self._lock:
            return self._key_groups[number, state]

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes."""
        # Another thread adds to them as it collects.
        with self._lock:
            return sum(groups.nbytes for groups in self._key_groups.values())


class ChunkCollection:
    """Implements `PendingTables`: the chunks that the base of the link does not hold, and deletions of those that are gone.
    State: references to the chunks, until they are collected or given up."""

    def __init__(self, changes: ChunkChanges, link: Link[ChunkStates], chunks: list[ChunkCopy]) -> None:
        self.rows = 0
        base = link.before[-1] if link.before else None
        self._base_id = base.checkpoint_id if base else None
        self._base: ChunkStates = base.mark if base else {}
        self._states = link.mark
        self._version = link.checkpoint_id if base else 0
        self._changes = changes
        self._chunks: list[ChunkCopy] | None = chunks

    def give_up(self) -> None:
        self._chunks = None

    def collect(self) -> SavedTables:
        chunks, self._chunks = self._chunks, None
        if chunks is None:
            raise SnapshotAborted
        name, schema = self._changes.name, self._changes.schema
        batches = [self._copied(chunk) for chunk in chunks if self._base.get(chunk.number) != chunk.state]
        batches += [
            self._deletion(number, state)
            for number, state in self._base.items()
            if self._states.get(number) != state
        ]
        self.rows = sum(batch.num_rows for batch in batches)
        if self._base_id is None:
            return SavedTables(keyed={name: pa.Table.from_batches(batches)} if batches else {})
        table = pa.Table.from_batches(batches, schema)
        return SavedTables(keyed={name: table}, increments={name: self._base_id})

    def stream(self) -> SavedTables:
        """Chunks are not copied."""
        return self.collect()

    def _copied(self, chunk: ChunkCopy) -> pa.RecordBatch:
        groups, columns = chunk.make()
        fixed = [groups, *self._fixed(chunk.number, len(groups), self._version)]
        batch = pa.RecordBatch.from_arrays([*fixed, *columns], names=self._changes.names)
        self._changes.saved(chunk, batch)
        return batch

    def _deletion(self, number: int, state: Hashable) -> pa.RecordBatch:
        schema, groups = self._changes.schema, self._changes.key_groups(number, state)
        assert schema is not None
        fixed = [to_array(pa.int32(), groups), *self._fixed(number, len(groups), -self._version)]
        nulls = [pa.nulls(len(groups), field.type) for field in list(schema)[FIXED_COLUMNS:]]
        return pa.RecordBatch.from_arrays([*fixed, *nulls], schema=schema)

    def _fixed(self, number: int, rows: int, version: int) -> list[pa.Array]:
        numbers, versions = np.full(rows, number, dtype=np.int32), np.full(rows, version, dtype=np.int64)
        return [to_array(pa.int32(), numbers), to_array(pa.int64(), versions)]


class SavedByChunks:
    """The part of a `StateTable` that saves itself chunk by chunk. It gives `ChunkChanges`, and `chunk_copies` on the operator's
    thread."""

    _changes: ChunkChanges

    def chunk_copies(self) -> list[ChunkCopy]:
        raise NotImplementedError

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        return self._changes.begin(checkpoint_id, self.chunk_copies(), is_full=is_full)

    def completed(self, checkpoint_id: int) -> None:
        self._changes.completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        self._changes.aborted(checkpoint_id)

    def save(self) -> SavedTables:
        """A whole copy, at once."""
        return self.begin(0, is_full=True).collect()


def in_order(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows that increments leave, by the number of their chunk; each batch is of one chunk. Without increments they stand in
    order."""
    batches = list(batches)
    if not any(view_values(batch.column(2), np.int64).any() for batch in batches):
        return batches
    runs: list[tuple[int, pa.RecordBatch]] = []
    for batch in batches:
        numbers = view_values(batch.column(1), np.int32)
        bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
        runs += [
            (int(numbers[low]), batch.slice(low, high - low)) for low, high in itertools.pairwise(bounds)
        ]
    return [batch for _, batch in sorted(runs, key=lambda run: run[0])]
