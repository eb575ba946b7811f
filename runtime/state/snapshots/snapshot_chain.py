"""Which completed snapshots of a table the next increment follows."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Generic, Protocol, TypeVar

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
    increments are put together, and if that does not suffice, the next snapshot is whole.
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
