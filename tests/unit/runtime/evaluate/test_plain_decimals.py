"""Decimals and doubles as they are mostly written are read by kernels, as other texts are read."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.evaluate.cast_from_text import _plain_decimals
from sqlstream.runtime.formats.text_values import _plain_doubles

TYPES = [pa.decimal128(*sizes) for sizes in ((1, 0), (5, 2), (10, 2), (18, 0), (18, 17), (18, 4))]
TEXTS = st.one_of(
    st.none(), st.from_regex(r"\A-?[0-9]{1,18}(\.[0-9]{1,5})?\Z"), st.text("0123456789-+. e", max_size=8)
)


@given(st.lists(TEXTS, max_size=4), st.sampled_from(TYPES))
def test_what_the_kernel_reads_is_what_the_text_says(texts: list[str | None], t: pa.Decimal128Type) -> None:
    found = _plain_decimals(pa.array(["", *texts], pa.string()).slice(1), t)
    if found is not None:
        found.validate(full=True)
        half_up = decimal.Context(prec=60, rounding=decimal.ROUND_HALF_UP)
        unit = decimal.Decimal(1).scaleb(-t.scale)
        assert found.to_pylist() == [
            None if text is None else half_up.quantize(decimal.Decimal(text), unit) for text in texts
        ]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_the_usual_forms_are_read_by_the_kernel(t: pa.Decimal128Type) -> None:
    whole = "9" * (t.precision - t.scale)
    texts = [whole, f"-{whole}", None, "0", f"-0.{'7' * t.scale}" if t.scale else "1"]
    found = _plain_decimals(pa.array(texts), t)
    assert found is not None
    assert found.equals(pa.array(texts).cast(t))


@pytest.mark.parametrize("text", ["", "-", ".5", "5.", "1e100", "+1", " 1", "1000", "999.995", "1.5x", "--1"])
def test_other_forms_are_left_to_others(text: str) -> None:
    assert _plain_decimals(pa.array([text]), pa.decimal128(5, 2)) is None


@given(st.lists(st.one_of(TEXTS, st.from_regex(r"\A-?[0-9]{1,9}\.[0-9]{1,15}\Z")), max_size=4))
def test_doubles_are_those_of_the_texts(texts: list[str | None]) -> None:
    found = _plain_doubles(pa.array(["", *texts], pa.string()).slice(1))
    if found is not None:
        assert [repr(x) for x in found.to_pylist()] == [
            repr(None if text is None else float(text)) for text in texts
        ]


@pytest.mark.parametrize(
    "text",
    [
        "0.1",
        "-0",
        "-0.0",
        "123456789012345",
        "0.00000000000001",
        "-99999999.9999999",
        "0.1234567890123456",
        "1E+07",
    ],
)
def test_doubles_of_at_most_19_digits_are_read_by_the_kernel(text: str) -> None:
    found = _plain_doubles(pa.array([text, None]))
    assert found is not None
    assert repr(found.to_pylist()) == repr([float(text), None])


@pytest.mark.parametrize(
    "text",
    [
        "12345678901234567890",
        "0.12345678901234567890",
        "1e100",
        "1e+",
        "NaN",
        "",
        "-",
        " 1",
        "0x10",
        "1.",
        "1.5.5",
    ],
)
def test_other_doubles_are_left_to_arrow(text: str) -> None:
    assert _plain_doubles(pa.array([text])) is None
