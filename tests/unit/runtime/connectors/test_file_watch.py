"""A watched directory: which files are complete, and what becomes of those that change."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from expression_harness import call, col, lit

from sqlstream import types as sql
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.files.file_enumerator import FileEnumerator, FileWatch, GrowthWatch
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.files.filesystem_source import FileSourceReader
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec, SourceWatermark
from sqlstream.spi.connector import ConnectorContext, EnumeratorContext, SourceStatus
from sqlstream.spi.files import FileStatus
from sqlstream.testing.trial_jobs import AssignedReader

SCHEMA = Schema.of(("v", sql.INT))
INTERVAL_MS = 10_000


def complete(watch: FileWatch, now_ms: int, *found: tuple[str, int, int]) -> list[str]:
    return [f.path for f in watch.look([FileStatus(*f) for f in found], now_ms).complete]


def test_a_file_is_complete_when_it_has_not_changed_for_an_interval() -> None:
    watch = FileWatch(INTERVAL_MS)
    assert complete(watch, 10_000, ("old", 1, 0), ("new", 1, 1)) == ["old"]
    assert watch.has_new_candidates
    assert complete(watch, 20_000, ("old", 1, 0), ("new", 1, 1), ("future", 1, 99_000)) == ["new"]
    assert complete(watch, 30_000, ("future", 1, 99_000)) == ["future"]
    assert not watch.has_new_candidates
    assert complete(watch, 40_000, ("old", 1, 0), ("new", 1, 1), ("future", 1, 99_000)) == []


def test_a_file_that_grows_is_waited_for_and_told_of_once() -> None:
    watch = FileWatch(INTERVAL_MS)
    growing = []
    for look in range(5):
        now_ms = 100_000 + INTERVAL_MS * look
        found = watch.look([FileStatus("f", look, now_ms - 1)], now_ms)
        growing.append(found.growing)
        assert found.complete == []
        assert watch.has_new_candidates == (look == 0)
    assert growing == [[], [], ["f"], [], []]
    assert complete(watch, 150_000, ("f", 4, 139_999)) == ["f"]


def test_a_complete_file_that_changes_is_told_of_once_and_never_complete_again() -> None:
    watch = FileWatch(INTERVAL_MS)
    complete(watch, 10_000, ("f", 1, 0))
    looks = [watch.look([FileStatus("f", *form)], 20_000) for form in [(1, 0), (2, 5), (3, 6), (1, 0)]]
    assert [look.changed for look in looks] == [[], ["f"], [], []]
    assert [look.complete for look in looks] == [[], [], [], []]


class Watched:
    """A reader of a directory whose files and clock the test sets; what it says to the user."""

    def __init__(self, directory: Path, files: Any = None, watermark: SourceWatermark | None = None) -> None:
        self.now_ms = 100_000
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        schema = SCHEMA if watermark is None else Schema.of(("ts", sql.timestamp(3)))
        options = {
            "path": str(directory), "format": "csv", "source.monitor-interval": f"{INTERVAL_MS} ms"
        }  # fmt: skip
        spec = SourceSpec("t", "filesystem", options, schema, schema.names, watermark=watermark)
        self._context = ConnectorContext(
            job_id="job",
            vertex_id="vertex",
            subtask=0,
            parallelism=1,
            attempt=0,
            batch_rows=100,
            config={},
            now_ms=lambda: self.now_ms,
            count=lambda name, n: self.counts.update({name: n}),
            files=files or LocalFiles(),
            print_lines=self._print_lines,
        )
        self._assigned = AssignedReader(Filesystem(), spec, self._context)
        self.reader = self._assigned.reader
        assert isinstance(self.reader, FileSourceReader)

    def _print_lines(self, lines: list[str], is_error: bool) -> None:
        assert is_error
        self.lines += lines

    def rows(self) -> list[Any]:
        """What can be read now."""
        found: list[Any] = []
        while (batch := self._assigned.poll()) is not SourceStatus.NOTHING_YET:
            assert isinstance(batch, pa.RecordBatch)
            found += batch.column(0).to_pylist()
        return found

    def later(self) -> list[Any]:
        """What can be read after another look."""
        self.now_ms += INTERVAL_MS
        return self.rows()


def put(path: Path, text: str, modified_ms: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


def test_a_file_seen_half_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "1\n2", 99_000)
    watched = Watched(tmp_path)
    assert watched.rows() == []
    put(tmp_path / "a.csv", "1\n23\n4", 105_000)
    assert watched.later() == []
    put(tmp_path / "a.csv", "1\n23\n45\n", 111_000)
    assert watched.later() == []
    assert watched.later() == [1, 23, 45]
    assert watched.later() == []
    assert watched.lines == [
        f'warning: the file "{tmp_path}/a.csv" of table "t" is written to all the time:'
        " it is read when it has not changed for an interval"
    ]


def test_a_file_that_is_renamed_into_place_after_an_interval_is_read_at_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    put(tmp_path / "_a.csv", "1\n", 100_000)
    assert watched.later() == []
    (tmp_path / "_a.csv").rename(tmp_path / "a.csv")
    assert watched.later() == [1]
    assert watched.lines == []


def test_a_file_that_changed_after_it_was_read_is_counted_and_told_of_and_not_read_again(
    tmp_path: Path,
) -> None:
    put(tmp_path / "grown.csv", "1\n", 0)
    put(tmp_path / "replaced.csv", "2\n", 0)
    watched = Watched(tmp_path)
    assert watched.rows() == [1, 2]
    put(tmp_path / "grown.csv", "1\n3\n", 0)
    put(tmp_path / "new.csv", "4\n", 0)
    (tmp_path / "new.csv").rename(tmp_path / "replaced.csv")
    put(tmp_path / "replaced.csv", "4\n", 101_000)
    assert [watched.later() for _ in range(3)] == [[], [], []]
    assert watched.counts["numFilesChanged"] == 2
    assert watched.lines == [
        f'warning: the file "{tmp_path}/{name}.csv" of table "t" has changed after it was found complete:'
        " it is not read again"
        for name in ("grown", "replaced")
    ]


def test_a_file_that_changes_between_the_look_and_its_turn_is_read_later_and_whole(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "1\n", 0)
    put(tmp_path / "gone.csv", "9\n", 0)
    watched = Watched(tmp_path)
    put(tmp_path / "a.csv", "1\n2\n3", 100_000)
    (tmp_path / "gone.csv").unlink()
    assert watched.rows() == []
    put(tmp_path / "a.csv", "1\n2\n34\n", 105_000)
    assert watched.later() == []
    assert watched.later() == [1, 2, 34]
    assert watched.lines == [
        f'warning: the file "{tmp_path}/gone.csv" of table "t" has vanished before it was read'
    ]


def test_rows_that_are_added_while_a_file_is_read_are_not_read_by_halves(tmp_path: Path) -> None:
    class Appending(LocalFiles):
        def open_read(self, path: str) -> BinaryIO:
            stream = super().open_read(path)
            with open(path, "a") as file:
                file.write("2\n3")
            return stream

    put(tmp_path / "a.csv", "1\n", 0)
    watched = Watched(tmp_path, Appending())
    assert watched.rows() == [1]
    assert watched.later() == []
    assert watched.counts["numFilesChanged"] == 1


def test_a_new_file_holds_the_watermark_until_it_is_complete_or_found_growing(tmp_path: Path) -> None:
    time = col(0, sql.timestamp(3))
    delay = call("-", time, lit(0, sql.INTERVAL_DAY_TIME))
    put(tmp_path / "a.csv", "1970-01-01 00:00:30\n", 0)
    put(tmp_path / "b.csv", "1970-01-01 00:00:10\n", 99_000)
    put(tmp_path / "c.csv", "1970-01-01", 99_000)
    watched = Watched(tmp_path, watermark=SourceWatermark(time, delay))
    assert len(watched.rows()) == 1
    assert watched.reader.watermark_ms() == WATERMARK_MIN
    put(tmp_path / "c.csv", "1970-01-01 00:00:20", 109_999)
    assert len(watched.later()) == 1
    assert watched.reader.watermark_ms() == 30_000
    assert len(watched.later()) == 1
    # It was not complete when the others were read: it begins with the watermark that they have made.
    assert watched.reader.watermark_ms() == 30_000


def test_a_file_that_vanished_before_it_was_read_is_new_when_it_comes_again() -> None:
    watch = FileWatch(INTERVAL_MS)
    assert complete(watch, 20_000, ("f", 1, 0)) == ["f"]
    watch.reopen("f", 1, 0)
    again = watch.look([FileStatus("f", 2, 15_000)], 30_000)
    assert ([f.path for f in again.complete], again.changed) == (["f"], [])


def test_a_file_that_changed_before_it_was_read_is_waited_for_like_a_new_one() -> None:
    watch = FileWatch(INTERVAL_MS)
    complete(watch, 20_000, ("f", 1, 0))
    watch.reopen("f", 2, 19_000)
    assert complete(watch, 25_000, ("f", 1, 0)) == [], "another form than the one that was found"
    watch.reopen("f", 1, 0)
    assert complete(watch, 30_000, ("f", 2, 25_000)) == []
    assert watch.has_new_candidates, "the watermark must not pass its rows meanwhile"
    assert complete(watch, 40_000, ("f", 2, 25_000)) == ["f"]


def test_a_watch_that_goes_on_from_a_snapshot_finds_nothing_twice() -> None:
    watch, anew = FileWatch(INTERVAL_MS), FileWatch(INTERVAL_MS)
    complete(watch, 20_000, ("f", 1, 0))
    anew.restore(json.loads(json.dumps(watch.snapshot())))
    assert complete(anew, 30_000, ("f", 1, 0), ("g", 1, 0)) == ["g"]


def test_a_file_that_changed_before_its_turn_holds_the_watermark_until_it_was_read(tmp_path: Path) -> None:
    time = col(0, sql.timestamp(3))
    delay = call("-", time, lit(0, sql.INTERVAL_DAY_TIME))
    put(tmp_path / "a.csv", "1970-01-01 00:00:30\n", 0)
    put(tmp_path / "b.csv", "1970-01-01 00:00:40\n", 0)
    watched = Watched(tmp_path, watermark=SourceWatermark(time, delay))
    put(tmp_path / "b.csv", "1970-01-01 00:00:10\n1970-01-01 00:00:50\n", 99_000)
    assert len(watched.rows()) == 1
    assert watched.reader.watermark_ms() == WATERMARK_MIN
    assert len(watched.later()) == 2
    assert watched.reader.watermark_ms() == 50_000


def test_lines_that_are_added_to_a_file_are_found_once(tmp_path: Path) -> None:
    path, files = tmp_path / "rejected-a.json", LocalFiles()
    watch = GrowthWatch(files)

    def look() -> list[tuple[int, int]]:
        splits = watch.look(files.list_files(str(tmp_path)))
        return [(split.position["begin"], split.position["size"]) for split in splits]

    path.write_bytes(b"{}\n{")
    assert look() == [(0, 3)]
    assert look() == []
    path.write_bytes(b"{}\n{}\n" + b"x" * 200_000)
    assert look() == [(3, 6)]
    snapshot, watch = watch.snapshot(), GrowthWatch(files)
    watch.restore(json.loads(json.dumps(snapshot)))
    path.write_bytes(b"{}\n{}\n" + b"x" * 200_000 + b"\n")
    assert look() == [(6, 200_007)]
    hidden = path.rename(tmp_path.parent / "out-of-sight")
    assert look() == []
    hidden.rename(path)
    assert look() == []
    gone = files.list_files(str(tmp_path))
    path.write_bytes(path.read_bytes() + b"{}\n")
    grown = files.list_files(str(tmp_path))
    path.unlink()
    assert [watch.look(found) for found in (grown, gone, [])] == [[], [], []]


def test_a_file_of_added_lines_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    class Refuses(LocalFiles):
        def open_read(self, path: str) -> BinaryIO:
            raise ExternalError("SS5001", f'could not read "{path}"')

    (tmp_path / "rejected-a.json").write_bytes(b"{}\n")
    with pytest.raises(ExternalError, match="could not read"):
        GrowthWatch(Refuses()).look(LocalFiles().list_files(str(tmp_path)))


def test_a_look_that_misses_a_file_takes_none_that_came_behind_it(tmp_path: Path) -> None:
    """A look takes time, and whatever comes meanwhile it may see or not."""
    clock = [1_000]

    class Slow(LocalFiles):
        def list_files(self, directory: str) -> list[FileStatus]:
            if not (tmp_path / "b.csv").exists():
                put(tmp_path / "a.csv", "", 1_010)
                put(tmp_path / "b.csv", "", 1_020)
                clock[0] = 5_000
                return [status for status in super().list_files(directory) if status.path.endswith("b.csv")]
            return super().list_files(directory)

    options = {"path": str(tmp_path), "format": "csv", "source.monitor-interval": "100 ms"}
    spec = SourceSpec("t", "filesystem", options, SCHEMA, SCHEMA.names)
    enumerator = FileEnumerator(spec, EnumeratorContext(2, 10, lambda: clock[0], Slow()), None)
    first, second = enumerator.discover(), enumerator.discover()
    assert (first.splits, first.holds_watermark) == ((), True)
    assert [os.path.basename(split.position["path"]) for split in second.splits] == ["a.csv", "b.csv"]
