"""Files with a column of operations: what the operations may be, what becomes of others, and where they stand."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from sqlstream import types as sql
from sqlstream.arrow import row_kinds, to_arrow_schema, with_row_kinds, without_row_kinds
from sqlstream.changelog import RowKind
from sqlstream.errors import UserError
from sqlstream.runtime.formats import format_of
from sqlstream.runtime.formats.op_column import OpColumnReader, OpColumnWriter, TombstoneWriter
from sqlstream.schema import Schema
from sqlstream.spi.changelog_options import with_op_column
from sqlstream.spi.format import ReadRequest

SCHEMA = Schema.of(("k", sql.INT), ("s", sql.STRING))
FILED = with_op_column(SCHEMA, "op")
PLAIN = {"csv": {"null-literal": "\\N"}, "json": {}, "parquet": {}}


def read(
    data: bytes, format: str = "csv", columns: tuple[str, ...] = ("k",), skip: int = 0, skips: bool = False
):  # type: ignore[no-untyped-def]
    stream = io.BytesIO(data)
    rows = format_of(format).reader(ReadRequest(stream, "f", FILED, ("op", *columns), PLAIN[format], 100))
    reader = OpColumnReader(rows, stream, "f", skip, skips)
    found, rejected = [], []
    for batch, left_out in reader.batches():
        kinds = [RowKind(kind).symbol for kind in row_kinds(batch)]
        found += [
            (kind, *row.values())
            for kind, row in zip(
                kinds, without_row_kinds(batch).to_pylist() or [{}] * len(kinds), strict=True
            )
        ]
        rejected += [(r.line, r.text) for r in left_out]
    return found, rejected


def test_operations_have_several_names_in_any_case() -> None:
    names = ["+I", "-U", "+U", "-D", "insert", "Update_Before", "UPDATE_AFTER", "delete", "c", "r", "u", "d"]
    found, _ = read("".join(f"{name},{i},x\n" for i, name in enumerate(names)).encode())
    kinds = ["+I", "-U", "+U", "-D", "+I", "-U", "+U", "-D", "+I", "+I", "+U", "-D"]
    assert found == [(kind, i) for i, kind in enumerate(kinds)]


def test_a_row_with_another_operation_fails_or_is_left_out_with_its_number() -> None:
    data = b"+I,1,a\nx,2,b\n,3,c\n-D,4,d\n"
    with pytest.raises(UserError, match='row 2 of "f": it has the operation "x"') as raised:
        read(data)
    assert raised.value.code == "SS5011"
    assert read(data, skips=True) == ([("+I", 1), ("-D", 4)], [(2, "x"), (3, "")])
    # A reader that goes on counts the rows that there are.
    assert read(data, skips=True, skip=1)[0] == [("-D", 4)]
    assert read(data, skips=True, columns=())[0] == [("+I",), ("-D",)]


@pytest.mark.parametrize("format", PLAIN)
def test_a_changelog_that_is_written_is_read_again(format: str) -> None:
    rows = pa.RecordBatch.from_pydict(
        {"k": [1, 1, 2, 2], "s": ["a", "b", None, ""]}, schema=to_arrow_schema(SCHEMA)
    )
    batch = with_row_kinds(rows, pa.array([1, 2, 0, 3], pa.int8()).to_numpy())
    stream = io.BytesIO()
    writer = OpColumnWriter(format_of(format).writer(stream, FILED, PLAIN[format]), "op")
    writer.write(batch)
    writer.close()
    expected = [("-U", 1, "a"), ("+U", 1, "b"), ("+I", 2, None), ("-D", 2, "")]
    assert read(stream.getvalue(), format, ("k", "s"))[0] == expected


def test_without_a_column_a_row_that_goes_is_its_key_alone() -> None:
    # The columns of a query have other names than those of the table.
    rows = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int32()), "text": ["b", "c"]})
    stream = io.BytesIO()
    writer = TombstoneWriter(format_of("json").writer(stream, SCHEMA, {}), frozenset({0}))
    writer.write(with_row_kinds(rows, pa.array([2, 3], pa.int8()).to_numpy()))
    writer.close()
    assert stream.getvalue() == b'{"k":1,"s":"b"}\n{"k":2,"s":null}\n'


def test_without_a_column_a_row_that_would_be_read_as_a_deletion_is_refused() -> None:
    rows = pa.RecordBatch.from_pydict({"k": pa.array([1, 2], pa.int32()), "s": pa.array(["b", None])})
    writer = TombstoneWriter(format_of("json").writer(io.BytesIO(), SCHEMA, {}), frozenset({0}))
    writer.write(with_row_kinds(rows, pa.array([0, 3], pa.int8()).to_numpy()))
    with pytest.raises(UserError, match="nothing but its key") as caught:
        writer.write(with_row_kinds(rows, pa.array([0, 2], pa.int8()).to_numpy()))
    assert caught.value.code == "SS5082"
