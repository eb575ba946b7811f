"""The Nexmark connector: what a table may declare, how readers share the stream, how they go on."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.generators.nexmark import Nexmark
from sqlstream.runtime.connectors.generators.nexmark_config import FIGURES, NexmarkConfig, NexmarkOptions
from sqlstream.runtime.connectors.generators.nexmark_generator import NexmarkGenerator
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext, SourceReader, SourceStatus

CONNECTOR = Nexmark()
SCHEMAS = CONNECTOR.descriptor.reading.schemas


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        return self.now


def context(subtask: int = 0, parallelism: int = 1, batch_rows: int = 100, clock: Clock | None = None) -> Any:
    return ConnectorContext(
        job_id="job",
        vertex_id="vertex",
        subtask=subtask,
        parallelism=parallelism,
        attempt=0,
        batch_rows=batch_rows,
        config={},
        now_ms=(clock or Clock()).now_ms,
        count=lambda name, n: None,
        files=None,
    )


def spec(table: str = "bid", columns: tuple[str, ...] = (), **options: str) -> SourceSpec:
    written = {"nexmark." + key.replace("_", "-"): value for key, value in options.items()}
    return SourceSpec(
        table="t",
        connector="nexmark",
        options={"connector": "nexmark", "nexmark.table": table, **written},
        schema=SCHEMAS[table],
        columns=columns or SCHEMAS[table].names,
    )


def drain(readers: list[SourceReader]) -> pa.Table:
    """All rows, polling readers in turn; a reader that says END is done."""
    batches = []
    while readers:
        for reader in list(readers):
            polled = reader.poll()
            if polled is SourceStatus.END:
                readers.remove(reader)
            elif isinstance(polled, pa.RecordBatch):
                assert polled.num_rows > 0
                batches.append(polled)
    return pa.Table.from_batches(batches)


def whole(count: int, table: str = "bids", **figures: int) -> list[str]:
    return sorted(map(repr, getattr(NexmarkGenerator(NexmarkConfig(**figures)), table)(0, count).to_pylist()))


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("table", "method"),
    [("person", "persons"), ("auction", "auctions"), ("bid", "bids"), ("events", "events")],
)
def test_readers_together_make_each_event_once(table: str, method: str, parallelism: int) -> None:
    readers = [
        CONNECTOR.source(spec(table, events="1234"), context(p, parallelism), None)
        for p in range(parallelism)
    ]
    assert sorted_rows(drain(readers)) == whole(1234, method)


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(0, 3000),
    before=st.integers(1, 4),
    after=st.integers(1, 4),
    polls=st.lists(st.integers(0, 3), max_size=12),
)
def test_restored_at_another_parallelism_no_event_is_lost_or_made_twice(
    count: int, before: int, after: int, polls: list[int]
) -> None:
    source = spec(events=str(count), columns=("auction", "price", "dateTime"))
    readers = [CONNECTOR.source(source, context(p, before), None) for p in range(before)]
    batches = [readers[p % before].poll() for p in polls]
    splits = [split for reader in readers for split in reader.snapshot()]
    restored = [CONNECTOR.source(source, context(p, after, 37), splits[p::after]) for p in range(after)]
    made = [batch for batch in batches if isinstance(batch, pa.RecordBatch)]
    schema = pa.schema([("auction", pa.int64()), ("price", pa.int64()), ("dateTime", pa.timestamp("ms"))])
    rest = [batch for reader in restored for batch in iter(reader.poll, SourceStatus.END)]
    rows = sorted_rows(pa.Table.from_batches([*made, *rest], schema=schema))
    expected = NexmarkGenerator(NexmarkConfig()).bids(0, count, ["auction", "price", "dateTime"]).to_pylist()
    assert rows == sorted(map(repr, expected))


def test_readers_advance_together_in_event_time() -> None:
    readers = [CONNECTOR.source(spec(events="600", rate="1000"), context(p, 3), None) for p in range(3)]
    firsts = [[reader.poll().column("dateTime")[0].value for reader in readers] for _ in range(2)]  # type: ignore[union-attr]
    start = NexmarkConfig().base_time_ms
    assert [[t - start for t in row] for row in firsts] == [[4, 104, 204], [304, 404, 504]]


@pytest.mark.parametrize(("table", "rows"), [("person", 32), ("auction", 96), ("bid", 97), ("events", 100)])
def test_batches_are_sized_by_rows_of_the_kind_within_sixteen_batches_of_events(
    table: str, rows: int
) -> None:
    reader = CONNECTOR.source(spec(table, events="1000000"), context(), None)
    assert reader.poll().num_rows == rows  # type: ignore[union-attr]


def test_rows_of_a_frequent_kind_fill_a_batch_whatever_its_share() -> None:
    figures = {"person_proportion": "10", "auction_proportion": "10", "bid_proportion": "20"}
    source = spec("person", events="1000000", **{k.replace("_", "."): v for k, v in figures.items()})
    assert CONNECTOR.source(source, context(), None).poll().num_rows == 100  # type: ignore[union-attr]


@pytest.mark.parametrize("table", ["person", "auction", "bid"])
def test_each_reader_of_a_short_stream_has_rows(table: str) -> None:
    readers = [CONNECTOR.source(spec(table, events="3000"), context(p, 4), None) for p in range(4)]
    assert all(isinstance(reader.poll(), pa.RecordBatch) for reader in readers)


def test_a_paced_reader_of_a_rare_kind_does_not_wait_for_a_batch_of_it() -> None:
    clock = Clock()
    source = spec("person", rate="5000", columns=("id",))
    reader = CONNECTOR.source(source, context(clock=clock), None)
    assert reader.poll() is SourceStatus.NOTHING_YET
    clock.now += 100
    assert reader.poll().column("id").to_pylist() == [1000, 1001]  # type: ignore[union-attr]


def test_columns_come_in_the_order_of_the_spec() -> None:
    reader = CONNECTOR.source(spec(events="100", columns=("price", "auction")), context(), None)
    batch = reader.poll()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.names == ["price", "auction"]
    assert reader.poll() is SourceStatus.END


@pytest.mark.parametrize("table", ["person", "auction", "bid", "events"])
def test_batches_have_the_declared_schema(table: str) -> None:
    batch = CONNECTOR.source(spec(table, events="100"), context(), None).poll()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema == to_arrow_schema(SCHEMAS[table])


def test_a_row_column_has_the_fields_that_the_table_declares() -> None:
    narrow = Schema.of(
        ("event_type", sql.INT), ("bid", sql.row(("price", sql.BIGINT), ("auction", sql.BIGINT)))
    )
    source = spec("events", events="50")
    source = SourceSpec(
        table="t", connector="nexmark", options=source.options, schema=narrow, columns=("bid", "event_type")
    )
    CONNECTOR.validate("t", narrow, source.options)
    batch = CONNECTOR.source(source, context(), None).poll()
    assert isinstance(batch, pa.RecordBatch)
    assert batch.schema.field("bid").type == pa.struct({"price": pa.int64(), "auction": pa.int64()})
    assert batch.schema.names == ["bid", "event_type"]


def test_a_paced_reader_makes_what_is_due() -> None:
    clock = Clock()
    source = spec("events", rate="1000", columns=("event_type",))
    reader = CONNECTOR.source(source, context(clock=clock), None)
    assert reader.poll() is SourceStatus.NOTHING_YET
    assert reader.next_poll_ms() == clock.now + 100
    clock.now += 104
    assert reader.poll().num_rows == 100  # type: ignore[union-attr]
    clock.now += 95
    assert reader.poll() is SourceStatus.NOTHING_YET, "rows that are due between two ticks come at the second"
    clock.now += 152
    made = [batch.num_rows for batch in iter(reader.poll, SourceStatus.NOTHING_YET)]  # type: ignore[union-attr]
    # Blocks are as large as a batch.
    assert made == [100, 100]


def test_paced_readers_that_take_turns_each_have_a_block_at_every_tick() -> None:
    clocks = [Clock() for _ in range(2)]
    source = spec("events", rate="1000", columns=("event_type",))
    readers = [CONNECTOR.source(source, context(n, 2, clock=clock), None) for n, clock in enumerate(clocks)]
    for reader, clock in zip(readers, clocks, strict=True):
        assert reader.poll() is SourceStatus.NOTHING_YET
        for _ in range(3):
            clock.now += 100
            assert reader.poll().num_rows == 50  # type: ignore[union-attr]
            assert reader.poll() is SourceStatus.NOTHING_YET


def test_a_restored_paced_reader_does_not_hurry_to_catch_up() -> None:
    clock = Clock()
    source = spec("events", rate="1000", columns=("event_type",))
    split = {"share": 0, "shares": 1, "block_rows": 10, "position": 123_456}
    reader = CONNECTOR.source(source, context(clock=clock), [split])
    assert reader.poll() is SourceStatus.NOTHING_YET
    clock.now += 100
    assert sum(batch.num_rows for batch in iter(reader.poll, SourceStatus.NOTHING_YET)) == 100  # type: ignore[union-attr]


def test_paced_stream_with_an_end_ends() -> None:
    clock = Clock()
    source = spec("events", rate="1000", events="5", paced="true", columns=("event_type",))
    reader = CONNECTOR.source(source, context(clock=clock), None)
    assert reader.poll() is SourceStatus.NOTHING_YET
    clock.now += 1000
    assert reader.poll().num_rows == 5  # type: ignore[union-attr]
    assert reader.poll() is SourceStatus.END


def test_only_a_table_with_a_number_of_events_is_bounded() -> None:
    boundedness = CONNECTOR.descriptor.reading.boundedness
    assert boundedness.is_bounded({"nexmark.events": "10"})
    assert not boundedness.is_bounded({})


def test_the_options_of_the_public_suite_stand_for_ours() -> None:
    suite = {
        "first-event.rate": "1000",
        "next-event.rate": "1000",
        "events.num": "500",
        "rate.limited": "true",
        "bid.avg-size": "1 kb",
        "person.proportion": "2",
        "bid.hot-ratio.auctions": "7",
        "keep-alive": "false",
    }
    ours = {
        "nexmark.rate": "1000",
        "nexmark.events": "500",
        "nexmark.paced": "true",
        "nexmark.bid.avg-size": "1024",
        "nexmark.person.proportion": "2",
        "nexmark.bid.hot-ratio.auctions": "7",
    }
    assert NexmarkOptions.parse(suite) == NexmarkOptions.parse(ours)
    assert NexmarkOptions.parse(suite | {"nexmark.seed": "3"}).config.seed == 3
    boundedness = CONNECTOR.descriptor.reading.boundedness
    assert boundedness.is_bounded(suite)
    assert not boundedness.is_bounded({"events.num": "0"})
    assert NexmarkOptions.parse({"events.num": "0"}).event_count is None
    with pytest.raises(UserError, match="a stream has one rate, and not 1000 and then 2000"):
        NexmarkOptions.parse(suite | {"next-event.rate": "2000"})


def test_every_option_reaches_the_figures() -> None:
    options = {key: "2" for key in FIGURES if key != "nexmark.base-time"}
    parsed = NexmarkOptions.parse({**options, "nexmark.base-time": "1970-01-01 00:00:00.002"}).config
    assert parsed == NexmarkConfig(**{name: 2 for name, *_ in FIGURES.values()})


def test_defaults_that_the_descriptor_shows_are_those_used() -> None:
    shown = {
        o.key: o.default for o in CONNECTOR.descriptor.options if o.key in FIGURES and o.default is not None
    }
    assert NexmarkOptions.parse(shown) == NexmarkOptions.parse({})


def test_every_table_of_the_generator_can_be_declared() -> None:
    for table, schema in SCHEMAS.items():
        CONNECTOR.validate("t", schema, {"nexmark.table": table.upper()})


def test_declared_string_lengths_and_not_null_are_accepted() -> None:
    schema = Schema.of(("url", sql.varchar(5)), ("price", sql.BIGINT.not_null()))
    CONNECTOR.validate("t", schema, {"nexmark.table": "bid"})


@pytest.mark.parametrize(
    ("column", "code", "message", "hint"),
    [
        (
            ("prise", sql.BIGINT),
            "SS2003",
            'column "prise" of table "t" does not exist',
            'did you mean "price"?',
        ),
        (("price", sql.INT), "SS2010", 'column "price" of table "t" is INT, but', "declare it as BIGINT"),
        (("dateTime", sql.timestamp(6)), "SS2010", "is TIMESTAMP(6), but", "declare it as TIMESTAMP(3)"),
    ],
)
def test_a_column_of_another_name_or_type_is_refused(column: Any, code: str, message: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        CONNECTOR.validate("t", Schema.of(column), {"nexmark.table": "bid"})
    assert caught.value.code == code
    assert message in caught.value.message
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nexmark.rate": "0"}, 'option "nexmark.rate" must be at least 1, not 0'),
        ({"nexmark.bid.avg-size": "10001"}, 'option "nexmark.bid.avg-size" must be at most 10000, not 10001'),
        ({"nexmark.base-time": "noon"}, 'option "nexmark.base-time" takes a timestamp, not "noon"'),
    ],
)
def test_an_option_out_of_bounds_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as caught:
        CONNECTOR.validate("t", Schema(()), options)
    assert (caught.value.code, caught.value.message) == ("SS4002", message)


def test_the_connector_loads_without_its_heavy_libraries() -> None:
    code = "import sys, sqlstream.runtime.connectors.generators.nexmark; print({'numba', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "set()"


def test_the_registry_knows_the_connector() -> None:
    from sqlstream.runtime.connectors import connector

    assert isinstance(connector("nexmark"), Nexmark)
    assert connector("nexmark").descriptor.identifier == "nexmark"
