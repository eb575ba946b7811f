"""The datagen connector: rows are a pure function of their number, whoever makes them and in what pieces."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators.datagen import Datagen
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus
from sqlstream.types import LogicalType

CONNECTOR = Datagen()
ALL = Schema.of(
    ("n", sql.BIGINT),
    ("tiny", sql.TINYINT),
    ("real", sql.FLOAT),
    ("dbl", sql.DOUBLE),
    ("dec", sql.decimal(20, 3)),
    ("s", sql.STRING),
    ("c", sql.char(3)),
    ("b", sql.varbinary(4)),
    ("bool", sql.BOOLEAN),
    ("ts", sql.timestamp(6)),
    ("ltz", sql.timestamp_ltz(3)),
    ("d", sql.DATE),
    ("t", sql.time(3)),
    ("arr", sql.array(sql.INT)),
    ("m", sql.map_of(sql.TINYINT, sql.varchar(2))),
    ("bag", sql.multiset(sql.INT)),
    ("r", sql.row(("x", sql.INT), ("y", sql.STRING))),
)
OPTIONS = {
    "number-of-rows": "500",
    "rows-per-second": "10000",
    "fields.n.kind": "sequence",
    "fields.n.start": "1",
    "fields.n.end": "1000",
    "fields.s.var-len": "true",
    "fields.s.length": "7",
    "fields.tiny.null-rate": "0.5",
    "fields.arr.element.min": "1",
    "fields.arr.element.max": "3",
}


class Clock:
    now = 1_600_000_000_000


def reader(
    schema: Schema, options: dict[str, str], splits: Any = None, clock: Clock | None = None, **more: int
) -> SourceReader:
    clock = clock or Clock()
    context = ConnectorContext(
        job_id="job",
        vertex_id="vertex",
        subtask=more.get("subtask", 0),
        parallelism=more.get("parallelism", 1),
        attempt=0,
        batch_rows=more.get("batch_rows", 1000),
        config={},
        now_ms=lambda: clock.now,
        count=lambda name, n: None,
        files=None,
    )
    CONNECTOR.validate("t", schema, options)
    return CONNECTOR.source(SourceSpec("t", "datagen", options, schema, schema.names), context, splits)


def drain(made: SourceReader, clock: Clock) -> list[dict[str, Any]]:
    """All rows; time stands still for rows, but goes on when the reader waits."""
    rows: list[dict[str, Any]] = []
    start = clock.now
    while (polled := made.poll()) is not SourceStatus.END:
        if isinstance(polled, pa.RecordBatch):
            rows += polled.to_pylist()
        else:
            clock.now += 1_000
    clock.now = start
    return rows


def all_rows(schema: Schema, options: dict[str, str], **more: int) -> list[dict[str, Any]]:
    clock = Clock()
    return drain(reader(schema, options, clock=clock, **more), clock)


UNTIMED = Schema(tuple(f for f in ALL.fields if f.name not in ("ts", "ltz", "d", "t")))


@given(st.integers(1, 5), st.integers(1, 300))
@settings(max_examples=15, deadline=None, database=None)
def test_rows_do_not_depend_on_readers_or_batches(parallelism: int, batch_rows: int) -> None:
    expected = all_rows(UNTIMED, OPTIONS)
    found = [
        row
        for subtask in range(parallelism)
        for row in all_rows(UNTIMED, OPTIONS, subtask=subtask, parallelism=parallelism, batch_rows=batch_rows)
    ]
    assert sorted(found, key=lambda r: r["n"]) == expected
    assert [r["n"] for r in expected] == list(range(1, 501))


def test_another_seed_gives_other_rows() -> None:
    schema = Schema.of(("v", sql.BIGINT))
    one, other = (all_rows(schema, {"number-of-rows": "5", "seed": seed}) for seed in "12")
    assert not {r["v"] for r in one} & {r["v"] for r in other}


def test_batches_have_the_types_of_the_table() -> None:
    batch = reader(ALL, OPTIONS).poll()
    assert isinstance(batch, pa.RecordBatch)
    batch.validate(full=True)
    assert batch.schema.types == to_arrow_schema(ALL).types


def test_options_bound_the_values() -> None:
    rows = all_rows(ALL, OPTIONS)
    assert {v for r in rows for v in r["arr"]} == {1, 2, 3}
    assert {len(r["s"]) for r in rows} == set(range(1, 8))
    assert {len(r["c"]) for r in rows} == {3}
    assert {len(r["b"]) for r in rows} == {4}
    assert 150 < sum(r["tiny"] is None for r in rows) < 350
    assert all(len(dict(r["m"])) == len(r["m"]) for r in rows)


@pytest.mark.parametrize(
    ("t", "low", "high"),
    [
        (sql.INT, -3, 3),
        (sql.BIGINT, -(2**63), 2**63 - 1),
        (sql.DOUBLE, -0.5, 0.5),
        (sql.decimal(10, 2), Decimal("-1.25"), Decimal("1.25")),
    ],
)
def test_random_numbers_fill_their_range(t: LogicalType, low: Any, high: Any) -> None:
    options = {"number-of-rows": "1000", "fields.v.min": str(low), "fields.v.max": str(high)}
    values = [r["v"] for r in all_rows(Schema.of(("v", t)), options)]
    third = (high - low) / 3
    assert low <= min(values) < low + third
    assert high - third < max(values) <= high


def test_a_table_ends_with_its_sequence() -> None:
    options = {"fields.v.kind": "sequence", "fields.v.start": "8", "fields.v.end": "10"}
    assert [r["v"] for r in all_rows(Schema.of(("v", sql.STRING)), options)] == ["8", "9", "10"]


def test_rows_come_at_their_rate() -> None:
    clock = Clock()
    made = reader(Schema.of(("v", sql.INT)), {"rows-per-second": "1000"}, clock=clock)
    seen = 0
    for _ in range(10):
        while isinstance(batch := made.poll(), pa.RecordBatch):
            seen += batch.num_rows
        assert batch is SourceStatus.NOTHING_YET
        clock.now += 100
    assert 900 <= seen <= 1_000


def test_rows_go_on_at_their_rate_when_the_clock_is_set_back() -> None:
    clock, polled, before = Clock(), 0, 0
    made = reader(Schema.of(("v", sql.INT)), {"rows-per-second": "1000"}, clock=clock)
    for now in (100_000, 101_000, 1_000, 2_000):
        clock.now = now
        while isinstance(rows := made.poll(), pa.RecordBatch):
            polled += rows.num_rows
        if now == 101_000:
            before = polled
    assert polled - before == 1_000


def test_timestamps_lie_in_the_past_that_is_allowed() -> None:
    schema = Schema.of(("a", sql.timestamp_ltz(3)), ("b", sql.timestamp_ltz(3)))
    rows = all_rows(schema, {"number-of-rows": "100", "fields.b.max-past": "10 s"})
    assert {r["a"].timestamp() for r in rows} == {Clock.now / 1000}
    assert all(0 <= Clock.now / 1000 - r["b"].timestamp() <= 10 for r in rows)
    assert len({r["b"] for r in rows}) > 50


@pytest.mark.parametrize("polls", [0, 1, 3])
def test_a_restored_reader_goes_on_with_the_next_row(polls: int) -> None:
    clock = Clock()
    options = OPTIONS | {"rows-per-second": "1000"}
    made = reader(UNTIMED, options, clock=clock)
    seen: list[dict[str, Any]] = []
    while polls:
        batch = made.poll()
        clock.now += 5
        if isinstance(batch, pa.RecordBatch):
            seen += batch.to_pylist()
            polls -= 1
    restored = reader(UNTIMED, options, splits=made.snapshot(), clock=clock)
    assert seen + drain(restored, clock) == all_rows(UNTIMED, options)


@pytest.mark.parametrize(
    ("t", "options", "message"),
    [
        (sql.INT, {"kind": "sequence", "end": "5"}, 'needs the option "fields.v.start"'),
        (sql.INT, {"kind": "sequence", "start": "5", "end": "4"}, "cannot go from 5 to 4"),
        (sql.BOOLEAN, {"kind": "sequence"}, 'cannot be "sequence" for BOOLEAN'),
        (sql.STRING, {"min": "1"}, '"fields.v.min" has no use'),
        (sql.INT, {"start": "1"}, '"fields.v.start" has no use'),
        (sql.TINYINT, {"max": "300"}, "leave no value"),
        (sql.INT, {"min": "x"}, 'takes a whole number, not "x"'),
        (sql.varchar(5), {"length": "6"}, "cannot have the length 6"),
        (sql.INT.not_null(), {"null-rate": "0.5"}, "cannot be 0.5"),
    ],
)
def test_options_that_do_not_fit_are_refused(t: LogicalType, options: dict[str, str], message: str) -> None:
    written = {f"fields.v.{name}": value for name, value in options.items()}
    with pytest.raises(UserError, match=message):
        CONNECTOR.validate("t", Schema.of(("v", t)), written)


def test_a_reader_without_rows_says_when_the_next_one_is_due() -> None:
    clock = Clock()
    made = reader(Schema.of(("n", sql.BIGINT)), {"rows-per-second": "2"}, clock=clock)
    rows = []
    for _ in range(10):
        while isinstance(batch := made.poll(), pa.RecordBatch):
            rows.append((clock.now - Clock.now, batch.num_rows))
        due_ms = made.next_poll_ms()
        assert due_ms is not None
        clock.now = due_ms - 1
        assert made.poll() is SourceStatus.NOTHING_YET, "nothing comes before it is due"
        clock.now = due_ms
    assert rows == [(0, 1), *((n * 500, 1) for n in range(1, 10))]


def test_a_slow_table_gives_its_rows_twice_a_second_when_all_slow_tables_do() -> None:
    clock = Clock()
    clock.now += 70
    made = reader(Schema.of(("n", sql.BIGINT)), {"rows-per-second": "10"}, clock=clock)
    rows = []
    for _ in range(4):
        while isinstance(batch := made.poll(), pa.RecordBatch):
            rows.append((clock.now - Clock.now, batch.num_rows))
        due_ms = made.next_poll_ms()
        assert due_ms is not None
        clock.now = due_ms
    assert rows == [(70, 5), (500, 5), (1_000, 5), (1_500, 5)]


ROWS_FILE = Path(__file__).with_name("datagen_rows.out")
MORE = Schema.of(
    ("small", sql.SMALLINT),
    ("day", sql.INTERVAL_DAY_TIME),
    ("month", sql.INTERVAL_YEAR_MONTH),
    ("negative", sql.decimal(5, 1)),
    ("down", sql.BIGINT),
    ("name", sql.STRING),
    ("price", sql.decimal(30, 2)),
    ("some", sql.varchar(4)),
    ("past", sql.timestamp(3)),
)


def test_rows_stay_what_they_are_for_a_seed(golden: Callable[[Path, str], None]) -> None:
    """A job that is restored by another release goes on with the same rows."""
    options = {
        **OPTIONS,
        "number-of-rows": "6",
        "seed": "-7",
        "fields.dbl.min": "-1.5",
        "fields.dec.max": "99.125",
        "fields.bag.length": "2",
        "fields.r.x.null-rate": "1",
        "fields.small.min": "-5",
        "fields.small.max": "5",
        "fields.negative.min": "-9.9",
        "fields.negative.max": "-0.1",
        "fields.down.kind": "sequence",
        "fields.down.start": "-3",
        "fields.down.end": "9",
        "fields.name.kind": "sequence",
        "fields.name.start": "7",
        "fields.name.end": "99",
        "fields.price.kind": "sequence",
        "fields.price.start": "1",
        "fields.price.end": "9",
        "fields.some.var-len": "true",
        "fields.past.max-past": "1 d",
    }
    schema = Schema((*ALL.fields, *MORE.fields))
    rows = all_rows(schema, options)

    def text(value: Any) -> str:
        return str(value.isoformat()) if hasattr(value, "isoformat") else repr(value)

    lines = [f"{name}: {' | '.join(text(row[name]) for row in rows)}" for name in schema.names]
    golden(ROWS_FILE, "\n".join(lines))


@pytest.mark.parametrize("limit", [0, 1, 5, 500, 501])
def test_a_limit_ends_the_table(limit: int) -> None:
    clock = Clock()
    spec = SourceSpec("t", "datagen", OPTIONS, UNTIMED, ("n",), limit=limit)
    base = ConnectorContext("job", "v", 0, 1, 0, 100, {}, lambda: clock.now, lambda name, n: None, None)
    found = drain(CONNECTOR.source(spec, base, None), clock)
    assert [r["n"] for r in found] == list(range(1, min(limit, 500) + 1))


def test_the_size_of_a_table_is_estimated_by_its_columns() -> None:
    for columns, expected in ((("n", "s"), 100_000), (("n",), 50_000), ((), 50_000)):
        spec = SourceSpec("t", "datagen", OPTIONS, ALL, columns)
        assert CONNECTOR.input_bytes(spec, None) == expected


@pytest.mark.parametrize(
    ("t", "options"),
    [
        (sql.INT, {"null-rate": "1"}),
        (sql.INT, {"null-rate": "0"}),
        (sql.INT.not_null(), {"null-rate": "0"}),
        (sql.INT, {"min": "3", "max": "3"}),
        (sql.TINYINT, {"kind": "sequence", "start": "-128", "end": "127"}),
        (sql.varchar(5), {"length": "5"}),
        (sql.STRING, {"length": "0"}),
    ],
)
def test_options_at_their_bounds_are_taken(t: LogicalType, options: dict[str, str]) -> None:
    written = {f"fields.v.{name}": value for name, value in options.items()}
    CONNECTOR.validate("t", Schema.of(("v", t)), written)


@pytest.mark.parametrize(
    ("t", "options"),
    [
        (sql.INT, {"null-rate": "1.01"}),
        (sql.TINYINT, {"kind": "sequence", "start": "-129", "end": "0"}),
        (sql.TINYINT, {"kind": "sequence", "start": "0", "end": "128"}),
        (sql.BIGINT, {"kind": "sequence", "start": "0", "end": str(2**63)}),
        (sql.STRING, {"kind": "sequence", "start": "0", "end": str(2**63)}),
        (sql.INT, {"min": "4", "max": "3"}),
    ],
)
def test_options_beyond_their_bounds_are_refused(t: LogicalType, options: dict[str, str]) -> None:
    written = {f"fields.v.{name}": value for name, value in options.items()}
    with pytest.raises(UserError) as caught:
        CONNECTOR.validate("t", Schema.of(("v", t)), written)
    assert caught.value.code == "SS4002"


@pytest.mark.parametrize(("length", "count"), [("2", 5), ("3", 3), ("10", 1)])
def test_a_table_ends_with_the_sequence_of_its_elements(length: str, count: int) -> None:
    options = {
        "fields.v.length": length,
        "fields.v.element.kind": "sequence",
        "fields.v.element.start": "1",
        "fields.v.element.end": "10",
    }
    rows = [r["v"] for r in all_rows(Schema.of(("v", sql.array(sql.INT))), options)]
    size = int(length)
    assert rows == [list(range(n * size + 1, (n + 1) * size + 1)) for n in range(count)]
