"""Files of state that subtasks share: what is in them, when they are closed, and who refers to them."""

from __future__ import annotations

import errno
import queue
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from sqlstream.errors import ErrorInfo, ExternalError, UserError
from sqlstream.messages.checkpoint import SavedOperator, StateSegment, SubtaskState, TaskRestore
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory
from sqlstream.runtime.checkpoint.copying_files import CopyingFiles
from sqlstream.runtime.checkpoint.local_copies import LocalCopies, StateFigures
from sqlstream.runtime.checkpoint.merged_files import (
    MergedFiles,
    MergedPart,
    MergingAttempt,
    MergingSettings,
    merging_settings,
)
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.runtime.taskmanager.checkpoints.checkpoint_reports import CheckpointReport, CheckpointTaken
from sqlstream.runtime.taskmanager.checkpoints.state_write import SegmentChains, StateWrite, TakenState

JOB = "0f" * 16
FOREVER_S = 1000.0
PER_FILE = MergingSettings(32 << 20, False, 4, 2.0)


class UnsyncedFiles(PrivateFiles):
    """A disk of a machine that does not crash; `on_write` is called with each piece."""

    on_write: Callable[[], None] = staticmethod(lambda: None)

    def open_write(self, path: str) -> BinaryIO:
        stream, files = super().open_write(path), self

        class Watched(type(stream)):  # type: ignore[misc]
            def write(self, data: Any) -> int:
                files.on_write()
                return int(super().write(data))

        return Watched(stream.detach())  # type: ignore[attr-defined,no-any-return]

    def sync(self, stream: BinaryIO) -> None:
        stream.flush()

    def sync_directory(self, path: str) -> None:
        del path


def rows(count: int, value: int = 0) -> pa.Table:
    groups = pa.array([n % 128 for n in range(count)], pa.int32())
    return pa.table({KEY_GROUP_COLUMN: groups, "v": pa.array([value] * count, pa.int64())})


class Subtasks:
    """The subtasks of a job in one TaskManager, each of one operator. State: what was told of their writes, in its order."""

    def __init__(
        self,
        directory: Path,
        count: int,
        settings: MergingSettings = PER_FILE,
        linger_s: float = FOREVER_S,
    ) -> None:
        self.directory = directory
        self.files = UnsyncedFiles()
        self.merged = MergedFiles(linger_s)
        self.attempts = [self.start(n, settings) for n in range(count)]
        self.told: list[tuple[int, Exception | None]] = []
        self.given_up: set[int] = set()
        self.has_told = threading.Condition()

    def start(self, number: int, settings: MergingSettings, attempt: int = 0) -> MergingAttempt:
        return self.merged.join(JOB, f"job-0-{number}-{attempt}", settings, lambda call: call())

    def write(
        self, number: int, tables: dict[str, pa.Table], checkpoint_id: int = 1
    ) -> tuple[MergedPart, tuple[SavedOperator, ...]]:
        """Writes, and has not said so yet."""
        attempt = self.attempts[number]
        part = attempt.part(str(self.directory), checkpoint_id)
        writer = StateWriter(self.files, str(self.directory), merged=part)
        name = state_name(attempt.execution_id, checkpoint_id)
        return part, writer.write(name, {number: OperatorSnapshot(tables)})

    def save(self, number: int, tables: dict[str, pa.Table], checkpoint_id: int = 1) -> SubtaskState:
        part, saved = self.write(number, tables, checkpoint_id)
        part.arrived(lambda error: self._tell(number, error))
        return SubtaskState(saved)

    def _tell(self, number: int, error: Exception | None) -> bool:
        with self.has_told:
            self.told.append((number, error))
            self.has_told.notify_all()
        return number not in self.given_up

    def wait_for_told(self, count: int) -> None:
        with self.has_told:
            assert self.has_told.wait_for(lambda: len(self.told) >= count, 60)

    def read(self, number: int, *states: SubtaskState, key_groups: range = range(128)) -> dict[str, pa.Table]:
        found = StateReader(self.files, TaskRestore(1, str(self.directory), states)).operator(
            number, key_groups
        )
        assert found is not None
        return found.keyed

    def paths(self) -> set[str]:
        return {f"shared/{path.name}" for path in self.directory.rglob("*.arrow")}


def paths_of(*states: SubtaskState) -> set[str]:
    return {segment.path for state in states for segment in state.segments()}


def test_one_file_has_the_state_of_all_subtasks_which_report_it_once_the_last_has_written(
    tmp_path: Path,
) -> None:
    job = Subtasks(tmp_path, 3)
    states = [job.save(n, {"t": rows(10 + n, n)}) for n in range(2)]
    assert job.told == []
    states.append(job.save(2, {"t": rows(12, 2)}))
    assert job.told == [(0, None), (1, None), (2, None)]
    (path,) = paths_of(*states)
    assert job.paths() == {path}
    for number, state in enumerate(states):
        assert job.read(number, state)["t"].equals(rows(10 + number, number))
        assert job.read(number, state, key_groups=range(4))["t"].num_rows == 4


def test_a_subtask_without_state_is_waited_for_and_waits_for_none(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 2)
    job.save(0, {})
    assert job.told == [(0, None)]
    job.save(1, {"t": rows(1)})
    assert job.told == [(0, None), (1, None)]


def test_checkpoints_and_directories_do_not_share_files(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 2)
    first = [job.save(0, {"t": rows(1)}, checkpoint_id=1), job.save(0, {"t": rows(1)}, checkpoint_id=2)]
    assert job.told == []
    job.save(1, {"t": rows(1)}, checkpoint_id=2)
    assert job.told == [(0, None), (1, None)]
    assert len(paths_of(*first)) == 2
    part = job.attempts[1].part(f"{tmp_path}/savepoint", 1)
    writer = StateWriter(job.files, f"{tmp_path}/savepoint", merged=part)
    writer.write("job-0-1-0-1", {1: OperatorSnapshot({"t": rows(1)})})
    part.arrived(lambda error: True)
    assert len(job.told) == 2


def test_a_full_file_is_closed_and_a_large_table_has_its_own(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 4, MergingSettings(4000, False, 4, 2.0))
    states = [job.save(n, {"t": rows(100, n)}) for n in range(3)]
    assert [number for number, _ in job.told] == [0, 1]
    states.append(job.save(3, {"t": rows(1000, 3), "u": rows(5)}))
    assert [number for number, _ in job.told] == [0, 1, 2, 3]
    shared, other = paths_of(*states[:2]), paths_of(states[2])
    assert (len(shared), len(other), len(paths_of(states[3]))) == (1, 1, 2)
    assert len(job.paths()) == 3
    for number, state in enumerate(states):
        assert job.read(number, state)["t"].equals(rows(1000 if number == 3 else 100, number))


def test_a_file_waits_for_a_late_subtask_for_a_while(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 3, linger_s=0.01)
    first = job.save(0, {"t": rows(1)})
    job.wait_for_told(1)
    late = [job.save(n, {"t": rows(1)}) for n in (1, 2)]
    job.wait_for_told(3)
    assert paths_of(first).isdisjoint(paths_of(*late))
    assert job.paths() == paths_of(first, *late)


def test_a_subtask_that_ends_is_waited_for_no_longer(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 3)
    state = job.save(0, {"t": rows(3)})
    job.attempts[1].leave()
    assert job.told == []
    job.attempts[2].leave()
    assert job.told == [(0, None)]
    assert job.read(0, state)["t"].num_rows == 3


def test_a_write_that_outlives_its_attempt_and_all_others_is_closed(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 1)
    part, _ = job.write(0, {"t": rows(1)})
    job.given_up.add(0)
    job.attempts[0].leave()
    part.arrived(lambda error: job._tell(0, error))
    assert job.told == [(0, None)]
    assert job.paths() == set()
    # A job that comes back begins anew.
    job.attempts[0] = job.start(0, PER_FILE, attempt=1)
    job.given_up.clear()
    job.save(0, {"t": rows(1)})
    assert job.told == [(0, None)] * 2


def test_a_file_goes_when_all_have_given_the_checkpoint_up_and_stays_for_one_that_has_not(
    tmp_path: Path,
) -> None:
    for given_up in ({0, 1}, {1}, {0}):
        directory = tmp_path / str(given_up)
        job = Subtasks(directory, 2)
        job.given_up = given_up
        states = [job.save(n, {"t": rows(2, n)}) for n in range(2)]
        assert len(job.told) == 2
        if len(given_up) == 2:
            assert not directory.exists()
        else:
            (kept,) = {0, 1} - given_up
            assert job.read(kept, states[kept])["t"].equals(rows(2, kept))


def test_a_failure_of_the_store_is_that_of_all_who_have_written(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 3)
    job.save(0, {"t": rows(1)})

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    job.files.on_write = full
    with pytest.raises(ExternalError, match="no space left"):
        job.write(1, {"t": rows(1)})
    ((number, error),) = job.told
    assert (number, isinstance(error, ExternalError)) == (0, True)
    assert job.paths() == set()
    # It has come as well, and the next one begins with another file.
    job.files.on_write = lambda: None
    job.attempts[1].part(str(tmp_path), 1).arrived(lambda error: False)
    state = job.save(2, {"t": rows(1)})
    assert job.told[1:] == [(2, None)]
    assert job.paths() == paths_of(state)


class Unsyncable(UnsyncedFiles):
    def sync(self, stream: BinaryIO) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_a_file_that_cannot_be_closed_is_nobodys(tmp_path: Path) -> None:
    job = Subtasks(tmp_path / "job", 2)
    job.files = Unsyncable()
    for number in range(2):
        job.save(number, {"t": rows(1)})
    assert [type(error) for _, error in job.told] == [ExternalError] * 2
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("is_blocking", [False, True])
def test_subtasks_that_write_at_once_have_a_file_each_unless_they_wait(
    tmp_path: Path, is_blocking: bool
) -> None:
    job = Subtasks(tmp_path, 2, MergingSettings(32 << 20, is_blocking, 2, 2.0))
    part, saved = job.write(0, {"t": rows(1, 0)})
    states: queue.SimpleQueue[SubtaskState] = queue.SimpleQueue()
    other = threading.Thread(target=lambda: states.put(job.save(1, {"t": rows(1, 1)})))
    other.start()
    if not is_blocking:
        other.join(60)
    part.arrived(lambda error: job._tell(0, error))
    other.join(60)
    assert not other.is_alive()
    found = [SubtaskState(saved), states.get()]
    assert len(job.told) == 2
    assert len(paths_of(*found)) == (1 if is_blocking else 2)
    assert [job.read(n, found[n])["t"]["v"].to_pylist() for n in range(2)] == [[0], [1]]


def chains_of(*states: SubtaskState) -> dict[tuple[int, str], tuple[StateSegment, ...]]:
    """The chains of the tables, whose segments are in the order of the states."""
    chains: dict[tuple[int, str], tuple[StateSegment, ...]] = {}
    for state in states:
        for operator in state.operators:
            for table in operator.tables:
                key = (operator.operator_id, table.name)
                chains[key] = (*chains.get(key, ()), *table.segments)
    return chains


def test_state_in_files_that_hold_too_much_else_is_written_anew_unless_it_is_large(tmp_path: Path) -> None:
    for amplification, is_large, is_wasteful in (
        (2.0, False, True), (2.0, True, False), (9.0, False, False), (0.5, False, False),
    ):  # fmt: skip
        directory = tmp_path / f"{amplification}-{is_large}"
        job = Subtasks(directory, 3, MergingSettings(32 << 20, False, 4, amplification))
        first = [job.save(n, {"t": rows(1000)}) for n in range(3)]
        for attempt, state in zip(job.attempts, first, strict=True):
            attempt.completed(1, state.segments())
            assert attempt.wasteful(chains_of(state)) == frozenset()
        second = [job.save(n, {"t": rows(9000 if is_large else 5)}, checkpoint_id=2) for n in range(3)]
        # The last one goes on from its first segment, the others need theirs no more.
        for number in range(2):
            job.attempts[number].completed(2, second[number].segments())
        job.attempts[2].completed(2, [*first[2].segments(), *second[2].segments()])
        found = job.attempts[2].wasteful(chains_of(first[2], second[2]))
        assert found == (frozenset({2}) if is_wasteful else frozenset())


def test_what_an_aborted_checkpoint_and_an_ended_attempt_have_written_is_not_needed(tmp_path: Path) -> None:
    job = Subtasks(tmp_path, 3)
    states = [job.save(n, {"t": rows(100)}) for n in range(3)]
    job.attempts[0].aborted(1)
    assert job.attempts[2].wasteful(chains_of(states[2])) == frozenset()
    job.attempts[1].leave()
    assert job.attempts[2].wasteful(chains_of(states[2])) == frozenset({2})


def test_what_was_written_is_reported_with_the_file_and_not_when_it_is_given_up_meanwhile(
    tmp_path: Path,
) -> None:
    for is_given_up in (False, True):
        directory = tmp_path / str(is_given_up)
        merged = MergedFiles(FOREVER_S)
        first, second = (merged.join(JOB, f"e-0-{n}-0", PER_FILE, lambda call: call()) for n in range(2))
        part, chains, reports = first.part(str(directory), 4), SegmentChains(), list[CheckpointReport]()
        writer = StateWriter(UnsyncedFiles(), str(directory), merged=part)

        class Pending:
            def stream(self) -> OperatorSnapshot:
                return OperatorSnapshot({"t": rows(3)})

        taken = CheckpointTaken("e-0-0-0", 4, SubtaskState())
        state = TakenState(taken, {7: Pending()}, {}, {}, chains, part)
        write = StateWrite(state, lambda w=writer: w, reports.append, ErrorInfo.of)  # type: ignore[misc]
        write.run()
        assert (reports, write.has_ended, write.is_settled) == ([], False, False)
        if is_given_up:
            write.give_up()
        second.leave()
        assert write.has_ended
        if is_given_up:
            assert (reports, chains.paths(4), directory.exists()) == ([], None, False)
        else:
            (report,) = reports
            assert isinstance(report, CheckpointTaken)
            assert chains.paths(4) == paths_of(report.state)


def test_a_copy_on_the_local_disk_stays_until_no_subtask_keeps_it(tmp_path: Path) -> None:
    copies, merged = LocalCopies([str(tmp_path / "local")]), MergedFiles(FOREVER_S)
    owned = [copies.of_subtask(JOB, "v", n, StateFigures()) for n in range(2)]
    attempts = [merged.join(JOB, f"e-0-{n}-0", PER_FILE, lambda call: call()) for n in range(2)]
    directory = str(tmp_path / "store")

    def save(number: int, checkpoint_id: int) -> SubtaskState:
        part = attempts[number].part(directory, checkpoint_id, owned[number].share)
        writer = StateWriter(CopyingFiles(UnsyncedFiles(), owned[number]), directory, merged=part)
        saved = writer.write(f"e-0-{number}-{checkpoint_id}", {7: OperatorSnapshot({"t": rows(2, number)})})
        part.arrived(lambda error: error is None)
        return SubtaskState(saved)

    def kept() -> int:
        return len([*(tmp_path / "local").rglob("*.arrow")])

    first = [save(n, 1) for n in range(2)]
    assert kept() == 1
    for number, state in enumerate(first):
        owned[number].completed(1, paths_of(state))
        found = StateReader(UnsyncedFiles(), TaskRestore(1, "/nowhere", (state,)), owned[number])
        read = found.operator(7, range(128))
        assert read is not None
        assert read.keyed["t"].equals(rows(2, number))
    second = [save(n, 2) for n in range(2)]
    owned[0].completed(2, paths_of(second[0]))
    assert kept() == 2
    owned[1].completed(2, paths_of(second[1]))
    assert kept() == 1
    for number in range(2):
        save(number, 3)
    owned[1].aborted(3)
    assert kept() == 2
    owned[0].aborted(3)
    assert kept() == 1
    owned[0].damaged(*paths_of(second[1]), problem="a bit has flipped")
    assert kept() == 0


def test_settings_are_read_and_files_of_several_checkpoints_are_refused() -> None:
    key = "execution.checkpointing.file-merging"
    assert merging_settings({}) is None
    assert merging_settings({f"{key}.enabled": "true"}) == MergingSettings(32 << 20, False, 4, 2.0)
    config = {
        f"{key}.enabled": "true", f"{key}.max-file-size": "1 mb", f"{key}.pool-blocking": "true",
        f"{key}.max-subtasks-per-file": "7", f"{key}.max-space-amplification": "0",
    }  # fmt: skip
    assert merging_settings(config) == MergingSettings(1 << 20, True, 7, 0.0)
    with pytest.raises(UserError, match="not supported"):
        merging_settings({f"{key}.across-checkpoint-boundary": "true"})


@pytest.mark.parametrize("seed", range(25))
def test_any_mix_of_sizes_gives_the_same_state_and_leaves_no_other_file(tmp_path: Path, seed: int) -> None:
    """Random tables from two threads: each is read again, and nothing is left of a checkpoint that is removed."""
    choice = random.Random(seed)
    count, checkpoints = choice.randint(1, 9), choice.randint(1, 3)
    settings = MergingSettings(
        choice.choice([1, 500, 5000, 1 << 20]), choice.random() < 0.5, choice.randint(1, 4), 2.0
    )
    job = Subtasks(tmp_path / "job", count, settings)
    written: dict[tuple[int, int], tuple[dict[str, pa.Table], SubtaskState]] = {}
    for checkpoint_id in range(1, checkpoints + 1):
        work = queue.SimpleQueue[tuple[int, dict[str, pa.Table]]]()
        for number in choice.sample(range(count), count):
            sizes = [choice.choice([0, 1, 7, 300, 2000]) for _ in range(choice.randint(0, 3))]
            work.put((number, {f"t{i}": rows(size, number) for i, size in enumerate(sizes)}))

        def run(work: Any = work, checkpoint_id: int = checkpoint_id) -> None:
            while not work.empty():
                try:
                    number, tables = work.get_nowait()
                except queue.Empty:
                    return
                written[number, checkpoint_id] = (tables, job.save(number, tables, checkpoint_id))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(job.told) == count * checkpoint_id
    assert all(error is None for _, error in job.told)
    states = [state for _, state in written.values()]
    assert job.paths() == paths_of(*states)
    for (number, _), (tables, state) in written.items():
        found = job.read(number, state)
        assert found.keys() == {name for name, table in tables.items() if table.num_rows}
        assert all(found[name].equals(tables[name]) for name in found)
    store = CheckpointDirectory(job.files, str(tmp_path / "job"))
    for checkpoint_id in range(1, checkpoints + 1):
        store.remove_aborted(checkpoint_id)
        left = [state for (_, id), (_, state) in written.items() if id > checkpoint_id]
        assert job.paths() == paths_of(*left)
