"""Which completed snapshots of a table the next increment follows."""

from __future__ import annotations

import dataclasses
from typing import Generic, Protocol, TypeVar

Mark = TypeVar("Mark")

_PENDING_MAX = 8
"""Snapshots whose end is not known; of more than these the oldest is taken for aborted."""


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

    `mark` says what it holds, in the table's own terms. `weight` is how many increments it stands for, 0 for a whole copy."""

    checkpoint_id: int
    mark: Mark
    weight: int
    before: tuple[Link[Mark], ...]
    collected: Collected | None = None
    rows: int = 0


class SnapshotChain(Generic[Mark]):
    """The last completed snapshot with all that it follows, a whole copy first; and those whose end is not known.

    With every second one an increment holds the changes of several, so that the chain stays as short as the logarithm of its
    length; once its increments have half as many rows as the whole copy, the next snapshot is whole.
    State: at most ten links of each kind.
    """

    def __init__(self) -> None:
        self.links: tuple[Link[Mark], ...] = ()
        self.pending: list[Link[Mark]] = []
        self._completed_id = 0

    def begin(self, checkpoint_id: int, mark: Mark, *, is_full: bool) -> Link[Mark]:
        """A snapshot begins; the last of the links before it is the one that it follows."""
        kept, weight = ((), 0) if is_full else self._kept()
        link = Link(checkpoint_id, mark, weight, kept)
        self.pending = [*self.pending[1 - _PENDING_MAX :], link]
        return link

    def _kept(self) -> tuple[tuple[Link[Mark], ...], int]:
        kept, weight = self.links, 1
        if not kept or not kept[0].rows or 2 * sum(link.rows for link in kept[1:]) > kept[0].rows:
            return (), 0
        while len(kept) > 1 and kept[-1].weight == weight:
            kept, weight = kept[:-1], 2 * weight
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

    def forget(self) -> None:
        """The next snapshot is whole."""
        self.links, self.pending = (), []
