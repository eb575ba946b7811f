"""Functions of character strings: Arrow kernels for constant parameters, DuckDB where they are columns."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.checks import word_among
from sqlstream.functions.string import INSTR_HINT, TRIM_SIDES
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    as_array,
    as_arrays,
    is_literal,
    literal_of,
    null_mask,
    numbers,
    plain,
    rows_of,
    with_int_parameters,
)
from sqlstream.runtime.evaluate.text.split import split_index
from sqlstream.types import TypeRoot


def in_duckdb(expression: str) -> Builder:
    return plain(lambda *args: evaluate_in_duckdb(expression, *args))


@plain
def concat(*args: Datum) -> pa.Array:
    arrays = [as_array(a, rows_of(*args)) if i == 0 else a for i, a in enumerate(args)]
    empty = pa.scalar(b"" if pa.types.is_binary(arrays[0].type) else "", arrays[0].type)
    return pc.binary_join_element_wise(*arrays, empty)


@plain
def concat_with_separator(separator: Datum, *parts: Datum) -> pa.Array:
    """NULL parts are left out; without any part left the text is empty."""
    rows = rows_of(separator, *parts)
    if isinstance(separator, pa.Scalar) and not separator.is_valid:
        return pa.nulls(rows, pa.string())
    first = as_array(parts[0], rows)
    if first.null_count:
        # Arrow drops rows without any part, so they are handled before.
        is_empty = functools.reduce(pc.and_, (pc.is_null(p) for p in parts))
        first = pc.if_else(is_empty, "", first)
    return pc.binary_join_element_wise(first, *parts[1:], separator, null_handling="skip")


_TRIM = {
    "BOTH": (pc.utf8_trim, "trim(a0, a1)"),
    "LEADING": (pc.utf8_ltrim, "ltrim(a0, a1)"),
    "TRAILING": (pc.utf8_rtrim, "rtrim(a0, a1)"),
}
_TRIM_MODE = {"BTRIM": "BOTH", "LTRIM": "LEADING", "RTRIM": "TRAILING"}


def trim_from(call: Call, context: EvaluationContext) -> Kernel:
    """TRIM(mode, chars, text): removes all characters of `chars`, in any order."""
    function, in_columns = _TRIM[word_among(call, literal_of(call, 0), TRIM_SIDES, "of")]
    if is_literal(call, 1):
        chars = literal_of(call, 1)
        return lambda mode, _, text: function(text, characters=chars) if chars else text
    return lambda mode, chars, text: evaluate_in_duckdb(in_columns, text, chars)


def trim(call: Call, context: EvaluationContext) -> Kernel:
    function, in_columns = _TRIM[_TRIM_MODE[call.function]]
    if is_literal(call, 1):
        chars = literal_of(call, 1) if len(call.args) == 2 else " "
        return lambda text, _=None: function(text, characters=chars) if chars else text
    return lambda text, chars: evaluate_in_duckdb(in_columns, text, chars)


_SUBSTRING = (
    "CASE WHEN {length} < 0 THEN NULL WHEN a1 > 0 THEN substr(a0, a1, {length}) "
    "WHEN a1 = 0 THEN substr(a0, 1, {length}) "
    "WHEN length(a0) + a1 < 0 THEN '' ELSE substr(a0, length(a0) + a1 + 1, {length}) END"
)


def _substring(call: Call, context: EvaluationContext) -> Kernel:
    """Positions from 1; below 0 from the end, and '' when before the start. A negative length gives NULL."""
    if not is_literal(call, 1, 2):
        expression = _SUBSTRING.format(length="a2" if len(call.args) == 3 else "length(a0)")
        return lambda *args: evaluate_in_duckdb(expression, *args)
    start = literal_of(call, 1)
    length = literal_of(call, 2) if len(call.args) == 3 else None
    return lambda text, *_: _slice(text, start, length)


def _slice(text: pa.Array, start: int, length: int | None) -> pa.Array:
    if length is not None and length < 0:
        return pa.nulls(len(text), pa.string())
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(text, first, None if length is None else first + length)
    stop = None if length is None or start + length >= 0 else start + length
    is_short = pc.less(pc.utf8_length(text), -start)
    return pc.if_else(is_short, "", pc.utf8_slice_codeunits(text, start, stop))


def _left(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1):
        return lambda *args: evaluate_in_duckdb(_LEFT, *args)
    length = max(literal_of(call, 1), 0)
    return lambda text, _: pc.utf8_slice_codeunits(text, 0, length)


def _right(call: Call, context: EvaluationContext) -> Kernel:
    if not is_literal(call, 1):
        return lambda *args: evaluate_in_duckdb(_RIGHT, *args)
    length = literal_of(call, 1)
    return lambda text, _: pc.utf8_slice_codeunits(text, -length) if length > 0 else _left_of_none(text)


# greatest() ignores NULLs.
_LEFT = "CASE WHEN a1 IS NULL THEN NULL ELSE substr(a0, 1, greatest(a1, 0)) END"
_RIGHT = "CASE WHEN a1 IS NULL THEN NULL ELSE right(a0, greatest(a1, 0)) END"


def _left_of_none(text: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(text, 0, 0)


_REPLACE = (
    r"CASE WHEN a1 = '' THEN regexp_replace(a0, '', replace(a2, '\', '\\'), 'g') ELSE replace(a0, a1, a2) END"
)


def replace(call: Call, context: EvaluationContext) -> Kernel:
    """An empty text is found around each character, as in Java."""
    if not is_literal(call, 1, 2):
        return lambda *args: evaluate_in_duckdb(_REPLACE, *args)
    search, replacement = literal_of(call, 1), literal_of(call, 2)
    if not search:
        escaped = replacement.replace("\\", "\\\\")
        return lambda text, *_: pc.replace_substring_regex(text, "", escaped)
    if len(replacement.encode()) > len(search.encode()):
        return lambda text, *_: pc.replace_substring(text, search, replacement)
    from sqlstream.runtime.kernels.text.replace import replace_text

    return lambda text, *_: replace_text(text, search.encode(), replacement.encode())


@plain
def char_length(text: Datum) -> Datum:
    from sqlstream.runtime.kernels.text.text_scan import char_lengths

    return char_lengths(text) if isinstance(text, pa.StringArray) else pc.utf8_length(text)


def _affix(function: Callable[..., pa.Array], in_duckdb_name: str) -> Builder:
    """STARTSWITH and ENDSWITH."""

    def build(call: Call, context: EvaluationContext) -> Kernel:
        is_text = call.args[1].type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
        if not is_text:
            # DuckDB compares only text, so bytes are compared by their digits.
            return lambda *args: evaluate_in_duckdb(f"{in_duckdb_name}(hex(a0), hex(a1))", *args)
        if not is_literal(call, 1):
            return lambda *args: evaluate_in_duckdb(f"{in_duckdb_name}(a0, a1)", *args)
        affix = literal_of(call, 1)
        return lambda text, _: function(text, affix)

    return build


def _repeat(text: Datum, times: Datum) -> pa.Array:
    counts = pc.if_else(pc.greater(times, 0), times, pa.scalar(0, times.type))
    return pc.binary_repeat(as_array(text, rows_of(text, times)), counts)


def uuid(call: Call, context: EvaluationContext) -> Kernel:
    def kernel(rows: int) -> pa.Array:
        raw = context.random.integers(0, 256, size=(rows, 16), dtype=np.uint8)
        raw[:, 6] = raw[:, 6] & 0x0F | 0x40
        raw[:, 8] = raw[:, 8] & 0x3F | 0x80
        digits = np.frombuffer(raw.tobytes().hex().encode(), dtype=np.uint8).reshape(rows, 32)
        text = np.full((rows, 36), ord("-"), dtype=np.uint8)
        for start, stop, at in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
            text[:, at : at + stop - start] = digits[:, start:stop]
        offsets = np.arange(0, 36 * (rows + 1), 36, dtype=np.int32)
        return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))

    return kernel


_OVERLAY = (
    "CASE WHEN a2 <= 0 OR a2 > length(a0) THEN a0 ELSE substr(a0, 1, a2 - 1) || a1 || "
    "CASE WHEN a2 + {length} <= length(a0) AND {length} > 0 THEN substr(a0, a2 + {length}) ELSE '' END END"
)
_LOCATE_FROM = (
    "CASE WHEN a2 < 1 OR a2 > length(a1) THEN 0 WHEN instr(substr(a1, a2), a0) = 0 THEN 0 "
    "ELSE instr(substr(a1, a2), a0) + a2 - 1 END"
)


def _overlay(*args: Datum) -> pa.Array:
    return evaluate_in_duckdb(_OVERLAY.format(length="a3" if len(args) == 4 else "length(a1)"), *args)


def _locate(*args: Datum) -> pa.Array:
    return evaluate_in_duckdb(_LOCATE_FROM if len(args) == 3 else "instr(a1, a0)", *args)


def _instr(*args: Datum) -> pa.Array:
    """(text, search[, start[, appearance]]): a negative start counts from the end, and the search goes backwards; 0 for none."""
    if len(args) == 2:
        return evaluate_in_duckdb("instr(a0, a1)", *args)
    text, search, start, *rest = as_arrays(*args)
    wanted = numbers(rest[0], np.int64) if rest else np.ones(len(text), np.int64)
    nulls = null_mask(text, search, start, *rest)
    is_null = np.zeros(len(text), bool) if nulls is None else nulls
    if (wanted[~is_null] < 1).any():
        raise UserError("SS5102", "INSTR counts appearances from 1", hint=INSTR_HINT)
    starts = numbers(start, np.int64)
    backward = pa.array(starts < 0)
    text, search = (pc.if_else(backward, pc.utf8_reverse(t), t) for t in (text, search))
    found = np.where(is_null | (starts == 0), 0, np.abs(starts) - 1)
    open_rows = np.flatnonzero(~is_null & (starts != 0))
    is_empty = pc.fill_null(pc.equal(search, ""), False).to_numpy(zero_copy_only=False)
    appearance = 0
    # One pass for each appearance over the rows that have had all before it.
    while len(open_rows):
        appearance += 1
        chosen = pa.array(open_rows)
        given = (text.take(chosen), search.take(chosen), pa.array(found[open_rows] + 1))
        found[open_rows] = numbers(evaluate_in_duckdb(_INSTR_FROM, *given), np.int64)
        is_open = (found[open_rows] > 0) & (wanted[open_rows] > appearance) & ~is_empty[open_rows]
        open_rows = open_rows[is_open]
    mirrored = numbers(pc.utf8_length(text), np.int64) + 2 - found - numbers(pc.utf8_length(search), np.int64)
    places = np.where((starts < 0) & (found > 0), mirrored, found)
    return pa.array(places.astype(np.int32), mask=is_null)


_INSTR_FROM = "CASE WHEN a1 = '' THEN 1 WHEN instr(substr(a0, a2), a1) = 0 THEN 0 ELSE instr(substr(a0, a2), a1) + a2 - 1 END"
"""The empty text is found at the beginning, wherever the search starts."""
_BASE64 = r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\z"


@plain
def from_base64(text: Datum) -> pa.Array:
    """UserError SS5102 for text that is not base64, or does not decode to UTF-8; the padding may be missing."""
    text = as_array(text, rows_of(text))
    is_read = pc.fill_null(pc.match_substring_regex(text, _BASE64), True)
    if pc.all(is_read).as_py() is False:
        bad = text.filter(pc.invert(is_read))[0].as_py()
        raise UserError("SS5102", f'"{bad}" is no base64', hint="filter such values out before")
    padded = evaluate_in_duckdb(
        "from_base64(rpad(a0, CAST((length(a0) + 3) // 4 * 4 AS INTEGER), '='))", text
    )
    try:
        return pc.cast(padded, pa.string())
    except pa.ArrowInvalid as error:
        raise UserError("SS5102", "base64 stands for bytes that are not UTF-8") from error


def _pad(function: str) -> Builder:
    return in_duckdb(f"CASE WHEN a1 < 0 OR a2 = '' THEN NULL ELSE {function}(a0, a1, a2) END")


REVERSE = plain(lambda text: pc.utf8_reverse(text))
TO_BASE64 = in_duckdb("base64(encode(a0))")
SUBSTRING = with_int_parameters(_substring)
LEFT = with_int_parameters(_left)
RIGHT = with_int_parameters(_right)
OVERLAY = with_int_parameters(plain(_overlay))
# Without characters to replace the text is unchanged; without replacements they are removed.
TRANSLATE = in_duckdb("CASE WHEN a1 IS NULL THEN a0 ELSE translate(a0, a1, coalesce(a2, '')) END")
LPAD = with_int_parameters(_pad("lpad"))
RPAD = with_int_parameters(_pad("rpad"))
REPEAT = with_int_parameters(plain(_repeat))
POSITION = in_duckdb("instr(a1, a0)")
INSTR = with_int_parameters(plain(_instr))
LOCATE = with_int_parameters(plain(_locate))
SPLIT_INDEX = with_int_parameters(split_index)
STARTSWITH = _affix(pc.starts_with, "starts_with")
ENDSWITH = _affix(pc.ends_with, "ends_with")
ASCII = in_duckdb("ascii(a0)")
CHR = in_duckdb("CASE WHEN a0 < 0 THEN '' ELSE chr(CAST(a0 & 255 AS INTEGER)) END")
HEX = in_duckdb("hex(a0)")
