"""Every split has one reader, whatever is found, asked for, lost and given back."""

from __future__ import annotations

import random

import pytest

from sqlstream.runtime.jobmanager.sources.split_assignment import SPLITS_A_MESSAGE_MAX, SplitAssignment
from sqlstream.spi.connector import AssignedSplits, Discovery, SourceSplit


def splits(*weights: int, start: int = 0) -> tuple[SourceSplit, ...]:
    return tuple(SourceSplit({"n": start + i}, weight) for i, weight in enumerate(weights))


def numbers(assigned: AssignedSplits | None) -> list[int]:
    assert assigned is not None
    return [position["n"] for position in assigned.positions]


def made(
    parallelism: int, *weights: int, is_on_demand: bool = False, is_last: bool = True
) -> SplitAssignment:
    assignment = SplitAssignment(parallelism)
    assert not assignment.is_discovered
    assignment.on_discovered(Discovery(splits(*weights), is_last, is_on_demand))
    assert assignment.is_discovered
    return assignment


def test_splits_that_overlap_in_time_have_their_readers_at_once_balanced_by_weight() -> None:
    assignment = made(3, 10, 4, 4, 4, 4, 4)
    firsts = [assignment.first(s) for s in range(3)]
    assert [numbers(f) for f in firsts] == [[0], [1, 3, 5], [2, 4]]
    assert [f.is_last for f in firsts] == [True, True, True]


def test_splits_without_rows_are_shared_too() -> None:
    assignment = made(2, 0, 0, 0, 0)
    assert [numbers(assignment.first(s)) for s in range(2)] == [[0, 2], [1, 3]]


def test_a_single_reader_gets_all_with_its_deployment() -> None:
    first = made(1, *[1] * 9, is_on_demand=True).first(0)
    assert (numbers(first), first.is_last) == (list(range(9)), True)


def test_half_waits_for_who_asks_first() -> None:
    assignment = made(2, *[1] * 16, is_on_demand=True)
    firsts = [assignment.first(s) for s in range(2)]
    assert [numbers(f) for f in firsts] == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert not any(f.is_last for f in firsts)
    asked = [numbers(assignment.on_request(1, number)) for number in range(1, 8)]
    assert asked == [[8, 9], [10], [11], [12], [13], [14], [15]]
    last = assignment.on_request(0, 1)
    assert last == AssignedSplits((), is_last=True)


def test_a_lost_assignment_is_sent_again_and_an_old_request_changes_nothing() -> None:
    assignment = made(2, *[1] * 8, is_on_demand=True)
    assignment.first(0)
    once = assignment.on_request(0, 1)
    assert assignment.on_request(0, 1) == once
    then = assignment.on_request(0, 2)
    assert then != once
    assert assignment.on_request(0, 1) is None
    assert assignment.on_request(0, 9) is None


def test_a_reader_that_waits_gets_what_is_found_later() -> None:
    assignment = made(2, 5, is_last=False)
    assert [numbers(assignment.first(s)) for s in range(2)] == [[0], []]
    assert assignment.on_request(0, 1) is None
    assert assignment.on_request(1, 1) is None
    assert assignment.pushed() == []
    assignment.on_discovered(Discovery(splits(3, 3, start=1), is_last=False))
    pushed = assignment.pushed()
    assert [(subtask, number, numbers(a)) for subtask, number, a in pushed] == [(1, 1, [1, 2])]
    assert assignment.pushed() == []
    assignment.on_discovered(Discovery((), is_last=True))
    assert assignment.pushed() == [(0, 1, AssignedSplits((), is_last=True))]


def test_who_waits_is_told_when_the_watermark_is_held_and_when_it_is_not_any_more() -> None:
    assignment = made(1, 1, is_last=False)
    assert not assignment.first(0).holds_watermark
    assert assignment.on_request(0, 1) is None
    for number, is_held in enumerate([True, False], start=1):
        assignment.on_discovered(Discovery((), is_last=False, holds_watermark=is_held))
        assert assignment.pushed() == [(0, number, AssignedSplits((), False, is_held))]
        assert assignment.on_request(0, number + 1) is None


def test_a_large_share_comes_in_parts_and_holds_the_watermark_until_the_last() -> None:
    assignment = made(1, *[1] * (2 * SPLITS_A_MESSAGE_MAX + 1))
    parts = [assignment.first(0), assignment.on_request(0, 1), assignment.on_request(0, 2)]
    assert [n for part in parts for n in numbers(part)] == list(range(2 * SPLITS_A_MESSAGE_MAX + 1))
    held = [(part.is_last, part.holds_watermark) for part in parts if part is not None]
    assert held == [(False, True), (False, True), (True, False)]


def test_a_split_that_was_returned_does_not_come_back_with_the_others() -> None:
    assignment = made(1, 1, 1, 1, is_last=False)
    assignment.first(0)
    assert assignment.on_returned(0, ({"n": 1},)) == (1, [{"n": 1}])
    assert assignment.on_returned(0, ({"n": 1},)) == (1, [])
    assert assignment.on_returned(0, ({"n": 1}, {"n": 0})) == (2, [{"n": 0}])
    assert assignment.unhandled == ({"n": 1}, {"n": 0})
    assignment.start_anew(0, None)
    assert numbers(assignment.first(0)) == [2]


def test_who_has_returned_a_split_is_told_of_the_next_look_though_it_found_nothing() -> None:
    assignment = made(2, 1, is_last=False)
    for subtask in range(2):
        assignment.first(subtask)
    assert assignment.on_returned(0, ({"n": 0},)) == (1, [{"n": 0}])
    assert [assignment.on_request(subtask, 1) for subtask in range(2)] == [None, None]
    assert assignment.pushed() == []
    # This look began before the split was returned.
    assignment.on_discovered(Discovery((), is_last=False), returns=0)
    assert assignment.pushed() == []
    assert assignment.unhandled == ({"n": 0},)
    assignment.on_discovered(Discovery((), is_last=False), returns=1)
    assert assignment.pushed() == [(0, 1, AssignedSplits((), is_last=False, returned=1))]
    assert assignment.pushed() == []
    assert assignment.unhandled == ()
    # What the assignment has confirmed is not repeated.
    assert assignment.on_returned(0, ({"n": 7},), earlier=1) == (2, [{"n": 7}])
    assert assignment.on_returned(0, ({"n": 7},), earlier=1) == (2, [])


@pytest.mark.parametrize("seed", range(60))
def test_every_split_is_with_one_reader_or_with_none(seed: int) -> None:
    fate = random.Random(seed)
    parallelism, is_on_demand = fate.randint(1, 4), fate.random() < 0.5
    assignment = SplitAssignment(parallelism)
    held: list[list[int]] = [[] for _ in range(parallelism)]
    number = [0] * parallelism
    found, done = 0, [False] * parallelism

    def discover(is_last: bool) -> None:
        nonlocal found
        weights = [fate.randint(0, 20) for _ in range(fate.randint(0, 12))]
        assignment.on_discovered(Discovery(splits(*weights, start=found), is_last, is_on_demand))
        found += len(weights)
        for subtask, n, assigned in assignment.pushed():
            receive(subtask, n, assigned)

    def receive(subtask: int, n: int, assigned: AssignedSplits) -> None:
        assert n == number[subtask] + 1
        if fate.random() < 0.8:
            number[subtask] = n
            held[subtask] += numbers(assigned)
            done[subtask] = assigned.is_last

    def begin(subtask: int) -> None:
        assigned = assignment.first(subtask)
        number[subtask], held[subtask] = 0, numbers(assigned)
        done[subtask] = assigned.is_last

    discover(is_last=False)
    for subtask in range(parallelism):
        begin(subtask)
    for step in range(80):
        subtask = fate.randrange(parallelism)
        if step < 60 and fate.random() < 0.15:
            discover(is_last=False)
        elif fate.random() < 0.15:
            assignment.start_anew(subtask, None)
            begin(subtask)
        elif not done[subtask] and (a := assignment.on_request(subtask, number[subtask] + 1)) is not None:
            receive(subtask, number[subtask] + 1, a)
        together = [n for numbers in held for n in numbers]
        assert len(together) == len(set(together)), "a split has two readers"
    discover(is_last=True)
    for _ in range(200):
        for subtask in range(parallelism):
            if not done[subtask] and (a := assignment.on_request(subtask, number[subtask] + 1)) is not None:
                receive(subtask, number[subtask] + 1, a)
    assert all(done)
    assert sorted(n for numbers in held for n in numbers) == list(range(found))
