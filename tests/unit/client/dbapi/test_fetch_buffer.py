"""Rows and batches out of the batches of a result."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sqlstream.client.dbapi.connection import SLICE_ROWS, FetchBuffer
from sqlstream.schema import Schema
from sqlstream.types import BIGINT

SCHEMA = Schema.of(("n", BIGINT))


def inserts(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())})


def changes(*pairs: tuple[int, int]) -> pa.RecordBatch:
    values, kinds = zip(*pairs, strict=True)
    return pa.RecordBatch.from_pydict(
        {"n": pa.array(values, pa.int64()), "$row_kind": pa.array(kinds, pa.int8())}
    )


def test_inserted_rows_come_out_at_once_and_in_order() -> None:
    buffer = FetchBuffer(SCHEMA)
    buffer.add(inserts(1, 2))
    buffer.add(inserts())
    buffer.add(inserts(3))
    assert buffer.take(1) == [(1,)]
    assert buffer.take(10) == [(2,), (3,)]
    assert (buffer.has_rows, buffer.take(1), buffer.take_batch()) == (False, [], None)


def test_a_changelog_comes_out_as_its_table_at_the_end() -> None:
    buffer = FetchBuffer(SCHEMA)
    buffer.add(changes((1, 0), (2, 0)))
    buffer.add(changes((1, 1), (5, 2), (2, 3)))
    assert not buffer.has_rows
    buffer.end()
    assert buffer.take(10) == [(5,)]


def test_rows_and_batches_can_be_mixed() -> None:
    buffer = FetchBuffer(SCHEMA)
    buffer.add(inserts(1, 2, 3))
    buffer.add(inserts(4))
    assert buffer.take(1) == [(1,)]
    assert buffer.take_batch() == inserts(2, 3)
    assert buffer.take_batch() == inserts(4)


@pytest.mark.parametrize("rows", [SLICE_ROWS, SLICE_ROWS + 1, 3 * SLICE_ROWS - 1])
def test_long_batches_become_objects_in_slices(rows: int) -> None:
    buffer = FetchBuffer(SCHEMA)
    buffer.add(inserts(*range(rows)))
    assert buffer.take(1) == [(0,)]
    assert buffer.take(rows) == [(n,) for n in range(1, rows)]
