"""The log of chunks against a Python list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.state.chunk_log import ChunkLog

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        {"n": list(numbers), "s": [None if n % 5 == 0 else str(n) for n in numbers]}, schema=SCHEMA
    )


@given(st.lists(st.integers(0, 700), max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_rows_stay_at_their_position(sizes: list[int], random: object) -> None:
    log = ChunkLog(SCHEMA)
    for size in sizes:
        assert log.append(rows(len(log), size)) == len(log) - size
    positions = [random.randrange(len(log)) for _ in range(50)] if len(log) else []  # type: ignore[attr-defined]
    found = log.gather(np.array(positions, dtype=np.int64))
    assert found.schema == SCHEMA
    assert found.column(0).to_pylist() == positions
    assert found.column(1).to_pylist() == [None if n % 5 == 0 else str(n) for n in positions]


def test_an_appended_batch_is_kept_without_a_copy() -> None:
    log = ChunkLog(SCHEMA)
    batch = rows(0, 10)
    before = pa.total_allocated_bytes()
    log.append(batch)
    assert pa.total_allocated_bytes() == before


def test_many_small_batches_end_up_in_few_chunks() -> None:
    log = ChunkLog(SCHEMA)
    for _ in range(2_000):
        log.append(rows(len(log), 7))
    assert len(log) == 14_000
    assert log.chunk_count <= 24
    assert log.gather(np.arange(14_000)).column(0).to_pylist() == list(range(14_000))


def test_many_large_batches_stay_as_they_come_until_there_are_too_many() -> None:
    schema = pa.schema([("n", pa.int64())])
    log = ChunkLog(schema)
    for number in range(600):
        values = np.arange(number * 20_000, (number + 1) * 20_000)
        log.append(pa.RecordBatch.from_arrays([pa.array(values)], schema=schema))
        assert log.chunk_count == min(number + 1, 250) or 200 < log.chunk_count <= 256
    positions = np.random.default_rng(0).integers(0, len(log), 1_000)
    assert log.gather(positions).column(0).to_pylist() == positions.tolist()


def test_a_log_without_columns_counts_its_rows() -> None:
    log = ChunkLog(pa.schema([]))
    for _ in range(20):
        log.append(rows(0, 3).select([]))
    assert log.gather(np.array([1, 2])).num_rows == 2
