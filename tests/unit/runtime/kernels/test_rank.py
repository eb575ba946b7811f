"""The comparison of lists against sets of Python."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.rank import missing_in_row


def test_what_is_missing_in_a_row_is_found_in_any_order() -> None:
    fate = np.random.default_rng(7)
    for width in (1, 2, 9):
        items, others = (
            np.array([fate.permutation(np.arange(2 * width))[:width] for _ in range(40)], np.int64)
            for _ in range(2)
        )
        items[fate.random(items.shape) < 0.2] = -1
        others[fate.random(others.shape) < 0.2] = -1
        found = np.empty(items.shape, dtype=bool)
        missing_in_row(items, others, -1, found)
        for item, other, is_missing in zip(items.tolist(), others.tolist(), found.tolist(), strict=True):
            assert is_missing == [i != -1 and i not in other for i in item]
