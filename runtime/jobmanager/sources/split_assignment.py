"""Which reader of a source has which split, and what nobody has yet."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.spi.connector import FOR_EVERY_READER, AssignedSplits, Discovery, SourceSplit


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
    """The splits that the present attempt of a subtask got since the last completed checkpoint, and those that wait for it.

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


SPLITS_A_MESSAGE_MAX = 1000
"""Splits of one assignment: a message has at most so many paths."""

Acknowledged = Sequence[int | None]
"""Of each reader the number of the last assignment whose splits are among the positions that it has saved (SubtaskState); None
for one that had finished."""


class SplitAssignment:
    """Gives each split of one source to one reader, the next one to the reader that has least by weight. Pure.

    Splits that are `is_on_demand` go out by halves: first half of all, each reader's share at its deployment; then to a reader
    that asks, its share of half of the rest. So all readers end at about the same time, after few requests. All other splits
    have their reader when they are found.

    State: the splits that are not assigned, those that each reader was sent since the last completed checkpoint, the returned
    splits that no look has taken into account, and the enumerator's state that fits these. What is sent comes back when the
    attempt fails, unless the checkpoint that it goes on from has it.
    """

    def __init__(self, parallelism: int) -> None:
        self.is_discovered = False
        """Whether the first look is over, so that readers can begin."""
        self._readers = [ReaderSplits() for _ in range(parallelism)]
        self._unassigned: deque[SourceSplit] = deque()
        self._unassigned_weight = 0
        self._is_last = False
        self._is_on_demand = False
        self._holds_watermark = False
        self._enumerator: dict[str, Any] | None = None
        self._returns = 0
        self._unhandled: deque[tuple[int, list[dict[str, Any]]]] = deque()
        self._pending: dict[int, tuple[int | None, ...]] = {}
        self._completed_id: int | None = None

    # --- what is found, asked for and returned

    def on_discovered(
        self, discovery: Discovery, state: dict[str, Any] | None = None, returns: int | None = None
    ) -> None:
        """`state` is that of the enumerator after the look, which has taken the first `returns` returns into account (None: all
        of them)."""
        is_first, self.is_discovered = not self.is_discovered, True
        self._is_last = discovery.is_last
        self._is_on_demand = discovery.is_on_demand
        self._holds_watermark = discovery.holds_watermark
        self._enumerator = state
        self._on_returns_handled(self._returns if returns is None else returns)
        self._put_back(discovery.splits, is_ahead=False)
        if not self._is_on_demand:
            self._share_out(0)
        elif is_first:
            self._share_out(self._unassigned_weight // 2 if len(self._readers) > 1 else 0)

    def first(self, subtask: int) -> AssignedSplits:
        """What a new attempt begins with: its assignment 0."""
        reader = self._readers[subtask]
        return AssignedSplits((), is_last=True) if reader.is_finished else self._take(reader)

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

    def on_returned(
        self, subtask: int, positions: tuple[dict[str, Any], ...], earlier: int = 0
    ) -> tuple[int, list[dict[str, Any]]]:
        """A reader could not read these splits. It has returned `earlier` ones before, and repeats all that no assignment has
        confirmed; returns those that are new, and the number of this return."""
        reader = self._readers[subtask]
        added = list(positions[max(0, reader.returned - earlier) :])
        reader.returned += len(added)
        if added:
            self._returns += 1
            reader.awaited_return = self._returns
            self._unhandled.append((self._returns, added))
            reader.give_up(added)
        return self._returns, added

    # --- checkpoints

    def snapshot(self, checkpoint_id: int, acknowledged: Acknowledged) -> dict[str, Any]:
        """JSON-able: what none of the readers has among the positions that it saved for this checkpoint, which all of them have
        acknowledged so."""
        self._pending[checkpoint_id] = tuple(acknowledged)
        unread = [s for r, number in zip(self._readers, acknowledged, strict=True) for s in r.unread(number)]
        return {
            "is_discovered": self.is_discovered,
            "is_last": self._is_last,
            "is_on_demand": self._is_on_demand,
            "holds_watermark": self._holds_watermark,
            "unassigned": [[s.position, s.weight] for s in (*unread, *self._unassigned)],
            "enumerator": self._enumerator,
            "returned": [position for _, positions in self._unhandled for position in positions],
            "left_out": [r.left_out(number) for r, number in zip(self._readers, acknowledged, strict=True)],
        }

    def on_completed(self, checkpoint_id: int) -> None:
        """Readers that fail go on from this checkpoint. InternalError when a reader has begun anew since its snapshot."""
        acknowledged = self._pending.get(checkpoint_id)
        if acknowledged is None:
            raise InternalError(f"splits were assigned anew since checkpoint {checkpoint_id} was taken")
        for reader, number in zip(self._readers, acknowledged, strict=True):
            reader.forget(number)
        self._pending = {id_: of for id_, of in self._pending.items() if id_ > checkpoint_id}
        self._completed_id = checkpoint_id

    def forget(self, checkpoint_id: int) -> None:
        self._pending.pop(checkpoint_id, None)

    def start_anew(self, subtask: int, restored: tuple[int, SubtaskState, bool] | None) -> None:
        """The subtask's attempt has failed. Its next one goes on from `restored`: the id of the newest completed checkpoint, the
        state there, and whether it had finished by then. None when none is complete, as nothing that it has read counts."""
        ended = self._readers[subtask]
        given_up = [GivenUp(g.position, None, g.completed) for g in ended.given_up]
        anew = self._readers[subtask] = ReaderSplits(ended.weight, ended.is_finished, given_up=given_up)
        if (restored[0] if restored is not None else None) != self._completed_id:
            raise InternalError(
                f"a reader goes on from {restored} and not from checkpoint {self._completed_id}"
            )
        # No checkpoint counts that the failed attempt has taken part in and that is not complete.
        self._pending.clear()
        splits = ended.not_restored()
        if self._is_on_demand:
            self._put_back(splits, is_ahead=True)
            splits = []
        if restored is not None:
            _, state, anew.is_finished = restored
            saved = without(state.splits or (), [g.position for g in given_up])
            anew.queue.extend(Part(SourceSplit(p), is_restored=True) for p in saved)
        anew.queue.extend(map(Part, splits))
        if self._is_on_demand:
            anew.weight = sum(_weight(part.split) for part in anew.queue)

    def restore(
        self, snapshot: dict[str, Any], readers: Sequence[SubtaskState], finished: Sequence[bool]
    ) -> None:
        """Begin with a snapshot and the states of its readers, which may be more or fewer than these. Called before anything
        else."""
        splits = [SourceSplit(position, weight) for position, weight in snapshot["unassigned"]]
        self._returns = 0
        if snapshot["returned"]:
            self._unhandled.append((0, snapshot["returned"]))
        saved = [without(r.splits or (), o) for r, o in zip(readers, snapshot["left_out"], strict=True)]
        if len(readers) == len(self._readers):
            for reader, positions, is_finished in zip(self._readers, saved, finished, strict=True):
                reader.is_finished = is_finished
                reader.queue.extend(Part(SourceSplit(p)) for p in positions)
        else:
            self._redistribute(position for positions in saved for position in positions)
        if not snapshot["is_discovered"]:
            return
        self.is_discovered = True
        self._is_last, self._is_on_demand = snapshot["is_last"], snapshot["is_on_demand"]
        self._holds_watermark, self._enumerator = snapshot["holds_watermark"], snapshot["enumerator"]
        self._put_back(splits, is_ahead=False)
        if not self._is_on_demand:
            self._share_out(0)

    @property
    def enumerator(self) -> dict[str, Any] | None:
        """The enumerator's state; None before its first look."""
        return self._enumerator

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing more to look for."""
        return self.is_discovered and self._is_last

    @property
    def unhandled(self) -> tuple[dict[str, Any], ...]:
        """The returned splits that no look has taken into account."""
        return tuple(position for _, positions in self._unhandled for position in positions)

    # --- who gets what

    def _redistribute(self, positions: Iterable[dict[str, Any]]) -> None:
        place = 0
        for position in positions:
            if position.get(FOR_EVERY_READER):
                for reader in self._readers:
                    reader.queue.appendleft(Part(SourceSplit(position)))
                continue
            reader = self._readers[place % len(self._readers)]
            reader.queue.append(Part(SourceSplit(position)))
            reader.weight += 1
            place += 1

    def _on_returns_handled(self, returns: int) -> None:
        while self._unhandled and self._unhandled[0][0] <= returns:
            self._unhandled.popleft()
        for reader in self._readers:
            if reader.awaited_return is not None and reader.awaited_return <= returns:
                reader.awaited_return, reader.is_looked_for = None, True

    def _put_back(self, splits: Sequence[SourceSplit], is_ahead: bool) -> None:
        if is_ahead:
            self._unassigned.extendleft(reversed(splits))
        else:
            self._unassigned.extend(splits)
        self._unassigned_weight += sum(map(_weight, splits))

    def _share_out(self, weight_left: int) -> None:
        """Give every reader a split, and splits until at most `weight_left` is not assigned."""
        least = [(r.weight, subtask) for subtask, r in enumerate(self._readers) if not r.is_finished]
        heapq.heapify(least)
        while self._unassigned and least:
            reader = self._readers[least[0][1]]
            if self._unassigned_weight <= weight_left and reader.queue:
                return
            split = self._pop()
            reader.queue.append(Part(split))
            reader.weight += _weight(split)
            heapq.heapreplace(least, (reader.weight, least[0][1]))

    def _answer(self, reader: ReaderSplits) -> AssignedSplits | None:
        before = reader.last
        is_news = bool(reader.queue or self._unassigned or self._is_last or reader.is_looked_for)
        is_held = self._holds_watermark or reader.awaited_return is not None
        if not is_news and before is not None and before.holds_watermark in (is_held, self._holds_watermark):
            return None
        return self._take(reader)

    def _take(self, reader: ReaderSplits) -> AssignedSplits:
        parts: list[Part] = []
        while reader.queue and len(parts) < SPLITS_A_MESSAGE_MAX:
            parts.append(reader.queue.popleft())
        if not parts:
            parts = [Part(split) for split in self._take_share()]
            reader.weight += sum(_weight(part.split) for part in parts)
        taken = reader.take(parts)
        reader.last = AssignedSplits(
            tuple(s.position for s in taken),
            is_last=self._is_last and not reader.queue and not self._unassigned,
            holds_watermark=bool(reader.queue) or self._holds_watermark or reader.awaited_return is not None,
            returned=reader.returned,
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
