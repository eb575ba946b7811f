"""What a format writes, it reads: every type, every value, in any number of batches."""

from __future__ import annotations

import datetime
import decimal
import io
import string
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest
from sqlstream.types import LogicalType

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.text(",\"'\n\r\\ #;ab", max_size=8)
YEARS = (datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))


def moments(digits: int) -> st.SearchStrategy[datetime.datetime]:
    step = 10 ** (6 - digits)
    return st.datetimes(*YEARS).map(lambda d: d.replace(microsecond=d.microsecond // step * step))


def in_utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=datetime.UTC)


def floats(width: int) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False)  # type: ignore[arg-type]


SCALARS: dict[str, tuple[LogicalType, st.SearchStrategy[Any]]] = {
    "string": (sql.STRING, TEXT),
    "boolean": (sql.BOOLEAN, st.booleans()),
    "tinyint": (sql.TINYINT, st.integers(-(2**7), 2**7 - 1)),
    "smallint": (sql.SMALLINT, st.integers(-(2**15), 2**15 - 1)),
    "int": (sql.INT, st.integers(-(2**31), 2**31 - 1)),
    "bigint": (sql.BIGINT, st.integers(-(2**63), 2**63 - 1)),
    "float": (sql.FLOAT, floats(32)),
    "double": (sql.DOUBLE, floats(64)),
    "decimal": (
        sql.decimal(38, 9),
        st.integers(-(10**38) + 1, 10**38 - 1).map(
            lambda n: decimal.Decimal(n).scaleb(-9, decimal.Context(prec=50))
        ),
    ),
    "date": (sql.DATE, st.dates(datetime.date(1, 1, 1), datetime.date(9999, 1, 1))),
    "time_0": (sql.time(0), st.times().map(lambda t: t.replace(microsecond=0))),
    "time_3": (sql.time(3), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "timestamp_0": (sql.timestamp(0), moments(0)),
    "timestamp_2": (sql.timestamp(2), moments(2)),
    "timestamp_3": (sql.timestamp(3), moments(3)),
    "timestamp_6": (sql.timestamp(6), moments(6)),
    "timestamp_9": (sql.timestamp(9), moments(6)),
    "timestamp_ltz": (sql.timestamp_ltz(3), moments(3).map(in_utc)),
    "bytes": (sql.BYTES, st.binary(max_size=8)),
}
_KEYS = st.text(string.ascii_letters + '"\\ \n', max_size=3)
NESTED: dict[str, tuple[LogicalType, st.SearchStrategy[Any]]] = {
    "array": (sql.array(sql.BIGINT), st.lists(st.none() | SCALARS["bigint"][1], max_size=3)),
    "array_of_array": (
        sql.array(sql.array(sql.STRING)),
        st.lists(st.none() | st.lists(st.none() | TEXT, max_size=2), max_size=2),
    ),
    "map": (
        sql.map_of(sql.STRING.not_null(), sql.INT),
        st.dictionaries(_KEYS, st.none() | SCALARS["int"][1], max_size=3).map(lambda d: list(d.items())),
    ),
    "row": (
        sql.row(("a", sql.INT), ("b", sql.row(("c", sql.timestamp(3)), ("d", sql.decimal(10, 2))))),
        st.fixed_dictionaries(
            {
                "a": st.none() | SCALARS["int"][1],
                "b": st.none()
                | st.fixed_dictionaries(
                    {
                        "c": st.none() | moments(3),
                        "d": st.none() | st.decimals(-1000, 1000, places=2, allow_nan=False),
                    }
                ),
            }
        ),
    ),
    "rows_in_array": (
        sql.array(sql.row(("x", sql.DOUBLE), ("y", sql.STRING))),
        st.lists(
            st.none() | st.fixed_dictionaries({"x": st.none() | floats(64), "y": st.none() | TEXT}),
            max_size=2,
        ),
    ),
}


def batch_of(schema: Schema, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    arrow = to_arrow_schema(schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def written(
    identifier: str, schema: Schema, batches: list[pa.RecordBatch], options: dict[str, str] | None = None
) -> bytes:
    stream = io.BytesIO()
    writer = format_of(identifier).writer(stream, schema, options or {})
    for batch in batches:
        writer.write(batch)
    writer.close()
    return stream.getvalue()


def read(
    identifier: str,
    schema: Schema,
    data: bytes,
    options: dict[str, str] | None = None,
    columns: tuple[str, ...] | None = None,
    skip_rows: int = 0,
) -> list[dict[str, Any]]:
    reader = format_of(identifier).reader(
        ReadRequest(
            io.BytesIO(data),
            "file",
            schema,
            schema.names if columns is None else columns,
            options or {},
            65536,
            skip_rows,
        )
    )
    rows: list[dict[str, Any]] = []
    arrow = to_arrow_schema(schema)
    for batch, rejected in reader.batches():
        assert not rejected
        assert [batch.schema.field(n).type for n in batch.schema.names] == [
            arrow.field(n).type for n in batch.schema.names
        ]
        rows += batch.to_pylist()
    return rows


OPTIONS = {"csv": {"null-literal": "\\N"}, "json": {}, "orc": {}, "parquet": {}}
CASES = [
    (identifier, name)
    for identifier in OPTIONS
    for name in (SCALARS if identifier == "csv" else SCALARS | NESTED)
    if not (identifier == "orc" and name in ("time_0", "time_3", "row"))
]


@pytest.mark.parametrize(("identifier", "name"), CASES)
def test_what_is_written_is_read_back(identifier: str, name: str) -> None:
    t, values = (SCALARS | NESTED)[name]
    schema = Schema.of(("k", sql.INT), ("v", t))
    options = OPTIONS[identifier]

    @given(st.lists(st.tuples(st.integers(0, 9), st.none() | values), max_size=6), st.integers(0, 6))
    @settings(max_examples=25, deadline=None, database=None)
    def check(rows: list[tuple[int, Any]], cut: int) -> None:
        batch = batch_of(schema, rows)
        data = written(identifier, schema, [batch.slice(0, cut), batch.slice(cut)], options)
        assert read(identifier, schema, data, options) == batch.to_pylist()
        assert read(identifier, schema, data, options, ("v",), 2) == [
            {"v": r["v"]} for r in batch.to_pylist()[2:]
        ]

    check()


@pytest.mark.parametrize("t", [sql.STRING, sql.BYTES])
@pytest.mark.parametrize("delimiter", ["\\n", "||"])
@given(st.lists(st.text("abc é|", max_size=4).filter(lambda s: "|" not in s), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None, database=None)
def test_raw_values_are_read_back(t: LogicalType, delimiter: str, values: list[str]) -> None:
    schema = Schema.of(("v", t))
    rows = [(v if t is sql.STRING else v.encode(),) for v in values]
    options = {"line-delimiter": delimiter}
    data = written("raw", schema, [batch_of(schema, rows)], options)
    assert read("raw", schema, data, options) == [{"v": row[0]} for row in rows]


@given(st.lists(st.tuples(st.integers(0, 9), TEXT), max_size=6))
@settings(max_examples=50, deadline=None, database=None)
def test_a_single_string_column_survives_csv(rows: list[tuple[int, str]]) -> None:
    schema = Schema.of(("v", sql.STRING))
    batch = batch_of(schema, [(text,) for _, text in rows])
    assert read("csv", schema, written("csv", schema, [batch])) == batch.to_pylist()
