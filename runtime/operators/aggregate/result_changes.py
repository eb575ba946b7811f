"""The changes that results by key make to a changelog."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.take import take_rows
from sqlstream.runtime.operators.equal_values import equal_values
from sqlstream.runtime.state.storage.arrays import Array


@dataclass(frozen=True)
class ResultChanges:
    """Rows to emit: `rows` are the keys that they are of, `results` their values, `kinds` the column of row kinds (none when
    the mode is INSERT_ONLY). `is_paired`: a key may occur twice, with its -U directly before its +U."""

    rows: Array
    results: list[pa.Array]
    kinds: list[pa.Array]
    is_paired: bool = False


def result_changes(
    mode: ChangelogMode, is_new: Array, is_gone: Array, before: list[pa.Array], after: list[pa.Array]
) -> ResultChanges:
    """The changes from `before` to `after`, one value per key in each column, with keys in their order.

    `is_new` marks keys whose result was not emitted yet, `is_gone` those that have none any more. `before` is read when the mode
    is RETRACT, where an unchanged result emits nothing.
    """
    if mode is ChangelogMode.RETRACT:
        return _pairs(is_new, is_gone, before, after)
    if mode is ChangelogMode.INSERT_ONLY:
        rows, kinds = np.flatnonzero(is_new), []
    else:
        rows = np.flatnonzero(~(is_new & is_gone))
        all_kinds = np.where(is_new, RowKind.INSERT, RowKind.UPDATE_AFTER).astype(np.int8)
        all_kinds[is_gone] = RowKind.DELETE
        kinds = [to_array(pa.int8(), all_kinds[rows])]
    if len(rows) < len(is_new):
        chosen = pa.array(rows)
        after = [column.take(chosen) for column in after]
    return ResultChanges(rows, after, kinds)


def _pairs(is_new: Array, is_gone: Array, before: list[pa.Array], after: list[pa.Array]) -> ResultChanges:
    rows = len(is_new)
    is_same = np.ones(rows, dtype=bool)
    for old, new in zip(before, after, strict=True):
        is_same &= equal_values(old, new)
    is_changed = ~is_new & ~is_gone & ~is_same
    # Candidates 2 * i (the old result of row i) and 2 * i + 1 (the new one) keep a -U next to its +U.
    is_picked = np.empty((rows, 2), dtype=bool)
    is_picked[:, 0] = is_changed | (is_gone & ~is_new)
    is_picked[:, 1] = is_changed | (is_new & ~is_gone)
    all_kinds = np.empty((rows, 2), dtype=np.int8)
    all_kinds[:, 0] = np.where(is_gone, *_RETRACTIONS)
    all_kinds[:, 1] = np.where(is_new, *_ADDITIONS)
    picked = np.flatnonzero(is_picked)
    row_of = picked >> 1
    if len(picked) == 0:
        return ResultChanges(row_of, [], [], is_paired=True)
    kinds = all_kinds.ravel()[picked]
    value_rows = (row_of + (picked & 1) * rows).astype(np.int32)
    results = [take_rows(pa.concat_arrays([b, a]), value_rows) for b, a in zip(before, after, strict=True)]
    return ResultChanges(row_of, results, [to_array(pa.int8(), kinds)], is_paired=True)


_RETRACTIONS = np.array([RowKind.DELETE, RowKind.UPDATE_BEFORE], dtype=np.int8)
_ADDITIONS = np.array([RowKind.INSERT, RowKind.UPDATE_AFTER], dtype=np.int8)
"""Of a result that is gone, or new, and of one that changes."""
