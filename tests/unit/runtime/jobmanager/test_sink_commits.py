"""The commits of a job: in the order of its checkpoints, one at a time, each once."""

from __future__ import annotations

import pytest
from committable_harness import file_of
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.errors import InternalError
from sqlstream.runtime.jobmanager.events import SinkCommit
from sqlstream.runtime.jobmanager.sink_commits import CommitState, SinkCommits
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

SINK = SinkSpec("out", "filesystem", {"path": "/t"}, Schema(()))


def commit_of(checkpoint_id: int) -> tuple[SinkCommit, ...]:
    return (SinkCommit("v", 1, SINK, (file_of(f"f{checkpoint_id}", checkpoint_id=checkpoint_id),)),)


def test_checkpoints_are_committed_one_after_the_other_and_the_end_of_the_job_last() -> None:
    commits = SinkCommits()
    for checkpoint_id in (3, 5, LAST_CHECKPOINT_ID):
        commits.add(checkpoint_id, commit_of(checkpoint_id))
    begun = []
    while (commit := commits.begin()) is not None:
        begun.append(commit)
        assert commits.begin() is None
        assert commits.state(commit[0]) is CommitState.COMMITTING
        assert commits.committed(commit[0])
        assert commits.state(commit[0]) is CommitState.COMMITTED
    assert begun == [(n, commit_of(n)) for n in (3, 5, LAST_CHECKPOINT_ID)]


def test_a_commit_that_failed_is_the_next_one_again() -> None:
    commits = SinkCommits()
    commits.add(1, commit_of(1))
    commits.add(2, commit_of(2))
    commits.begin()
    assert commits.failed(1)
    assert [commits.state(n) for n in (1, 2, 3)] == [CommitState.PENDING, CommitState.PENDING, None]
    assert commits.begin() == (1, commit_of(1))


@pytest.mark.parametrize("late", [1, 2, 4, LAST_CHECKPOINT_ID])
def test_an_answer_that_comes_late_or_for_another_checkpoint_changes_nothing(late: int) -> None:
    commits = SinkCommits()
    for n in (2, 3, 4):
        commits.add(n, commit_of(n))
    commits.begin()
    commits.committed(2)
    commits.begin()
    assert not commits.committed(late)
    assert not commits.failed(late)
    assert commits.state(3) is CommitState.COMMITTING


@pytest.mark.parametrize("checkpoint_id", [1, 2])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_checkpoint_is_never_completed_after_a_newer_one(checkpoint_id: int, is_committed: bool) -> None:
    commits = SinkCommits()
    commits.add(2, commit_of(2))
    if is_committed:
        commits.begin()
        commits.committed(2)
    with pytest.raises(InternalError, match="after a newer one"):
        commits.add(checkpoint_id, commit_of(checkpoint_id))


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "begin", "committed", "failed"]), st.integers(1, 6)), max_size=40
    )
)
def test_every_checkpoint_is_committed_at_most_once_and_in_order(events: list[tuple[str, int]]) -> None:
    commits, added, done = SinkCommits(), list[int](), list[int]()
    for event, n in events:
        match event:
            case "add" if n > max(added, default=0):
                commits.add(n, commit_of(n))
                added.append(n)
            case "begin":
                commits.begin()
            case "committed" if commits.committed(n):
                done.append(n)
            case "failed":
                commits.failed(n)
        assert done == added[: len(done)]
        assert sum(commits.state(i) is CommitState.COMMITTING for i in range(7)) <= 1
