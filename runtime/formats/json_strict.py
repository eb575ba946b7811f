"""Checks of JSON lines that DuckDB, which is lenient, does not make."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.types import STRING_ROOTS, LogicalType, TypeRoot

_LENIENT = (
    r",[ \t\r\n]*[}\]]"
    r"|[:,\[][ \t\r\n]*-?(?i:nan|inf|infinity)[ \t\r\n]*[,}\]]"
    # A name with an escape, which may be another way to write a name that the object has.
    r'|\\(?:[^"\\]|\\.)*"[ \t\r\n]*:'
)

REASONS = {1: "a comma stands before a closing bracket", 2: "NaN and Infinity are no JSON without quotes"}


def may_be_lenient(lines: pa.Array) -> bool:
    """Whether some line may hold trailing commas, numbers that are none, or names with escapes."""
    return bool(pc.any(pc.match_substring_regex(lines, _LENIENT)).as_py())


def keep_last_members(lines: pa.Array) -> tuple[pa.Array, np.ndarray[Any, Any]]:
    """The lines without members that come again later in their object; of each line 0, or one of REASONS.

    No line is NULL. What is no JSON may be among what is left out.
    """
    from sqlstream.runtime.kernels import json_members as kernel

    offsets = np.frombuffer(lines.buffers()[1], dtype=np.int32)[lines.offset : lines.offset + len(lines) + 1]
    text = (
        np.frombuffer(lines.buffers()[2], dtype=np.uint8)[: offsets[-1]]
        if len(lines)
        else np.empty(0, np.uint8)
    )
    data = text.copy()
    longest = int(np.diff(offsets).max(initial=0))
    # Brackets are not deeper than a line is long.
    depth = min(int(((data == ord("{")) | (data == ord("["))).sum()), longest) + 1
    colons = _most_in_a_line(data == ord(":"), offsets)
    faults = np.zeros(len(lines), dtype=np.uint8)
    repeated = kernel.keep_last_members(
        data,
        offsets,
        faults,
        np.empty(depth, dtype=np.int64),
        np.empty(depth, dtype=np.int64),
        np.empty(longest + 8, dtype=np.uint8),
        np.empty((colons, kernel.MEMBER_WIDTH), dtype=np.int64),
        np.full(1 << (2 * colons + 1).bit_length(), -1, dtype=np.int64),
    )
    if not repeated:
        return lines, faults
    return pa.Array.from_buffers(
        lines.type, len(lines), [None, pa.py_buffer(offsets.copy()), pa.py_buffer(data)]
    ), faults


def _most_in_a_line(flags: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> int:
    """How many characters that are flagged the line has that has most."""
    before = np.searchsorted(np.flatnonzero(flags), offsets)
    return int(np.diff(before).max(initial=0))


def may_repeat_members(lines: pa.Array, values: pa.StructArray, types: dict[str, LogicalType]) -> bool:
    """Whether some line may hold a wanted field twice, at any depth; `values` are the texts of the fields that were found.

    Each value that was found accounts for one occurrence of its name. Texts that are objects hold names of their own.
    """
    found: Counter[str] = Counter()
    for (name, t), part in zip(types.items(), values.flatten(), strict=False):
        found[name] += len(part) - part.null_count
        if not _count_names(part, t, found):
            return True
    buffer = lines.buffers()[2]
    data = bytes(buffer) if buffer is not None else b""
    for name, count in found.items():
        key = b'"' + name.encode() + b'"'
        # More occurrences may be nulls, of which there is one per line.
        if data.count(key) > count and pc.max(pc.count_substring(lines, key)).as_py() > 1:
            return True
    return False


def _count_names(column: pa.Array, t: LogicalType, found: Counter[str]) -> bool:
    """Add the fields that were found within a column; False when its names cannot be counted."""
    match t.root:
        case TypeRoot.ROW:
            for part, f in zip(column.flatten(), t.fields, strict=True):
                found[f.name] += len(part) - part.null_count
                if not _count_names(part, f.type, found):
                    return False
            return True
        case TypeRoot.ARRAY:
            assert t.element is not None
            return _count_names(column.flatten(), t.element, found)
        case TypeRoot.MAP:
            return False
        case _ if t.root in STRING_ROOTS:
            begins = (pc.any(pc.starts_with(column, bracket)).as_py() for bracket in "{[")
            return not any(begins)
        case _:
            return True
