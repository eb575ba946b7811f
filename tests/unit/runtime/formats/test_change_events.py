"""Formats of change events: an event becomes the rows that it changes, and a changelog becomes events."""

from __future__ import annotations

import base64
import datetime
import io
import json
from decimal import Decimal
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.batch_plan import BatchTable
from sqlstream.changelog import ROW_KIND_COLUMN, RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.change_events.debezium import DEBEZIUM
from sqlstream.runtime.formats.change_events.events import TELLS, UNKNOWN
from sqlstream.schema import Field, Schema
from sqlstream.specs import EventSourceSpec
from sqlstream.spi.format import CountsEvents, EventDemand, ReadRequest

SCHEMA = Schema(
    (
        Field("id", sql.INT.not_null()),
        Field("name", sql.STRING),
        Field("price", sql.decimal(10, 2)),
    )
)
INSERT, BEFORE, AFTER, DELETE = RowKind
OLD = {"id": 1, "name": "a", "price": 1.5}
NEW = {"id": 1, "name": None, "price": 2.5}
OLD_ROW = (1, "a", Decimal("1.50"))
NEW_ROW = (1, None, Decimal("2.50"))
Row = tuple[RowKind, Any]


def read(
    identifier: str,
    events: list[Any],
    columns: tuple[str, ...] = SCHEMA.names,
    skip_rows: int = 0,
    block_bytes: int | None = None,
    **options: str,
) -> tuple[list[Row], list[tuple[int, str]]]:
    """The rows, and the lines of the rejected events with their reasons."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    given = {key.replace("_", "-"): value for key, value in options.items()}
    given = {key.replace("database-include", "database.include"): value for key, value in given.items()}
    stream = io.BytesIO("\n".join(lines).encode())
    reader = format_of(identifier).reader(
        ReadRequest(stream, "f.json", SCHEMA, columns, given, 100, skip_rows, block_bytes)
    )
    rows: list[Row] = []
    rejected = []
    for batch, faults in reader.batches():
        for *values, kind in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            rows.append((RowKind(kind), tuple(values)))
        rejected += [(fault.line, fault.reason) for fault in faults]
    return rows, rejected


def test_debezium_events_carry_both_rows() -> None:
    events = [
        {"before": None, "after": OLD, "op": "c", "source": {"table": "t"}, "ts_ms": 5},
        {"before": OLD, "after": NEW, "op": "u"},
        "",
        {"before": NEW, "after": None, "op": "d"},
        {"after": OLD, "op": "r"},
    ]
    expected = [(INSERT, OLD_ROW), (BEFORE, OLD_ROW), (AFTER, NEW_ROW), (DELETE, NEW_ROW), (INSERT, OLD_ROW)]
    assert read("debezium-json", events) == (expected, [])
    payloads = [{"schema": {"type": "struct"}, "payload": event} for event in events if event]
    assert read("debezium-json", payloads, schema_include="true") == (expected, [])


def test_golden_gate_names_the_operation_in_its_way() -> None:
    events = [
        {"after": OLD, "op_type": "I"},
        {"before": OLD, "after": NEW, "op_type": "U"},
        {"before": NEW, "op_type": "D"},
    ]
    expected = [(INSERT, OLD_ROW), (BEFORE, OLD_ROW), (AFTER, NEW_ROW), (DELETE, NEW_ROW)]
    assert read("ogg-json", events) == (expected, [])


def test_an_updated_field_is_old_when_it_is_named_even_if_it_was_null() -> None:
    update = {"data": OLD, "old": {"name": None}, "type": "update"}
    before = (1, None, Decimal("1.50"))
    assert read("maxwell-json", [update]) == ([(BEFORE, before), (AFTER, OLD_ROW)], [])
    events = [{"data": OLD, "type": "insert"}, {"data": OLD, "type": "delete"}]
    assert read("maxwell-json", events) == ([(INSERT, OLD_ROW), (DELETE, OLD_ROW)], [])


def test_a_canal_event_has_several_rows() -> None:
    events = [
        {"data": [OLD, NEW], "type": "INSERT", "database": "d", "table": "t"},
        {"data": [NEW, OLD], "old": [{"name": "a", "price": None}, {"name": None}], "type": "UPDATE"},
        {"data": None, "type": "CREATE"},
        {"data": [OLD], "old": None, "type": "DELETE"},
    ]
    assert read("canal-json", events) == (
        [
            *((INSERT, OLD_ROW), (INSERT, NEW_ROW)),
            *((BEFORE, (1, "a", None)), (AFTER, NEW_ROW)),
            *((BEFORE, (1, None, Decimal("1.50"))), (AFTER, OLD_ROW)),
            (DELETE, OLD_ROW),
        ],
        [],
    )


def test_canal_reads_the_databases_that_are_meant() -> None:
    events = [{"data": [OLD], "type": "INSERT", "database": name} for name in ("shop", "shop2", "bank")]
    rows, _ = read("canal-json", events, database_include="shop.*")
    assert len(rows) == 2
    assert len(read("canal-json", events)[0]) == 3
    assert read("canal-json", events, database_include="shop")[0] == [(INSERT, OLD_ROW)]


@pytest.mark.parametrize(
    ("identifier", "event", "reason"),
    [
        ("debezium-json", {"before": None, "after": NEW, "op": "u"}, "the row before the change is missing"),
        ("debezium-json", {"before": OLD, "after": None, "op": "c"}, "the row after the change is missing"),
        ("debezium-json", {"before": None, "after": OLD, "op": "d"}, "the row before the change is missing"),
        ("debezium-json", {"after": OLD, "op": "x"}, "it is a change of no kind that there is"),
        ("debezium-json", {"after": OLD}, "it is a change of no kind that there is"),
        ("debezium-json", "[]", "it is no JSON object"),
        ("canal-json", {"data": [OLD], "old": None, "type": "UPDATE"}, "the row before the change is missing"),
        ("canal-json", {"data": [OLD, NEW], "old": [{}], "type": "UPDATE"}, "the row before the change is missing"),
        ("maxwell-json", {"data": OLD, "type": "update"}, "the row before the change is missing"),
        ("maxwell-json", {"type": "insert"}, "the row after the change is missing"),
    ],
)  # fmt: skip
def test_an_event_without_what_it_needs_is_undecodable(identifier: str, event: Any, reason: str) -> None:
    good = {
        "debezium-json": {"after": OLD, "op": "c"},
        "canal-json": {"data": [OLD], "type": "INSERT"},
        "maxwell-json": {"data": OLD, "type": "insert"},
    }[identifier]
    rows, rejected = read(identifier, [good, event, good], ignore_parse_errors="true")
    assert rows == [(INSERT, OLD_ROW)] * 2
    assert rejected == [(2, reason)]
    with pytest.raises(UserError, match="SS5011") as raised:
        read(identifier, [good, event])
    assert f"'{identifier}.ignore-parse-errors' = 'true'" in (raised.value.hint or "")


def test_rows_are_passed_over_by_their_number_and_columns_are_chosen() -> None:
    events = [
        {"data": OLD, "type": "insert"},
        {"data": NEW, "old": {"name": "a", "price": 1.5}, "type": "update"},
    ]
    assert read("maxwell-json", events, ("price",), skip_rows=1) == (
        [(BEFORE, (Decimal("1.50"),)), (AFTER, (Decimal("2.50"),))],
        [],
    )
    assert read("maxwell-json", events, ()) == ([(INSERT, ()), (BEFORE, ()), (AFTER, ())], [])
    whole = read("maxwell-json", events * 50)
    for skip_rows in (0, 1, 2, 77):
        rows, _ = read("maxwell-json", events * 50, skip_rows=skip_rows, block_bytes=200)
        assert rows == whole[0][skip_rows:]


@pytest.mark.parametrize("identifier", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_a_changelog_is_written_as_events_that_say_the_same(identifier: str) -> None:
    rows = [(1, "a", Decimal("1.50")), (1, 'b"', None), (2, None, Decimal("0.00"))]
    columns = [
        pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), to_arrow_schema(SCHEMA), strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(SCHEMA))
    kinds = pa.array([BEFORE, AFTER, DELETE], pa.int8()).to_numpy()
    stream = io.BytesIO()
    writer = format_of(identifier).writer(stream, SCHEMA, {})
    writer.write(batch)
    writer.write(with_row_kinds(batch, kinds))
    writer.close()
    lines = stream.getvalue().decode().splitlines()
    assert len(lines) == 6
    kept = [(INSERT, row) for row in rows]
    assert read(identifier, lines) == (
        [*kept, (DELETE, rows[0]), (INSERT, rows[1]), (DELETE, rows[2])],
        [],
    )


def test_events_with_their_schema_can_only_be_read() -> None:
    with pytest.raises(UserError, match="can only be read"):
        format_of("debezium-json").writer(io.BytesIO(), SCHEMA, {"schema-include": "true"})


def test_an_event_of_canal_without_its_rows_is_undecodable() -> None:
    events = [{"type": "INSERT"}, {"type": "DELETE", "data": None}, {"type": "INSERT", "data": []}]
    expected = [(1, "the row after the change is missing"), (2, "the row before the change is missing")]
    assert read("canal-json", events, ignore_parse_errors="true") == ([], expected)


@pytest.mark.parametrize(("identifier", "old"), [("maxwell-json", "%s"), ("canal-json", "[%s]")])
def test_the_last_of_repeated_members_says_what_an_update_changed(identifier: str, old: str) -> None:
    first, last = old % '{"name": "z"}', old % '{"price": 1.5, "name": "a"}'
    kind = "update" if identifier == "maxwell-json" else "UPDATE"
    data = old % json.dumps(NEW)
    event = f'{{"type": "{kind}", "data": {data}, "old": {first}, "old": {last}}}'
    assert read(identifier, [event]) == ([(BEFORE, OLD_ROW), (AFTER, NEW_ROW)], [])


def read_by_key(
    identifier: str,
    events: list[Any],
    schema: Schema = SCHEMA,
    metadata: tuple[Field, ...] = (),
    is_marked: bool = True,
    **options: str,
) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    """Rows of a table with the key `id`: the kind, the values, and what more there is; and the counts of other events."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    given = {key.replace("_", "-"): value for key, value in options.items()}
    form = format_of(identifier)
    marked = schema.names if is_marked and form.descriptor.leaves_out_values else ()
    demand = EventDemand(("id",), metadata, marked)
    stream = io.BytesIO("\n".join(lines).encode())
    reader = form.reader(ReadRequest(stream, "f.json", schema, schema.names, given, demand=demand))
    rows: list[tuple[Any, ...]] = []
    counts: dict[str, int] = {}
    for batch, _ in reader.batches():
        names = [name for name in batch.schema.names if name != ROW_KIND_COLUMN]
        values = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        kinds = map(RowKind, batch.column(ROW_KIND_COLUMN).to_pylist())
        unmarked = slice(-1) if marked else slice(None)
        for kind, row in zip(kinds, values, strict=True):
            rows.append((kind, *(row[unmarked] if marked and row[-1] is None else row)))
        assert isinstance(reader, CountsEvents)
        for metric, number in reader.take_counts().items():
            counts[metric] = counts.get(metric, 0) + number
    return rows, {metric: number for metric, number in counts.items() if number}


GONE = (1, None, None)


def test_by_key_a_deletion_needs_no_more_than_the_key_and_an_update_nothing_from_before() -> None:
    events = [
        {"before": None, "after": OLD, "op": "r"},
        {"before": None, "after": NEW, "op": "u"},
        {"before": {"id": 1, "name": None, "price": None}, "after": None, "op": "d"},
        {"before": {"id": 1}, "op": "d"},
    ]
    assert read_by_key("debezium-json", events) == (
        [(INSERT, *OLD_ROW), (AFTER, *NEW_ROW), (DELETE, *GONE), (DELETE, *GONE)],
        {},
    )
    golden_gate = [
        {"after": OLD, "op_type": "I"},
        {"after": NEW, "op_type": "U"},
        {"before": {"id": 1}, "op_type": "D"},
    ]
    expected = [(INSERT, *OLD_ROW), (AFTER, *NEW_ROW), (DELETE, *GONE)]
    assert read_by_key("ogg-json", golden_gate) == (expected, {})


MOVED = {**OLD, "id": 2}


@pytest.mark.parametrize(
    ("identifier", "event"),
    [
        ("debezium-json", {"before": OLD, "after": MOVED, "op": "u"}),
        ("ogg-json", {"before": {"id": 1}, "after": MOVED, "op_type": "U"}),
        ("maxwell-json", {"data": MOVED, "old": {"id": 1}, "type": "update"}),
        ("canal-json", {"data": [MOVED], "old": [{"id": 1}], "type": "UPDATE"}),
    ],
)
def test_an_update_of_the_key_names_the_row_of_the_old_one(identifier: str, event: Any) -> None:
    rows, _ = read_by_key(identifier, [event])
    assert [(kind, key) for kind, key, *_ in rows] == [(BEFORE, 1), (AFTER, 2)]
    assert rows[1][2:4] == ("a", Decimal("1.50"))


def test_an_update_that_keeps_the_key_is_one_row() -> None:
    events = [{"data": NEW, "old": {"name": "a"}, "type": "update"}, {"data": NEW, "type": "delete"}]
    assert read_by_key("maxwell-json", events) == ([(AFTER, *NEW_ROW), (DELETE, *NEW_ROW)], {})
    events = [{"data": [NEW, OLD], "old": [{"name": "a"}, {}], "type": "UPDATE"}]
    assert read_by_key("canal-json", events) == ([(AFTER, *NEW_ROW), (AFTER, *OLD_ROW)], {})


def test_without_a_key_a_row_before_that_may_be_its_key_alone_is_refused() -> None:
    insert = {"after": OLD, "op": "c"}
    partial = [
        {"before": {"id": 1}, "op": "d"},
        {"before": {"id": 1, "name": None, "price": None}, "op": "d"},
        {"before": {"id": 1}, "after": NEW, "op": "u"},
    ]
    for event in partial:
        with pytest.raises(UserError, match=r'line 2 of "f\.json"') as raised:
            read("debezium-json", [insert, event])
        assert "REPLICA IDENTITY" in (raised.value.hint or "")
    with pytest.raises(UserError, match="not whole"):
        read("ogg-json", [{"before": {"id": 1}, "op_type": "D"}])
    with pytest.raises(UserError) as raised:
        read("debezium-json", [insert, {"before": None, "after": NEW, "op": "u"}])
    assert "REPLICA IDENTITY" in (raised.value.hint or "")


def test_without_a_key_a_row_that_is_mostly_null_is_whole_where_the_log_has_whole_rows() -> None:
    sparse = {"id": 1, "name": None, "price": None}
    deletion = {"before": sparse, "op": "d"}
    logged = {**deletion, "source": {"connector": "mysql"}}
    update = {"before": OLD, "after": NEW, "op": "u"}
    assert read("debezium-json", [logged]) == ([(DELETE, GONE)], [])
    assert read("debezium-json", [update, deletion])[0][-1] == (DELETE, GONE)
    assert read("ogg-json", [{"before": sparse, "op_type": "D"}]) == ([(DELETE, GONE)], [])
    # Our own sinks write whole rows, and so does Flink.
    assert read("debezium-json", [{**deletion, "after": None}]) == ([(DELETE, GONE)], [])
    with pytest.raises(UserError, match="not whole"):
        read("debezium-json", [{**logged, "after": None, "source": {"connector": "postgresql"}}])
    path = "t/part-0123456789ab00000000-0-00000000.json"
    reader = format_of("debezium-json").reader(
        ReadRequest(io.BytesIO(json.dumps(deletion).encode()), path, SCHEMA, SCHEMA.names, {}, 100)
    )
    assert sum(batch.num_rows for batch, _ in reader.batches()) == 1


def test_tombstones_heartbeats_and_changes_of_the_schema_change_no_row() -> None:
    events = [
        {"after": OLD, "op": "c"},
        *("null", "", "  null \r", "  "),
        {"ts_ms": 1700000000000},
        {"source": {"db": "d"}, "databaseName": "d", "ddl": "ALTER TABLE t ADD c INT", "tableChanges": []},
        {"status": "BEGIN", "id": "571", "event_count": None},
        {"op": "m", "message": {"prefix": "p", "content": ""}},
        {"op": "t", "before": None, "after": None},
    ]
    counts = {"numEventsPassedOver": 4, "numTruncationsPassedOver": 1}
    assert read_by_key("debezium-json", events) == ([(INSERT, *OLD_ROW)], counts)
    assert read("debezium-json", events) == ([(INSERT, OLD_ROW)], [])
    enveloped = [
        {"schema": None, "payload": json.loads(e) if isinstance(e, str) else e}
        for e in [*events[:2], *events[5:]]
    ]
    assert read_by_key("debezium-json", enveloped, schema_include="true") == ([(INSERT, *OLD_ROW)], counts)
    canal = [
        {"data": [OLD], "type": "INSERT"},
        {"data": None, "type": "ALTER", "isDdl": True},
        {"data": None, "type": "OTHER", "isDdl": True},
        {"data": None, "type": "TRUNCATE", "isDdl": True},
    ]
    counts = {"numEventsPassedOver": 2, "numTruncationsPassedOver": 1}
    assert read_by_key("canal-json", canal) == ([(INSERT, *OLD_ROW)], counts)
    maxwell = [
        {"data": {}, "type": "bootstrap-start"},
        {"data": OLD, "type": "bootstrap-insert"},
        {"data": {}, "type": "bootstrap-complete"},
        {"type": "table-alter", "sql": "ALTER TABLE t ADD c INT"},
    ]
    assert read_by_key("maxwell-json", maxwell) == ([(INSERT, *OLD_ROW)], {"numEventsPassedOver": 3})


def test_an_envelope_with_or_without_a_schema_names_the_option() -> None:
    event = {"after": OLD, "op": "c"}
    with pytest.raises(UserError) as raised:
        read("debezium-json", [{"schema": {"type": "struct"}, "payload": event}])
    assert "add 'debezium-json.schema-include' = 'true'" in (raised.value.hint or "")
    with pytest.raises(UserError) as raised:
        read("debezium-json", [event], schema_include="true")
    assert "leave 'debezium-json.schema-include' out" in (raised.value.hint or "")


TOAST = "__debezium_unavailable_value"
WIDE = Schema(
    (
        Field("id", sql.INT.not_null()),
        Field("name", sql.STRING),
        Field("data", sql.BYTES),
        Field("tags", sql.array(sql.STRING)),
        Field("numbers", sql.array(sql.INT)),
        Field("more", sql.map_of(sql.STRING, sql.STRING)),
        Field("n", sql.INT),
    )
)


def test_a_placeholder_is_an_unknown_value_in_the_form_of_each_type() -> None:
    encoded = base64.b64encode(TOAST.encode()).decode()
    forms = {
        "name": TOAST,
        "data": encoded,
        "tags": [TOAST],
        "numbers": list(TOAST.encode()),
        "more": {TOAST: TOAST},
    }
    plain = {
        "id": 1,
        "name": "a",
        "data": "AQI=",
        "tags": ["x", TOAST],
        "numbers": [95],
        "more": {"a": "b"},
        "n": 1,
    }
    update = {"after": {**plain, **forms}, "op": "u"}
    rows, _ = read_by_key("debezium-json", [update, {"after": plain, "op": "c"}], WIDE)
    whole = (1, "a", b"\x01\x02", ["x", TOAST], [95], [("a", "b")], 1)
    assert rows == [(AFTER, 1, None, None, None, None, None, 1, ",1,2,3,4,5,"), (INSERT, *whole)]
    # With REPLICA IDENTITY FULL the row before has the value.
    update["before"] = {**plain, "n": 0}
    assert read_by_key("debezium-json", [update], WIDE)[0] == [(AFTER, *whole)]
    assert read_by_key(
        "debezium-json", [{"after": {"id": 1, "name": "?"}, "op": "u"}], unavailable_value_placeholder="?"
    )[0] == [(AFTER, 1, None, None, ",1,")]
    unknown = {"before": OLD, "after": {**OLD, "name": TOAST}, "op": "u"}
    assert read("debezium-json", [unknown])[0] == [(BEFORE, OLD_ROW), (AFTER, OLD_ROW)]
    with pytest.raises(UserError, match='does not have the value of "name"'):
        read("debezium-json", [{"before": {**OLD, "name": None}, "after": {**OLD, "name": TOAST}, "op": "u"}])


def test_what_an_update_of_golden_gate_leaves_out_is_unknown_and_what_is_null_is_not() -> None:
    events = [
        {"after": {"id": 1, "name": None}, "op_type": "U"},
        {"after": {"id": 2, "price": 3}, "op_type": "U"},
    ]
    expected = [(AFTER, 1, None, None, ",2,"), (AFTER, 2, None, Decimal("3.00"), ",1,")]
    assert read_by_key("ogg-json", events)[0] == expected


def test_what_golden_gate_leaves_out_of_a_row_whose_key_changes_is_taken_from_the_row_before() -> None:
    moved = {"before": {"id": 1, "name": "a", "price": 3}, "after": {"id": 2, "price": 4}, "op_type": "U"}
    before, after = read_by_key("ogg-json", [moved])[0]
    assert before[:2] == (BEFORE, 1)
    assert after == (AFTER, 2, "a", Decimal("4.00"))


ENCODED = Schema(
    (
        Field("id", sql.INT.not_null()),
        Field("d", sql.DATE),
        Field("t", sql.time(3)),
        Field("m", sql.timestamp(3)),
        Field("u", sql.timestamp(6)),
        Field("n", sql.timestamp(9)),
        Field("z", sql.timestamp_ltz(3)),
        Field("p", sql.decimal(10, 2)),
        Field("b", sql.BOOLEAN),
    )
)
MOMENT = datetime.datetime(2024, 1, 1, 12)
DECODED = (
    1,
    MOMENT.date(),
    datetime.time(12),
    MOMENT,
    MOMENT,
    pd.Timestamp(MOMENT),
    MOMENT.replace(tzinfo=datetime.UTC),
    Decimal("-1.23"),
    True,
)


def test_numbers_and_bytes_are_what_debezium_makes_of_the_declared_types() -> None:
    ms = 1_704_110_400_000
    plain = {
        "id": 1,
        "d": 19723,
        "t": 43_200_000,
        "m": ms,
        "u": ms * 10**3,
        "n": ms * 10**6,
        "p": "hQ==",
        "b": 1,
    }
    row = {**plain, "z": "2024-01-01T14:00:00+02:00"}
    written = {"id": 1, "d": "2024-01-01", "t": "12:00:00", **dict.fromkeys("mun", "2024-01-01 12:00:00")}
    written |= {"z": "2024-01-01T12:00:00Z", "p": -1.23, "b": True}
    variable = {**row, "p": {"scale": 3, "value": "+zI="}, "m": ms * 10**3}
    events = [{"after": each, "op": "c"} for each in (row, written, variable)]
    rows, _ = read_by_key("debezium-json", events, ENCODED)
    assert rows == [(INSERT, *DECODED)] * 3
    for value in (None, 7, [], "no base64"):
        with pytest.raises(UserError, match='in field "p" is no DECIMAL'):
            read_by_key(
                "debezium-json", [{"after": {**row, "p": {"scale": 3, "value": value}}, "op": "c"}], ENCODED
            )
    mysql = {"after": {"id": 1, "t": 43_200_000_000}, "op": "c", "source": {"connector": "mysql"}}
    assert read_by_key("debezium-json", [mysql], ENCODED)[0][0][3] == datetime.time(12)
    early = {"after": {"id": 1, "m": 86_400_000_000}, "op": "c"}
    given = read_by_key("debezium-json", [early], ENCODED, time_unit="microseconds")[0][0]
    assert given[4] == datetime.datetime(1970, 1, 2)


def test_the_schema_in_the_message_says_how_values_are_encoded() -> None:
    def event(units: dict[str, str], after: dict[str, Any]) -> dict[str, Any]:
        fields = [{"field": name, "type": "int64", "name": unit} for name, unit in units.items()]
        fields.append(
            {
                "field": "p",
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "1"},
            }
        )
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        return {"schema": schema, "payload": {"after": {"id": 1, **after}, "op": "c"}}

    time = "io.debezium.time."
    micros = event(
        {"m": f"{time}MicroTimestamp", "t": f"{time}MicroTime"}, {"m": 1_000_000, "t": 5_000, "p": "Cg=="}
    )
    millis = event(
        {"m": f"{time}Timestamp", "d": f"{time}Timestamp"}, {"m": 1_000, "d": 86_400_000, "p": "Cg=="}
    )
    rows, _ = read_by_key("debezium-json", [micros, millis, micros], ENCODED, schema_include="true")
    second = datetime.datetime(1970, 1, 1, 0, 0, 1)
    assert [row[4] for row in rows] == [second] * 3
    assert [row[3] for row in rows] == [datetime.time(0, 0, 0, 5000), None, datetime.time(0, 0, 0, 5000)]
    assert [row[2] for row in rows] == [None, datetime.date(1970, 1, 2), None]
    assert [row[8] for row in rows] == [Decimal("1.00")] * 3


@pytest.mark.parametrize("scale", ["--5", "²", "9" * 5_000, "", None])
def test_a_scale_that_is_none_leaves_that_of_the_type(scale: str | None) -> None:
    field = {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": scale},
    }
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [field]}]}
    event = {"schema": schema, "payload": {"after": {"id": 1, "price": "Cg=="}, "op": "c"}}
    rows, _ = read_by_key("debezium-json", [event], schema_include="true")
    assert rows[0][3] == Decimal("0.10")


def test_a_decimal_in_quotes_is_digits_or_bytes_as_other_values_show() -> None:
    def prices(*values: str, **options: str) -> list[Any]:
        events = [{"after": {"id": 1, "price": value}, "op": "c"} for value in values]
        return [row[3] for row in read_by_key("debezium-json", events, **options)[0]]

    # "1234" is a number, and the base64 of another one.
    assert prices("12.5", "1234") == [Decimal("12.50"), Decimal("1234.00")]
    assert prices("ew==", "1234") == [Decimal("1.23"), Decimal("-26588.24")]
    assert prices("1234", decimal_handling_mode="string") == [Decimal("1234.00")]
    assert prices("1234", decimal_handling_mode="precise") == [Decimal("-26588.24")]
    with pytest.raises(UserError, match=r"set 'debezium-json\.decimal-handling-mode'"):
        prices("1234")


def test_the_reason_names_the_column_at_fault() -> None:
    with pytest.raises(UserError, match='"x" in field "price" is no DECIMAL'):
        read("debezium-json", [{"after": {**OLD, "price": "x"}, "op": "c"}])
    with pytest.raises(UserError, match='"x" in field "price" is no DECIMAL'):
        read("canal-json", [{"data": [OLD, {**OLD, "price": "x"}], "type": "INSERT"}])


@pytest.mark.parametrize(
    ("identifier", "key", "member", "wrong"),
    [
        ("debezium-json", "source.timestamp", "source", {"ts_ms": "abc"}),
        ("debezium-json", "ingestion-timestamp", "ts_ms", "9" * 30),
        ("ogg-json", "event-timestamp", "op_ts", "2020-13-01 00:00:00"),
        ("maxwell-json", "ingestion-timestamp", "ts", 2**63 - 1),
    ],
)
def test_metadata_that_are_no_time_are_a_fault_of_their_event(
    identifier: str, key: str, member: str, wrong: Any
) -> None:
    insert = {
        "debezium-json": {"after": OLD, "op": "c"},
        "ogg-json": {"after": OLD, "op_type": "I"},
        "maxwell-json": {"data": OLD, "type": "insert"},
    }[identifier]
    demand = (Field(key, format_of(identifier).descriptor.metadata[key]),)
    with pytest.raises(UserError, match=f'line 2.*something else than a time as its "{key}"'):
        read_by_key(identifier, [insert, {**insert, member: wrong}], metadata=demand)
    rows, _ = read_by_key(
        identifier, [{**insert, member: wrong}, insert], metadata=demand, ignore_parse_errors="true"
    )
    assert [row[-1] for row in rows] == [None]


def test_metadata_of_events() -> None:
    def told(identifier: str, event: dict[str, Any], **options: str) -> dict[str, Any]:
        known = format_of(identifier).descriptor.metadata
        demand = tuple(Field(key, t) for key, t in known.items())
        row = read_by_key(identifier, [event], metadata=demand, **options)[0][0]
        return dict(zip(known, row[4:], strict=True))

    moment = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    source = {
        "connector": "postgresql",
        "ts_ms": 1_700_000_000_000,
        "db": "d",
        "schema": "s",
        "table": "t",
        "lsn": 7,
    }
    event = {"after": OLD, "op": "c", "ts_ms": 1_700_000_000_000, "source": source}
    expected = {
        "schema": None,
        "ingestion-timestamp": moment,
        "source.timestamp": moment,
        "source.database": "d",
        "source.schema": "s",
        "source.table": "t",
        "source.properties": [(key, str(value)) for key, value in source.items()],
    }
    assert told("debezium-json", event) == expected
    enveloped = {"schema": {"type": "struct"}, "payload": event}
    expected["schema"] = '{"type":"struct"}'
    assert told("debezium-json", enveloped, schema_include="true") == expected
    canal = {"data": [OLD], "type": "INSERT", "database": "d", "table": "t", "ts": 1_700_000_000_000}
    canal |= {"sqlType": {"id": 4}, "pkNames": ["id"]}
    assert told("canal-json", canal) == {
        "database": "d",
        "table": "t",
        "sql-type": [("id", 4)],
        "pk-names": ["id"],
        "ingestion-timestamp": moment,
    }
    maxwell = {"data": OLD, "type": "insert", "database": "d", "table": "t", "ts": 1_700_000_000}
    maxwell |= {"primary_key_columns": ["id"]}
    assert told("maxwell-json", maxwell) == {
        "database": "d",
        "table": "t",
        "primary-key-columns": ["id"],
        "ingestion-timestamp": moment,
    }
    golden_gate = {"after": OLD, "op_type": "I", "table": "S.T", "primary_keys": ["id"]}
    golden_gate |= {"op_ts": "2023-11-14 22:13:20.000000", "current_ts": "2023-11-14T22:13:20.123000"}
    assert told("ogg-json", golden_gate) == {
        "table": "S.T",
        "primary-key-columns": ["id"],
        "ingestion-timestamp": moment.replace(microsecond=123_000),
        "event-timestamp": moment,
    }


def test_a_batch_plan_that_reads_events_by_key_can_be_sent() -> None:
    source = EventSourceSpec("t", "filesystem", {}, SCHEMA, SCHEMA.names, keys=("id",), marks_unknown=True)
    table = BatchTable("t0", source, has_changes=True)
    assert msgspec.json.decode(msgspec.json.encode(table), type=BatchTable) == table
    assert table.schema.names == ("c0", "c1", "c2", "row_unknown", "row_kind", "row_place")


def test_a_heartbeat_in_an_envelope_is_told_as_one_and_a_change_there_is_refused() -> None:
    texts = [
        '{"ts_ms": 1}',
        '{"schema": {"type": "struct"}, "payload": {"ts_ms": 1}}',
        '{"schema": null, "payload": {"op": "c", "after": {"id": 1}, "ts_ms": 1}}',
        '{"schema": null, "payload": {"id": 1}}',
        '{"ts_ms": null, "after": null, "note": "\\ud800"}',
        '{"ts_ms": 1, "before": []}',
    ]
    operations, faults = DEBEZIUM.told(pa.array(texts))
    assert operations.tolist() == [TELLS, TELLS, UNKNOWN, UNKNOWN, TELLS, UNKNOWN]
    assert ["envelope" in fault.reason for fault in faults[2:]] == [True, True, False, False]
