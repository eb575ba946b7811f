"""A job with its checkpoints on one simulated disk and the table that it writes on another, run until it is through."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from simulation.simulated_disk import Died, Disk, DiskFiles, DurableFiles

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, SavedCommit, VertexState
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory, StoredCheckpoint
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.files.table_log import TableLog
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext

JOB = "a" * 32
TABLE = "/tables/t"
CHECKPOINTS = f"/checkpoints/{JOB}"
PARALLELISM = 2
OPERATOR = 7
DEATHS_MAX = 4
STEPS_MAX = 160

_SCHEMA = Schema.of(("v", sql.BIGINT), ("p", sql.INT))
_SPEC = SinkSpec("t", "filesystem", {"path": TABLE, "format": "csv"}, _SCHEMA, partition_keys=(1,))


class Damaged(Exception):
    """The job cannot go on, and says why: the newest checkpoint is not what was written, and its rows may be visible."""


class StoredJob:
    """Writes the rows 0, 1, 2, … to a partitioned table of files, with a checkpoint after every few. It is written as a JobMaster
    and its tasks are, in one thread: state, manifest, commits in their order; after a death commits first, then the rest.

    State: the disks, what the fate has drawn, and of what the job has done only what a reader of the table could know."""

    def __init__(self, seed: int, lies: float = 0.0) -> None:
        self._rng = rng = random.Random(seed)
        self._disks = {"/tables": Disk(rng), "/checkpoints": Disk(rng, lies)}
        self._rows_at = [0]
        for _ in range(rng.randint(2, 7)):
            self._rows_at.append(self._rows_at[-1] + rng.randint(0, 7))
        self._retained_max = rng.randint(1, 2)
        self._deaths = rng.randint(0, DEATHS_MAX)
        self._steps_left = 0
        self._is_dead = False
        self._attempts = 0
        self._committed_rows = 0
        self._is_over = False
        self.story: list[str] = []

    @property
    def rows(self) -> int:
        return self._rows_at[-1]

    def run(self) -> None:
        """Return when the job is through; Damaged when it says that it cannot be."""
        while not self._is_over:
            self._steps_left = self._rng.randrange(STEPS_MAX) if self._deaths else 1 << 60
            self._is_dead = False
            self._attempts += 1
            try:
                self._live()
            except Died:
                self._deaths -= 1
                self._after_death()
            except ExternalError as error:
                # A task that cannot write fails, and is started again; the disk has room again.
                self._tell(f"fails: {error.message}")
                for disk in self._disks.values():
                    disk.is_full = False
            self._check()

    def visible(self) -> list[int]:
        """The rows that readers of the table see."""
        files = DiskFiles(self._disks, lambda: None)
        hidden = TableLog(TABLE, files).view().hidden
        found = []
        for status in files.list_files(TABLE):
            if status.path not in hidden:
                found += [int(line) for line in files.open_read(status.path).read().split()]
        return sorted(found)

    # --- one life of all processes

    def _live(self) -> None:
        self._table = DiskFiles(self._disks, self._step)
        self._checkpoints = DurableFiles(self._disks, self._step)
        self._directory = CheckpointDirectory(self._checkpoints, CHECKPOINTS)
        self._retained: list[CheckpointManifest] = []
        self._open: list[SavedCommit] = []
        done = self._restore()
        Filesystem().abort(_SPEC, JOB, [], self._table)
        if done is None:
            return
        step, checkpoint_id = done
        writers = [self._writer(subtask) for subtask in range(PARALLELISM)]
        prepared: list[Committable] = []
        while step + 1 < len(self._rows_at):
            step, checkpoint_id = step + 1, checkpoint_id + 1
            self._write(writers, self._rows_at[step - 1], self._rows_at[step])
            is_last = step + 1 == len(self._rows_at)
            for writer in writers:
                prepared += writer.prepare_commit(LAST_CHECKPOINT_ID if is_last else checkpoint_id)
            if self._complete(checkpoint_id, step, tuple(prepared)):
                prepared = []
            elif is_last:
                raise ExternalError("SS5001", "the last checkpoint fails, so the end of the job does")
            if is_last or self._rng.random() < 0.6:
                self._commit()
        self._is_over = True

    def _restore(self) -> tuple[int, int] | None:
        """How far the job has come, and the id of its newest checkpoint; None when it had ended but for its commit."""
        found = self._directory.retained()
        if found.faults:
            raise Damaged(str(found.faults[0].error))
        if not found.checkpoints:
            return 0, 0
        newest = found.checkpoints[0]
        self._retained = [stored.manifest for stored in found.checkpoints]
        step = self._step_of(newest)
        self._tell(
            f"goes on from checkpoint {newest.manifest.checkpoint_id} after {self._rows_at[step]} rows"
        )
        self._open = list(newest.manifest.commits)
        self._commit()
        self._directory.sweep()
        if step + 1 == len(self._rows_at):
            self._is_over = True
            return None
        return step, newest.manifest.checkpoint_id

    def _step_of(self, stored: StoredCheckpoint) -> int:
        vertex = stored.manifest.vertices[0]
        restore = TaskRestore(stored.manifest.checkpoint_id, stored.directory, vertex.subtasks)
        try:
            state = StateReader(self._checkpoints, restore).operator(OPERATOR, range(128))
        except ExternalError as error:
            if error.code != "SS6210":
                raise
            raise Damaged(str(error)) from error
        assert state is not None
        (step,) = state.keyed["steps"].column("step").to_pylist()
        assert vertex.subtasks[0].splits == ({"step": step},)
        return int(step)

    def _writer(self, subtask: int) -> Any:
        context = ConnectorContext(
            *(JOB, "v", subtask, PARALLELISM, 0, 100, {}, lambda: 0, lambda name, n: None, self._table)
        )
        return Filesystem().sink(_SPEC, ChangelogMode.INSERT_ONLY, context)

    def _write(self, writers: list[Any], first: int, end: int) -> None:
        self._disks["/tables"].is_full = self._rng.random() < 0.03
        schema = to_arrow_schema(_SCHEMA)
        for row in range(first, end):
            batch = pa.RecordBatch.from_pydict({"v": [row], "p": [row % 3]}, schema=schema)
            writers[self._rng.randrange(PARALLELISM)].write(batch)

    # --- a checkpoint

    def _complete(self, checkpoint_id: int, step: int, prepared: tuple[Committable, ...]) -> bool:
        disk = self._disks["/checkpoints"]
        disk.is_full = self._rng.random() < 0.1
        try:
            manifest = self._manifest(checkpoint_id, step, prepared)
            disk.is_full = disk.is_full or self._rng.random() < 0.05
            self._directory.store(manifest)
        except ExternalError as error:
            self._tell(f"checkpoint {checkpoint_id} fails: {error.message}")
            disk.is_full = False
            self._directory.remove_aborted(checkpoint_id)
            return False
        self._tell(f"checkpoint {checkpoint_id} is complete after {self._rows_at[step]} rows")
        self._open.append(manifest.commits[-1])
        self._retained.insert(0, manifest)
        while len(self._retained) > self._retained_max:
            old = self._retained.pop()
            needed = frozenset(path for kept in self._retained for path in kept.paths())
            self._directory.discard(old, needed)
        return True

    def _manifest(
        self, checkpoint_id: int, step: int, prepared: tuple[Committable, ...]
    ) -> CheckpointManifest:
        rows = pa.table({KEY_GROUP_COLUMN: pa.array([3], pa.int32()), "step": [step]})
        name = state_name(f"{JOB}-0-{self._attempts}", checkpoint_id)
        saved = StateWriter(self._checkpoints, CHECKPOINTS).write(
            name, {OPERATOR: OperatorSnapshot({"steps": rows})}
        )
        vertex = VertexState(
            *("v", "all of it", 1, 128, (OperatorIdentity(OPERATOR, "u", "o"),)),
            subtasks=(SubtaskState(saved, ({"step": step},), 0),),
            finished=(False,),
        )
        commits = (*self._open, SavedCommit(checkpoint_id, "v", OPERATOR, _SPEC, prepared))
        return CheckpointManifest(
            JOB, "job", checkpoint_id, CheckpointKind.CHECKPOINT, 0, 0, (vertex,), {}, commits
        )

    def _commit(self) -> None:
        for commit in list(self._open):
            Filesystem().commit(_SPEC, commit.checkpoint_id, list(commit.committables), self._table)
            self._open.remove(commit)
            self._tell(f"the rows of checkpoint {commit.checkpoint_id} are visible")
            self._committed_rows = max(self._committed_rows, len(self.visible()))

    # --- fate

    def _step(self) -> None:
        if not self._is_dead:
            self._steps_left -= 1
            self._is_dead = self._steps_left < 0
        if self._is_dead:
            raise Died

    def _after_death(self) -> None:
        for disk in self._disks.values():
            disk.is_full = False
        if self._rng.random() < 0.6:
            self._tell("the power fails")
            for disk in self._disks.values():
                disk.cut_power()
        else:
            self._tell("all processes are killed")

    def _check(self) -> None:
        """Readers see the rows up to a checkpoint, each once, and what they were told to be visible stays so."""
        found = self.visible()
        assert found == list(range(len(found))), self.story_of(found)
        assert len(found) in self._rows_at, self.story_of(found)
        assert len(found) >= self._committed_rows, self.story_of(found)

    def _tell(self, line: str) -> None:
        self.story.append(f"attempt {self._attempts}: {line}")

    def story_of(self, found: list[int]) -> str:
        return "\n".join([*self.story, f"readers see {found} of {self.rows} rows"])
