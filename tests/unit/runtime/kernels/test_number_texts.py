"""Numbers read from texts by the kernels, beside Python's float and Decimal."""

from __future__ import annotations

import random
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.kernels.buffers import view_texts
from sqlstream.runtime.kernels.decimals import read_plain_decimals_into, read_plain_doubles_into

DIGITS = st.one_of(
    st.text("0123456789", min_size=1, max_size=12),
    st.text("0123456789", min_size=1, max_size=40),
    # In 64 bits they are zero.
    st.integers(1, 10**6).map(lambda factor: str(factor << 64)),
)
SIGNS = st.sampled_from(["", "-"])
FRACTIONS = st.one_of(st.just(""), DIGITS.map(".{}".format))
EXPONENTS = st.one_of(st.just(""), st.integers(-99, 99).map("e{}".format), st.just("E+07"))
NUMBERS = st.builds("{}{}{}{}".format, SIGNS, DIGITS, FRACTIONS, EXPONENTS)


def doubles_of(texts: list[str]) -> np.ndarray | None:
    """None when the kernel leaves them to another reader."""
    out = np.empty(len(texts))
    # The texts begin and end within their buffer.
    _, *viewed = view_texts(pa.array(["7", *texts]).slice(1))
    return out if read_plain_doubles_into(out, *viewed) else None


def halfway(generator: random.Random) -> str:
    """The point between two doubles, or the next one of 19 digits."""
    mantissa = 2 * (generator.getrandbits(52) | 1 << 52) + 1
    exact = Decimal(mantissa) * Decimal(2) ** generator.randint(-64, 10)
    return f"{exact:.{generator.choice((15, 16, 17, 18))}e}"


def near_halfway(generator: random.Random) -> str:
    return str(
        (generator.getrandbits(54) | 1 << 53) * 2 ** generator.randint(0, 9) + generator.randint(-1, 1)
    )


MAKERS = {
    "shortest": lambda r: repr(r.random() * 10.0 ** r.randint(-98, 98)),
    "17 digits": lambda r: f"{r.uniform(-1, 1) * 10.0 ** r.randint(-98, 98):.17g}",
    "19 digits": lambda r: f"-{r.randint(10**18, 10**19 - 1)}e{r.randint(-99, 99)}",
    "few digits": lambda r: f"{r.random() * 10.0 ** r.randint(-3, 5):.{r.randint(1, 6)}f}",
    "sums of powers of two": lambda r: repr(r.getrandbits(53) / 2.0 ** r.randint(0, 30)),
    "halfway": halfway,
    "near halfway": near_halfway,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_double_is_the_nearest_one(maker: str) -> None:
    generator = random.Random(maker)
    texts = [text for _ in range(4000) if digits_in(text := MAKERS[maker](generator)) <= 19]
    texts = [text for text in texts if "e-1" not in text or len(text.partition("e-")[2]) < 3]
    found = doubles_of(texts)
    assert found is not None
    wanted = np.array([float(text) for text in texts])
    assert found.view(np.int64).tolist() == wanted.view(np.int64).tolist()


def digits_in(text: str) -> int:
    return len(text.partition("e")[0].strip("-").replace(".", "").lstrip("0"))


@given(NUMBERS)
def test_any_spelling_is_read_as_python_reads_it(text: str) -> None:
    found = doubles_of([text])
    assert found is None or repr(float(found[0])) == repr(float(text))
    if digits_in(text.lower()) <= 19 and len(text.partition(".")[0]) < 9:
        assert found is not None


@given(
    NUMBERS,
    st.integers(1, 18).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision))),
)
def test_a_decimal_is_rounded_half_up_and_has_the_digits_of_its_type(text: str, t: tuple[int, int]) -> None:
    precision, scale = t
    out = np.empty(2, dtype=np.int64)
    _, *viewed = view_texts(pa.array([text]))
    found = read_plain_decimals_into(out, *viewed, precision, scale)
    wanted = int((Decimal(text).scaleb(scale)).to_integral_value(ROUND_HALF_UP))
    if found:
        assert abs(wanted) < 10**precision
        assert int(out[0]) == wanted
        assert out[1] == (-1 if wanted < 0 else 0)
    elif digits_in(text.lower()) <= 15 and "e" not in text.lower() and len(text) < 18:
        assert abs(wanted) >= 10**precision
