"""Files that go with jobs, in the store of servers that share no directory: the next one that leads fetches those of its jobs."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable

from sqlstream.client.server.leaders.record_store import Conflict, RecordStore
from sqlstream.graph.artifacts import Artifact
from sqlstream.runtime.host.artifacts import KEPT_S, ArtifactStore

PART_BYTES = 8 << 20
"""What one object has of a file, which several of them make."""


class SharedArtifacts:
    """The files of jobs by their digests: each is a row of objects `<digest>-<number>`, written in order, so that one whose last
    object is there is whole. Thread-safe.

    State: what this server has put there within KEPT_S. An object goes when no job needs its file, and it is none of these: a job
    that is being submitted is not known yet."""

    def __init__(
        self,
        store: RecordStore,
        local: ArtifactStore,
        needed: Callable[[], set[str]],
        check_owner: Callable[[], None],
        part_bytes: int = PART_BYTES,
    ) -> None:
        """`needed` are the digests of the files of all jobs. `check_owner` raises unless this server led after the call."""
        self._store, self._local = store, local
        self._needed, self._check_owner = needed, check_owner
        self._part_bytes = part_bytes
        self._lock = threading.Lock()
        self._put_s: dict[str, float] = {}

    def fetch(self, artifacts: Iterable[Artifact]) -> None:
        """Bring those here that are not here, and are in the store. ExternalError SS6080, SS5089."""
        for artifact in artifacts:
            if not self._local.holds(artifact) and self._store.read(self._last(artifact)) is not None:
                self._local.fetch(artifact, functools.partial(self._part, artifact.digest))

    def put(self, artifacts: Iterable[Artifact]) -> None:
        """Have the store keep files that are here; returns when it has them. ExternalError SS6080."""
        found = list(artifacts)
        if not found:
            return
        with self._lock:
            there = set(self._store.keys())
            now_s = time.monotonic()
            self._put_s = {
                digest: then_s for digest, then_s in self._put_s.items() if now_s - then_s < KEPT_S
            }
            for artifact in found:
                self._put_s[artifact.digest] = now_s
                if self._last(artifact) not in there:
                    self._put(artifact, there)
            self._remove(there)

    def remove_left(self) -> None:
        """Remove what no job needs. ExternalError SS6080, SS6077."""
        with self._lock:
            self._remove(set(self._store.keys()))

    def close(self) -> None:
        self._store.close()

    def _put(self, artifact: Artifact, there: set[str]) -> None:
        with open(self._local.path(artifact.digest), "rb") as stream:
            for number in range(self._count(artifact)):
                data, key = stream.read(self._part_bytes), f"{artifact.digest}-{number}"
                if key not in there:
                    try:
                        self._store.write(key, data, None)
                    except Conflict:
                        # Another server has put the same bytes there.
                        continue

    def _remove(self, there: set[str]) -> None:
        kept = self._needed() | self._put_s.keys()
        left = [key for key in there if key.partition("-")[0] not in kept]
        if left:
            # What was listed is of this server or earlier ones, if it leads now.
            self._check_owner()
        for key in left:
            self._store.remove(key)

    def _part(self, digest: str, offset: int) -> bytes:
        found = self._store.read(f"{digest}-{offset // self._part_bytes}")
        return found.data if found is not None else b""

    def _count(self, artifact: Artifact) -> int:
        return max(1, -(-artifact.size // self._part_bytes))

    def _last(self, artifact: Artifact) -> str:
        return f"{artifact.digest}-{self._count(artifact) - 1}"
