"""Splits a batch by the subtask of its keys: one stable pass finds the order, and each column is copied once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream.arrow import is_changelog, row_kinds, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.runtime.kernels.keys.hashing import KeyHashes, hash_columns
from sqlstream.runtime.kernels.keys.words import has_one_value, is_bytes_type
from sqlstream.runtime.kernels.take import take_batch, take_rows, take_words
from sqlstream.runtime.native.kernel import kernel

_HELD_BYTES_MAX = 65_536


class KeySplitter:
    """Sends each row to the subtask that owns the key group of its key. Implements `Splitter`. No state.

    Of an update whose halves go to two subtasks, one deletes a row and the other inserts one.

    The parts are slices of one copy of the batch; a batch whose rows all go to one subtask is not copied."""

    splits_rows = True

    def __init__(self, key_columns: Sequence[int], parallelism: int, max_parallelism: int) -> None:
        """At least one key column."""
        self._key_columns = tuple(key_columns)
        self._parallelism = parallelism
        # Flink's computeOperatorIndexForKeyGroup.
        groups = np.arange(max_parallelism, dtype=np.int64)
        self._subtasks = (groups * parallelism // max_parallelism).astype(np.int32)

    def split(
        self, batch: pa.RecordBatch, rows: np.ndarray | None = None
    ) -> list[tuple[int, pa.RecordBatch, int, KeyHashes | None]]:
        """The rows of each subtask that has any, in their order, by subtask; their share of the batch's bytes; their hashes.

        With `rows` (int32, positions in the batch) only those, which are copied once in all."""
        keys = [batch.column(column) for column in self._key_columns]
        if rows is not None:
            keys = [take_rows(key, rows) for key in keys]
        if len(keys[0]) == 0:
            return []
        hashes = hash_columns(keys)
        order = np.empty(len(hashes), dtype=np.int32)
        starts = np.zeros(self._parallelism + 1, dtype=np.int64)
        _order_by_subtask(hashes, self._subtasks, order, starts, np.empty(self._parallelism, dtype=np.int64))
        filled = np.flatnonzero(np.diff(starts)).tolist()
        if len(filled) == 1:
            part = batch if rows is None else take_batch(batch, rows)
            return [(filled[0], part, part.nbytes, self._key_hashes(part, hashes))]
        if is_changelog(batch):
            batch = self._with_single_halves(batch, rows, hashes)
        ordered = _ordered(batch, order) if rows is None else take_batch(batch, rows[order])
        hashes = take_words(hashes, order)
        held_bytes = ordered.get_total_buffer_size()
        # A column that was not copied may be a small part of what it holds; to tell its own bytes takes 15 µs.
        row_bytes = (held_bytes if held_bytes <= _HELD_BYTES_MAX else ordered.nbytes) / ordered.num_rows
        bounds = starts.tolist()
        parts: list[tuple[int, pa.RecordBatch, int, KeyHashes | None]] = []
        for s in filled:
            part = ordered.slice(bounds[s], bounds[s + 1] - bounds[s])
            key_hashes = self._key_hashes(part, hashes[bounds[s] : bounds[s + 1]])
            parts.append((s, part, int(row_bytes * part.num_rows), key_hashes))
        return parts

    def _with_single_halves(
        self, batch: pa.RecordBatch, rows: np.ndarray | None, hashes: np.ndarray
    ) -> pa.RecordBatch:
        every = row_kinds(batch)
        kinds = every if rows is None else every[rows]
        befores = np.flatnonzero(kinds[:-1] == RowKind.UPDATE_BEFORE)
        is_moved = self._subtasks_of(hashes[befores]) != self._subtasks_of(hashes[befores + 1])
        moved = befores[is_moved]
        if not len(moved):
            return batch
        changed = kinds.copy()
        changed[moved], changed[moved + 1] = RowKind.DELETE, RowKind.INSERT
        if rows is not None:
            kinds, changed = changed, every.copy()
            changed[rows] = kinds
        return with_row_kinds(batch, changed)

    def _subtasks_of(self, hashes: np.ndarray) -> np.ndarray:
        shift, groups = np.uint64(32), np.uint64(len(self._subtasks))
        return self._subtasks[(((hashes >> shift) * groups) >> shift).astype(np.int64)]

    def _key_hashes(self, part: pa.RecordBatch, hashes: np.ndarray) -> KeyHashes:
        return KeyHashes([part.column(column) for column in self._key_columns], hashes)


def _ordered(batch: pa.RecordBatch, order: np.ndarray) -> pa.RecordBatch:
    """All rows of a batch; texts that are the same in all of them, such as the day, are not copied."""
    columns = [
        column if is_bytes_type(column.type) and has_one_value(column) else take_rows(column, order)
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@kernel("void(uint64[::1], int32[::1], int32[::1], int64[::1], int64[::1])")
def _order_by_subtask(hashes, subtasks, order, starts, place):  # type: ignore[no-untyped-def]
    """A stable counting sort. `starts` must be zeros; `place`, one entry per subtask, is scratch memory."""
    key_groups = np.uint64(len(subtasks))
    shift = np.uint64(32)
    for i in range(len(hashes)):
        starts[subtasks[((hashes[i] >> shift) * key_groups) >> shift] + 1] += 1
    for s in range(len(place)):
        place[s] = starts[s]
        starts[s + 1] += starts[s]
    for i in range(len(hashes)):
        s = subtasks[((hashes[i] >> shift) * key_groups) >> shift]
        order[place[s]] = i
        place[s] += 1
