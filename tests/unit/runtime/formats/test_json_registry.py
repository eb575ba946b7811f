"""Format `json-registry` against a registry of schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from registry_harness import SchemaRegistry, running_registry

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.json_registry import json_schema_of
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest, MessageWriter

SCHEMA = Schema.of(("id", sql.BIGINT.not_null()), ("name", sql.STRING))


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as started:
        yield started


def decode(*messages: bytes | None, columns: tuple[str, ...] = SCHEMA.names) -> DecodedMessages:
    made = format_of("json-registry")
    assert isinstance(made, HasMessages)
    reader = made.message_reader(MessageRequest(SCHEMA, columns, {"url": "http://none"}))
    return reader.decode(pa.array(messages, pa.binary()))


def writer(url: str) -> MessageWriter:
    made = format_of("json-registry")
    assert isinstance(made, HasMessages)
    return made.message_writer(SCHEMA, {"url": url, "subject": "t-value"})


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(SCHEMA))


def test_what_is_written_is_registered_and_read(registry: SchemaRegistry) -> None:
    rows = [{"id": 1, "name": "ä"}, {"id": 2, "name": None}]
    writing = writer(registry.url)
    messages = [m for row in rows for m in writing.encode(batch([row])).to_pylist()]
    (number,) = registry.subjects["t-value"]
    kept = registry.schemas[number]
    assert (kept["schemaType"], json.loads(kept["schema"])) == ("JSON", json_schema_of(SCHEMA))
    assert messages[0] == b"\0" + number.to_bytes(4, "big") + '{"id":1,"name":"ä"}'.encode()
    assert set(registry.asked.values()) == {1}
    assert decode(*messages).batch.to_pylist() == rows


@pytest.mark.parametrize("columns", [SCHEMA.names, ("name",), ()])
def test_messages_keep_their_places(columns: tuple[str, ...]) -> None:
    found = decode(
        b'\0\0\0\0\x07{"id":\n1}',
        None,
        b'{"id":2}',
        b"",
        b"\0\0\0\0\x07{",
        b'\0\0\0\0\x09 {"id":3}',
        columns=columns,
    )
    values = [{"id": 1, "name": None}, {"id": 3, "name": None}]
    assert found.batch.to_pylist() == [{c: v[c] for c in columns} for v in values]
    assert found.owners is not None
    assert found.owners.tolist() == [0, 5]
    header = "it does not begin with a zero and the id of a schema"
    assert [(r.line, r.reason == header) for r in found.rejected] == [(2, True), (3, True), (4, False)]
    assert decode().batch.num_rows == 0


def test_the_schema_of_columns() -> None:
    schema = Schema.of(
        ("i", sql.INT.not_null()),
        ("d", sql.decimal(5, 2)),
        ("m", sql.map_of(sql.STRING.not_null(), sql.timestamp(3).not_null()).not_null()),
        ("a", sql.array(sql.row(("x", sql.BOOLEAN.not_null())).not_null()).not_null()),
    )
    made = json_schema_of(schema)
    assert made["required"] == ["i", "m", "a"]
    assert made["properties"] == {
        "i": {"type": "integer"},
        "d": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "a": {
            "type": "array",
            "items": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]},
        },
    }


def test_a_registry_that_refuses_and_one_that_is_gone(registry: SchemaRegistry) -> None:
    registry.incompatible.add("t-value")
    with pytest.raises(UserError, match='refuses the subject "t-value"') as refused:
        writer(registry.url).encode(batch([{"id": 1, "name": ""}]))
    assert refused.value.code == "SS5324"
    registry.incompatible.clear()
    registry.status = 503
    writing = writer(registry.url)
    with pytest.raises(ExternalError) as raised:
        writing.encode(batch([{"id": 1, "name": ""}]))
    assert raised.value.code == "SS5321"
    registry.status = None
    assert len(writing.encode(batch([{"id": 1, "name": ""}]))) == 1


def test_wrong_tables_are_refused() -> None:
    for schema, options, code in (
        (Schema.of(("m", sql.map_of(sql.INT, sql.INT))), {"url": "http://r"}, "SS4006"),
        (SCHEMA, {"url": "r:8081"}, "SS4002"),
    ):
        with pytest.raises(UserError) as raised:
            format_of("json-registry").validate(schema, options)
        assert raised.value.code == code
