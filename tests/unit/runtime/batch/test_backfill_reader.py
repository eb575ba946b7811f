"""The reader of a history goes on behind the rows that a checkpoint has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator
from sqlstream.runtime.batch.backfill_reader import BackfillReader
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import BackfillSpec, SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceStatus
from sqlstream.types import BIGINT

GROUPS = 150_000
SQL = "SELECT s.c0 AS c0, count(*) AS c1, make_timestamp(1000 * s.c0) AS c2 FROM t0 AS s GROUP BY s.c0 ORDER BY c0"
OUTPUT = Schema.of(("k", BIGINT), ("n", BIGINT), ("$slice_end", BIGINT.not_null()))


@pytest.fixture
def history(tmp_path: Path) -> ChainedOperator:
    """Each of GROUPS keys, once."""
    numbers = pa.array([(n * 7919) % GROUPS for n in range(GROUPS)], pa.int64())
    pq.write_table(pa.table({"k": numbers}), tmp_path / "rows.parquet")
    options = {"connector": "filesystem", "path": str(tmp_path), "format": "parquet"}
    source = SourceSpec("history", "filesystem", options, Schema.of(("k", BIGINT)), ("k",))
    spec = BackfillSpec("live", "live", SQL, (source,), times=(2,))
    mode = ChangelogMode.INSERT_ONLY
    return ChainedOperator(1, "u", "Backfill", spec, NETWORK_INPUT, (), (), OUTPUT, mode)


def opened(history: ChainedOperator, positions: list[dict[str, int]]) -> BackfillReader:
    context = ConnectorContext(
        "j", "v", 0, 1, 0, 65536, {}, lambda: 0, lambda name, n: None, files=LocalFiles(), writer_name="w"
    )
    return BackfillReader(history, context, positions)


def rows(reader: BackfillReader, batches: int = 1_000_000) -> list[tuple[int, int, int]]:
    """Of so many batches, or until the end."""
    found: list[tuple[int, int, int]] = []
    while batches and (polled := reader.poll()) is not SourceStatus.END:
        if isinstance(polled, pa.RecordBatch):
            batches -= 1
            found += zip(*(column.to_pylist() for column in polled.columns), strict=True)
    return found


@pytest.mark.parametrize("batches", [0, 1, 2, 3])
def test_a_reader_goes_on_behind_the_rows_of_its_position(batches: int, history: ChainedOperator) -> None:
    first = opened(history, [])
    before = rows(first, batches)
    position = first.snapshot()
    first.close()
    second = opened(history, position)
    after = rows(second)
    second.close()
    # A slice ends at a time, which is in milliseconds.
    assert before + after == [(k, 1, k) for k in range(GROUPS)]
    assert second.snapshot() == [{"rows": GROUPS}]


def test_the_rows_have_the_columns_of_the_operator(history: ChainedOperator) -> None:
    reader = opened(history, [])
    polled = reader.poll()
    while not isinstance(polled, pa.RecordBatch):
        polled = reader.poll()
    reader.close()
    assert polled.schema.names == list(OUTPUT.names)
    assert polled.schema.types == [pa.int64()] * 3
