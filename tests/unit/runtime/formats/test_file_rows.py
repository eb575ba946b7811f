"""What all readers of files have in common, and what the text formats refuse."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.runtime.formats.file_rows import FileRows
from sqlstream.runtime.formats.flat_types import find_refused, refuse_types
from sqlstream.schema import Schema
from sqlstream.spi.format import ReadRequest, Rejected

SCHEMA = Schema.of(("a", sql.INT), ("b", sql.STRING))


class Given(FileRows):
    """Rows in batches of two."""

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for start in range(0, 6, 2):
            yield pa.record_batch({"a": [start, start + 1]}), []


@pytest.mark.parametrize("skip_rows", range(8))
def test_rows_that_were_read_before_are_passed_over(skip_rows: int) -> None:
    reader = Given(ReadRequest(io.BytesIO(), "f", SCHEMA, ("a",), skip_rows=skip_rows))
    rows = [row["a"] for batch, _ in reader.batches() for row in batch.to_pylist()]
    assert rows == list(range(skip_rows, 6))


def test_a_reader_that_is_closed_closes_its_file() -> None:
    stream = io.BytesIO()
    Given(ReadRequest(stream, "f", SCHEMA, ("a",), skip_rows=0)).close()
    assert stream.closed


NESTED = (sql.array(sql.INT), sql.map_of(sql.STRING, sql.INT), sql.row(("x", sql.INT)))
INTERVALS = (sql.INTERVAL_DAY_TIME, sql.INTERVAL_YEAR_MONTH)


@pytest.mark.parametrize("refused", [*INTERVALS, sql.SYMBOL], ids=str)
def test_a_type_without_a_text_is_found_wherever_it_stands(refused: sql.LogicalType) -> None:
    around = (
        refused,
        sql.array(refused),
        sql.map_of(sql.STRING, refused),
        sql.map_of(refused, sql.STRING),
        sql.row(("x", sql.INT), ("y", sql.array(refused))),
    )
    assert [find_refused(t, allows_nested=True) for t in around] == [refused] * len(around)


@pytest.mark.parametrize("nested", NESTED, ids=str)
def test_nested_types_are_refused_where_they_are_not_allowed(nested: sql.LogicalType) -> None:
    assert find_refused(nested, allows_nested=False) == nested
    assert find_refused(nested, allows_nested=True) is None
    assert find_refused(sql.STRING, allows_nested=False) is None


@pytest.mark.parametrize(
    ("t", "hint"),
    [(sql.array(sql.INT), "use format json or parquet"), (INTERVALS[0], "use a cast to STRING or BIGINT")],
)
def test_a_column_that_cannot_be_carried_is_named_with_what_helps(t: sql.LogicalType, hint: str) -> None:
    with pytest.raises(
        UserError, match=f'format "csv" cannot carry column "b" of type {t}'.replace("(", r"\(")[:45]
    ) as caught:
        refuse_types("csv", Schema.of(("a", sql.INT), ("b", t)), allows_nested=False)
    assert (caught.value.code, caught.value.hint, caught.value.column) == ("SS4006", hint, "b")
    refuse_types("json", Schema.of(("a", sql.INT), ("b", sql.array(sql.INT))), allows_nested=True)
