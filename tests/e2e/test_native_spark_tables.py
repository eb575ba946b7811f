"""Spark reads a table of Parquet files by itself as through our reader: the same rows, or the same error."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from native_relation_harness import (
    KINDS,
    PARTITIONS,
    THROUGH_READER,
    comparable,
    parquet_table,
    write_file,
)
from spark_harness.engine import SMALL, RecordedRun, plan_of, spark_engine

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import FilePlaces, RootedFiles
from sqlstream.schema import Field, Schema

METADATA = (Field("file.name", sql.STRING), Field("file.modification-time", sql.timestamp_ltz(3)))
FORTY = pa.array(range(40), pa.int64())
N = Schema.of(("n", sql.BIGINT))


def outcome(
    table: BatchTable,
    query: str,
    schema: Schema,
    config: dict[str, str] | None = None,
    files: LocalFiles | None = None,
) -> list[str] | str:
    """The rows, or the code of the error."""
    run = RecordedRun()
    run.files = files or LocalFiles()
    given = plan_of(query, table, schema=schema, config={**SMALL, **(config or {})})
    try:
        spark_engine().run(given, run)
    except SqlStreamError as error:
        return error.code
    return comparable(run.rows())


def assert_equal(table: BatchTable, query: str, schema: Schema) -> list[str] | str:
    native = outcome(table, query, schema)
    assert native == outcome(table, query, schema, THROUGH_READER), (table, query)
    return native


def how(table: BatchTable, config: dict[str, str] | None = None, files: LocalFiles | None = None) -> str:
    given = plan_of("SELECT count(*) AS n FROM t0", table, config={**SMALL, **(config or {})})
    return spark_engine().explain(given, files or LocalFiles()).splitlines()[0]


def typical(directory: Path) -> BatchTable:
    """Two partitions of what Spark reads by itself, in two layouts."""
    columns = {
        "i": pa.array([1, -5, None], pa.int32()),
        "f": pa.array([1.5, math.nan, -0.0]),
        "s": pa.array(["zoë", "", None]),
        "b": pa.array([b"\x00a", b"", None]),
        "d": pa.array([-25_567, 19_000, None], pa.int32()).cast(pa.date32()),
        "dec": pa.array([Decimal("1.25"), Decimal("-2.00"), None], pa.decimal128(20, 2)),
        "ts": pa.array([-1, 1_999, None], pa.timestamp("us")),
        "ltz": pa.array([-1, 1_700_000_000_123_456, None], pa.timestamp("us", "Europe/Zurich")),
        "t": pa.array([True, False, None]),
    }
    write_file(directory / "p=2024-02-29" / "a.parquet", columns, 1)
    write_file(directory / "p=__DEFAULT_PARTITION__" / "b.parquet", dict(reversed(columns.items())), 2)
    schema = Schema.of(
        ("i", sql.BIGINT), ("f", sql.DOUBLE), ("s", sql.STRING), ("b", sql.BYTES), ("d", sql.DATE), ("dec", sql.decimal(30, 2)),
        ("ts", sql.timestamp(3)), ("ltz", sql.timestamp_ltz(3)), ("t", sql.BOOLEAN), ("p", sql.DATE),
    )  # fmt: skip
    return parquet_table(directory, schema, metadata=METADATA)


@pytest.mark.timeout(300)
def test_a_table_of_all_common_types_is_read_by_spark_with_the_rows_of_our_reader(tmp_path: Path) -> None:
    table = typical(tmp_path)
    assert how(table) == "t0: native parquet, 2 files"
    rows = assert_equal(table, "SELECT * FROM t0", table.schema)
    assert len(rows) == 6
    assert assert_equal(table, "SELECT count(*) AS n FROM t0 WHERE c1 > 100", N) == ["(2,)"]
    assert assert_equal(table, "SELECT count(*) AS n FROM t0 WHERE c9 = DATE'2024-02-29' AND c0 < 0", N) == [
        "(1,)"
    ]


@pytest.mark.timeout(300)
def test_bytes_that_are_no_text_fail_with_the_error_of_our_reader(tmp_path: Path) -> None:
    write_file(
        tmp_path / "a.parquet", {"s": pa.array(["a" * 10] * 9)}, compression="NONE", use_dictionary=False
    )
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data.replace(b"a" * 10, b"\xff" * 10, 5))
    table = parquet_table(tmp_path, Schema.of(("s", sql.STRING)))
    assert how(table) == "t0: native parquet, 1 file"
    assert assert_equal(table, "SELECT c0 FROM t0", table.schema) == "SS5011"


@pytest.mark.timeout(300)
def test_spark_s_settings_and_the_roots_of_a_server_hold(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for place in (inside, outside):
        write_file(place / "a.parquet", {"x": FORTY})
    schema = Schema.of(("x", sql.BIGINT))
    table, files = parquet_table(inside, schema), RootedFiles(FilePlaces((str(inside.resolve()),)))
    setting = {"spark.sql.files.ignoreCorruptFiles": "true"}
    assert (
        how(table, setting) == "t0: through sqlstream's reader: 'spark.sql.files.ignoreCorruptFiles' is set"
    )
    assert how(table) == "t0: native parquet, 1 file"
    assert how(table, files=files).startswith(
        "t0: through sqlstream's reader: Spark does not check where a path"
    )
    assert outcome(table, "SELECT count(*) AS n FROM t0", N, files=files) == ["(40,)"]
    assert outcome(parquet_table(outside, schema), "SELECT count(*) AS n FROM t0", N, files=files) == "SS5030"


def random_table(draw: random.Random, directory: Path) -> BatchTable:
    """Up to three files with columns of any kinds, declared as they are or otherwise, in partitions or not."""
    kinds = [
        kind for kind in draw.sample(KINDS, draw.randint(1, 5)) if kind.stored != pa.timestamp("ns")
    ] or [KINDS[0]]
    fields = [(f"k{i}", draw.choice(kind.declared)) for i, kind in enumerate(kinds)]
    partition = draw.choice((None, *PARTITIONS))
    for number in range(draw.randint(1, 3)):
        count = draw.randint(0, 5)
        columns = {
            name: pa.array([draw.choice((None, *kind.values)) for _ in range(count)], kind.stored)
            for (name, _), kind in zip(fields, kinds, strict=True)
        }
        where = directory if partition is None else directory / f"p={draw.choice(partition[1])}"
        write_file(where / f"{number}.parquet", columns, draw.randint(1, 3))
    if partition is not None:
        fields.append(("p", partition[0]))
    return parquet_table(directory, Schema.of(*fields), metadata=draw.choice(((), METADATA)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(24))
def test_rows_and_errors_are_those_of_our_reader(seed: int, tmp_path: Path) -> None:
    table = random_table(random.Random(seed), tmp_path)
    assert_equal(table, "SELECT * FROM t0", table.schema)
    query = "SELECT count(*) AS n FROM t0 WHERE c0 IS NOT NULL"
    assert_equal(msgspec.structs.replace(table, name="t0"), query, N)
