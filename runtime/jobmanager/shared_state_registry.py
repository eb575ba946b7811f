"""Which files of state the kept checkpoints of a job need (Flink: SharedStateRegistry)."""

from __future__ import annotations

from collections import Counter

from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import checkpoint_of_path


class SharedStateRegistry:
    """Counts for each file the completed checkpoints that refer to it, and says which files nothing refers to any more.

    Pure. Paths are as in StateSegment. Savepoints have files of their own, which are not counted here.
    State: the files of each checkpoint that is kept, until it is released."""

    def __init__(self) -> None:
        self._paths: dict[int, frozenset[str]] = {}
        self._references: Counter[str] = Counter()

    @property
    def needed(self) -> frozenset[str]:
        """The files that some kept checkpoint refers to."""
        return frozenset(self._references)

    def missing(self, checkpoint_id: int, paths: frozenset[str]) -> frozenset[str]:
        """Of the files that a checkpoint refers to, those of earlier checkpoints that no kept one needs: they may be gone. A task
        names such files when it has not heard of a completion, and its checkpoint cannot be completed."""
        return frozenset(p for p in paths - self.needed if checkpoint_of_path(p) != checkpoint_id)

    def retain(self, checkpoint_id: int, paths: frozenset[str]) -> None:
        """A completed checkpoint is kept, and with it these files."""
        if checkpoint_id in self._paths:
            raise InternalError(f"checkpoint {checkpoint_id} is kept twice")
        self._paths[checkpoint_id] = paths
        self._references.update(paths)

    def release(self, checkpoint_id: int) -> frozenset[str]:
        """The checkpoint is not kept any more; returns its files that no other one needs. Harmless when repeated."""
        return self._unneeded(self._drop(checkpoint_id))

    def abandoned(self, paths: frozenset[str]) -> frozenset[str]:
        """Of the files that an aborted checkpoint refers to, those that no kept one needs."""
        return self._unneeded(paths)

    def _drop(self, checkpoint_id: int) -> frozenset[str]:
        paths = self._paths.pop(checkpoint_id, frozenset())
        for path in paths:
            self._references[path] -= 1
            if self._references[path] == 0:
                del self._references[path]
        return paths

    def _unneeded(self, paths: frozenset[str]) -> frozenset[str]:
        return paths - self._references.keys()
