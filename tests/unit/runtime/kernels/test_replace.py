"""Replacing texts against Python's."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.text.replace import replace_text

TEXTS = st.lists(st.text("abé-", max_size=9) | st.none(), max_size=9)
REPLACED = st.tuples(st.text("abé", min_size=1, max_size=3), st.text("bxé", max_size=3)).filter(
    lambda pair: len(pair[1].encode()) <= len(pair[0].encode())
)


@given(TEXTS, REPLACED, st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_every_occurrence_is_replaced_in_all_rows_and_in_slices(
    texts: list[str | None], pair: tuple[str, str], start: int
) -> None:
    search, replacement = pair
    replaced = replace_text(pa.array(texts, pa.string())[start:], search.encode(), replacement.encode())
    replaced.validate(full=True)
    assert replaced.to_pylist() == [t and t.replace(search, replacement) for t in texts[start:]]
