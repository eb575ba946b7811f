"""Spec of the comparison of two results, and the shape of what it finds."""

from __future__ import annotations

import msgspec

from sqlstream import types as sql
from sqlstream.schema import Field, Schema
from sqlstream.specs.spec import OperatorSpec

STREAM_INPUT = 0
BATCH_INPUT = 1

EXPLAINED_BY_FLOATS = 1e-9
"""The tolerance within which differing floats are explained by the order of addition."""


class CompareRowsSpec(OperatorSpec, frozen=True, tag="compare_rows"):
    """Input 0 is the changelog of a query that ran as a stream, input 1 the rows of the same query in batch. Both have the
    columns of `schema`.

    Output, in `found_schema(schema)`, once both inputs have ended: a first row with a `ComparisonReport`, then the first
    differing rows. `key` names the columns that tell rows apart, None when none are known. Floats may differ by `tolerance`,
    relative to the larger one. The rows of `keys_max` keys are given.
    """

    schema: Schema
    key: tuple[int, ...] | None
    tolerance: float
    keys_max: int


class ComparisonReport(msgspec.Struct, frozen=True):
    """Rows and milliseconds of each side. `surplus` and `missing` count the rows that only the stream and only the batch have.
    `near` counts the pairs of rows that were taken as equal within the tolerance. `explained`: without a tolerance, the pairs
    of differing rows that the order of addition explains."""

    stream_rows: int
    batch_rows: int
    stream_ms: int
    batch_ms: int
    surplus: int
    missing: int
    near: int
    explained: int = 0


def found_schema(schema: Schema) -> Schema:
    """`report` is a ComparisonReport as JSON in the first row, and NULL behind it. Rows with the same `key` have the same key.
    `n` > 0: the stream has the row so many times more than the batch; `n` < 0: the batch has it more."""
    columns = (Field(f"c{i}", t.with_nullable(True)) for i, t in enumerate(schema.types))
    head = (Field("report", sql.STRING), Field("key", sql.BIGINT), Field("n", sql.BIGINT))
    return Schema((*head, *columns))
