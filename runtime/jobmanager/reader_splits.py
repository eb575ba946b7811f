"""The splits of one reader: those that were sent to it since the last completed checkpoint, and those that were not yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlstream.spi.connector import AssignedSplits, SourceSplit


@dataclass(frozen=True)
class Part:
    """A split of a reader. `is_restored`: the last completed checkpoint has it among the reader's own positions."""

    split: SourceSplit
    is_restored: bool = False


@dataclass
class GivenUp:
    """A returned split; the number of the assignment by which the same reader has got it again, if it has; and how many
    checkpoints were completed since."""

    position: dict[str, Any]
    sent_again: int | None = None
    completed: int = 0


@dataclass
class ReaderSplits:
    """What the present attempt of a subtask has got, and what waits for it.

    Assignments are numbered for each attempt: 0 goes with its deployment, and `last` is that with `number`. `sent` are the parts
    of each assignment by that number; what a completed checkpoint has is forgotten, because the reader's own positions have it.
    """

    weight: int = 0
    is_finished: bool = False
    """It reads nothing more, as the checkpoint that it goes on from says."""
    queue: deque[Part] = field(default_factory=deque)
    sent: deque[tuple[int, Part]] = field(default_factory=deque)
    number: int = -1
    last: AssignedSplits | None = None
    is_waiting: bool = False
    returned: int = 0
    """How many splits this attempt has returned."""
    given_up: list[GivenUp] = field(default_factory=list)
    """What it has returned lately, while a checkpoint may have it among the reader's positions."""
    awaited_return: int | None = None
    """The number of its last return: it holds its watermark until a look has told what has become of those splits."""
    is_looked_for: bool = False
    """That look is over, and the next assignment says so, be it empty."""

    def take(self, taken: Iterable[Part]) -> tuple[SourceSplit, ...]:
        """The parts belong to the next assignment."""
        self.number += 1
        parts = tuple(taken)
        self.sent.extend((self.number, part) for part in parts)
        for given_up in self.given_up:
            if any(is_at(part.split.position, given_up.position) for part in parts):
                given_up.sent_again = self.number
        self.is_waiting = self.is_looked_for = False
        return tuple(part.split for part in parts)

    def give_up(self, positions: list[dict[str, Any]]) -> None:
        """The reader has returned these."""
        self.sent = deque(
            (n, part) for n, part in self.sent if not any(is_at(part.split.position, p) for p in positions)
        )
        self.given_up += map(GivenUp, positions)

    def left_out(self, acknowledged: int | None) -> list[dict[str, Any]]:
        """What the positions that the reader saved after this assignment may still have, though it has been returned since: the
        enumerator finds it again, and another assignment has it."""
        return [
            g.position
            for g in self.given_up
            if g.sent_again is None or acknowledged is None or g.sent_again > acknowledged
        ]

    def unread(self, acknowledged: int | None) -> list[SourceSplit]:
        """What the reader's positions do not have that it saved after this assignment; None: it had finished, and has all."""
        sent = (part.split for n, part in self.sent if acknowledged is not None and n > acknowledged)
        return [*sent, *(part.split for part in self.queue)]

    def not_restored(self) -> list[SourceSplit]:
        """What the last completed checkpoint does not have among the reader's own positions."""
        parts = [*(part for _, part in self.sent), *self.queue]
        return [part.split for part in parts if not part.is_restored]

    def forget(self, acknowledged: int | None) -> None:
        """A checkpoint is complete that has the assignments up to this one, or all of a reader that had finished."""
        kept = ((n, p) for n, p in self.sent if acknowledged is not None and n > acknowledged)
        self.sent = deque((n, Part(part.split)) for n, part in kept)
        self.queue = deque(Part(part.split) for part in self.queue)
        for given_up in self.given_up:
            given_up.completed += 1
        # What was returned before the checkpoint before this one is in no position that was saved for this one.
        self.given_up = [
            g
            for g in self.given_up
            if acknowledged is not None
            and (g.completed < 2 if g.sent_again is None else g.sent_again > acknowledged)
        ]


def without(positions: Iterable[dict[str, Any]], left_out: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The positions but for those at the places that are left out."""
    return [p for p in positions if not any(is_at(p, place) for place in left_out)]


def is_at(position: dict[str, Any], place: dict[str, Any]) -> bool:
    """Whether it is that split, at whatever row: a reader's position says more than the split that was found."""
    return place.items() <= position.items()
