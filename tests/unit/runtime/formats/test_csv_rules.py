"""Which CSV rows are undecodable, what they cost, and that neither depends on where blocks end."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats import blocks, format_of
from sqlstream.runtime.formats import csv as csv_format
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected
from tests.csv_reference import CsvReference

SCHEMA = Schema.of(("s", sql.STRING), ("i", sql.INT))
IGNORE = {"ignore-parse-errors": "true"}


def read(
    data: bytes,
    options: dict[str, str],
    schema: Schema = SCHEMA,
    columns: tuple[str, ...] | None = None,
) -> tuple[list[tuple[Any, ...]], list[Rejected]]:
    names = schema.names if columns is None else columns
    reader = format_of("csv").reader(ReadRequest(io.BytesIO(data), "f.csv", schema, names, options, 100))
    rows, rejected = [], []
    for batch, bad in reader.batches():
        batch.validate(full=True)
        rows += [tuple(row.values()) for row in batch.to_pylist()] if names else [()] * batch.num_rows
        rejected += bad
    return rows, rejected


@pytest.mark.parametrize(
    ("text", "options", "rows", "rejected"),
    [
        # An unterminated quote costs the line on which it opens, and no more.
        ('a,1\n"b,2\nc,3\nd,4\n', {}, [("a", 1), ("c", 3), ("d", 4)], [(2, '"b,2', "a quote is not closed")]),
        ('a,1\n"b,2', {}, [("a", 1)], [(2, '"b,2', "a quote is not closed")]),
        # So does one that the next quote of the file closes in the middle of a text.
        ('"a,1\nb,2\n"c",3\n', {}, [("b", 2), ("c", 3)], [(1, '"a,1', "a quote is not closed")]),
        # The lines of a record before that line are lost with it.
        ('"a\nb","c\nd,4\n', {}, [("d", 4)], [(1, '"a\nb","c', 'not closed in column "i"')]),
        ('"a"b,1\nc,2\n', {}, [("c", 2)], [(1, '"a"b,1', 'behind the closing quote in column "s"')]),
        ('a,1\n"","x" y\nc,2\n', {}, [("a", 1), ("c", 2)], [(2, '"","x" y', "behind the closing quote")]),
        ('a,1,"x"y\nb,2\n', {}, [("b", 2)], [(1, 'a,1,"x"y', "closing quote in field 3")]),
        # As in Jackson and DuckDB: blanks behind a quoted value are no part of it, a quote within plain text is text.
        ('"a" ,1\n"b"\t,"2" \n', {}, [("a", 1), ("b", 2)], []),
        ('a"b",1\nc"d,2\n "e",3\n', {}, [('a"b"', 1), ('c"d', 2), (' "e"', 3)], []),
        ("a\rb,1\nc,2\r\n", {}, [("b", 1), ("c", 2)], [(1, "a", "1 fields instead of 2")]),
        ("a,1\rb,2\rc,3", {}, [("a", 1), ("b", 2), ("c", 3)], []),
        ('"a\rb",1\r', {}, [("a\rb", 1)], []),
        ("a\0b,1\n", {}, [("a\0b", 1)], []),
        (
            "a\nb,1,2\n\nc,3\n",
            {},
            [("c", 3)],
            [(1, "a", "it has 1"), (2, "b,1,2", "it has 3 fields instead")],
        ),
        ("a\\,b,1\nc,2\\", {"escape-character": "\\"}, [("a,b", 1)], [(2, "c,2\\", "behind an escape")]),
        ('"c,2\\', {"escape-character": "\\"}, [], [(1, '"c,2\\', "a quote is not closed")]),
        ("a\\ ,1\n", {"escape-character": "\\", "trim-spaces": "true"}, [("a ", 1)], []),
        ('"a""b",1\n', {"escape-character": '"'}, [('a"b', 1)], []),
        ("a,0x10\nb,0X1F\nc,10\n", {}, [("c", 10)], [(1, "a,0x10", '"0x10"'), (2, "b,0X1F", '"0X1F"')]),
        ("0x10,1\n", {}, [("0x10", 1)], []),
        ("a,+1\nb,007\nc,-0\n", {}, [("a", 1), ("b", 7), ("c", 0)], []),
        ("a,2147483648\nb,1e3\n", {}, [], [(1, "a,2147483648", "is no INT"), (2, "b,1e3", "is no INT")]),
        ("\ufeffs,i\na,1\n", {"header": "true"}, [("a", 1)], []),
        ("s,i\ra,1\r", {"header": "true"}, [("a", 1)], []),
        ('i,s\n1,"a"b\n2,c\n', {"header": "true"}, [("c", 2)], [(2, '1,"a"b', 'quote in column "s"')]),
    ],
)
def test_what_is_undecodable_is_rejected_with_file_and_line(
    text: str, options: dict[str, str], rows: list[Any], rejected: list[tuple[int, str, str]]
) -> None:
    found, bad = read(text.encode(), options | IGNORE)
    assert found == rows
    assert [(r.line, r.text) for r in bad] == [(line, row) for line, row, _ in rejected]
    assert all(reason in r.reason for r, (_, _, reason) in zip(bad, rejected, strict=True))
    if rejected:
        line, row, reason = rejected[0]
        with pytest.raises(UserError) as failed:
            read(text.encode(), options)
        assert f'line {line} of "f.csv"' in failed.value.message
        assert reason in failed.value.message
        assert row in failed.value.detail


def test_what_is_no_text_is_rejected_only_where_it_is_read() -> None:
    data = b"\xff,1\nb,2\n"
    rows, rejected = read(data, IGNORE)
    assert (rows, [(r.line, r.text) for r in rejected]) == ([("b", 2)], [(1, "\ufffd,1")])
    assert read(data, {}, columns=("i",)) == ([(1,), (2,)], [])
    assert read(b"a,x\nb,2\n", {}, columns=("s",)) == ([("a",), ("b",)], [])
    assert len(read(b"a,x\nb,2\n", {}, columns=())[0]) == 2
    # The number of fields is seen whatever is read.
    assert [r.line for r in read(b"a,1\nb\n", IGNORE, columns=())[1]] == [2]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("s,n\n", 'has no column "i"'),
        ("s,i,s\n", 'has several columns "s"'),
        ("s" * 200_000 + ",i\n", "could not decode line 1"),
    ],
)
def test_a_header_that_does_not_name_each_column_once_fails(header: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(header.encode(), {"header": "true"})


def test_a_name_in_a_header_may_hold_line_ends() -> None:
    data = b's,"i\r\nx"\r\na,1\r\n'
    schema = Schema.of(("s", sql.STRING), ("i\r\nx", sql.INT))
    assert read(data, {"header": "true"}, schema) == ([("a", 1)], [])


def test_text_in_utf_16_is_refused_by_its_name() -> None:
    with pytest.raises(UserError, match="is text in UTF-16") as caught:
        read("s,1\n".encode("utf-16"), IGNORE)
    assert caught.value.hint == "convert it, as iconv -f UTF-16 -t UTF-8 does"


def test_a_quote_that_stays_open_for_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound counts from where the row begins, and not from where a block does."""
    data = b'a,1\n"b,2\n' + b"c,3\n" * 200 + b'"d",4\n'
    monkeypatch.setattr(csv_format, "ROW_BYTES_MAX", 100)
    for block_bytes in (1, 7, 50, 99, 100, 101, 1000):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        rows, rejected = read(data, IGNORE)
        assert rows == [("a", 1), *[("c", 3)] * 200, ("d", 4)]
        assert [(r.line, r.text) for r in rejected] == [(2, '"b,2')]


PIECES = [
    "y" * 30,
    "z" * 64,
    "a",
    "b7",
    ",",
    ",",
    ",",
    '"',
    '"',
    '""',
    "\n",
    "\n",
    "\r",
    "\r\n",
    " ",
    "\t",
    "\\",
    "#",
    "\0",
    "x,y\n",
]


@settings(max_examples=500, deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    columns=st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]]),
    escape=st.sampled_from(["", "", "\\", '"']),
    quote=st.sampled_from(['"', '"', '"', ""]),
    flags=st.fixed_dictionaries(
        {
            "trim-spaces": st.booleans(),
            "allow-comments": st.booleans(),
            "allow-trailing-comma": st.booleans(),
            "ignore-trailing-unmappable": st.booleans(),
        }
    ),
    is_tidy=st.booleans(),
    block_bytes=st.integers(1, 40),
)
def test_any_text_in_any_blocks_is_read_as_one_character_at_a_time(
    text: str,
    columns: list[str],
    escape: str,
    quote: str,
    flags: dict[str, bool],
    is_tidy: bool,
    block_bytes: int,
) -> None:
    if is_tidy:
        flags = {**flags, "trim-spaces": False, "allow-comments": False}
    reference = CsvReference(
        text,
        columns,
        ",",
        quote,
        "" if escape == quote else escape,
        flags["trim-spaces"],
        flags["allow-comments"],
        flags["allow-trailing-comma"],
        flags["ignore-trailing-unmappable"],
    )
    expected = reference.read()
    options = IGNORE | {key: str(value).lower() for key, value in flags.items()}
    options |= {"escape-character": escape} if escape else {}
    options |= {} if quote else {"disable-quote-character": "true"}
    schema = Schema.of(*((name, sql.STRING) for name in columns))
    with pytest.MonkeyPatch.context() as patch:
        for size in (block_bytes, 1 << 20):
            patch.setattr(blocks, "BLOCK_BYTES", size)
            rows, rejected = read(text.encode("latin-1"), options, schema)
            assert [list(row) for row in rows] == expected.rows
            assert [(r.line, r.reason, r.text) for r in rejected] == expected.rejected
