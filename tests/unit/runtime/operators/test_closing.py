"""Which rows are late for their window."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import operator_context

from runtime.operators.window.closing import LATE, drop_late
from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN
from sqlstream.schema import Schema
from sqlstream.types import BIGINT

ROWS = Schema.of(("end", BIGINT))


@pytest.mark.parametrize(
    ("ends", "closed_ms", "kept"),
    [
        ([100, 200], 98, [100, 200]),
        ([100, 200], 99, [200]),
        ([100, 200], 100, [200]),
        ([200, 100, 300], 199, [300]),
        ([100, 200], 198, [200]),
        ([100, 200], WATERMARK_MAX, []),
        ([100], WATERMARK_MIN, [100]),
        ([], 5, []),
    ],
)
def test_a_row_is_late_from_the_last_millisecond_of_its_window_on(
    ends: list[int], closed_ms: int, kept: list[int]
) -> None:
    counts: Counter[str] = Counter()
    context = operator_context([ROWS], ROWS, count=lambda name, n: counts.update({name: n}))
    batch = pa.record_batch({"end": pa.array(ends, pa.int64())})
    rows, left = drop_late(batch, np.array(ends, dtype=np.int64), closed_ms, context)
    assert rows.column(0).to_pylist() == left.tolist() == kept
    assert counts[LATE] == len(ends) - len(kept)
