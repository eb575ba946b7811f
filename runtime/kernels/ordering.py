"""Counting sort of rows by a dense group id."""

from __future__ import annotations

import numpy as np
from numba import njit


def argsort_stable_by(group_ids: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(order int64[n], starts int64[n_groups + 1]): rows in order of group, and within a group in their own
    order.

    The rows of group g are `order[starts[g]:starts[g + 1]]`. Every id is in 0 … n_groups - 1.
    """
    group_ids = np.ascontiguousarray(group_ids)
    if group_ids.dtype != np.int32:
        group_ids = group_ids.astype(np.int64, copy=False)
    return _argsort(group_ids, n_groups)


_RESULT = "Tuple((int64[::1], int64[::1]))"


@njit([f"{_RESULT}(int32[::1], int64)", f"{_RESULT}(int64[::1], int64)"], nogil=True, cache=True)
def _argsort(group_ids, n_groups):  # type: ignore[no-untyped-def]
    starts = np.zeros(n_groups + 1, np.int64)
    for i in range(len(group_ids)):
        starts[group_ids[i] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    place = starts[:n_groups].copy()
    order = np.empty(len(group_ids), np.int64)
    for i in range(len(group_ids)):
        g = group_ids[i]
        order[place[g]] = i
        place[g] += 1
    return order, starts
