"""Whose results an operator has emitted that holds them until the histories of its statement have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from sqlstream.graph.key_groups import key_groups_of
from sqlstream.runtime.state.operator_state import NeverExpires, SavedWhole, StateScope
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.runtime.state.storage.arrays import Array


class HandedOver(SavedWhole, NeverExpires):
    """The key groups whose results have been emitted: all of a subtask, or none.

    Of those that a subtask gets by a restore some may have been, as not all of the subtasks before need have come so far. An
    operator that holds nothing is complete from the first, and does not add this to its state. State: a flag for each key group
    of the job; those of other subtasks are of no use. It never expires.
    """

    name = "handed_over"

    def __init__(self, scope: StateScope, parallelism: int, *, holds: bool) -> None:
        self._own = key_groups_of(scope.subtask, parallelism, scope.max_parallelism)
        self._is_emitted = np.zeros(scope.max_parallelism, dtype=bool)
        self.is_complete = not holds

    def of(self, key_groups: Array) -> Array:
        """bool[n]: whether the results of each of these key groups have been emitted."""
        emitted: Array = self._is_emitted[key_groups]
        return emitted

    def take_held(
        self, slots: Callable[[], Array], key_groups: Callable[[Array], Array], at_once: int
    ) -> Iterator[Array]:
        """The slots of keys whose results are held, so many at once, to emit them: at the end all have been."""
        if self.is_complete:
            return
        held = slots()
        held = held[~self.of(key_groups(held))]
        for first in range(0, len(held), at_once):
            yield held[first : first + at_once]
        self._is_emitted[self._own.start : self._own.stop] = True
        self.is_complete = True

    def save_later(self) -> Callable[[], SavedTables]:
        emitted = np.flatnonzero(self._is_emitted).astype(np.int32)
        return lambda: SavedTables(shared={self.name: pa.table({"key_group": emitted})})

    def load(self, saved: SavedTables) -> None:
        table = saved.shared.get(self.name)
        if table is not None:
            self._is_emitted[table.column(0).to_numpy()] = True
        self.is_complete = bool(self._is_emitted[self._own.start : self._own.stop].all())

    def nbytes(self) -> int:
        return self._is_emitted.nbytes
