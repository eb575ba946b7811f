"""Format `protobuf-confluent` against a registry of schemas and the library of Protocol Buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from registry_harness import SchemaRegistry, running_registry

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.protobuf.descriptors import files_of_text
from sqlstream.runtime.formats.protobuf.proto_writer import proto_of
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest

SCHEMA = Schema.of(("id", sql.BIGINT), ("name", sql.STRING))
OLD = 'syntax = "proto3"; message Old { message In { optional int64 id = 7; } int64 id = 1; }'
NEW = """syntax = "proto3"; import "other.proto";
message First { int64 id = 1; } message New { string name = 2; optional int64 id = 3; shop.Place where = 4; }"""
OTHER = 'syntax = "proto3"; package shop; message Place { string town = 1; }'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as started:
        yield started


def decode(
    registry: SchemaRegistry,
    *messages: bytes | None,
    schema: Schema = SCHEMA,
    columns: tuple[str, ...] | None = None,
) -> DecodedMessages:
    made = format_of("protobuf-confluent")
    assert isinstance(made, HasMessages)
    wanted = schema.names if columns is None else columns
    reader = made.message_reader(MessageRequest(schema, wanted, {"url": registry.url}))
    return reader.decode(pa.array(messages, pa.binary()))


def written(
    registry: SchemaRegistry, table: Schema, rows: list[dict[str, Any]], **options: str
) -> list[bytes]:
    made = format_of("protobuf-confluent")
    assert isinstance(made, HasMessages)
    given = {"url": registry.url, "subject": "t-value", **options}
    made.validate(table, given)
    batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(table))
    found: list[bytes] = made.message_writer(table, given).encode(batch).to_pylist()
    return found


def framed(number: int, places: bytes, message: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + places + message


ROW = sql.row(("town", sql.STRING), ("tags", sql.array(sql.STRING)))
WIDE = Schema.of(
    ("b", sql.BOOLEAN),
    ("i", sql.INT.not_null()),
    ("d", sql.DOUBLE),
    ("f", sql.FLOAT),
    ("s", sql.STRING),
    ("y", sql.BYTES),
    ("t", sql.timestamp(6)),
    ("r", ROW),
    ("rs", sql.array(ROW)),
    ("m", sql.map_of(sql.STRING.not_null(), ROW)),
)
WIDE_ROW = {
    "b": False,
    "i": 0,
    "d": 0.0,
    "f": 1.5,
    "s": "",
    "y": b"\xff",
    "t": None,
    "r": {"town": "a", "tags": ["x"]},
    "rs": [{"town": None, "tags": None}],
    "m": [("k", {"town": "", "tags": None})],
}


def test_what_is_written_is_registered_and_read(registry: SchemaRegistry) -> None:
    rows = [WIDE_ROW, {**dict.fromkeys(WIDE.names), "i": 3}]
    messages = written(registry, WIDE, rows)
    (number,) = registry.subjects["t-value"]
    kept = registry.schemas[number]
    assert (kept["schemaType"], kept["schema"]) == ("PROTOBUF", proto_of(WIDE))
    made = message_factory.GetMessageClass(files_of_text(proto_of(WIDE))[0].message_types_by_name["Row"])
    for message, row in zip(messages, rows, strict=True):
        assert message[:6] == b"\0" + number.to_bytes(4, "big") + b"\0"
        assert made.FromString(message[6:]).i == row["i"]
    assert decode(registry, *messages, schema=WIDE).batch.to_pylist() == rows


def test_the_text_of_a_schema_is_registered_as_it_is(registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; message One { string name = 9; optional int64 id = 4; }'
    messages = written(registry, SCHEMA, [{"id": 5, "name": "a"}], schema=text)
    (number,) = registry.subjects["t-value"]
    assert registry.schemas[number]["schema"] == text
    assert messages[0][5:] == b"\0\x20\x05\x4a\x01a"


def test_messages_of_several_schemas_and_places_keep_their_order(registry: SchemaRegistry) -> None:
    registry.add(OTHER, "other", kind="PROTOBUF")
    references = [{"name": "other.proto", "subject": "other", "version": 1}]
    old, new = registry.add(OLD, kind="PROTOBUF"), registry.add(NEW, kind="PROTOBUF", references=references)
    rows = [
        framed(new, b"\x02\x02", b"\x12\x01a\x18\x01"),
        framed(old, b"\0", b"\x08\x02"),
        None,
        b"\0\0\0\0",
        framed(old, b"\x04\0\0", b"\x38\x03"),
        framed(old, b"\x02\0", b"\x08"),
        framed(old, b"\x03", b""),
        framed(new, b"\x02\x02", b""),
    ]
    found = decode(registry, *rows)
    assert found.batch.to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": None},
        {"id": 3, "name": None},
        {"id": None, "name": ""},
    ]
    assert found.owners is not None
    assert found.owners.tolist() == [0, 1, 4, 7]
    header = "it does not begin with a zero and the id of a schema"
    assert [(r.line, r.reason) for r in found.rejected] == [
        (3, header),
        (5, "it ends within a value"),
        (6, header),
    ]
    assert registry.asked[f"/schemas/ids/{old}"] == 1
    assert decode(registry, *rows, columns=()).batch.num_rows == 4
    assert decode(registry).batch.num_rows == 0


NESTED = Schema.of(("where", sql.row(("town", sql.STRING), ("zip", sql.STRING))))


def test_fields_that_a_schema_lacks_are_null(registry: SchemaRegistry) -> None:
    text = 'syntax = "proto3"; message A { message B { string town = 1; } B where = 1; }'
    number = registry.add(text, kind="PROTOBUF")
    found = decode(registry, framed(number, b"\0", b"\x0a\x03\x0a\x01a"), schema=NESTED).batch.to_pylist()
    assert found == [{"where": {"town": "a", "zip": None}}]


@pytest.mark.parametrize(
    ("text", "kind", "places", "said"),
    [
        ('syntax = "proto3"; message A { string id = 1; }', "PROTOBUF", b"\0", 'column "id" is string'),
        ("{", "PROTOBUF", b"\0", "cannot be read: line 1"),
        ('syntax = "proto3"; message A { B b = 1; }', "PROTOBUF", b"\0", "couldn't resolve name 'B'"),
        ('syntax = "proto3"; message A {}', "PROTOBUF", b"\x02\x02", "it has no message at the place 1"),
        ('"int"', "AVRO", b"\0", "is one of AVRO, not of Protocol Buffers"),
    ],
)
def test_schemas_that_do_not_fit(
    registry: SchemaRegistry, text: str, kind: str, places: bytes, said: str
) -> None:
    number = registry.add(text, kind=kind)
    with pytest.raises(UserError) as raised:
        decode(registry, framed(number, places, b""))
    assert raised.value.code == "SS5324"
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("schema", "options", "code"),
    [
        (Schema.of(("t", sql.DATE)), {}, "SS4006"),
        (Schema.of(("a b", sql.INT)), {}, "SS4006"),
        (Schema.of(("a", sql.array(sql.array(sql.INT)))), {}, "SS4006"),
        (Schema.of(("a", sql.map_of(sql.DOUBLE.not_null(), sql.INT))), {}, "SS4006"),
        (SCHEMA, {"schema": "message A {"}, "SS4002"),
        (SCHEMA, {"schema": 'syntax = "proto3";'}, "SS4002"),
        (SCHEMA, {"schema": 'syntax = "proto3"; message A { int64 id = 1; }'}, "SS4006"),
    ],
)
def test_what_cannot_be_written_is_refused(schema: Schema, options: dict[str, str], code: str) -> None:
    with pytest.raises(UserError) as raised:
        format_of("protobuf-confluent").validate(schema, {"url": "http://r", **options})
    assert raised.value.code == code
