"""Whatever becomes of checkpoints, those that are kept can be read whole, and nothing else stays in their store."""

from __future__ import annotations

import random
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest
from checkpoint_harness import JOB_ID, OPERATOR_ID, manifest

from sqlstream.messages.checkpoint import SavedOperator, SubtaskState, TableState, TaskRestore
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import (
    CompletedCheckpoint,
    CompletedCheckpoints,
)
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot

SUBTASKS = 2


class UnsyncedFiles(PrivateFiles):
    """A disk of a machine that does not crash."""

    def sync(self, stream: BinaryIO) -> None:
        stream.flush()

    def sync_directory(self, path: str) -> None:
        del path


FILES = UnsyncedFiles()


class Subtask:
    """Writes increments behind the last completed checkpoint that it knows of. State: its chain of segments at each."""

    def __init__(self, number: int, directory: str) -> None:
        self._number = number
        self._writer = StateWriter(FILES, directory)
        self._chains: dict[int, TableState] = {0: TableState("t", True, ())}
        self._base = 0

    def save(self, checkpoint_id: int, is_whole: bool) -> SubtaskState:
        rows = pa.table({KEY_GROUP_COLUMN: pa.array([self._number], pa.int32()), "v": [checkpoint_id]})
        name = state_name(f"job-0-{self._number}-0", checkpoint_id)
        (saved,) = self._writer.write(name, {OPERATOR_ID: OperatorSnapshot({"t": rows})})
        (table,) = saved.tables
        before = () if is_whole else self._chains[self._base].segments
        self._chains[checkpoint_id] = TableState("t", True, before + table.segments)
        return SubtaskState((SavedOperator(OPERATOR_ID, (self._chains[checkpoint_id],)),))

    def values(self, checkpoint_id: int) -> list[int]:
        """What the chain of a checkpoint holds: the ids of the checkpoints that wrote it."""
        return [int(s.path.rpartition("-")[2].split(".")[0]) for s in self._chains[checkpoint_id].segments]

    def hear_of(self, checkpoint_id: int) -> None:
        self._base = max(self._base, checkpoint_id)

    def start_anew(self) -> None:
        self._base = 0


class Job:
    """A job whose JobManager and tasks may die. State: the kept checkpoints, and the files that were removed."""

    def __init__(self, directory: str, choice: random.Random, kept_max: int) -> None:
        self._directory = directory
        self._choice = choice
        self._kept_max = kept_max
        self.store = CheckpointDirectory(FILES, directory)
        self._subtasks = [Subtask(n, directory) for n in range(SUBTASKS)]
        self.completed = CompletedCheckpoints(kept_max)
        self._removed: set[str] = set()
        self._next_id = 1
        self.refused = 0

    def checkpoint(self) -> None:
        number = self._next_id
        self._next_id += 1
        states = [s.save(number, self._choice.random() < 0.3) for s in self._subtasks]
        done = manifest(number, *states)
        is_refused = not self._removed.isdisjoint(done.paths())
        self.refused += is_refused
        if is_refused or self._choice.random() < 0.3:
            self.store.remove_aborted(number)
            return
        path = self.store.store(done)
        for subsumed in self.completed.add(CompletedCheckpoint(done, self._directory, path, {})):
            self.drop(subsumed, self.completed.needed_paths(self._directory))
        for subtask in self._subtasks:
            if self._choice.random() < 0.7:
                subtask.hear_of(number)

    def drop(self, dropped: CompletedCheckpoint, needed: frozenset[str]) -> None:
        self._removed |= dropped.manifest.paths() - needed
        self.store.discard(dropped.manifest, needed)

    def tear(self) -> None:
        """The newest one is found torn: another becomes the newest, and the next subsumes it too."""
        if self.completed.newest is not None:
            self.completed.mark_unusable(self.completed.newest_id)

    def fail(self) -> None:
        """All tasks die, one in the middle of a checkpoint."""
        self._subtasks[0].save(self._next_id, True)
        self._next_id += 1
        for subtask in self._subtasks:
            subtask.start_anew()

    def die(self) -> None:
        """The JobManager dies with its tasks, perhaps between two files of a checkpoint that it removes."""
        self.fail()
        kept = list(self.completed)
        if len(kept) > 1 and self._choice.random() < 0.5:
            Path(kept.pop(0).path, "_metadata").unlink()
        self.store.sweep()
        retained = self.store.retained()
        assert retained.faults == ()
        assert [c.manifest for c in reversed(retained.checkpoints)] == [c.manifest for c in kept]
        found = (CompletedCheckpoint(c.manifest, c.directory, c.path, {}) for c in retained.checkpoints)
        self.completed = CompletedCheckpoints(self._kept_max, found)

    def check(self) -> None:
        """Every kept checkpoint is read whole."""
        for kept in self.completed:
            states = kept.manifest.vertices[0].subtasks
            restore = TaskRestore(kept.checkpoint_id, self._directory, states)
            for subtask in self._subtasks:
                found = StateReader(FILES, restore).operator(OPERATOR_ID, range(128))
                assert found is not None
                rows = found.keyed["t"].to_pylist()
                own = [r["v"] for r in rows if r[KEY_GROUP_COLUMN] == self._subtasks.index(subtask)]
                assert own == subtask.values(kept.checkpoint_id)


@pytest.mark.parametrize("seed", range(15))
def test_kept_checkpoints_are_whole_and_nothing_else_stays(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    job = Job(str(tmp_path / JOB_ID), choice, choice.choice([1, 2, 3]))
    for _ in range(30):
        step = choice.choices([job.checkpoint, job.fail, job.die, job.tear], [16, 2, 2, 1])[0]
        step()
        job.check()
    kept = list(job.completed)
    while kept:
        oldest = kept.pop(0)
        job.drop(oldest, frozenset().union(*(k.manifest.paths() for k in kept)))
    job.store.sweep()
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_missed_a_completion_is_refused_and_not_completed(tmp_path: Path) -> None:
    """With the seeds above it happens."""
    refused = 0
    for seed in range(3):
        job = Job(str(tmp_path / str(seed)), random.Random(seed), 1)
        for _ in range(20):
            job.checkpoint()
        refused += job.refused
    assert refused > 0
