"""Files with dates and timestamps that their types cannot hold."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest
from sqlstream.types import DATE, INT, LogicalType

TIMES: list[tuple[LogicalType, str]] = [
    (DATE, "0000-12-31"),
    (sql.timestamp(3), "0000-12-31 23:59:59.999"),
    (sql.timestamp_ltz(6), "0000-12-31 23:59:59Z"),
    (sql.timestamp(9), "2262-01-01 00:00:00"),
]


@pytest.mark.parametrize(("time", "text"), TIMES)
@pytest.mark.parametrize("identifier", ["csv", "json"])
def test_a_time_beyond_its_type_makes_a_row_undecodable(
    identifier: str, time: LogicalType, text: str
) -> None:
    schema = Schema.of(("k", INT), ("t", time))
    good = "2020-01-01 00:00:00Z" if text.endswith("Z") else "2020-01-01"
    rows = (
        f'1,"{text}"\n2,{good}\n'
        if identifier == "csv"
        else f'{{"k": 1, "t": "{text}"}}\n{{"k": 2, "t": "{good}"}}\n'
    )
    options = {"ignore-parse-errors": "true"}
    reader = format_of(identifier).reader(
        ReadRequest(io.BytesIO(rows.encode()), "f", schema, schema.names, options, 100)
    )
    batches = list(reader.batches())
    assert [k for batch, _ in batches for k in batch.column(0).to_pylist()] == [2]
    assert sum(len(rejected) for _, rejected in batches) == 1


@pytest.mark.parametrize(
    ("column", "target"),
    [
        (pa.array([-719_163], pa.int32()).cast(pa.date32()), DATE),
        (pa.array([253_402_300_800_000]).cast(pa.timestamp("ms")), sql.timestamp(3)),
        (pa.array([-(2**62)]).cast(pa.timestamp("us")), sql.timestamp(3)),
    ],
)
def test_a_parquet_file_with_a_time_beyond_its_type_is_refused(column: pa.Array, target: LogicalType) -> None:
    stream = io.BytesIO()
    pq.write_table(pa.table({"t": column}), stream)
    stream.seek(0)
    schema = Schema.of(("t", target))
    reader = format_of("parquet").reader(ReadRequest(stream, "f", schema, schema.names, {}, 100))
    with pytest.raises(UserError, match="out of range") as error:
        list(reader.batches())
    assert (error.value.code, 'column "t" of "f"' in error.value.message) == ("SS5012", True)
