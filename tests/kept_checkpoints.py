"""A store of checkpoints in memory, that fails when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream.errors import ExternalError
from sqlstream.messages.manifest import CheckpointManifest


@dataclass(frozen=True)
class KeptCheckpoint:
    manifest: CheckpointManifest
    directory: str
    path: str


class KeptCheckpoints:
    """Implements `CheckpointStore`. State: what was stored and not removed, by path, and the calls."""

    def __init__(self) -> None:
        self.kept: dict[str, KeptCheckpoint] = {}
        self.calls: list[tuple[str, object]] = []
        self.is_full = False
        self._lock = threading.Lock()

    def store(self, directory: str, manifest: CheckpointManifest) -> str:
        self._call("store", manifest.checkpoint_id)
        if self.is_full:
            raise ExternalError("SS5001", f'could not write below "{directory}": disk full')
        path = directory if manifest.kind.is_savepoint else f"{directory}/chk-{manifest.checkpoint_id}"
        self.kept[path] = KeptCheckpoint(manifest, directory, path)
        return path

    def load(self, path: str, config: Mapping[str, str]) -> KeptCheckpoint:
        return self.kept[path]

    def latest(self, directory: str, config: Mapping[str, str]) -> list[KeptCheckpoint]:
        found = (k for k in self.kept.values() if k.directory == directory)
        return sorted(found, key=lambda k: k.manifest.checkpoint_id, reverse=True)

    def discard(
        self,
        directory: str,
        manifest: CheckpointManifest,
        still_needed: frozenset[str] | None,
        config: Mapping[str, str],
    ) -> None:
        self._call("discard", manifest.checkpoint_id)
        self.kept.pop(f"{directory}/chk-{manifest.checkpoint_id}", None)

    def remove_aborted(self, directory: str, checkpoint_id: int, config: Mapping[str, str]) -> None:
        self._call("remove_aborted", checkpoint_id)

    def remove_all(self, directory: str, config: Mapping[str, str]) -> None:
        self._call("remove_all", directory)
        self.kept = {path: k for path, k in self.kept.items() if k.directory != directory}

    def _call(self, name: str, about: object) -> None:
        with self._lock:
            self.calls.append((name, about))
