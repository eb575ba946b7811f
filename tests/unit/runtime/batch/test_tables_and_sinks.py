"""Tables are read as a stream reads them, and rows are written so that a failure leaves nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from batch_harness import NUMBERS, numbers

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import UserError
from sqlstream.runtime.batch.engine import BatchCancelled
from sqlstream.runtime.batch.spark.tasks import write_rows
from sqlstream.runtime.batch.tables import Share, connector_context, read_table
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Field, Schema
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.connector import ConnectorContext


def context(counted: Counter[str], subtask: int = 0, parallelism: int = 1) -> ConnectorContext:
    def count(name: str, n: int) -> None:
        counted[name] += n

    share = Share("job", "attempt", subtask, parallelism, {"execution.batch-rows": "100"})
    return connector_context(share, LocalFiles(), count, lambda lines, is_error: None)


def files(path: Path, schema: Schema = NUMBERS) -> SinkSpec:
    options = {"connector": "filesystem", "path": str(path), "format": "csv"}
    return SinkSpec("files", "filesystem", options, schema)


def test_subtasks_share_a_table_and_read_each_row_once() -> None:
    counted: Counter[str] = Counter()
    rows: list[int] = []
    for subtask in range(3):
        for batch in read_table(numbers(1000), context(counted, subtask, 3), lambda: False):
            assert batch.schema == pa.schema([("c0", pa.int64())])
            rows += batch.column(0).to_pylist()
    assert sorted(rows) == list(range(1, 1001))
    assert counted["numRecordsOut"] == 1000


def test_metadata_columns_come_behind_the_others_by_position(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n2\n")
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "csv"}
    source = SourceSpec("t", "filesystem", options, NUMBERS, ("n",), (Field("file.name", sql.STRING),))
    (batch,) = read_table(BatchTable("t0", source), context(Counter()), lambda: False)
    assert batch.to_pydict() == {"c0": [1, 2], "c1": ["a.csv", "a.csv"]}


def test_reading_ends_with_the_cancellation() -> None:
    reading = read_table(numbers(10_000), context(Counter()), iter([False, True]).__next__)
    assert next(reading).num_rows == 100
    with pytest.raises(BatchCancelled):
        next(reading)


def test_written_rows_are_visible_after_the_commit_alone(tmp_path: Path) -> None:
    counted: Counter[str] = Counter()
    sink = files(tmp_path / "t")
    rows = [
        pa.record_batch({"x": pa.array([1, 2], pa.int32())}),
        pa.record_batch({"x": pa.array([3], pa.int32())}),
    ]
    committables = write_rows(sink, rows, context(counted))
    assert not list((tmp_path / "t").glob("part-*"))
    connector("filesystem").commit(sink, LAST_CHECKPOINT_ID, committables, LocalFiles())
    (part,) = (tmp_path / "t").glob("part-*")
    assert part.read_text() == "1\n2\n3\n"
    assert counted["numRecordsIn"] == 3


def test_a_null_for_a_not_null_column_fails_and_leaves_nothing(tmp_path: Path) -> None:
    schema = Schema.of(("n", sql.BIGINT.with_nullable(False)))
    rows = [
        pa.record_batch({"n": pa.array([1], pa.int64())}),
        pa.record_batch({"n": pa.array([None], pa.int64())}),
    ]
    with pytest.raises(UserError, match="NOT NULL"):
        write_rows(files(tmp_path / "t", schema), rows, context(Counter()))
    assert list(tmp_path.iterdir()) == []
