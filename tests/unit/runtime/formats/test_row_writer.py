"""Rows of text are, byte by byte, what writing value by value gives, wherever a block ends."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.runtime.formats import row_writer
from sqlstream.runtime.formats.csv_dialect import CsvDialect
from sqlstream.runtime.formats.json_writer import JsonWriter
from sqlstream.runtime.formats.text_values import format_text
from sqlstream.schema import Schema
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType
from tests.unit.runtime.formats.test_round_trips import SCALARS, TEXT, batch_of, written

DIALECTS: list[dict[str, str]] = [
    {},
    {"null-literal": "NA"},
    {"null-literal": "a", "quote-character": "'"},
    {"field-delimiter": ";", "escape-character": "\\", "header": "true"},
    {"field-delimiter": "1", "null-literal": "-"},
    {"quote-character": "a", "escape-character": "b"},
]
LONG = st.tuples(TEXT, st.sampled_from([0, 40, 62, 63, 64, 65, 130, 700]), TEXT).map(
    lambda parts: parts[0] + "x" * parts[1] + parts[2]
)
DIGITS = st.integers(0, 19).flatmap(lambda n: st.integers(-(10**n), 10**n)).filter(lambda n: abs(n) < 2**63)
MORE: dict[str, tuple[LogicalType, st.SearchStrategy[Any]]] = {
    "long": (sql.STRING, LONG),
    "digits": (sql.BIGINT, DIGITS),
    "exact": (
        sql.decimal(38, 3),
        st.integers(-(10**37), 10**37).map(lambda n: decimal.Decimal(n).scaleb(-3)),
    ),
    "cents": (sql.decimal(18, 2), DIGITS.map(lambda n: decimal.Decimal(n % 10**18).scaleb(-2))),
    "whole": (sql.decimal(20, 0), DIGITS.map(decimal.Decimal)),
    "small": (sql.decimal(9, 8), st.integers(-99, 99).map(lambda n: decimal.Decimal(n).scaleb(-8))),
    "any_time": (
        sql.timestamp(3),
        st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)).map(
            lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        ),
    ),
    "neighbours": (
        sql.timestamp(6),
        st.integers(-3_000_000, 3_000_000).map(
            lambda us: datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=us)
        ),
    ),
}
TYPES = SCALARS | MORE


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that most batches take several, and some rows none."""
    monkeypatch.setattr(row_writer._scratch, "block", np.empty(1000, np.uint8))


def csv_field(text: str | None, t: LogicalType, dialect: CsvDialect, is_alone: bool) -> str:
    """The rules of quotes, for one value."""
    null = dialect.null_literal or ""
    if text is None:
        return null
    can_hold_delimiter = dialect.delimiter.isalnum() or dialect.delimiter in "+-.:/= "
    if t.root not in STRING_ROOTS + BINARY_ROOTS and not can_hold_delimiter:
        return text
    special = re.escape(dialect.delimiter + dialect.quote + dialect.escape)
    is_quoted = re.search(rf"[{special}\r\n]|\A[ \t\n\f\r#]|[ \t\n\f\r]\Z", text) or text == null
    if not is_quoted and (text or not is_alone):
        return text
    if dialect.escape:
        text = text.replace(dialect.escape, dialect.escape * 2)
    return dialect.quote + text.replace(dialect.quote, dialect.quote * 2) + dialect.quote


def csv_text(schema: Schema, batches: list[pa.RecordBatch], options: dict[str, str]) -> bytes:
    dialect = CsvDialect.parse(options)
    rows: list[list[str]] = []
    if dialect.has_header:
        rows.append([csv_field(name, sql.STRING, dialect, len(schema) == 1) for name in schema.names])
    for batch in batches:
        texts = [format_text(c, t).to_pylist() for c, t in zip(batch.columns, schema.types, strict=True)]
        for values in zip(*texts, strict=True):
            rows.append(
                [
                    csv_field(v, t, dialect, len(schema) == 1)
                    for v, t in zip(values, schema.types, strict=True)
                ]
            )
    return "".join(dialect.delimiter.join(row) + "\n" for row in rows).encode()


def json_text(schema: Schema, batches: list[pa.RecordBatch], options: dict[str, str]) -> bytes:
    lines = []
    for batch in batches:
        writer = JsonWriter(None, schema, options)  # type: ignore[arg-type]
        texts = [
            [json.dumps(v, ensure_ascii=False) for v in c.to_pylist()]
            if t.root in STRING_ROOTS
            else writer.value_texts(c, t).to_pylist()
            for c, t in zip(batch.columns, schema.types, strict=True)
        ]
        for values in zip(*texts, strict=True):
            present = [
                f"{json.dumps(name)}:{value or 'null'}"
                for name, value in zip(schema.names, values, strict=True)
                if value not in (None, "null") or "encode.ignore-null-fields" not in options
            ]
            lines.append("{" + ",".join(present) + "}\n")
    # Python has two more letters for control characters.
    return "".join(lines).replace("\\b", "\\u0008").replace("\\f", "\\u000c").encode()


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_rows_are_written_as_value_by_value(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=4))
    schema = Schema.of(*[(f"c{number}", TYPES[name][0]) for number, name in enumerate(names)])
    row = st.tuples(*[st.none() | TYPES[name][1] for name in names])
    whole = batch_of(schema, data.draw(st.lists(row, max_size=12)))
    first = data.draw(st.integers(0, 3))
    batches = [whole, whole.slice(first), whole.slice(first, 2)]
    if not any(c in str(whole.to_pydict()) for c in "\\"):
        options = data.draw(st.sampled_from([{}, {"encode.ignore-null-fields": "true"}]))
        assert written("json", schema, batches, options) == json_text(schema, batches, options)
    options = data.draw(st.sampled_from(DIALECTS))
    assert written("csv", schema, batches, options) == csv_text(schema, batches, options)


@pytest.mark.parametrize("code", [*range(0x20), ord('"'), ord("\\"), ord("/"), 0x7F, 0x2028])
@pytest.mark.parametrize("before", [0, 63, 200])
def test_any_character_of_a_json_string_is_written_as_json(code: int, before: int) -> None:
    text = "x" * before + chr(code) + "é"
    line = written("json", Schema.of(("s", sql.STRING)), [batch_of(Schema.of(("s", sql.STRING)), [(text,)])])
    assert json.loads(line) == {"s": text}
    assert b"\\u" not in line or code < 0x20


def test_times_beyond_four_digits_of_a_year_and_long_decimals_have_the_text_of_arrow() -> None:
    schema = Schema.of(("t", sql.timestamp(3)), ("d", sql.DATE), ("n", sql.decimal(38, 2)))
    moments = pa.array([-(10**14), 0, 3 * 10**14], pa.int64()).view(pa.timestamp("ms"))
    days = pa.array([-10_000_000, 0, 10_000_000], pa.int32()).view(pa.date32())
    numbers = pa.array([decimal.Decimal(10**20), None, decimal.Decimal("-0.01")], pa.decimal128(38, 2))
    batch = pa.RecordBatch.from_arrays([moments, days, numbers], names=["t", "d", "n"])
    assert written("csv", schema, [batch]) == csv_text(schema, [batch], {})
