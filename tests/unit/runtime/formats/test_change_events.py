"""Formats of change events: an event becomes the rows that it changes, and a changelog becomes events."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import format_of
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.schema import Field, Schema

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
        stream, "f.json", SCHEMA, columns, given, 100, skip_rows, block_bytes
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
