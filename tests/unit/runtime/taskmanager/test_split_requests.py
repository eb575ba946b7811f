"""Requests for splits are repeated until they are answered, ever more rarely; and what a reader gets is in order."""

from __future__ import annotations

from sqlstream.messages.rpc import AssignSplits
from sqlstream.runtime.taskmanager.inputs.source_input import SplitSource
from sqlstream.runtime.taskmanager.split_requests import LONGEST_PAUSE_MS, SplitRequests, SplitsRequested
from sqlstream.spi.connector import AssignedSplits

NOTHING = AssignedSplits((), is_last=False)


def test_a_request_is_repeated_until_its_number_is_answered() -> None:
    requests = SplitRequests()
    asked = SplitsRequested("e", 3)
    requests.ask(asked, 0)
    times = [ms for ms in range(0, 200_000, 500) if requests.due(ms)]
    assert times[:5] == [1000, 3000, 7000, 15_000, 31_000]
    assert times[6] - times[5] == LONGEST_PAUSE_MS
    assert not requests.is_answered_by(AssignSplits("tm", "e", 2, NOTHING))
    assert not requests.is_answered_by(AssignSplits("tm", "other", 3, NOTHING))
    assert requests.is_answered_by(AssignSplits("tm", "e", 3, NOTHING))
    assert not requests.is_answered_by(AssignSplits("tm", "e", 3, NOTHING))
    assert requests.due(10**9) == []


def test_a_task_that_has_ended_asks_no_more() -> None:
    requests = SplitRequests()
    requests.ask(SplitsRequested("e", 1), 0)
    requests.forget("e")
    requests.forget("e")
    assert requests.due(10**9) == []


class Reader:
    def __init__(self) -> None:
        self.wants_splits = False
        self.returned_splits: tuple[dict[str, int], ...] = ()
        self.got: list[AssignedSplits] = []

    def add_splits(self, assigned: AssignedSplits) -> None:
        self.got.append(assigned)


def test_a_reader_is_asked_for_once_and_gets_each_assignment_once() -> None:
    reader, asked = Reader(), list[SplitsRequested]()
    source = SplitSource("e", reader, asked.append)
    source.request_when_wanted()
    assert asked == []
    reader.wants_splits = True
    source.request_when_wanted()
    source.request_when_wanted()
    assert asked == [SplitsRequested("e", 1)]
    reader.returned_splits = ({"n": 1},)
    source.request_when_wanted()
    source.request_when_wanted()
    assert asked[1:] == [SplitsRequested("e", 1, ({"n": 1},))]
    source.on_assigned(1, NOTHING)
    source.on_assigned(1, NOTHING)
    assert reader.got == [NOTHING]
    source.request_when_wanted()
    assert asked[2:] == [SplitsRequested("e", 2, ({"n": 1},))]
    # It is confirmed, and the reader forgets it: only what it returns after that is named.
    source.on_assigned(2, AssignedSplits((), is_last=False, returned=1))
    reader.returned_splits = ()
    source.request_when_wanted()
    reader.returned_splits = ({"n": 2},)
    source.request_when_wanted()
    source.request_when_wanted()
    assert asked[3:] == [SplitsRequested("e", 3, (), 1), SplitsRequested("e", 3, ({"n": 2},), 1)]
    source.on_assigned(3, AssignedSplits((), is_last=True, returned=2))
    reader.returned_splits = ()
    source.request_when_wanted()
    assert (len(asked), source.number) == (5, 3)
