"""Format `orc`: what it refuses, and the files of others."""

from __future__ import annotations

import datetime
import io
import random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_schema
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest
from sqlstream.types import LogicalType

SCHEMA = Schema.of(("n", sql.BIGINT), ("t", sql.STRING))


def file_of(**columns: pa.Array) -> bytes:
    stream = io.BytesIO()
    writer = orc.ORCWriter(stream)
    writer.write(pa.table(columns))
    writer.close()
    return stream.getvalue()


def written(schema: Schema, rows: list[dict[str, Any]], **options: str) -> bytes:
    stream = io.BytesIO()
    given = {key.replace("_", "."): value for key, value in options.items()}
    writer = format_of("orc").writer(stream, schema, given)
    for row in rows:
        writer.write(pa.RecordBatch.from_pylist([row], schema=to_arrow_schema(schema)))
    writer.close()
    return stream.getvalue()


def read(
    data: bytes,
    schema: Schema,
    columns: tuple[str, ...] | None = None,
    batch_rows: int = 100,
    skip_rows: int = 0,
) -> list[dict[str, Any]]:
    wanted = schema.names if columns is None else columns
    request = ReadRequest(io.BytesIO(data), "f", schema, wanted, {}, batch_rows, skip_rows)
    found = []
    for batch, _ in format_of("orc").reader(request).batches():
        assert batch.num_rows <= batch_rows or not wanted
        found += batch.to_pylist()
    return found


def test_columns_are_found_by_name_and_widened() -> None:
    data = file_of(x=pa.array([1]), t=pa.array(["a"]), n=pa.array([7], pa.int16()))
    assert read(data, SCHEMA) == [{"n": 7, "t": "a"}]
    assert read(data, SCHEMA, ()) == [{}]
    more = Schema.of(("n", sql.BIGINT), ("z", sql.INT))
    assert read(data, more) == [{"n": 7, "z": None}]
    for schema, said in (
        (Schema.of(("n", sql.STRING)), 'column "n" of file "f" is SMALLINT, the table declares STRING'),
        (Schema.of(("n", sql.INT), ("z", sql.INT.not_null())), 'the orc file "f" has no column "z"'),
    ):
        with pytest.raises(UserError, match=said) as raised:
            read(data, schema)
        assert raised.value.code == "SS5012"


@pytest.mark.parametrize("compress", ["NONE", "ZLIB", "SNAPPY", "LZ4", "ZSTD"])
def test_stripes_are_read_in_batches(compress: str) -> None:
    chance = random.Random(1)
    rows = [{"n": n, "t": chance.randbytes(24).hex() if n % 3 else None} for n in range(30_000)]
    stream = io.BytesIO()
    given = {"compress": compress, "stripe.size": "1024"}
    writer = format_of("orc").writer(stream, SCHEMA, given)
    for first in range(0, len(rows), 10_000):
        writer.write(pa.RecordBatch.from_pylist(rows[first : first + 10_000], schema=to_arrow_schema(SCHEMA)))
    writer.close()
    found = orc.ORCFile(io.BytesIO(stream.getvalue()))
    assert found.compression == {"NONE": "UNCOMPRESSED"}.get(compress, compress)
    assert found.nstripes > 1
    assert read(stream.getvalue(), SCHEMA) == rows
    assert read(stream.getvalue(), SCHEMA, ("t",), 7, 1234) == [{"t": row["t"]} for row in rows[1234:]]
    assert len(read(stream.getvalue(), SCHEMA, (), skip_rows=5)) == 29_995


def test_a_file_without_rows_has_columns() -> None:
    data = written(SCHEMA, [])
    assert orc.ORCFile(io.BytesIO(data)).schema.names == ["n", "t"]
    assert read(data, SCHEMA) == []


def test_a_writer_that_is_given_up_writes_nothing_more() -> None:
    stream = io.BytesIO()
    writer = format_of("orc").writer(stream, SCHEMA, {})
    writer.write(pa.RecordBatch.from_pylist([{"n": 1, "t": "a"}], schema=to_arrow_schema(SCHEMA)))
    size = len(stream.getvalue())
    del writer
    assert len(stream.getvalue()) == size


@pytest.mark.parametrize("data", [b"", b"ORC", b"a,1\n" * 40, None])
def test_what_is_no_whole_file_is_refused(data: bytes | None) -> None:
    if data is None:
        data = written(SCHEMA, [{"n": 1, "t": "a"}])[:-5]
    with pytest.raises(UserError, match='could not read "f" as orc') as raised:
        read(data, SCHEMA)
    assert raised.value.code == "SS5011"


DAMAGES = [
    # Precision and scale of DECIMAL(10, 2) in the footer.
    (b"\x28\x0a\x30\x02", b"\x28\x4a\x30\x02", "a DECIMAL of 74 digits"),
    # Its number of rows, behind the last type.
    (b"\x30\x02\x30\x03", b"\x30\x02\x30\x07", "the rows of its stripes are not those of the file"),
]


@pytest.mark.parametrize(("whole", "damaged", "said"), DAMAGES)
def test_a_damaged_footer_is_an_error(whole: bytes, damaged: bytes, said: str) -> None:
    schema = Schema.of(("d", sql.decimal(10, 2)))
    rows = [{"d": n} for n in range(3)]
    data = written(schema, rows, compress="NONE")
    assert data.count(whole) == 1
    with pytest.raises(UserError, match=f'could not read "f" as orc: .*{said}') as raised:
        read(data.replace(whole, damaged), schema)
    assert raised.value.code == "SS5011"


def test_a_moment_beyond_nanoseconds_is_an_error() -> None:
    schema = Schema.of(("m", sql.timestamp(6)))
    data = written(schema, [{"m": datetime.datetime(1, 1, 1)}])
    with pytest.raises(UserError, match="out of range for nanosecond"):
        read(data, schema)
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert read(written(schema, [{"m": moment}]), schema) == [{"m": moment}]


@pytest.mark.parametrize(
    "t", [sql.row(("a", sql.row(("b", sql.INT)))), sql.row(("a", sql.array(sql.row(("b", sql.INT)))))]
)
def test_a_row_in_a_row_is_not_written(t: LogicalType) -> None:
    schema = Schema.of(("v", t))
    format_of("orc").validate(schema, {})
    with pytest.raises(UserError, match='cannot write column "v"') as raised:
        written(schema, [])
    assert raised.value.code == "SS4006"


@pytest.mark.parametrize("t", [sql.time(3), sql.array(sql.row(("a", sql.time(0)))), sql.NULL])
def test_types_that_it_does_not_have_are_refused(t: LogicalType) -> None:
    with pytest.raises(UserError) as raised:
        format_of("orc").validate(Schema.of(("a", t)), {})
    assert raised.value.code == "SS4006"
