"""Up to when a window operator has closed windows, which at a restore may differ by key group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sqlstream.elements import WATERMARK_MIN
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.runtime.operators.operator import OperatorContext
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.key_group_column import key_group_column
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array

Run = tuple[int, int, int]
"""A watermark, and the first and last key group whose windows it has closed."""


class ClosedTimes(SavedWhole, NeverExpires):
    """`value`, the watermark up to which this subtask has closed windows.

    Barriers follow the watermark on every channel, so old subtasks have closed the same windows, unless channels were idle: which
    of two turns idle first decides how far the others bring a subtask. Of old subtasks that have come to different places the
    least value counts, so that no row is late that was not, and key groups that have come further emit no window a second time:
    `is_open`.
    State: the value, and the runs of key groups that were further at the restore, until the value has passed them."""

    def __init__(self, name: str, context: OperatorContext) -> None:
        self.name = name
        self._max_parallelism = context.max_parallelism
        self._key_groups = key_groups_of(context.subtask, context.parallelism, context.max_parallelism)
        self._value = WATERMARK_MIN
        self._further: tuple[Run, ...] = ()

    @property
    def value(self) -> int:
        return self._value

    @value.setter
    def value(self, watermark_ms: int) -> None:
        self._value = watermark_ms
        if self._further:
            self._further = tuple(run for run in self._further if run[0] > watermark_ms)

    def is_open(self, keys: list[pa.Array], ends: Array) -> Array | None:
        """bool[n]: whether the window of each row, with its key and end, has not been closed before the restore; None when none
        has."""
        if not self._further:
            return None
        groups = np.asarray(key_group_column(keys, len(ends), self._max_parallelism))
        return ends - 1 > self._by_key_group()[groups]

    def _by_key_group(self) -> Array:
        closed = np.full(self._max_parallelism, self._value, dtype=np.int64)
        for watermark_ms, first, last in self._further:
            closed[first : last + 1] = np.maximum(closed[first : last + 1], watermark_ms)
        return closed

    def save_later(self) -> Callable[[], SavedTables]:
        runs = [(self._value, self._key_groups.start, self._key_groups.stop - 1), *self._further]

        def made() -> SavedTables:
            closed, firsts, lasts = zip(*runs, strict=True)
            columns = {self.name: closed, "first_key_group": firsts, "last_key_group": lasts}
            return SavedTables(shared={self.name: pa.table(columns)})

        return made

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is None or not table.num_rows:
            return
        if table.num_columns == 1:
            # As it was saved before key groups were.
            self._value = min(table.column(0).to_pylist())
            return
        mine = self._key_groups
        runs = [
            (watermark_ms, max(first, mine.start), min(last, mine.stop - 1))
            for watermark_ms, first, last in zip(*(c.to_pylist() for c in table.columns), strict=True)
            if first < mine.stop and last >= mine.start
        ]
        self._value = min((run[0] for run in runs), default=WATERMARK_MIN)
        self._further = tuple(run for run in runs if run[0] > self._value)

    def nbytes(self) -> int:
        return 0
