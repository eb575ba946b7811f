"""Rows in order of arrival: what is saved of them, and what they keep in memory."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.operators.order.sort import RowList

SCHEMA = pa.schema([("text", pa.string()), ("n", pa.int64())])


def numbered(first: int, count: int) -> pa.RecordBatch:
    texts = ["x" * 50] * count
    return pa.record_batch({"text": texts, "n": list(range(first, first + count))}, schema=SCHEMA)


def test_restored_rows_keep_their_order_and_more_may_follow() -> None:
    rows = RowList("rows", SCHEMA)
    rows.append(numbered(0, 3))
    rows.append(numbered(3, 0))
    rows.append(numbered(3, 2).rename_columns(["other", "names"]))
    moved = RowList("rows", SCHEMA)
    moved.load(rows.save())
    moved.append(numbered(5, 1))
    assert moved.collected().column(1).to_pylist() == [0, 1, 2, 3, 4, 5]
    assert (len(moved), moved.collected().schema) == (6, SCHEMA)


def test_rows_that_are_replaced_are_released() -> None:
    rows = RowList("rows", SCHEMA)
    rows.append(numbered(0, 1_000))
    rows.replace([numbered(0, 1_000).slice(500, 2)])
    assert (len(rows), rows.collected().column(1).to_pylist()) == (2, [500, 501])
    assert rows.nbytes() < 1_000
    rows.replace([])
    assert (rows.nbytes(), rows.collected().num_rows, rows.save().keyed) == (0, 0, {})
