"""BYTES as base64 text and back, a column at a time."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb


def encode_base64(column: pa.Array) -> pa.Array:
    return (
        evaluate_in_duckdb("to_base64(a0)", column).cast(pa.string())
        if len(column)
        else pa.array([], pa.string())
    )


def decode_base64(column: pa.Array) -> pa.Array:
    """ArrowInvalid when a text is no base64."""
    if not len(column):
        return pa.array([], pa.binary())
    decoded = evaluate_in_duckdb("try(from_base64(a0))", column).cast(pa.binary())
    if decoded.null_count != column.null_count:
        raise pa.ArrowInvalid("a value is no base64 text")
    return decoded
