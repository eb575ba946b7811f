"""Formats whose rows are messages of queues: many messages at once are read as each of them alone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.formats import FORMATS, format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, HasMessages, MessageRequest
from sqlstream.types import BIGINT, BYTES, STRING

SCHEMA = Schema.of(("n", BIGINT), ("name", STRING))
ONE = Schema.of(("line", STRING))
NAMES = st.text(st.sampled_from('ab ö,"\n\r\\|{}'), max_size=6)


def messages_format(identifier: str) -> HasMessages:
    found = format_of(identifier)
    assert isinstance(found, HasMessages)
    return found


def decoded(
    identifier: str, messages: list[bytes | None], schema: Schema = SCHEMA, **options: str
) -> DecodedMessages:
    reader = messages_format(identifier).message_reader(MessageRequest(schema, schema.names, options))
    return reader.decode(pa.array(messages, pa.binary()))


def owners(found: DecodedMessages) -> list[int]:
    return list(range(found.batch.num_rows)) if found.owners is None else found.owners.tolist()


def rows(found: DecodedMessages) -> list[tuple[int, dict[str, Any]]]:
    return list(zip(owners(found), found.batch.to_pylist(), strict=True))


def each_alone(identifier: str, messages: list[bytes | None], schema: Schema = SCHEMA) -> tuple[Any, Any]:
    """Rows with the places of their messages, and the places of those that are rejected."""
    parts = [(place, decoded(identifier, [message], schema)) for place, message in enumerate(messages)]
    of_rows = [(place, row) for place, part in parts for row in part.batch.to_pylist()]
    return of_rows, [place for place, part in parts for _ in part.rejected]


def check_as_alone(identifier: str, messages: list[bytes | None], schema: Schema = SCHEMA) -> None:
    found = decoded(identifier, messages, schema)
    assert (rows(found), [r.line for r in found.rejected]) == each_alone(identifier, messages, schema)


OBJECTS = st.fixed_dictionaries({}, optional={"n": st.integers(-5, 2**40), "name": NAMES | st.none()})
TEXTS_OF_JSON = (
    OBJECTS.map(json.dumps)
    | OBJECTS.map(lambda value: json.dumps(value, indent=1))
    | OBJECTS.map(lambda value: json.dumps(value, ensure_ascii=False))
    | st.sampled_from(
        [
            "",
            " ",
            "\n",
            "null",
            "[1]",
            '{"n": "x"}',
            '{"n": 1}{"n": 2}',
            '{"n"',
            '{"n": 1}\r\n',
            "[]",
            '[{"n": 1}',
        ]
    )
    | st.lists(OBJECTS | st.sampled_from([None, 1, "{}", [{"n": 1}]]), max_size=3).map(
        lambda value: json.dumps(value, indent=1)
    )
)


def as_messages(texts: st.SearchStrategy[str]) -> st.SearchStrategy[list[bytes | None]]:
    return st.lists(texts.map(str.encode) | st.none() | st.just(b"\xff"), max_size=8)


@given(as_messages(TEXTS_OF_JSON))
def test_messages_of_json_are_read_as_each_alone(messages: list[bytes | None]) -> None:
    check_as_alone("json", messages)


@given(as_messages(st.text(st.sampled_from('1a,"\n\r '), max_size=9)))
def test_messages_of_csv_are_read_as_each_alone(messages: list[bytes | None]) -> None:
    check_as_alone("csv", messages)
    check_as_alone("csv", messages, ONE)


@given(as_messages(NAMES))
def test_messages_of_raw_are_read_as_each_alone(messages: list[bytes | None]) -> None:
    check_as_alone("raw", messages, ONE)


def event(operation: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    return json.dumps({"op": operation, "before": before, "after": after}, indent=1)


ROW = {"n": 1, "name": "a"}
EVENTS = st.sampled_from(
    [
        event("c", None, ROW),
        event("u", ROW, {"n": 1, "name": "b"}),
        event("d", ROW, None),
        event("x", None, ROW),
        event("u", None, ROW),
        "",
        "null",
        "[]",
    ]
)


@given(as_messages(EVENTS))
def test_change_events_are_read_as_each_alone(messages: list[bytes | None]) -> None:
    check_as_alone("debezium-json", messages)


def test_a_message_of_csv_is_one_row() -> None:
    found = decoded("csv", [b'1,"a\nb"', b"2,b\n", b"3,c\n4,d", b'5,"open', b"6,f"])
    assert rows(found) == [
        (0, {"n": 1, "name": "a\nb"}),
        (1, {"n": 2, "name": "b"}),
        (4, {"n": 6, "name": "f"}),
    ]
    assert [(r.line, r.reason) for r in found.rejected] == [
        (2, "it is several rows"),
        (3, 'a quote is not closed in column "name"'),
    ]


def test_an_even_number_of_quotes_leaves_none_open_for_the_next_message() -> None:
    schema = Schema.of(("a", STRING), ("b", STRING), ("c", STRING))
    check_as_alone("csv", [b'a",",b', b'c",z"', b"d,e,f"], schema)


def test_raw_values_have_their_charset_and_null_is_a_row() -> None:
    found = decoded("raw", ["ö".encode("latin-1"), None, b""], ONE, charset="ISO-8859-1")
    assert [row["line"] for _, row in rows(found)] == ["ö", None, ""]
    of_bytes = decoded("raw", [b"\xff", None], Schema.of(("b", BYTES)))
    assert [row["b"] for _, row in rows(of_bytes)] == [b"\xff", None]


def encoded(identifier: str, values: list[tuple[Any, ...]], schema: Schema, **options: str) -> list[Any]:
    arrow = to_arrow_schema(schema)
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, v, strict=True)) for v in values], arrow)
    return messages_format(identifier).message_writer(schema, options).encode(batch).to_pylist()


@given(st.lists(st.tuples(st.integers(-5, 5), NAMES), max_size=8), st.sampled_from(["json", "csv"]))
def test_rows_are_messages_that_are_read_as_these_rows(
    values: list[tuple[int, str]], identifier: str
) -> None:
    messages = encoded(identifier, values, SCHEMA)
    assert len(messages) == len(values)
    assert not any(message.endswith(b"\n") for message in messages if identifier == "json")
    found = decoded(identifier, messages)
    assert [(row["n"], row["name"]) for _, row in rows(found)] == values


@given(st.lists(NAMES | st.none(), max_size=8), st.sampled_from(["UTF-8", "ISO-8859-1"]))
def test_raw_values_are_messages(values: list[str | None], charset: str) -> None:
    messages = encoded("raw", [(value,) for value in values], ONE, charset=charset)
    assert [None if message is None else message.decode(charset) for message in messages] == values


def test_a_value_that_holds_what_ends_rows_is_one_message() -> None:
    values = [(1, "a\nb"), (2, "\n\0\n"), (3, "\n\0\n\0\n")]
    messages = encoded("csv", values, SCHEMA)
    assert [(row["n"], row["name"]) for _, row in rows(decoded("csv", messages))] == values


@pytest.mark.parametrize("identifier", FORMATS)
def test_a_format_has_messages_if_its_descriptor_says_so(identifier: str) -> None:
    made = format_of(identifier)
    assert made.descriptor.has_messages == isinstance(made, HasMessages)
