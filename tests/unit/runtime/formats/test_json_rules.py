"""Which lines are JSON and what their fields are, whether the kernel or the tape reads them, and as Python reads them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

SCHEMA = Schema.of(("a", sql.BIGINT), ("s", sql.STRING))
ROW = Schema.of(("r", sql.row(("x", sql.INT))), ("m", sql.map_of(sql.STRING, sql.INT)))
IGNORE = {"ignore-parse-errors": "true"}
Found = tuple[list[dict[str, Any]], list[tuple[int, str]]]


def read(data: bytes, schema: Schema, columns: tuple[str, ...] | None = None) -> Found:
    """Rows, and line and reason of the rejected ones; the same with and without the kernel."""
    one, other = (_read(data, schema, columns, uses_kernel) for uses_kernel in (True, False))
    assert one == other
    return one


def _read(data: bytes, schema: Schema, columns: tuple[str, ...] | None, uses_kernel: bool) -> Found:
    names = schema.names if columns is None else columns
    reader = JsonReader(
        ReadRequest(io.BytesIO(data), "f.json", schema, names, IGNORE), uses_kernel=uses_kernel
    )
    rows: list[dict[str, Any]] = []
    rejected = []
    for batch, bad in reader.batches():
        rows += batch.to_pylist() if names else [{}] * batch.num_rows
        rejected += [(row.line, row.reason) for row in bad]
    return rows, rejected


@pytest.mark.parametrize(
    ("line", "schema", "row"),
    [
        ('{"a":1,"a":2}', SCHEMA, {"a": 2, "s": None}),
        ('{"a":1,"a":null}', SCHEMA, {"a": None, "s": None}),
        ('{"a":null,"s":"x","a":2}', SCHEMA, {"a": 2, "s": "x"}),
        ('{"a":"x","a":2}', SCHEMA, {"a": 2, "s": None}),
        ('{"a":1,"\\u0061":2}', SCHEMA, {"a": 2, "s": None}),
        ('{"\\u0061":1 , "a" :2}', SCHEMA, {"a": 2, "s": None}),
        ('{"o":{"a":1},"a":2,"p":[{"a":3}]}', SCHEMA, {"a": 2, "s": None}),
        ('{"s":{"x":1,"x":2},"a":1}', SCHEMA, {"a": 1, "s": '{"x":2}'}),
        ('{"s":"{\\"a\\":1,}","a":2}', SCHEMA, {"a": 2, "s": '{"a":1,}'}),
        ('{"s":", ] NaN, }","a":2}', SCHEMA, {"a": 2, "s": ", ] NaN, }"}),
        ('{"r":{"x":1,"y":0,"x":2}}', ROW, {"r": {"x": 2}, "m": None}),
        ('{"r":{"x":1},"r":{"x":2}}', ROW, {"r": {"x": 2}, "m": None}),
        ('{"m":{"x":1,"y":2,"x":3}}', ROW, {"r": None, "m": [("y", 2), ("x", 3)]}),
        ('{"m":{"\\u00e9":1,"é":3}}', ROW, {"r": None, "m": [("é", 3)]}),
        ('{"a":"+5"}', SCHEMA, {"a": 5, "s": None}),
        ('{"a":"007"}', SCHEMA, {"a": 7, "s": None}),
        ('{"a":2.0}', SCHEMA, {"a": 2, "s": None}),
        ('\t{"a":1}\r', SCHEMA, {"a": 1, "s": None}),
        ('{"s":"\\ud800"}', SCHEMA, {"a": None, "s": "?"}),
        ('{"s":"\\ud83d\\udbffx","o":"\\ude00"}', SCHEMA, {"a": None, "s": "??x"}),
        ('{"m":{"\\udc00":1}}', ROW, {"r": None, "m": [("?", 1)]}),
        ('{"b":' + "[" * 100_000 + "]" * 100_000 + ',"a":1}', SCHEMA, {"a": 1, "s": None}),
        ('{"b":' + '{"x":' * 1000 + "0" + "}" * 1000 + ',"a":1}', SCHEMA, {"a": 1, "s": None}),
    ],
)
def test_a_line_is_read_as_jackson_reads_it(line: str, schema: Schema, row: dict[str, Any]) -> None:
    assert read(f"{line}\n\n{line}".encode(), schema) == ([row, row], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a":1,}', "a comma stands before a closing bracket"),
        ('{"a":1 , }', "a comma stands before a closing bracket"),
        ('{"o":[1,],"a":1}', "a comma stands before a closing bracket"),
        ('{"a":NaN}', "NaN and Infinity are no JSON"),
        ('{"o":[-inf],"a":1}', "NaN and Infinity are no JSON"),
        ('{"o":Infinity}', "NaN and Infinity are no JSON"),
        ('{"a":"0x10"}', 'in field "a" is no BIGINT'),
        ('{"a":0x10}', "it is no JSON object"),
        ('{"a":+1}', "it is no JSON object"),
        ('{"a":01}', "it is no JSON object"),
        ('{"a":9223372036854775808}', 'in field "a" is no BIGINT'),
        ('{"a":1}{"a":2}', "it is no JSON object"),
        ('{"a":1} {"a":2}', "it is no JSON object"),
        ('[{"a":1}', "it is no JSON object"),
        ('{"a":x,"a":1}', "it is no JSON object"),
        ('{"a":1e,"s":"","a":1}', "it is no JSON object"),
        ('{"s":"a\tb"}', "it is no JSON object"),
        ('{"a":1}\0', "it is no JSON object"),
        ("{'a':1}", "it is no JSON object"),
        ('{"a":1/**/}', "it is no JSON object"),
        ("[" * 100_000, "it is no JSON object"),
        ('{"a":' * 100_000, "it is no JSON object"),
    ],
)
def test_what_is_no_json_is_rejected_with_its_line(line: str, reason: str) -> None:
    rows, rejected = read(f'{{"a":1}}\n{line}\n{{"a":2}}\n'.encode(), SCHEMA)
    assert rows == [{"a": 1, "s": None}, {"a": 2, "s": None}]
    assert [(number, reason in why) for number, why in rejected] == [(2, True)]
    reader = JsonReader(ReadRequest(io.BytesIO(line.encode()), "f.json", SCHEMA, SCHEMA.names, {}))
    with pytest.raises(UserError, match=r'could not decode line 1 of "f\.json"'):
        list(reader.batches())


def test_json_is_looked_at_in_fields_that_are_not_read_too() -> None:
    rows, rejected = read(b'{"b":[1,]}\n{"b":NaN}\n{"b":{"x":1,"x":2}}\n', SCHEMA, ())
    assert (rows, [line for line, _ in rejected]) == ([{}], [1, 2])


@pytest.mark.parametrize("name", ["é", "€", "😀", "\n", "a\u00e9€😀z"])
def test_a_name_with_escapes_is_the_name_that_they_stand_for(name: str) -> None:
    """So the member that comes last is the one that counts, also behind names that are as long."""
    escaped, other = json.dumps(name), json.dumps(name[:-1] + "x")
    plain = '"\\n"' if name == "\n" else json.dumps(name, ensure_ascii=False)
    schema = Schema.of((name, sql.INT), (name[:-1] + "x", sql.INT))
    for first, last in ((escaped, plain), (plain, escaped), (escaped, escaped)):
        line = f"{{{first}: 1, {other}: 2, {last}: 3}}\n"
        assert read(line.encode(), schema) == ([{schema.names[0]: 3, schema.names[1]: 2}], []), line


class Members(list[tuple[str, Any]]):
    """An object whose names may repeat."""


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b'"a"',
    b'"s"',
    b"\\",
    b"1",
    b"-",
    b"NaN",
    b" ",
    b"null",
    b"\\u0061",
]
SCALARS = st.none() | st.integers(-9, 2**63 - 1) | st.text('a"\\é, ]}', max_size=4)
NAMES = st.sampled_from(["a", "s", "r", "m", "x", "é", '"'])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=4).map(Members),
    max_leaves=8,
)


def text_of(value: Any, ensure_ascii: bool) -> str:
    if isinstance(value, Members):
        members = (f"{json.dumps(k, ensure_ascii=ensure_ascii)}:{text_of(v, ensure_ascii)}" for k, v in value)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(v, ensure_ascii) for v in value) + "]"
    return json.dumps(value, ensure_ascii=ensure_ascii)


def mutated(draw: st.DrawFn, line: bytes) -> bytes:
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(line)))
        line = line[:at] + draw(st.sampled_from([b"", *PIECES])) + line[at + draw(st.integers(0, 2)) :]
    return line


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    members = Members(draw(st.lists(st.tuples(NAMES, VALUES), max_size=5)))
    return mutated(draw, text_of(members, draw(st.booleans())).encode())


def refuse(constant: str) -> Any:
    raise ValueError(constant)


def as_python_reads(line: bytes) -> Any:
    """The object, or None when Python reads none."""
    try:
        value = json.loads(line.decode(), parse_constant=refuse)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


STRINGS = Schema.of(("s", sql.STRING), ("r", sql.row(("x", sql.STRING))))


@settings(max_examples=100, deadline=None)
@given(st.lists(lines(), max_size=6))
def test_any_lines_are_read_as_python_reads_them(parts: list[bytes]) -> None:
    """Rejected are those that are no objects to Python, and of the others values are the same."""
    expected, refused = [], []
    for number, line in enumerate(parts, 1):
        value = as_python_reads(line)
        if line.strip(b" \t\r\n") and value is None:
            refused.append(number)
        elif value is not None:
            expected.append(value)
    data = b"\n".join(parts)
    rows, rejected = read(data, STRINGS, ())
    assert (len(rows), [number for number, _ in rejected]) == (len(expected), refused)
    rows, rejected = read(data, STRINGS, ("s",))
    assert [number for number, _ in rejected] == refused
    for row, value in zip(rows, expected, strict=True):
        found, wanted = row["s"], value.get("s")
        if isinstance(wanted, dict | list):
            assert json.loads(found) == wanted
        else:
            assert found == (str(wanted) if isinstance(wanted, int) else wanted)
    rows, rejected = read(data, STRINGS, ("r",))
    for row, value in zip(rows, [v for v in expected if isinstance(v.get("r"), dict | None)], strict=True):
        found = row["r"] and row["r"]["x"]
        wanted = value["r"].get("x") if value.get("r") else None
        if isinstance(wanted, dict | list):
            assert json.loads(found) == wanted
        else:
            assert found == (str(wanted) if isinstance(wanted, int) else wanted)
