"""Runs of equal rows against rows compared one by one."""

from __future__ import annotations

import decimal
import math
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.kernels.keys.group import run_starts

ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b", "long enough for words", "long enough for wordt"]),
        st.none() | st.booleans(),
        st.none() | st.sampled_from([0.0, -0.0, 1.5]),
        st.none() | st.sampled_from([decimal.Decimal(0), decimal.Decimal(2**70)]),
    ),
    min_size=1,
    max_size=12,
)
TYPES = (pa.string(), pa.bool_(), pa.float32(), pa.decimal128(30, 0))


def bits(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((math.copysign(1, v), v) if isinstance(v, float) else v for v in row)


@settings(deadline=None)
@given(ROWS, st.integers(0, 3))
def test_a_run_starts_where_a_row_differs_from_the_one_before(
    rows: list[tuple[Any, ...]], first: int
) -> None:
    rows = [rows[0]] * first + rows
    columns = [pa.array([row[i] for row in rows], t).slice(first) for i, t in enumerate(TYPES)]
    kept = rows[first:]
    starts = run_starts(columns).tolist()
    assert [i for i in range(1, len(kept)) if bits(kept[i]) != bits(kept[i - 1])] == [
        i for i in starts if i and bits(kept[i]) != bits(kept[i - 1])
    ]
    # What is no difference is one only where there is NULL.
    assert starts[0] == 0
    assert all(None in kept[i] for i in starts if i and bits(kept[i]) == bits(kept[i - 1]))
