"""The segments that the saved tables of one subtask consist of, from checkpoint to checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec

from runtime.state.snapshot import OperatorSnapshot
from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState

CHAIN_MAX = 32
"""A table of more segments than this is written whole again."""

INCREMENTS_MIN_BYTES = 1 << 20
"""A table whose increments have more bytes than this, and than half of its first segment, is written whole again."""

_Chains = dict[tuple[int, str], tuple[StateSegment, ...]]
"""By operator id and the table's name."""


class SegmentChains:
    """Puts increments behind the segments of the checkpoint that they follow.

    The task's thread asks and settles, the writing one adds. State: the segments of the last completed checkpoint, and of those
    after it that the task has taken and whose fate is not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: dict[int, _Chains] = {}
        self._completed_id = 0

    def follow(
        self, checkpoint_id: int, saved: tuple[SavedOperator, ...], snapshots: Mapping[int, OperatorSnapshot]
    ) -> tuple[SavedOperator, ...]:
        """The operators as this checkpoint has them: what was written for it, behind what its increments follow."""
        with self._lock:
            whole = tuple(self._operator(operator, snapshots[operator.operator_id]) for operator in saved)
            self._taken[checkpoint_id] = {
                (operator.operator_id, table.name): table.segments for operator in whole for table in operator.tables
            }
        return whole

    def _operator(self, operator: SavedOperator, snapshot: OperatorSnapshot) -> SavedOperator:
        tables = tuple(self._table(operator.operator_id, table, snapshot.increments) for table in operator.tables)
        return msgspec.structs.replace(operator, tables=tables)

    def _table(self, operator_id: int, table: TableState, increments: Mapping[str, int]) -> TableState:
        base_id = increments.get(table.name)
        if base_id is None or not table.is_keyed:
            return table
        before = self._taken.get(base_id, {}).get((operator_id, table.name))
        if before is None:
            raise InternalError(
                f'state table "{table.name}" was saved behind checkpoint {base_id}, which this task has not saved'
            )
        written = tuple(s for s in table.segments if s.rows)
        return msgspec.structs.replace(table, segments=(*before, *written))

    def completed(self, checkpoint_id: int) -> None:
        """What was taken before this checkpoint may be gone."""
        with self._lock:
            if checkpoint_id in self._taken:
                self._completed_id = checkpoint_id
                self._taken = {id: chains for id, chains in self._taken.items() if id >= checkpoint_id}

    def aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id != self._completed_id:
                self._taken.pop(checkpoint_id, None)

    def is_whole_due(self, operator_id: int) -> bool:
        """Whether the next checkpoint has to save the operator's tables without increments: their chains are long, or one of
        the checkpoints whose fate is not known would, once completed, not refer to what increments follow."""
        with self._lock:
            base = self._taken.get(self._completed_id, {})
            later = [chains for id, chains in self._taken.items() if id > self._completed_id]
            chains = {key: chain for key, chain in base.items() if key[0] == operator_id}
        if any(_is_long(chain) for chain in chains.values()):
            return True
        return any(other.get(key, ())[: len(chain)] != chain for other in later for key, chain in chains.items())


def _is_long(chain: tuple[StateSegment, ...]) -> bool:
    if not chain:
        return False
    first, *increments = chain
    size = sum(segment.length for segment in increments)
    return len(chain) >= CHAIN_MAX or size > max(INCREMENTS_MIN_BYTES, first.length // 2)
