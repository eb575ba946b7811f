"""The segments that the saved tables of one subtask consist of, from checkpoint to checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import msgspec

from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, TableState, checkpoint_of_path
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot

Chains = Mapping[tuple[int, str], tuple[StateSegment, ...]]
"""By operator id and the table's name."""


class SegmentChains:
    """Keeps what increments follow: those of a checkpoint follow a part of the segments of the last completed one.

    The task's thread asks and settles, the writing one adds, and takes back what was given up meanwhile. State: the segments of
    the last completed checkpoint, and of those after it that are written and whose fate is not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._written: dict[int, Chains] = {}
        self._completed_id = 0

    def base(self) -> Chains:
        """The segments that increments which begin at this moment follow."""
        with self._lock:
            return self._written.get(self._completed_id, {})

    def paths(self, checkpoint_id: int) -> frozenset[str] | None:
        """The files that a written checkpoint refers to; None for one that was not written here, or is forgotten."""
        with self._lock:
            chains = self._written.get(checkpoint_id)
        return None if chains is None else frozenset(s.path for chain in chains.values() for s in chain)

    def is_whole_due(self, operator_id: int) -> bool:
        """Whether the operator has to save its tables without increments: a checkpoint whose fate is not known would, once
        completed, not refer to all that increments follow, and so have it removed."""
        with self._lock:
            base = self._written.get(self._completed_id, {})
            later = [chains for id, chains in self._written.items() if id > self._completed_id]
        own = {key: chain for key, chain in base.items() if key[0] == operator_id}
        return any(other.get(key, ())[: len(chain)] != chain for other in later for key, chain in own.items())

    def add(self, checkpoint_id: int, saved: tuple[SavedOperator, ...]) -> None:
        """A checkpoint is written."""
        chains = {(o.operator_id, table.name): table.segments for o in saved for table in o.tables}
        with self._lock:
            self._written[checkpoint_id] = chains

    def completed(self, checkpoint_id: int) -> None:
        """What was written before this checkpoint may be gone."""
        with self._lock:
            self._completed_id = max(self._completed_id, checkpoint_id)
            self._written = {id: c for id, c in self._written.items() if id >= self._completed_id}

    def aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            if checkpoint_id > self._completed_id:
                self._written.pop(checkpoint_id, None)


def behind(
    base: Chains, saved: tuple[SavedOperator, ...], snapshots: Mapping[int, OperatorSnapshot]
) -> tuple[SavedOperator, ...]:
    """The operators with what was written of them behind the segments of `base` that its increments follow."""
    return tuple(
        msgspec.structs.replace(
            operator,
            tables=tuple(
                _behind(base.get((operator.operator_id, table.name), ()), table, increments.get(table.name))
                for table in operator.tables
            ),
        )
        for operator in saved
        for increments in (snapshots[operator.operator_id].increments,)
    )


def _behind(base: tuple[StateSegment, ...], table: TableState, base_id: int | None) -> TableState:
    if base_id is None or not table.is_keyed:
        return table
    # An increment may hold the changes of several checkpoints: then it replaces the latest of the base.
    followed = [segment for segment in base if checkpoint_of_path(segment.path) <= base_id]
    if not followed:
        raise InternalError(
            f'state table "{table.name}" follows checkpoint {base_id}, which its task has not saved'
        )
    written = [segment for segment in table.segments if segment.rows]
    return msgspec.structs.replace(table, segments=(*followed, *written))
