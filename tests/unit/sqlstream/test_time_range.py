"""The range of timestamps by their precision and unit."""

from __future__ import annotations

import pytest

from sqlstream.times import timestamp_bounds, timestamp_bounds_ns, timestamp_years


@pytest.mark.parametrize(
    ("unit", "least", "greatest", "years"),
    [
        ("s", -62_135_596_800, 253_402_300_799, "0001 to 9999"),
        ("ms", -62_135_596_800_000, 253_402_300_799_999, "0001 to 9999"),
        ("us", -62_135_596_800_000_000, 253_402_300_799_999_999, "0001 to 9999"),
        ("ns", -9_214_560_000_000_000_000, 9_214_646_399_999_999_999, "1678 to 2261"),
    ],
)
def test_a_unit_has_its_range(unit: str, least: int, greatest: int, years: str) -> None:
    assert timestamp_bounds(unit) == (least, greatest)
    assert timestamp_years(unit) == years


def test_literals_are_nanoseconds_of_the_range_of_their_precision() -> None:
    wide = (-62_135_596_800_000_000_000, 253_402_300_799_999_999_999)
    assert [timestamp_bounds_ns(precision) for precision in (0, 3, 6)] == [wide] * 3
    assert [timestamp_bounds_ns(precision) for precision in (7, 9)] == [timestamp_bounds("ns")] * 2
