"""Format `avro-confluent` against a registry of schemas and fastavro."""

from __future__ import annotations

import base64
import io
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import trustme
from registry_harness import SchemaRegistry, running_registry

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.error_codes import FailureReason, Retry
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.avro.schemas import record_of
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageReader, MessageRequest

SCHEMA = Schema.of(("id", sql.BIGINT), ("name", sql.STRING))
ROWS = [{"id": 1, "name": "ä"}, {"id": None, "name": None}]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running_registry() as started:
        yield started


def reader(
    registry: SchemaRegistry, schema: Schema = SCHEMA, columns: tuple[str, ...] | None = None, **options: str
) -> MessageReader:
    made = format_of("avro-confluent")
    assert isinstance(made, HasMessages)
    given = {"url": registry.url, **{key.replace("__", "-"): value for key, value in options.items()}}
    return made.message_reader(MessageRequest(schema, schema.names if columns is None else columns, given))


def written(registry: SchemaRegistry, rows: list[dict[str, Any]], **options: str) -> pa.Array:
    made = format_of("avro-confluent")
    assert isinstance(made, HasMessages)
    writer = made.message_writer(SCHEMA, {"url": registry.url, "subject": "t-value", **options})
    return writer.encode(pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(SCHEMA)))


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def message(number: int, schema: Any, row: dict[str, Any]) -> bytes:
    stream = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    stream.seek(5)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


def decode(reading: MessageReader, *messages: bytes | None) -> DecodedMessages:
    return reading.decode(pa.array(messages, pa.binary()))


def test_what_is_written_is_registered_and_read(registry: SchemaRegistry) -> None:
    messages = written(registry, ROWS)
    (number,) = registry.subjects["t-value"]
    schema = fastavro.parse_schema(json.loads(registry.schemas[number]["schema"]))
    for one, row in zip(messages.to_pylist(), ROWS, strict=True):
        assert one[:5] == b"\0" + number.to_bytes(4, "big")
        assert fastavro.schemaless_reader(io.BytesIO(one[5:]), schema) == row
    assert reader(registry).decode(messages).batch.to_pylist() == ROWS


GIVEN = """{"type": "record", "name": "Order", "namespace": "shop", "doc": "what was ordered", "fields": [
  {"name": "id", "type": ["null", "long"], "default": null},
  {"name": "name", "type": ["null", {"type": "string", "avro.java.string": "String"}]}]}"""


def test_a_schema_that_is_given_is_registered_as_it_is(registry: SchemaRegistry) -> None:
    messages = written(registry, ROWS, schema=GIVEN)
    (number,) = registry.subjects["t-value"]
    assert registry.schemas[number]["schema"] == GIVEN
    schema = fastavro.parse_schema(json.loads(GIVEN))
    assert [fastavro.schemaless_reader(io.BytesIO(m[5:]), schema) for m in messages.to_pylist()] == ROWS


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("{", "SS4002", "is no schema of Avro"),
        ('{"type": "record", "name": "r"}', "SS4002", "a record without fields"),
        ('"long"', "SS4006", "it is long there"),
        (
            json.dumps(record(name=["null", "string"], id=["null", "long"])),
            "SS4006",
            "the fields name, id there",
        ),
        (json.dumps(record(id="long", name=["null", "string"])), "SS4006", '"id" is not a union of null'),
        (
            json.dumps(record(id=["long", "null"], name=["null", "string"])),
            "SS4006",
            '"id" is not a union of null',
        ),
        (json.dumps(record(id=["null", "int"], name=["null", "string"])), "SS4006", '"id" is int there'),
    ],
)
def test_a_schema_that_is_given_must_be_that_of_the_columns(given: str, code: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        format_of("avro-confluent").validate(SCHEMA, {"url": "http://r", "schema": given})
    assert raised.value.code == code
    assert said in raised.value.message


WIDE = Schema.of(
    ("d", sql.decimal(5, 2)),
    ("t", sql.timestamp(3).not_null()),
    ("r", sql.row(("a", sql.array(sql.INT)), ("m", sql.map_of(sql.STRING, sql.DATE)))),
)


def test_every_type_fits_its_own_schema() -> None:
    own = record_of(WIDE, is_legacy=True)
    made = format_of("avro-confluent")
    made.validate(WIDE, {"url": "http://r", "schema": json.dumps(own)})
    for old, new in (
        ('"scale": 2', '"scale": 3'),
        ('"timestamp-millis"', '"timestamp-micros"'),
        ('"int"', '"long"'),
    ):
        with pytest.raises(UserError, match="does not fit the table"):
            made.validate(WIDE, {"url": "http://r", "schema": json.dumps(own).replace(old, new)})


def test_messages_of_several_schemas_keep_their_order(registry: SchemaRegistry) -> None:
    old, new = record(id="int"), record(name=["null", "string"], more="double", id="long")
    first, second = registry.add(old), registry.add(new)
    rows = [
        message(second, new, {"name": "a", "more": 1.0, "id": 1}),
        message(first, old, {"id": 2}),
        None,
        b"\x00\x00",
        message(second, new, {"name": None, "more": 1.0, "id": 3}),
        message(first, old, {"id": 4})[:5],
        b"{}......",
    ]
    reading = reader(registry)
    for _ in range(2):
        found = decode(reading, *rows)
        assert found.batch.to_pylist() == [
            {"id": 1, "name": "a"},
            {"id": 2, "name": None},
            {"id": 3, "name": None},
        ]
        assert found.owners is not None
        assert found.owners.tolist() == [0, 1, 4]
        assert [(r.line, r.reason) for r in found.rejected] == [
            (3, "it does not begin with a zero and the id of a schema"),
            (5, "it ends within a value"),
            (6, "it does not begin with a zero and the id of a schema"),
        ]
    # A schema is asked for once.
    assert set(registry.asked.values()) == {1}


@pytest.mark.parametrize("columns", [(), ("name",), ("name", "id")])
def test_columns_are_read_alone(registry: SchemaRegistry, columns: tuple[str, ...]) -> None:
    found = reader(registry, columns=columns).decode(written(registry, ROWS))
    assert found.batch.num_rows == 2
    assert found.batch.to_pylist() == [{c: row[c] for c in columns} for row in ROWS]


@pytest.mark.parametrize("columns", [(), ("name",)])
def test_no_messages_are_no_rows(registry: SchemaRegistry, columns: tuple[str, ...]) -> None:
    for messages in ((), (None,), (b"",)):
        found = decode(reader(registry, columns=columns), *messages)
        assert (found.batch.num_rows, found.batch.schema.names) == (0, list(columns))


def test_an_unknown_id_is_an_error(registry: SchemaRegistry) -> None:
    with pytest.raises(UserError, match="does not have the schema 7") as raised:
        decode(reader(registry), b"\0\0\0\0\x07\0\0")
    assert (raised.value.code, raised.value.detail) == ("SS5322", "Schema not found")


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_is_down_is_asked_again_by_the_job(registry: SchemaRegistry, status: int) -> None:
    reading, messages = reader(registry), written(registry, ROWS)
    registry.status = status
    with pytest.raises(ExternalError) as raised:
        reading.decode(messages)
    assert (raised.value.code, raised.value.retry) == ("SS5321", Retry.BACKOFF)
    registry.status = None
    assert reading.decode(messages).batch.to_pylist() == ROWS


def test_a_registry_that_is_gone_is_an_error() -> None:
    with running_registry() as registry:
        reading = reader(registry)
    with pytest.raises(ExternalError, match="cannot be asked for the schema 7") as raised:
        decode(reading, b"\0\0\0\0\x07\0\0")
    assert raised.value.code == "SS5321"


def test_another_address_answers(registry: SchemaRegistry) -> None:
    with running_registry() as gone:
        url = gone.url
    messages = written(registry, ROWS)
    assert reader(registry, url=f"{url}, {registry.url}").decode(messages).batch.to_pylist() == ROWS


def test_users_and_tokens(registry: SchemaRegistry) -> None:
    messages = written(registry, ROWS)
    registry.authorization = f"Basic {base64.b64encode(b'ann:p:w').decode()}"
    with pytest.raises(ExternalError) as raised:
        reader(registry).decode(messages)
    assert (raised.value.code, raised.value.reason) == ("SS5323", FailureReason.ACCESS_REFUSED)
    named = {"basic-auth.credentials-source": "USER_INFO", "basic-auth.user-info": "ann:p:w"}
    assert reader(registry, **named).decode(messages).batch.to_pylist() == ROWS
    within = registry.url.replace("http://", "http://ann:p%3Aw@")
    assert reader(registry, url=within).decode(messages).batch.to_pylist() == ROWS
    registry.authorization = "Bearer abc"
    assert reader(registry, **{"bearer-auth.token": "abc"}).decode(messages).batch.to_pylist() == ROWS


def test_certificates(tmp_path: Path) -> None:
    authority = trustme.CA()
    server, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("ann@example.org")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    trusted, own = tmp_path / "trusted.pem", tmp_path / "own.pem"
    authority.cert_pem.write_to_path(trusted)
    client.private_key_and_cert_chain_pem.write_to_path(own)
    files = {"ssl.truststore.location": str(trusted), "ssl.keystore.location": str(own)}
    with running_registry(tls) as registry:
        messages = written(registry, ROWS, **files)
        assert reader(registry, **files).decode(messages).batch.to_pylist() == ROWS
        for key in files:
            with pytest.raises(ExternalError) as raised:
                reader(registry, **{k: v for k, v in files.items() if k != key}).decode(messages)
            assert raised.value.code == "SS5321"


def test_files_that_are_none_of_pem(registry: SchemaRegistry, tmp_path: Path) -> None:
    store, messages = tmp_path / "store.jks", written(registry, ROWS)
    for key in ("ssl.truststore.location", "ssl.keystore.location"):
        store.write_bytes(b"\xfe\xed\xfe\xed")
        with pytest.raises(UserError, match="cannot be read as PEM"):
            reader(registry, **{key: str(store)}).decode(messages)
        with pytest.raises(ExternalError, match="absent"):
            reader(registry, **{key: str(tmp_path / "absent")}).decode(messages)


def test_a_schema_that_the_registry_refuses(registry: SchemaRegistry) -> None:
    registry.incompatible.add("t-value")
    with pytest.raises(UserError, match='refuses the subject "t-value"') as raised:
        written(registry, ROWS)
    assert (raised.value.code, raised.value.detail) == ("SS5324", "Schema being registered is incompatible")


@pytest.mark.parametrize(
    ("schema", "kind", "said"),
    [
        (record(id="string"), "AVRO", 'column "id" is string in the schema'),
        ("message M {}", "PROTOBUF", "is one of PROTOBUF, not of Avro"),
        ("{", "AVRO", "is none of Avro"),
        (record(id="no.such"), "AVRO", 'it names a type "no.such" that it does not define'),
        ('"int"', "AVRO", "it is not that of a record"),
    ],
)
def test_schemas_that_do_not_fit(registry: SchemaRegistry, schema: Any, kind: str, said: str) -> None:
    number = registry.add(schema, kind=kind)
    with pytest.raises(UserError) as raised:
        decode(reader(registry), b"\0" + number.to_bytes(4, "big") + b"\0\0")
    assert raised.value.code == "SS5324"
    assert said in raised.value.message


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"url": "localhost:8081"}, "SS4002"),
        ({"url": "file:///etc"}, "SS4002"),
        ({"url": "http://r", "basic-auth.user-info": "a:b"}, "SS4003"),
        ({"url": "http://r", "basic-auth.credentials-source": "USER_INFO"}, "SS4005"),
        ({"url": "http://a:b@r", "bearer-auth.token": "c"}, "SS4003"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], code: str) -> None:
    with pytest.raises(UserError) as raised:
        format_of("avro-confluent").validate(SCHEMA, options)
    assert raised.value.code == code
