"""Rows of our readers in the Arrow types that Spark takes (see sqlstream.spark_types)."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.schema import Schema
from sqlstream.spark_types import quote, spark_type
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

NO_COLUMN = "c"
"""The column of a table of which the SQL reads none: Spark does not count rows without columns."""

_NUMBERS = {
    TypeRoot.TIME: pa.int32(),
    TypeRoot.INTERVAL_DAY_TIME: pa.int64(),
    TypeRoot.INTERVAL_YEAR_MONTH: pa.int32(),
    TypeRoot.NULL: pa.int32(),
}


def spark_ddl(schema: Schema) -> str:
    """The columns as Spark declares them."""
    if not schema.fields:
        return f"{NO_COLUMN} BOOLEAN"
    return ", ".join(f"{quote(f.name)} {spark_type(f.type)}" for f in schema.fields)


def spark_arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of the same columns."""
    if not schema.fields:
        return pa.schema([(NO_COLUMN, pa.bool_())])
    return pa.schema([(f.name, _arrow_type(f.type)) for f in schema.fields])


def as_spark_rows(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of a reader with the types of `spark_arrow_schema`."""
    if not batch.num_columns:
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], schema=schema)
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _arrow_type(t: LogicalType) -> pa.DataType:
    from sqlstream.arrow import to_arrow_type

    match t.root:
        case root if root in _NUMBERS:
            return _NUMBERS[root]
        case root if root in TIMESTAMP_ROOTS:
            return pa.timestamp("us")
        case TypeRoot.ARRAY if t.element is not None:
            return pa.list_(pa.field("element", _arrow_type(t.element)))
        case TypeRoot.MAP if t.key is not None and t.element is not None:
            return pa.map_(_arrow_type(t.key), _arrow_type(t.element))
        case TypeRoot.ROW:
            return pa.struct([pa.field(f.name, _arrow_type(f.type)) for f in t.fields])
        case _:
            return to_arrow_type(t)
