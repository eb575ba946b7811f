"""Whatever fails, and whenever: every split is read exactly once over what counts."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest

from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import SubtaskState
from sqlstream.runtime.jobmanager.sources import split_assignment
from sqlstream.runtime.jobmanager.sources.split_assignment import SPLITS_A_MESSAGE_MAX, SplitAssignment
from sqlstream.spi.connector import FOR_EVERY_READER, AssignedSplits, Discovery, SourceSplit


class Reader:
    """One attempt: `left` are the splits that it has still to read, `read` those since its last snapshot."""

    def __init__(self, first: AssignedSplits) -> None:
        self.left = [p["n"] for p in first.positions]
        self.number = 0
        self.is_last = first.is_last
        self.read: list[int] = []
        self.returned: list[int] = []
        self.confirmed = 0

    def receive(self, number: int, assigned: AssignedSplits | None) -> None:
        if assigned is not None and number == self.number + 1:
            self.number = number
            self.left += [p["n"] for p in assigned.positions]
            self.is_last = assigned.is_last
            del self.returned[: assigned.returned - self.confirmed]
            self.confirmed = assigned.returned

    @property
    def has_finished(self) -> bool:
        return self.is_last and not self.left

    def state(self) -> SubtaskState:
        return SubtaskState((), tuple({"n": n} for n in self.left), self.number)


class Job:
    """Readers, their assignment, one checkpoint at a time. What was read before a completed one counts."""

    def __init__(self, fate: random.Random, parallelism: int, is_on_demand: bool) -> None:
        self.fate = fate
        self.is_on_demand = is_on_demand
        self.assignment = SplitAssignment(parallelism)
        self.found = 0
        self.is_all_found = False
        self.given_back: list[int] = []
        self.assignment.on_discovered(self.look(is_last=False), {"found": self.found})
        self.readers = [Reader(self.assignment.first(s)) for s in range(parallelism)]
        self.counted: Counter[int] = Counter()
        self.checkpoint_id = 0
        self.acknowledged: dict[int, tuple[SubtaskState, bool, list[int]]] = {}
        self.completed: tuple[int, dict[str, Any], list[tuple[SubtaskState, bool]]] | None = None
        self.is_under_way = False

    def look(self, is_last: bool) -> Discovery:
        self.is_all_found = is_last
        weights = [self.fate.randint(0, 20) for _ in range(self.fate.randint(0, 9))]
        made = tuple(SourceSplit({"n": self.found + i}, w) for i, w in enumerate(weights))
        self.found += len(made)
        again = tuple(SourceSplit({"n": n}) for n in self.given_back)
        self.given_back = []
        return Discovery(made + again, is_last, self.is_on_demand)

    def give_back(self, subtask: int) -> None:
        """A split cannot be read at the moment, and is found again as it was."""
        reader = self.readers[subtask]
        if not reader.left or reader.is_last or self.is_all_found:
            return
        reader.returned.append(reader.left.pop(self.fate.randrange(len(reader.left))))
        self.tell_returned(subtask)

    def tell_returned(self, subtask: int) -> None:
        reader = self.readers[subtask]
        told = tuple({"n": n} for n in reader.returned)
        _, added = self.assignment.on_returned(subtask, told, reader.confirmed)
        self.given_back += [position["n"] for position in added]

    def discover(self, is_last: bool) -> None:
        if self.is_all_found:
            return
        self.assignment.on_discovered(self.look(is_last), {"found": self.found})
        for subtask, number, assigned in self.assignment.pushed():
            if self.fate.random() < 0.8:
                self.readers[subtask].receive(number, assigned)

    def ask(self, subtask: int) -> None:
        reader = self.readers[subtask]
        if not reader.is_last:
            assigned = self.assignment.on_request(subtask, reader.number + 1)
            if self.fate.random() < 0.8:
                reader.receive(reader.number + 1, assigned)

    def read(self, subtask: int) -> None:
        reader = self.readers[subtask]
        for _ in range(min(len(reader.left), self.fate.randint(1, 3))):
            reader.read.append(reader.left.pop(0))

    def checkpoint(self) -> None:
        """The next step of the one that is under way, or its begin."""
        if not self.is_under_way:
            self.is_under_way, self.checkpoint_id = True, self.checkpoint_id + 1
        waiting = [s for s in range(len(self.readers)) if s not in self.acknowledged]
        if waiting:
            subtask = self.fate.choice(waiting)
            reader = self.readers[subtask]
            self.acknowledged[subtask] = (reader.state(), reader.has_finished, reader.read)
            reader.read = []
        elif self.fate.random() < 0.2:
            self.abort()
        else:
            self.complete()

    def complete(self) -> None:
        states = [self.acknowledged[s] for s in range(len(self.readers))]
        numbers = [None if is_finished else state.assignment for state, is_finished, _ in states]
        kept = self.assignment.snapshot(self.checkpoint_id, numbers)
        # Splits are found and assigned while the checkpoint is stored.
        self.discover(is_last=False)
        self.ask(self.fate.randrange(len(self.readers)))
        self.assignment.on_completed(self.checkpoint_id)
        self.completed = (self.checkpoint_id, json.loads(json.dumps(kept)), [s[:2] for s in states])
        self.counted.update(n for *_, read in states for n in read)
        self.acknowledged, self.is_under_way = {}, False

    def abort(self) -> None:
        for subtask, (*_, read) in self.acknowledged.items():
            self.readers[subtask].read[:0] = read
        self.assignment.forget(self.checkpoint_id)
        self.acknowledged, self.is_under_way = {}, False

    def fail(self, subtask: int) -> None:
        self.abort()
        restored = None
        if self.completed is not None:
            id_, _, states = self.completed
            restored = (id_, *states[subtask])
        self.assignment.start_anew(subtask, restored)
        self.readers[subtask] = Reader(self.assignment.first(subtask))

    def begin_anew(self, parallelism: int) -> None:
        """Another JobManager goes on from the last checkpoint."""
        if self.completed is None:
            return
        _, kept, states = self.completed
        self.acknowledged, self.is_under_way, self.completed = {}, False, None
        if len(states) != parallelism and all(is_finished for _, is_finished in states):
            parallelism = len(states)
        self.assignment = SplitAssignment(parallelism)
        self.assignment.restore(kept, [s for s, _ in states], [f for _, f in states])
        assert self.assignment.enumerator is not None
        # Its enumerator goes on from its state too, and finds the rest again.
        self.given_back = [position["n"] for position in self.assignment.unhandled]
        self.found, self.is_all_found = self.assignment.enumerator["found"], self.assignment.is_complete
        self.readers = [Reader(self.assignment.first(s)) for s in range(parallelism)]
        self.take_checkpoint()

    def take_checkpoint(self) -> None:
        while self.completed is None:
            self.checkpoint()

    def finish(self) -> None:
        self.discover(is_last=True)
        for _ in range(10_000):
            if all(reader.has_finished for reader in self.readers):
                break
            subtask = self.fate.randrange(len(self.readers))
            self.ask(subtask)
            self.read(subtask)
        assert all(reader.has_finished for reader in self.readers)
        self.abort()
        self.counted.update(n for reader in self.readers for n in reader.read)


@pytest.mark.parametrize("seed", range(300))
def test_every_split_is_read_once_over_what_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fate = random.Random(seed)
    monkeypatch.setattr(split_assignment, "SPLITS_A_MESSAGE_MAX", fate.choice([1, 2, 1000]))
    job = Job(fate, fate.randint(1, 4), is_on_demand=fate.random() < 0.5)
    for _ in range(150):
        subtask = fate.randrange(len(job.readers))
        step = fate.random()
        if step < 0.08:
            job.discover(is_last=fate.random() < 0.1)
        elif step < 0.35:
            job.ask(subtask)
        elif step < 0.6:
            job.read(subtask)
        elif step < 0.92:
            job.checkpoint()
        elif step < 0.94:
            job.give_back(subtask)
        elif step < 0.98:
            job.fail(subtask)
        else:
            job.begin_anew(fate.randint(1, 4))
        counted_twice = [n for n, count in job.counted.items() if count > 1]
        assert counted_twice == []
    job.finish()
    assert job.counted == Counter(range(job.found))


def test_what_completed_checkpoints_have_is_forgotten() -> None:
    assignment = SplitAssignment(1)
    assignment.on_discovered(Discovery((), is_last=False, is_on_demand=True), {})
    reader = Reader(assignment.first(0))
    kept = []
    for id_ in range(1, 50):
        assignment.on_discovered(Discovery((SourceSplit({"n": id_}),), False, True), {})
        reader.receive(id_, assignment.on_request(0, id_))
        kept.append(assignment.snapshot(id_, [reader.number])["unassigned"])
        assignment.on_completed(id_)
        assert assignment._readers[0].sent == type(assignment._readers[0].sent)()
    assert kept == [[]] * 49


def test_a_checkpoint_that_a_restart_has_overtaken_is_not_completed() -> None:
    assignment = SplitAssignment(1)
    assignment.on_discovered(Discovery((SourceSplit({"n": 1}),), is_last=True), {})
    reader = Reader(assignment.first(0))
    assignment.snapshot(1, [reader.number])
    assignment.start_anew(0, None)
    with pytest.raises(InternalError):
        assignment.on_completed(1)
    with pytest.raises(InternalError):
        assignment.start_anew(0, (1, reader.state(), False))


@pytest.mark.parametrize("is_on_demand", [True, False])
def test_many_splits_go_on_at_another_parallelism(is_on_demand: bool) -> None:
    assignment = SplitAssignment(2)
    splits = tuple(SourceSplit({"n": n}) for n in range(3000))
    assignment.on_discovered(Discovery(splits, is_last=True, is_on_demand=is_on_demand), {})
    readers = [Reader(assignment.first(s)) for s in range(2)]
    kept = json.loads(json.dumps(assignment.snapshot(1, [0, 0])))
    anew = SplitAssignment(3)
    anew.restore(kept, [r.state() for r in readers], [False, False])
    assert (anew.is_complete, anew.enumerator, anew.unhandled) == (True, {}, ())
    read = []
    for subtask in range(3):
        first = anew.first(subtask)
        assert len(first.positions) <= SPLITS_A_MESSAGE_MAX
        reader = Reader(first)
        while not reader.is_last:
            reader.receive(reader.number + 1, anew.on_request(subtask, reader.number + 1))
        read += reader.left
    assert sorted(read) == list(range(3000))


def test_a_position_for_every_reader_comes_to_each_when_there_are_more_of_them_and_to_its_own_else() -> None:
    assignment = SplitAssignment(2)
    assignment.on_discovered(Discovery((), is_last=False), {})
    kept = assignment.snapshot(1, [0, 0])
    reached = [{"reached": n, FOR_EVERY_READER: True} for n in range(2)]
    states = [SubtaskState((), ({"n": n}, reached[n])) for n in range(2)]
    for parallelism, expected in [
        (2, [[{"n": 0}, reached[0]], [{"n": 1}, reached[1]]]),
        (3, [[*reversed(reached), {"n": 0}], [*reversed(reached), {"n": 1}], [*reversed(reached)]]),
        (1, [[*reversed(reached), {"n": 0}, {"n": 1}]]),
    ]:
        anew = SplitAssignment(parallelism)
        anew.restore(kept, states, [False, False])
        assert [list(anew.first(s).positions) for s in range(parallelism)] == expected


def test_who_had_finished_gets_nothing_more() -> None:
    assignment = SplitAssignment(2)
    splits = tuple(SourceSplit({"n": n}) for n in range(4))
    assignment.on_discovered(Discovery(splits, is_last=True), {})
    readers = [Reader(assignment.first(s)) for s in range(2)]
    kept = assignment.snapshot(1, [None, 0])
    assignment.on_completed(1)
    assignment.start_anew(0, (1, SubtaskState(), True))
    assert assignment.first(0) == AssignedSplits((), is_last=True)
    assignment.start_anew(1, (1, readers[1].state(), False))
    assert Reader(assignment.first(1)).left == [1, 3]
    anew = SplitAssignment(2)
    anew.restore(kept, [SubtaskState(), readers[1].state()], [True, False])
    assert [list(anew.first(s).positions) for s in range(2)] == [[], [{"n": 1}, {"n": 3}]]
