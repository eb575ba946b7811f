"""A copy of a table as it was when its snapshot began, taken in pieces while the table changes."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.slots.changes import find_changed
from sqlstream.runtime.state.snapshots.current_rows import SLOT_COLUMN, VERSION_COLUMN
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, SnapshotAborted
from sqlstream.runtime.state.storage.arrays import Array, unique_names

_FIRST_SLOTS = 1 << 15
_SLOTS_MAX = 1 << 18
_PIECE_BYTES = 6 << 20
"""How many slots a piece has: the first so many, others those of about so many bytes. A piece costs half a millisecond beside
what its bytes do. The operator's thread may have to wait until one is copied, for one to two milliseconds."""
_SCANNED_SLOTS = 1 << 20
"""What one piece reads at most."""
_PAUSE_S = 0.0001
"""After each piece, so that a waiting operator's thread gets the table's lock and the interpreter's."""


class ChangeSource(Protocol):
    """The entries of a table by slot, as snapshots save them."""

    @property
    def slot_count(self) -> int:
        """One more than the highest slot in use."""

    @property
    def row_count(self) -> int:
        """How many rows a whole copy has at this moment."""

    def is_live(self, slots: Array) -> Array:
        """bool[n]: which slots hold an entry."""

    def key_groups(self, slots: Array) -> Array:
        """int32[n]: the key group of each live slot."""

    @property
    def saved_names(self) -> list[str]:
        """The names of the saved columns."""

    def saved(self, slots: Array) -> tuple[Array, list[pa.Array]]:
        """(slot of each row int64[n], the saved columns) of live slots, each of which has a row or more; copies."""


@dataclasses.dataclass(frozen=True)
class GoneEntries:
    """Entries that were forgotten in an epoch: int32[n] slots and int32[n] key groups."""

    epoch: int
    slots: Array
    key_groups: Array


TableLock = AbstractContextManager[Any]
"""What keeps the thread that collects from seeing a table in the middle of a change: an RLock."""

_Read = tuple[Callable[["Collection"], None], ChangeSource, GrowingArray]


class Collection:
    """The entries that had changed since the checkpoint `base` (None: all) when the snapshot began, in epoch `until`.

    The table's `Changes` reads `after`, `next` and `end`: a slot between the last two whose epoch is above `after` has still to
    be read. State: the rows that are copied and not yet read. All but `stream` is called with the table's lock held.
    """

    def __init__(
        self,
        lock: TableLock,
        ended: Callable[[Collection], None],
        source: ChangeSource,
        epochs: GrowingArray,
        checkpoint_id: int,
        until: int,
        *,
        base: tuple[int, int] | None,
        gone: list[GoneEntries],
    ) -> None:
        """`base`: (checkpoint id, epoch) of what the snapshot follows. `ended` is called after the last piece."""
        self.checkpoint_id = checkpoint_id
        self.base_id = base[0] if base else None
        self.after = base[1] if base else -1
        self.next = 0
        self.end = source.slot_count
        self.rows = 0
        self.held_bytes = 0
        """Of the rows that are copied and not yet read."""
        self.lock = lock
        # Until the end: the changes hold the collection until the fate of its checkpoint is known.
        self._reads: _Read | None = (ended, source, epochs)
        self._version = 0 if base is None else checkpoint_id
        self._until = until
        self._gone = gone
        self._batches: list[pa.RecordBatch] = []
        self._schema: pa.Schema | None = None
        self._is_given_up = False
        self._piece_slots = min(_FIRST_SLOTS, _SLOTS_MAX)

    def keep(self, slots: Array) -> None:
        """Copy the entries of slots, that of one that has not been read before it changes."""
        if len(slots) and self._reads is not None:
            self._hold(self._batch(self._reads[1], slots))

    def _hold(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.held_bytes += batch.get_total_buffer_size()

    def stream(self) -> pa.RecordBatchReader:
        """All rows, read once, on any thread, which copies them piece by piece as they are read: what has been dropped of them
        holds no memory. Reading raises SnapshotAborted when they were given up."""
        batches = self._pieces()
        first = next(batches)
        return pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))

    def _pieces(self) -> Iterator[pa.RecordBatch]:
        is_done = False
        while not is_done:
            with self.lock:
                is_done = self._read_piece()
                batches, self._batches, self.held_bytes = self._batches, [], 0
            if self._is_given_up:
                raise SnapshotAborted
            yield from batches
            if not is_done:
                time.sleep(_PAUSE_S)

    def finish(self) -> None:
        """Read all that is left at once."""
        while not self._read_piece():
            pass

    def give_up(self) -> None:
        """Forget what was collected."""
        self._is_given_up = True
        self._batches, self._gone, self.held_bytes = [], [], 0
        self._end()

    def _end(self) -> None:
        if self._reads is not None:
            self._reads[0](self)
            self._reads = None

    def _read_piece(self) -> bool:
        """Whether nothing is left to read."""
        if self._reads is None:
            return True
        _, source, epochs = self._reads
        slots: Array = np.empty(self._piece_slots, dtype=np.int64)
        end = min(self.end, self.next + _SCANNED_SLOTS)
        self.next, count = find_changed(epochs.values, self.next, end, self.after, self._until, slots)
        slots = slots[:count]
        held_bytes = self.held_bytes
        self.keep(slots[source.is_live(slots)])
        if count:
            fitting = count * _PIECE_BYTES // max(1, self.held_bytes - held_bytes)
            # At most twice as many: the rows of the next may be larger.
            self._piece_slots = min(max(1, fitting), 2 * self._piece_slots, _SLOTS_MAX)
        if self.next < self.end:
            return False
        if self._schema is None:
            self._hold(self._batch(source, slots[:0]))
        for gone in self._gone:
            self._hold(self._gone_batch(gone.slots, gone.key_groups))
        self._end()
        return True

    def _batch(self, source: ChangeSource, slots: Array) -> pa.RecordBatch:
        owners, columns = source.saved(slots)
        fixed = self._fixed(source.key_groups(owners), owners, self._version)
        arrays = [*fixed, *columns]
        if self._schema is None:
            names = unique_names([KEY_GROUP_COLUMN, SLOT_COLUMN, VERSION_COLUMN, *source.saved_names])
            self._schema = pa.RecordBatch.from_arrays(arrays, names=names).schema
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self.rows += batch.num_rows
        return batch

    def _gone_batch(self, slots: Array, key_groups: Array) -> pa.RecordBatch:
        schema = self._schema
        assert schema is not None
        fixed = self._fixed(key_groups, slots, -self._version)
        nulls = [pa.nulls(len(slots), field.type) for field in list(schema)[len(fixed) :]]
        self.rows += len(slots)
        return pa.RecordBatch.from_arrays([*fixed, *nulls], schema=schema)

    def _fixed(self, key_groups: Array, slots: Array, version: int) -> list[pa.Array]:
        return [
            to_array(pa.int32(), key_groups),
            to_array(pa.int32(), slots.astype(np.int32)),
            to_array(pa.int64(), np.full(len(slots), version)),
        ]
