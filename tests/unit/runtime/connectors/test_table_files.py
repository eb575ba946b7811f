"""One file of a table: from which row, up to which byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlstream import types as sql
from sqlstream.runtime.connectors.files.table_files import TableFiles
from sqlstream.runtime.connectors.rejected_rows import RejectedRows
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.schema import Schema
from sqlstream.specs import SourceSpec
from sqlstream.spi.connector import ConnectorContext
from sqlstream.spi.files import FileStatus

SCHEMA = Schema.of(("p", sql.INT), ("k", sql.STRING), ("v", sql.INT))


def files_of(directory: Path, *columns: str) -> TableFiles:
    context = ConnectorContext("job", "v", 0, 1, 0, 2, {}, lambda: 0, lambda name, n: None, LocalFiles())
    options = {"path": str(directory), "format": "csv", "csv.ignore-parse-errors": "true"}
    spec = SourceSpec("t", "filesystem", options, SCHEMA, columns or SCHEMA.names)
    return TableFiles(spec, context, str(directory), RejectedRows(None, context))


def written(directory: Path, text: str) -> FileStatus:
    path = directory / "p=7" / "f.csv"
    path.parent.mkdir()
    path.write_text(text)
    return FileStatus(str(path), len(text), 0)


@pytest.mark.parametrize(
    ("skip_rows", "size_max", "expected"),
    [
        (0, -1, [("a", 1), ("b", 2), ("c", 3)]),
        (0, 12, [("a", 1), ("b", 2), ("c", 3)]),
        (0, 8, [("a", 1), ("b", 2)]),
        (0, 4, [("a", 1)]),
        (0, 0, []),
        (1, 8, [("b", 2)]),
        (2, -1, [("c", 3)]),
        (3, -1, []),
    ],
)
def test_rows_are_those_behind_some_and_within_the_first_bytes(
    tmp_path: Path, skip_rows: int, size_max: int, expected: list[tuple[str, int]]
) -> None:
    status, files = written(tmp_path, "a,1\nb,2\nc,3\n"), files_of(tmp_path)
    for is_beside_others in (False, True):
        _, batches = files.open(status, skip_rows, size_max, is_beside_others)
        rows: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
        assert [tuple(row.values()) for row in rows] == [(7, *row) for row in expected]
    files.close()


@pytest.mark.parametrize(("rows", "expected"), [(1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])])
def test_the_first_rows_have_the_columns_that_are_wanted(
    tmp_path: Path, rows: int, expected: list[str]
) -> None:
    status, files = written(tmp_path, "a,1\nx,no\nb,2\nc,3\n"), files_of(tmp_path)
    found: list[str] = []
    columns, count = files.first_rows(status, frozenset({1}), rows)
    found = columns[1].to_pylist()
    assert (found[:1], columns[0], columns[2], count) == (["a"], None, None, len(found))
    assert len(found) <= rows
    assert found == expected[: len(found)]
