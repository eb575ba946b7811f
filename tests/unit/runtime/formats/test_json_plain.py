"""The kernel for plainly written objects: what it decodes, and that the tape decodes the same."""

from __future__ import annotations

import datetime
import io
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.json_plain import PlainObjects
from sqlstream.runtime.formats.json_reader import JsonReader
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected

SCHEMA = Schema.of(
    ("a", sql.BIGINT),
    ("b", sql.STRING),
    ("auction", sql.INT),
    ("t", sql.TINYINT),
    ("f", sql.BOOLEAN),
    ("d", sql.DOUBLE),
    ("g", sql.FLOAT),
    ("ts", sql.timestamp(3)),
    ("z", sql.timestamp_ltz(6)),
    ("day", sql.DATE),
    ("x", sql.BYTES),
    ("é", sql.STRING),
)
NESTED = Schema.of(
    ("r", sql.row(("x", sql.INT), ("y", sql.array(sql.STRING)))),
    ("l", sql.array(sql.BIGINT)),
    ("m", sql.map_of(sql.STRING, sql.DOUBLE)),
    ("a", sql.BIGINT),
    (
        "w",
        sql.array(sql.row(("x", sql.INT), ("y", sql.array(sql.STRING)), ("w", sql.row(("f", sql.BOOLEAN))))),
    ),
    (
        "deep",
        sql.row(
            (
                "w",
                sql.array(
                    sql.row(("r", sql.row(("x", sql.decimal(10, 2)), ("m", sql.map_of(sql.STRING, sql.INT)))))
                ),
            ),
            ("l", sql.array(sql.array(sql.BIGINT))),
            ("b", sql.STRING),
        ),
    ),
)
DECIMALS = Schema.of(
    ("d", sql.decimal(10, 2)),
    ("b", sql.STRING),
    ("r", sql.row(("x", sql.decimal(38, 9)))),
    ("m", sql.map_of(sql.STRING, sql.STRING)),
)

STRINGS = [
    *(
        '""',
        '"x"',
        '"é😀"',
        '"\\u00e9"',
        '"\\uD83D\\ude00"',
        '"\\ud800"',
        '"\\ude00"',
        '"\\udc00\\udc00"',
        '"\\udbff\\udfff"',
        '"\\ud83d\\udbff"',
        '"\\u0000"',
        '"\\u12"',
        '"\\x"',
    ),
    *(
        '"a\\"b\\\\c\\/d\\b\\f\\n\\r\\t"',
        '"\t"',
        '"\x7f"',
        '"\\',
        '"open',
        '"12"',
        '"-7"',
        '"007"',
        '" 5 "',
        '"1.5"',
    ),
    *(
        '"2020-01-31"',
        '"2020-01-31 10:11:12"',
        '"2020-01-31T10:11:12.123456789"',
        '"2020-01-31 10:11:12Z"',
        '"2020-01-31 10:11:12.1234567890Z"',
        '"2020-02-30 10:11:12"',
        '"AAE="',
    ),
    *('"' + "y" * n + '"' for n in (30, 63, 64, 65, 127, 200)),
    *('"' + "y" * n + '\\n"' for n in (63, 64)),
    *('"true"', '"NaN"', "''"),
    *(f'"{chr(code)}"' for code in (0, 1, 9, 13, 30, 31, 32, 33)),
]
NUMBERS = [
    *(
        "0",
        "-0",
        "1",
        "-1",
        "12345678",
        "123456789",
        "1234567890123456",
        "2.0",
        "1.5",
        "-2.5e3",
        "1E5",
        "1e+5",
        "007",
    ),
    *(
        "127",
        "128",
        "-128",
        "-129",
        "2147483647",
        "2147483648",
        "-2147483648",
        "9007199254740993",
        "0.1",
        "1.",
        ".5",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e",
        "1e400",
    ),
    *(
        "18446744073709551616",
        "100000000000000000000",
        "0.30000000000000004",
        "1e99",
        "16777217.000000001",
        "--1",
        "+1",
    ),
    *(
        "3.40282351e38",
        "123456789.125",
        "0.000000000000000000000000000000000000000000000000001",
        "NaN",
        "-Infinity",
        "-",
    ),
]
OTHERS = [
    "null",
    "true",
    "false",
    "nul",
    "True",
    "",
    "{}",
    "[]",
    "[1, 2]",
    '["p", null]',
    '{"x":1,"y":["q"]}',
]
DEEP = ["[" * n + "]" * n for n in (59, 60, 61, 90)]
BROKEN = [
    '{"x":}',
    '{"x"}',
    "[1,]",
    "[1 2]",
    '{"x":1,}',
    "{1:2}",
    "[}",
    '{"k":[{"k":[{}]}]}',
    '{"x":{"x":"\\u0041"}}',
    "]",
]
VALUES = STRINGS + NUMBERS + OTHERS + DEEP + BROKEN
KEYS = [
    "a",
    "b",
    "auction",
    "t",
    "f",
    "d",
    "g",
    "ts",
    "z",
    "day",
    "x",
    "é",
    "r",
    "l",
    "m",
    "w",
    "deep",
    "other",
    "A",
    "",
    "\\u0061",
]


ODD_PLACES = ("null", "5", '"t"', "[]", "{}", "true", "[null]", '{"z":[{}]}', "[{]}")


@st.composite
def values_of(draw: st.DrawFn, t: sql.LogicalType) -> str:
    """A value of a nested type, with members that are missing, unknown, null, repeated or of another shape here and there."""
    if draw(st.integers(0, 30)) == 0:
        return draw(st.sampled_from(ODD_PLACES))
    if draw(st.integers(0, 8)) == 0:
        return "null"
    blank = draw(st.sampled_from(["", "", " "]))
    if t.root is sql.TypeRoot.ROW:
        named = {f.name: f.type for f in t.fields}
        names = draw(st.permutations(list(named)))[draw(st.integers(0, 3)) == 0 :]
        names += draw(st.sampled_from([[], [], [], ["other"], names[:1]]))
        members = (f'"{n}":{blank}{draw(values_of(named.get(n, sql.INT)))}' for n in names)
        return "{" + blank + f",{blank}".join(members) + blank + "}"
    if t.root is sql.TypeRoot.ARRAY:
        elements = (draw(values_of(t.element)) for _ in range(draw(st.integers(0, 3))))
        return "[" + blank + f"{blank},".join(elements) + blank + "]"
    if t.root is sql.TypeRoot.MAP:
        return draw(st.sampled_from(["{}", '{"k":1}', '{"k":1,"k":2,"l":null}']))
    return draw(
        st.sampled_from(
            {"STRING": STRINGS[:5], "BOOLEAN": ["true", "false"]}.get(str(t), ["0", "1", "-7", "12"])
        )
    )


def good_value(key: str) -> st.SearchStrategy[str]:
    """Values as columns of that name have them, so that most rows are whole."""
    if key in ("w", "deep"):
        return values_of(NESTED.types[NESTED.index_of(key)])
    texts = {
        "b": STRINGS[:5],
        "é": STRINGS[:5],
        "f": ["true", "false"],
        "ts": ['"2020-01-31 10:11:12"', '"2020-01-31T10:11:12.5"'],
        "z": ['"2020-01-31 10:11:12Z"'],
        "day": ['"2020-01-31"'],
        "x": ['"AAE="'],
        "r": ['{"x":1,"y":["q"]}', "{}"],
        "l": ["[]", "[1, 2]"],
        "m": ["{}", '{"x":1.5}'],
        "d": ["1", "-2.5", "1e3"],
        "g": ["1", "0.1"],
    }
    return st.sampled_from([*texts.get(key, ["0", "1", "-7", "12"]), "null"])


@st.composite
def objects(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=8, unique=draw(st.integers(0, 4)) > 0))
    is_good = draw(st.integers(0, 3)) > 0
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r")]))
    values = [draw(good_value(key) if is_good else st.sampled_from(VALUES)) for key in keys]
    return "{" + comma.join(f'"{k}"{colon}{v}' for k, v in zip(keys, values, strict=True)) + "}"


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    line = draw(objects()).encode("utf-8", "surrogatepass")
    edge = draw(st.sampled_from([b"", b"", b"", b" ", b"\r", b"\t", b"\x0b"]))
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(line)))
        piece = draw(
            st.sampled_from([b"", b'"', b"\\", b"\xff", b"\0", b"{", b"}", b",", b"\xc3", b"\n", b" ", b"7"])
        )
        line = line[:at] + piece + line[at + draw(st.integers(0, 2)) :]
    whole = st.sampled_from(
        [line, line, line, line + b" x", b"", b" \t", b"[]", b"[1]", b"null", edge + line]
    )
    return draw(whole) + edge


Outcome = tuple[list[dict[str, Any]], list[Rejected], str]


def read(
    data: bytes,
    schema: Schema,
    columns: tuple[str, ...],
    options: dict[str, str],
    block_bytes: int | None = None,
    **ways: Any,
) -> Outcome:
    """Rows and rejected rows, or the error."""
    rows: list[dict[str, Any]] = []
    rejected: list[Rejected] = []
    try:
        for batch, bad in JsonReader(
            ReadRequest(io.BytesIO(data), "f", schema, columns, options, block_bytes=block_bytes), **ways
        ).batches():
            batch.validate(full=True)
            rows += batch.to_pylist() if columns else [{}] * batch.num_rows
            rejected += bad
    except UserError as error:
        return [], [], f"{error} {error.detail}"
    return rows, rejected, ""


@settings(max_examples=300, deadline=None)
@given(
    schema=st.sampled_from([SCHEMA, SCHEMA, NESTED, DECIMALS]),
    parts=st.lists(lines(), max_size=12),
    block_bytes=st.integers(1, 400),
    ends=st.booleans(),
    ignores=st.integers(0, 3).map(bool),
    needs_fields=st.integers(0, 3).map(lambda n: n == 0),
    data=st.data(),
)
def test_the_kernel_and_the_tape_agree_on_any_lines_in_any_blocks(
    schema: Schema,
    parts: list[bytes],
    block_bytes: int,
    ends: bool,
    ignores: bool,
    needs_fields: bool,
    data: st.DataObject,
) -> None:
    columns = tuple(data.draw(st.lists(st.sampled_from(schema.names), unique=True)))
    options = {
        "ignore-parse-errors": str(ignores).lower(),
        "fail-on-missing-field": str(needs_fields).lower(),
    }
    text = b"\n".join(parts) + (b"\n" if ends else b"")
    expected = read(text, schema, columns, options, uses_kernel=False)
    found = read(text, schema, columns, options, uses_kernel=True, block_bytes=block_bytes)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("uses_kernel", [True, False])
@pytest.mark.parametrize("block_bytes", [1, 400])
def test_the_first_undecodable_line_is_named(uses_kernel: bool, block_bytes: int) -> None:
    text = b'[{"a": 1}, 2]\nnothing\n'
    *_, error = read(text, SCHEMA, ("a",), {}, block_bytes, uses_kernel=uses_kernel)
    assert 'line 1 of "f"' in error


FORMS = {
    "BIGINT": sql.BIGINT,
    "INT": sql.INT,
    "TINYINT": sql.TINYINT,
    "STRING": sql.STRING,
    "BOOLEAN": sql.BOOLEAN,
    "DOUBLE": sql.DOUBLE,
    "FLOAT": sql.FLOAT,
    "DECIMAL": sql.decimal(10, 2),
    "TIMESTAMP": sql.timestamp(3),
    "TIMESTAMP_LTZ": sql.timestamp_ltz(9),
    "DATE": sql.DATE,
    "ROW": sql.row(("x", sql.INT), ("y", sql.array(sql.STRING))),
    "ARRAY": sql.array(sql.BIGINT),
    "MAP": sql.map_of(sql.STRING, sql.DOUBLE),
    "nothing": sql.BIGINT,
}


QUARTER = 4
"""Of each type every fourth value is read, beginning with another one; all values of all types in slow tests."""


@pytest.mark.parametrize("step", [QUARTER, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("form", FORMS)
def test_the_kernel_and_the_tape_agree_on_every_value_alone_twice_and_after_null(
    form: str, step: int
) -> None:
    schema = Schema.of(("v", FORMS[form]))
    columns = () if form == "nothing" else ("v",)
    # With so many bytes behind it a value is read by the vectors, without them byte by byte.
    filler = "y" * 200
    values = VALUES[list(FORMS).index(form) % step :: step]
    more = [f'{{"v":{value},"filler":"{filler}"}}' for value in values]
    more += [whole % value for whole in ('{"v":%s,"v":1}', '{"v":null,"v":%s}') for value in values[::12]]
    text = "\n".join([*(f'{{"v":{value}}}' for value in values), *more]).encode("utf-8", "surrogatepass")
    options = {"ignore-parse-errors": "true"}
    expected = read(text, schema, columns, options, uses_kernel=False)
    # A line a block: what one line is decoded by depends on no other.
    found = read(text, schema, columns, options, uses_kernel=True, block_bytes=1)
    assert repr(found) == repr(expected)


def test_fields_that_nested_objects_lack_are_missing() -> None:
    options = {"ignore-parse-errors": "true", "fail-on-missing-field": "true"}
    text = b'{"r":{"x":1,"y":[]}}\n{"r":{}}\n'
    for uses_kernel in (False, True):
        rows, rejected, _ = read(text, NESTED, ("r",), options, uses_kernel=uses_kernel)
        assert rows == [{"r": {"x": 1, "y": []}}]
        assert [row.line for row in rejected] == [2]


SCALARS = {
    "i": st.none() | st.integers(-(2**63), 2**63 - 1),
    "s": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    "f": st.none() | st.booleans(),
    "d": st.none() | st.floats(allow_nan=False, allow_infinity=False),
}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({}, optional=SCALARS | {"skipped": st.recursive(st.integers(), st.lists)})
    ),
    st.booleans(),
    st.integers(1, 1000),
)
def test_objects_are_read_as_python_writes_them(
    rows: list[dict[str, Any]], ensure_ascii: bool, block_bytes: int
) -> None:
    schema = Schema.of(("i", sql.BIGINT), ("s", sql.STRING), ("f", sql.BOOLEAN), ("d", sql.DOUBLE))
    data = "\n".join(json.dumps(row, ensure_ascii=ensure_ascii) for row in rows).encode()
    found, rejected, error = read(data, schema, schema.names, {}, uses_kernel=True, block_bytes=block_bytes)
    assert (rejected, error) == ([], "")
    assert found == [{name: row.get(name) for name in schema.names} for row in rows]


def odd_lines(schema: Schema, text: str) -> list[int]:
    types = dict(zip(schema.names, schema.types, strict=True))
    data = text.encode()
    decoded = PlainObjects(types, needs_fields=False).decode(Block(data, 1, data.count(b"\n")))
    assert decoded is not None
    return list(map(int, decoded.odd_lines))


@pytest.mark.parametrize(
    "line",
    [
        '{"a":1,"b":"x","auction":-5,"t":127,"f":true,"d":1.5,"g":0.25,"é":"é"}',
        '{ "b" : "x\\n\\u00e9\\ud83d\\ude00" , "a" : "12" }\r',
        '{"b":12,"é":false,"d":"1.5","a":-9223372036854775808}',
        '{"ts":"2020-01-31T10:11:12","z":"2020-01-31 10:11:12Z","day":null,"x":"AAE="}',
        '{"skipped":{"k":[1,{"k":"\\"}"}]},"also":[],"a":9223372036854775807}',
        "{}",
        "",
    ],
)
def test_plain_lines_need_no_tape(line: str) -> None:
    assert odd_lines(SCHEMA, f"{line}\n{line}\n") == []


def test_lines_beyond_the_kernel_are_named_and_others_are_not_held_up() -> None:
    assert odd_lines(SCHEMA, '{"a":1}\n{"a":1.0}\n\n{"a":2}\n{"a":3,"a":4}\n[]\n') == [1, 4, 5]


def test_a_line_of_other_blanks_than_those_of_json_is_undecodable() -> None:
    rows, rejected, _ = read(b"\x0b\n \t\r\n\x0c", SCHEMA, ("a",), {"ignore-parse-errors": "true"})
    assert rows == []
    assert [r.line for r in rejected] == [1, 3]


def test_blanks_behind_colons_may_differ_from_line_to_line() -> None:
    assert odd_lines(SCHEMA, '{"a":1,"b":"x"}\n{"a": 1, "b": "x"}\n{"a":2,"b": "x"}\n') == []


def test_nested_values_are_plain_and_others_in_their_place_are_odd() -> None:
    rows = "".join(f'{{"r":{v}}}\n' for v in ('{"x":1,"y":["a"]}', '{"x":1}', "{}", "null"))
    lists = "".join(f'{{"l":{v}}}\n' for v in ("[]", "[1,2]", "null"))
    assert odd_lines(NESTED, rows + lists + '{"m":{"k":1.5}}\n') == []
    others = "".join(f'{{"r":{v}}}\n' for v in ("5", "-1.5", "true", '"t"', "{]", "[1"))
    assert odd_lines(NESTED, '{"a":1}\n' * 100 + others) == list(range(100, 106))


def test_numbers_that_a_double_might_not_hold_are_beyond_the_kernel() -> None:
    assert odd_lines(SCHEMA, '{"d":1e99}\n{"d":1e100}\n{"d":1e-100}\n{"d":1e9}\n') == [1, 2]


TIMES = st.builds(
    "{:%Y-%m-%d}{}{:%H:%M:%S}{}{}".format,
    st.one_of(st.just(datetime.date(2024, 2, 29)), st.dates()),
    st.sampled_from(" T"),
    st.times(),
    st.one_of(st.just(""), st.text("0123456789", max_size=22).map(".{}".format)),
    st.sampled_from(["", "Z"]),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(TIMES, max_size=20),
    st.sampled_from([sql.timestamp(0), sql.timestamp(3), sql.timestamp(9), sql.timestamp_ltz(6)]),
    st.integers(1, 1000),
    st.data(),
)
def test_timestamps_are_those_that_the_tape_reads(
    texts: list[str], t: sql.LogicalType, block_bytes: int, data: st.DataObject
) -> None:
    is_whole = data.draw(st.booleans())
    if is_whole:
        texts = [text.rstrip("Z") + "Z" * (t.root is sql.TypeRoot.TIMESTAMP_LTZ) for text in texts]
    elif texts:
        # One character is another one.
        place = data.draw(st.integers(0, len(texts) - 1))
        at = data.draw(st.integers(0, len(texts[place]) - 1))
        other = data.draw(st.sampled_from([*"019: -T.Z/x", "", '"', "\\u0030"]))
        texts[place] = texts[place][:at] + other + texts[place][at + 1 :]
    schema = Schema.of(("v", t), ("l", sql.array(t)))
    text = "".join(f'{{"v":"{x}","l":["{x}",null]}}\n{{"v":null}}\n' for x in texts).encode()
    options = {"ignore-parse-errors": "true"}
    expected = read(text, schema, schema.names, options, uses_kernel=False)
    found = read(text, schema, schema.names, options, block_bytes, uses_kernel=True)
    assert repr(found) == repr(expected)


def test_timestamps_of_other_forms_are_odd_until_they_are_many() -> None:
    plain = '{"ts":"2020-01-31 10:11:12.1234","d":0.5}\n'
    others = [f'{{"ts":{v}}}\n' for v in ('"2020-01-31"', '"2020-01-31 10:11:12Z"', "5", "true", '"\\u0032"')]
    assert odd_lines(SCHEMA, plain * 100 + "".join(others)) == list(range(100, 105))
    assert odd_lines(SCHEMA, plain * 10 + others[0] * 30) == []
    rows, rejected, _ = read(
        (plain * 10 + others[0] * 30).encode(), SCHEMA, ("ts", "d"), {}, uses_kernel=True
    )
    assert rejected == []
    assert rows[10:] == [{"ts": datetime.datetime(2020, 1, 31), "d": None}] * 30
    assert rows[0] == {"ts": datetime.datetime(2020, 1, 31, 10, 11, 12, 123_000), "d": 0.5}


def test_most_lines_odd_leave_the_block_to_the_tape() -> None:
    types = {"a": sql.BIGINT}
    data = b'{"a":1.0}\n' * 3000
    assert PlainObjects(types, needs_fields=False).decode(Block(data, 1, 3000)) is None
    rows, _, _ = read(data + b'{"a":7}', Schema.of(("a", sql.BIGINT)), ("a",), {}, uses_kernel=True)
    assert rows == [{"a": 1}] * 3000 + [{"a": 7}]


def test_columns_own_no_more_memory_than_their_rows_need() -> None:
    data = ('{"a":1,"b":"' + "y" * 100 + '"}\n').encode() * 1000
    decoded = PlainObjects({"b": sql.STRING}, needs_fields=False).decode(Block(data, 1, 1000))
    assert decoded is not None
    assert decoded.batch.get_total_buffer_size() < 110_000


def test_the_text_of_a_block_of_short_lines_is_apart_from_its_offsets() -> None:
    data = b'{"b":"yy"}\n' + b"{}\n" * 3000 + b'{"b":"zz"}\n'
    decoded = PlainObjects({"b": sql.STRING}, needs_fields=False).decode(Block(data, 1, 3002))
    assert decoded is not None
    assert decoded.batch.column(0).to_pylist() == ["yy", *[None] * 3000, "zz"]


def test_lines_with_more_members_than_the_kernel_remembers_are_read() -> None:
    line = json.dumps({f"k{n}": n for n in range(3000)} | {"a": 5})
    text = f"{line}\n{line}\n"
    assert odd_lines(SCHEMA, text) == []
    rows, _, _ = read(text.encode(), SCHEMA, ("a",), {}, uses_kernel=True)
    assert rows == [{"a": 5}, {"a": 5}]


def test_a_huge_line_is_read() -> None:
    text = json.dumps({"a": 1, "b": "é" * 5_000_000}, ensure_ascii=False)
    rows, _, _ = read(text.encode(), SCHEMA, ("a", "b"), {}, uses_kernel=True)
    assert rows == [{"a": 1, "b": "é" * 5_000_000}]


def test_floats_are_rounded_once() -> None:
    texts = [
        "16777217.000000001",
        "0.1",
        "3.4e38",
        "1e-45",
        "5e-324",
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
    ]
    text = "".join(f'{{"d":{t},"g":0.5}}\n' for t in texts)
    rows, _, _ = read(text.encode(), SCHEMA, ("d",), {}, uses_kernel=True)
    assert [math.ldexp(row["d"], 0) for row in rows] == [float(t) for t in texts]
