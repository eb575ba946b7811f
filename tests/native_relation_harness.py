"""Tables of Parquet files with columns of all kinds, read by an engine itself and through our reader."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.runtime.batch.tables import IS_ENABLED
from sqlstream.schema import Field, Schema
from sqlstream.specs import SourceSpec
from sqlstream.types import LogicalType

THROUGH_READER = {IS_ENABLED: "false"}

MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 2, 29, 12, 30, 15, 123_456),
    dt.datetime(1900, 1, 1),
]
WHOLE_MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2024, 2, 29, 12, 30, 15, 123_000)]
INSTANTS = [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A column: its type in the file, the types that a table may declare for it, and values to draw from."""

    stored: pa.DataType
    declared: tuple[LogicalType, ...]
    values: Sequence[Any]


KINDS = (
    Kind(pa.bool_(), (sql.BOOLEAN,), (True, False)),
    Kind(pa.int8(), (sql.TINYINT, sql.BIGINT), (-128, 0, 127)),
    Kind(pa.int16(), (sql.SMALLINT, sql.INT), (-32768, 7, 32767)),
    Kind(pa.int32(), (sql.INT, sql.BIGINT, sql.SMALLINT, sql.DOUBLE), (-7, 0, 100, 2**31 - 1)),
    Kind(pa.int64(), (sql.BIGINT, sql.INT, sql.decimal(20, 0)), (-(2**63), -1, 5, 2**40)),
    Kind(pa.uint8(), (sql.SMALLINT, sql.INT), (0, 255)),
    Kind(pa.float32(), (sql.FLOAT, sql.DOUBLE), (-1.5, 0.1, math.nan, math.inf)),
    Kind(pa.float64(), (sql.DOUBLE, sql.FLOAT), (-1.5, 0.1, 1e300, math.nan, -math.inf)),
    Kind(pa.string(), (sql.STRING, sql.varchar(3)), ("", "a", "zoë", "\U0001f600 long text of some length")),
    Kind(pa.dictionary(pa.int8(), pa.string()), (sql.STRING,), ("red", "green")),
    Kind(pa.binary(), (sql.BYTES, sql.STRING), (b"", b"a\x00b")),
    Kind(pa.decimal128(9, 2), (sql.decimal(9, 2), sql.decimal(20, 2), sql.decimal(9, 3)), (Decimal("-0.01"), Decimal("9999.99"))),
    Kind(pa.decimal128(30, 5), (sql.decimal(30, 5),), (Decimal("1234567890123456789012345.54321"), Decimal("-1.00000"))),
    Kind(pa.date32(), (sql.DATE, sql.timestamp(3)), (dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31))),
    Kind(pa.timestamp("us"), (sql.timestamp(6), sql.timestamp(3), sql.timestamp(0), sql.timestamp_ltz(3)), MOMENTS),
    Kind(pa.timestamp("ms"), (sql.timestamp(3), sql.timestamp(6)), WHOLE_MOMENTS),
    Kind(pa.timestamp("ns"), (sql.timestamp(6), sql.timestamp(9)), WHOLE_MOMENTS),
    Kind(pa.timestamp("us", "Europe/Zurich"), (sql.timestamp_ltz(6), sql.timestamp_ltz(3)), INSTANTS),
    Kind(pa.time32("ms"), (sql.time(3),), (dt.time(0), dt.time(23, 59, 59, 999_000))),
    Kind(pa.list_(pa.int64()), (sql.array(sql.BIGINT),), ([], [1, 2])),
)  # fmt: skip

PARTITIONS: tuple[tuple[LogicalType, tuple[str, ...]], ...] = (
    (sql.STRING, ("x", "a%3Ab", "it's", "__DEFAULT_PARTITION__")),
    (sql.INT, ("7", "-1", "__DEFAULT_PARTITION__")),
    (sql.DATE, ("2024-02-29", "__DEFAULT_PARTITION__")),
)


def write_file(path: Path, columns: dict[str, pa.Array], row_group_rows: int = 1000, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=row_group_rows, **options)


def parquet_table(
    path: Path,
    schema: Schema,
    columns: tuple[str, ...] | None = None,
    metadata: tuple[Field, ...] = (),
    name: str = "t0",
    **options: str,
) -> BatchTable:
    given = {"connector": "filesystem", "path": str(path), "format": "parquet", **options}
    wanted = schema.names if columns is None else columns
    return BatchTable(name, SourceSpec("t", "filesystem", given, schema, wanted, metadata))


def comparable(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Rows in an order of their own; NaN equals NaN, and -0.0 equals 0.0."""
    return sorted(repr(tuple(0.0 if v == 0 and isinstance(v, float) else v for v in row)) for row in rows)
