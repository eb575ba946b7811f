"""Whatever becomes of checkpoints and attempts, the local copies that the newest checkpoint needs are there, and no others."""

from __future__ import annotations

import random
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from sqlstream.messages.checkpoint import SavedOperator, SubtaskState
from sqlstream.runtime.checkpoint.copying_files import CopyingFiles
from sqlstream.runtime.checkpoint.local_copies import LocalCopies, StateFigures
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.state_write import SegmentChains, behind

JOB = "ab" * 16
SUBTASKS = 3
OPERATOR_ID = 7


class UnsyncedFiles(PrivateFiles):
    """A disk of a machine that does not crash."""

    def sync(self, stream: BinaryIO) -> None:
        stream.flush()

    def sync_directory(self, path: str) -> None:
        del path


class Attempt:
    """An attempt of a subtask, which saves increments behind the last completed checkpoint that it knows of, as tasks do."""

    def __init__(self, copies: LocalCopies, subtask: int, number: int, directory: str) -> None:
        self.copies = copies.of_subtask(JOB, "v", subtask, StateFigures())
        self.chains = SegmentChains()
        self._id = f"job-0-{subtask}-{number}"
        self._writer = StateWriter(CopyingFiles(UnsyncedFiles(), self.copies), directory)
        self._completed_id = 0

    def save(self, checkpoint_id: int) -> SubtaskState:
        rows = pa.table({KEY_GROUP_COLUMN: pa.array([1], pa.int32())})
        is_whole = self._completed_id == 0 or self.chains.is_whole_due(OPERATOR_ID)
        increments = {} if is_whole else {"t": self._completed_id}
        snapshots = {OPERATOR_ID: OperatorSnapshot({"t": rows}, {}, increments)}
        base = self.chains.base()
        saved = behind(base, self._writer.write(state_name(self._id, checkpoint_id), snapshots), snapshots)
        self.chains.add(checkpoint_id, saved)
        return SubtaskState(saved)

    def hear(self, checkpoint_id: int) -> None:
        self._completed_id = checkpoint_id
        self.chains.completed(checkpoint_id)
        if (named := self.chains.paths(checkpoint_id)) is not None:
            self.copies.completed(checkpoint_id, named)

    def hear_of_abort(self, checkpoint_id: int) -> None:
        self.chains.aborted(checkpoint_id)
        self.copies.aborted(checkpoint_id)


class Job:
    """The subtasks of a job on one TaskManager. State: their attempts, and the states of the newest checkpoint."""

    def __init__(self, place: Path, choice: random.Random) -> None:
        self._place = place
        self._choice = choice
        self.copies = LocalCopies([str(place / "local")])
        self._numbers = [0] * SUBTASKS
        self._attempts = [self._attempt(n) for n in range(SUBTASKS)]
        self._newest: tuple[SubtaskState, ...] = ()
        self._next_id = 1

    def _attempt(self, subtask: int) -> Attempt:
        self._numbers[subtask] += 1
        return Attempt(self.copies, subtask, self._numbers[subtask], str(self._place / "store"))

    def checkpoint(self) -> None:
        checkpoint_id = self._next_id
        self._next_id += 1
        states = tuple(attempt.save(checkpoint_id) for attempt in self._attempts)
        if self._choice.random() < 0.3:
            for attempt in self._attempts:
                attempt.hear_of_abort(checkpoint_id)
            return
        self._newest = states
        for attempt in self._attempts:
            attempt.hear(checkpoint_id)

    def restart(self) -> None:
        """Some attempts end, perhaps within a checkpoint, and the next ones go on from the newest checkpoint."""
        ended = [n for n in range(SUBTASKS) if self._choice.random() < 0.6]
        if self._choice.random() < 0.5:
            for attempt in self._attempts:
                attempt.save(self._next_id)
            for n in range(SUBTASKS):
                if n not in ended:
                    self._attempts[n].hear_of_abort(self._next_id)
            self._next_id += 1
        for n in ended:
            self._attempts[n].copies.close()
        for n in ended:
            self._attempts[n] = self._attempt(n)

    def needed(self) -> set[str]:
        return {segment.path for state in self._newest for segment in state.segments()}

    def copied(self) -> set[str]:
        return {f"shared/{path.name}" for path in (self._place / "local").rglob("*.arrow")}


@pytest.mark.parametrize("seed", range(20))
def test_copies_that_are_named_stay_and_no_others(tmp_path: Path, seed: int) -> None:
    choice = random.Random(seed)
    job = Job(tmp_path, choice)
    for _ in range(40):
        choice.choices([job.checkpoint, job.restart], [5, 1])[0]()
        assert job.needed() <= job.copied()
    job.checkpoint()
    while not job.needed():
        job.checkpoint()
    # After checkpoints that were all heard of nothing else is left.
    for _ in range(20):
        before = job.needed()
        job.checkpoint()
        if job.needed() != before:
            break
    assert job.copied() == job.needed()
    remove = job.copies.release(JOB)
    assert remove is not None
    remove()
    assert job.copied() == set()


def test_increments_occur(tmp_path: Path) -> None:
    """The property above is about chains."""
    job = Job(tmp_path, random.Random(1))
    while len(job.needed()) <= SUBTASKS:
        job.checkpoint()
    assert isinstance(next(iter(job._newest)).operators[0], SavedOperator)
