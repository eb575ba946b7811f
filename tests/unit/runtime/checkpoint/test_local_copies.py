"""The local copies of state: written beside their originals, read instead of them, and never missed."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from sqlstream.errors import ExternalError, InternalError
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.runtime.checkpoint.copying_files import CopyingFiles
from sqlstream.runtime.checkpoint.local_copies import LocalCopies, StateFigures, SubtaskCopies
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter
from sqlstream.runtime.host import process_directory
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.spi.files import FileStatus

JOB = "0f" * 16


class FarFiles:
    """A store on no disk of this machine: its files are named otherwise. State: the directory that has them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = PrivateFiles()

    def _at(self, path: str) -> str:
        return f"{self._directory}/{path.removeprefix('far://')}"

    def open_write(self, path: str) -> BinaryIO:
        return self._files.open_write(self._at(path))

    def open_read(self, path: str) -> BinaryIO:
        return self._files.open_read(self._at(path))

    def map_read(self, path: str) -> Any:
        return self._files.map_read(self._at(path))

    def sync(self, stream: BinaryIO) -> None:
        self._files.sync(stream)

    def status(self, path: str) -> FileStatus | None:
        return self._files.status(self._at(path))

    def remove(self, path: str) -> None:
        self._files.remove(self._at(path))

    def remove_directory_if_empty(self, path: str) -> None:
        self._files.remove_directory_if_empty(self._at(path))


class Job:
    """One subtask of a job, whose checkpoints are below `directory`, with one row each. State: its copies."""

    def __init__(self, root: Path, files: Any, directory: str) -> None:
        self.root = root
        self.files = files
        self.directory = directory
        self.copies = LocalCopies([str(root)])
        self.own = self.attempt()

    def attempt(self) -> SubtaskCopies:
        return self.copies.of_subtask(JOB, "v", 0, StateFigures())

    def save(self, checkpoint_id: int, value: str = "x" * 100) -> SubtaskState:
        rows = pa.table({KEY_GROUP_COLUMN: pa.array([5], pa.int32()), "v": [value]})
        writer = StateWriter(CopyingFiles(self.files, self.own), self.directory)
        return SubtaskState(writer.write(f"e-{checkpoint_id}", {7: OperatorSnapshot({"t": rows})}))

    def read(self, *states: SubtaskState, own: SubtaskCopies | None = None) -> list[str]:
        restore = TaskRestore(1, self.directory, states)
        found = StateReader(self.files, restore, own or self.own, (own or self.own).figures).operator(
            7, range(128)
        )
        assert found is not None
        return found.keyed["t"].column("v").to_pylist()

    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.rglob("*.arrow"))

    def one(self) -> Path:
        (path,) = self.root.rglob("*.arrow")
        return path


@pytest.fixture(params=["same disk", "far"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    if request.param == "far":
        return Job(tmp_path / "local", FarFiles(tmp_path / "store"), "far://jobs/j")
    return Job(tmp_path / "local", PrivateFiles(), str(tmp_path / "store"))


def replace(path: Path, data: bytes) -> None:
    """Another file at the path: the bytes of other links stay."""
    path.unlink()
    path.write_bytes(data)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def test_a_copy_has_the_bytes_of_its_original_and_is_read_instead_of_it(job: Job, tmp_path: Path) -> None:
    state = job.save(1)
    (original,) = (tmp_path / "store").rglob("*.arrow")
    assert job.one().read_bytes() == original.read_bytes()
    assert job.one().stat().st_mode & 0o777 == 0o600
    assert all(d.stat().st_mode & 0o777 == 0o700 for d in job.root.rglob("*") if d.is_dir())
    original.unlink()
    assert job.read(state) == ["x" * 100]
    assert (job.own.figures.local_bytes, job.own.figures.store_bytes) == (state.bytes, 0)


def test_a_copy_on_the_disk_of_the_store_takes_no_room(tmp_path: Path) -> None:
    job = Job(tmp_path / "local", PrivateFiles(), str(tmp_path / "store"))
    job.save(1)
    assert job.one().stat().st_nlink == 2


@pytest.mark.parametrize("damage", [flipped, lambda data: data[:-70], lambda data: b""])
def test_a_damaged_copy_is_removed_and_the_store_is_read(
    job: Job, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    state = job.save(1)
    replace(job.one(), damage(job.one().read_bytes()))
    assert job.read(state) == ["x" * 100]
    figures = job.own.figures
    assert (figures.local_bytes, figures.store_bytes, figures.copies_damaged) == (0, state.bytes, 1)
    assert "is damaged, and the store is read" in caplog.text
    assert job.names() == []


def test_a_damaged_original_is_found_where_there_is_no_copy(job: Job, tmp_path: Path) -> None:
    state = job.save(1)
    (original,) = (tmp_path / "store").rglob("*.arrow")
    job.one().unlink()
    replace(original, flipped(original.read_bytes()))
    with pytest.raises(ExternalError, match="its bytes are not those that were written"):
        job.read(state)


def test_a_checkpoint_stands_without_a_copy_that_cannot_be_written(
    job: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*ignored: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("os.link", full)
    monkeypatch.setattr("sqlstream.runtime.checkpoint.copying_files._opened", full)
    state = job.save(1)
    assert job.own.figures.copies_failed == 1
    assert "could not write the local copy" in caplog.text
    assert job.names() == []
    assert job.read(state) == ["x" * 100]
    assert job.own.figures.store_bytes == state.bytes


def test_a_disk_that_fills_up_while_a_copy_is_written_ends_the_copy_alone(tmp_path: Path) -> None:
    class FullAfter:
        """A file that takes the first `room` bytes."""

        def __init__(self, path: str, room: int) -> None:
            self._stream = io.FileIO(path, "wb")
            self._room = room

        def write(self, data: Any) -> int:
            self._room -= len(data)
            if self._room < 0:
                raise OSError(errno.ENOSPC, "no space left")
            return self._stream.write(data)

        def close(self) -> None:
            self._stream.close()

    job = Job(tmp_path / "local", FarFiles(tmp_path / "store"), "far://jobs/j")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlstream.runtime.checkpoint.copying_files._opened", lambda path: FullAfter(path, 300))
        state = job.save(1)
    assert job.names() == []
    assert job.own.figures.copies_failed == 1
    assert job.read(state) == ["x" * 100]


def test_the_copies_of_the_newest_checkpoint_and_of_later_ones_stay(job: Job) -> None:
    for checkpoint_id in (1, 2, 3, 4):
        job.save(checkpoint_id)
    job.own.completed(3, ["shared/e-1.arrow", "shared/e-3.arrow"])
    assert job.names() == ["e-1.arrow", "e-3.arrow", "e-4.arrow"]
    job.own.aborted(4)
    assert job.names() == ["e-1.arrow", "e-3.arrow"]


def test_the_next_attempt_has_the_copies_of_the_one_before(job: Job) -> None:
    state = job.save(1)
    job.own.close()
    later = job.attempt()
    assert job.read(state, own=later) == ["x" * 100]
    assert later.figures.local_bytes == state.bytes


def test_copies_of_a_subtask_that_runs_elsewhere_go_with_the_next_checkpoint(job: Job) -> None:
    other = job.copies.of_subtask(JOB, "v", 1, StateFigures())
    job.save(1)
    job.own.close()
    other.completed(1, [])
    assert job.names() == ["e-1.arrow"]
    other.completed(2, [])
    assert job.names() == []


def release(copies: LocalCopies) -> None:
    remove = copies.release(JOB)
    assert remove is not None
    remove()


def test_a_job_that_comes_back_before_its_copies_are_removed_keeps_those_that_it_writes(job: Job) -> None:
    job.save(1)
    remove = job.copies.release(JOB)
    assert remove is not None
    job.own = job.attempt()
    state = job.save(2)
    remove()
    assert job.names() == ["e-2.arrow"]
    assert job.read(state) == ["x" * 100]
    assert job.own.figures.store_bytes == 0
    job.own.completed(2, ["shared/e-2.arrow"])
    job.save(3)
    assert job.names() == ["e-2.arrow", "e-3.arrow"]


def test_all_copies_of_a_job_that_holds_no_slot_any_more_go(job: Job) -> None:
    job.save(1)
    release(job.copies)
    assert job.names() == []
    # A thread that writes may be behind.
    job.save(2)
    assert job.names() == []


def test_a_copy_whose_writing_its_store_breaks_off_goes(tmp_path: Path) -> None:
    class Failing(FarFiles):
        def sync(self, stream: BinaryIO) -> None:
            raise OSError(errno.EIO, "input/output error")

    job = Job(tmp_path / "local", Failing(tmp_path / "store"), "far://jobs/j")
    with pytest.raises(ExternalError):
        job.save(1)
    assert job.names() == []
    assert job.own.figures.copies_failed == 0


def test_copies_are_spread_over_several_directories(tmp_path: Path) -> None:
    roots = [tmp_path / "a", tmp_path / "b"]
    copies = LocalCopies([str(root) for root in roots])
    own = copies.of_subtask(JOB, "v", 0, StateFigures())
    states = []
    for checkpoint_id in range(1, 9):
        rows = pa.table({KEY_GROUP_COLUMN: pa.array([5], pa.int32()), "v": [str(checkpoint_id)]})
        files = CopyingFiles(PrivateFiles(), own)
        writer = StateWriter(files, str(tmp_path / "store"))
        states.append(SubtaskState(writer.write(f"e-{checkpoint_id}", {7: OperatorSnapshot({"t": rows})})))
    assert all(list(root.rglob("*.arrow")) for root in roots)
    restore = TaskRestore(8, str(tmp_path / "store"), tuple(states))
    found = StateReader(PrivateFiles(), restore, own, own.figures).operator(7, range(128))
    assert found is not None
    assert found.keyed["t"].num_rows == 8
    assert own.figures.store_bytes == 0


def test_a_job_leaves_a_directory_that_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "no directory"
    root.write_text("")
    copies = LocalCopies([str(root)])
    copies.of_subtask(JOB, "v", 0, StateFigures())
    release(copies)
    assert f"could not remove a local copy of state: [Errno 20] Not a directory: '{root}'" in caplog.text


def test_a_name_that_is_a_path_is_refused(tmp_path: Path) -> None:
    copies = LocalCopies([str(tmp_path)])
    for job_id in ("", "..", "a/b"):
        with pytest.raises(InternalError):
            copies.of_subtask(job_id, "v", 0, StateFigures())
    with pytest.raises(InternalError):
        copies.find(JOB, "../x-1.arrow")


_KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_local_copies import Job
from sqlstream.runtime.host.private_files import PrivateFiles
job = Job(Path(sys.argv[2]), PrivateFiles(), sys.argv[3])
job.save(1)
if sys.argv[4] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run_other(tmp_path: Path, end: str) -> None:
    """Another process that saves checkpoint 1."""
    arguments = [str(Path(__file__).parent), str(tmp_path / "local"), str(tmp_path / "store"), end]
    subprocess.run([sys.executable, "-c", _KILLED, *arguments], check=end != "killed", timeout=60)


def test_a_process_that_ends_leaves_no_copy(tmp_path: Path) -> None:
    run_other(tmp_path, "ends")
    assert list((tmp_path / "local").iterdir()) == []


def test_the_copies_of_a_killed_process_serve_the_next_until_its_first_checkpoint(tmp_path: Path) -> None:
    run_other(tmp_path, "killed")
    job = Job(tmp_path / "local", PrivateFiles(), str(tmp_path / "store"))
    assert job.names() == ["e-1.arrow"]
    # The same rows, and so the same bytes.
    state = Job(tmp_path / "elsewhere", PrivateFiles(), str(tmp_path / "same")).save(1)
    assert job.read(state) == ["x" * 100]
    assert job.own.figures.local_bytes == state.bytes
    job.save(2)
    job.own.completed(2, ["shared/e-2.arrow"])
    assert job.names() == ["e-2.arrow"]


def test_what_a_killed_process_has_left_goes_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_other(tmp_path, "killed")
    monkeypatch.setattr(process_directory, "ABANDONED_S", -1.0)
    job = Job(tmp_path / "local", PrivateFiles(), str(tmp_path / "store"))
    job.save(2)
    assert job.names() == ["e-2.arrow"]
    assert len(os.listdir(tmp_path / "local")) == 1
