"""Timestamps as they are mostly written are read by a kernel, as Arrow reads them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.runtime.formats import text_values

TYPES = [sql.timestamp(digits) for digits in (0, 3, 6, 9)] + [sql.timestamp_ltz(3)]

DIGITS = st.text("0123456789", min_size=1, max_size=10)
TIMES = st.builds(
    "{:%Y-%m-%d}{}{:%H:%M:%S}{}{}".format,
    st.datetimes(),
    st.sampled_from(" T"),
    st.datetimes(),
    st.one_of(st.just(""), DIGITS.map(".{}".format)),
    st.sampled_from(["", "Z"]),
)


@given(st.lists(st.one_of(st.none(), TIMES), max_size=5), st.sampled_from(TYPES), st.data())
def test_what_the_kernel_reads_is_what_arrow_reads(
    texts: list[str | None], t: sql.LogicalType, data: st.DataObject
) -> None:
    there = [place for place, text in enumerate(texts) if text]
    if there and data.draw(st.booleans()):
        # One character is another one.
        place = data.draw(st.sampled_from(there))
        text = texts[place] or ""
        at = data.draw(st.integers(0, len(text) - 1))
        texts[place] = text[:at] + data.draw(st.sampled_from("019: -T.Z/\0x")) + text[at + 1 :]
    target = text_values.to_arrow_type(t)
    column = pa.array(["", *texts], pa.string()).slice(1)
    found = text_values._plain_times(column, target)
    if found is not None:
        digits = text_values.FRACTION_DIGITS[target.unit]
        assert found.equals(text_values._cut_fraction(column, digits).cast(target))


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_the_usual_forms_are_read_by_the_kernel(t: sql.LogicalType) -> None:
    target = text_values.to_arrow_type(t)
    fraction = "." + "7" * t.precision if t.precision else ""
    zone = "Z" if target.tz else ""
    texts = [f"2024-02-29 23:59:59{fraction}{zone}", None, f"1969-12-31T00:00:00{zone}"]
    found = text_values._plain_times(pa.array(texts), target)
    assert found is not None
    assert found.equals(pa.array(texts).cast(target))


@pytest.mark.parametrize(
    "text",
    [
        "\0\0\0\0\0\0\0\00000 12:00:00",
        "2023-02-29 00:00:00",
        "0000-01-01 00:00:00",
        "2024-01-01 24:00:00",
        "2024-01-01 00:00:60",
        "2024-01-01 00:00:00.",
        "2024-01-01 00:00:00.1234567890123456789012",
        "2024-01-01x00:00:00",
        "2024-01-01 00:00:00Z",
        "2024-01-01 00:00:0",
    ],
)
def test_what_is_no_point_in_time_is_left_to_arrow(text: str) -> None:
    assert text_values._plain_times(pa.array([text]), pa.timestamp("ms")) is None


@pytest.mark.parametrize("text", ["\0" * 10 + " 12:00:00", "2024-01-01 12:00:00"])
@pytest.mark.parametrize("before", ["", "2024-01-01 00:00:00"])
def test_the_date_of_the_row_before_is_that_of_the_same_text(text: str, before: str) -> None:
    texts = [*([before] if before else []), text]
    found = text_values._plain_times(pa.array(texts), pa.timestamp("us"))
    assert (found is None) == ("\0" in text)
    assert found is None or found.equals(pa.array(texts).cast(pa.timestamp("us")))


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("1677-12-31 23:59:59", False),
        ("1678-01-01 00:00:00", True),
        ("2261-12-31 23:59:59.999999999", True),
        ("2262-01-01 00:00:00", False),
        ("2024-01-01 00:00:00.1234567899", True),
    ],
)
def test_nanoseconds_are_read_of_the_years_that_they_reach(text: str, is_read: bool) -> None:
    found = text_values._plain_times(pa.array([text]), pa.timestamp("ns"))
    assert (found is not None) == is_read
    assert found is None or found.equals(pa.array([text[:29]]).cast(pa.timestamp("ns")))
