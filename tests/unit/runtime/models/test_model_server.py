"""The pace of requests to a server of models, by a clock that stands still until it is told."""

from __future__ import annotations

import pytest

from sqlstream.runtime.models.model_server import Pace


def test_requests_begin_one_after_the_other_at_their_pace_and_no_time_is_saved_up() -> None:
    now_s = 100.0
    pace = Pace(4, lambda: now_s)
    assert [pace.take(1) for _ in range(3)] == [0, 0.25, 0.5]
    now_s = 100.75
    assert (pace.take(1), pace.take(2), pace.take(1)) == (0, 0.25, 0.75)
    now_s = 200.0
    assert [pace.take(1) for _ in range(2)] == [0, 0.25]


def test_what_was_used_is_known_later() -> None:
    pace = Pace(10, lambda: 5.0)
    assert pace.take(10) == 0
    pace.correct(-7)
    assert pace.take(1) == pytest.approx(0.3)
    pace.correct(4)
    assert pace.take(1) == pytest.approx(0.8)
