"""ARRAY_AGG, COLLECT and PERCENTILE against references that keep all rows, over random changes in random batches."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.expressions import AggregateCall
from sqlstream.runtime.aggregates import Accumulator, make_accumulator
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.state.storage.arrays import first_slots
from sqlstream.types import BIGINT, DOUBLE, INT, STRING, LogicalType

SLOTS = 4
Change = tuple[int, Any, int]
"""Slot, value, sign."""


def made(function: str, *types: LogicalType, result: LogicalType, is_distinct: bool = False) -> Accumulator:
    one = AggregateCall(function, tuple(range(len(types))), result, is_distinct)
    accumulator = make_accumulator(one, types, True)
    accumulator.resize(SLOTS)
    return accumulator


def apply(accumulator: Accumulator, changes: list[Change], *others: Any) -> None:
    """`others` are further arguments, the same for each row."""
    slots = np.array([c[0] for c in changes], dtype=np.int64)
    weights = np.array([c[2] for c in changes], dtype=np.int8)
    values = [[c[1] for c in changes], *([o] * len(changes) for o in others)]
    types = [to_arrow_type(t) for t in accumulator.argument_types]
    args = [pa.array(v, t) for v, t in zip(values, types, strict=True)]
    accumulator.accumulate(slots, args, weights if (weights < 0).any() else NO_WEIGHTS)


def changes_of(seed: int, values: tuple[Any, ...]) -> list[list[Change]]:
    """Batches in which a value is retracted only after it was added; the last slot stays empty."""
    pick = random.Random(seed)
    present: list[tuple[int, Any]] = []
    batches: list[list[Change]] = []
    for _ in range(12):
        batch: list[Change] = []
        for _ in range(pick.randrange(1, 9)):
            if present and pick.random() < 0.4:
                batch.append((*present.pop(pick.randrange(len(present))), -1))
            else:
                present.append((pick.randrange(SLOTS - 1), pick.choice(values)))
                batch.append((*present[-1], 1))
        batches.append(batch)
    return batches


class Rows:
    """All values of each slot in order of arrival."""

    def __init__(self) -> None:
        self.held: list[list[Any]] = [[] for _ in range(SLOTS)]

    def apply(self, changes: list[Change]) -> None:
        for slot, value, sign in changes:
            if sign > 0:
                self.held[slot].append(value)
            else:
                self.held[slot].remove(value)


def results(accumulator: Accumulator) -> list[Any]:
    found: list[Any] = accumulator.results(first_slots(SLOTS)).to_pylist()
    return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("is_moved", [False, True])
def test_arrays_have_all_values_in_order_of_arrival(seed: int, is_moved: bool) -> None:
    result = sql.array(STRING)
    accumulator, rows = made("ARRAY_AGG", STRING, result=result), Rows()
    for batch in changes_of(seed, ("a", "b", "ä", "", None)):
        apply(accumulator, batch)
        rows.apply(batch)
        assert results(accumulator) == [held or None for held in rows.held]
        if is_moved:
            saved = accumulator.columns(first_slots(SLOTS))
            accumulator = made("ARRAY_AGG", STRING, result=result)
            accumulator.load(first_slots(SLOTS), saved)


@pytest.mark.parametrize("seed", range(4))
def test_arrays_of_distinct_values_have_null_once(seed: int) -> None:
    accumulator = made("ARRAY_AGG", INT, result=sql.array(INT), is_distinct=True)
    rows = Rows()
    for batch in changes_of(seed, (1, 2, None)):
        apply(accumulator, batch)
        rows.apply(batch)
        found = [None if values is None else Counter(values) for values in results(accumulator)]
        assert found == [Counter(set(held)) if held else None for held in rows.held]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_distinct", [False, True])
def test_multisets_count_the_rows_of_each_value(seed: int, is_distinct: bool) -> None:
    result = sql.multiset(STRING)
    accumulator, rows = made("COLLECT", STRING, result=result, is_distinct=is_distinct), Rows()
    for batch in changes_of(seed, ("a", "b", None)):
        apply(accumulator, batch)
        rows.apply(batch)
        wanted = [Counter(v for v in held if v is not None) for held in rows.held]
        if is_distinct:
            wanted = [Counter(set(counts)) for counts in wanted]
        assert [Counter(dict(entries)) for entries in results(accumulator)] == wanted


LISTS = ([1, None], [1], [], [None], None)
ROWS = ({"x": 1.5, "y": [[1]]}, {"x": None, "y": [None]}, {"x": 0.0, "y": None}, None)
MAPS = ([("a", 1), ("b", None)], [("a", 1)], [], None)
NESTED: list[tuple[LogicalType, tuple[Any, ...]]] = [
    (sql.array(INT), LISTS),
    (sql.row(("x", DOUBLE), ("y", sql.array(sql.array(INT)))), ROWS),
    (sql.map_of(STRING, INT), MAPS),
]


@pytest.mark.parametrize(("value_type", "values"), NESTED)
@pytest.mark.parametrize("seed", range(3))
def test_nested_values_are_retracted_by_what_they_hold(
    seed: int, value_type: LogicalType, values: tuple[Any, ...]
) -> None:
    made_of = {
        "ARRAY_AGG": sql.array(value_type),
        "COLLECT": sql.multiset(value_type.not_null()),
        "FIRST_VALUE": value_type,
        "LAST_VALUE": value_type,
        "COUNT DISTINCT": BIGINT,
        "ARRAY_AGG DISTINCT": sql.array(value_type),
        "COLLECT DISTINCT": sql.multiset(value_type.not_null()),
    }
    rows = Rows()
    accumulators = {
        name: made(name.split()[0], value_type, result=result, is_distinct="DISTINCT" in name)
        for name, result in made_of.items()
    }
    for batch in changes_of(seed, values):
        rows.apply(batch)
        found = {}
        for name, accumulator in accumulators.items():
            apply(accumulator, batch)
            found[name] = results(accumulator)
            if accumulator.kept_values is None:
                saved = accumulator.columns(first_slots(SLOTS))
                accumulators[name] = made(name.split()[0], value_type, result=made_of[name])
                accumulators[name].call = accumulator.call
                accumulators[name].load(first_slots(SLOTS), saved)
        present = [[v for v in held if v is not None] for held in rows.held]
        counts = [Counter(map(repr, held)) for held in present]
        assert found["ARRAY_AGG"] == [held or None for held in rows.held]
        assert found["FIRST_VALUE"] == [held[0] if held else None for held in present]
        assert found["LAST_VALUE"] == [held[-1] if held else None for held in present]
        assert [{repr(v): n for v, n in entries} for entries in found["COLLECT"]] == counts
        assert [{repr(v): n for v, n in es} for es in found["COLLECT DISTINCT"]] == [
            dict.fromkeys(c, 1) for c in counts
        ]
        assert found["COUNT DISTINCT"] == [len(c) for c in counts]
        assert [sorted(map(repr, d or [])) for d in found["ARRAY_AGG DISTINCT"]] == [
            sorted({repr(v) for v in held}) for held in rows.held
        ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("times", [1, 3])
def test_percentiles_are_interpolated(seed: int, times: int) -> None:
    asked = [0.0, 0.25, 0.5, 0.99, 1.0]
    many = made("PERCENTILE", DOUBLE, sql.array(DOUBLE), BIGINT, result=sql.array(DOUBLE))
    one, rows = made("PERCENTILE", DOUBLE, DOUBLE, result=DOUBLE), Rows()
    for batch in changes_of(seed, (1.0, 2.5, -7.0, 100.0, None)):
        apply(many, batch, asked, times)
        apply(one, batch, 0.25)
        rows.apply(batch)
        present = [[v for v in held if v is not None] for held in rows.held]
        wanted = [
            list(np.percentile(held * times, [p * 100 for p in asked])) if held else None for held in present
        ]
        assert results(many) == [None if w is None else pytest.approx(w) for w in wanted]
        quarters = [float(np.percentile(held, 25)) if held else None for held in present]
        assert results(one) == [None if q is None else pytest.approx(q) for q in quarters]


def test_rows_without_a_frequency_do_not_count() -> None:
    accumulator = made("PERCENTILE", DOUBLE, DOUBLE, BIGINT, result=DOUBLE)
    apply(accumulator, [(0, 5.0, 1)], 0.5, None)
    apply(accumulator, [(0, 7.0, 1)], 0.5, -2)
    assert results(accumulator) == [None] * SLOTS
    apply(accumulator, [(0, 9.0, 1)], 0.5, 2)
    assert results(accumulator) == [9.0, None, None, None]


def test_a_percentage_outside_of_zero_to_one_gives_null() -> None:
    accumulator = made("PERCENTILE", DOUBLE, DOUBLE, result=DOUBLE)
    apply(accumulator, [(0, 5.0, 1)], 1.5)
    apply(accumulator, [(1, 5.0, 1)], None)
    assert results(accumulator) == [None] * SLOTS
    many = made("PERCENTILE", DOUBLE, sql.array(DOUBLE), result=sql.array(DOUBLE))
    apply(many, [(0, 5.0, 1)], [-1.0, None, 1.0])
    assert results(many) == [[None, None, 5.0], None, None, None]


def test_a_percentile_of_infinite_values_is_infinite() -> None:
    accumulator = made("PERCENTILE", DOUBLE, sql.array(DOUBLE), result=sql.array(DOUBLE))
    apply(accumulator, [(0, 1.0, 1), (0, float("inf"), 1), (0, float("inf"), 1)], [0.0, 0.25, 0.5, 0.75, 1.0])
    assert results(accumulator)[0] == [1.0, *[float("inf")] * 4]
