"""Which reader of a source has which split, and what nobody has yet."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sqlstream.spi.connector import AssignedSplits, Discovery, SourceSplit

SPLITS_A_MESSAGE_MAX = 1000
"""Splits of one assignment: a message has at most so many paths."""


@dataclass
class _Reader:
    """What the present attempt of a subtask has. `assigned` was sent to it, `queue` was not yet. Assignments are numbered: 0 goes
    with its deployment, and `last` is that with `number`."""

    assigned: list[SourceSplit] = field(default_factory=list)
    queue: deque[SourceSplit] = field(default_factory=deque)
    weight: int = 0
    number: int = -1
    last: AssignedSplits | None = None
    is_waiting: bool = False
    returned: int = 0
    awaits_look: bool = False
    """It has returned splits and holds its watermark until a look has told what has become of them."""
    is_looked_for: bool = False
    """That look is over, and the next assignment says so, be it empty."""


class SplitAssignment:
    """Gives each split of one source to one reader, the next one to the reader that has least by weight. Pure.

    Splits that are `is_on_demand` go out by halves: first half of all, each reader's share at its deployment; then to a reader
    that asks, its share of half of the rest. So all readers end at about the same time, after few requests. All other splits
    have their reader when they are found.

    State: the splits that are not assigned, and those of each reader: they come back when its attempt fails.
    """

    def __init__(self, parallelism: int) -> None:
        self.is_discovered = False
        """Whether the first look is over, so that readers can begin."""
        self._readers = [_Reader() for _ in range(parallelism)]
        self._unassigned: deque[SourceSplit] = deque()
        self._unassigned_weight = 0
        self._is_last = False
        self._is_on_demand = False
        self._holds_watermark = False

    def on_discovered(self, discovery: Discovery) -> None:
        is_first, self.is_discovered = not self.is_discovered, True
        self._is_last = discovery.is_last
        self._is_on_demand = discovery.is_on_demand
        self._holds_watermark = discovery.holds_watermark
        for reader in self._readers:
            reader.is_looked_for |= reader.awaits_look
            reader.awaits_look = False
        self._unassigned.extend(discovery.splits)
        self._unassigned_weight += sum(_weight(s) for s in discovery.splits)
        if not self._is_on_demand:
            self._share_out(0)
        elif is_first:
            self._share_out(self._unassigned_weight // 2 if len(self._readers) > 1 else 0)

    def first(self, subtask: int) -> AssignedSplits:
        """What a new attempt begins with: its assignment 0."""
        return self._take(self._readers[subtask])

    def on_request(self, subtask: int, number: int) -> AssignedSplits | None:
        """The assignment of this number, which must be the next one or, when that was lost, the last one. None when there is
        nothing to assign, nor to say: then `pushed` has it later."""
        reader = self._readers[subtask]
        if number == reader.number:
            return reader.last
        if number != reader.number + 1:
            return None
        reader.is_waiting = True
        return self._answer(reader)

    def pushed(self) -> list[tuple[int, int, AssignedSplits]]:
        """(subtask, number, assignment) for readers that have asked in vain before."""
        found = []
        for subtask, reader in enumerate(self._readers):
            if reader.is_waiting and (answer := self._answer(reader)) is not None:
                found.append((subtask, reader.number, answer))
        return found

    def on_returned(self, subtask: int, positions: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        """A reader could not read these splits, and names all of them each time; returns those that are new."""
        reader = self._readers[subtask]
        added = list(positions[reader.returned :])
        reader.returned += len(added)
        if added:
            reader.awaits_look = True
            reader.assigned = [s for s in reader.assigned if s.position not in added]
        return added

    def add_splits_back(self, subtask: int) -> None:
        """The subtask's attempt has failed, and nothing that it has read counts."""
        ended = self._readers[subtask]
        splits = [*ended.assigned, *ended.queue]
        self._readers[subtask] = anew = _Reader()
        if self._is_on_demand:
            self._unassigned.extendleft(reversed(splits))
            self._unassigned_weight += sum(_weight(s) for s in splits)
        else:
            anew.queue.extend(splits)
            anew.weight = ended.weight

    def snapshot(self) -> dict[str, Any]:
        """JSON-able: what no reader has been sent. What readers have is in their own snapshots."""
        splits = [*(s for r in self._readers for s in r.queue), *self._unassigned]
        return {
            "is_discovered": self.is_discovered,
            "is_last": self._is_last,
            "is_on_demand": self._is_on_demand,
            "unassigned": [[s.position, s.weight] for s in splits],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on from a snapshot, of any parallelism. Called before anything else."""
        if snapshot["is_discovered"]:
            splits = tuple(SourceSplit(position, weight) for position, weight in snapshot["unassigned"])
            self.on_discovered(Discovery(splits, snapshot["is_last"], snapshot["is_on_demand"]))

    def _share_out(self, weight_left: int) -> None:
        """Give every reader a split, and splits until at most `weight_left` is not assigned."""
        least = [(reader.weight, subtask) for subtask, reader in enumerate(self._readers)]
        heapq.heapify(least)
        while self._unassigned:
            reader = self._readers[least[0][1]]
            if self._unassigned_weight <= weight_left and reader.queue:
                return
            split = self._pop()
            reader.queue.append(split)
            reader.weight += _weight(split)
            heapq.heapreplace(least, (reader.weight, least[0][1]))

    def _answer(self, reader: _Reader) -> AssignedSplits | None:
        before = reader.last
        is_news = bool(reader.queue or self._unassigned or self._is_last or reader.is_looked_for)
        if not is_news and before is not None and before.holds_watermark == self._holds_watermark:
            return None
        return self._take(reader)

    def _take(self, reader: _Reader) -> AssignedSplits:
        taken: list[SourceSplit] = []
        while reader.queue and len(taken) < SPLITS_A_MESSAGE_MAX:
            taken.append(reader.queue.popleft())
        if not taken:
            taken = self._take_share()
            reader.weight += sum(map(_weight, taken))
        reader.assigned += taken
        reader.number += 1
        reader.is_waiting = reader.is_looked_for = False
        reader.last = AssignedSplits(
            tuple(s.position for s in taken),
            is_last=self._is_last and not reader.queue and not self._unassigned,
            holds_watermark=bool(reader.queue) or self._holds_watermark,
        )
        return reader.last

    def _take_share(self) -> list[SourceSplit]:
        """One reader's share of half of what is left; one split at least if there is any."""
        share = self._unassigned_weight // (2 * len(self._readers))
        taken: list[SourceSplit] = []
        while self._unassigned and len(taken) < SPLITS_A_MESSAGE_MAX:
            if taken and _weight(self._unassigned[0]) > share:
                break
            split = self._pop()
            taken.append(split)
            share -= _weight(split)
        return taken

    def _pop(self) -> SourceSplit:
        split = self._unassigned.popleft()
        self._unassigned_weight -= _weight(split)
        return split


def _weight(split: SourceSplit) -> int:
    """Splits without rows count too: they are not all for one reader."""
    return max(split.weight, 1)
