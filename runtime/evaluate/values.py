"""Literal rows as batches: what a VALUES source emits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.cancellation import check_not_given_up
from sqlstream.expressions import Literal, LiteralValue
from sqlstream.runtime.evaluate.literal import evaluate_literal
from sqlstream.schema import Schema
from sqlstream.specs.source import ValuesSpec
from sqlstream.types import LogicalType


def values_batches(spec: ValuesSpec, schema: Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of `spec`, at most `batch_rows` per batch, in the Arrow schema of `schema`."""
    arrow = to_arrow_schema(schema)
    for start in range(0, len(spec.rows), batch_rows):
        rows = spec.rows[start : start + batch_rows]
        if not schema.fields:
            yield pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
            continue
        columns = [
            _column(values, f.type, a.type)
            for values, f, a in zip(zip(*rows, strict=True), schema.fields, arrow, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


def _column(values: tuple[LiteralValue, ...], logical: LogicalType, arrow: pa.DataType) -> pa.Array:
    """A loop over values, because there are only as many literals as the statement spells out."""
    return pa.array(list(_evaluated(values, logical)), arrow)


def _evaluated(values: tuple[LiteralValue, ...], logical: LogicalType) -> Iterator[Any]:
    for value in values:
        check_not_given_up()
        # Arrow makes no MAP of a NULL that is a scalar.
        yield None if value is None else evaluate_literal(Literal(value, logical))
