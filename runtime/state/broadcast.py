"""A number or flag that every subtask has one of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import pyarrow as pa

from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole
from sqlstream.runtime.state.snapshots.snapshot import SavedTables

Scalar = TypeVar("Scalar", int, bool)


class Broadcast(SavedWhole, NeverExpires, Generic[Scalar]):
    """`value`, which operators read and set: `watermark_ms`, `has_emitted`.

    Every subtask saves its own. At a restore each new subtask gets those of all old ones, and `merge` (`min`, `max`, `any`)
    makes one of them. State: the value; it never expires.
    """

    def __init__(self, name: str, initial: Scalar, merge: Callable[[Iterable[Scalar]], Scalar]) -> None:
        self.name = name
        self.value: Scalar = initial
        self._merge: Callable[[Iterable[Scalar]], Scalar] = merge

    def save_later(self) -> Callable[[], SavedTables]:
        value = self.value
        return lambda: SavedTables(shared={self.name: pa.table({self.name: [value]})})

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is not None and table.num_rows:
            self.value = self._merge(table.column(0).to_pylist())

    def nbytes(self) -> int:
        return 0
