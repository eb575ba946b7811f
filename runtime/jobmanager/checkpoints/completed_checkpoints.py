"""The completed checkpoints that a job can go on from, and which of their files somebody still needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sqlstream.messages.checkpoint import Arrivals, SubtaskState, TaskRestore
from sqlstream.messages.manifest import CheckpointManifest

Positions = tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class RestorableVertex:
    """What the attempts of one vertex go on from. `states` are those of all subtasks that the vertex had. The others are of its
    present subtasks: `positions` of their sources' readers (None for tasks that read the network), and `finished` says which had
    finished. `is_own`: there were as many, and each goes on with what it has saved itself. `arrivals` has what was in flight,
    where other subtasks take it."""

    states: tuple[SubtaskState, ...]
    positions: tuple[Positions | None, ...]
    finished: tuple[bool, ...]
    is_own: bool = True
    arrivals: Arrivals | None = None


@dataclass(frozen=True)
class CompletedCheckpoint:
    """A stored checkpoint. Its state files are below `directory`. The job removes what it owns. `left_out` and `begun_empty` are
    the titles of what the checkpoint has for no operator of the job, and of operators for which it has nothing."""

    manifest: CheckpointManifest
    directory: str
    path: str
    vertices: dict[str, RestorableVertex] = field(repr=False)
    is_owned: bool = True
    is_usable: bool = True
    left_out: tuple[str, ...] = ()
    begun_empty: tuple[str, ...] = ()

    @property
    def checkpoint_id(self) -> int:
        return self.manifest.checkpoint_id

    def restore_of(self, vertex_id: str, subtask: int) -> TaskRestore | None:
        """What an attempt of this subtask is deployed with; None for a vertex that the checkpoint does not have."""
        vertex = self.vertices.get(vertex_id)
        if vertex is None:
            return None
        return TaskRestore(
            self.checkpoint_id,
            self.directory,
            vertex.states,
            vertex.finished[subtask],
            vertex.is_own,
            vertex.arrivals,
        )

    def positions_of(self, vertex_id: str, subtask: int) -> Positions | None:
        vertex = self.vertices.get(vertex_id)
        return vertex.positions[subtask] if vertex is not None else None

    def has_finished(self, vertex_id: str, subtask: int) -> bool:
        vertex = self.vertices.get(vertex_id)
        return vertex is not None and vertex.finished[subtask]


class CompletedCheckpoints:
    """Keeps the newest `retained_max` usable checkpoints of a job, and what it was restored from until the first of its own.
    State: these, oldest first."""

    def __init__(self, retained_max: int, restored: Iterable[CompletedCheckpoint] = ()) -> None:
        self._retained_max = retained_max
        self._kept = sorted(restored, key=lambda c: c.checkpoint_id)

    def __iter__(self) -> Iterator[CompletedCheckpoint]:
        return iter(self._kept)

    @property
    def newest(self) -> CompletedCheckpoint | None:
        """What a restart goes on from."""
        return next((c for c in reversed(self._kept) if c.is_usable), None)

    @property
    def newest_id(self) -> int:
        return self.newest.checkpoint_id if self.newest is not None else 0

    def rescale(self, rescaled: Callable[[CompletedCheckpoint], CompletedCheckpoint]) -> None:
        """The job has other subtasks from here on."""
        self._kept = [rescaled(kept) for kept in self._kept]

    def add(self, completed: CompletedCheckpoint) -> list[CompletedCheckpoint]:
        """Returns those that are subsumed by it, and owned: they are to be removed."""
        self._kept.append(completed)
        usable = [c for c in self._kept if c.is_usable]
        retained = usable[-self._retained_max :]
        subsumed = [c for c in self._kept if c not in retained]
        self._kept = retained
        return [c for c in subsumed if c.is_owned]

    def mark_unusable(self, checkpoint_id: int) -> bool:
        """A restart has found it torn. False when it was known, or is not kept any more."""
        for i, kept in enumerate(self._kept):
            if kept.checkpoint_id == checkpoint_id and kept.is_usable:
                self._kept[i] = replace(kept, is_usable=False)
                return True
        return False

    def needed_paths(self, directory: str) -> frozenset[str]:
        """The files below a directory that a kept checkpoint refers to. Those of an unusable one are kept as long as it is."""
        paths = [c.manifest.paths() for c in self._kept if c.directory == directory]
        return frozenset[str]().union(*paths)
