"""Frames of OVER: their bounds by value, and sums, extremes and moments of the rows in them.

Rows are sorted by partition. The frame of row i is the rows from `starts[i]` to `ends[i]`, exclusive; both only grow from row to
row. A frame slides: the aggregates of its first part, up to `middle`, are kept for every start; its last part is one aggregate.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], boolean, int64[::1])",
    "void(float64[::1], float64[::1], int64[::1], int64[::1], boolean, int64[::1])",
)
def bounds_by_value(values, targets, first, last, is_after, bounds):  # type: ignore[no-untyped-def]
    """Per row the first row from `first` to `last` (exclusive) whose value is not less than the target (`is_after`: is greater).

    Values and targets ascend within a segment, which `first` tells.
    """
    at = np.int64(0)
    for i in range(len(values)):
        if i == 0 or first[i] != first[i - 1]:
            at = first[i]
        target = targets[i]
        while at < last[i] and (values[at] < target or (is_after and values[at] == target)):
            at += 1
        bounds[i] = at


@kernel("void(float64[::1], int64[::1], float64[::1], float64[::1])")
def running_sums(values, partitions, prior, sums):  # type: ignore[no-untyped-def]
    """The sum of `prior` of the partition and its values so far, added up one by one."""
    total = 0.0
    for i in range(len(values)):
        if i == 0 or partitions[i] != partitions[i - 1]:
            total = prior[partitions[i]]
        total += values[i]
        sums[i] = total


@kernel("void(float64[::1], int64[::1], int64[::1], float64[::1])")
def sums_in_order(values, starts, ends, sums):  # type: ignore[no-untyped-def]
    """The sum of each frame, added up from its first value to its last: it does not depend on the other frames. A frame that
    begins as the one before it goes on from that one's sum."""
    at = np.int64(0)
    total = 0.0
    for i in range(len(starts)):
        if i == 0 or starts[i] != starts[i - 1]:
            at = starts[i]
            total = 0.0
        while at < ends[i]:
            total += values[at]
            at += 1
        sums[i] = total


@kernel("void(float64[::1], int64[::1], int64[::1], float64[::1], float64[::1])")
def framed_sums(values, starts, ends, kept, sums):  # type: ignore[no-untyped-def]
    """The sum of each frame; `kept` is memory for as many values."""
    middle, end = np.int64(0), np.int64(0)
    total = 0.0
    for i in range(len(starts)):
        if starts[i] >= middle:
            middle = ends[i]
            end = middle
            total = 0.0
            part = 0.0
            for j in range(middle - 1, starts[i] - 1, -1):
                part = values[j] + part
                kept[j] = part
        while end < ends[i]:
            total += values[end]
            end += 1
        sums[i] = (kept[starts[i]] if starts[i] < middle else 0.0) + total


@kernel("void(int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def framed_least(keys, takes_part, starts, ends, kept, rows):  # type: ignore[no-untyped-def]
    """The first row of each frame with the least key among those that take part, -1 for none."""
    middle, end = np.int64(0), np.int64(0)
    best = np.int64(-1)
    for i in range(len(starts)):
        if starts[i] >= middle:
            middle = ends[i]
            end = middle
            best = np.int64(-1)
            part = np.int64(-1)
            for j in range(middle - 1, starts[i] - 1, -1):
                if takes_part[j] and (part < 0 or keys[j] <= keys[part]):
                    part = np.int64(j)
                kept[j] = part
        while end < ends[i]:
            if takes_part[end] and (best < 0 or keys[end] < keys[best]):
                best = end
            end += 1
        found = kept[starts[i]] if starts[i] < middle else np.int64(-1)
        if found < 0 or (best >= 0 and keys[best] < keys[found]):
            found = best
        rows[i] = found


@inlined
def _merged(n, mean, squares, more, more_mean, more_squares):  # type: ignore[no-untyped-def]
    """Two partial results as one, by Chan's formula."""
    both = n + more
    if both == 0:
        return both, mean, squares
    step = more_mean - mean
    return both, mean + step * more / both, squares + more_squares + step * step * n * more / both


@kernel(
    "void(int64[::1], float64[::1], float64[::1], int64[::1], int64[::1],"
    " int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], float64[::1])"
)
def framed_moments(  # type: ignore[no-untyped-def]
    counts,
    means,
    squares,
    starts,
    ends,
    kept_counts,
    kept_means,
    kept_squares,
    out_counts,
    out_means,
    out_squares,
):
    """Number, mean and sum of squared deviations of the partial results in each frame; `kept_…` is memory for as many."""
    middle, end = np.int64(0), np.int64(0)
    n, mean, square = np.int64(0), 0.0, 0.0
    for i in range(len(starts)):
        first = starts[i]
        if first >= middle:
            middle = ends[i]
            end = middle
            n, mean, square = np.int64(0), 0.0, 0.0
            for j in range(middle - 1, first - 1, -1):
                n, mean, square = _merged(counts[j], means[j], squares[j], n, mean, square)
                kept_counts[j], kept_means[j], kept_squares[j] = n, mean, square
            n, mean, square = np.int64(0), 0.0, 0.0
        while end < ends[i]:
            n, mean, square = _merged(n, mean, square, counts[end], means[end], squares[end])
            end += 1
        out_counts[i], out_means[i], out_squares[i] = n, mean, square
        if first < middle:
            out_counts[i], out_means[i], out_squares[i] = _merged(
                kept_counts[first], kept_means[first], kept_squares[first], n, mean, square
            )
