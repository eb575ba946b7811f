"""The calls of OVER over sorted rows, against a reference that goes from row to row."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_harness import batch
from over_reference import over

from sqlstream import types as sql
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators.over.frames import FramedCalls
from sqlstream.runtime.operators.over.sorted import SortedRows
from sqlstream.schema import Schema
from sqlstream.specs.over import Frame, OverCall

SCHEMA = Schema.of(
    ("p", sql.INT),
    ("o", sql.INT),
    ("i", sql.BIGINT),
    ("f", sql.DOUBLE),
    ("s", sql.STRING),
    ("b", sql.BOOLEAN),
    ("d", sql.decimal(10, 2)),
)
WHOLE, F, S, B, D = 2, 3, 4, 5, 6
FRAMES = st.one_of(
    st.sampled_from([Frame(), Frame(end=None), Frame(start=0), Frame(start=0, end=None)]),
    st.builds(
        lambda is_range, a, b: Frame(is_range, min(a, b), max(a, b)),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(-3, 3),
    ),
    st.builds(lambda is_range, b: Frame(is_range, None, b), st.booleans(), st.integers(-3, 3)),
    st.builds(lambda is_range, a: Frame(is_range, a, None), st.booleans(), st.integers(-3, 3)),
)
CALLS = [
    OverCall("COUNT", (), sql.BIGINT),
    OverCall("COUNT", (WHOLE,), sql.BIGINT, filter=B),
    OverCall("COUNT", (S,), sql.BIGINT, is_distinct=True),
    OverCall("SUM", (WHOLE,), sql.BIGINT),
    OverCall("SUM", (WHOLE,), sql.BIGINT, is_distinct=True, filter=B),
    OverCall("SUM", (F,), sql.DOUBLE),
    OverCall("SUM", (D,), sql.decimal(38, 2), filter=B),
    OverCall("AVG", (WHOLE,), sql.BIGINT),
    OverCall("AVG", (F,), sql.DOUBLE),
    OverCall("MIN", (WHOLE,), sql.BIGINT, filter=B),
    OverCall("MAX", (S,), sql.STRING),
    OverCall("MIN", (F,), sql.DOUBLE),
    OverCall("MAX", (D,), sql.decimal(10, 2), is_distinct=True),
    OverCall("VAR_POP", (F,), sql.DOUBLE),
    OverCall("VAR_SAMP", (WHOLE,), sql.DOUBLE),
    OverCall("FIRST_VALUE", (S,), sql.STRING, skips_nulls=True),
    OverCall("FIRST_VALUE", (WHOLE,), sql.BIGINT),
    OverCall("LAST_VALUE", (WHOLE,), sql.BIGINT, skips_nulls=True),
    OverCall("LAST_VALUE", (S,), sql.STRING, filter=B),
    OverCall("NTH_VALUE", (S,), sql.STRING, number=2),
    OverCall("NTH_VALUE", (WHOLE,), sql.BIGINT, number=2, skips_nulls=True),
    OverCall("LISTAGG", (S,), sql.STRING),
]
RANKS = [
    OverCall("ROW_NUMBER", (), sql.BIGINT),
    OverCall("RANK", (), sql.BIGINT),
    OverCall("DENSE_RANK", (), sql.BIGINT),
    OverCall("NTILE", (), sql.INT, number=3),
    OverCall("CUME_DIST", (), sql.DOUBLE),
    OverCall("PERCENT_RANK", (), sql.DOUBLE),
    OverCall("LAG", (WHOLE,), sql.BIGINT, number=1),
    OverCall("LAG", (S,), sql.STRING, number=2, skips_nulls=True),
    OverCall("LEAD", (S,), sql.STRING, number=2),
    OverCall("LEAD", (WHOLE,), sql.BIGINT, number=1, skips_nulls=True),
    OverCall("LAG", (WHOLE, 1), sql.BIGINT, number=2),
    OverCall("LEAD", (WHOLE,), sql.BIGINT, number=0),
]
HALVES = st.integers(-8, 8).map(lambda n: n / 2)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 6) | st.none(),
        st.integers(-9, 9) | st.none(),
        HALVES | st.none(),
        st.sampled_from(["a", "b", "c"]) | st.none(),
        st.booleans() | st.none(),
        st.decimals(-99, 99, places=2) | st.none(),
    ),
    max_size=14,
)


def _order(row: tuple) -> tuple:  # type: ignore[type-arg]
    return (row[0], row[1] is not None, row[1] or 0)


def _compare(rows: list, calls: list[OverCall]) -> None:  # type: ignore[type-arg]
    rows = sorted(rows, key=_order)
    partitions = sorted({row[0] for row in rows})
    data = batch(SCHEMA, rows)
    numbers = [partitions.index(row[0]) for row in rows]
    found = FramedCalls(tuple(calls), SCHEMA).compute(
        SortedRows(data, np.array(numbers, dtype=np.int64), len(partitions), (SortKey(1),))
    )
    for call, column in zip(calls, found, strict=True):
        column.validate(full=True)
        expected = []
        for p in partitions:
            own = [row for row in rows if row[0] == p]
            expected += over(own, call, [row[1] for row in own])
        got = [
            float(v) if call.function.startswith("VAR") and v is not None else v for v in column.to_pylist()
        ]
        assert (
            got == pytest.approx(expected, abs=1e-9)
            if call.type.root in (sql.DOUBLE.root,)
            else got == expected
        ), call


@given(ROWS, FRAMES)
@settings(max_examples=60, deadline=None)
def test_every_aggregate_reads_the_rows_of_its_frame(rows: list, frame: Frame) -> None:  # type: ignore[type-arg]
    _compare(rows, [msgspec.structs.replace(call, frame=frame) for call in CALLS])


@given(ROWS)
@settings(max_examples=60, deadline=None)
def test_ranks_and_neighbours_are_those_of_the_partition(rows: list) -> None:  # type: ignore[type-arg]
    _compare(rows, RANKS)


def test_sums_of_whole_numbers_wrap_and_those_of_decimals_have_all_digits() -> None:
    schema = Schema.of(("i", sql.BIGINT), ("d", sql.decimal(38, 0)))
    top = 2**63 - 1
    data = batch(schema, [(top, 10**37), (1, 10**37), (5, -(10**37) - 10**37 - 7)])
    calls = (OverCall("SUM", (0,), sql.BIGINT), OverCall("SUM", (1,), sql.decimal(38, 0)))
    rows = SortedRows(data, np.zeros(3, dtype=np.int64), 1, (), is_by_arrival=True)
    sums, decimals = FramedCalls(calls, schema).compute(rows)
    assert sums.to_pylist() == [top, -(2**63), -(2**63) + 5]
    assert decimals.to_pylist() == [10**37, 2 * 10**37, -7]


def test_the_extreme_of_nothing_but_null_is_null() -> None:
    schema = Schema.of(("n", sql.NULL))
    rows = SortedRows(
        batch(schema, [(None,), (None,)]), np.zeros(2, dtype=np.int64), 1, (), is_by_arrival=True
    )
    (found,) = FramedCalls((OverCall("MAX", (0,), sql.NULL),), schema).compute(rows)
    assert found.to_pylist() == [None, None]
