"""Documents of JSON that were changed here and there are undecodable where DuckDB's parser says that they are no JSON."""

from __future__ import annotations

import io
import random
import re

import duckdb
import pytest

from sqlstream import types as sql
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

SCHEMA = Schema.of(("a", sql.STRING), ("b", sql.STRING))
DOCUMENTS = [
    b'{"a":1,"b":"x"}',
    b'{"a":"\\u00e9\\n","b":[1,2,{"c":null}],"d":-1.5e10}',
    b'{"a":{"b":{"c":[[],[{}]]}},"e":true,"f":false}',
    ' { "a" : 0.1 , "b" : "é😀" } '.encode(),
    b'{"a":1,"a":2,"b":[1,1]}',
    b'{"n":[0,-0,-0.0,1e5,1E+5,1e-5,12345678901234567890,0.30000000000000004,9223372036854775808]}',
    b'{"a":"' + b"y" * 70 + b'","b":"\\"\\\\\\/"}',
    b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
    b"{}",
    b'{"":""}',
]
PIECES = [
    *(bytes([c]) for c in b"\"\\{}[],: \t\r\x00\x1f\x7f\x0b\x0c01-+.eE'"),
    *(b"\\u", b"\\ud83d", b"\\ude00", b"null", b"true", b"nul", b"NaN", b"Infinity", b"00", b"/*x*/"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"1e400"),
]
_KNOWN = re.compile(rb"\\u[dD]|\d[eE]\+?\d{3}|,[ \t\r]*[\]}]|Infinity|NaN")


def mutated(source: random.Random) -> bytes:
    document = bytearray(source.choice(DOCUMENTS))
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        at, way = source.randrange(len(document) + 1), source.randrange(4)
        if way == 0:
            document[at : at + source.randrange(2)] = source.choice(PIECES)
        elif way == 1:
            document[at : at + source.randint(1, 3)] = b""
        elif way == 2:
            other = source.choice(DOCUMENTS)
            first = source.randrange(len(other))
            document[at:at] = other[first : first + source.randint(1, 8)]
        else:
            document[at : at + 1] = bytes([source.randrange(256)])
    return bytes(document).replace(b"\n", b" ")


def undecodable(documents: list[bytes], columns: tuple[str, ...], *, uses_kernel: bool) -> set[int]:
    """The places of those that are rejected."""
    request = ReadRequest(
        io.BytesIO(b"\n".join(documents) + b"\n"), "f", SCHEMA, columns, {"ignore-parse-errors": "true"}
    )
    batches = JsonReader(request, uses_kernel=uses_kernel).batches()
    return {r.line - 1 for _, rejected in batches for r in rejected}


def is_known(document: bytes) -> bool:
    """Whether it is blank, may be an array, whose elements are rows, or has what DuckDB refuses and the grammar of JSON allows,
    half of a surrogate pair and numbers beyond a double, or the other way round, commas before brackets, Infinity and NaN."""
    start = document.lstrip(b" \t\r\n")
    return not start or start[:1] == b"[" or _KNOWN.search(document) is not None


@pytest.mark.parametrize("count", [4_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_what_is_no_json_is_undecodable(count: int) -> None:
    for first in range(0, count, 4_000):
        source = random.Random(first)
        documents = [d for d in (mutated(source) for _ in range(4_000)) if not is_known(d)]
        texts = [d.decode(errors="replace") for d in documents]
        verdicts = duckdb.execute(
            "SELECT CASE WHEN json_valid(d) THEN json_type(d) = 'OBJECT' ELSE false END FROM (SELECT unnest($1) AS d)",
            [texts],
        ).fetchall()
        expected = {
            place
            for place, ((is_object,), document, text) in enumerate(
                zip(verdicts, documents, texts, strict=True)
            )
            if not is_object or text.encode() != document
        }
        for columns in ((), ("a", "b")):
            for uses_kernel in (True, False):
                found = undecodable(documents, columns, uses_kernel=uses_kernel)
                assert [documents[place] for place in found ^ expected] == []
