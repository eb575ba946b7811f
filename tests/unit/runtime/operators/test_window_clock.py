"""Clocks that are set forward and back, against zoneinfo."""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.runtime.operators.window.windowing import WindowClock

HOUR = 3_600_000
ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kolkata", "GMT+05:45"]


def ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC).timestamp() * 1000)


def shown(instant: int, zone: str) -> int:
    """What zoneinfo shows."""
    moment = datetime.datetime.fromtimestamp(instant / 1000, datetime.UTC)
    if zone == "GMT+05:45":
        return instant + 5 * HOUR + 45 * 60_000
    local = moment.astimezone(zoneinfo.ZoneInfo(zone))
    return instant + int(local.utcoffset().total_seconds() * 1000)  # type: ignore[union-attr]


# Around the nights of 2024 in which clocks are set back or forward.
NIGHTS = [
    ms(t)
    for t in (
        "2024-03-31",
        "2024-10-27",
        "2024-03-10",
        "2024-11-03",
        "2024-04-07",
        "2024-10-06",
        "2024-07-01",
    )
]
INSTANTS = st.tuples(st.sampled_from(NIGHTS), st.integers(-4 * HOUR, 12 * HOUR)).map(sum)


@given(st.sampled_from(ZONES), INSTANTS)
@settings(deadline=None, max_examples=200)
def test_a_time_has_passed_when_the_clock_never_shows_it_again(zone: str, watermark: int) -> None:
    clock = WindowClock(zone)
    # Clocks are set at whole half-hours of UTC.
    steps = [
        watermark + 1,
        *range((watermark // (HOUR // 2) + 1) * HOUR // 2, watermark + 30 * HOUR, HOUR // 2),
    ]
    least = min(shown(t, zone) for t in steps)
    assert clock.passed_ms(watermark) == least - 1
    assert clock.all_passed_ms(np.array([watermark, watermark])).tolist() == [least - 1] * 2
    assert clock.now_ms(watermark) == shown(watermark, zone)
    assert clock.forwarded_ms(watermark) <= watermark


@given(st.sampled_from(ZONES), INSTANTS)
@settings(deadline=None, max_examples=200)
def test_a_window_is_due_at_the_first_instant_at_which_its_end_has_passed(zone: str, end: int) -> None:
    clock = WindowClock(zone)
    due = clock.due_ms(end)
    assert clock.passed_ms(due - 1) + 1 >= end
    assert clock.passed_ms(due - 2) + 1 < end


@given(st.sampled_from(ZONES), st.lists(INSTANTS, min_size=2))
@settings(deadline=None, max_examples=100)
def test_later_watermarks_pass_later_times(zone: str, watermarks: list[int]) -> None:
    clock = WindowClock(zone)
    for each in (clock.passed_ms, clock.forwarded_ms):
        found = [each(w) for w in sorted(watermarks)]
        assert found == sorted(found)


@pytest.mark.parametrize("zone", ZONES)
def test_watermarks_that_stand_for_the_end_stay(zone: str) -> None:
    clock = WindowClock(zone)
    for watermark in (WATERMARK_MIN, WATERMARK_MAX):
        assert clock.passed_ms(watermark) == clock.forwarded_ms(watermark) == watermark


def test_a_repeated_hour_closes_when_it_has_passed_twice() -> None:
    clock = WindowClock("Europe/Berlin")
    # 02:30 is shown at 00:30 and at 01:30 UTC.
    end = ms("2024-10-27 02:30")
    assert clock.passed_ms(ms("2024-10-27 00:45")) < end - 1
    assert clock.due_ms(end) == ms("2024-10-27 01:30")
    # A window_time within the hour is its first instant, which the watermark does not pass before.
    assert clock.forwarded_ms(ms("2024-10-27 01:29")) < ms("2024-10-27 00:30")
