"""Logical types and schemas as Arrow's, and the row-kind column of changelog batches. Imports pyarrow; loaded lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.changelog import ROW_KIND_COLUMN, ChangelogMode, RowKind
from sqlstream.errors import UserError
from sqlstream.schema import Schema
from sqlstream.types import LogicalType, TypeRoot

_SIMPLE: dict[TypeRoot, pa.DataType] = {
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.DATE: pa.date32(),
    TypeRoot.TIME: pa.time32("ms"),
    TypeRoot.INTERVAL_DAY_TIME: pa.duration("ms"),
    TypeRoot.INTERVAL_YEAR_MONTH: pa.int32(),
    TypeRoot.NULL: pa.null(),
    TypeRoot.VARIANT: pa.string(),
    TypeRoot.BITMAP: pa.binary(),
}


def timestamp_unit(precision: int) -> str:
    """The Arrow unit that holds a timestamp of that precision: ms up to 3, us up to 6, ns up to 9."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow_type(t: LogicalType) -> pa.DataType:
    """The one Arrow type that represents a logical type on every edge of a job."""
    simple = _SIMPLE.get(t.root)
    if simple is not None:
        return simple
    match t.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(t.precision, t.scale)
        case TypeRoot.TIMESTAMP:
            return pa.timestamp(timestamp_unit(t.precision))
        case TypeRoot.TIMESTAMP_LTZ:
            return pa.timestamp(timestamp_unit(t.precision), tz="UTC")
        case TypeRoot.ARRAY:
            assert t.element is not None
            return pa.list_(pa.field("element", to_arrow_type(t.element)))
        case TypeRoot.MULTISET:
            assert t.element is not None
            return pa.map_(to_arrow_type(t.element), pa.int32())
        case TypeRoot.MAP:
            assert t.key is not None
            assert t.element is not None
            return pa.map_(to_arrow_type(t.key), to_arrow_type(t.element))
        case TypeRoot.ROW:
            return pa.struct([pa.field(f.name, to_arrow_type(f.type)) for f in t.fields])
        case _:
            raise UserError("SS2010", f"type {t} has no value representation")


def to_arrow_schema(schema: Schema, mode: ChangelogMode = ChangelogMode.INSERT_ONLY) -> pa.Schema:
    """Arrow schema of the batches on an edge. All columns are nullable in Arrow: constraints are checked where rows enter."""
    fields = [pa.field(f.name, to_arrow_type(f.type)) for f in schema.fields]
    if not mode.is_insert_only:
        fields.append(pa.field(ROW_KIND_COLUMN, pa.int8()))
    return pa.schema(fields)


def is_changelog(batch: pa.RecordBatch) -> bool:
    """Whether the batch carries row kinds."""
    names = batch.schema.names
    return bool(names) and names[-1] == ROW_KIND_COLUMN


def row_kinds(batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.int8]]:
    """int8[n] row kinds; all INSERT for an insert-only batch."""
    if not is_changelog(batch):
        return np.zeros(batch.num_rows, dtype=np.int8)
    return batch.column(batch.num_columns - 1).to_numpy(zero_copy_only=False)


def kind_texts(batch: pa.RecordBatch, text_of: Callable[[RowKind], str]) -> pa.Array:
    """The text of each row's kind."""
    return pa.array([text_of(kind) for kind in RowKind]).take(pa.array(row_kinds(batch).astype(np.int32)))


_INSERT, _UPDATE_AFTER = int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)


def is_accumulate(kinds: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """bool[n]: whether a row adds (+I, +U) rather than retracts (-U, -D)."""
    # As Python's own numbers: numpy would compare 8 bytes of each row with those of an enumeration.
    return (kinds == _INSERT) | (kinds == _UPDATE_AFTER)


def signs_of(kinds: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """int64[n]: +1 for a row that adds, -1 for one that retracts."""
    return np.where(is_accumulate(kinds), 1, -1)


def with_row_kinds(batch: pa.RecordBatch, kinds: np.ndarray[Any, Any] | RowKind) -> pa.RecordBatch:
    """The batch with a row-kind column at its end (replacing the one it has)."""
    data = without_row_kinds(batch)
    if isinstance(kinds, RowKind):
        kinds = np.full(batch.num_rows, int(kinds), dtype=np.int8)
    column = pa.array(kinds, type=pa.int8())
    fields = [*data.schema, pa.field(ROW_KIND_COLUMN, pa.int8())]
    return pa.RecordBatch.from_arrays([*data.columns, column], schema=pa.schema(fields))


def without_row_kinds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The data columns alone."""
    if not is_changelog(batch):
        return batch
    return pa.RecordBatch.from_arrays(batch.columns[:-1], schema=pa.schema(list(batch.schema)[:-1]))
