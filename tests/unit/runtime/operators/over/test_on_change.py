"""OVER over updating input: after every batch the emitted changes make the table that a row-at-a-time reference has."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from operator_harness import Collected, ManualClock, batch, feed, operator_context, restore
from over_reference import over

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.expressions import SortKey
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.over import on_change
from sqlstream.schema import Schema
from sqlstream.specs.over import Frame, OverCall, OverSpec, OverTiming

SCHEMA = Schema.of(
    ("key", sql.INT),
    ("value", sql.BIGINT),
    ("time", sql.timestamp(3)),
    ("text", sql.STRING),
    ("number", sql.DOUBLE),
    ("flag", sql.BOOLEAN),
    ("price", sql.decimal(20, 2)),
    ("list", sql.array(sql.INT)),
)
KEY, VALUE, TIME, TEXT, NUMBER, FLAG, PRICE, LIST = range(8)
TEXTS = ["a", "b", "a text that is longer than eight bytes", "a text that is longer", "", None]
NUMBERS = [0.1, -2.7, 1e16, 3.3, -1e16, 7.77, None]
PRICES = [None, Decimal("0.01"), Decimal(-(10**17)), Decimal("7.5")]
NOTHING = (None, None, None, None)
ROW_FRAMES = [
    Frame(False, start, end)
    for start, end in (
        (None, 0), (None, -2), (None, 1), (None, None), (0, 0), (-2, 0), (-2, 1), (-3, -2), (1, 3), (0, None), (-2, None)
    )
]  # fmt: skip
PEER_FRAMES = [Frame(), Frame(end=None), Frame(True, 0, 0), Frame(True, 0, None)]
RANGES = [
    Frame(True, start, end)
    for start, end in ((-2, 0), (-2, 2), (0, 3), (-4, -2), (1, 2), (None, -2), (None, 2), (-1, None))
]
ORDERS: dict[str, tuple[tuple[SortKey, ...], bool]] = {
    # And whether a RANGE can have an offset.
    "number of order": ((SortKey(VALUE),), True),
    "time": ((SortKey(TIME),), True),
    "descending": ((SortKey(VALUE, True, True),), True),
    "text": ((SortKey(TEXT), SortKey(VALUE, True, False)), False),
    "double, NULLs last": ((SortKey(NUMBER, True, False), SortKey(FLAG)), False),
    "none": ((), False),
}


def _calls(fate: random.Random, has_range: bool, count: int) -> tuple[OverCall, ...]:
    frames = ROW_FRAMES + PEER_FRAMES + (RANGES * 2 if has_range else [])
    return tuple(_call(fate, fate.choice(frames)) for _ in range(count))


def _call(fate: random.Random, frame: Frame) -> OverCall:
    column = fate.choice([VALUE, TEXT])
    t = SCHEMA.types[column]
    skips = fate.random() < 0.5
    filtered = fate.choice([-1, -1, FLAG])
    made = [
        OverCall("ROW_NUMBER", (), sql.BIGINT),
        OverCall("RANK", (), sql.BIGINT),
        OverCall("DENSE_RANK", (), sql.BIGINT),
        OverCall("NTILE", (), sql.INT, number=3),
        OverCall("CUME_DIST", (), sql.DOUBLE),
        OverCall("PERCENT_RANK", (), sql.DOUBLE),
        OverCall("LAG", (column,), t, number=fate.randint(0, 3), skips_nulls=skips),
        OverCall("LEAD", (column,), t, number=fate.randint(0, 3), skips_nulls=skips),
        OverCall("COUNT", (), sql.BIGINT, frame, filter=filtered),
        OverCall("SUM", (VALUE,), sql.BIGINT, frame, filter=filtered),
        OverCall("AVG", (VALUE,), sql.BIGINT, frame),
        OverCall("SUM", (PRICE,), sql.decimal(38, 2), frame),
        OverCall("MIN", (column,), t, frame, filter=filtered),
        OverCall("MAX", (column,), t, frame, is_distinct=skips),
        OverCall("COUNT", (column,), sql.BIGINT, frame, is_distinct=True),
        OverCall("FIRST_VALUE", (column,), t, frame, skips_nulls=skips, filter=filtered),
        OverCall("LAST_VALUE", (column,), t, frame, skips_nulls=skips, filter=filtered),
        OverCall("NTH_VALUE", (column,), t, frame, number=2, skips_nulls=skips),
        OverCall("LISTAGG", (TEXT,), sql.STRING, frame),
    ]
    return fate.choice(made)


def _context(calls: tuple[OverCall, ...], **others: Any) -> Any:
    output = Schema.of(
        *[(f.name, f.type) for f in SCHEMA.fields], *[(f"c{i}", c.type) for i, c in enumerate(calls)]
    )
    return operator_context(
        [SCHEMA], output, input_modes=[ChangelogMode.RETRACT], output_mode=ChangelogMode.RETRACT, **others
    )


def _place(row: Any, order: tuple[SortKey, ...]) -> tuple[Any, ...]:
    place: list[Any] = []
    for key in order:
        value = row[key.column]
        if isinstance(value, str):
            # Descending texts have no negative.
            assert not key.is_descending
        elif value is not None and key.is_descending:
            value = -value
        nothing = "" if key.column == TEXT else 0
        place += [(value is None) is not key.is_nulls_first, nothing if value is None else value]
    return tuple(place)


def _along(row: Any, order: tuple[SortKey, ...], has_range: bool) -> Any:
    """What a row is sorted by, as the reference compares it."""
    if not has_range:
        return _place(row, order)
    value = row[order[0].column]
    return -value if value is not None and order[0].is_descending else value


def _expected(rows: dict[Any, int], spec: OverSpec, has_range: bool) -> list[Any]:
    """`rows` with their counts, in order of arrival."""
    found = []
    for key in {row[KEY] for row in rows}:
        own = [row for row, copies in rows.items() for _ in range(copies) if row[KEY] == key]
        own.sort(key=lambda row: _place(row, spec.order))
        order = [_along(row, spec.order, has_range) for row in own]
        results = [over(own, call, order) for call in spec.calls]
        found += [row + values for row, values in zip(own, zip(*results, strict=True), strict=True)]
    return found


class _Changes:
    """Random batches of changes of a table: rows come, go, come twice, change; some come and go in one batch."""

    def __init__(self, fate: random.Random, most: int) -> None:
        self._fate, self._most = fate, most
        self.rows: dict[Any, int] = {}

    def batch(self) -> list[Any]:
        made = []
        for _ in range(self._fate.choice([1, 1, 2, 5])):
            there = [row for row, copies in self.rows.items() if copies]
            shrinks = sum(self.rows.values()) > self._most
            if there and self._fate.random() < (0.7 if shrinks else 0.35):
                row = self._fate.choice(there)
                self.rows[row] -= 1
                made.append(("-D", *row))
                if self._fate.random() < 0.5:
                    made.append(self._add((*row[:VALUE], self._fate.randint(-3, 12), *row[TIME:])))
            elif there and self._fate.random() < 0.15:
                made.append(self._add(self._fate.choice(there)))
            else:
                made.append(self._add(self._row()))
        self.rows = {row: copies for row, copies in self.rows.items() if copies}
        return made

    def _add(self, row: Any) -> Any:
        self.rows[row] = self.rows.get(row, 0) + 1
        return ("+I", *row)

    def _row(self) -> Any:
        fate = self._fate
        value = fate.choice([None, *range(-3, 13)])
        return (
            fate.randint(0, 1), value, fate.randint(0, 12), fate.choice(TEXTS), fate.choice(NUMBERS),
            fate.choice([True, True, False, None]), fate.choice(PRICES), None,
        )  # fmt: skip


@pytest.fixture
def spares_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a large partition."""
    monkeypatch.setattr(on_change, "_FEW_ROWS", 0)


@pytest.mark.usefixtures("spares_every_row")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("calls_max", [1, 3])
def test_every_batch_leaves_the_table_of_the_reference(order: str, calls_max: int) -> None:
    keys, has_range = ORDERS[order]
    for seed in range(14 if calls_max == 1 else 8):
        fate = random.Random(f"{order} {calls_max} {seed}")
        spec = OverSpec(
            (KEY,), keys, _calls(fate, has_range, fate.randint(1, calls_max)), OverTiming.ON_CHANGE
        )
        operator, output, changes = make_operator(spec, _context(spec.calls)), Collected(), _Changes(fate, 20)
        for _ in range(14):
            made = changes.batch()
            feed(operator, [batch(SCHEMA, made, ChangelogMode.RETRACT)], output)
            found = sorted(output.table().elements(), key=repr)
            assert found == sorted(_expected(changes.rows, spec, has_range), key=repr), (
                seed,
                spec.calls,
                made,
            )
            if fate.random() < 0.2:
                snapshot = operator.context.state.snapshot()
                operator = make_operator(spec, _context(spec.calls))
                restore(operator, snapshot)


DIGITS = [
    OverCall("SUM", (NUMBER,), sql.DOUBLE),
    OverCall("AVG", (NUMBER,), sql.DOUBLE, Frame(False, None, 0)),
    OverCall("SUM", (NUMBER,), sql.DOUBLE, Frame(False, -2, 1)),
    OverCall("SUM", (NUMBER,), sql.DOUBLE, Frame(False, -3, 0), is_distinct=True),
    OverCall("AVG", (NUMBER,), sql.DOUBLE, Frame(True, -2, 2)),
    OverCall("VAR_POP", (NUMBER,), sql.DOUBLE),
    OverCall("STDDEV_SAMP", (NUMBER,), sql.DOUBLE, Frame(False, -2, 0)),
    OverCall("MAX", (NUMBER,), sql.DOUBLE, Frame(False, -2, 0)),
]


@pytest.mark.usefixtures("spares_every_row")
@pytest.mark.parametrize("number", range(len(DIGITS)))
def test_sums_of_doubles_have_the_digits_of_a_computation_from_the_first_row_on(number: int) -> None:
    spec = OverSpec((KEY,), (SortKey(VALUE),), (DIGITS[number],), OverTiming.ON_CHANGE)
    for seed in range(4):
        fate = random.Random(seed)
        operator, output, changes = make_operator(spec, _context(spec.calls)), Collected(), _Changes(fate, 30)
        for _ in range(16):
            feed(operator, [batch(SCHEMA, changes.batch(), ChangelogMode.RETRACT)], output)
            # A retracted row has every digit of the one that was emitted, or `table` fails.
            found = output.table()
            anew = Collected()
            rows = [("+I", *row) for row, copies in changes.rows.items() for _ in range(copies)]
            feed(
                make_operator(spec, _context(spec.calls)), [batch(SCHEMA, rows, ChangelogMode.RETRACT)], anew
            )
            assert found == anew.table()


WINDOW = "PARTITION BY key ORDER BY value, id"
ORACLE = {
    f"sum(value) OVER ({WINDOW})": OverCall("SUM", (1,), sql.BIGINT),
    f"max(text) OVER ({WINDOW} ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING)": OverCall(
        "MAX", (2,), sql.STRING, Frame(False, -3, 1)
    ),
    f"dense_rank() OVER ({WINDOW})": OverCall("DENSE_RANK", (), sql.BIGINT),
    f"lag(text, 2) OVER ({WINDOW})": OverCall("LAG", (2,), sql.STRING, number=2),
    f"first_value(text) OVER ({WINDOW})": OverCall("FIRST_VALUE", (2,), sql.STRING),
    f"count(DISTINCT text) OVER ({WINDOW} ROWS BETWEEN 9 PRECEDING AND 2 PRECEDING)": OverCall(
        "COUNT", (2,), sql.BIGINT, Frame(False, -9, -2), is_distinct=True
    ),
}
RANGED = {
    "count(*) OVER (PARTITION BY key ORDER BY value DESC RANGE BETWEEN 50 PRECEDING AND 20 FOLLOWING)": OverCall(
        "COUNT", (), sql.BIGINT, Frame(True, -50, 20)
    ),
    "min(text) OVER (PARTITION BY key ORDER BY value DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 9 PRECEDING)": OverCall(
        "MIN", (2,), sql.STRING, Frame(True, None, -9)
    ),
    "rank() OVER (PARTITION BY key ORDER BY value DESC)": OverCall("RANK", (), sql.BIGINT),
}


@pytest.mark.parametrize(
    ("calls", "order"), [(ORACLE, (SortKey(1), SortKey(3))), (RANGED, (SortKey(1, True, True),))]
)
def test_large_partitions_have_the_results_of_duckdb(calls: dict[str, OverCall], order: Any) -> None:
    schema = Schema.of(("key", sql.INT), ("value", sql.BIGINT), ("text", sql.STRING), ("id", sql.INT))
    spec = OverSpec((0,), order, tuple(calls.values()), OverTiming.ON_CHANGE)
    output_schema = Schema.of(
        *[(f.name, f.type) for f in schema.fields], *[(f"c{i}", c.type) for i, c in enumerate(spec.calls)]
    )
    context = operator_context(
        [schema], output_schema, input_modes=[ChangelogMode.RETRACT], output_mode=ChangelogMode.RETRACT
    )
    operator, output, fate = make_operator(spec, context), Collected(), random.Random(1)
    rows: dict[int, Any] = {}
    for count in (3_000, 1, 7, 300, 2, 40):
        made: list[Any] = []
        for _ in range(count):
            number = fate.randint(0, 3_000)
            if number in rows:
                made.append(("-D", *rows.pop(number)))
            if len(rows) < 1_500 or fate.random() < 0.6:
                value = fate.choice([None, fate.randint(0, 2_000)])
                rows[number] = (fate.randint(0, 2), value, fate.choice(TEXTS), number)
                made.append(("+I", *rows[number]))
        feed(operator, [batch(schema, made, ChangelogMode.RETRACT)], output)
    with duckdb.connect() as oracle:
        oracle.register(
            "held", pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows.values()])
        )
        oracle.execute("SET default_null_order = 'nulls_first'")
        found = oracle.execute(f"SELECT *, {', '.join(calls)} FROM held").fetchall()
    assert output.table() == Counter(found)


@pytest.mark.usefixtures("spares_every_row")
def test_a_partition_that_expires_begins_anew() -> None:
    calls = (OverCall("SUM", (VALUE,), sql.BIGINT), OverCall("DENSE_RANK", (), sql.BIGINT))
    spec = OverSpec((KEY,), (SortKey(VALUE),), calls, OverTiming.ON_CHANGE, state_ttl_ms=10)
    clock = ManualClock(0)
    operator, output = make_operator(spec, _context(calls, now_ms=clock)), Collected()

    def row(key: int, value: int) -> Any:
        return ("+I", key, value, 0, "a", *NOTHING)

    for now_ms, rows in (
        (0, [row(1, 1), row(1, 2), row(2, 7)]),
        (8, [row(1, 3)]),
        (15, [row(3, 5), row(1, 4)]),
    ):
        clock.now_ms = now_ms
        feed(operator, [batch(SCHEMA, rows, ChangelogMode.RETRACT)], output)
    clock.now_ms = 40
    output = Collected()
    feed(operator, [batch(SCHEMA, [row(1, 9), row(2, 8), row(2, 9)], ChangelogMode.RETRACT)], output)
    assert sorted(r[:3] + r[-2:] for r in output.rows) == [
        ("+I", 1, 9, 9, 1),
        ("+I", 2, 8, 8, 1),
        ("+I", 2, 9, 17, 2),
    ]


@pytest.mark.usefixtures("spares_every_row")
def test_rows_that_a_change_does_not_reach_are_not_computed() -> None:
    """By the rows that the calls are given: a change costs those in reach, and running results end with the changed rows once
    they come to what they did before."""
    read: list[int] = []
    for calls, most in (
        ((OverCall("SUM", (VALUE,), sql.BIGINT, Frame(False, -3, 0)),), 20),
        ((OverCall("SUM", (VALUE,), sql.BIGINT, Frame(True, -3, 3)),), 60),
        ((OverCall("LAG", (TEXT,), sql.STRING, number=1), OverCall("FIRST_VALUE", (TEXT,), sql.STRING)), 30),
        ((OverCall("ROW_NUMBER", (), sql.BIGINT), OverCall("COUNT", (), sql.BIGINT)), 40),
        ((OverCall("MAX", (VALUE,), sql.BIGINT, Frame(False)), OverCall("RANK", (), sql.BIGINT)), 60),
    ):
        spec = OverSpec((KEY,), (SortKey(TIME),), calls, OverTiming.ON_CHANGE)
        operator, output = make_operator(spec, _context(calls)), Collected()
        rows = [("+I", 1, n % 7, n // 2, "a", *NOTHING) for n in range(4_000)]
        feed(operator, [batch(SCHEMA, rows, ChangelogMode.RETRACT)], output)
        framed = operator._calls  # type: ignore[attr-defined]
        compute = framed.compute
        framed.compute = lambda rows, prior, c=compute: (read.append(len(rows)), c(rows, prior))[1]
        for place in (3_990, 2_000, 2_001, 4):
            # The row that is replaced has a peer, and so has the one that replaces it.
            old = (1, place % 7, place // 2, "a", *NOTHING)
            new = (
                1,
                (place + 1) % 7 if "SUM" in calls[0].function else place % 7,
                place // 2 + 1,
                "a",
                *NOTHING,
            )
            read.clear()
            feed(operator, [batch(SCHEMA, [("-D", *old), ("+I", *new)], ChangelogMode.RETRACT)], output)
            assert sum(read) <= most, (calls, place)
