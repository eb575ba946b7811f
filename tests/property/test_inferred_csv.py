"""Random CSV files have the same rows in DuckDB and, with the columns that are inferred, in format csv."""

from __future__ import annotations

import csv
import datetime
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of, format_options
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.inference.file_inference import LocalFileInference
from sqlstream.schema import Field, Schema
from sqlstream.spi.format import ReadRequest

VALUES = {
    "integers": st.integers(-(10**20), 10**20).map(str),
    "small": st.integers(0, 9).map(str),
    "floats": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "booleans": st.sampled_from(["true", "false", "True", "FALSE"]),
    "dates": st.dates(datetime.date(1000, 1, 1)).map(str),
    "timestamps": st.datetimes(datetime.datetime(1000, 1, 1)).map(str),
    "times": st.times().map(str),
    "instants": st.datetimes(datetime.datetime(1000, 1, 1)).map(lambda t: t.isoformat() + "Z"),
    "words": st.text("abz \"',;|\t\n#\\-é01.", max_size=6),
    "odd": st.sampled_from(["yes", "t", "1e5", "0x1F", "007", "+5", "1_000", "NULL", "nan", "inf", "infinity", "12:30"]),
}  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=2, max_size=4))
    columns = [
        st.one_of(VALUES[kind], st.just("")) if draw(st.booleans()) else VALUES[kind] for kind in kinds
    ]
    rows = draw(st.lists(st.tuples(*columns).map(list), min_size=1, max_size=12))
    return draw(st.sampled_from(",;|\t")), [[f"c{i}" for i in range(len(kinds))], *rows]


def _normal(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    return repr(value) if isinstance(value, float) else value


def _ours(path: str) -> tuple[Schema, list[dict[str, Any]]]:
    inference = LocalFileInference(LocalFiles())
    table = inference.table({"connector": "filesystem", "path": path, "format": "csv"})
    schema = Schema(tuple(Field(c.name, c.type) for c in table.columns))
    options = format_options("csv", table.options)
    reader = format_of("csv").reader(
        ReadRequest(LocalFiles().open_read(path), path, schema, schema.names, options, 100)
    )
    return schema, [row for batch, _ in reader.batches() for row in batch.to_pylist()]


def _theirs(path: str, texts: list[str]) -> list[dict[str, Any]]:
    wanted = ", ".join(f"'{name}': VARCHAR" for name in texts)
    types = f", types = {{{wanted}}}" if texts else ""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.sql(f"FROM read_csv('{path}', sample_size = -1{types})")
        return list(found.to_arrow_table().to_pylist())


@pytest.mark.timeout(300)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(files())
def test_random_files_have_duckdbs_rows(file: tuple[str, list[list[str]]]) -> None:
    delimiter, rows = file
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "f.csv"
        with path.open("w", newline="") as stream:
            csv.writer(stream, delimiter=delimiter, lineterminator="\n").writerows(rows)
        try:
            schema, actual = _ours(str(path))
        except UserError as error:
            if error.code != "SS5024":
                raise
            return
        texts = [f.name for f in schema.fields if str(f.type) == "STRING"]
        try:
            expected = _theirs(str(path), texts)
        except duckdb.Error:
            return
        assert [[_normal(v) for v in row.values()] for row in actual] == [
            [_normal(v) for v in row.values()] for row in expected
        ]
