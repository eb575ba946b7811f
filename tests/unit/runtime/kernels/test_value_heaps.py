"""The least and greatest of values that come and go, against Python's."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.aggregates.value_counts import ValueCounts

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [-(2**31), -3, -1, 0, 1, 2, 2**31 - 1],
    pa.float64(): [-math.inf, -2.5, -1e-300, 0.0, 1.5, 3.0, math.inf, math.nan],
    pa.decimal128(38, 2): [Decimal(n).scaleb(-2) for n in (-(10**37), -(2**64), -1, 0, 1, 2**64, 10**37)],
    pa.string(): ["", "12345678", "12345678-a", "12345678-b", "123456789", "a", "aa", "ab", "é"],
}
SLOTS = 3
CHANGES = st.lists(
    st.lists(st.tuples(st.integers(0, SLOTS - 1), st.integers(0, 8), st.sampled_from([1, -1])), max_size=12),
    max_size=6,
)


@pytest.mark.parametrize("value_type", VALUES, ids=str)
@given(batches=CHANGES, dropped=st.lists(st.integers(0, 5)), reloads=st.booleans())
@settings(max_examples=120, deadline=None)
def test_the_best_value_is_that_of_the_rows_that_are_left(
    value_type: pa.DataType, batches: list[list[tuple[int, int, int]]], dropped: list[int], reloads: bool
) -> None:
    """Also after rows were retracted before they came, after slots were emptied, and after the counts were loaded again."""
    choice = VALUES[value_type]
    kept = {order: ValueCounts(value_type, order) for order in ("MIN", "MAX")}
    counts: list[Counter[int]] = [Counter() for _ in range(SLOTS)]
    for number, rows in enumerate(batches):
        slots = np.array([slot for slot, _, _ in rows], dtype=np.int64)
        values = [v % len(choice) for _, v, _ in rows]
        weights = np.array([sign for _, _, sign in rows], dtype=np.int8)
        for (slot, _, sign), value in zip(rows, values, strict=True):
            counts[slot][value] += sign
        if number in dropped:
            counts[0].clear()
        for order, part in kept.items():
            part.resize(SLOTS)
            column = pa.array([choice[v] for v in values], value_type)
            part.add(slots, column, np.array([], np.int8) if (weights > 0).all() else weights)
            if number in dropped:
                part.drop(np.array([0]))
            if reloads:
                kept[order] = part = _reloaded(part, order)
            ranked = [[v for v, n in c.items() if n > 0] for c in counts]
            best = [None if not r else choice[min(r) if order == "MIN" else max(r)] for r in ranked]
            found = part.best_of(np.arange(SLOTS))
            found.validate(full=True)
            assert str(found.to_pylist()) == str(pa.array(best, value_type).to_pylist())


def _reloaded(part: ValueCounts, order: str) -> ValueCounts:
    live = np.flatnonzero(part.is_live(np.arange(part.slot_count)))
    owners, *columns = part.saved(live)[1]
    loaded = ValueCounts(part.value_type, order)
    loaded.resize(SLOTS)
    loaded.load(owners.to_numpy().astype(np.int64), columns)
    return loaded
