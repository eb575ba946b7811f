"""The conformance kit on every format of messages that comes with sqlstream."""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from registry_harness import SchemaRegistry, running_registry

from sqlstream.runtime.formats import FORMATS, format_of
from sqlstream.testing import Check, MessageCase, checks

_ALWAYS = contextlib.ExitStack()


@functools.cache
def _registry() -> SchemaRegistry:
    return _ALWAYS.enter_context(running_registry())


@pytest.fixture(scope="module", autouse=True)
def _registry_ends() -> Iterator[None]:
    with _ALWAYS:
        yield
    _registry.cache_clear()


def _registered() -> dict[str, str]:
    return {"url": _registry().url, "subject": "t"}


FLAT = {
    "b": "BOOLEAN",
    "i": "INT",
    "n": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "c": "DECIMAL(10, 2)",
    "s": "STRING",
    "y": "BYTES",
    "da": "DATE",
    "ts": "TIMESTAMP(3)",
}
NO_ROW = (None,) * len(FLAT)
LONG_AGO, LATE = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000)
VALUES = (
    (True, 1, 2, 1.5, 2.5, Decimal("1.20"), "a", b"\0\xff", datetime.date(2020, 2, 29), LATE),
    (False, -(2**31), -(2**63), -0.0, 5e-324, Decimal("-99999999.99"), 'ö\n\r,;"\\\0', b"\n", LONG_AGO.date(), LONG_AGO),
    (None, 2**31 - 1, 2**63 - 1, 0.0, 1.7976931348623157e308, Decimal("99999999.99"), " x ", b" ", LATE.date(), None),
)  # fmt: skip
ROWS = (*VALUES, NO_ROW, *VALUES[:1])
NESTED = {
    **FLAT,
    "l": "ARRAY<STRING>",
    "r": "ROW<x INT, y STRING>",
    "m": "MAP<STRING, INT>",
    "rs": "ARRAY<ROW<x INT, y ARRAY<INT>>>",
}
DEEP = (
    (["a", None, ""], {"x": 1, "y": "ö"}, [("k", 1), ("", None)], [{"x": 1, "y": [1, None]}, None]),
    ([], {"x": None, "y": ""}, [], []),
    (None, {"x": None, "y": None}, None, [{"x": None, "y": None}]),
    (None, None, None, None),
    ([None], None, [("n", -1)], [{"x": 5, "y": []}]),
)
NESTED_ROWS = tuple(row + deep for row, deep in zip(ROWS, DEEP, strict=True))
NO_NESTED = (None,) * len(NESTED)

ONE = {"n": "BIGINT", "name": "STRING"}
PAIRS = ((1, "a"), (None, None), (-(2**63), 'ö"\n'), (7, ""))
NO_ROWS: tuple[()] = ()


def _json(**values: object) -> bytes:
    return json.dumps(values).encode()


def _events(identifier: str, inserted: bytes, deleted: bytes, *refused: bytes) -> MessageCase:
    return MessageCase(
        identifier,
        ONE,
        PAIRS,
        (
            (None, NO_ROWS),
            (b"", NO_ROWS),
            (b"{", None),
            (b"\xff", None),
            (b"[]", None),
            (b"{}", None),
            (inserted, ((1, "a"),)),
            (deleted, ((1, "a"),)),
            (b"[" + inserted + b"]", None),
            *((message, None) for message in refused),
        ),
        refused=(({"ignore-parse-errors": "perhaps"}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    )


FRAME = b"\0\0\0\0\1"
PROTO = """syntax = "proto3";
message Top {
  message In { optional int32 x = 1; optional string y = 2; }
  optional bool b = 1; optional int32 i = 2; optional int64 n = 3; optional float f = 4; optional double d = 5;
  optional string s = 6; optional bytes y = 7; repeated string l = 8; In r = 9; map<string, int32> m = 10;
  repeated In rs = 11;
}"""
FIELDS = {
    **{name: FLAT[name] for name in ("b", "i", "n", "f", "d", "s", "y")},
    "l": "ARRAY<STRING>",
    "r": "ROW<x INT, y STRING>",
    "m": "MAP<STRING, INT>",
    "rs": "ARRAY<ROW<x INT, y STRING>>",
}
NO_FIELDS = (None,) * len(FIELDS)
FIELD_ROWS = tuple(
    (*row[:5], *row[6:8], *deep)
    for row, deep in zip(
        ROWS,
        (
            (["a", ""], {"x": 1, "y": "ö"}, [("k", 1), ("", 0)], [{"x": 1, "y": ""}]),
            (None, {"x": None, "y": ""}, None, [{"x": None, "y": None}]),
            ([""], {"x": None, "y": None}, [("a", -1)], None),
            (None, None, None, None),
            (["x"] * 40, None, None, None),
        ),
        strict=True,
    )
)
CASES = (
    MessageCase(
        "json",
        NESTED,
        NESTED_ROWS,
        (
            (None, NO_ROWS),
            (b"", NO_ROWS),
            (b"{}", (NO_NESTED,)),
            (b'{"i":\n5}\r\n', ((None, 5, *NO_NESTED[2:]),)),
            (b'{"i": "x"}', None),
            (b'{"i": 1', None),
            (b"\xff", None),
            (b"[]", NO_ROWS),
        ),
        refused=(({"ignore-parse-errors": "perhaps"}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    ),
    MessageCase(
        "csv",
        FLAT,
        ROWS,
        ((None, NO_ROWS), (b"", NO_ROWS), (b"x", None), (b'"', None), (b"\xff", None)),
        lambda: {"null-literal": "NULL"},
        refused=(({"field-delimiter": "ab"}, "SS4002"),),
        refused_columns=("MAP<STRING, INT>",),
    ),
    MessageCase(
        "raw",
        {"line": "STRING"},
        (("a",), (None,), ("",), ("ö\n",)),
        ((None, ((None,),)), (b"", (("",),)), (b"\xff", None)),
        refused=(({"charset": "no-such"}, "SS4002"),),
        refused_columns=("ARRAY<INT>",),
    ),
    MessageCase(
        "avro",
        NESTED,
        NESTED_ROWS,
        ((None, NO_ROWS), (b"", None), (b"\x09", None), (bytes(len(NESTED)), (NO_NESTED,))),
        refused=(({"encoding": "json"}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    ),
    MessageCase(
        "avro-confluent",
        NESTED,
        NESTED_ROWS,
        ((None, NO_ROWS), (b"", None), (b"\0\0\0\0", None), (b"\1\0\0\0\1", None), (b"abcdef", None)),
        _registered,
        refused=(({"schema": "{"}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    ),
    MessageCase(
        "json-registry",
        NESTED,
        NESTED_ROWS,
        (
            (None, NO_ROWS),
            (b"", None),
            (b"{}", None),
            (FRAME, NO_ROWS),
            (FRAME + b"{", None),
            (FRAME + b'{"i":\n5}', ((None, 5, *NO_NESTED[2:]),)),
        ),
        _registered,
        refused=(({"url": ""}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    ),
    MessageCase(
        "protobuf",
        FIELDS,
        FIELD_ROWS,
        (
            (None, NO_ROWS),
            (b"", (NO_FIELDS,)),
            (b"\x10\x05", ((None, 5, *NO_FIELDS[2:]),)),
            (b"\x10", None),
            (b"\xff", None),
        ),
        lambda: {"message-class-name": "Top", "schema": PROTO},
        refused=(({"message-class-name": "Other"}, "SS4002"), ({"schema": "message"}, "SS4002")),
        refused_columns=("STRING",),
    ),
    MessageCase(
        "protobuf-confluent",
        FIELDS,
        FIELD_ROWS,
        ((None, NO_ROWS), (b"", None), (b"\0\0\0\0", None), (b"abcdefg", None)),
        _registered,
        refused=(({"schema": "message"}, "SS4002"),),
        refused_columns=("DATE",),
    ),
    _events(
        "debezium-json",
        _json(op="c", before=None, after={"n": 1, "name": "a"}),
        _json(op="d", before={"n": 1, "name": "a"}, after=None),
        _json(op="x", before=None, after=None),
    ),
    _events(
        "ogg-json",
        _json(op_type="I", after={"n": 1, "name": "a"}),
        _json(op_type="D", before={"n": 1, "name": "a"}),
        _json(op_type="x"),
    ),
    _events(
        "canal-json",
        _json(type="INSERT", data=[{"n": 1, "name": "a"}], old=None),
        _json(type="DELETE", data=[{"n": 1, "name": "a"}], old=None),
        _json(type="x", data=[]),
    ),
    _events(
        "maxwell-json",
        _json(type="insert", data={"n": 1, "name": "a"}),
        _json(type="delete", data={"n": 1, "name": "a"}),
        _json(type="x", data={}),
    ),
    MessageCase(
        "debezium-avro-confluent",
        NESTED,
        NESTED_ROWS,
        ((None, NO_ROWS), (b"", NO_ROWS), (b"\0\0\0\0", None), (b"abcdefg", None)),
        _registered,
        refused=(({"schema": "{"}, "SS4002"),),
        refused_columns=("MAP<INT, INT>",),
    ),
)


@pytest.mark.parametrize("check", checks(*CASES), ids=str)
def test_the_engine_can_use_it(check: Check, tmp_path: Path) -> None:
    check(tmp_path)


def test_every_format_of_messages_has_a_case() -> None:
    assert {case.format for case in CASES} == {
        name for name in FORMATS if format_of(name).descriptor.has_messages
    }
