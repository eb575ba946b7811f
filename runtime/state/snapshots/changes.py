"""Which entries of a table have changed since which snapshot, so that one copies only these, in pieces, while they change on."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import weakref
from typing import Generic, Protocol, TypeVar

import numpy as np

from sqlstream.runtime.kernels.growing import GrowingArray
from sqlstream.runtime.kernels.slots.changes import mark, mark_uncollected
from sqlstream.runtime.memory.array_memory import memory_in_force
from sqlstream.runtime.state.snapshots.collection import ChangeSource, Collection, GoneEntries, TableLock
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array

Mark = TypeVar("Mark")

_PENDING_MAX = 8
"""Snapshots whose end is not known; of more than these the oldest is taken for aborted."""
_SAVED_MAX = 2
"""How many times the rows of the table a chain may have before the next snapshot is whole."""
_SMALL_ROWS = 1 << 14
"""Increments with fewer rows in all are cheaper to copy again than to keep apart."""
_ALIKE_MAX = 16
"""With so many increments that stand for as many snapshots, the next one holds the changes of them all."""


class Collected(Protocol):
    """What copies the rows of a snapshot."""

    @property
    def rows(self) -> int:
        """The rows that it has copied."""

    def give_up(self) -> None:
        """Forget what was copied."""


@dataclasses.dataclass
class Link(Generic[Mark]):
    """A snapshot, which follows those of `before`.

    `mark` says what it holds, in the table's own terms. `weight` is how many increments it stands for, 0 for a whole copy. `rows`
    are those of the table when it begins, and those that it has copied once it is completed."""

    checkpoint_id: int
    mark: Mark
    weight: int
    before: tuple[Link[Mark], ...]
    collected: Collected | None = None
    rows: int = 0


class SnapshotChain(Generic[Mark]):
    """The last completed snapshot with all that it follows, a whole copy first; and those whose end is not known.

    Increments are put together by holding the changes of several: small ones two by two, others sixteen by sixteen, so that
    each row is copied seldom and the chain stays short. Once as many of its rows are replaced or gone as are in the table, all
    increments are put together. If that does not suffice, the next snapshot is whole.
    State: the links, which for 255 snapshots are at most forty, and those whose end is not known.
    """

    def __init__(self) -> None:
        self.links: tuple[Link[Mark], ...] = ()
        self.pending: list[Link[Mark]] = []
        self._completed_id = 0

    def begin(self, checkpoint_id: int, mark: Mark, row_count: int, *, is_full: bool) -> Link[Mark]:
        """A snapshot of a table with so many rows begins; the last of the links before it is the one that it follows."""
        kept, weight = ((), 0) if is_full else self._kept(row_count)
        link = Link(checkpoint_id, mark, weight, kept, rows=row_count)
        self.pending = [*self.pending[1 - _PENDING_MAX :], link]
        return link

    def _kept(self, row_count: int) -> tuple[tuple[Link[Mark], ...], int]:
        """The links before the next snapshot, and its weight."""
        kept, weight = self.links, 1
        if not kept or not kept[0].rows:
            return (), 0
        # The next increment may be as large as the last.
        expected = kept[-1].rows // max(kept[-1].weight, 1) if len(kept) > 1 else 0
        if sum(link.rows for link in kept) + expected > _SAVED_MAX * row_count:
            if len(kept) < 3 or 2 * kept[1].rows > row_count:
                return (), 0
            # Increments may have replaced each other's rows more than those of the whole copy.
            return kept[:1], weight + sum(link.weight for link in kept)
        while alike := _alike(kept, weight):
            if sum(link.rows for link in alike) >= _SMALL_ROWS and len(alike) < _ALIKE_MAX - 1:
                break
            kept, weight = kept[: -len(alike)], weight + sum(link.weight for link in alike)
        return kept, weight

    def completed(self, checkpoint_id: int) -> None:
        """Increments may follow this snapshot, and none that is older."""
        if checkpoint_id > self._completed_id:
            self._completed_id = checkpoint_id
            self.links = self._links_of(checkpoint_id)
            self.pending = [link for link in self.pending if link.checkpoint_id > checkpoint_id]

    def _links_of(self, checkpoint_id: int) -> tuple[Link[Mark], ...]:
        found = [link for link in self.pending if link.checkpoint_id == checkpoint_id]
        if not found:
            return ()
        link = found[0]
        if link.before and self.links and link.before[0] is not self.links[0]:
            # What was forgotten after the first link of an older chain is no longer known.
            return ()
        rows = link.collected.rows if link.collected else 0
        return (*link.before, dataclasses.replace(link, before=(), collected=None, rows=rows))

    def aborted(self, checkpoint_id: int) -> None:
        """No increment will follow this snapshot, and nobody needs what it copies."""
        for link in self.pending:
            if link.checkpoint_id == checkpoint_id and link.collected is not None:
                link.collected.give_up()
        self.pending = [link for link in self.pending if link.checkpoint_id != checkpoint_id]

    @property
    def first(self) -> Link[Mark] | None:
        """What the increments to come follow, directly or not, as far as it is known; None when the next snapshot is whole."""
        return next(iter((*self.links, *self.pending)), None)

    def forget(self) -> None:
        """The next snapshot is whole."""
        self.links, self.pending = (), []


def _alike(links: tuple[Link[Mark], ...], weight: int) -> list[Link[Mark]]:
    """The last increments, of this weight or less."""
    return [*itertools.takewhile(lambda link: 0 < link.weight <= weight, reversed(links))]


_EPOCH_MAX = 255
_GONE_SPARE = 1 << 16
"""With more forgotten entries than rows in the last whole copy, and this many more, the next snapshot is whole, and they are no
longer kept, however long that snapshot is in coming."""


class Changes:
    """The changed slots of one table, and the copy of it that is being collected.

    A slot is the number of an entry of `source`. The table calls, on the operator's thread and holding `lock`: `created` after
    entries were made, `writing` before entries are changed, `forgetting` before they are forgotten. The first snapshot begins
    the counting; before it all three do nothing.
    An interval between two snapshots is an epoch, and each slot has a byte with the epoch of its last change. `begin` begins the
    next epoch and copies nothing. A collection then reads piece after piece, holding `lock`; an entry that changes before its
    piece is read is copied by the operator's thread first. So a piece never sees a half-written entry.
    An increment follows a completed snapshot (`SnapshotChain`), whose mark is its epoch.
    State: the bytes; the chain; slot and key group of each entry forgotten since its first link; the collections that are alive.
    """

    def __init__(self, source: ChangeSource, lock: TableLock | None = None) -> None:
        self.lock: TableLock = threading.RLock() if lock is None else lock
        # The table holds its changes: a reference back would keep both until the garbage collector comes.
        self._source_of = weakref.ref(source)
        self._memory = memory_in_force()
        self._epochs: GrowingArray | None = None
        self._epoch = 0
        self._collection: Collection | None = None
        self._unread: weakref.WeakSet[Collection] = weakref.WeakSet()
        self._chain: SnapshotChain[int] = SnapshotChain()
        self._gone: list[GoneEntries] = []
        self._gone_count = 0

    @property
    def _source(self) -> ChangeSource:
        source = self._source_of()
        assert source is not None
        return source

    @property
    def is_counting(self) -> bool:
        """Whether a snapshot has begun: before it nothing is counted."""
        return self._epochs is not None

    # -- what the table calls ------------------------------------------------------------------------

    def created(self, slots: Array) -> None:
        """These slots hold entries from here on."""
        if self._epochs is not None and len(slots):
            self._epochs.reserve(self._source.slot_count)
            mark(self._epochs.values, slots, self._epoch)

    def writing(self, slots: Array) -> None:
        """The entries of these slots are about to change."""
        if self._epochs is None or len(slots) == 0:
            return
        collection = self._collection
        if collection is None:
            mark(self._epochs.values, slots, self._epoch)
            return
        found = np.empty(len(slots), dtype=np.int64)
        count = mark_uncollected(
            self._epochs.values, slots, self._epoch, collection.after, collection.next, collection.end, found
        )
        if count:
            collection.keep(found[:count])

    def forgetting(self, slots: Array) -> None:
        """The entries of these distinct slots are about to be forgotten."""
        if self._epochs is None or len(slots) == 0:
            return
        self.writing(slots)
        if self._chain.first is not None:
            groups = self._source.key_groups(slots)
            self._gone.append(GoneEntries(self._epoch, slots.astype(np.int32), groups))
            self._gone_count += len(slots)
            self._forget_chain_if_long()

    @property
    def nbytes(self) -> int:
        """Memory held, in bytes, that of copies which no snapshot has read yet too."""
        gone = sum(g.slots.nbytes + g.key_groups.nbytes for g in self._gone)
        unread = sum(collection.held_bytes for collection in self._unread)
        return gone + unread + (0 if self._epochs is None else self._epochs.nbytes)

    # -- snapshots -----------------------------------------------------------------------------------

    def begin(self, checkpoint_id: int, *, is_full: bool) -> Collection:
        """What the table holds at this moment, to be collected. `is_full`: whole, whatever was saved before."""
        with self.lock:
            if self._collection is not None:
                # Two copies at once would need two bytes per slot.
                self._collection.finish()
            self._forget_chain_if_due()
            if self._epochs is None:
                self._epochs = GrowingArray(np.uint8, memory=self._memory)
            self._epochs.reserve(self._source.slot_count)
            link = self._chain.begin(checkpoint_id, self._epoch, self._source.row_count, is_full=is_full)
            base = link.before[-1] if link.before else None
            collection = Collection(
                self.lock, self._ended, self._source, self._epochs, checkpoint_id, self._epoch,
                base=(base.checkpoint_id, base.mark) if base else None,
                gone=[g for g in self._gone if base and base.mark < g.epoch],
            )  # fmt: skip
            link.collected = collection
            self._epoch += 1
            self._collection = collection
            self._unread.add(collection)
            return collection

    def _forget_chain_if_due(self) -> None:
        if self._epoch == _EPOCH_MAX:
            self._epochs, self._epoch = None, 0
            self._forget_chain()
        else:
            self._forget_chain_if_long()

    def _forget_chain_if_long(self) -> None:
        first = self._chain.first
        if first is not None and self._gone_count > first.rows + _GONE_SPARE:
            self._forget_chain()

    def _forget_chain(self) -> None:
        self._chain.forget()
        self._keep_gone([])

    def _keep_gone(self, gone: list[GoneEntries]) -> None:
        self._gone, self._gone_count = gone, sum(len(g.slots) for g in gone)

    def _ended(self, collection: Collection) -> None:
        """Called by a collection that has read its last piece, or is given up."""
        if self._collection is collection:
            self._collection = None

    def completed(self, checkpoint_id: int) -> None:
        """Increments may follow this snapshot, and none that is older."""
        with self.lock:
            self._chain.completed(checkpoint_id)
            if self._chain.links:
                first = self._chain.links[0].mark
                self._keep_gone([gone for gone in self._gone if gone.epoch > first])

    def aborted(self, checkpoint_id: int) -> None:
        """No increment will follow this snapshot, and nobody needs what it collects."""
        with self.lock:
            self._chain.aborted(checkpoint_id)
            # The chain may have been forgotten since it began.
            for collection in [c for c in self._unread if c.checkpoint_id == checkpoint_id]:
                collection.give_up()
            if self._chain.first is None:
                self._keep_gone([])


# The snapshots of a table that counts its changes.


@dataclasses.dataclass(frozen=True)
class CollectedTables:
    """Implements `PendingTables`: the collections of a table and of its parts, by name."""

    collections: dict[str, Collection]

    def collect(self) -> SavedTables:
        saved = self.stream()
        return dataclasses.replace(saved, keyed={name: rows.read_all() for name, rows in saved.keyed.items()})

    def stream(self) -> SavedTables:
        keyed = {name: collection.stream() for name, collection in self.collections.items()}
        increments = {name: c.base_id for name, c in self.collections.items() if c.base_id is not None}
        return SavedTables(keyed=keyed, increments=increments)


class SavedByChanges:
    """The part of a `StateTable` that saves itself by its `changes`: those of the table and of its parts, by name."""

    def __init__(self, changes: dict[str, Changes]) -> None:
        self._tracked = changes

    def begin(self, checkpoint_id: int, *, is_full: bool) -> CollectedTables:
        return CollectedTables(
            {name: changes.begin(checkpoint_id, is_full=is_full) for name, changes in self._tracked.items()}
        )

    def completed(self, checkpoint_id: int) -> None:
        for changes in self._tracked.values():
            changes.completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        for changes in self._tracked.values():
            changes.aborted(checkpoint_id)

    def save(self) -> SavedTables:
        """A whole copy, at once."""
        return self.begin(0, is_full=True).collect()
