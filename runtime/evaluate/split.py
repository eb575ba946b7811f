"""SPLIT_INDEX."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.duckdb_function import evaluate_in_duckdb
from runtime.evaluate.kernel import Kernel, is_literal, literal_of, null_mask
from runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream import types as sql
from sqlstream.expressions import Call

_DELIMITER = "CASE WHEN a1 BETWEEN 1 AND 255 THEN chr(a1) END"
# Java's Character.isWhitespace: an empty delimiter parts at each of these.
_WHITESPACE = "[\\x09-\\x0d\\x1c-\\x20\\x{1680}\\x{2000}-\\x{2006}\\x{2008}-\\x{200a}\\x{2028}\\x{2029}\\x{205f}\\x{3000}]"
_IN_COLUMNS = (
    "list_transform([{delimiter}], lambda d: CASE WHEN d IS NULL OR a2 < 0 OR a0 = '' THEN NULL "
    f"WHEN d = '' THEN string_split_regex(a0, '{_WHITESPACE}')[CAST(a2 AS BIGINT) + 1] "
    "ELSE string_split(a0, d)[CAST(a2 AS BIGINT) + 1] END)[1]"
)


def split_index(call: Call, context: EvaluationContext) -> Kernel:
    """The part of this number, from 0, between delimiters; NULL when there are fewer or the text is empty.

    A delimiter may be the code of a character from 1 to 255; another code gives NULL. An empty one stands for whitespace.
    """
    is_code = sql.is_integer(call.args[1].type)
    if not is_literal(call, 1, 2) or literal_of(call, 1) == "":
        expression = _IN_COLUMNS.replace("{delimiter}", _DELIMITER if is_code else "a1")
        return lambda *args: evaluate_in_duckdb(expression, *args)
    delimiter, index = literal_of(call, 1), literal_of(call, 2)
    if is_code and not 1 <= delimiter <= 255:
        return lambda value, *_: pa.nulls(len(value), pa.string())
    text = chr(delimiter) if is_code else delimiter
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
