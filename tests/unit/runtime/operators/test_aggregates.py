"""Every accumulator equals a row-at-a-time reference: filtered, retracted, merged, reset, kept and restored."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from operator_harness import batch, values_of

from sqlstream import types as sql
from sqlstream.expressions import AggregateCall
from sqlstream.functions import AGGREGATE_FUNCTIONS
from sqlstream.runtime.aggregates import Accumulator, make_accumulator
from sqlstream.runtime.aggregates.accumulator import NO_WEIGHTS
from sqlstream.runtime.aggregates.accumulator_set import AccumulatorSet
from sqlstream.runtime.aggregates.value_counts import ValueCounts
from sqlstream.runtime.state.storage.arrays import first_slots
from sqlstream.schema import Schema

COLUMNS = Schema.of(
    ("i", sql.INT),
    ("l", sql.BIGINT),
    ("x", sql.DOUBLE),
    ("d", sql.decimal(10, 2)),
    ("s", sql.STRING),
    ("sep", sql.STRING),
    ("f", sql.FLOAT),
    ("o", sql.BOOLEAN),
    ("t", sql.timestamp(3)),
)
I, L, X, D, S, SEP, F, O, T = range(9)  # noqa: E741 (the names of the columns)
SLOTS = 6
Row = tuple[Any, ...]


def call(function: str, *args: int, type_: sql.LogicalType = sql.BIGINT, **others: Any) -> AggregateCall:
    return AggregateCall(function, args, type_, **others)


CALLS = {
    "COUNT(*)": call("COUNT"),
    "COUNT(s)": call("COUNT", S),
    "COUNT(s, x)": call("COUNT", S, X),
    "SUM(i)": call("SUM", I, type_=sql.INT),
    "SUM(l)": call("SUM", L),
    "SUM(x)": call("SUM", X, type_=sql.DOUBLE),
    "SUM(d)": call("SUM", D, type_=sql.decimal(38, 2)),
    "AVG(l)": call("AVG", L),
    "AVG(x)": call("AVG", X, type_=sql.DOUBLE),
    "AVG(d)": call("AVG", D, type_=sql.decimal(38, 6)),
    "MIN(i)": call("MIN", I, type_=sql.INT),
    "MIN(f)": call("MIN", F, type_=sql.FLOAT),
    "MIN(d)": call("MIN", D, type_=sql.decimal(10, 2)),
    "MAX(d)": call("MAX", D, type_=sql.decimal(10, 2)),
    "MIN(s)": call("MIN", S, type_=sql.STRING),
    "MAX(s)": call("MAX", S, type_=sql.STRING),
    "MAX(o)": call("MAX", O, type_=sql.BOOLEAN),
    "MAX(t)": call("MAX", T, type_=sql.timestamp(3)),
    "VAR_POP(x)": call("VAR_POP", X, type_=sql.DOUBLE),
    "VAR_SAMP(d)": call("VAR_SAMP", D, type_=sql.DOUBLE),
    "STDDEV_POP(f)": call("STDDEV_POP", F, type_=sql.DOUBLE),
    "STDDEV_SAMP(l)": call("STDDEV_SAMP", L, type_=sql.DOUBLE),
    "FIRST_VALUE(d)": call("FIRST_VALUE", D, type_=sql.decimal(10, 2)),
    "FIRST_VALUE(s)": call("FIRST_VALUE", S, type_=sql.STRING),
    "LAST_VALUE(l)": call("LAST_VALUE", L),
    "LISTAGG(s)": call("LISTAGG", S, type_=sql.STRING),
    "LISTAGG(s, sep)": call("LISTAGG", S, SEP, type_=sql.STRING),
    "COUNT(DISTINCT s)": call("COUNT", S, is_distinct=True),
    "COUNT(DISTINCT s, o)": call("COUNT", S, O, is_distinct=True),
    "SUM(DISTINCT l)": call("SUM", L, is_distinct=True),
}
VARIANCES = ("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
MERGED = [n for n, c in CALLS.items() if AGGREGATE_FUNCTIONS[c.function].accumulator and not c.is_distinct]


def made(name: str, is_retracting: bool = False) -> Accumulator:
    one = CALLS[name]
    types = tuple(COLUMNS.types[a] for a in one.args)
    accumulator = make_accumulator(one, types, is_retracting)
    accumulator.resize(SLOTS)
    return accumulator


def random_rows(seed: int, count: int, far: int = 99_999_999) -> list[Row]:
    """`far` is how far from the others some values lie."""
    draw = random.Random(seed)

    def row() -> Row:
        number = draw.randint(-9, 9)
        return (
            draw.choice([None, -(2**30), 7, number]),
            draw.choice([None, 2**60, -(2**60) - 1, number]),
            draw.choice([None, 0.5, -12.5 * far, float(number)]),
            draw.choice([None, Decimal(f"{far}.99"), Decimal("-0.05"), Decimal(number)]),
            draw.choice([None, "", "a", "ab", "ä", "zz"]),
            draw.choice([None, "", "-", "::"]),
            draw.choice([None, 0.25, float(number)]),
            draw.choice([None, True, False]),
            draw.choice([None, 0, 1_700_000_000_123, -number]),
        )

    return [row() for _ in range(count)]


def reference(one: AggregateCall, rows: list[Row]) -> Any:
    values = [tuple(r[a] for a in one.args) for r in rows]
    if one.function == "LISTAGG":
        return joined([v for v in values if v[0] is not None])
    values = [v for v in values if None not in v]
    if one.is_distinct:
        values = list(dict.fromkeys(values))
    if one.function == "COUNT":
        return len(values)
    found = [v[0] for v in values]
    return OF_VALUES[one.function](found, one) if found else None


def joined(values: list[Row]) -> str | None:
    if not values:
        return None
    text = values[0][0]
    for value, *separator in values[1:]:
        text += ((separator[0] or "") if separator else ",") + value
    return str(text)


def average(values: list[Any], one: AggregateCall) -> Any:
    if isinstance(values[0], int):
        quotient = Decimal(sum(values)) / len(values)
        return abs(sum(values)) // len(values) * (1 if quotient > 0 else -1)
    if isinstance(values[0], Decimal):
        return (sum(values) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return math.fsum(values) / len(values)


def variance(values: list[Any], one: AggregateCall) -> float | None:
    numbers = [float(v) for v in values]
    if one.function.endswith("SAMP"):
        if len(numbers) < 2:
            return None
        found = statistics.variance(numbers)
    else:
        found = statistics.pvariance(numbers)
    return math.sqrt(found) if one.function.startswith("STDDEV") else found


OF_VALUES: dict[str, Callable[[list[Any], AggregateCall], Any]] = {
    "SUM": lambda values, one: wrapped(sum(values), one.type),
    "AVG": average,
    "MIN": lambda values, one: min(values),
    "MAX": lambda values, one: max(values),
    "FIRST_VALUE": lambda values, one: values[0],
    "LAST_VALUE": lambda values, one: values[-1],
    **dict.fromkeys(VARIANCES, variance),
}


def wrapped(total: Any, type_: sql.LogicalType) -> Any:
    """A whole number overflows as in Java."""
    bits = {sql.INT: 32, sql.BIGINT: 64}.get(type_)
    if bits is None:
        return total
    return (total + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def add(accumulator: Accumulator, name: str, rows: list[Row], slots: list[int], weights: Any = ()) -> None:
    """Hand the rows over as the middle of longer columns, so that none of their buffers starts at its first byte."""
    around = random_rows(99, 3)
    columns = batch(COLUMNS, [*around, *rows, *around])
    args = [columns.column(a).slice(3, len(rows)) for a in CALLS[name].args]
    accumulator.accumulate(
        np.array(slots, dtype=np.int64),
        args,
        np.array(weights, dtype=np.int8) if len(weights) else NO_WEIGHTS,
    )


def results(accumulator: Accumulator) -> list[Any]:
    return values_of(accumulator.results(first_slots(SLOTS)))


def check(found: list[Any], name: str, rows: list[tuple[int, Row]]) -> None:
    expected = [reference(CALLS[name], [r for s, r in rows if s == slot]) for slot in range(SLOTS)]
    assert found == [pytest.approx(e, rel=1e-9, abs=1e-9) if isinstance(e, float) else e for e in expected]


def spread(rows: list[Row], seed: int) -> list[tuple[int, Row]]:
    """Rows with slots; the last slot stays empty."""
    draw = random.Random(seed)
    return [(draw.randrange(SLOTS - 1), row) for row in rows]


def add_all(accumulator: Accumulator, name: str, rows: list[tuple[int, Row]], weights: Any = ()) -> None:
    add(accumulator, name, [r for _, r in rows], [s for s, _ in rows], weights)


@pytest.mark.parametrize("name", CALLS)
def test_the_result_is_that_of_the_rows_in_any_number_of_batches(name: str) -> None:
    accumulator = made(name)
    assert results(accumulator) == [reference(CALLS[name], [])] * SLOTS
    rows = spread(random_rows(1, 60), 2)
    for part in (rows[:1], rows[1:40], [], rows[40:]):
        add_all(accumulator, name, part)
    check(results(accumulator), name, rows)
    picked = np.array([4, 0, 4], dtype=np.int64)
    assert values_of(accumulator.results(picked)) == [results(accumulator)[s] for s in (4, 0, 4)]


@pytest.mark.parametrize("name", CALLS)
def test_rows_that_are_all_alike_count_like_others(name: str) -> None:
    accumulator = made(name)
    rows = spread([row for row in random_rows(7, 9) for _ in range(6)], 5)
    for start in range(0, len(rows), 6):
        add_all(accumulator, name, rows[start : start + 6])
    check(results(accumulator), name, rows)


@pytest.mark.parametrize("name", CALLS)
def test_rows_of_weight_zero_do_not_count(name: str) -> None:
    accumulator = made(name)
    rows = spread(random_rows(3, 40), 4)
    weights = [n % 3 != 0 for n in range(len(rows))]
    add_all(accumulator, name, rows, weights)
    check(results(accumulator), name, [row for row, weight in zip(rows, weights, strict=True) if weight])


@pytest.mark.parametrize("name", CALLS)
def test_a_retracted_row_leaves_no_trace(name: str) -> None:
    accumulator = made(name, is_retracting=True)
    # A variance loses as many digits to a value that goes as that one lies apart.
    rows = spread(random_rows(5, 60, far=9 if CALLS[name].function in VARIANCES else 99_999_999), 6)
    gone, kept = rows[:35], rows[35:]
    add_all(accumulator, name, rows)
    add_all(accumulator, name, gone, [-1] * len(gone))
    check(results(accumulator), name, kept)
    add_all(accumulator, name, kept, [-1] * len(kept))
    assert results(accumulator) == [reference(CALLS[name], [])] * SLOTS


@pytest.mark.parametrize("name", MERGED)
def test_partials_merged_are_the_whole(name: str) -> None:
    rows = spread(random_rows(7, 60), 8)
    whole = made(name)
    for part in (rows[:25], rows[25:]):
        partial = made(name)
        add_all(partial, name, part)
        whole.merge(np.arange(SLOTS), partial.columns(first_slots(SLOTS)))
    check(results(whole), name, rows)
    # And into one slot, with columns that do not start at their first row.
    one = made(name)
    columns = [pa.concat_arrays([c.slice(0, 1), c]).slice(1) for c in whole.columns(first_slots(SLOTS))]
    one.merge(np.zeros(SLOTS, dtype=np.int64), columns)
    expected = reference(CALLS[name], [r for s in range(SLOTS) for at, r in rows if at == s])
    assert values_of(one.results(first_slots(1))) == [
        pytest.approx(expected, rel=1e-9, abs=1e-9) if isinstance(expected, float) else expected
    ]


@pytest.mark.parametrize("is_retracting", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_slot_that_is_reset_is_empty_and_the_others_stay(name: str, is_retracting: bool) -> None:
    accumulator = made(name, is_retracting)
    rows = spread(random_rows(9, 60), 10)
    add_all(accumulator, name, rows)
    accumulator.reset(np.array([1, 3], dtype=np.int64))
    rows = [(s, r) for s, r in rows if s not in (1, 3)]
    check(results(accumulator), name, rows)
    again = [(s, r) for s, r in spread(random_rows(11, 40), 12) if s in (1, 2)]
    add_all(accumulator, name, again)
    check(results(accumulator), name, [*rows, *again])


def live_entries(values: ValueCounts) -> np.ndarray:
    slots = np.arange(values.slot_count)
    return slots[values.is_live(slots)]


@pytest.mark.parametrize("name", [n for n in CALLS if made(n, is_retracting=True).kept_values is not None])
def test_kept_values_restore_what_can_be_retracted(name: str) -> None:
    rows = spread(random_rows(13, 60), 14)
    before = made(name, is_retracting=True)
    add_all(before, name, rows)
    # A value retracted before it is added is kept too.
    # Its value alone is as if it were not there.
    early = (0, (5, 5, 5.0, Decimal(5), "early", "", 5.0, True, 5))
    add_all(before, name, [early], [-1])
    assert before.kept_values is not None
    check(results(before), name, rows)
    after = made(name, is_retracting=True)
    assert after.kept_values is not None
    owners, *columns = before.kept_values.saved(live_entries(before.kept_values))[1]
    after.kept_values.load(owners.to_numpy().astype(np.int64), columns)
    slots = np.arange(SLOTS)
    after.load(slots, before.columns(slots))
    add_all(after, name, [early])
    check(results(after), name, rows)
    gone, again = rows[:30], spread(random_rows(15, 20), 16)
    add_all(after, name, again)
    add_all(after, name, gone, [-1] * len(gone))
    check(results(after), name, [*rows[30:], *again])


@pytest.mark.parametrize("name", [n for n in CALLS if made(n).kept_values is None])
def test_columns_restore_what_keeps_no_values(name: str) -> None:
    rows = spread(random_rows(18, 40), 19)
    before, after = made(name), made(name)
    add_all(before, name, rows[:30])
    slots = np.array([5, 0, 1, 2, 3, 4], dtype=np.int64)
    after.merge(slots, before.columns(slots))
    add_all(after, name, rows[30:])
    check(results(after), name, rows)


@pytest.mark.parametrize("name", ["MIN(s)", "COUNT(DISTINCT s, o)"])
def test_values_that_went_take_no_room(name: str) -> None:
    accumulator = made(name, is_retracting=True)
    for number in range(20):
        texts = [f"{'value' * 40} {number} {n}" for n in range(100)]
        rows = [
            (n % 2, (None, None, None, None, text, None, None, True, None)) for n, text in enumerate(texts)
        ]
        add_all(accumulator, name, rows)
        add_all(accumulator, name, rows[::-1], [-1] * len(rows))
    assert accumulator.kept_values is not None
    assert len(live_entries(accumulator.kept_values)) == 0
    assert accumulator.nbytes() < 200_000, "400 kB came and went"


def test_the_calls_that_keep_values_are_those_whose_result_cannot_be_computed_without_them() -> None:
    keeping = [n for n in CALLS if made(n, is_retracting=True).kept_values is not None]
    assert {CALLS[n].function for n in keeping if not CALLS[n].is_distinct} == {"MIN", "MAX"}
    assert {n for n in CALLS if CALLS[n].is_distinct} <= set(keeping)
    assert {n for n in CALLS if made(n).kept_values is not None} == {n for n in CALLS if CALLS[n].is_distinct}


@pytest.mark.parametrize(
    ("name", "bytes_per_slot"),
    [
        ("COUNT(*)", 8),
        ("SUM(l)", 16),
        ("SUM(d)", 24),
        ("AVG(x)", 16),
        ("MIN(i)", 9),
        ("MIN(d)", 17),
        ("VAR_POP(x)", 24),
        ("FIRST_VALUE(d)", 17),
        ("LAST_VALUE(l)", 9),
    ],
)
def test_a_slot_takes_what_the_accumulator_says_of_itself(name: str, bytes_per_slot: int) -> None:
    accumulator = made(name)
    accumulator.resize(1_000)
    assert accumulator.nbytes() == 1_000 * bytes_per_slot
    accumulator.resize(10)
    assert accumulator.nbytes() == 1_000 * bytes_per_slot


@pytest.mark.parametrize("name", ["MIN(s)", "LISTAGG(s)", "COUNT(DISTINCT s)", "MIN(i)"])
def test_kept_values_count_as_state(name: str) -> None:
    accumulator = made(name, is_retracting=True)
    empty = accumulator.nbytes()
    text = "x" * 100_000
    row = (None, None, None, None, text, None, None, None, None)
    add_all(accumulator, name, [(0, row)])
    if name == "MIN(i)":
        assert accumulator.nbytes() >= empty
        assert accumulator.nbytes() > made(name).nbytes(), "each value is kept"
    else:
        assert accumulator.nbytes() >= 100_000


@pytest.mark.parametrize("start", [0, 1, 7, 8, 9, 16, 19])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 17])
def test_a_filter_is_read_from_wherever_its_bits_start(start: int, length: int) -> None:
    flags = [(None, True, False, True, True)[n * n % 5] for n in range(40)]
    rows = [(*row[:O], flag, row[T]) for row, flag in zip(random_rows(17, 40), flags, strict=True)]
    calls = (call("COUNT", filter=O), call("SUM", I, filter=O), call("COUNT"), call("COUNT", S, filter=O))
    types = ((), (sql.INT,), (), (sql.STRING,))
    accumulators = AccumulatorSet(calls, types, is_retracting=True)
    accumulators.resize(1)
    part = batch(COLUMNS, rows).slice(start, length)
    slots = np.zeros(length, dtype=np.int64)
    accumulators.accumulate(slots, part)
    kept = rows[start : start + length]
    passing = [r for r in kept if r[O]]
    expected = [
        [len(passing)],
        [reference(call("SUM", I), passing)],
        [length],
        [len([r for r in passing if r[S] is not None])],
    ]
    assert [values_of(c) for c in accumulators.results(first_slots(1))] == expected
    accumulators.accumulate(slots, part, -np.ones(length, dtype=np.int8))
    assert [values_of(c) for c in accumulators.results(first_slots(1))] == [[0], [None], [0], [0]]


def test_a_bit_that_is_set_under_a_null_passes_no_filter() -> None:
    flags = pa.Array.from_buffers(pa.bool_(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(b"\x03")])
    accumulators = AccumulatorSet((call("COUNT", filter=0),), ((),))
    accumulators.resize(1)
    accumulators.accumulate(np.zeros(2, dtype=np.int64), pa.RecordBatch.from_arrays([flags], ["o"]))
    assert values_of(accumulators.results(first_slots(1))[0]) == [1]


def test_a_column_of_type_null_has_no_value() -> None:
    for function, expected in (("COUNT", 0), ("MIN", None), ("LAST_VALUE", None)):
        accumulator = make_accumulator(call(function, 0, type_=sql.NULL), (sql.NULL,))
        accumulator.resize(2)
        accumulator.accumulate(np.array([0, 1, 0]), [pa.nulls(3)], NO_WEIGHTS)
        assert values_of(accumulator.results(first_slots(2))) == [expected, expected]


def test_results_have_the_declared_type() -> None:
    narrow = AccumulatorSet((call("COUNT", type_=sql.INT), call("SUM", I, type_=sql.INT)), ((), (sql.INT,)))
    narrow.resize(1)
    assert [c.type for c in narrow.results(first_slots(1))] == [pa.int32(), pa.int32()]


def test_a_decimal_of_more_than_38_digits_is_null() -> None:
    most = Decimal("9" * 38)
    argument = sql.decimal(38, 0)
    for function, expected in (("SUM", None), ("AVG", None), ("MAX", most)):
        one = call(function, 0, type_=argument)
        accumulator = make_accumulator(one, (argument,))
        accumulator.resize(1)
        column = pa.array([most, most], pa.decimal128(38, 0))
        accumulator.accumulate(np.zeros(1, dtype=np.int64), [column.slice(0, 1)], NO_WEIGHTS)
        assert values_of(accumulator.results(first_slots(1))) == [most]
        accumulator.accumulate(np.zeros(1, dtype=np.int64), [column.slice(1)], NO_WEIGHTS)
        assert values_of(accumulator.results(first_slots(1))) == [expected]


def test_the_average_of_whole_numbers_is_cut_towards_zero_and_of_decimals_rounded_half_up() -> None:
    whole = made("AVG(l)")
    rows: list[Row] = [(None, value, None, None, None, None, None, None, None) for value in (-1, -2, -4)]
    add(whole, "AVG(l)", rows, [0, 0, 0])
    add(whole, "AVG(l)", [(None, 3, *[None] * 7), (None, 4, *[None] * 7)], [1, 1])
    add(whole, "AVG(l)", [(None, -6, *[None] * 7), (None, -2, *[None] * 7)], [2, 2])
    assert results(whole)[:3] == [-2, 3, -4]
    assert decimal_average(["0.04", "0.06"], (10, 2), (38, 1)) == Decimal("0.1")
    assert decimal_average(["-0.05"], (10, 2), (38, 1)) == Decimal("-0.1")


def decimal_average(values: list[str], argument: tuple[int, int], result: tuple[int, int]) -> Decimal | None:
    accumulator = make_accumulator(call("AVG", 0, type_=sql.decimal(*result)), (sql.decimal(*argument),))
    accumulator.resize(1)
    column = pa.array([Decimal(v) for v in values], pa.decimal128(*argument))
    accumulator.accumulate(np.zeros(len(values), dtype=np.int64), [column], NO_WEIGHTS)
    (found,) = values_of(accumulator.results(first_slots(1)))
    return found  # type: ignore[no-any-return]


def test_the_average_of_decimals_keeps_all_digits_that_its_type_has() -> None:
    nines, fraction = "9" * 32, "0." + "7" * 38
    assert decimal_average([nines, nines], (38, 0), (38, 6)) == Decimal(nines)
    assert decimal_average(["9" * 36 + ".99"], (38, 2), (38, 2)) == Decimal("9" * 36 + ".99")
    assert decimal_average([fraction], (38, 38), (38, 38)) == Decimal(fraction)
    assert decimal_average(["1" + "0" * 32], (38, 0), (38, 6)) is None
    assert decimal_average(["1", "1", "0"], (1, 0), (38, 6)) == Decimal("0.666667")
