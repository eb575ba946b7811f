"""What a task counts of its time and its rows."""

import pytest

from sqlstream.runtime.taskmanager import metrics
from sqlstream.runtime.taskmanager.metrics import Rates, TaskTimes


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets: `clock[0]` is the time in seconds."""
    now_s = [100.0]
    monkeypatch.setattr(metrics, "steady_s", lambda: now_s[0])
    return now_s


def test_accumulated_times_add_up_to_the_age_of_the_task_also_while_it_waits(clock):
    times = TaskTimes()
    clock[0] += 2
    with times.idle():
        clock[0] += 3
    with times.backpressured():
        clock[0] += 5
        assert times.accumulated() == {
            "accumulateIdleTimeMs": 3000,
            "accumulateBackPressuredTimeMs": 5000,
            "accumulateBusyTimeMs": 2000,
        }


def test_a_rate_is_over_the_last_five_seconds(clock):
    rates = Rates()
    for second in range(1, 21):
        clock[0] += 1
        rows = 100 * second if second <= 10 else 1000
        read = rates.read({"numRecordsIn": rows})
        if second == 10:
            assert read == {"numRecordsInPerSecond": 100.0}
    assert read == {"numRecordsInPerSecond": 0.0}


def test_a_rate_after_a_long_pause_is_over_the_pause(clock):
    rates = Rates()
    rates.read({"numRecordsIn": 0})
    clock[0] += 20
    assert rates.read({"numRecordsIn": 50}) == {"numRecordsInPerSecond": 2.5}
