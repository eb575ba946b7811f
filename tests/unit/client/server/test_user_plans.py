"""What the plans of one user's jobs may take."""

from __future__ import annotations

import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.client.server.guarded_cluster import FORGET_AT_MIN, JobLimits, UserPlans, check_slots
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph, JobVertex
from sqlstream.schema import Schema
from sqlstream.specs import ValuesSpec


def test_a_job_finds_room_when_another_of_its_user_has_ended() -> None:
    live = {"a", "b"}
    plans = UserPlans(JobLimits(1000, 100), lambda: live)
    plans.add("me", "a", 50, is_recovered=False)
    plans.add("me", "b", 50, is_recovered=False)
    for _ in range(2):
        with pytest.raises(UserError, match="take more than 100 bytes with this one") as refused:
            plans.add("me", "c", 1, is_recovered=False)
        assert refused.value.code == "SS3021"
    # Another user, whoever submits a job once more, and the server's own user.
    plans.add("other", "d", 100, is_recovered=False)
    plans.add("me", "b", 50, is_recovered=False)
    plans.add("", "e", 1000, is_recovered=False)
    live = {"b"}
    plans.add("me", "c", 50, is_recovered=False)


def test_a_job_that_is_recovered_is_not_refused_and_counts() -> None:
    plans = UserPlans(JobLimits(1000, 100), lambda: {"a", "b"})
    plans.add("me", "a", 90, is_recovered=True)
    plans.add("me", "b", 90, is_recovered=True)
    with pytest.raises(UserError, match="SS3021"):
        plans.add("me", "c", 1, is_recovered=False)


def test_a_user_has_as_many_jobs_as_the_limit_says_and_one_more_when_another_has_ended() -> None:
    live = {"a", "b"}
    plans = UserPlans(JobLimits(1000, 1000, 0, lambda user: 2 if user == "me" else 0), lambda: live)
    for job_id in ("a", "b"):
        plans.add("me", job_id, 1, is_recovered=False)
    # Again the same, and what was there before the server was started again.
    plans.add("me", "b", 1, is_recovered=False)
    plans.add("me", "r", 1, is_recovered=True)
    live = {"a", "b", "r"}
    with pytest.raises(UserError, match="has 3 jobs that wait or run, and may have 2") as refused:
        plans.add("me", "c", 1, is_recovered=False)
    assert refused.value.code == "SS6123"
    for job_id in ("d", "e", "f"):
        plans.add("other", job_id, 1, is_recovered=False)
    live = {"b"}
    plans.add("me", "c", 1, is_recovered=False)


def test_jobs_that_have_ended_are_forgotten_however_many_users_there_are() -> None:
    live: set[str] = set()
    plans = UserPlans(JobLimits(1000, 1000), lambda: live)
    for number in range(10 * FORGET_AT_MIN):
        plans.add(f"session-{number}", f"job-{number}", 1, is_recovered=False)
    assert plans.count <= FORGET_AT_MIN
    live |= {f"live-{number}" for number in range(3 * FORGET_AT_MIN)}
    for job_id in live:
        plans.add(job_id, job_id, 1000, is_recovered=False)
    for job_id in sorted(live)[:10]:
        with pytest.raises(UserError, match="SS3021"):
            plans.add(job_id, "another", 1, is_recovered=False)


def test_a_job_that_is_being_submitted_takes_the_room_of_one_that_runs() -> None:
    plans = UserPlans(JobLimits(1000, 1000, 0, lambda user: 1), set)
    with plans.submitting("a"):
        plans.add("me", "a", 1, is_recovered=False)
        with pytest.raises(UserError, match="SS6123"):
            plans.add("me", "b", 1, is_recovered=False)
    plans.add("me", "b", 1, is_recovered=False)


def test_a_job_asks_for_as_many_slots_as_its_sharing_groups_are_wide() -> None:
    wide = graph_of(("default", 4), ("default", 2), ("apart", 3))
    check_slots(wide, 0)
    check_slots(wide, 7)
    with pytest.raises(UserError, match="needs 7 slots, and one job may have 6") as refused:
        check_slots(wide, 6)
    assert (refused.value.code, refused.value.hint) == ("SS6124", "SET 'parallelism.default' = '3'")


def graph_of(*vertices: tuple[str, int]) -> JobGraph:
    schema = Schema(())
    head = ChainedOperator(0, "u", "n", ValuesSpec(()), -1, (), (), schema, ChangelogMode.INSERT_ONLY)
    made = tuple(
        JobVertex(f"{n}" * 32, "v", (head,), parallelism, 128, group)
        for n, (group, parallelism) in enumerate(vertices)
    )
    return JobGraph("a" * 32, "j", made, ())
