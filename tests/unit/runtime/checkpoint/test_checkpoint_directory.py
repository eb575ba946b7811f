"""A checkpoint is in its store whole, or not at all, or an error names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pytest
from checkpoint_harness import JOB_ID, OPERATOR_ID, manifest
from object_store import store_in

from sqlstream import __version__
from sqlstream.errors import ExternalError, FailureReason, UserError
from sqlstream.messages.checkpoint import SavedOperator, SubtaskState, TaskRestore
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.runtime.checkpoint.checkpoint_directory import (
    CheckpointDirectory,
    load_checkpoint,
    savepoint_directory,
)
from sqlstream.runtime.checkpoint.manifest_file import encode_manifest
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot
from sqlstream.spi.files import Files
from sqlstream.testing.mortal_files import Died, Process

FILES = PrivateFiles()
Place = tuple[Files, str]


def local(directory: Path) -> Place:
    return PrivateFiles(), str(directory / JOB_ID)


def objects(directory: Path) -> Place:
    return store_in(str(directory)), f"s3://bucket/{JOB_ID}"


@pytest.fixture(params=[local, objects])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    make: Callable[[Path], Place] = request.param
    return make(tmp_path)


def saved(place: Place, checkpoint_id: int, value: int) -> SubtaskState:
    rows = pa.table({KEY_GROUP_COLUMN: pa.array([3], pa.int32()), "v": [value]})
    name = state_name("job-0-0-0", checkpoint_id)
    return SubtaskState(StateWriter(*place).write(name, {OPERATOR_ID: OperatorSnapshot({"groups": rows})}))


def value_of(place: Place, stored: Any) -> int:
    restore = TaskRestore(
        stored.manifest.checkpoint_id, stored.directory, stored.manifest.vertices[0].subtasks
    )
    found = StateReader(place[0], restore).operator(OPERATOR_ID, range(128))
    assert found is not None
    value: int = found.keyed["groups"].column("v")[0].as_py()
    return value


def files_below(place: Place, directory: Path) -> list[str]:
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_what_is_stored_is_loaded_by_its_path_or_that_of_its_metadata(place: Place) -> None:
    written = manifest(12, saved(place, 12, 34), restored_from="/before", config={"a": "b"})
    path = CheckpointDirectory(*place).store(written)
    assert path == f"{place[1]}/chk-12"
    for name in (path, f"{path}/", f"{path}/_metadata"):
        stored = load_checkpoint(place[0], name)
        assert (stored.manifest, stored.path, stored.directory) == (written, path, place[1])
        assert value_of(place, stored) == 34


def test_a_manifest_has_no_secrets_of_the_settings(tmp_path: Path) -> None:
    place = local(tmp_path)
    remote = "sc://host/;token=hunter2"
    settings = {"s3.secret-key": "hunter2", "spark.remote": remote, "parallelism.default": "2"}
    path = CheckpointDirectory(*place).store(manifest(1, saved(place, 1, 1), config=settings))
    assert b"hunter2" not in Path(path, "_metadata").read_bytes()
    kept = {"spark.remote": "sc://host/;token=******", "parallelism.default": "2"}
    assert load_checkpoint(FILES, path).manifest.config == kept


def test_a_failed_store_leaves_nothing_that_a_restart_would_take(tmp_path: Path) -> None:
    """The manifest is at its name, and only then the directory cannot be synced."""

    class Late(PrivateFiles):
        def publish(self, staged: str, final: str) -> None:
            super().publish(staged, final)
            raise ExternalError("SS5001", "could not publish")

    class Lasting(Late):
        def remove(self, path: str) -> None:
            raise ExternalError("SS5001", "could not remove")

    place = local(tmp_path)
    for files, found in ((Late(), 0), (Lasting(), 1)):
        with pytest.raises(ExternalError, match="could not publish"):
            CheckpointDirectory(files, place[1]).store(manifest(1, saved(place, 1, 1)))
        assert len(CheckpointDirectory(*place).retained().checkpoints) == found
    with pytest.raises(ExternalError, match="could not remove"):
        CheckpointDirectory(Lasting(), place[1]).remove_aborted(1)
    (whole,) = CheckpointDirectory(*place).retained().checkpoints
    assert value_of(place, whole) == 1
    CheckpointDirectory(*place).remove_aborted(1)
    assert files_below(place, tmp_path) == []


def test_retained_checkpoints_come_newest_first(place: Place) -> None:
    store = CheckpointDirectory(*place)
    assert store.retained().checkpoints == ()
    for number in (2, 10, 9):
        store.store(manifest(number, saved(place, number, number)))
    assert [c.manifest.checkpoint_id for c in store.retained().checkpoints] == [10, 9, 2]


def test_what_another_checkpoint_needs_stays_when_one_is_discarded(place: Place, tmp_path: Path) -> None:
    store = CheckpointDirectory(*place)
    base, changed = saved(place, 1, 1), saved(place, 2, 2)
    first, second = manifest(1, base), manifest(2, base, changed)
    for each in (first, second):
        store.store(each)
    store.discard(first, second.paths())
    store.discard(first, second.paths())
    assert [c.manifest for c in store.retained().checkpoints] == [second]
    assert len(second.paths()) == 2
    assert value_of(place, load_checkpoint(place[0], f"{place[1]}/chk-2")) == 1
    store.discard(second, frozenset())
    assert files_below(place, tmp_path) == []


def test_who_does_not_know_the_other_checkpoints_leaves_what_they_need(place: Place, tmp_path: Path) -> None:
    """A job that has claimed one of another job."""
    store = CheckpointDirectory(*place)
    base, changed = saved(place, 1, 1), saved(place, 2, 2)
    first, second = manifest(1, base), manifest(2, base, changed)
    for each in (first, second):
        store.store(each)
    store.discard(second, None)
    assert [c.manifest for c in store.retained().checkpoints] == [first]
    assert value_of(place, load_checkpoint(place[0], f"{place[1]}/chk-1")) == 1
    kept = len(files_below(place, tmp_path))
    # Nobody knows what one refers to that is damaged.
    with place[0].open_write(f"{place[1]}/chk-9/_metadata") as stream:
        stream.write(b"{")
    store.discard(first, None)
    assert (kept, len(files_below(place, tmp_path))) == (2, 2)
    place[0].remove(f"{place[1]}/chk-9")
    store.discard(first, None)
    assert files_below(place, tmp_path) == []
    # In a store a directory is there with its files.
    assert not isinstance(place[0], PrivateFiles) or place[0].status(place[1]) is None


def test_what_a_killed_job_has_begun_goes_with_its_last_checkpoint(place: Place, tmp_path: Path) -> None:
    """A job that has claimed its checkpoint removes that, once it has one of its own."""
    store = CheckpointDirectory(*place)
    claimed = manifest(1, saved(place, 1, 1))
    store.store(claimed)
    saved(place, 2, 2)
    with place[0].open_write(f"{place[1]}/chk-2/._metadata") as stream:
        stream.write(b"{")
    store.discard(claimed, None)
    assert files_below(place, tmp_path) == []
    assert not isinstance(place[0], PrivateFiles) or place[0].status(place[1]) is None


def test_no_checkpoint_is_complete_whose_earlier_files_are_gone(place: Place) -> None:
    store = CheckpointDirectory(*place)
    base = saved(place, 1, 1)
    store.store(manifest(1, base))
    (gone,) = manifest(1, base).paths()
    place[0].remove(f"{place[1]}/{gone}")
    changed = saved(place, 2, 2)
    with pytest.raises(
        ExternalError, match=f'"{place[1]}/{gone}" of a checkpoint: there is no such file'
    ) as raised:
        store.store(manifest(2, base, changed))
    assert raised.value.reason is FailureReason.CHECKPOINT_CORRUPT
    assert place[0].status(f"{place[1]}/chk-2/_metadata") is None
    store.store(manifest(3, changed))


def test_files_that_were_just_written_elsewhere_are_a_failure_that_counts(place: Place) -> None:
    """A whole checkpoint would lack them again: the directory is another one on each machine."""
    written = saved(place, 1, 1)
    (own,) = manifest(1, written).paths()
    place[0].remove(f"{place[1]}/{own}")
    with pytest.raises(ExternalError, match=f'could not find "{place[1]}/{own}"') as raised:
        CheckpointDirectory(*place).store(manifest(1, written))
    assert (raised.value.code, raised.value.reason) == ("SS5001", FailureReason.EXTERNAL)


def test_a_sweep_leaves_what_checkpoints_refer_to_and_nothing_else(place: Place, tmp_path: Path) -> None:
    store = CheckpointDirectory(*place)
    kept = manifest(3, saved(place, 3, 3))
    store.store(kept)
    saved(place, 4, 4)
    with place[0].open_write(f"{place[1]}/chk-4/._metadata-abc") as stream:
        stream.write(b"{")
    store.sweep()
    assert len(files_below(place, tmp_path)) == 2
    assert value_of(place, store.retained().checkpoints[0]) == 3
    store.discard(kept, frozenset())
    store.sweep()
    assert files_below(place, tmp_path) == []
    if place[0].status(place[1]) is not None:
        assert not isinstance(place[0], PrivateFiles)


def test_an_aborted_checkpoint_leaves_nothing_and_touches_no_other(place: Place, tmp_path: Path) -> None:
    store = CheckpointDirectory(*place)
    for number in (2, 12):
        store.store(manifest(number, saved(place, number, number)))
    before = files_below(place, tmp_path)
    saved(place, 22, 22)
    store.remove_aborted(22)
    store.remove_aborted(22)
    assert files_below(place, tmp_path) == before


class SyncedFiles(PrivateFiles):
    """State: the directories whose names were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()

    def sync_directory(self, path: str) -> None:
        self.synced.add(path)
        super().sync_directory(path)


def test_what_is_gone_on_from_survives_a_crash_of_the_machine_from_then_on(tmp_path: Path) -> None:
    """Whoever stored it may have died before it would have."""
    files, directory = SyncedFiles(), local(tmp_path)[1]
    path = CheckpointDirectory(files, directory).store(manifest(3, saved((files, directory), 3, 3)))
    files.synced.clear()
    CheckpointDirectory(files, directory).sweep()
    assert files.synced >= {path, directory}


def test_a_sweep_removes_nothing_while_a_manifest_cannot_be_read(tmp_path: Path) -> None:
    place = local(tmp_path)
    store = CheckpointDirectory(*place)
    path = store.store(manifest(3, saved(place, 3, 3)))
    os.truncate(f"{path}/_metadata", 100)
    before = files_below(place, tmp_path)
    store.sweep()
    assert files_below(place, tmp_path) == before


def test_a_savepoint_has_a_directory_of_its_own_and_can_be_moved(tmp_path: Path) -> None:
    directory = savepoint_directory(f"{tmp_path}/", JOB_ID)
    assert os.path.basename(directory).startswith("savepoint-012345-")
    place = (FILES, directory)
    written = manifest(5, saved(place, 5, 55), kind=CheckpointKind.SAVEPOINT)
    assert CheckpointDirectory(*place).store(written) == directory
    moved = f"{tmp_path}/elsewhere"
    os.rename(directory, moved)
    stored = load_checkpoint(FILES, moved)
    assert stored.directory == moved
    assert value_of(place, stored) == 55
    CheckpointDirectory(FILES, moved).discard(stored.manifest, frozenset())
    assert list(tmp_path.iterdir()) == []


def test_a_savepoint_in_the_directory_of_a_job_outlives_its_checkpoints(place: Place, tmp_path: Path) -> None:
    store = CheckpointDirectory(*place)
    store.store(manifest(1, saved(place, 1, 1)))
    inner = (place[0], f"{place[1]}/savepoint-1")
    written = manifest(2, saved(inner, 2, 2), kind=CheckpointKind.SAVEPOINT)
    CheckpointDirectory(*inner).store(written)
    store.remove_all()
    assert load_checkpoint(place[0], inner[1]).manifest == written
    assert all("savepoint-1" in path for path in files_below(place, tmp_path))
    CheckpointDirectory(*inner).discard(written, frozenset())
    store.store(manifest(3, saved(place, 3, 3)))
    store.remove_all()
    assert files_below(place, tmp_path) == []
    assert not isinstance(place[0], PrivateFiles) or place[0].status(place[1]) is None


def test_files_and_directories_are_of_the_user_alone(tmp_path: Path) -> None:
    place = local(tmp_path / "new")
    CheckpointDirectory(*place).store(manifest(1, saved(place, 1, 1)))
    modes = {(p.is_dir(), p.stat().st_mode & 0o777) for p in (tmp_path / "new").rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


# -- what goes wrong --------------------------------------------------------------------------------


def test_every_torn_or_flipped_manifest_is_found_and_named(tmp_path: Path) -> None:
    place = local(tmp_path)
    store = CheckpointDirectory(*place)
    store.store(manifest(1, saved(place, 1, 1)))
    path = Path(store.store(manifest(2, saved(place, 2, 2)))) / "_metadata"
    good = path.read_bytes()
    torn = [good[:length] for length in range(0, len(good) - 1, 97)]
    # The release that wrote it is for people, and no part of the checkpoint.
    counted = good.rindex(b',"release"')
    flipped = [good[:i] + bytes([good[i] ^ 4]) + good[i + 1 :] for i in range(0, counted, 31)]
    for data in (*torn, *flipped):
        path.write_bytes(data)
        found = store.retained()
        assert [c.manifest.checkpoint_id for c in found.checkpoints] == [1]
        (fault,) = found.faults
        assert fault.checkpoint_id == 2
        error = fault.error
        assert str(path) in error.message
        with pytest.raises(type(error), match="_metadata"):
            found.newest()
        with pytest.raises((ExternalError, UserError)) as raised:
            load_checkpoint(FILES, str(path))
        assert raised.value.code == error.code
        if error.code != "SS6211":
            assert isinstance(error, ExternalError)
            assert error.reason is FailureReason.CHECKPOINT_CORRUPT


def test_a_manifest_of_another_version_is_named(tmp_path: Path) -> None:
    place = local(tmp_path)
    path = CheckpointDirectory(*place).store(manifest(1, saved(place, 1, 1), version=99))
    with pytest.raises(
        UserError, match=f'"{path}/_metadata" was written by sqlstream {__version__} in version 99'
    ) as raised:
        load_checkpoint(FILES, path)
    assert (raised.value.code, raised.value.hint) == (
        "SS6211",
        f"use sqlstream {__version__} or a later release",
    )


@pytest.mark.parametrize(
    "path", ["/etc/passwd-1.arrow", "shared/../../a-1.arrow", "shared/a-1.arrow/x", "shared/a"]
)
def test_a_manifest_names_only_files_of_state(tmp_path: Path, path: str) -> None:
    (operator,) = saved(local(tmp_path), 1, 1).operators
    (table,) = operator.tables
    elsewhere = tuple(msgspec.structs.replace(segment, path=path) for segment in table.segments)
    table = msgspec.structs.replace(table, segments=elsewhere)
    place = local(tmp_path)
    with FILES.open_write(f"{place[1]}/chk-1/_metadata") as stream:
        stream.write(encode_manifest(manifest(1, SubtaskState((SavedOperator(OPERATOR_ID, (table,)),)))))
    with pytest.raises(ExternalError, match="it names the file"):
        load_checkpoint(FILES, f"{place[1]}/chk-1")


def test_a_path_without_a_checkpoint_is_named_with_what_lies_below(tmp_path: Path) -> None:
    place = local(tmp_path)
    with pytest.raises(UserError, match="there is no checkpoint") as raised:
        load_checkpoint(FILES, place[1])
    assert raised.value.code == "SS6212"
    (tmp_path / "query.sql").write_text("SELECT 1")
    with pytest.raises(UserError, match="there is no checkpoint"):
        load_checkpoint(FILES, str(tmp_path / "query.sql"))
    path = CheckpointDirectory(*place).store(manifest(1, saved(place, 1, 1)))
    (tmp_path / "savepoints").mkdir()
    for name in ("savepoint-4f1c2b-0a1b2c3d4e5f", "savepoint-91d0aa-77aa00ffee12"):
        os.symlink(path, savepoint := tmp_path / "savepoints" / name)
    os.utime(f"{path}/_metadata")
    for near, wrong in (
        (path, place[1]),
        (path, f"{place[1]}/chk-2"),
        (savepoint, f"{tmp_path}/savepoints/savepoint-91d0aa-77aa00ffee21"),
    ):
        with pytest.raises(UserError) as raised:
            load_checkpoint(FILES, wrong)
        assert raised.value.hint == f'write "{near}"'


class Failing(PrivateFiles):
    """A disk that fails in one of the steps by which a manifest is stored."""

    def __init__(self, step: str, number: int) -> None:
        self._step = step
        self._number = number

    def _fail(self, step: str) -> None:
        if step == self._step:
            raise OSError(self._number, "")

    def sync(self, stream: BinaryIO) -> None:
        self._fail("sync")
        super().sync(stream)

    def publish(self, staged: str, final: str) -> None:
        self._fail("publish")
        super().publish(staged, final)


@pytest.mark.parametrize(
    ("step", "number", "cause"),
    [("sync", 28, "no space left"), ("publish", 30, "read-only"), ("sync", 13, "permission denied")],
)
def test_a_store_that_takes_nothing_is_an_error_with_the_cause(
    tmp_path: Path, step: str, number: int, cause: str
) -> None:
    place = local(tmp_path)
    store = CheckpointDirectory(*place)
    store.store(manifest(1, saved(place, 1, 1)))
    with pytest.raises(ExternalError, match=cause) as raised:
        CheckpointDirectory(Failing(step, number), place[1]).store(manifest(2, saved(place, 2, 2)))
    reason = FailureReason.EXTERNAL if cause == "no space left" else FailureReason.ACCESS_REFUSED
    assert (raised.value.code, raised.value.reason) == ("SS5001", reason)
    assert [c.manifest.checkpoint_id for c in store.retained().checkpoints] == [1]
    store.sweep()
    assert len(files_below(place, tmp_path)) == 2


@pytest.mark.parametrize("calls", range(12))
def test_a_process_that_dies_at_any_call_to_an_object_store_leaves_a_whole_checkpoint_or_none(
    tmp_path: Path, calls: int
) -> None:
    place = objects(tmp_path)
    store = CheckpointDirectory(*place)
    first, second = manifest(1, saved(place, 1, 1)), manifest(2, saved(place, 2, 2))
    store.store(first)
    mortal = CheckpointDirectory(store_in(str(tmp_path), Process(calls)), place[1])
    died = False
    try:
        mortal.store(second)
        mortal.discard(first, second.paths())
    except Died:
        died = True
    found = store.retained()
    assert found.faults == ()
    assert found.checkpoints[-1 if len(found.checkpoints) > 1 else 0].manifest in (first, second)
    for stored in found.checkpoints:
        assert value_of(place, stored) == stored.manifest.checkpoint_id
    store.sweep()
    assert len(files_below(place, tmp_path)) == 2 * len(found.checkpoints)
    assert died or [c.manifest for c in found.checkpoints] == [second]
