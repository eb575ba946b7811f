"""Format `debezium-avro-confluent` against a registry of schemas and fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from registry_harness import SchemaRegistry, running_registry

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema, with_row_kinds
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Field, Schema
from sqlstream.spi.format import (
    CountsEvents,
    DecodedMessages,
    EventDemand,
    HasMessages,
    MessageReader,
    MessageRequest,
)

SCHEMA = Schema.of(("id", sql.BIGINT), ("name", sql.STRING))
KEYS = EventDemand(keys=("id",))
# As Debezium's connectors register them.
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": n, "type": t} for n, t in (("version", "string"), ("ts_ms", "long"), ("db", "string"))
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.orders",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
HEARTBEAT = {"type": "record", "name": "Heartbeat", "fields": [{"name": "ts_ms", "type": "long"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as started:
        yield started


def reader(
    registry: SchemaRegistry,
    demand: EventDemand | None = None,
    schema: Schema = SCHEMA,
    columns: tuple[str, ...] | None = None,
) -> MessageReader:
    made = format_of("debezium-avro-confluent")
    assert isinstance(made, HasMessages)
    wanted = schema.names if columns is None else columns
    return made.message_reader(MessageRequest(schema, wanted, {"url": registry.url}, demand or EventDemand()))


def message(registry: SchemaRegistry, schema: Any, event: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), event)
    return b"\0" + registry.add(schema).to_bytes(4, "big") + stream.getvalue()


def event(registry: SchemaRegistry, op: str, before: Any = None, after: Any = None) -> bytes:
    rows = {
        "before": before and {"id": before[0], "name": before[1]},
        "after": after and {"id": after[0], "name": after[1]},
    }
    source = {"version": "3", "ts_ms": 5, "db": "shop"}
    return message(registry, ENVELOPE, {**rows, "source": source, "op": op, "ts_ms": 1_700_000_000_000})


def decode(reading: MessageReader, *messages: bytes | None) -> DecodedMessages:
    return reading.decode(pa.array(messages, pa.binary()))


def rows(found: DecodedMessages) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.batch.to_pylist()]


INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)


def test_events_are_changes(registry: SchemaRegistry) -> None:
    reading = reader(registry)
    found = decode(
        reading,
        event(registry, "r", after=(1, "a")),
        None,
        event(registry, "c", after=(2, None)),
        b"",
        event(registry, "u", (1, "a"), (1, "b")),
        event(registry, "d", before=(2, None)),
        event(registry, "t"),
        event(registry, "m"),
        message(registry, HEARTBEAT, {"ts_ms": 1}),
    )
    assert rows(found) == [
        (1, "a", INSERT),
        (2, None, INSERT),
        (1, "a", UPDATE_BEFORE),
        (1, "b", UPDATE_AFTER),
        (2, None, DELETE),
    ]
    assert found.owners is not None
    assert found.owners.tolist() == [0, 2, 4, 4, 5]
    assert found.rejected == []
    assert isinstance(reading, CountsEvents)
    assert sorted(reading.take_counts().values()) == [1, 2]


def test_events_that_are_not_whole_are_rejected(registry: SchemaRegistry) -> None:
    events = [
        event(registry, "x", after=(1, "a")),
        event(registry, "u", after=(1, "b")),
        event(registry, "c"),
        event(registry, "d"),
        b"\0\0",
        event(registry, "c", after=(3, "c"))[:-9],
        event(registry, "c", after=(4, "d")),
    ]
    found = decode(reader(registry), *events)
    assert rows(found) == [(4, "d", INSERT)]
    assert [(r.line, r.reason) for r in found.rejected] == [
        (0, "it is a change of no kind that there is"),
        (1, "the row before the change is missing"),
        (2, "the row after the change is missing"),
        (3, "the row before the change is missing"),
        (4, "it does not begin with a zero and the id of a schema"),
        (5, "it ends within a value"),
    ]
    # By its key an update is read without what was before.
    by_key = decode(reader(registry, KEYS), events[1], event(registry, "u", (1, "x"), (2, "b")))
    assert rows(by_key) == [(1, "b", UPDATE_AFTER), (1, None, UPDATE_BEFORE), (2, "b", UPDATE_AFTER)]


@pytest.mark.parametrize("columns", [(), ("name",), ("name", "id")])
def test_columns_are_read_alone(registry: SchemaRegistry, columns: tuple[str, ...]) -> None:
    found = decode(reader(registry, columns=columns), event(registry, "u", (1, "a"), (1, "b")))
    values = [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]
    assert [row[:-1] for row in rows(found)] == [tuple(v[c] for c in columns) for v in values]
    assert rows(decode(reader(registry, columns=columns))) == []


def test_metadata_of_events(registry: SchemaRegistry) -> None:
    keys = ("ingestion-timestamp", "source.timestamp", "source.database", "source.table")
    types = format_of("debezium-avro-confluent").descriptor.metadata
    demand = EventDemand(metadata=tuple(Field(key, types[key]) for key in keys))
    (row,) = decode(reader(registry, demand), event(registry, "c", after=(1, "a"))).batch.to_pylist()
    found = [row[f"$event:{key}"] for key in keys]
    assert [m.timestamp() for m in found[:2]] == [1_700_000_000, 0.005]
    assert found[2:] == ["shop", None]


def test_changes_are_written_and_read(registry: SchemaRegistry) -> None:
    made = format_of("debezium-avro-confluent")
    assert isinstance(made, HasMessages)
    writer = made.message_writer(SCHEMA, {"url": registry.url, "subject": "t-value"})
    batch = pa.RecordBatch.from_pylist(
        [{"id": 1, "name": "a"}, {"id": 1, "name": "a"}, {"id": 1, "name": None}, {"id": 1, "name": None}],
        schema=to_arrow_schema(SCHEMA),
    )
    changes = with_row_kinds(
        batch, pa.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE], pa.int8()).to_numpy()
    )
    messages = writer.encode(changes)
    (number,) = registry.subjects["t-value"]
    schema = fastavro.parse_schema(json.loads(registry.schemas[number]["schema"]))
    found = [fastavro.schemaless_reader(io.BytesIO(m[5:]), schema) for m in messages.to_pylist()]
    a, none = {"id": 1, "name": "a"}, {"id": 1, "name": None}
    assert found == [
        {"before": None, "after": a, "op": "c"},
        {"before": a, "after": None, "op": "d"},
        {"before": None, "after": none, "op": "c"},
        {"before": none, "after": None, "op": "d"},
    ]
    read = reader(registry).decode(messages)
    assert [kind for *_, kind in rows(read)] == [INSERT, DELETE, INSERT, DELETE]
    assert writer.encode(batch.slice(0, 0)).to_pylist() == []
    assert made.descriptor.sink_mode is ChangelogMode.RETRACT


def test_a_schema_that_is_given_has_the_fields_of_events(registry: SchemaRegistry) -> None:
    made = format_of("debezium-avro-confluent")
    given = json.dumps({**ENVELOPE, "fields": [ENVELOPE["fields"][i] for i in (0, 1, 3)]})  # type: ignore[index]
    with pytest.raises(UserError, match='"id" is not a union of null'):
        made.validate(SCHEMA, {"url": registry.url, "schema": given})
    fitting = given.replace('"op", "type": "string"', '"op", "type": ["null", "string"]')
    columns = Schema.of(("id", sql.BIGINT.not_null()), ("name", sql.STRING))
    made.validate(columns, {"url": registry.url, "schema": fitting})
    assert isinstance(made, HasMessages)
    writer = made.message_writer(columns, {"url": registry.url, "subject": "t-value", "schema": fitting})
    messages = writer.encode(
        pa.RecordBatch.from_pylist([{"id": 1, "name": "a"}], schema=to_arrow_schema(columns))
    )
    assert rows(reader(registry).decode(messages)) == [(1, "a", INSERT)]


def test_times_of_debezium(registry: SchemaRegistry) -> None:
    kinds = {"milli": "Timestamp", "micro": "MicroTimestamp", "nano": "NanoTimestamp", "time": "MicroTime"}
    fields = [
        {
            "name": n,
            "type": {"type": "long", "connect.version": 1, "connect.name": f"io.debezium.time.{kind}"},
        }
        for n, kind in kinds.items()
    ]
    fields.append({"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}})
    value = {"type": "record", "name": "Value", "fields": fields}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "after", "type": ["null", value]}, {"name": "op", "type": "string"}],
    }
    row = {"milli": 1500, "micro": 1_500_000, "nano": 1_500_000_000, "time": 1_500_000, "day": 1}
    schema = Schema.of(
        ("milli", sql.timestamp(6)),
        ("micro", sql.timestamp(3)),
        ("nano", sql.timestamp(3)),
        ("time", sql.time(3)),
        ("day", sql.DATE),
    )
    read = decode(reader(registry, schema=schema), message(registry, envelope, {"after": row, "op": "c"}))
    assert [str(v) for v in read.batch.to_pylist()[0].values()] == [
        *["1970-01-01 00:00:01.500000"] * 3,
        "00:00:01.500000",
        "1970-01-02",
        "0",
    ]


def test_what_cannot_be_is_refused(registry: SchemaRegistry) -> None:
    made = format_of("debezium-avro-confluent")
    with pytest.raises(UserError) as raised:
        made.validate(Schema.of(("m", sql.map_of(sql.INT, sql.INT))), {"url": registry.url})
    assert raised.value.code == "SS4006"
    number = registry.add({"type": "record", "name": "r", "fields": [{"name": "op", "type": "int"}]})
    with pytest.raises(UserError, match='column "op" is int in the schema') as raised:
        decode(reader(registry), b"\0" + number.to_bytes(4, "big") + b"\2")
    assert raised.value.code == "SS5324"
