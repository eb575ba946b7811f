"""Two results as multisets."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.planner.dialect.parser import parse_type
from sqlstream.runtime.batch.comparison import SHOWN_BYTES_MAX, Comparison, Differences, comparison
from sqlstream.schema import Schema

COUNTS = Schema.of(("k", sql.INT), ("n", sql.BIGINT))
SUMS = Schema.of(("k", sql.INT), ("x", sql.DOUBLE))
INSERT, BEFORE, AFTER, DELETE = 0, 1, 2, 3


def batch(schema: Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    arrow = to_arrow_schema(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)], schema=arrow
    )


def changes(schema: Schema, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    """Rows whose last value is their kind."""
    data = batch(schema, *(row[:-1] for row in rows))
    return data.append_column(ROW_KIND_COLUMN, pa.array([row[-1] for row in rows], pa.int8()))


def compared(
    schema: Schema,
    stream: pa.RecordBatch,
    in_batch: pa.RecordBatch,
    key: tuple[int, ...] | None = None,
    tolerance: float = 0,
    keys_max: int = 10,
) -> Differences:
    with comparison(schema, {}) as rows:
        rows.add("stream", stream)
        rows.add("batch", in_batch)
        return rows.differences(key, tolerance, keys_max)


def sides(found: Differences) -> list[tuple[list[Any], list[Any]]]:
    """The rows of the stream and of the batch by key, each as often as its side has it more."""
    rows = zip(*(c.to_pylist() for c in found.rows.columns), strict=True)
    keys: dict[int, tuple[list[Any], list[Any]]] = {}
    for row, key, count in zip(rows, found.keys, found.counts, strict=True):
        keys.setdefault(key, ([], []))[0 if count > 0 else 1].extend([row] * abs(count))
    return [keys[key] for key in sorted(keys)]


def test_rows_in_another_order_are_equal_and_duplicates_count() -> None:
    ordered = batch(COUNTS, (1, 1), (1, 1), (2, None))
    shuffled = batch(COUNTS, (2, None), (1, 1), (1, 1))
    found = compared(COUNTS, ordered, shuffled)
    assert (found.surplus, found.missing, found.keys) == (0, 0, ())
    found = compared(COUNTS, ordered, batch(COUNTS, (2, None), (1, 1)))
    assert (found.surplus, found.missing, sides(found)) == (1, 0, [([(1, 1)], [])])


def test_a_changelog_is_the_rows_that_remain_of_it() -> None:
    stream = changes(COUNTS, (1, 1, INSERT), (2, 1, INSERT), (1, 1, BEFORE), (1, 2, AFTER), (2, 1, DELETE))
    with comparison(COUNTS, {}) as rows:
        rows.add("stream", stream)
        rows.add("batch", batch(COUNTS, (1, 2)))
        assert (rows.count("stream"), rows.count("batch")) == (1, 1)
        assert rows.differences((0,), 0, 10).surplus == 0


def test_a_retraction_of_what_was_never_inserted_is_a_difference() -> None:
    found = compared(COUNTS, changes(COUNTS, (1, 5, DELETE)), batch(COUNTS))
    assert (found.surplus, found.missing) == (0, 1)


def test_differing_rows_are_paired_by_key() -> None:
    stream = batch(COUNTS, (1, 10), (2, 20), (3, 30))
    found = compared(COUNTS, stream, batch(COUNTS, (1, 10), (2, 21), (4, 40)), key=(0,))
    assert (found.surplus, found.missing) == (2, 2)
    assert sides(found) == [([(2, 20)], [(2, 21)]), ([(3, 30)], []), ([], [(4, 40)])]


def test_without_a_key_each_row_stands_alone_and_only_the_first_ones_are_given() -> None:
    stream = batch(COUNTS, *((i, 1) for i in range(100)))
    found = compared(COUNTS, stream, batch(COUNTS), keys_max=2)
    assert (found.surplus, sides(found)) == (100, [([(0, 1)], []), ([(1, 1)], [])])


def test_one_row_that_differs_many_times_is_given_once_with_its_count() -> None:
    found = compared(COUNTS, batch(COUNTS, *[(1, 1)] * 1000), batch(COUNTS), key=(0,), keys_max=3)
    assert (found.surplus, found.counts, found.rows.num_rows) == (1000, (1000,), 1)


def test_a_result_of_one_row_is_one_key() -> None:
    found = compared(COUNTS, batch(COUNTS, (1, 1)), batch(COUNTS, (2, 2)), key=())
    assert sides(found) == [([(1, 1)], [(2, 2)])]


def test_large_rows_are_cut_off_behind_the_first() -> None:
    schema = Schema.of(("s", sql.STRING))
    large = batch(schema, *(("x" * SHOWN_BYTES_MAX + str(i),) for i in range(3)))
    found = compared(schema, large, batch(schema))
    assert (found.surplus, found.rows.num_rows) == (3, 1)


def test_floats_are_compared_exactly_unless_a_tolerance_is_given() -> None:
    stream = batch(SUMS, (1, 0.1 + 0.2), (2, math.nan), (3, 5.0))
    in_batch = batch(SUMS, (1, 0.3), (2, math.nan), (3, 5.1))
    exact = compared(SUMS, stream, in_batch, key=(0,))
    assert (exact.surplus, exact.missing, exact.near) == (2, 2, 0)
    near = compared(SUMS, stream, in_batch, key=(0,), tolerance=1e-9)
    assert (near.surplus, near.missing, near.near) == (1, 1, 1)
    assert sides(near) == [([(3, 5.0)], [(3, 5.1)])]


def test_the_tolerance_holds_for_each_of_several_columns_and_not_for_infinity_or_nan() -> None:
    schema = Schema.of(("x", sql.DOUBLE), ("y", sql.FLOAT))
    stream = batch(schema, (1.0, 1.0), (2.0, 1.0), (math.inf, 1.0), (math.nan, 1.0), (None, 1.0))
    in_batch = batch(schema, (1.0 + 1e-12, 1.0), (2.0 + 1e-12, 1.5), (5.0, 1.0), (6.0, 1.0), (None, 1.0))
    found = compared(schema, stream, in_batch, tolerance=1e-9)
    assert (found.surplus, found.missing, found.near) == (3, 3, 1)


def test_the_tolerance_pairs_rows_one_to_one() -> None:
    stream = batch(SUMS, (1, 1.0), (1, 1.0), (1, 2.0))
    in_batch = batch(SUMS, (1, 1.0 + 1e-12), (1, 2.0 + 1e-12))
    found = compared(SUMS, stream, in_batch, tolerance=1e-9)
    assert (found.surplus, found.missing, found.near) == (1, 0, 2)
    assert sides(found) == [([(1, 1.0)], [])]


@pytest.mark.parametrize(
    ("type_text", "value", "other"),
    [
        ("DECIMAL(38, 2)", "1.10", "1.11"),
        ("TIMESTAMP(9)", 1, 2),
        ("TIMESTAMP_LTZ(9)", 1, 2),
        ("TIME", 1, 2),
        ("INTERVAL DAY TO SECOND", 1, 2),
        ("BYTES", b"a", b"b"),
        ("ARRAY<INT>", [1, None], [1]),
        ("ROW<a INT, b STRING>", {"a": 1, "b": None}, {"a": 1, "b": "x"}),
        ("MAP<STRING, INT>", [("a", 1), ("b", 2)], [("a", 1), ("b", 3)]),
    ],
)
def test_values_of_each_type_are_told_apart_and_come_back(type_text: str, value: Any, other: Any) -> None:
    import decimal

    schema = Schema.of(("v", parse_type(type_text)))
    if type_text.startswith("DECIMAL"):
        value, other = decimal.Decimal(value), decimal.Decimal(other)
    same, different = batch(schema, (value,), (None,)), batch(schema, (other,), (None,))
    assert not compared(schema, same, same).keys
    found = compared(schema, same, different)
    assert (found.surplus, found.missing) == (1, 1)
    assert found.rows.schema == to_arrow_schema(schema)
    assert {str(v) for v in found.rows.column(0).to_pylist()} == {
        str(b.column(0)[0].as_py()) for b in (same, different)
    }


def test_the_entries_of_a_map_have_no_order() -> None:
    schema = Schema.of(("m", parse_type("MAP<STRING, INT>")))
    one, other = [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]
    assert not compared(schema, batch(schema, (one,)), batch(schema, (other,))).keys


def test_results_larger_than_memory_are_compared() -> None:
    schema = Schema.of(("k", sql.BIGINT), ("s", sql.STRING))

    def fill(rows: Comparison, side: str, count: int) -> None:
        for start in range(0, count, 50_000):
            keys = pa.array(range(start, min(start + 50_000, count)), pa.int64())
            texts = pc.utf8_lpad(keys.cast(pa.string()), 40, "0")
            rows.add(side, pa.record_batch([keys, texts], schema=to_arrow_schema(schema)))

    # 24 MB of keys and texts a side.
    with comparison(schema, {"execution.batch.duckdb-memory-max": "64 mb"}) as rows:
        fill(rows, "stream", 500_000)
        fill(rows, "batch", 500_001)
        found = rows.differences((0,), 0, 10)
    assert (found.surplus, found.missing, found.counts) == (0, 1, (-1,))
