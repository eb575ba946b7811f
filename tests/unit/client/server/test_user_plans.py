"""What the plans of one user's jobs may take."""

from __future__ import annotations

import pytest

from sqlstream.client.server.guarded_cluster import UserPlans
from sqlstream.errors import UserError


def test_a_job_finds_room_when_another_of_its_user_has_ended() -> None:
    live = {"a", "b"}
    plans = UserPlans(100, lambda: live)
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
    plans = UserPlans(100, lambda: {"a", "b"})
    plans.add("me", "a", 90, is_recovered=True)
    plans.add("me", "b", 90, is_recovered=True)
    with pytest.raises(UserError, match="SS3021"):
        plans.add("me", "c", 1, is_recovered=False)
