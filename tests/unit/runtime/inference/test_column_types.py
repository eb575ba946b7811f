"""Types of columns in directories, in texts and of DuckDB, and the files that can be read by their path."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import DEFAULT_PARTITION_NAME
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.inference.duckdb_sniffer import first_line, nested_type, scalar_type
from sqlstream.runtime.inference.file_inference import infer_partitions, paths_after
from sqlstream.runtime.inference.samples import are_cut
from sqlstream.spi.files import FileStatus


@pytest.mark.parametrize(
    ("texts", "type_", "expected"),
    [
        (["12:00:00.123"], sql.time(3), False),
        (["12:00:00.1234"], sql.time(3), True),
        (["12:00:00.1230"], sql.time(3), False),
        (["12:00:00.12304"], sql.time(3), True),
        (["2024-01-01 00:00:00.123456"], sql.timestamp(6), False),
        (["2024-01-01 00:00:00.123456"], sql.timestamp(3), False),
        (["x", "2024-01-01 00:00:00.1234567"], sql.timestamp(6), True),
        (["2024-01-01 00:00:00.1234567"], sql.timestamp(9), False),
        (["2024-01-01 00:00:00.1234567Z"], sql.timestamp_ltz(6), True),
        (["1.23456789"], sql.DOUBLE, False),
        ([None], sql.timestamp(6), False),
    ],
)
def test_a_digit_that_a_type_would_lose_is_found(
    texts: list[str | None], type_: sql.LogicalType, expected: bool
) -> None:
    assert are_cut(pa.array(texts, pa.string()), type_) is expected


def statuses(*paths: str) -> list[FileStatus]:
    return [FileStatus(path, 1, 0) for path in paths]


def test_directories_that_name_values_give_columns_of_the_narrowest_type() -> None:
    found = statuses("/r/n=1/d=2024-01-01/s=a/x=1/f", "/r/n=__DEFAULT_PARTITION__/d=2024-02-29/s=2/x=b/f")
    fields = infer_partitions(found, "/r", DEFAULT_PARTITION_NAME)
    assert [(f.name, f.type) for f in fields] == [
        ("n", sql.BIGINT),
        ("d", sql.DATE),
        ("s", sql.STRING),
        ("x", sql.STRING),
    ]
    assert infer_partitions(statuses("/r/f", "/r/g"), "/r", DEFAULT_PARTITION_NAME) == ()


def test_directories_that_name_other_columns_do_not_fit() -> None:
    with pytest.raises(UserError, match="its directories name other columns") as caught:
        infer_partitions(statuses("/r/a=1/f", "/r/b=1/f"), "/r", DEFAULT_PARTITION_NAME)
    assert "a and b" in caught.value.detail
    with pytest.raises(UserError, match="its directories name other columns") as caught:
        infer_partitions(statuses("/r/a=1/f", "/r/f"), "/r", DEFAULT_PARTITION_NAME)
    assert "a and none" in caught.value.detail


def test_paths_go_on_with_directories_and_files_of_a_known_format(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("day.csv", "day.txt", "dusk.parquet", ".d.csv"):
        (tmp_path / name).write_bytes(b"")
    files = LocalFiles()
    assert paths_after(f"{tmp_path}/da", files) == [
        (f"{tmp_path}/data/", "directory"),
        (f"{tmp_path}/day.csv", "csv"),
    ]
    assert [path.rpartition("/")[2] for path, _ in paths_after(f"{tmp_path}/", files)][1:] == [
        "day.csv",
        "dusk.parquet",
    ]
    assert paths_after(f"{tmp_path}/x", files) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("INTEGER", sql.INT),
        ("UBIGINT", sql.decimal(20, 0)),
        ("HUGEINT", sql.decimal(38, 0)),
        ("TIME", sql.time(3)),
        ("TIMESTAMP", sql.timestamp(6)),
        ("TIMESTAMP_NS", sql.timestamp(9)),
        ("TIMESTAMP WITH TIME ZONE", sql.timestamp_ltz(6)),
        ("VARCHAR", sql.STRING),
        ("UUID", sql.STRING),
    ],
)
def test_types_of_duckdb_are_types_of_sql(name: str, expected: sql.LogicalType) -> None:
    assert scalar_type(name) == expected


def test_nested_types_of_duckdb_are_nested_types_of_sql() -> None:
    made = duckdb.connect().sql(
        "SELECT NULL::STRUCT(a INT, b VARCHAR[]), NULL::MAP(VARCHAR, DOUBLE[]), NULL::INT[3]"
    )
    assert [nested_type(t) for t in made.types] == [
        sql.row(("a", sql.INT), ("b", sql.array(sql.STRING))),
        sql.map_of(sql.STRING, sql.array(sql.DOUBLE)),
        sql.array(sql.INT),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Invalid Input Error: Error in file "/tmp/sqlstream-sample-x1" on line 3. \nmore',
            "error on line 3",
        ),
        (
            'IO Error: Sniffing file "/a b/sqlstream-sample-q" failed',
            'sniffing file "/a b/sqlstream-sample-q" failed',
        ),
        ('Malformed JSON in file "/tmp/sqlstream-sample-x": bad', "malformed JSON: bad"),
        ("", ""),
    ],
)
def test_an_error_of_duckdb_is_one_line_without_the_sample(text: str, expected: str) -> None:
    assert first_line(Exception(text)) == expected
