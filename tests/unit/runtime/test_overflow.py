"""Whole numbers beyond their type wrap and are counted, or fail the job, wherever they are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sqlstream
from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates.sums import Sum
from sqlstream.runtime.overflow import on_overflow, overflowed, raises_overflow

LONG_MAX = 2**63 - 1
ROWS = (
    "(1, 2147483647, 9223372036854775807, 1E30), (1, 5, -7, -0.5E0), (2, -2147483648, -9223372036854775807, 127.5E0),"
    " (2, CAST(NULL AS INT), -3, CAST(NULL AS DOUBLE)), (3, 7, 9, 1E0)"
)
TABLE = f"(SELECT k, i, CAST(b AS BIGINT) AS b, d FROM (VALUES {ROWS}) AS t(k, i, b, d))"


@pytest.fixture(scope="module", params=[1, 1024], ids=["row by row", "batches"])
def cursor(request: pytest.FixtureRequest) -> Iterator[Any]:
    with sqlstream.connect("embedded://", config={"execution.batch-rows": str(request.param)}) as connection:
        yield connection.cursor()


def rows_of(cursor: Any, query: str) -> list[Any]:
    cursor.execute(query)
    rows: list[Any] = cursor.fetchall()
    return rows


def warned(cursor: Any) -> int:
    """How many overflows the job has told of."""
    said = [text for text in map(str, cursor.messages) if "left the range" in text]
    return int(said[0].partition("warning: ")[2].split()[0].replace(",", "")) if said else 0


COUNTED = {
    "i + 1": 1,
    "i - 1": 1,
    "i * 2": 2,
    "-i": 1,
    "ABS(i)": 1,
    "b + b": 2,
    "b * i": 2,
    "CAST(b AS INT)": 2,
    "CAST(i AS TINYINT)": 2,
    "CAST(d AS INT)": 1,
    "CAST(d AS TINYINT)": 1,
    "CAST(i AS BIGINT) * 2": 0,
    "CAST(i AS DECIMAL(20, 0)) * 2": 0,
    "CASE WHEN i < 100 AND i > 0 THEN i * 100000000 ELSE 0 END": 0,
    "CASE WHEN i > 0 THEN i + 1 ELSE 0 END": 1,
    "COALESCE(i, i + 1)": 0,
    "2147483647 + k": 5,
}


@pytest.mark.parametrize("expression", COUNTED)
def test_results_of_a_row_that_are_beyond_their_type_are_counted(expression: str, cursor: Any) -> None:
    cursor.execute("SET 'table.exec.arithmetic-overflow' = 'wrap'")
    cursor.execute(f"SELECT {expression} FROM {TABLE}")
    assert len(cursor.fetchall()) == 5
    assert warned(cursor) == COUNTED[expression]
    cursor.execute("SET 'table.exec.arithmetic-overflow' = 'fail'")
    if COUNTED[expression]:
        with pytest.raises(sqlstream.DataError, match=r"SS5109.* is beyond "):
            rows_of(cursor, f"SELECT {expression} FROM {TABLE}")
    else:
        cursor.execute(f"SELECT {expression} FROM {TABLE}")
        assert len(cursor.fetchall()) == 5


SUMS = {
    "SELECT SUM(i) FROM (SELECT i FROM {0} WHERE k = 1)": "INT",
    "SELECT k, SUM(b) FROM {0} GROUP BY k": "BIGINT",
    "SELECT SUM(DISTINCT b) FROM {0} WHERE k = 2": "BIGINT",
    "SELECT AVG(b) FROM {0} WHERE k = 2": "BIGINT",
    "SELECT SUM(i) OVER (PARTITION BY k ORDER BY b) FROM (SELECT k, b, MAX(i) AS i FROM {0} GROUP BY k, b)": "INT",
    "SELECT SUM(b) OVER (PARTITION BY k ORDER BY d) FROM (SELECT k, d, MAX(b) AS b FROM {0} GROUP BY k, d)": "BIGINT",
}


@pytest.mark.parametrize("phases", ["ONE_PHASE", "TWO_PHASE"])
@pytest.mark.parametrize("query", SUMS)
def test_sums_that_are_beyond_their_type_are_counted(query: str, phases: str, cursor: Any) -> None:
    cursor.execute(f"SET 'table.optimizer.agg-phase-strategy' = '{phases}'")
    cursor.execute("SET 'table.exec.arithmetic-overflow' = 'wrap'")
    cursor.execute(query.format(TABLE))
    cursor.fetchall()
    assert warned(cursor) > 0
    cursor.execute("SET 'table.exec.arithmetic-overflow' = 'fail'")
    with pytest.raises(sqlstream.DataError, match=f"is beyond {SUMS[query]}"):
        rows_of(cursor, query.format(TABLE))
    cursor.execute(query.format(TABLE.replace("2147483647", "1").replace("9223372036854775807", "2")))
    assert cursor.fetchall()


def summed(t: sql.LogicalType) -> Sum:
    made = Sum(AggregateCall("SUM", (0,), t), (t,))
    made.resize(4)
    return made


def told(summing: Sum) -> int:
    counts: list[int] = []
    with on_overflow(lambda count, error: counts.append(count)):
        summing.tell_beyond()
    return sum(counts)


def test_a_sum_that_comes_back_before_it_is_asked_for_has_not_overflowed() -> None:
    summing = summed(sql.BIGINT)
    slots, values = np.array([0, 1, 2, 0]), pa.array([LONG_MAX, -LONG_MAX, 5, 9])
    plus, minus = np.ones(4, np.int8), -np.ones(4, np.int8)
    summing.accumulate(slots, [values], plus)
    summing.accumulate(slots[3:], [values[3:]], minus[3:])
    assert told(summing) == 0
    summing.accumulate(slots[1:2], [pa.array([-2])], plus[:1])
    assert (told(summing), told(summing)) == (1, 0)
    # Another one beside it, in the other direction; then both come back.
    summing.accumulate(np.array([0, 0]), [pa.array([1, LONG_MAX])], np.empty(0, np.int8))
    assert told(summing) == 1
    summing.accumulate(np.array([1, 0, 0]), [pa.array([-2, 1, LONG_MAX])], minus[:3])
    assert told(summing) == 0
    assert summing.results(np.arange(3)).to_pylist() == [LONG_MAX, -LONG_MAX, 5]
    summing.accumulate(np.array([2]), [pa.array([LONG_MAX])], plus[:1])
    summing.reset(np.array([2]))
    assert told(summing) == 0


def test_random_sums_are_told_of_where_exact_ones_are_beyond() -> None:
    rng = np.random.default_rng(3)
    summing, exact = summed(sql.BIGINT), [0, 0, 0, 0]
    beyond: set[int] = set()
    for _ in range(200):
        slots = rng.integers(0, 4, 5)
        values = rng.integers(-(2**63), 2**63 - 1, 5)
        signs = rng.choice([-1, 0, 1], 5).astype(np.int8)
        values[values == -(2**63)] = 0
        summing.accumulate(slots, [pa.array(values)], signs)
        for slot, value, sign in zip(slots.tolist(), values.tolist(), signs.tolist(), strict=True):
            exact[slot] += value * sign
        before, beyond = beyond, {n for n, total in enumerate(exact) if not -(2**63) <= total < 2**63}
        assert told(summing) == len(beyond - before)


def test_an_overflow_is_an_error_where_its_caller_wants_one() -> None:
    overflowed(1, "+", sql.INT)
    with raises_overflow(), pytest.raises(UserError, match=r"a result of \+ is beyond INT"):
        overflowed(1, "+", sql.INT.not_null())
