"""Counting sort of rows by a dense group id."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import kernel


def argsort_stable_by(group_ids: np.ndarray, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """(order int64[n], starts int64[n_groups + 1]): rows in order of group, and within a group in their own
    order.

    The rows of group g are `order[starts[g]:starts[g + 1]]`. Every id is in 0 … n_groups - 1.
    """
    group_ids = np.ascontiguousarray(group_ids)
    if group_ids.dtype != np.int32:
        group_ids = group_ids.astype(np.int64, copy=False)
    order = np.empty(len(group_ids), dtype=np.int64)
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    _argsort_into(group_ids, order, starts, np.empty(n_groups, dtype=np.int64))
    return order, starts


@kernel(
    "void(int32[::1], int64[::1], int64[::1], int64[::1])",
    "void(int64[::1], int64[::1], int64[::1], int64[::1])",
)
def _argsort_into(group_ids, order, starts, place):  # type: ignore[no-untyped-def]
    """`starts` must be zeros; `place`, one entry per group, is scratch memory."""
    for i in range(len(group_ids)):
        starts[group_ids[i] + 1] += 1
    for g in range(len(place)):
        place[g] = starts[g]
        starts[g + 1] += starts[g]
    for i in range(len(group_ids)):
        g = group_ids[i]
        order[place[g]] = i
        place[g] += 1
