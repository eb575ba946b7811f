"""A commit that replaces files, killed at each of its steps: readers see the old files or the new ones."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.files.file_paths import find_files
from sqlstream.runtime.connectors.files.job_records import JobRecord, JobRecords
from sqlstream.runtime.connectors.files.table_log import Move, TableLog, staging_directory
from sqlstream.runtime.host.clock import now_ms
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.files import Files, FileStatus
from sqlstream.testing.mortal_files import Died, MortalFiles, Process

OLD = ["k=1/part-old-0.csv", "k=2/part-old-1.csv"]
WRITER = "b" * 12
FIRST = Committable("job", LAST_CHECKPOINT_ID, WRITER, 0, {})


def table(path: Path) -> tuple[list[Move], list[str]]:
    """Old files, and staged new ones; returns the moves of these and their names."""
    moves = []
    for name in OLD:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("old")
    staging = Path(staging_directory(str(path), "job", WRITER))
    staging.mkdir()
    for number in range(2):
        name = f"part-{WRITER}-0-{number}.csv"
        (staging / name).write_text("new")
        moves.append(Move(f"{staging.name}/{name}", f"k={number + 2}/{name}"))
    return moves, sorted(move.final for move in moves)


def commit(path: Path, moves: list[Move], old: list[str], files: Files) -> None:
    TableLog(str(path), files).commit(FIRST, lambda: [*moves, *(Move("", name) for name in old)])


def visible(path: Path, files: Files | None = None) -> list[str]:
    found = find_files(str(path), files or LocalFiles(), may_be_empty=True)
    return [str(Path(f.path).relative_to(path)) for f in found]


def steps(tmp_path: Path) -> int:
    """How many calls a whole commit makes."""
    calls = 0
    while True:
        path = tmp_path / f"count-{calls}"
        moves, _ = table(path)
        try:
            commit(path, moves, OLD, MortalFiles(Process(calls)))
        except Died:
            calls += 1
            continue
        return calls


def test_readers_see_old_or_new_files_wherever_the_process_dies(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(steps(tmp_path)):
        path = tmp_path / f"die-{step}"
        moves, new = table(path)
        with pytest.raises(Died):
            commit(path, moves, OLD, MortalFiles(Process(step)))
        seen = visible(path)
        assert seen in (OLD, new), step
        outcomes.add(seen == new)
        # The next writer of the table tidies up, and nothing changes for readers.
        TableLog(str(path), LocalFiles()).settle()
        assert visible(path) == seen, step
        assert not [p.name for p in path.iterdir() if p.name.startswith(".commit-")]
        assert all((path / name).exists() == (seen == OLD) for name in OLD), step
    assert outcomes == {True, False}


def test_a_repeated_commit_completes_the_one_that_broke_off_and_harms_no_later_one(tmp_path: Path) -> None:
    for step in range(steps(tmp_path)):
        path = tmp_path / f"again-{step}"
        moves, new = table(path)
        with pytest.raises(Died):
            commit(path, moves, OLD, MortalFiles(Process(step)))
        commit(path, moves, visible(path), LocalFiles())
        assert visible(path) == new, step
        (path / "k=9").mkdir()
        (path / "k=9" / "part-later.csv").write_text("later")
        commit(path, moves, visible(path), LocalFiles())
        assert visible(path) == [*new, "k=9/part-later.csv"], step


def test_a_repetition_that_has_fewer_files_takes_back_those_that_are_moved_already(tmp_path: Path) -> None:
    moves, new = table(tmp_path)

    class Full(LocalFiles):
        def publish(self, staged: str, final: str) -> None:
            if final.endswith(moves[1].final):
                raise ExternalError("SS5001", "the disk is full")
            super().publish(staged, final)

    with pytest.raises(ExternalError, match="the disk is full"):
        commit(tmp_path, moves, [], Full())
    assert (tmp_path / moves[0].final).exists()
    commit(tmp_path, moves[1:], [], LocalFiles())
    assert visible(tmp_path) == [*OLD, new[1]]


class OneTick(LocalFiles):
    """All that happens does so within one tick of the clock."""

    def list_files(self, directory: str) -> list[FileStatus]:
        return [replace(status, modified_ms=0) for status in super().list_files(directory)]


@pytest.mark.parametrize("files", [LocalFiles(), OneTick()], ids=["local", "one tick"])
def test_readers_look_again_when_files_have_replaced_others_but_not_when_files_have_come(
    tmp_path: Path, files: Files
) -> None:
    moves, _ = table(tmp_path)
    log = TableLog(str(tmp_path), files)

    log.commit(Committable("job", 1, WRITER, 0, {}), list)

    def has_replaced(checkpoint_id: int, committed: list[Move]) -> bool:
        before = log.view()
        log.commit(Committable("job", checkpoint_id, WRITER, 0, {}), lambda: committed)
        return log.has_replaced(before, log.view())

    assert not has_replaced(2, moves[:1])
    # All of it between the two looks.
    assert has_replaced(3, [*moves[1:], Move("", OLD[0])])
    assert has_replaced(4, [Move("", OLD[1])])


class CommitsMeanwhile(LocalFiles):
    """Within the first listing of the table, when the partitions before `k=3` are listed, something happens."""

    def __init__(self, table: Path, happens: Callable[[], None]) -> None:
        self._table = str(table)
        self._happens: Callable[[], None] | None = happens

    def list_files(self, directory: str) -> list[FileStatus]:
        if directory != self._table or self._happens is None:
            return super().list_files(directory)
        before = [f for f in super().list_files(directory) if "k=3" not in f.path]
        happens, self._happens = self._happens, None
        happens()
        return before + [f for f in super().list_files(directory) if "k=3" in f.path]


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("has_record", [True, False])
def test_readers_see_all_or_nothing_of_a_commit_that_begins_and_ends_while_they_list(
    tmp_path: Path, is_recorded: bool, has_record: bool
) -> None:
    moves, new = table(tmp_path)
    log = TableLog(str(tmp_path), LocalFiles())
    if has_record:
        log.commit(Committable("job", 1, WRITER, 0, {}), list)
    files = CommitsMeanwhile(tmp_path, lambda: log.commit(FIRST, lambda: moves, is_recorded=is_recorded))
    assert visible(tmp_path, files) == sorted([*OLD, *new])


@pytest.mark.parametrize(("age_min", "looks"), [(16, 1), (14, 2)])
def test_files_are_listed_once_unless_a_sink_may_have_just_put_them_there(
    tmp_path: Path, age_min: int, looks: int
) -> None:
    moves, _ = table(tmp_path)
    listed: list[str] = []

    class Aged(LocalFiles):
        def list_files(self, directory: str) -> list[FileStatus]:
            listed.append(directory)
            before_ms = now_ms() - age_min * 60_000
            return [replace(f, placed_ms=before_ms) for f in super().list_files(directory)]

    # Their names are of no sink: however new they are.
    assert visible(tmp_path, Aged()) == OLD
    assert listed == [str(tmp_path)]
    commit(tmp_path, moves, OLD, LocalFiles())
    listed.clear()
    assert len(visible(tmp_path, Aged())) == len(moves)
    assert listed.count(str(tmp_path)) == looks


def test_files_that_come_faster_than_they_are_listed_keep_no_reader_waiting(tmp_path: Path) -> None:
    table(tmp_path)
    looks: list[str] = []

    class Growing(LocalFiles):
        def list_files(self, directory: str) -> list[FileStatus]:
            looks.append(directory)
            (tmp_path / "k=1" / f"part-{WRITER}-{len(looks)}.csv").write_text("")
            return super().list_files(directory)

    assert len(visible(tmp_path, Growing())) == len(OLD) + len(looks)
    assert len(looks) == 5


def test_a_partition_that_others_remove_while_readers_list_fails_none(tmp_path: Path) -> None:
    table(tmp_path)
    walk = os.walk

    class Removed(LocalFiles):
        def list_files(self, directory: str) -> list[FileStatus]:
            def removing(*args: Any, **named: Any) -> Iterator[Any]:
                for step in walk(*args, **named):
                    yield step
                    shutil.rmtree(tmp_path / "k=2", ignore_errors=True)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("os.walk", removing)
                return super().list_files(directory)

    assert visible(tmp_path, Removed()) == OLD[:1]


def test_a_directory_of_records_that_a_job_removes_is_empty_for_others(tmp_path: Path) -> None:
    records = JobRecords(str(tmp_path), LocalFiles())
    record = records.of("done").with_commit(FIRST, replaces=False)
    records.put("done", record)

    class Ended(LocalFiles):
        """The last job with a record takes it away after the reader's first look."""

        def match_glob(self, pattern: str) -> list[str]:
            found = super().match_glob(pattern)
            records.put("done", JobRecord())
            return found

    assert visible(tmp_path, Ended()) == []


@pytest.mark.parametrize("makes", ["open_write", "publish"])
def test_a_directory_that_others_remove_while_it_is_empty_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makes: str
) -> None:
    made: list[str] = []
    makedirs = os.makedirs

    def removed_once(path: str, **named: Any) -> None:
        makedirs(path, **named)
        made.append(path)
        if len(made) == 1:
            os.rmdir(path)

    staged, final = str(tmp_path / "staged"), str(tmp_path / "p=1" / "part")
    Path(staged).write_text("")
    monkeypatch.setattr("os.makedirs", removed_once)
    if makes == "publish":
        LocalFiles().publish(staged, final)
    else:
        LocalFiles().open_write(final).close()
    assert Path(final).exists()


def test_a_commit_that_broke_off_keeps_the_record_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.connectors.files.job_records.RECORDS_MAX", 1)
    records = JobRecords(str(tmp_path), LocalFiles())
    for job_id in ("job", "done", "next"):
        records.put(job_id, records.of(job_id).with_commit(FIRST, replaces=True))
        if job_id == "job":
            (tmp_path / f".commit-job-{FIRST.checkpoint_id}-{WRITER}").write_text("[]")
    assert [job_id for job_id in ("job", "done", "next") if records.of(job_id).has(FIRST)] == ["job", "next"]


def test_a_record_may_be_the_commits_alone(tmp_path: Path) -> None:
    (tmp_path / ".committed").mkdir()
    (tmp_path / ".committed" / "job").write_text(f'{{"{WRITER}": 7}}')
    records = JobRecords(str(tmp_path), LocalFiles())
    assert [records.of("job").has(Committable("job", n, WRITER, 0, {})) for n in (7, 8)] == [True, False]


@pytest.mark.parametrize("left", [f".replaced-job-1-{WRITER}", ".partitions/job"])
def test_what_another_build_has_not_completed_is_refused(tmp_path: Path, left: str) -> None:
    table(tmp_path)
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_text("[]")
    log = TableLog(str(tmp_path), LocalFiles())
    with pytest.raises(UserError, match="left by another build"):
        log.settle()
    if left.startswith(".replaced"):
        with pytest.raises(UserError, match="left by another build"):
            visible(tmp_path)
