"""SPLIT_INDEX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa

from sqlstream import types as sql
from sqlstream.expressions import Call, Expression
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import Kernel, is_literal, literal_of, null_mask
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets

_DELIMITER = "CASE WHEN a1 BETWEEN 1 AND 255 THEN chr(a1) END"
# Java's Character.isWhitespace: an empty delimiter splits at each of these.
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
    delimiter, index = _delimiter(call), literal_of(call, 2)
    if not delimiter:
        return lambda text, *_: pa.nulls(len(text), pa.string())
    return lambda text, *_: split_parts(text, delimiter, (index,))[0]


def _delimiter(call: Call) -> bytes:
    """The literal delimiter; empty for the code of no character from 1 to 255."""
    written = literal_of(call, 1)
    if isinstance(written, int):
        return chr(written).encode() if 1 <= written <= 255 else b""
    return str(written).encode()


def split_families(calls: Iterable[Call]) -> dict[Call, tuple[Call, ...]]:
    """The calls that split the same text at the same delimiter as another call, each with its family: all such calls."""
    families: dict[tuple[Expression, bytes], dict[Call, None]] = {}
    for call in calls:
        if call.function == "SPLIT_INDEX" and is_literal(call, 1, 2) and _delimiter(call):
            families.setdefault((call.args[0], _delimiter(call)), {})[call] = None
    return {call: tuple(family) for family in families.values() if len(family) > 1 for call in family}


def split_family(family: tuple[Call, ...]) -> Callable[[pa.Array], list[pa.Array]]:
    """A function from the text to one column per call, in their order."""
    delimiter, indexes = _delimiter(family[0]), [literal_of(call, 2) for call in family]
    return lambda text: split_parts(text, delimiter, indexes)


def split_parts(text: pa.Array, delimiter: bytes, indexes: Sequence[int]) -> list[pa.Array]:
    """One column of parts per index; the delimiters are searched once for all of them."""
    from sqlstream.runtime.kernels.text.replace import copy_parts_into, find_parts_into

    rows = len(text)
    wanted = sorted({index for index in indexes if index >= 0})
    offsets, _ = view_offsets(text)
    data = view_buffer(text.buffers()[2], np.uint8, 0, int(offsets[-1]))
    starts = np.empty((len(wanted), rows), dtype=np.int32)
    ends = np.empty((len(wanted), rows + 1), dtype=np.int32)
    is_found = np.empty((len(wanted), rows), dtype=np.uint8)
    marks = np.frombuffer(delimiter, np.uint8).copy()
    find_parts_into(
        *(array.reshape(-1) for array in (starts, ends, is_found)),
        data,
        offsets[: rows + 1],
        marks,
        np.array(wanted, dtype=np.int64),
    )
    nulls = null_mask(text)
    found = {}
    for place, index in enumerate(wanted):
        parts = np.empty(int(ends[place, -1]) + 8, dtype=np.uint8)
        copy_parts_into(parts, starts[place], ends[place], data)
        valid = is_found[place] != 0 if nulls is None else (is_found[place] != 0) & ~nulls
        bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = (pa.py_buffer(ends[place]), pa.py_buffer(parts))
        found[index] = pa.StringArray.from_buffers(rows, *buffers, bitmap)
    return [found[index] if index >= 0 else pa.nulls(rows, pa.string()) for index in indexes]
