"""The watermark of a subtask, and the one that several subtasks have together."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from sqlstream.elements import WATERMARK_MIN
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables


class CombinedWatermark(SavedWhole, NeverExpires):
    """`value_ms` and `is_idle`, which an operator reads and sets.

    At a restore each subtask gets the watermark that all old ones had together: the lowest of those that were not idle, as the
    operators behind them have combined it; the highest when all were idle. So a subtask without rows does not set back the
    watermark, and no row becomes late that was not. Whether a subtask is idle is found again. State: both values.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.value_ms = WATERMARK_MIN
        self.is_idle = False

    def save_later(self) -> Callable[[], SavedTables]:
        row = {self.name: [self.value_ms], "is_idle": [self.is_idle]}
        return lambda: SavedTables(shared={self.name: pa.table(row)})

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is not None and table.num_rows:
            values, are_idle = (column.to_pylist() for column in table.columns)
            active = [value for value, is_idle in zip(values, are_idle, strict=True) if not is_idle]
            self.value_ms = min(active) if active else max(values)

    def nbytes(self) -> int:
        return 0
