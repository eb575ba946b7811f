"""SPLIT_INDEX."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.evaluate.kernel import Kernel, is_literal, literal_of, null_mask, refuse
from runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream import types as sql
from sqlstream.expressions import Call

_IN_COLUMNS = "CASE WHEN a2 < 0 OR a0 = '' THEN NULL ELSE string_split(a0, a1)[a2 + 1] END"


def split_index(call: Call, context: EvaluationContext) -> Kernel:
    """The part of this number, from 0, between delimiters; NULL when there are fewer or the text is empty."""
    if not is_literal(call, 1, 2):
        if sql.is_integer(call.args[1].type):
            raise refuse(
                call, "with a delimiter that is a number and no constant", "write the delimiter as text"
            )
        return lambda *args: evaluate_in_duckdb(_IN_COLUMNS, *args)
    delimiter, index = literal_of(call, 1), literal_of(call, 2)
    text = chr(delimiter) if isinstance(delimiter, int) else delimiter
    if not text:
        raise refuse(call, "with an empty delimiter", "write the character that parts the text")
    return lambda value, *_: _split(value, text.encode(), index)


def _split(text: pa.Array, delimiter: bytes, index: int) -> pa.Array:
    from runtime.kernels.split import copy_parts_into, find_parts_into

    rows = len(text)
    if index < 0:
        return pa.nulls(rows, pa.string())
    offsets, _ = view_offsets(text)
    data = view_buffer(text.buffers()[2], np.uint8, 0, int(offsets[-1]))
    starts = np.empty(rows, dtype=np.int32)
    ends = np.empty(rows + 1, dtype=np.int32)
    is_found = np.empty(rows, dtype=np.uint8)
    find_parts_into(
        starts, ends, is_found, data, offsets[: rows + 1], np.frombuffer(delimiter, np.uint8).copy(), index
    )
    parts = np.empty(int(ends[-1]), dtype=np.uint8)
    copy_parts_into(parts, starts, ends, data)
    nulls = null_mask(text)
    valid = is_found != 0 if nulls is None else (is_found != 0) & ~nulls
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(parts), bitmap)
