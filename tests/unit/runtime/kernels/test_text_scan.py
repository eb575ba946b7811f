"""Texts counted, compared and chosen, against Python's own strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.text.text_scan import are_any_of, char_lengths, choose_texts

TEXTS = st.none() | st.text("ab,é€😀", max_size=12) | st.sampled_from(["x" * 63, "é" * 33 + ",", "a," * 70])
COLUMN = st.tuples(st.lists(TEXTS, max_size=8), st.integers(0, 3))


def column_of(drawn: tuple[list[str | None], int]) -> tuple[pa.Array, list[str | None]]:
    """A column that begins somewhere in its memory, and its values."""
    texts, first = drawn
    return pa.array([*["é,"] * first, *texts], pa.string()).slice(first), texts


@settings(deadline=None)
@given(COLUMN, st.sampled_from(",a"), st.integers(-1, 3))
def test_characters_are_counted_and_each_byte_adds_to_them(
    drawn: tuple[list[str | None], int], byte: str, per_byte: int
) -> None:
    column, texts = column_of(drawn)
    expected = [None if t is None else len(t) + per_byte * t.count(byte) for t in texts]
    assert char_lengths(column, ord(byte), per_byte).to_pylist() == expected
    assert char_lengths(column).to_pylist() == [None if t is None else len(t) for t in texts]


@settings(deadline=None)
@given(COLUMN, st.lists(TEXTS.filter(lambda t: t is not None), max_size=4))
def test_a_text_is_any_of_the_candidates_that_it_equals(
    drawn: tuple[list[str | None], int], candidates: list[str]
) -> None:
    column, texts = column_of(drawn)
    candidates = [*candidates, *[t for t in texts[:2] if t is not None], "x" * 62 + "y", ""]
    found = are_any_of(column, [c.encode() for c in candidates])
    assert found.to_pylist() == [None if t is None else t in candidates for t in texts]


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 2)), max_size=8), TEXTS, st.integers(0, 3))
def test_each_row_has_the_text_that_is_picked(
    rows: list[tuple[str | None, str | None, int]], constant: str | None, first: int
) -> None:
    one, _ = column_of(([a for a, _, _ in rows], first))
    other, _ = column_of(([b for _, b, _ in rows], 0))
    picks = np.array([pick for _, _, pick in rows], np.uint8)
    chosen = choose_texts(picks, [one, other, pa.array([constant], pa.string())])
    chosen.validate(full=True)
    assert chosen.to_pylist() == [(a, b, constant)[pick] for a, b, pick in rows]
