"""Figures of the latency benchmark."""

from __future__ import annotations

import pytest
from benches.latency import Figure


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_one_of_the_times(share: float, expected: float) -> None:
    assert Figure.of("f", [*range(100, 0, -1)], 50).percentile(share) == expected


def test_the_99th_percentile_is_held_to_the_bar() -> None:
    times = [1.0] * 99 + [70.0]
    assert Figure.of("f", times, 50).is_within_bar
    assert not Figure.of("f", [*times, 70.0], 50).is_within_bar
    assert Figure.of("f", [2.0, 1.0], 50).as_json() == {
        "name": "f",
        "count": 2,
        "p50_ms": 1.0,
        "p99_ms": 2.0,
        "max_ms": 2.0,
        "bar_ms": 50,
        "is_within_bar": True,
    }
