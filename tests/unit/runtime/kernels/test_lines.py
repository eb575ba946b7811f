"""Texts are written as lines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.kernels.buffers import view_offsets
from sqlstream.runtime.kernels.text.lines import write_lines

BYTES = st.binary(max_size=20) | st.text(st.sampled_from("\n\x0b\x8aa"), max_size=20).map(str.encode)


@given(st.lists(BYTES, max_size=6), st.integers(0, 3))
def test_each_text_is_one_line(texts: list[bytes], first: int) -> None:
    array = pa.array(texts, pa.binary()).slice(first)
    offsets, address = view_offsets(array)
    expected = b"".join(text.replace(b"\n", b" ") + b"\n" for text in texts[first:])
    # What is behind the lines stays as it is.
    target = np.full(len(expected) + 8, 7, dtype=np.uint8)
    write_lines(offsets, address, target.ctypes.data)
    assert target.tobytes() == expected + b"\x07" * 8
