"""Keys with rows that support them: which key has lost its last one, and which has a better one."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import inlined, kernel

# Columns of `rows`, int64[r, WIDTH]: a value, whether it is NULL, and a rank. Lower values are better, and any value than NULL.
# Columns of `chosen`, int64[k, WIDTH], by key: the same of the row that it has; the rank is one more, and 0 for none. A row
# supports what a key has if the value is the same and its rank lower.
VALUE, IS_NULL, RANK = 0, 1, 2
WIDTH = 3

# Columns of `marks`, int8[k, MARKS], by key: whether it is in the list of those whose rows are others; in that of those that have
# lost a support; and in the caller's list of those that have another value.
TOUCHED, DOUBTFUL, CHANGED = 0, 1, 2
MARKS = 3


@inlined
def _supports(rows, row, chosen, key):  # type: ignore[no-untyped-def]
    return (
        rows[row, VALUE] == chosen[key, VALUE]
        and rows[row, IS_NULL] == chosen[key, IS_NULL]
        and rows[row, RANK] + 1 < chosen[key, RANK]
    )


@kernel(
    "UniTuple(int64, 2)(int64[::1], int64[::1], int8[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int8[:, ::1],"
    " int64[::1], int64[::1])"
)
def note_changes(keys, slots, kinds, given, rows, chosen, marks, touched, doubtful):  # type: ignore[no-untyped-def]
    """`given` are the rows at `slots`, of `keys`: retracted ones where `kinds` is not 0. Returns the lengths of both lists."""
    touches, doubts = 0, 0
    for i in range(len(keys)):
        key, row = keys[i], slots[i]
        rows[row, VALUE] = given[i, VALUE]
        rows[row, IS_NULL] = given[i, IS_NULL]
        rows[row, RANK] = given[i, RANK]
        if marks[key, TOUCHED] == 0:
            marks[key, TOUCHED] = 1
            touched[touches] = key
            touches += 1
        if kinds[i] != 0 and marks[key, DOUBTFUL] == 0 and _supports(rows, row, chosen, key):
            marks[key, DOUBTFUL] = 1
            doubtful[doubts] = key
            doubts += 1
    return touches, doubts


@kernel(
    "int64(int32[:, ::1], int32[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int8[:, ::1], int64[::1], int64[::1])"
)
def find_unsupported(heads, links, counts, rows, chosen, marks, keys, found):  # type: ignore[no-untyped-def]
    """Which of the keys have something that no row supports. Returns how many. `heads` and `links` are those of `Chains`."""
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        marks[key, DOUBTFUL] = 0
        if chosen[key, RANK] == 0:
            continue
        row = np.int64(heads[key, 0]) - 1
        while row >= 0 and not (counts[row] > 0 and _supports(rows, row, chosen, key)):
            row = np.int64(links[row, 0]) - 1
        if row < 0:
            found[count] = key
            count += 1
    return count


@kernel(
    "int64(int32[:, ::1], int32[:, ::1], int64[::1], int64[:, ::1], int64[:, ::1], int8[:, ::1], int64[::1], int64, int64[::1],"
    " int64[:, ::1])"
)
def choose_best(heads, links, counts, rows, chosen, marks, keys, rank, found, before):  # type: ignore[no-untyped-def]
    """Give the keys their best rows, at this rank. Returns how many have another one; of these what they had is `before`."""
    count = 0
    for i in range(len(keys)):
        key = keys[i]
        marks[key, TOUCHED] = 0
        marks[key, DOUBTFUL] = 0
        best, is_supported = np.int64(-1), False
        row = np.int64(heads[key, 0]) - 1
        while row >= 0:
            if counts[row] > 0:
                if (
                    best < 0
                    or rows[row, IS_NULL] < rows[best, IS_NULL]
                    or (rows[row, IS_NULL] == rows[best, IS_NULL] and rows[row, VALUE] < rows[best, VALUE])
                ):
                    best = row
                is_supported = is_supported or _supports(rows, row, chosen, key)
            row = np.int64(links[row, 0]) - 1
        had = chosen[key, RANK] != 0
        if best < 0:
            if not had:
                continue
        elif (
            had
            and is_supported
            and rows[best, VALUE] == chosen[key, VALUE]
            and rows[best, IS_NULL] == chosen[key, IS_NULL]
        ):
            continue
        found[count] = key
        for column in range(WIDTH):
            before[count, column] = chosen[key, column]
        count += 1
        chosen[key, RANK] = 0
        if best >= 0:
            chosen[key, VALUE] = rows[best, VALUE]
            chosen[key, IS_NULL] = rows[best, IS_NULL]
            chosen[key, RANK] = rank + 1
    return count
