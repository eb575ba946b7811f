"""Whom a registry of schemas is asked through: no private address where none may be called, the login to no other server."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from http_harness import Asked, Reply, http_server
from registry_harness import running_registry

from sqlstream import types as sql
from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.formats import calling_through, format_of
from sqlstream.runtime.formats.confluent import registry as registries
from sqlstream.runtime.formats.confluent.registry import Registry
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Schema
from sqlstream.spi.format import HasMessages, MessageRequest

NEIGHBOURS = RootedFiles(FilePlaces(has_database_servers=True))
FORMATS = ["avro-confluent", "debezium-avro-confluent", "json-registry", "protobuf-confluent"]


def test_a_registry_is_no_neighbour_of_a_server() -> None:
    import pyarrow as pa

    schema = Schema.of(("n", sql.BIGINT))
    for identifier in FORMATS:
        form = format_of(identifier)
        assert isinstance(form, HasMessages)
        options = {"url": "http://127.0.0.1:1", "subject": "t"}
        writer = calling_through(form.message_writer(schema, options), NEIGHBOURS)
        with pytest.raises(UserError) as raised:
            writer.encode(pa.RecordBatch.from_arrays([pa.array([1])], names=["n"]))
        assert raised.value.code == "SS5341", identifier
        if identifier == "json-registry":
            # It reads without the schema.
            continue
        reader = calling_through(form.message_reader(MessageRequest(schema, ("n",), options)), NEIGHBOURS)
        with pytest.raises(UserError) as raised:
            reader.decode(pa.array([b"\0\0\0\0\1\0\0"], pa.binary()))
        assert raised.value.code == "SS5341", identifier


def test_a_login_does_not_go_to_another_server() -> None:
    with http_server(lambda asked: Reply.json({"schema": '"long"'})) as other:
        moved = Reply(status=302, headers={"Location": f"{other.url}/there"})
        with http_server(lambda asked: moved) as server:
            Registry({"url": server.url, "bearer-auth.token": "hunter22"}, "AVRO").schema(7)
            assert server.asked[0].headers["authorization"] == "Bearer hunter22"
        assert "authorization" not in other.asked[0].headers


def test_an_answer_that_comes_byte_by_byte_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_TIMEOUT_S", 0.3)

    def dripping() -> Iterator[bytes]:
        for _ in itertools.count():
            time.sleep(0.02)
            yield b" "

    with http_server(lambda asked: Reply(b"{", parts=dripping())) as server:
        with pytest.raises(ExternalError) as raised:
            Registry({"url": server.url}, "AVRO").schema(7)
        assert raised.value.code == "SS5321"


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"\xff"])
def test_an_answer_that_is_no_json_is_asked_for_again(body: bytes) -> None:
    def reply(asked: Asked) -> Reply:
        return Reply(body)

    with http_server(reply) as server, pytest.raises(ExternalError) as raised:
        Registry({"url": server.url}, "AVRO").schema(7)
    assert raised.value.code == "SS5321"


def test_references_of_a_schema_of_avro_are_refused_and_not_fetched() -> None:
    with running_registry() as registry:
        other = registry.add({"type": "string"}, "other")
        assert other
        number = registry.add(
            {"type": "record", "name": "r", "fields": []},
            references=[{"name": "o", "subject": "other", "version": 1}],
        )
        with pytest.raises(UserError) as raised:
            Registry({"url": registry.url}, "AVRO").schema(number)
        assert raised.value.code == "SS5324"
        assert list(registry.asked) == [f"/schemas/ids/{number}"]
