"""What the sinks of simulated jobs have committed, and whether that is what it must be."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

from simulated_event_time import emitted, is_timed, may_be_late
from simulated_story import checkpoint
from simulated_tasks import Disk, Row, all_rows
from simulation.consistent_cuts import output_behind, read_rows
from simulation.event_time_watch import check_windows

from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.spi.committable import LAST_CHECKPOINT_ID


class CommittedOutput:
    """Behind each commit the results of the rows that the checkpoint's sources had read are visible, and no others.

    State: the jobs; by job and id the manifests of checkpoints; by job the files of each commit that is done, the newest that was
    begun, and what is visible of the job whose savepoint it goes on from; and the commits that this JobManager has begun."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.jobs: dict[str, JobGraph] = {}
        self.manifests: dict[tuple[str, int], CheckpointManifest] = {}
        self.committed: dict[str, dict[int, set[str]]] = {}
        self.failed: Counter[str] = Counter()
        self._begun: dict[str, int] = {}
        self._begun_now: dict[str, list[int]] = {}
        self._stops: dict[str, int] = {}
        self._origins: dict[str, str] = {}
        self._before: dict[str, dict[Row, int]] = {}

    def on_crash(self) -> None:
        """Another JobManager repeats commits."""
        self._begun_now.clear()

    def follows(self, follower: str, job_id: str) -> None:
        """A job goes on from the savepoint with which another has stopped."""
        self._origins[follower] = job_id
        job = self.jobs[job_id]
        self._before[follower] = (
            self._with_origin(job_id) if is_timed(job) else self._at(job, self.savepoint_at_end(job_id))
        )

    def savepoint_at_end(self, job_id: str) -> int:
        """The savepoint with which a job has stopped; 0 for one whose end is committed."""
        return 0 if self.newest(job_id) == LAST_CHECKPOINT_ID else self._stops.get(job_id, 0)

    def add_manifest(self, manifest: CheckpointManifest) -> None:
        """It is about to be stored."""
        self.manifests[manifest.job_id, manifest.checkpoint_id] = manifest
        if manifest.kind is CheckpointKind.SYNC_SAVEPOINT:
            self._stops[manifest.job_id] = manifest.checkpoint_id

    def newest(self, job_id: str) -> int:
        """The newest commit; 0 without any."""
        return max(self.committed.get(job_id, {}), default=0)

    def newest_begun(self, job_id: str) -> int:
        return self._begun.get(job_id, 0)

    def manifest(self, job_id: str, checkpoint_id: int) -> CheckpointManifest:
        """That of the job, or of the one whose savepoint it goes on from."""
        found = self.manifests.get((job_id, checkpoint_id))
        return found or self.manifest(self._origins[job_id], checkpoint_id)

    # --- commits

    def on_instructed(self, job_id: str, checkpoint_id: int) -> None:
        """Commits come in order, and again only when one has failed."""
        before = self._begun_now.setdefault(job_id, [])
        assert not before or checkpoint_id >= before[-1], f"{job_id} commits {checkpoint_id} after {before}"
        repeats = sum(n == m for n, m in itertools.pairwise(before)) + (before[-1:] == [checkpoint_id])
        assert repeats <= self.failed[job_id], f"{job_id} commits {checkpoint_id} again"
        before.append(checkpoint_id)

    def on_begun(self, job_id: str, checkpoint_id: int) -> None:
        """No task may go back behind it, from here on."""
        if checkpoint_id != LAST_CHECKPOINT_ID:
            self._begun[job_id] = max(self.newest_begun(job_id), checkpoint_id)

    def on_committed(self, job_id: str, checkpoint_id: int, files: list[str]) -> None:
        self.committed.setdefault(job_id, {})[checkpoint_id] = set(files)
        self.check(job_id)

    def on_aborted(self, job_id: str, files: list[str]) -> None:
        """What was visible of these files is not any more."""
        done = self.committed.get(job_id, {})
        self.committed[job_id] = {n: of for n, of in done.items() if not of.intersection(files)}
        newest = self.newest(job_id)
        self._begun[job_id] = 0 if newest == LAST_CHECKPOINT_ID else newest

    def check(self, job_id: str) -> None:
        newest = self.newest(job_id)
        if is_timed(self.jobs[job_id]):
            if self.newest_begun(job_id) <= newest:
                check_windows(self.jobs[job_id], self._with_origin(job_id))
            return
        if self.newest_begun(job_id) > newest:
            return  # Some files of the next commit may be visible: it has failed, and is repeated after this one.
        if newest not in (0, LAST_CHECKPOINT_ID) and self.manifest(job_id, newest).has_in_flight:
            return
        found, wanted = self._disk.changes(job_id), self._at(self.jobs[job_id], newest)
        assert found == wanted, f"behind {checkpoint(newest)} {job_id} shows {_difference(found, wanted)}"

    def whole(self, job: JobGraph) -> dict[Row, int]:
        """What a job that is FINISHED has written: all, or up to its savepoint."""
        if is_timed(job):
            return self._whole_windows(job)
        return self._at(job, self.savepoint_at_end(job.job_id) or LAST_CHECKPOINT_ID)

    def _at(self, job: JobGraph, checkpoint_id: int) -> dict[Row, int]:
        if not checkpoint_id or checkpoint_id < self._begins_behind(job.job_id):
            return {}
        if checkpoint_id == LAST_CHECKPOINT_ID:
            visible = Counter(all_rows(job))
        else:
            visible = Counter(output_behind(job, read_rows(job, self.manifest(job.job_id, checkpoint_id))))
        visible.subtract(self._before.get(job.job_id, {}))
        return {row: times for row, times in visible.items() if times}

    def _whole_windows(self, job: JobGraph) -> dict[Row, int]:
        """Which windows a savepoint has behind it, and which rows are late where some may be, depends on the run."""
        found = self._disk.changes(job.job_id)
        if self.savepoint_at_end(job.job_id) or may_be_late(job):
            return found
        visible = Counter(emitted(job))
        visible.subtract(self._before.get(job.job_id, {}))
        return {row: times for row, times in visible.items() if times}

    def _with_origin(self, job_id: str) -> dict[Row, int]:
        """What is visible of the job, and of those whose savepoints it goes on from."""
        found = Counter(self._before.get(job_id, {}))
        found.update(self._disk.changes(job_id))
        return dict(found)

    def _begins_behind(self, job_id: str) -> int:
        """The savepoint that it goes on from. What it commits for earlier checkpoints, as the savepoint names their rows too, is
        visible already, as rows of the other job."""
        origin = self._origins.get(job_id)
        return self.savepoint_at_end(origin) if origin is not None else 0


def _difference(found: Mapping[Row, int], wanted: Mapping[Row, int]) -> str:
    rows = [row for row in {**found, **wanted} if found.get(row) != wanted.get(row)]
    return ", ".join(
        f"{row} {found.get(row, 0)} times instead of {wanted.get(row, 0)}" for row in sorted(rows)
    )
