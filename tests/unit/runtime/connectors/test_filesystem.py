"""The filesystem connector: which rows are read by whom, what a sink leaves behind when it ends well or badly."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError, FailureReason, UserError
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Field, Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable
from sqlstream.spi.connector import ConnectorContext, SinkWriter, SourceReader, SourceStatus
from sqlstream.testing.trial_jobs import AssignedReader

CONNECTOR = Filesystem()
SCHEMA = Schema.of(("k", sql.STRING), ("v", sql.INT))
INSERT_ONLY = ChangelogMode.INSERT_ONLY


class Surroundings:
    """A clock that tests set, counters that they read, files that they make fail."""

    def __init__(self, files: Any = None) -> None:
        self.now = 0
        self.counts: Counter[str] = Counter()
        self.files = files or LocalFiles()

    def context(self, subtask: int = 0, parallelism: int = 1, batch_rows: int = 100) -> ConnectorContext:
        return ConnectorContext(
            job_id="job",
            vertex_id="vertex",
            subtask=subtask,
            parallelism=parallelism,
            attempt=0,
            batch_rows=batch_rows,
            config={},
            now_ms=lambda: self.now,
            count=lambda name, n: self.counts.update({name: n}),
            files=self.files,
        )


class FullDisk(LocalFiles):
    """A disk on which `room` bytes fit into every file."""

    def __init__(self, room: int) -> None:
        self._room = room

    def open_write(self, path: str) -> BinaryIO:
        return _Limited(super().open_write(path), self._room)  # type: ignore[return-value]

    def sync(self, stream: BinaryIO) -> None:
        stream.flush()


class _Limited:
    def __init__(self, stream: BinaryIO, room: int) -> None:
        self._stream, self._room = stream, room

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def source_spec(path: object, schema: Schema = SCHEMA, format: str = "csv", **more: Any) -> SourceSpec:
    options = {"connector": "filesystem", "path": str(path), "format": format, **more.pop("options", {})}
    columns = more.pop("columns", schema.names)
    return SourceSpec("t", "filesystem", options, schema, columns, **more)


def sink_spec(path: object, schema: Schema = SCHEMA, format: str = "csv", **more: Any) -> SinkSpec:
    options = {"connector": "filesystem", "path": str(path), "format": format, **more.pop("options", {})}
    return SinkSpec("t", "filesystem", options, schema, **more)


def read_all(spec: SourceSpec, around: Surroundings | None = None, **context: int) -> list[dict[str, Any]]:
    reader = CONNECTOR.source(spec, (around or Surroundings()).context(**context), None)
    return [row for batch in polled(reader) for row in batch.to_pylist()]


def polled(reader: SourceReader) -> list[pa.RecordBatch]:
    batches = []
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        batches.append(batch)
    reader.close()
    return batches


def rows(*values: tuple[Any, ...], schema: Schema = SCHEMA) -> pa.RecordBatch:
    arrow = to_arrow_schema(schema)
    columns = [pa.array([row[i] for row in values], field.type) for i, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def writer(spec: SinkSpec, around: Surroundings | None = None, subtask: int = 0) -> SinkWriter:
    return CONNECTOR.sink(spec, INSERT_ONLY, (around or Surroundings()).context(subtask))


def committed(spec: SinkSpec, *batches: pa.RecordBatch) -> list[Committable]:
    sink = writer(spec)
    for batch in batches:
        sink.write(batch)
    sent = msgspec.json.encode(sink.prepare_commit(LAST_CHECKPOINT_ID))
    committables = msgspec.json.decode(sent, type=list[Committable])
    CONNECTOR.commit(spec, LAST_CHECKPOINT_ID, committables, LocalFiles())
    return committables


def files_below(path: Path) -> list[str]:
    return sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_directory_is_read_in_order_of_paths_without_hidden_files(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.csv").write_text("b,2\n")
    (tmp_path / "a.csv").write_text("a,1\n")
    (tmp_path / "sub" / "c.csv").write_text("c,3\n")
    (tmp_path / ".hidden.csv").write_text("x,0\n")
    (tmp_path / "_SUCCESS").write_text("")
    assert [r["k"] for r in read_all(source_spec(tmp_path))] == ["a", "b", "c"]
    assert [r["k"] for r in read_all(source_spec(f"file://{tmp_path}"))] == ["a", "b", "c"]
    assert [r["k"] for r in read_all(source_spec(tmp_path / "*.csv"))] == ["a", "b"]
    assert [r["k"] for r in read_all(source_spec(tmp_path / "sub" / "c.csv"))] == ["c"]


def test_a_regular_expression_chooses_by_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\n")
    (tmp_path / "a.txt").write_text("no, csv, at all\n")
    assert read_all(source_spec(tmp_path, options={"source.path.regex-pattern": r".*\.csv"})) == [
        {"k": "a", "v": 1}
    ]


@pytest.mark.parametrize("path", ["nowhere.csv", "*.nothing", "dir/nowhere/"])
def test_a_missing_path_fails_with_the_path_and_a_hint(tmp_path: Path, path: str) -> None:
    with pytest.raises(UserError, match=r"there is no file|no file matches") as caught:
        read_all(source_spec(tmp_path / path))
    assert path.rstrip("/") in caught.value.message
    assert caught.value.code == "SS5002"
    assert caught.value.hint


def test_an_empty_directory_is_an_empty_table(tmp_path: Path) -> None:
    assert read_all(source_spec(tmp_path)) == []


def test_other_file_systems_are_refused() -> None:
    with pytest.raises(UserError, match='file system "xyz"'):
        CONNECTOR.validate("t", SCHEMA, {"path": "xyz://bucket/x", "format": "csv"})


def test_subtasks_share_the_files_and_batches_are_full_but_the_last(tmp_path: Path) -> None:
    for name in "abcde":
        (tmp_path / f"{name}.csv").write_text("".join(f"{name},{i}\n" for i in range(5)))
    spec, around = source_spec(tmp_path), Surroundings()
    batches = [polled(CONNECTOR.source(spec, around.context(s, 2, 4), None)) for s in range(2)]
    assert [[b.num_rows for b in part] for part in batches] == [[4, 4, 4, 3], [4, 4, 2]]
    assert [{r["k"] for b in part for r in b.to_pylist()} for part in batches] == [
        {"a", "c", "e"},
        {"b", "d"},
    ]
    assert around.counts["numBytesIn"] == 5 * 5 * 4
    assert read_all(spec, subtask=6, parallelism=7) == []


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("polls", range(6))
def test_a_restored_reader_goes_on_behind_the_last_row(tmp_path: Path, format: str, polls: int) -> None:
    for part in range(3):
        committed(sink_spec(tmp_path, format=format), rows(*[(str(part), i) for i in range(7)]))
    spec, context = source_spec(tmp_path, format=format), Surroundings().context(batch_rows=4)
    whole = read_all(spec)
    reader = CONNECTOR.source(spec, context, None)
    seen = [row for _ in range(polls) for row in reader.poll().to_pylist()]  # type: ignore[union-attr]
    restored = CONNECTOR.source(spec, context, json.loads(json.dumps(reader.snapshot())))
    assert seen + [row for b in polled(restored) for row in b.to_pylist()] == whole


def test_what_has_been_read_is_no_longer_a_part_of_the_snapshot(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,1\n")
    (tmp_path / "2.csv").write_text("b,2\n")
    reader = CONNECTOR.source(source_spec(tmp_path), Surroundings().context(batch_rows=2), None)
    assert len(reader.snapshot()) > 0
    # The first file has ended before its row is given out.
    assert [batch.num_rows for batch in polled(reader)] == [2]
    assert reader.snapshot() == []


def test_only_requested_columns_are_decoded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,no number\n")
    (tmp_path / "a.json").write_text('{"k": "a", "v": "no number"}\n')
    assert read_all(source_spec(tmp_path / "a.csv", columns=("k",))) == [{"k": "a"}]
    assert read_all(source_spec(tmp_path / "a.json", format="json", columns=("k",))) == [{"k": "a"}]


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_rows_are_counted_without_any_column(tmp_path: Path, format: str) -> None:
    committed(sink_spec(tmp_path, format=format), rows(("a", 1), ("b", 2)), rows(("c", 3)))
    reader = CONNECTOR.source(
        source_spec(tmp_path, format=format, columns=()), Surroundings().context(), None
    )
    assert sum(batch.num_rows for batch in polled(reader)) == 3


def test_a_limit_ends_the_reader_early(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\nb,2\nc,3\n")
    assert [r["k"] for r in read_all(source_spec(tmp_path, limit=2))] == ["a", "b"]


def test_metadata_columns_say_where_a_row_comes_from(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\n")
    os.utime(tmp_path / "a.csv", (1_000, 1_000))
    metadata = tuple(Field(key, t) for key, t in CONNECTOR.descriptor.reading.metadata.items())
    (row,) = read_all(source_spec(tmp_path, columns=("v",), metadata=metadata))
    assert row["file.modification-time"].timestamp() == 1_000
    assert row | {"file.modification-time": None} == {
        "v": 1,
        "file.path": str(tmp_path / "a.csv"),
        "file.name": "a.csv",
        "file.size": 4,
        "file.modification-time": None,
    }


def test_a_monitored_directory_gives_each_later_file_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\n")
    os.utime(tmp_path / "a.csv", (0, 0))
    around = Surroundings()
    around.now = 10_000
    spec = source_spec(tmp_path, options={"source.monitor-interval": "10 s"})
    reader = AssignedReader(CONNECTOR, spec, around.context())
    assert reader.poll().to_pylist() == [{"k": "a", "v": 1}]
    (tmp_path / "b.csv").write_text("b,2\n")
    os.utime(tmp_path / "b.csv", (0, 0))
    assert reader.poll() is SourceStatus.NOTHING_YET
    around.now = 20_000
    assert reader.poll().to_pylist() == [{"k": "b", "v": 2}]
    around.now = 30_000
    assert reader.poll() is SourceStatus.NOTHING_YET
    restored = AssignedReader(
        CONNECTOR, spec, around.context(), reader.reader.snapshot(), reader.enumerator.snapshot()
    )
    assert restored.poll() is SourceStatus.NOTHING_YET
    around.now = 40_000
    assert restored.poll() is SourceStatus.NOTHING_YET


# --- undecodable rows -------------------------------------------------------------------------------------------------

BAD = {
    "csv": 'a,1\nb,x\n"c\nc",3\nd\n',
    "json": '{"k":"a","v":1}\n{"k":"b","v":"x"}\n\n{"k":"c","v":3}\n{"k"\n',
}
BAD_LINES = {"csv": [(2, "b,x"), (5, "d")], "json": [(2, '{"k":"b","v":"x"}'), (5, '{"k"')]}


@pytest.mark.parametrize("format", ["csv", "json"])
def test_an_undecodable_row_fails_with_file_and_line(tmp_path: Path, format: str) -> None:
    (tmp_path / "bad").write_text(BAD[format])
    with pytest.raises(UserError, match="could not decode line 2 of") as caught:
        read_all(source_spec(tmp_path / "bad", format=format))
    assert str(tmp_path / "bad") in caught.value.message
    assert BAD_LINES[format][0][1] in caught.value.detail
    assert f"{format}.ignore-parse-errors" in caught.value.hint


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("where", ["", "elsewhere"])
def test_ignored_rows_are_counted_and_kept_outside_of_what_is_read(
    tmp_path: Path, format: str, where: str
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "bad").write_text(BAD[format])
    options = {f"{format}.ignore-parse-errors": "true"}
    if where:
        options["source.rejected-rows.path"] = str(tmp_path / where)
    around = Surroundings()
    for _ in range(2):
        assert [r["v"] for r in read_all(source_spec(data, format=format, options=options), around)] == [1, 3]
    assert around.counts["numRecordsRejected"] == 2 * 2
    (kept,) = (tmp_path / (where or "_data.rejected")).iterdir()
    found = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(r["line"], r["text"]) for r in found] == BAD_LINES[format]
    assert {r["file"] for r in found} == {str(data / "bad")}
    assert all(r["reason"] for r in found)


def test_without_a_place_rejected_rows_are_counted_the_first_ones_shown_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.write_text("a,1\n" + "".join(f"{i}\x1b\n" for i in range(10)) + "b,2\n")
    spec = source_spec(data, options={"csv.ignore-parse-errors": "true"})
    spec = CONNECTOR.without_rejected_files(spec)
    around, printed = Surroundings(), []
    context = dataclasses.replace(
        around.context(batch_rows=2), print_lines=lambda lines, is_error: printed.extend(lines) or None
    )
    reader = CONNECTOR.source(spec, context, None)
    assert [r["v"] for batch in polled(reader) for r in batch.to_pylist()] == [1, 2]
    reader.close()
    assert around.counts["numRecordsRejected"] == 10
    assert printed == [
        f"rejected: {data}, line {n + 2}: it has 1 fields instead of 2: {n}\\x1b" for n in range(3)
    ]
    assert os.listdir(tmp_path) == ["data"]
    assert CONNECTOR.rejected_rows_directory(spec) is None


def test_a_full_disk_under_the_rejected_rows_is_the_reason_of_the_failure(tmp_path: Path) -> None:
    class Full(LocalFiles):
        def open_write(self, path: str) -> BinaryIO:
            return super().open_write("/dev/full")

    (tmp_path / "bad").write_text(BAD["csv"])
    spec = source_spec(tmp_path / "bad", options={"csv.ignore-parse-errors": "true"})
    reader = CONNECTOR.source(spec, Surroundings(Full()).context(), None)
    with pytest.raises(ExternalError, match=r"rejected-.*no space left"):
        polled(reader)
    reader.close()


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_nothing_is_visible_before_the_commit_and_jobs_append(tmp_path: Path, format: str) -> None:
    spec = sink_spec(tmp_path / "out", format=format)
    sink = writer(spec)
    sink.write(rows(("a", 1)))
    committables = sink.prepare_commit(LAST_CHECKPOINT_ID)
    assert read_all(source_spec(tmp_path / "out", format=format)) == []
    for _ in range(2):
        CONNECTOR.commit(spec, LAST_CHECKPOINT_ID, committables, LocalFiles())
        assert read_all(source_spec(tmp_path / "out", format=format)) == [{"k": "a", "v": 1}]
    committed(spec, rows(("b", 2)))
    assert sorted(r["k"] for r in read_all(source_spec(tmp_path / "out", format=format))) == ["a", "b"]
    assert [d for d in (tmp_path / "out").iterdir() if d.is_dir()] == []


def test_a_job_without_rows_leaves_an_empty_table(tmp_path: Path) -> None:
    committed(sink_spec(tmp_path / "out"))
    assert read_all(source_spec(tmp_path / "out")) == []


@pytest.mark.parametrize("batches", [[], [rows(("a", 1))]], ids=["no rows", "rows"])
def test_a_directory_that_cannot_be_made_is_reported_with_the_table_and_its_path(
    tmp_path: Path, batches: list[pa.RecordBatch]
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "out"
    with pytest.raises(ExternalError) as failed:
        committed(sink_spec(path), *batches)
    assert failed.value.message == f'could not write table "t" to "{path}": not a directory'


def test_partitions_become_directories_and_come_back_as_columns(tmp_path: Path) -> None:
    schema = Schema.of(("v", sql.INT), ("day", sql.DATE), ("city", sql.STRING))
    values = [
        {"v": i, "day": None, "city": city} for i, city in enumerate(["New:York", "a/b=c", None, "New:York"])
    ]
    batch = pa.RecordBatch.from_pylist(values, schema=to_arrow_schema(schema))
    committed(sink_spec(tmp_path, schema, partition_keys=(1, 2)), batch)
    assert sorted({os.path.dirname(f) for f in files_below(tmp_path)}) == [
        "day=__DEFAULT_PARTITION__/city=New%3AYork",
        "day=__DEFAULT_PARTITION__/city=__DEFAULT_PARTITION__",
        "day=__DEFAULT_PARTITION__/city=a%2Fb%3Dc",
    ]
    found = read_all(source_spec(tmp_path, schema))
    assert sorted(found, key=lambda r: r["v"]) == values


def test_a_format_of_one_column_leaves_the_others_to_the_directories(tmp_path: Path) -> None:
    schema = Schema.of(("line", sql.STRING), ("day", sql.INT))
    options = {"path": str(tmp_path), "format": "raw"}
    CONNECTOR.validate("t", schema, options, ("day",))
    committed(
        sink_spec(tmp_path, schema, "raw", partition_keys=(1,)), rows(("a", 1), ("b", 2), schema=schema)
    )
    found = read_all(source_spec(tmp_path, schema, "raw"))
    assert sorted(found, key=repr) == [{"line": "a", "day": 1}, {"line": "b", "day": 2}]
    assert read_all(source_spec(tmp_path, schema, "raw", columns=("day",))) == [{"day": 1}, {"day": 2}]


def test_a_raw_file_outside_of_its_partitions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.raw").write_text("a\n")
    with pytest.raises(UserError, match="does not have the others") as caught:
        read_all(source_spec(tmp_path, Schema.of(("line", sql.STRING), ("day", sql.INT)), "raw"))
    assert caught.value.code == "SS5012"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (Schema.of(("v", sql.INT), ("p", sql.array(sql.INT))), "cannot name the partitions"),
        (Schema.of(("p", sql.INT)), "no column but those"),
    ],
)
def test_partition_columns_are_of_plain_types_and_leave_one_for_the_files(
    schema: Schema, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        CONNECTOR.validate("t", schema, {"path": str(tmp_path), "format": "json"}, ("p",))


@pytest.mark.parametrize("path", ["", "_day=*"])
def test_any_text_may_be_a_partition_and_its_column_may_begin_with_an_underscore(
    tmp_path: Path, path: str
) -> None:
    schema = Schema.of(("v", sql.INT), ("_day", sql.STRING), ("_part", sql.STRING))
    texts = ["a\x1fb", "..", "%41", "é", " x ", "_y"]
    values = [{"v": i, "_day": text, "_part": text[::-1]} for i, text in enumerate(texts)]
    batch = pa.RecordBatch.from_pylist(values, schema=to_arrow_schema(schema))
    committed(sink_spec(tmp_path, schema, partition_keys=(1, 2)), batch)
    found = read_all(source_spec(tmp_path / path, schema))
    assert sorted(found, key=lambda r: r["v"]) == values


def test_more_partitions_than_open_files_lose_no_row(tmp_path: Path) -> None:
    schema = Schema.of(("v", sql.INT), ("p", sql.INT))
    batch = rows(*[(i, i) for i in range(130)], schema=schema)
    committed(sink_spec(tmp_path, schema, partition_keys=(1,)), batch, batch)
    assert sorted(r["v"] for r in read_all(source_spec(tmp_path, schema))) == sorted(
        [*range(130), *range(130)]
    )


def test_a_full_file_is_followed_by_another(tmp_path: Path) -> None:
    spec = sink_spec(tmp_path, options={"sink.rolling-policy.file-size": "10 b"})
    committed(spec, rows(("abcdefghijk", 1)), rows(("b", 2)), rows(("c", 3)))
    assert len(files_below(tmp_path)) == 2


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "raw"])
@pytest.mark.parametrize("room", [0, 20])
def test_a_full_disk_fails_the_sink_and_leaves_nothing(tmp_path: Path, format: str, room: int) -> None:
    schema = Schema.of(("k", sql.STRING))
    sink = writer(sink_spec(tmp_path / "out", schema, format), Surroundings(FullDisk(room)))
    with pytest.raises(ExternalError, match="no space left") as caught:
        fill(sink, rows(("x" * 100,), schema=schema))
    sink.abort()
    assert str(tmp_path / "out") in caught.value.message
    assert caught.value.hint.startswith("free space")
    assert list(tmp_path.iterdir()) == []


def fill(sink: SinkWriter, batch: pa.RecordBatch) -> None:
    sink.write(batch)
    sink.prepare_commit(LAST_CHECKPOINT_ID)


def test_an_aborted_sink_leaves_what_was_there_before(tmp_path: Path) -> None:
    spec = sink_spec(tmp_path)
    committed(spec, rows(("a", 1)))
    before = files_below(tmp_path)
    sink = writer(spec)
    sink.write(rows(("b", 2)))
    sink.abort()
    done = writer(spec)
    done.write(rows(("c", 3)))
    CONNECTOR.abort(spec, "job", done.prepare_commit(LAST_CHECKPOINT_ID), LocalFiles())
    assert files_below(tmp_path) == before
    assert [d for d in tmp_path.iterdir() if d.is_dir()] == []


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_file_that_is_given_up_says_nothing_more(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    sink = writer(sink_spec(tmp_path, format=format))
    sink.write(rows(("a", 1)))
    sink.abort()
    del sink
    gc.collect()
    assert complaints == []


def test_a_job_that_could_not_record_its_commits_fails_as_it_begins(tmp_path: Path) -> None:
    (tmp_path / ".committed").touch()
    context = Surroundings().context()
    CONNECTOR.sink(sink_spec(tmp_path), INSERT_ONLY, context).abort()
    taking_checkpoints = dataclasses.replace(context, config={"execution.checkpointing.interval": "1 s"})
    with pytest.raises(ExternalError, match=r"\.committed.*not a directory") as refused:
        CONNECTOR.sink(sink_spec(tmp_path), INSERT_ONLY, taking_checkpoints)
    assert refused.value.reason is FailureReason.ACCESS_REFUSED


def test_a_file_or_a_pattern_is_no_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\n")
    with pytest.raises(UserError, match="is a file"):
        writer(sink_spec(tmp_path / "a.csv"))
    with pytest.raises(UserError, match="is the pattern"):
        writer(sink_spec(tmp_path / "*.csv"))


def test_a_vanished_hidden_file_fails_the_commit(tmp_path: Path) -> None:
    sink = writer(spec := sink_spec(tmp_path))
    sink.write(rows(("a", 1)))
    committables = sink.prepare_commit(LAST_CHECKPOINT_ID)
    os.remove(committables[0].content["files"][0]["hidden"])
    with pytest.raises(ExternalError, match="has vanished"):
        CONNECTOR.commit(spec, LAST_CHECKPOINT_ID, committables, LocalFiles())


def test_parquet_files_have_the_types_of_the_table(tmp_path: Path) -> None:
    committed(sink_spec(tmp_path, format="parquet"), rows(("a", 1)))
    (name,) = files_below(tmp_path)
    assert pq.read_schema(tmp_path / name).types == [pa.string(), pa.int32()]


def test_an_aborted_job_also_loses_what_subtasks_that_died_had_begun(tmp_path: Path) -> None:
    spec = sink_spec(tmp_path / "out")
    died = writer(spec)
    died.write(rows(("a", 1)))
    CONNECTOR.abort(spec, "another job", [], LocalFiles())
    assert len(list((tmp_path / "out").iterdir())) == 1
    CONNECTOR.abort(spec, "job", [], LocalFiles())
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ("x" * 254, "", "its directory would have a name of 256 bytes, and 255 are possible"),
        ("/" * 85, "", "its directory would have a name of 257 bytes"),
        ("é" * 127, "", "its directory would have a name of 256 bytes"),
        ("x" * 253, "/".join(["d" * 200] * 19), "its path would have"),
    ],
)
def test_a_partition_value_that_no_path_can_hold_is_refused_and_the_next_job_runs(
    tmp_path: Path, value: str, path: str, message: str
) -> None:
    schema = Schema.of(("v", sql.INT), ("p", sql.STRING))
    spec = sink_spec(tmp_path / "t" / path, schema, partition_keys=(1,))
    sink = writer(spec)
    sink.write(rows((1, "good"), schema=schema))
    with pytest.raises(UserError, match='column "p".*' + message) as caught:
        sink.write(rows((2, value), schema=schema))
    assert caught.value.code == "SS5019"
    sink.abort()
    committed(spec, rows((3, "good"), schema=schema))
    assert read_all(source_spec(tmp_path / "t" / path, schema)) == [{"v": 3, "p": "good"}]


def test_a_path_that_is_too_long_without_partitions_is_refused_as_a_path(tmp_path: Path) -> None:
    sink = writer(sink_spec(tmp_path / "t" / "/".join(["d" * 200] * 20)))
    with pytest.raises(
        UserError, match='a file of table "t" cannot be written: its path would have'
    ) as caught:
        sink.write(rows(("a", 1)))
    assert caught.value.code == "SS5019"
    assert caught.value.hint == "name a shorter path"


def test_a_file_in_the_place_of_a_partition_fails_one_job_and_not_the_next(tmp_path: Path) -> None:
    schema = Schema.of(("v", sql.INT), ("p", sql.STRING))
    spec = sink_spec(tmp_path, schema, partition_keys=(1,))
    (tmp_path / "p=a").write_text("mine")
    sink = writer(spec)
    sink.write(rows((1, "a"), (2, "b"), schema=schema))
    committables = sink.prepare_commit(LAST_CHECKPOINT_ID)
    with pytest.raises(ExternalError, match="could not rename"):
        CONNECTOR.commit(spec, LAST_CHECKPOINT_ID, committables, LocalFiles())
    CONNECTOR.abort(spec, "job", committables, LocalFiles())
    committed(spec, rows((3, "b"), schema=schema))
    assert [f for f in files_below(tmp_path) if "part-" not in f] == ["p=a"]
    assert len(files_below(tmp_path)) == 2


def test_a_partition_column_that_begins_with_a_dot_is_read_back(tmp_path: Path) -> None:
    schema = Schema.of(("v", sql.INT), (".p", sql.STRING))
    committed(sink_spec(tmp_path, schema, partition_keys=(1,)), rows((1, "a"), schema=schema))
    assert read_all(source_spec(tmp_path, schema)) == [{"v": 1, ".p": "a"}]


@pytest.mark.parametrize("path", ["", "a\0b", "file:///a%00b"])
def test_what_can_be_no_path_is_refused(path: str) -> None:
    with pytest.raises(UserError, match='option "path"') as caught:
        CONNECTOR.validate("t", SCHEMA, {"path": path, "format": "csv"})
    assert caught.value.code == "SS4002"


def test_absolute_paths_name_the_same_files_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a.csv", "b.csv", "c.txt"):
        (tmp_path / "in" / name).write_text(f"{name},1\n")
    monkeypatch.chdir(tmp_path)
    relative = source_spec("in", options={"source.path.regex-pattern": "(?i)in/.*[.]CSV"})
    found = read_all(relative)
    options = CONNECTOR.with_absolute_paths(relative.options, str(tmp_path))
    monkeypatch.chdir("/")
    assert read_all(msgspec.structs.replace(relative, options=dict(options))) == found
    assert [row["k"] for row in found] == ["a.csv", "b.csv"]


@pytest.mark.parametrize("path", ["/data/in", "file:///data/in"])
def test_a_path_that_is_absolute_stays_what_it_is(path: str) -> None:
    options = {"path": path, "format": "csv", "source.path.regex-pattern": ".*x"}
    assert CONNECTOR.with_absolute_paths(options, "/home") == {**options, "path": "/data/in"}


def test_the_place_of_rejected_rows_becomes_absolute_and_stays_empty_where_it_is() -> None:
    named = {"path": "in", "format": "csv", "source.rejected-rows.path": "bad"}
    assert CONNECTOR.with_absolute_paths(named, "/home") == {
        **named, "path": "/home/in", "source.rejected-rows.path": "/home/bad"
    }  # fmt: skip
    off = {"path": "in", "format": "csv", "source.rejected-rows.path": ""}
    assert CONNECTOR.with_absolute_paths(off, "/home") == {**off, "path": "/home/in"}


def test_a_directory_that_would_be_read_as_a_pattern_is_refused() -> None:
    with pytest.raises(UserError, match="would be read as a pattern"):
        CONNECTOR.with_absolute_paths({"path": "in", "format": "csv"}, "/home/a[b]")
