"""INITCAP, and UPPER and LOWER by Unicode's full mapping, as in Java: a letter may become several, and its place may decide.

Arrow maps letter by letter. The rows that hold a letter for which this gives something else are mapped by Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import InternalError
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Datum,
    Kernel,
    as_array,
    as_arrays,
    is_literal,
    literal_of,
    plain,
    rows_of,
)
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.text.charsets import serializable_name

_CODES = np.arange(256, dtype=np.uint8)
_CAPITALS = np.where((ord("a") <= _CODES) & (ord("z") >= _CODES), _CODES - 32, _CODES).astype(np.uint8)
_SMALL = np.where((ord("A") <= _CODES) & (ord("Z") >= _CODES), _CODES + 32, _CODES).astype(np.uint8)
_IS_OF_WORD = np.array([chr(c).isalnum() and c < 0x80 for c in range(256)])
"""By byte of UTF-8: those beyond ASCII stay as they are."""

_BASIC_PLANE = 0x10000
"""All letters that become several are below this code."""


@plain
def upper(text: Datum) -> pa.Array:
    return _mapped(text, pc.ascii_upper, pc.utf8_upper, str.upper)


@plain
def lower(text: Datum) -> pa.Array:
    return _mapped(text, pc.ascii_lower, pc.utf8_lower, str.lower)


def is_ascii(text: pa.StringArray) -> bool:
    """Whether all bytes of a column are ASCII, those under its NULLs too."""
    offsets, _ = view_offsets(text)
    data = view_buffer(text.buffers()[2], np.uint8, int(offsets[0]), int(offsets[-1] - offsets[0]))
    return int(data.max(initial=0)) < 0x80


def _mapped(
    text: Datum,
    of_ascii: Callable[[pa.Array], pa.Array],
    by_letter: Callable[[pa.Array], pa.Array],
    in_full: Callable[[str], str],
) -> pa.Array:
    text = as_array(text, rows_of(text))
    if is_ascii(text):
        return of_ascii(text)
    result = by_letter(text)
    rows = _rows_with(_special_letters(in_full), text)
    if not len(rows):
        return result
    values = text.take(pa.array(rows)).to_pylist()
    replaced = [None if value is None else in_full(value) for value in values]
    is_replaced = np.zeros(len(text), dtype=bool)
    is_replaced[rows] = True
    return pc.replace_with_mask(result, is_replaced, pa.array(replaced, result.type))


@plain
def initcap(text: Datum) -> pa.Array:
    """The first letter of each word as a capital, the others small; a word is of ASCII letters and digits, and the bytes of
    other letters are none of it."""
    text = as_array(text, rows_of(text))
    if pa.types.is_null(text.type):
        return text
    _, offsets_buffer, data_buffer = text.buffers()
    if data_buffer is None or not len(text):
        return text
    offsets = view_buffer(offsets_buffer, np.int32, text.offset, len(text) + 1)
    data = view_buffer(data_buffer, np.uint8, int(offsets[0]), int(offsets[-1] - offsets[0]))
    starts = offsets[:-1] - offsets[0]
    is_first = np.ones(len(data) + 1, dtype=bool)
    np.logical_not(_IS_OF_WORD[data], out=is_first[1:])
    is_first[starts] = True
    written = np.where(is_first[:-1], _CAPITALS[data], _SMALL[data])
    result = pa.StringArray.from_buffers(
        len(text), pa.py_buffer((offsets - offsets[0]).astype(np.int32)), pa.py_buffer(written)
    )
    return (
        result if not text.null_count else pc.if_else(pc.is_valid(text), result, pa.scalar(None, pa.string()))
    )


@functools.cache
def _special_letters(in_full: Callable[[str], str]) -> np.ndarray[Any, Any]:
    """bool by code: letters that become several, and Σ, whose small letter depends on the letters around it."""
    letters = np.zeros(_BASIC_PLANE, dtype=bool)
    for code in range(0x80, _BASIC_PLANE):
        letters[code] = len(in_full(chr(code))) > 1
    letters[ord("Σ")] = in_full is str.lower
    return letters


def _rows_with(letters: np.ndarray[Any, Any], text: pa.StringArray) -> np.ndarray[Any, Any]:
    """The rows, ascending, in whose UTF-8 one of the letters is found; a row that is NULL may be among them."""
    _, offsets_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[text.offset : text.offset + len(text) + 1]
    data = np.frombuffer(data_buffer, dtype=np.uint8)[offsets[0] : offsets[-1]]
    # A letter beyond ASCII begins with a byte from 0xC2; the first byte says of how many bytes the letter is.
    places = np.flatnonzero(data >= 0xC2)
    first, second, third = (data.take(places + i, mode="clip").astype(np.int32) for i in range(3))
    of_two = (first & 0x1F) << 6 | second & 0x3F
    of_three = (first & 0x0F) << 12 | (second & 0x3F) << 6 | third & 0x3F
    is_found = letters[np.where(first < 0xE0, of_two, of_three)] & (first < 0xF0)
    return np.unique(np.searchsorted(offsets - offsets[0], places[is_found], side="right") - 1)


# Tests of texts, ELT and TYPEOF.


def _matching(regex: str) -> Builder:
    """Whether the whole text matches; NULL does not."""
    return plain(lambda text: pc.fill_null(pc.match_substring_regex(text, rf"\A(?:{regex})\z"), False))


def elt(call: Call, context: EvaluationContext) -> Kernel:
    """ELT: the value of this number, from 1; NULL for another number."""
    target, count = to_arrow_type(call.type), len(call.args) - 1

    def kernel(*args: Datum) -> pa.Array:
        index, *values = as_arrays(*args)
        is_place = pc.and_(pc.greater_equal(index, 1), pc.less_equal(index, count))
        place = pc.if_else(is_place, pc.subtract(pc.cast(index, pa.int64()), 1), pa.scalar(None, pa.int64()))
        return pc.choose(place, *(value.cast(target) for value in values))

    return kernel


def typeof(call: Call, context: EvaluationContext) -> Kernel:
    name: str | None = str(call.args[0].type)
    if len(call.args) == 2 and (not is_literal(call, 1) or literal_of(call, 1)):
        literal_of(call, 1)
        name = serializable_name(call.args[0].type) if is_literal(call, 1) else None
    return lambda value, *_: pa.array([name] * len(value), pa.string())


def current_database(call: Call, context: EvaluationContext) -> Kernel:
    raise InternalError("CURRENT_DATABASE is bound as a constant")


# Whether texts consist of letters, of digits, or of a number, as Java reads them.
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
IS_ALPHA = _matching(r"\p{L}+")
IS_DIGIT = _matching(r"\p{Nd}+")
IS_DECIMAL = _matching(rf"[\x00-\x20]*[+-]?(?:NaN|Infinity|{_NUMBER})[\x00-\x20]*")
