"""Files of a table with a watermark: in which order their rows come, and what the reader promises meanwhile."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from expression_harness import call, col, lit

from sqlstream import types as sql
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.elements import WATERMARK_MIN
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.filesystem import Filesystem
from sqlstream.runtime.connectors.files.filesystem_source import FileSourceReader
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import EmitStrategy, SourceSpec, SourceWatermark
from sqlstream.spi.connector import ConnectorContext, SourceStatus

TS = sql.timestamp(3)
SCHEMA = Schema.of(("ts", TS))
DELAY_MS = 5_000


class OpenFiles(LocalFiles):
    """Counts the files that are open at once."""

    def __init__(self) -> None:
        self.streams: list[BinaryIO] = []
        self.most = 0

    def open_read(self, path: str) -> BinaryIO:
        self.streams = [s for s in self.streams if not s.closed] + [super().open_read(path)]
        self.most = max(self.most, len(self.streams))
        return self.streams[-1]


def context(
    batch_rows: int = 100,
    files: Any = None,
    counts: Counter[str] | None = None,
    now_ms: Callable[[], int] = lambda: 0,
) -> ConnectorContext:
    found: Counter[str] = Counter() if counts is None else counts
    return ConnectorContext(
        job_id="job",
        vertex_id="vertex",
        subtask=0,
        parallelism=1,
        attempt=0,
        batch_rows=batch_rows,
        config={},
        now_ms=now_ms,
        count=lambda name, n: found.update({name: n}),
        files=files or LocalFiles(),
    )


def source_spec(path: Path, format: str = "csv", schema: Schema = SCHEMA, **options: str) -> SourceSpec:
    time = col(0, TS)
    watermark = SourceWatermark(
        time, call("-", time, lit(DELAY_MS, sql.INTERVAL_DAY_TIME)), EmitStrategy.ON_EVENT
    )
    given = {"connector": "filesystem", "path": str(path), "format": format, **options}
    return SourceSpec("t", "filesystem", given, schema, schema.names, watermark=watermark)


def write(directory: Path, **files: list[int]) -> None:
    """CSV files of times in seconds."""
    for name, seconds in files.items():
        path = directory / f"{name}.csv"
        path.write_text("".join(f"1970-01-01 00:{s // 60:02}:{s % 60:02}\n" for s in seconds))


def reader_of(spec: SourceSpec, around: ConnectorContext, splits: Any = None) -> FileSourceReader:
    reader = Filesystem().source(spec, around, splits)
    assert isinstance(reader, FileSourceReader)
    return reader


def poll(reader: FileSourceReader) -> tuple[list[int], list[int], int] | None:
    """Times and watermarks of the rows and the reader's watermark behind them, in seconds; None at the end."""
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        if batch.num_rows:
            times = batch.column(0).cast(pa.int64()).to_pylist()
            return [t // 1000 for t in times], _seconds(batch.column(1).to_pylist()), reader.watermark_ms()
    return None


def _seconds(milliseconds: list[int]) -> list[int]:
    return [-1 if ms == WATERMARK_MIN else ms // 1000 for ms in milliseconds]


def read_all(reader: FileSourceReader) -> list[int]:
    found = iter(lambda: poll(reader), None)
    return [time for times, _, _ in found for time in times]


def test_files_that_overlap_are_read_side_by_side_each_with_its_own_watermark(tmp_path: Path) -> None:
    write(tmp_path, a=[10, 20, 30], b=[11, 21, 31])
    reader = reader_of(source_spec(tmp_path), context(batch_rows=2))
    assert [poll(reader) for _ in range(4)] == [
        ([10, 20], [-1, 5], 6_000),
        ([11, 21], [-1, 6], 15_000),
        ([30, 31], [15, 16], 25_000),
        None,
    ]


def test_files_that_are_ahead_of_other_tables_are_read_up_to_the_row_that_brings_them_there(
    tmp_path: Path,
) -> None:
    write(tmp_path, a=[10, 20, 30, 40], b=[11, 21, 31])
    for number in range(4):
        reader, found = reader_of(source_spec(tmp_path), context(batch_rows=10)), list[list[int]]()
        # Its watermark is 5 s behind the times; one that has come to 12 s waits, and one at 11 s does not.
        for allowed_s in (11, 11, 20)[: number or None]:
            reader.align(allowed_s * 1000)
            while isinstance(batch := reader.poll(), pa.RecordBatch):
                found += [batch.column(0).cast(pa.int64()).to_pylist()] if batch.num_rows else []
            assert batch is SourceStatus.NOTHING_YET
            assert min(reader.watermark_ms(), max(times[-1] for times in found) - 5_000) > allowed_s * 1000
        # Another reader goes on from where this one is.
        reader = reader_of(source_spec(tmp_path), context(batch_rows=10), reader.snapshot())
        rest = read_all(reader)
        assert sorted([t // 1000 for times in found for t in times] + rest) == [10, 11, 20, 21, 30, 31, 40]
        assert sorted(rest) == rest


def test_files_that_do_not_overlap_are_read_in_order_of_their_first_times_one_open_at_once(
    tmp_path: Path,
) -> None:
    write(tmp_path, a=[40, 50], b=[20, 30], c=[0, 10], d=[])
    files = OpenFiles()
    assert read_all(reader_of(source_spec(tmp_path), context(3, files))) == [0, 10, 20, 30, 40, 50]
    assert files.most == 1


def test_no_row_is_read_before_the_first_times_of_all_files_are_known_however_many_there_are(
    tmp_path: Path,
) -> None:
    write(tmp_path, **{f"f{i:03}": [200 - i] for i in range(150)})
    # A clock that goes on by 10 ms whenever it is read: a poll ends after a few files.
    ticks = itertools.count(0, 10)
    reader = reader_of(source_spec(tmp_path), context(1, now_ms=lambda: next(ticks)))
    assert [reader.poll().num_rows for _ in range(10)] == [0] * 10  # type: ignore[union-attr]
    assert read_all(reader) == list(range(51, 201))


def test_a_clock_that_is_set_back_makes_no_poll_longer(tmp_path: Path) -> None:
    write(tmp_path, **{f"f{i}": [20 - i] for i in range(4)})
    ticks = itertools.count(0, -1000)
    reader = reader_of(source_spec(tmp_path), context(1, now_ms=lambda: next(ticks)))
    assert [reader.poll().num_rows for _ in range(3)] == [0] * 3  # type: ignore[union-attr]
    assert read_all(reader) == [17, 18, 19, 20]


@pytest.mark.parametrize("open_files", [1, 2, 3])
def test_no_more_files_are_open_than_allowed_and_those_that_wait_hold_the_watermark(
    tmp_path: Path, open_files: int
) -> None:
    for i in range(6):
        write(tmp_path, **{f"f{i}": [10 + i, 100, 200]})
    files = OpenFiles()
    spec = source_spec(tmp_path, **{"source.open-files.max": str(open_files)})
    reader = reader_of(spec, context(1, files))
    seen: list[int] = []
    while (polled := poll(reader)) is not None:
        seen += polled[0]
        still_to_come = Counter([10 + i for i in range(6)]) - Counter(seen)
        if still_to_come:
            assert polled[2] <= (min(still_to_come) - 5) * 1000
    assert len(seen) == 18
    assert files.most == open_files


def test_a_look_at_the_first_rows_counts_nothing(tmp_path: Path) -> None:
    write(tmp_path, a=[10, 20])
    (tmp_path / "b.csv").write_text("not a time\n1970-01-01 00:00:30\n")
    spec = source_spec(tmp_path, **{"csv.ignore-parse-errors": "true"})
    counts: Counter[str] = Counter()
    reader = reader_of(spec, context(10, counts=counts))
    assert poll(reader) == ([10, 20, 30], [-1, 5, -1], 25_000)
    reader.close()
    assert counts["numRecordsRejected"] == 1
    assert counts["numBytesIn"] == sum(f.stat().st_size for f in tmp_path.iterdir())


@pytest.mark.parametrize("polls", range(7))
def test_a_restored_reader_goes_on_with_the_watermarks_of_its_files(tmp_path: Path, polls: int) -> None:
    write(tmp_path, a=[10, 20, 17, 30], b=[9, 14, 35, 29], c=[50])
    spec, around = source_spec(tmp_path), context(batch_rows=1)
    whole = reader_of(spec, around)
    expected = [poll(whole) for _ in range(9)]
    reader = reader_of(spec, around)
    seen = [poll(reader) for _ in range(polls)]
    restored = reader_of(spec, around, json.loads(json.dumps(reader.snapshot())))
    seen += [poll(restored) for _ in range(9 - polls)]
    assert _rows(seen) == _rows(expected)


def _rows(polled: list[tuple[list[int], list[int], int] | None]) -> Counter[tuple[int, int]]:
    """Rows with their watermarks, in any order."""
    return Counter(
        row for found in polled if found is not None for row in zip(found[0], found[1], strict=True)
    )


def test_values_of_directories_and_stored_times_of_parquet_are_times_too(tmp_path: Path) -> None:
    schema = Schema.of(("ts", TS), ("v", sql.INT))
    for second in (30, 10, 20):
        directory = tmp_path / f"ts=1970-01-01 00%3A00%3A{second}"
        directory.mkdir()
        (directory / "part.csv").write_text("1\n")
    assert read_all(reader_of(source_spec(tmp_path, schema=schema), context())) == [10, 20, 30]
    for name, seconds in (("a", [40, 60]), ("b", [41, 61])):
        table = pa.table({"ts": pa.array([s * 1000 for s in seconds], pa.timestamp("ms"))})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    found = reader_of(source_spec(tmp_path / "*.parquet", "parquet"), context(batch_rows=1))
    assert read_all(found) == [40, 60, 41, 61]


@pytest.mark.parametrize(
    ("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)
def test_compressed_files_are_looked_into_too(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]
) -> None:
    write(tmp_path, a=[40, 50], b=[20, 30])
    for name in "ab":
        path = tmp_path / f"{name}.csv"
        (tmp_path / f"{name}.csv.{suffix}").write_bytes(compress(path.read_bytes()))
        path.unlink()
    assert read_all(reader_of(source_spec(tmp_path), context())) == [20, 30, 40, 50]


def test_without_a_watermark_files_are_read_whole_in_order_of_their_paths(tmp_path: Path) -> None:
    write(tmp_path, a=[10, 90], b=[0, 20])
    spec = SourceSpec("t", "filesystem", source_spec(tmp_path).options, SCHEMA, SCHEMA.names)
    reader = reader_of(spec, context(batch_rows=1))
    batches = itertools.takewhile(lambda b: isinstance(b, pa.RecordBatch), iter(reader.poll, None))
    assert [b.column(0).cast(pa.int64())[0].as_py() // 1000 for b in batches] == [10, 90, 0, 20]  # type: ignore[union-attr]
    assert reader.watermark_ms() == WATERMARK_MIN


def test_a_file_that_vanishes_before_its_turn_fails_with_its_name(tmp_path: Path) -> None:
    write(tmp_path, a=[10], b=[20])
    reader = reader_of(source_spec(tmp_path), context())
    (tmp_path / "b.csv").unlink()
    with pytest.raises(UserError, match=r'"[^"]*b.csv" has vanished'):
        reader.poll()


def test_a_first_row_that_is_rejected_promises_nothing(tmp_path: Path) -> None:
    """The first look decodes all columns that the reader does: what one rejects the other must not count."""
    schema = Schema.of(("ts", TS), ("v", sql.INT))
    (tmp_path / "a.csv").write_text(
        "1970-01-01 00:50:00,bad\n1970-01-01 00:00:10,1\n1970-01-01 00:00:30,2\n1970-01-01 00:00:28,3\n"
    )
    (tmp_path / "b.csv").write_text("1970-01-01 00:00:20,4\n1970-01-01 00:00:25,5\n")
    options = {"csv.ignore-parse-errors": "true", "source.rejected-rows.path": ""}
    reader = reader_of(source_spec(tmp_path, schema=schema, **options), context(batch_rows=1))
    late, seen = [], WATERMARK_MIN
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        for time_ms in batch.column("ts").cast(pa.int64()).to_pylist():
            late += [time_ms] if time_ms <= seen else []
        seen = reader.watermark_ms()
    assert late == []


def test_changes_are_read_in_the_order_of_their_files_whatever_their_times(tmp_path: Path) -> None:
    early, late, last = ({"ts": f"2024-01-01 00:00:{second}"} for second in ("01", "30", "31"))
    files = [
        [{"op": "c", "after": late}, {"op": "u", "before": late, "after": last}],
        [{"op": "c", "after": early}, {"op": "d", "before": last}],
    ]
    for name, events in zip(("a.json", "b.json"), files, strict=True):
        (tmp_path / name).write_text("".join(f"{json.dumps(event)}\n" for event in events))
    spec = source_spec(tmp_path, "debezium-json")
    for batch_rows, skipped in itertools.product((1, 2, 100), range(6)):
        reader = reader_of(spec, context(batch_rows))
        kinds: list[int] = []
        while len(kinds) < skipped:
            kinds += read_kinds(reader)
        # The halves of an update come in one batch, so that nobody goes on between them.
        assert kinds[-1:] != [1]
        reader = reader_of(spec, context(batch_rows), reader.snapshot())
        while more := read_kinds(reader):
            kinds += more
        assert kinds == [0, 1, 2, 0, 3]


def read_kinds(reader: FileSourceReader) -> list[int]:
    while isinstance(batch := reader.poll(), pa.RecordBatch):
        if batch.num_rows:
            assert batch.schema.names[-1] == ROW_KIND_COLUMN
            kinds: list[int] = batch.column(ROW_KIND_COLUMN).to_pylist()
            return kinds
    return []
