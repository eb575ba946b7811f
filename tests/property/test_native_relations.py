"""DuckDB reads a table of Parquet files by itself as through our reader: the same rows, or the same error."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pyarrow as pa
from batch_harness import KeptRun, plan
from hypothesis import given, settings
from hypothesis import strategies as st
from native_relation_harness import KINDS, PARTITIONS, THROUGH_READER, comparable, parquet_table, write_file

from sqlstream import types as sql
from sqlstream.batch_plan import BatchTable
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.batch.duckdb import DuckDbEngine
from sqlstream.schema import Field, Schema

ENGINE = DuckDbEngine()
METADATA = (Field("file.name", sql.STRING), Field("file.modification-time", sql.timestamp_ltz(3)))


@st.composite
def tables(draw: st.DrawFn, directory: Path) -> BatchTable:
    """One to three files, in partitions or not, with the same columns but not always the same types."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    names = [f"k{i}" for i in range(len(kinds))]
    fields = [(n, draw(st.sampled_from(k.declared))) for n, k in zip(names, kinds, strict=True)]
    partition = draw(st.none() | st.sampled_from(PARTITIONS))
    for number in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 5))
        columns = {
            name: pa.array(
                draw(st.lists(st.none() | st.sampled_from(kind.values), min_size=count, max_size=count)),
                kind.stored,
            )
            for name, kind in zip(names, kinds, strict=True)
        }
        if draw(st.booleans()):
            columns = {"other": pa.array(range(count), pa.int64()), **columns}
        where = directory
        if partition is not None:
            where = directory / f"p={draw(st.sampled_from(partition[1]))}"
        options = {"compression": draw(st.sampled_from(["NONE", "SNAPPY", "ZSTD", "BROTLI"]))}
        write_file(where / f"{number}.parquet", columns, draw(st.integers(1, 3)), **options)
    if partition is not None:
        fields.append(("p", partition[0]))
    schema = Schema.of(*fields)
    read = draw(st.lists(st.sampled_from(schema.names), min_size=1, unique=True))
    return parquet_table(directory, schema, tuple(read), draw(st.sampled_from([(), METADATA])))


def outcome(table: BatchTable, config: dict[str, str], query: str, schema: Schema) -> list[str] | str:
    """The rows, or the code of the error."""
    given_plan = plan(query, schema, table, config={"execution.batch.duckdb-threads": "1", **config})
    kept = KeptRun(given_plan)
    try:
        ENGINE.run(given_plan, kept)
    except SqlStreamError as error:
        return error.code
    return comparable(kept.rows())


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_rows_and_errors_are_those_of_our_reader(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as place:
        table = data.draw(tables(Path(place)))
        columns = table.schema
        queries = [
            ("SELECT * FROM t0", columns),
            ("SELECT count(*) FROM t0", Schema.of(("n", sql.BIGINT))),
            ("SELECT max(c0) FROM t0", Schema.of(("c0", columns.types[0]))),
            ("SELECT * FROM t0 WHERE c0 IS NOT NULL", columns),
            ("SELECT * FROM t0 WHERE c0 >= (SELECT min(c0) FROM t0)", columns),
        ]
        query, schema = data.draw(st.sampled_from(queries))
        table = msgspec.structs.replace(table, is_shared=query.count("t0") > 1)
        assert outcome(table, {}, query, schema) == outcome(table, THROUGH_READER, query, schema)
