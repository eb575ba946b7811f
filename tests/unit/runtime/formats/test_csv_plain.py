"""What the kernel reads of plain CSV is what is read record by record."""

from __future__ import annotations

import datetime
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.csv import CsvReader
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.formats.csv_plain import PlainFields
from sqlstream.runtime.kernels.text.csv_fields import ODD, plain_end
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest

ALL = Schema.of(
    ("s", sql.STRING),
    ("i", sql.BIGINT),
    ("t", sql.timestamp(3)),
    ("z", sql.timestamp_ltz(6)),
    ("n", sql.INT),
    ("d", sql.decimal(8, 2)),
)
TEXTS = st.text('a"é,\n\r', max_size=40)
NUMBERS = st.sampled_from(["", "0", "-1", "007", "-0", "9223372036854775807", "-9223372036854775808", "NA"])
ODD_NUMBERS = st.sampled_from(
    ["+5", " 12", "1_0", "-", "9223372036854775808", "0x1", "12345678901234567890", "1.5"]
)
DATES = st.sampled_from(["1970-01-01", "2024-02-29", "1900-03-01", "0001-01-01", "9999-12-31", "1600-12-31"])
ODD_DATES = st.sampled_from(
    ["2023-02-29", "0000-01-01", "2020-1-1", "2020-13-01", "202a-01-01", "2020-04-31"]
)
CLOCKS = st.sampled_from(["00:00:00", "23:59:59.9", "12:34:56.123", "01:02:03.1234567"])
ODD_CLOCKS = st.sampled_from(
    ["24:00:00", "00:60:00", "00:00:60", "1:00:00", "00:00:00.", "00:00", "00:00:0a", "00:00:00.a"]
)


def reader_of(schema: Schema, options: dict[str, str]) -> CsvReader:
    tolerant = options | {"ignore-parse-errors": "true"}
    return CsvReader(ReadRequest(io.BytesIO(), "f", schema, schema.names, tolerant))


def check(data: bytes, schema: Schema, options: dict[str, str]) -> None:
    """Twice, as the second time columns may be read as text."""
    block = Block(data, 1, data.count(b"\n"))
    reader = reader_of(schema, options)
    expected, rejected = reader_of(schema, options)._decode_records(block)
    for _ in range(2):
        found, bad = reader.decode(block)
        found.validate(full=True)
        assert found.to_pylist() == expected.to_pylist()
        assert [(r.line, r.text) for r in bad] == [(r.line, r.text) for r in rejected]


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@given(
    st.lists(
        st.tuples(
            TEXTS.map(quoted),
            NUMBERS | ODD_NUMBERS,
            st.tuples(DATES | ODD_DATES, st.sampled_from(" T"), CLOCKS | ODD_CLOCKS).map("".join),
            st.tuples(DATES, st.sampled_from(" T"), CLOCKS, st.sampled_from(["Z", ""])).map("".join),
            st.sampled_from(["1", "-2147483648", "2147483647", "2147483648", "", '"12"']),
            st.sampled_from(["1.5", "", "-999999.994", "1e2", "1000000", '"2"']),
        ).map(",".join),
        max_size=6,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([{}, {"null-literal": "NA"}, {"empty-string-as-null": "true"}]),
)
@settings(deadline=None, database=None)
def test_values_are_those_of_records_read_one_by_one(
    lines: list[str], end: str, options: dict[str, str]
) -> None:
    check(end.join(lines).encode(), ALL, options)


@given(st.text('ab,"\n\r é', max_size=90), st.sampled_from([1, 2, 3]))
@settings(deadline=None, database=None)
def test_any_text_is_cut_as_record_by_record(text: str, columns: int) -> None:
    check(text.encode(), Schema.of(*((f"c{i}", sql.STRING) for i in range(columns))), {})


@given(st.binary(max_size=90).map(lambda b: bytes(b'ab,"\n\r\xff'[c % 7] for c in b)))
@settings(deadline=None, database=None)
def test_any_bytes_are_read_as_record_by_record(data: bytes) -> None:
    check(data, Schema.of(("a", sql.STRING), ("b", sql.STRING)), {})


def test_plain_values_are_read_at_once_and_columns_with_others_as_text() -> None:
    plain = PlainFields(dict(zip(ALL.names, ALL.types, strict=True)), list(ALL.names), CsvDialect.parse({}))
    good = b"a,1,2020-01-01 00:00:00,2020-01-01 00:00:00Z,2,3.5\n"
    row = plain.decode(Block(good, 1, 1))
    assert row is not None
    assert row.to_pylist()[0]["t"] == datetime.datetime(2020, 1, 1)
    padded = plain.decode(Block(good.replace(b"a,1", b"a, 1"), 1, 1))
    assert padded is not None
    assert padded.to_pylist() == row.to_pylist()
    assert plain.decode(Block(good + b"b\n", 1, 2)) is None
    with pytest.raises(pa.ArrowInvalid):
        plain.decode(Block(good.replace(b"a,1", b"a,x"), 1, 1))


@pytest.mark.parametrize(
    ("text", "is_last", "end"),
    [
        (b"a,b\nc", False, 4),
        (b"a,b\nc", True, 5),
        (b"a,b\r", False, 0),
        (b"a\r\nb\r", False, 3),
        (b'a\n"b\n', False, 2),
        (b'a\n"b\n', True, ODD),
        (b'a\n"b"', False, 2),
        (b'a\n"b""\n"\n', False, 9),
        (b'a\n"b" \n', False, ODD),
        (b'a"b\nc"', False, 4),
        (b"", True, 0),
    ],
)
@pytest.mark.parametrize("before", [0, 60, 64])
def test_the_last_whole_record_ends_outside_of_quotes(
    text: bytes, is_last: bool, end: int, before: int
) -> None:
    """Wherever a step of 64 bytes ends."""
    data = np.frombuffer(b"x" * (before - 1) + b"\n" * (before > 0) + text, dtype=np.uint8)
    expected = end if end == ODD else before + end
    assert plain_end(data, ord(","), ord('"'), is_last) == expected
