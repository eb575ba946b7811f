"""The csv format: its options, what it takes for NULL, and which records it refuses."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected

SCHEMA = Schema.of(("s", sql.STRING), ("i", sql.INT))
IGNORE = {"ignore-parse-errors": "true"}


def read(
    text: str | bytes, options: dict[str, str] | None = None, schema: Schema = SCHEMA
) -> tuple[list[tuple[Any, ...]], list[Rejected]]:
    data = text.encode() if isinstance(text, str) else text
    reader = format_of("csv").reader(
        ReadRequest(io.BytesIO(data), "f.csv", schema, schema.names, options or {}, 100)
    )
    rows, rejected = [], []
    for batch, bad in reader.batches():
        rows += [tuple(row.values()) for row in batch.to_pylist()]
        rejected += bad
    return rows, rejected


def written(schema: Schema, rows: list[dict[str, Any]], options: dict[str, str] | None = None) -> str:
    stream = io.BytesIO()
    writer = format_of("csv").writer(stream, schema, options or {})
    writer.write(pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema)))
    writer.close()
    return stream.getvalue().decode()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a,1\nb,\n", {}, [("a", 1), ("b", None)]),
        (",1\n", {}, [("", 1)]),
        (",1\n", {"empty-string-as-null": "true"}, [(None, 1)]),
        ("NA,NA\n,1\n", {"null-literal": "NA"}, [(None, None), ("", 1)]),
        ("NA,NA\nx,\n", {"null-literal": "NA"}, [(None, None), ("x", None)]),
        (',1\n"",2\n', {"null-literal": ""}, [(None, 1), (None, 2)]),
        ('"NA",1\n', {"null-literal": "NA"}, [(None, 1)]),
        ("a;1\n", {"field-delimiter": ";"}, [("a", 1)]),
        ("a\t1\n", {"field-delimiter": "\\t"}, [("a", 1)]),
        ("'a,b',1\n", {"quote-character": "'"}, [("a,b", 1)]),
        ('"a,1\n', {"disable-quote-character": "true"}, [('"a', 1)]),
        ('"a\\"b",1\n', {"escape-character": "\\"}, [('a"b', 1)]),
        ("# no\na,1\n#x,y\n", {"allow-comments": "true"}, [("a", 1)]),
        ('  a b ,  1 \n" c ",2\n', {"trim-spaces": "true"}, [("a b", 1), (" c ", 2)]),
        ("a,1,\nb,2\n", {}, [("a", 1), ("b", 2)]),
        ("a,1,x,y\nb,2\n", {"ignore-trailing-unmappable": "true"}, [("a", 1), ("b", 2)]),
        ("a,1\r\n\r\nb,2", {}, [("a", 1), ("b", 2)]),
        ("\ufeffa,1\n", {}, [("a", 1)]),
        ("a, 1 \nb,+2\n", {}, [("a", 1), ("b", 2)]),
        ("i,more,s\n1,x,a\n", {"header": "true"}, [("a", 1)]),
        ("s,i\n", {"header": "true"}, []),
        ("", {}, []),
    ],
)
def test_options_decide_what_a_text_means(
    text: str, options: dict[str, str], expected: list[tuple[Any, ...]]
) -> None:
    assert read(text, options) == (expected, [])


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a,1\nb,x\n", 2, '"x" in column "i" is no INT'),
        ("a,1\nb,1.5\n", 2, '"1.5" in column "i" is no INT'),
        ("a,99999999999\n", 1, '"99999999999" in column "i" is no INT'),
        ('"a\nb",1\nc\n', 3, "it has 1 fields instead of 2"),
        ("a,1,2\n", 1, "it has 3 fields instead of 2"),
        ('a,1\n"b,2\nc,3\n', 2, "a quote is not closed"),
        (b"a,1\n\xff\xfe,2\n", 2, 'in column "s" is no STRING'),
    ],
)
def test_a_bad_record_fails_or_is_rejected_with_its_line(text: str | bytes, line: int, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        read(text)
    assert f'line {line} of "f.csv"' in caught.value.message
    assert reason in caught.value.message
    _, rejected = read(text, IGNORE)
    assert [(r.line, reason in r.reason) for r in rejected] == [(line, True)]


def test_a_trailing_delimiter_can_be_refused() -> None:
    with pytest.raises(UserError, match="it has 3 fields instead of 2"):
        read("a,1,\n", {"allow-trailing-comma": "false"})


@pytest.mark.parametrize(
    ("t", "good", "bad"),
    [
        (sql.BOOLEAN, ["true", "False", " TRUE "], ["1", "yes"]),
        (sql.DATE, ["2020-01-31"], ["2020-02-30", "31.1.2020"]),
        (sql.time(3), ["10:11", "10:11:12", "10:11:12.1234"], ["25:00", "noon"]),
        (
            sql.timestamp(3),
            ["2020-01-01 00:00:00", "2020-01-01T00:00:00.123456789"],
            ["now", "2020-01-01 00:00:00Z"],
        ),
        (sql.timestamp_ltz(3), ["2020-01-01 00:00:00.5Z"], ["2020-01-01 00:00:00"]),
        (sql.decimal(5, 2), ["1.239", "-999.99", "1e2", "7e-9999999", "0.5e-39"], ["1000", "x", "1e99999"]),
        (sql.decimal(38, 28), ["2043276344", "00002043276344.5"], ["204327634439", "9e37", "1" * 60]),
        (sql.DOUBLE, ["1", "-1.5e300", " 2 "], ["1,5x", "one"]),
        (sql.BYTES, ["AAE="], ["!!"]),
    ],
)
def test_values_are_checked_by_type(t: sql.LogicalType, good: list[str], bad: list[str]) -> None:
    schema = Schema.of(("v", t))
    lines = [f'"{value}"\n' for value in good + bad]
    rows, rejected = read("".join(lines), IGNORE, schema)
    assert len(rows) == len(good)
    assert all(value is not None for (value,) in rows)
    assert [r.text for r in rejected] == [line.rstrip() for line in lines[len(good) :]]


def test_finer_values_are_cut_or_rounded() -> None:
    schema = Schema.of(("d", sql.decimal(5, 2)), ("t", sql.timestamp(3)))
    ((d, t),) = read("1.235,2020-01-01 00:00:00.1239\n", schema=schema)[0]
    assert (str(d), t.microsecond) == ("1.24", 123_000)


@pytest.mark.parametrize("text", ["7e-9999999", "7E-40", "0.5e-39"])
@pytest.mark.parametrize("around", ["{},1\n", '"{}",1\n', "{}, 1\n"])
def test_numbers_that_arrow_reads_wrongly_are_read(text: str, around: str) -> None:
    schema = Schema.of(("d", sql.decimal(38, 28)), ("i", sql.INT))
    assert read(around.format(text), schema=schema)[0] == [(decimal.Decimal(0), 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field-delimiter": "ab"}, "takes one ASCII character"),
        ({"field-delimiter": '"'}, "which quotes or escapes"),
        ({"quote-character": "'", "disable-quote-character": "true"}, "exclude each other"),
    ],
)
def test_options_that_make_no_dialect_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        format_of("csv").validate(SCHEMA, options)


def test_a_header_without_a_column_of_the_table_fails() -> None:
    with pytest.raises(UserError, match='has no column "i"') as caught:
        read("s,ii\n", {"header": "true"})
    assert caught.value.hint == 'did you mean "ii"?'


def test_quotes_tell_a_text_from_the_null_that_it_looks_like() -> None:
    rows: list[dict[str, Any]] = [{"s": "", "i": 1}, {"s": None, "i": None}, {"s": "NA", "i": 2}]
    assert written(SCHEMA, rows) == '"",1\n,\nNA,2\n'
    assert written(SCHEMA, rows, {"null-literal": "NA"}) == ',1\nNA,NA\n"NA",2\n'


def test_a_lone_null_is_an_empty_line_and_comes_back_as_null_where_the_table_names_one() -> None:
    schema = Schema.of(("s", sql.STRING))
    rows: list[dict[str, Any]] = [{"s": "a"}, {"s": None}, {"s": ""}, {"s": "b"}]
    text = written(schema, rows)
    assert text == 'a\n\n""\nb\n'
    assert read(text, {"null-literal": ""}, schema)[0] == [("a",), (None,), (None,), ("b",)]
    assert read(text, {}, schema)[0] == [("a",), ("",), ("",), ("b",)]
    named = {"null-literal": "\\N"}
    assert read(written(schema, rows, named), named, schema)[0] == [("a",), (None,), ("",), ("b",)]


def test_duckdb_tells_null_from_the_empty_text_in_what_is_written(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "", "i": 1}, {"s": None, "i": None}, {"s": "a", "i": 3}]
    for schema in (SCHEMA, Schema.of(("s", sql.STRING))):
        path = tmp_path / f"{len(schema)}.csv"
        path.write_text(
            written(schema, [{n: row[n] for n in schema.names} for row in rows], {"header": "true"})
        )
        source = f"read_csv('{path}', header=true, delim=',', allow_quoted_nulls=false)"
        found = duckdb.sql(f"SELECT * FROM {source}").fetchall()
        assert found == [tuple(row[n] for n in schema.names) for row in rows]


@pytest.mark.parametrize("text", ["aGk=,1\n,2\n", "aGk=,1\n,2\n# no\n"])
def test_empty_bytes_are_no_null_unless_they_are_said_to_be(text: str) -> None:
    schema = Schema.of(("s", sql.BYTES), ("i", sql.INT))
    options = {"allow-comments": "true"} if "#" in text else {}
    assert read(text, options, schema)[0] == [(b"hi", 1), (b"", 2)]
    assert read(text, {**options, "empty-string-as-null": "true"}, schema)[0] == [(b"hi", 1), (None, 2)]


def test_nested_types_are_refused() -> None:
    with pytest.raises(UserError, match='format "csv" cannot carry column "a"'):
        format_of("csv").validate(Schema.of(("a", sql.array(sql.INT))), {})


FIELD = st.text('ab,"\n\r #', max_size=5)


@given(st.lists(st.lists(FIELD, min_size=1, max_size=4), max_size=6))
@settings(max_examples=200, deadline=None, database=None)
def test_records_are_cut_as_the_standard_library_cuts_them(records: list[list[str]]) -> None:
    """Records with three fields are rows, all others are rejected, each with its own text and line."""
    out = io.StringIO()
    lines, texts = [], []
    for record in records:
        lines.append(out.getvalue().count("\n") + 1)
        before = out.tell()
        csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow(record)
        texts.append(out.getvalue()[before:].removesuffix("\n"))
    schema = Schema.of(("a", sql.STRING), ("b", sql.STRING), ("c", sql.STRING))
    rows, rejected = read(out.getvalue(), IGNORE | {"allow-trailing-comma": "false"}, schema)
    assert rows == [tuple(r) for r in records if len(r) == 3]
    expected = [(line, text) for line, text, r in zip(lines, texts, records, strict=True) if len(r) != 3]
    assert [(r.line, r.text) for r in rejected] == expected


@given(st.lists(st.tuples(FIELD, FIELD), max_size=8), st.integers(1, 9))
@settings(max_examples=100, deadline=None, database=None)
def test_records_are_whole_wherever_blocks_end(records: list[tuple[str, str]], block_bytes: int) -> None:
    from sqlstream.runtime.formats.blocks import read_blocks
    from sqlstream.runtime.formats.csv import CsvReader

    out = io.StringIO()
    csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(records)
    schema = Schema.of(("a", sql.STRING), ("b", sql.STRING))
    data = out.getvalue().encode()
    reader = CsvReader(ReadRequest(io.BytesIO(data), "f", schema, schema.names, {}))
    blocks = list(read_blocks(io.BytesIO(data), "f", reader._cut_rows, block_bytes))
    assert b"".join(b.data for b in blocks) == data
    assert [row for b in blocks for row in read(b.data, schema=schema)[0]] == records
    assert [b.first_line for b in blocks] == [
        data[: sum(len(p.data) for p in blocks[:i])].count(b"\n") + 1 for i in range(len(blocks))
    ]


def test_a_long_row_makes_no_later_block_longer() -> None:
    from sqlstream.runtime.formats.blocks import Cut, read_blocks

    def cut(data: bytes | bytearray, is_last: bool) -> Cut:
        return Cut(len(data) if is_last else data.rfind(b"\n") + 1)

    data = b"a\n" + b"y" * 9_000 + b"\n" + b"short\n" * 4_000
    sizes = [len(block.data) for block in read_blocks(io.BytesIO(data), "f", cut, 1_000)]
    assert sum(sizes) == len(data)
    assert max(sizes[2:]) <= 1_000 < max(sizes[:2])


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('a""b,1\n"x\ny",2\nc,3\n', {}),
        ('a"b,1\n"x""\ny",2\n"",3\n', {}),
        ('# it"s,"no row\n"x\n# y",2\n#"\nc,3\n', {"allow-comments": "true"}),
        ('  "x\ny" ,2\n\t"",3\n', {"trim-spaces": "true"}),
        ('a,1\r"x\ny",2\r\nc,3\n', {}),
    ],
)
def test_quotes_mean_the_same_where_a_block_ends(text: str, options: dict[str, str]) -> None:
    from sqlstream.runtime.formats.blocks import read_blocks
    from sqlstream.runtime.formats.csv import CsvReader

    reader = CsvReader(ReadRequest(io.BytesIO(), "f", SCHEMA, SCHEMA.names, options))
    expected = read(text, options)[0]
    for block_bytes in range(1, len(text)):
        blocks = list(read_blocks(io.BytesIO(text.encode()), "f", reader._cut_rows, block_bytes))
        assert [row for b in blocks for row in read(b.data, options)[0]] == expected
    assert reader._cut_rows(text.encode(), False).end == len(text)


@pytest.mark.parametrize(("options", "empty"), [({}, b""), ({"empty-string-as-null": "true"}, None)])
def test_empty_bytes_mean_the_same_beside_any_row(options: dict[str, str], empty: bytes | None) -> None:
    schema = Schema.of(("b", sql.BYTES), ("i", sql.INT))
    for untidy in ("", "YQ==, 1\n", "YQ==\n"):
        assert read(",1\n" + untidy, options | IGNORE, schema)[0][0] == (empty, 1)


@pytest.mark.parametrize("delimiter", ["/", "=", "u", ".", "-", ":", "Z"])
def test_any_delimiter_is_told_from_the_values(delimiter: str) -> None:
    schema = Schema.of(
        ("b", sql.BYTES), ("flag", sql.BOOLEAN), ("x", sql.DOUBLE), ("t", sql.timestamp_ltz(3))
    )
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    row = {"b": b"\xff\xff\xff\xff", "flag": True, "x": -1.5, "t": moment}
    stream = io.BytesIO()
    writer = format_of("csv").writer(stream, schema, {"field-delimiter": delimiter})
    writer.write(pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(schema)))
    assert read(stream.getvalue(), {"field-delimiter": delimiter}, schema)[0] == [tuple(row.values())]


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        ("a", {}, "a"),
        ("a,b", {}, '"a,b"'),
        ('a"b', {}, '"a""b"'),
        ("a\nb", {}, '"a\nb"'),
        ("a\rb", {}, '"a\rb"'),
        (" a", {}, '" a"'),
        ("a\t", {}, '"a\t"'),
        ("#a", {}, '"#a"'),
        ("a#", {}, "a#"),
        ("", {}, '""'),
        ("a\\b", {}, "a\\b"),
        ("a\\b", {"escape-character": "\\"}, '"a\\\\b"'),
        ("a'b", {"quote-character": "'"}, "'a''b'"),
        ("a,b", {"field-delimiter": ";"}, "a,b"),
        ("a;b", {"field-delimiter": ";"}, '"a;b"'),
        ("NA", {"null-literal": "NA"}, '"NA"'),
        ("", {"null-literal": "NA"}, '""'),
        ('a"b', {"disable-quote-character": "true"}, 'a"b'),
        (" a#", {"disable-quote-character": "true"}, " a#"),
        ("a,b", {"disable-quote-character": "true", "escape-character": "\\"}, "a\\,b"),
        ("a\\b,", {"disable-quote-character": "true", "escape-character": "\\"}, "a\\\\b\\,"),
    ],
)
def test_a_value_is_quoted_or_escaped_where_it_needs_it(
    value: str, options: dict[str, str], expected: str
) -> None:
    schema = Schema.of(("s", sql.STRING))
    assert written(schema, [{"s": value}], options) == f"{expected}\n"
    pair = Schema.of(("s", sql.STRING), ("i", sql.INT))
    delimiter = options.get("field-delimiter", ",")
    beside = "" if value == "" and "null-literal" in options else expected
    if value:
        assert written(pair, [{"s": value, "i": 1}], options) == f"{beside}{delimiter}1\n"


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("a,b", {}),
        ("a\nb", {}),
        ("a\rb", {"escape-character": "\\"}),
        ("x\n,", {"escape-character": "\\"}),
    ],
)
def test_without_quotes_a_value_that_would_end_its_field_is_refused(
    value: str, options: dict[str, str]
) -> None:
    with pytest.raises(UserError, match='a value of column "s" holds the delimiter or a line end') as caught:
        written(SCHEMA, [{"s": value, "i": 1}], {"disable-quote-character": "true", **options})
    assert caught.value.code == "SS5014"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("# a\n\n#b\ni,s\n1,x\n", {"allow-comments": "true"}, [("x", 1)]),
        ("\n\r\ni,s\n1,x\n", {}, [("x", 1)]),
        ("i,s\n#1,x\n2,y\n", {"allow-comments": "true"}, [("y", 2)]),
    ],
)
def test_the_header_is_the_first_line_that_says_something(
    text: str, options: dict[str, str], expected: list[Any]
) -> None:
    assert read(text, {"header": "true", **options})[0] == expected


def test_a_header_that_looks_like_a_comment_is_a_header_where_none_are_allowed() -> None:
    schema = Schema.of(("#i", sql.INT), ("s", sql.STRING))
    assert read("#i,s\n1,x\n", {"header": "true"}, schema)[0] == [(1, "x")]
