"""FIRST_VALUE, LAST_VALUE and LISTAGG over random changes against references that keep all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from unit.runtime.operators.test_array_aggregates import SLOTS, Rows, changes_of, results

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates import Accumulator, make_accumulator
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.state.storage.arrays import first_slots
from sqlstream.types import LogicalType

TEXTS = ("a", "b", "ä", "", None)
PAIRS = (("a", "-"), ("a", "+"), ("b", None), ("", "-"), (None, "-"))
RECORD = sql.row(("x", sql.INT), ("y", sql.STRING))
RECORDS = ({"x": 1, "y": None}, {"x": 1, "y": "b"}, {"x": None, "y": None}, None)


def made(function: str, *types: LogicalType, is_distinct: bool = False) -> Accumulator:
    result = sql.STRING if function == "LISTAGG" else types[0]
    accumulator = make_accumulator(
        AggregateCall(function, tuple(range(len(types))), result, is_distinct), types, True
    )
    accumulator.resize(SLOTS)
    return accumulator


def apply(accumulator: Accumulator, changes: list[Any]) -> None:
    """A change's value is a tuple where there are several arguments."""
    slots = np.array([c[0] for c in changes], dtype=np.int64)
    weights = np.array([c[2] for c in changes], dtype=np.int8)
    several = len(accumulator.argument_types) > 1
    values = zip(*(c[1] for c in changes), strict=True) if several else [[c[1] for c in changes]]
    args = [pa.array(v, to_arrow_type(t)) for v, t in zip(values, accumulator.argument_types, strict=True)]
    accumulator.accumulate(slots, args, weights if (weights < 0).any() else NO_WEIGHTS)


def moved(accumulator: Accumulator) -> Accumulator:
    other = made(accumulator.call.function, *accumulator.argument_types)
    other.load(first_slots(SLOTS), accumulator.columns(first_slots(SLOTS)))
    return other


def joined(held: list[Any]) -> str | None:
    pairs = [v if isinstance(v, tuple) else (v, ",") for v in held]
    pairs = [v for v in pairs if v[0] is not None]
    if not pairs:
        return None
    return str(pairs[0][0]) + "".join((separator or "") + text for text, separator in pairs[1:])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize(
    ("values", "types"),
    [(TEXTS, (sql.STRING,)), (PAIRS, (sql.STRING, sql.STRING)), (PAIRS, (sql.STRING, sql.STRING.not_null()))],
)
def test_a_list_has_the_texts_that_are_left(seed: int, is_moved: bool, values: Any, types: Any) -> None:
    if types[-1] == sql.STRING.not_null() and len(types) > 1:
        values = tuple((text, separator or "") for text, separator in values)
    accumulator, rows = made("LISTAGG", *types), Rows()
    for batch in changes_of(seed, values):
        apply(accumulator, batch)
        rows.apply(batch)
        assert results(accumulator) == [joined(held) for held in rows.held]
        accumulator = moved(accumulator) if is_moved else accumulator


@pytest.mark.parametrize("seed", range(4))
def test_a_list_of_distinct_texts_has_each_once(seed: int) -> None:
    accumulator, rows = made("LISTAGG", sql.STRING, is_distinct=True), Rows()
    for batch in changes_of(seed, ("a", "b", "c", None)):
        apply(accumulator, batch)
        rows.apply(batch)
        found = [None if text is None else sorted(text.split(",")) for text in results(accumulator)]
        assert found == [sorted(set(held) - {None}) or None for held in rows.held]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_moved", [False, True])
@pytest.mark.parametrize(
    ("values", "value_type"),
    [
        (TEXTS, sql.STRING),
        ((1, 2, None, -3), sql.BIGINT),
        ((True, None, False), sql.BOOLEAN),
        (RECORDS, RECORD),
    ],
)
@pytest.mark.parametrize("function", ["FIRST_VALUE", "LAST_VALUE"])
def test_the_first_and_the_last_of_the_values_that_are_left(
    seed: int, is_moved: bool, values: Any, value_type: LogicalType, function: str
) -> None:
    accumulator, rows = made(function, value_type), Rows()
    for batch in changes_of(seed, values):
        apply(accumulator, batch)
        rows.apply(batch)
        left = [[v for v in held if v is not None] for held in rows.held]
        place = 0 if function == "FIRST_VALUE" else -1
        assert results(accumulator) == [held[place] if held else None for held in left]
        accumulator = moved(accumulator) if is_moved else accumulator


@pytest.mark.parametrize("is_first", [True, False])
def test_each_retracted_row_takes_away_the_oldest_of_the_equal_values(is_first: bool) -> None:
    accumulator = made("FIRST_VALUE" if is_first else "LAST_VALUE", sql.DOUBLE)
    apply(
        accumulator,
        [(0, 0.0, 1), (1, 5.0, 1), *[(0, v, 1) for v in (-0.0, 2.0, 0.0, float("nan"), -0.0, 0.0)]],
    )
    # Those of one batch, and more than there are.
    apply(accumulator, [(0, -0.0, -1), (0, 0.0, -1), (0, 0.0, -1), (0, 7.0, -1), (2, 0.0, -1)])
    assert str(results(accumulator)[0]) == ("2.0" if is_first else "0.0")
    apply(accumulator, [(0, 2.0, -1), *[(0, 0.0, -1)] * 9, (1, 4.0, 1)])
    assert [str(v) for v in results(accumulator)] == ["nan", "5.0" if is_first else "4.0", "None", "None"]
    apply(accumulator, [(0, float("nan"), -1), (1, 5.0, -1), (0, -0.0, 1)])
    assert [str(v) for v in results(accumulator)] == ["-0.0", "4.0", "None", "None"]


def test_values_cost_no_more_memory_for_having_come_and_gone() -> None:
    accumulator = made("LAST_VALUE", sql.STRING)
    sizes = []
    for number in range(40):
        apply(accumulator, [(0, f"a text of some length {number} {n}", 1) for n in range(200)])
        apply(accumulator, [(0, f"a text of some length {number} {n}", -1) for n in range(200)])
        sizes.append(accumulator.nbytes())
    assert results(accumulator)[0] is None
    assert sizes[-1] == sizes[8]


@pytest.mark.parametrize("function", ["FIRST_VALUE", "LAST_VALUE", "LISTAGG"])
def test_a_slot_that_was_reset_is_empty(function: str) -> None:
    accumulator = made(function, sql.STRING)
    apply(accumulator, [(0, "a", 1), (1, "b", 1)])
    accumulator.reset(np.array([0]))
    assert results(accumulator) == [None, "b", None, None]
    apply(accumulator, [])
    apply(accumulator, [(0, "c", 1), (1, "b", -1)])
    assert results(accumulator) == ["c", None, None, None]
