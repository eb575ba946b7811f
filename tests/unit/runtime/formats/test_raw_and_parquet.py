"""Formats raw and parquet: what they refuse, and the files of others."""

from __future__ import annotations

import datetime
import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats import FORMATS, descriptors, format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest
from sqlstream.types import LogicalType

D = decimal.Decimal
LINE = Schema.of(("line", sql.STRING))


def read(identifier: str, data: bytes, schema: Schema, **options: str) -> list[Any]:
    stream = io.BytesIO(data)
    reader = format_of(identifier).reader(ReadRequest(stream, "f", schema, schema.names, options, 100))
    return [tuple(row.values()) for batch, _ in reader.batches() for row in batch.to_pylist()]


def parquet(**columns: pa.Array) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def test_raw_gives_a_row_a_line() -> None:
    assert read("raw", b"a\r\n\nb", LINE) == [("a",), ("",), ("b",)]
    assert read("raw", "é".encode("latin-1"), LINE, charset="ISO-8859-1") == [("é",)]


def test_raw_text_must_be_text() -> None:
    with pytest.raises(UserError, match='line 2 of "f": it is no text in UTF-8'):
        read("raw", b"a\n\xff\n", LINE)


@pytest.mark.parametrize(
    "schema", [Schema.of(("a", sql.INT)), Schema.of(("a", sql.STRING), ("b", sql.STRING))]
)
def test_raw_refuses_what_is_not_one_text(schema: Schema) -> None:
    with pytest.raises(UserError, match='format "raw"'):
        format_of("raw").validate(schema, {})


def test_parquet_columns_are_found_by_name_and_widened() -> None:
    data = parquet(
        b=pa.array([1], pa.int16()),
        a=pa.array(["x"]).dictionary_encode(),
        t=pa.array([1_999], pa.timestamp("us")),
    )
    schema = Schema.of(("a", sql.STRING), ("b", sql.BIGINT), ("t", sql.timestamp(3)))
    ((a, b, t),) = read("parquet", data, schema)
    assert (a, b, t.microsecond) == ("x", 1, 1_000)


@pytest.mark.parametrize("tz", [None, "America/New_York"])
def test_parquet_timestamps_are_cut_down_before_1970_too(tz: str | None) -> None:
    finer = pa.array([-1, -1_000, 1_999, None], pa.int64()).cast(pa.timestamp("us", tz))
    target = sql.timestamp_ltz(3) if tz else sql.timestamp(3)
    values = [t for (t,) in read("parquet", parquet(t=finer), Schema.of(("t", target)))]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if tz else None)
    assert [t and (t - epoch) / datetime.timedelta(milliseconds=1) for t in values] == [-1, -1, 1, None]


def test_parquet_timestamps_that_nanoseconds_cannot_hold_are_refused() -> None:
    last = pa.array([253_402_300_799_000], pa.timestamp("ms"))
    with pytest.raises(UserError, match="timestamp out of range"):
        read("parquet", parquet(t=last), Schema.of(("t", sql.timestamp(9))))


def test_int96_timestamps_of_any_year_are_read() -> None:
    stream = io.BytesIO()
    moment = datetime.datetime(9999, 12, 31, 23, 59, 59)
    pq.write_table(pa.table({"t": pa.array([moment])}), stream, use_deprecated_int96_timestamps=True)
    assert read("parquet", stream.getvalue(), Schema.of(("t", sql.timestamp(3)))) == [(moment,)]


def test_a_name_that_a_parquet_file_has_twice_is_refused() -> None:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), stream)
    with pytest.raises(UserError, match='has several columns "a"'):
        read("parquet", stream.getvalue(), Schema.of(("a", sql.BIGINT)))


NESTED = pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", pa.int64())])))


@pytest.mark.parametrize(
    ("column", "t", "message"),
    [
        (pa.array([1], pa.int32()), sql.STRING, "is INT, the table declares STRING"),
        (pa.array(["1"]), sql.INT, "is STRING, the table declares INT"),
        (pa.array(["1"]).dictionary_encode(), sql.DOUBLE, "is STRING, the table declares DOUBLE"),
        (pa.array([True]), sql.STRING, "is BOOLEAN, the table declares STRING"),
        (
            pa.array([0], pa.timestamp("us", "UTC")),
            sql.STRING,
            r"is TIMESTAMP_LTZ\(6\), the table declares STRING",
        ),
        (pa.array([0], pa.timestamp("ms")), sql.BIGINT, r"is TIMESTAMP\(3\), the table declares BIGINT"),
        (pa.array([0], pa.date32()), sql.time(3), r"is DATE, the table declares TIME\(3\)"),
        (NESTED, sql.array(sql.STRING), "is ARRAY<ROW<`x` BIGINT>>, the table declares ARRAY<STRING>"),
        (
            NESTED,
            sql.array(sql.row(("y", sql.INT))),
            "is ARRAY<ROW<`x` BIGINT>>, the table declares ARRAY<ROW<",
        ),
        (NESTED, sql.row(("x", sql.INT)), "is ARRAY<ROW<`x` BIGINT>>, the table declares ROW<"),
        (pa.array([2**40]), sql.INT, "is BIGINT, the table declares INT, and a value does not fit"),
        (pa.array([1.5]), sql.INT, "is DOUBLE, the table declares INT, and a value does not fit"),
        (
            pa.array([D("10.5")]),
            sql.decimal(2, 1),
            r"is DECIMAL\(3, 1\), the table declares DECIMAL\(2, 1\), and",
        ),
        (pa.array([b"\xff"]), sql.STRING, "is BYTES, the table declares STRING, and a value does not fit"),
    ],
)
def test_a_parquet_column_of_another_type_is_named_in_types_of_sql(
    column: pa.Array, t: LogicalType, message: str
) -> None:
    with pytest.raises(UserError, match=f'column "a" of file "f" {message}'):
        read("parquet", parquet(a=column), Schema.of(("a", t)))


def test_a_parquet_file_without_a_column_of_the_table_says_which_it_has() -> None:
    with pytest.raises(UserError, match='has no column "z"') as failed:
        read("parquet", parquet(a=pa.array([1])), Schema.of(("z", sql.INT)))
    assert failed.value.detail == "its columns are a"


def test_a_column_that_a_parquet_file_lacks_is_null_in_its_rows() -> None:
    schema = Schema.of(("a", sql.BIGINT), ("z", sql.STRING))
    assert read("parquet", parquet(b=pa.array([2]), a=pa.array([1], pa.int32())), schema) == [(1, None)]
    with pytest.raises(UserError, match='has no column "z"'):
        read("parquet", parquet(a=pa.array([1])), Schema.of(("a", sql.INT), ("z", sql.INT.not_null())))
    with pytest.raises(UserError, match='has no column "Z"'):
        read("parquet", parquet(a=pa.array([1]), z=pa.array([1])), Schema.of(("a", sql.INT), ("Z", sql.INT)))


def test_parquet_fields_are_widened_at_every_depth() -> None:
    schema = Schema.of(("a", sql.array(sql.row(("x", sql.decimal(20, 1))))))
    assert read("parquet", parquet(a=NESTED), schema) == [([{"x": D("1.0")}],)]
    schema = Schema.of(("a", sql.timestamp(3)))
    assert read("parquet", parquet(a=pa.array([1], pa.date32())), schema) == [
        (datetime.datetime(1970, 1, 2),)
    ]
    assert read("parquet", parquet(a=pa.nulls(1)), Schema.of(("a", sql.STRING))) == [(None,)]


def test_what_is_no_parquet_file_is_refused() -> None:
    with pytest.raises(UserError, match='could not read "f" as parquet'):
        read("parquet", b"a,1\n" * 10, LINE)


def test_every_registered_format_has_the_name_it_is_registered_under() -> None:
    assert {key: d.identifier for key, d in descriptors().items()} == {name: name for name in FORMATS}
