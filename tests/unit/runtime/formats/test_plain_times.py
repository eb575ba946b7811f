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
        assert found.equals(column.cast(target))


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
    ],
)
def test_what_is_no_point_in_time_is_left_to_arrow(text: str) -> None:
    assert text_values._plain_times(pa.array([text]), pa.timestamp("ms")) is None
