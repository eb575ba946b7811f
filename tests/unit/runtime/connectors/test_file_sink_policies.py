"""When files of a sink end, which are joined, and when a partition is marked as complete."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.connectors.files import job_records
from sqlstream.runtime.connectors.files.file_options import FileSinkOptions
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.files.partition_marks import PartitionTime
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext, TakesWatermarks

CONNECTOR = Filesystem()
SCHEMA = Schema.of(("v", sql.INT), ("day", sql.STRING), ("hour", sql.STRING))
HOUR_MS = 3_600_000
JOINED = {"auto-compaction": "true", "compaction.file-size": "1 mb"}
MARK = {"sink.partition-commit.policy.kind": "success-file"}
BY_TIME = MARK | {
    "sink.partition-commit.trigger": "partition-time",
    "sink.partition-commit.delay": "1 h",
    "partition.time-extractor.timestamp-pattern": "$day $hour:00:00",
}


class Table:
    """A table with one writer, a clock and a watermark that tests set."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch | None = None, **more: str) -> None:
        self.path = path
        options = {"connector": "filesystem", "path": str(path), "format": "csv", **more}
        self.spec = SinkSpec("t", "filesystem", options, SCHEMA, partition_keys=(1, 2))
        self.now_ms = 0
        self.files = LocalFiles()
        if monkeypatch is not None:
            monkeypatch.setattr("sqlstream.runtime.connectors.files.filesystem.now_ms", lambda: self.now_ms)
        self.writer = self.new_writer()

    def new_writer(self, subtask: int = 0, job_id: str = "job", name: str = "") -> Any:
        context = ConnectorContext(
            *(job_id, "v", subtask, 1, 0, 100, {}, lambda: self.now_ms, lambda name, n: None, self.files),
            writer_name=name,
        )
        return CONNECTOR.sink(self.spec, ChangelogMode.INSERT_ONLY, context)

    def write(self, *rows: tuple[int, str, str], writer: Any = None) -> None:
        columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
        schema = to_arrow_schema(SCHEMA)
        cast = [c.cast(t) for c, t in zip(columns, schema.types, strict=True)]
        (writer or self.writer).write(pa.RecordBatch.from_arrays(cast, schema=schema))

    def checkpoint(self, checkpoint_id: int, *writers: Any) -> list[Committable]:
        committables = [c for w in writers or [self.writer] for c in w.prepare_commit(checkpoint_id)]
        self.commit(checkpoint_id, committables)
        return committables

    def commit(self, checkpoint_id: int, committables: list[Committable]) -> None:
        CONNECTOR.commit(self.spec, checkpoint_id, committables, self.files)

    def marked(self) -> list[str]:
        return sorted(str(mark.parent.relative_to(self.path)) for mark in self.path.rglob("_SUCCESS"))

    def parts(self) -> list[Path]:
        return sorted(p for p in self.path.rglob("part-*") if ".staging" not in str(p))

    def values(self) -> list[int]:
        source = SourceSpec("t", "filesystem", self.spec.options, SCHEMA, SCHEMA.names)
        context = ConnectorContext("r", "v", 0, 1, 0, 100, {}, lambda: 0, lambda n, c: None, self.files)
        reader = CONNECTOR.source(source, context, None)
        found: list[int] = []
        while isinstance(batch := reader.poll(), pa.RecordBatch):
            found += batch.column(0).to_pylist()
        return sorted(found)


def test_a_file_ends_when_it_is_old_or_gets_no_rows_and_is_looked_at_now_and_then(tmp_path: Path) -> None:
    policy = {"rollover-interval": "10 s", "inactivity-interval": "4 s", "check-interval": "2 s"}
    table = Table(tmp_path / "t", **{f"sink.rolling-policy.{key}": value for key, value in policy.items()})
    ended: list[int] = []
    for second in range(24):
        table.now_ms = second * 1000
        before = len(table.writer._finished)
        # Hour 0 gets a row each second; hour 1 only at first.
        table.write((second, "d", "0"), *([(100, "d", "1")] if second == 0 else []))
        ended += [second] * (len(table.writer._finished) - before)
    # Hour 1 after 4 s without a row, hour 0 after each 10 s.
    assert ended == [4, 10, 22]
    table.checkpoint(1)
    assert table.values() == sorted([*range(24), 100])


def test_a_partition_is_marked_when_its_first_row_is_older_than_the_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t", monkeypatch, **MARK, **{"sink.partition-commit.delay": "5 s"})
    table.now_ms = 1_000
    table.write((1, "a", "0"))
    first = table.checkpoint(1)
    assert table.marked() == []
    table.now_ms = 4_000
    table.write((2, "b", "0"))
    table.checkpoint(2)
    table.now_ms = 6_000
    # No rows come, but time passes.
    table.checkpoint(3)
    assert table.marked() == ["day=a/hour=0"]
    table.commit(1, first)
    table.checkpoint(LAST_CHECKPOINT_ID)
    assert table.marked() == ["day=a/hour=0", "day=b/hour=0"]
    assert table.values() == [1, 2]
    assert [p.name for p in table.path.glob(".*")] == [".committed"]


def test_a_partition_is_marked_when_the_watermarks_of_all_writers_have_passed_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t", monkeypatch, **BY_TIME)
    other = table.new_writer(1)
    assert isinstance(other, TakesWatermarks)
    table.write((1, "1970-01-01", "02"), (2, "1970-01-01", "03"), (3, "no day", "03"))
    table.writer.on_watermark(4 * HOUR_MS)
    other.on_watermark(3 * HOUR_MS - 1)
    table.checkpoint(1, table.writer, other)
    assert table.marked() == []
    other.on_watermark(3 * HOUR_MS)
    table.checkpoint(2, table.writer, other)
    assert table.marked() == ["day=1970-01-01/hour=02"]
    other.on_watermark(9 * HOUR_MS)
    table.checkpoint(3, table.writer, other)
    assert table.marked() == ["day=1970-01-01/hour=02", "day=1970-01-01/hour=03"]
    # What has no time is complete with the job.
    table.checkpoint(LAST_CHECKPOINT_ID, table.writer, other)
    assert table.marked()[2:] == ["day=no day/hour=03"]


def test_notes_that_cannot_be_read_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path / "t", monkeypatch, **MARK, **{"sink.partition-commit.delay": "5 s"})
    table.write((1, "a", "0"))
    table.checkpoint(1)
    (table.path / ".committed" / "job").write_bytes(b"[1, 2")
    table.write((2, "b", "0"))
    table.checkpoint(2)
    table.now_ms = 5_000
    table.checkpoint(3)
    assert table.marked() == ["day=b/hour=0"]
    with monkeypatch.context() as small:
        small.setattr(job_records, "_BYTES_MAX", 3)
        table.write((3, "c", "0"))
        table.checkpoint(4)
    table.write((4, "d", "0"))
    table.checkpoint(5)
    table.checkpoint(LAST_CHECKPOINT_ID)
    assert [p.name for p in table.path.glob(".*")] == [".committed"]


def test_a_job_marks_the_partitions_of_the_job_that_it_goes_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t", monkeypatch, **MARK, **{"sink.partition-commit.delay": "5 s"})
    table.now_ms = 1_000
    table.write((1, "a", "0"))
    table.checkpoint(1)
    # As at its end.
    CONNECTOR.abort(table.spec, "job", [], table.files)
    table.now_ms = 4_000
    table.write((2, "b", "0"))
    saved = table.writer.prepare_commit(2)
    # Another job repeats that commit; one between them has committed nothing.
    for earlier, later in (("job", "between"), ("between", "later")):
        CONNECTOR.begin_with(table.spec, earlier, later, table.files)
    table.commit(2, saved)
    table.now_ms = 6_000
    later = table.new_writer(job_id="later")
    table.checkpoint(3, later)
    assert table.marked() == ["day=a/hour=0"]
    table.now_ms = 9_000
    table.checkpoint(4, later)
    assert table.marked() == ["day=a/hour=0", "day=b/hour=0"]
    table.checkpoint(LAST_CHECKPOINT_ID, later)
    left = job_records.JobRecords(str(table.path), table.files).of("later")
    assert (left.waiting, left.begun_by) == ({}, "")


def test_the_time_of_a_partition_is_read_in_its_time_zone() -> None:
    options = {
        "path": "t",
        "format": "csv",
        **BY_TIME,
        "sink.partition-commit.watermark-time-zone": "Europe/Berlin",
    }
    time = PartitionTime(FileSinkOptions.of(options), ("day", "hour"))
    assert time.of_ms({"day": "1970-01-01", "hour": "02"}) == HOUR_MS
    assert time.of_ms({"day": "never", "hour": "02"}) is None
    daily = FileSinkOptions.of(
        {"path": "t", "format": "csv", "partition.time-extractor.timestamp-formatter": "yyyyMMdd"}
    )
    assert PartitionTime(daily, ("dt",)).of_ms({"dt": "19700102"}) == 24 * HOUR_MS
    assert (
        PartitionTime(dataclasses.replace(daily, time_format="yyyy"), ("dt",)).of_ms({"dt": "1970-01-02"})
        == 24 * HOUR_MS
    )


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "raw"])
def test_the_files_of_a_checkpoint_are_joined_up_to_a_size(tmp_path: Path, format: str) -> None:
    schema = Schema.of(("v", sql.STRING), ("p", sql.STRING))
    options = {
        "connector": "filesystem",
        "path": str(tmp_path / "t"),
        "format": format,
        "auto-compaction": "true",
    }
    spec = SinkSpec("t", "filesystem", options, schema, partition_keys=(1,))
    for checkpoint_id in (1, 2):
        committables: list[Committable] = []
        for subtask in range(5):
            context = ConnectorContext(
                *("job", "v", subtask, 5, 0, 100, {}, lambda: 0, lambda name, n: None, LocalFiles())
            )
            writer = CONNECTOR.sink(spec, ChangelogMode.INSERT_ONLY, context)
            rows = {"v": [f"{checkpoint_id}-{subtask}-{n}" for n in range(3)], "p": ["x", "x", "y"]}
            writer.write(pa.RecordBatch.from_pydict(rows, schema=to_arrow_schema(schema)))
            committables += writer.prepare_commit(checkpoint_id)
        # Other readers' globs, such as DuckDB's */*.parquet, look into hidden directories as well.
        staged = list((tmp_path / "t").rglob(".staging-*/part-*"))
        assert {path.suffix for path in staged} == {".staged"}
        for _ in range(2):
            CONNECTOR.commit(spec, checkpoint_id, committables, LocalFiles())
        # One for each partition and checkpoint.
        assert len(list((tmp_path / "t").rglob("p=*/part-*"))) == 2 * checkpoint_id
    source = SourceSpec("t", "filesystem", options, schema, ("v", "p"))
    context = ConnectorContext("r", "v", 0, 1, 0, 100, {}, lambda: 0, lambda name, n: None, LocalFiles())
    reader, found = CONNECTOR.source(source, context, None), list[tuple[str, str]]()
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    expected = [(f"{c}-{s}-{n}", "y" if n == 2 else "x") for c in (1, 2) for s in range(5) for n in range(3)]
    assert sorted(found) == sorted(expected)
    CONNECTOR.abort(spec, "job", committables, LocalFiles())
    assert len(list((tmp_path / "t").rglob("p=*/part-*"))) == 2
    assert not list((tmp_path / "t").rglob(".staging-*/part-*"))


def test_a_joined_file_is_not_much_larger_than_asked_for(tmp_path: Path) -> None:
    table = Table(tmp_path / "t", **{"auto-compaction": "true", "compaction.file-size": "10 b"})
    writers = [table.new_writer(subtask) for subtask in range(6)]
    for n, writer in enumerate(writers):
        table.write((1000 + n, "d", "0"), writer=writer)
    table.checkpoint(1, *writers)
    assert [p.stat().st_size for p in table.parts()] == [10, 10, 10]
    assert table.values() == [1000 + n for n in range(6)]


def test_a_commit_that_is_repeated_does_not_miss_files_that_users_have_removed_since(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write((1, "a", "0"))
    first = table.checkpoint(1)
    table.write((2, "a", "0"))
    second = table.checkpoint(2)
    shutil.rmtree(table.path / "day=a")
    # As when the job goes on from a checkpoint, or another one from its savepoint, when it has ended.
    table.commit(1, first)
    CONNECTOR.abort(table.spec, "job", [], table.files)
    table.commit(1, first)
    table.commit(2, second)
    table.write((3, "a", "0"))
    third = table.writer.prepare_commit(3)
    for hidden in table.path.glob(".staging-*/part-*"):
        hidden.unlink()
    with pytest.raises(ExternalError, match="the file written for it has vanished"):
        table.commit(3, third)
    # Also when all of its directory is gone.
    shutil.rmtree(next(table.path.glob(".staging-*")))
    with pytest.raises(ExternalError, match="the file written for it has vanished"):
        table.commit(3, third)


def test_a_commit_that_was_undone_is_missed_when_it_is_repeated(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.write((1, "a", "0"))
    first = table.checkpoint(1)
    table.write((2, "a", "0"))
    second = table.checkpoint(2)
    CONNECTOR.abort(table.spec, "job", second, table.files)
    table.commit(1, first)
    assert table.values() == [1]
    with pytest.raises(ExternalError, match="the file written for it has vanished"):
        table.commit(2, second)


def test_a_table_notes_the_commits_of_the_last_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "RECORDS_MAX", 4)
    records = job_records.JobRecords(str(tmp_path), LocalFiles())
    made = [Committable(f"job{n}", 1, "w", 0, {}) for n in range(6)]
    for n, first in enumerate(made):
        records.put(first.job_id, records.of(first.job_id).with_commit(first, replaces=False))
        os.utime(tmp_path / ".committed" / f"job{n}", (n, n))
    noted = [records.of(first.job_id).has(first) for first in made]
    assert noted == [False, False, True, True, True, True]
    assert not records.of("job4").has(Committable("job4", 2, "w", 0, {}))
    (tmp_path / ".committed" / "job4").write_bytes(b"{")
    assert not records.of("job4").has(made[4])


@pytest.mark.parametrize(
    ("options", "partition_keys", "expected"),
    [
        (MARK, (), "the table has no partitions"),
        ({"sink.partition-commit.policy.kind": "metastore"}, ("day",), "by success-file alone"),
        ({"sink.partition-commit.policy.kind": "success-file,metastore"}, ("day",), "by success-file alone"),
        (MARK | {"sink.partition-commit.success-file.name": "done"}, ("day",), "take for a file of rows"),
        (MARK | {"sink.partition-commit.success-file.name": "_/../x"}, ("day",), "take for a file of rows"),
        (BY_TIME | {"partition.time-extractor.timestamp-pattern": "$year"}, ("day",), r'names "\$year"'),
        (BY_TIME | {"sink.partition-commit.watermark-time-zone": "Mars"}, ("day", "hour"), '"Mars" does not'),
        (BY_TIME | {"sink.partition-commit.trigger": "never"}, ("day",), "never"),
        ({"compaction.file-size": "1 MB"}, (), "has no use without"),
        ({"path": "s3://b/t", "sink.rolling-policy.file-size": "5 GB"}, (), "larger than 4 GB"),
        ({"path": "s3://b//t"}, (), "s3://b//t"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, str], partition_keys: tuple[str, ...], expected: str
) -> None:
    with pytest.raises((UserError, ValueError), match=expected):
        CONNECTOR.validate("t", SCHEMA, {"path": "t", "format": "csv", **options}, partition_keys)


@pytest.mark.parametrize("options", [{}, {"format": "debezium-json"}])
def test_what_a_dead_writer_has_staged_is_found_by_its_name(tmp_path: Path, options: dict[str, str]) -> None:
    """Of files in any order and in that of the changes."""
    table = Table(tmp_path / "t", **options)
    dead, alive = table.new_writer(name="a1/e0/1"), table.new_writer(name="a2/e1/1")
    for writer, row in ((dead, 1), (alive, 2)):
        table.write((row, "x", "y"), writer=writer)
    assert len([*table.path.glob(".staging-*")]) == 2
    CONNECTOR.remove_staged(table.spec, "other", ["a1/e0/1"], table.files)
    CONNECTOR.remove_staged(table.spec, "job", ["a3/e0/1"], table.files)
    assert len([*table.path.glob(".staging-*")]) == 2
    for _ in range(2):
        CONNECTOR.remove_staged(table.spec, "job", ["a1/e0/1"], table.files)
    assert len([*table.path.glob(".staging-*")]) == 1
    table.checkpoint(1, alive)
    assert len(table.parts()) == 1


@pytest.mark.parametrize("is_joined", [False, True])
def test_files_of_changes_are_named_in_the_order_of_their_writers_whatever_their_clocks_say(
    tmp_path: Path, is_joined: bool
) -> None:
    """Two attempts of one job, and another job; of the first what it has staged may be committed after the second has begun."""
    options = {"format": "debezium-json", "sink.rolling-policy.file-size": "1 b"}
    table = Table(tmp_path / "t", **options, **(JOINED if is_joined else {}))

    def written(writer: Any, checkpoint_id: int, *values: int) -> list[Committable]:
        for value in values:
            table.write((value, "x", "y"), writer=writer)
        return list(writer.prepare_commit(checkpoint_id))

    table.now_ms = 9_000_000
    first = table.new_writer(name="a1/e0/1")
    table.commit(1, written(first, 1, 1, 2))
    staged = written(first, 2, 3)
    table.now_ms = 5_000
    second = table.new_writer(name="a2/e1/1")
    table.commit(2, staged)
    table.commit(3, written(second, 3, 4, 5))
    table.now_ms = 4_000
    table.commit(1, written(table.new_writer(job_id="other", name="a3/e0/1"), 1, 6))
    texts = [part.read_text() for part in table.parts()]
    assert [line["after"]["v"] for text in texts for line in map(json.loads, text.splitlines())] == [
        *range(1, 7)
    ]
    assert len(texts) == (4 if is_joined else 6)
