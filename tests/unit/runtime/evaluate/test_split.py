"""Parts of delimited texts against Python's own."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.evaluate.text.split import split_parts

# The first byte of a delimiter also stands alone, and texts are longer than the kernel's step.
TEXTS = st.lists(
    st.none() | st.text("-+é", max_size=90) | st.text("ab-", max_size=90), min_size=1, max_size=6
)
DELIMITERS = st.sampled_from(["-", "--", "-+", "-+-", "-a", "é", "é-"])


@given(TEXTS, DELIMITERS, st.lists(st.integers(-1, 9), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_parts_are_those_of_python(texts: list[str | None], delimiter: str, indexes: list[int]) -> None:
    def part(text: str | None, index: int) -> str | None:
        parts = [] if not text else text.split(delimiter)
        return parts[index] if 0 <= index < len(parts) else None

    found = split_parts(pa.array(texts, pa.string()), delimiter.encode(), indexes)
    assert [column.to_pylist() for column in found] == [[part(t, i) for t in texts] for i in indexes]
