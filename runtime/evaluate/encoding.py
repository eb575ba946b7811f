"""Texts as bytes of a charset and back, for whole columns at a time; malformed bytes become U+FFFD, as in Java."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.charsets import codec_of
from sqlstream.duckdb_texts import UNHEX
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import (
    Builder,
    Kernel,
    Values,
    as_array,
    is_literal,
    literal_of,
    null_mask,
    plain,
    rows_of,
)
from sqlstream.runtime.evaluate.string import in_duckdb

_BIG_ENDIAN, _LITTLE_ENDIAN = b"\xfe\xff", b"\xff\xfe"


def _by_charset(make: Callable[[str], Callable[[pa.Array], pa.Array]]) -> Builder:
    """A builder of (value, charset)."""

    def made(charset: str) -> Kernel:
        convert = make(codec_of(charset))
        return lambda value, *_: convert(as_array(value, rows_of(value)))

    def build(call: Call, context: EvaluationContext) -> Kernel:
        if is_literal(call, 1):
            return made(literal_of(call, 1))
        return by_parameter(made, to_arrow_type(call.type))

    return build


def _bytes_of(column: pa.Array) -> tuple[Values, Values]:
    """The bytes of all rows without those of NULLs, and where each row ends in them: uint8[m], int64[n + 1]."""
    data = pc.fill_null(pc.cast(column, pa.binary()), b"")
    whole = pa.concat_arrays([data])
    offsets = np.frombuffer(whole.buffers()[1], np.int32)[whole.offset : whole.offset + len(whole) + 1]
    buffer = whole.buffers()[2]
    every = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    ends = offsets.astype(np.int64)
    return every[ends[0] : ends[-1]], ends - ends[0]


def _column(target: pa.DataType, ends: Values, data: bytes, nulls: Values | None) -> pa.Array:
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(target, len(ends) - 1, buffers)


def _ends_by(sizes: Values, ends: Values) -> Values:
    """Where rows end when each of their bytes has become as many bytes as `sizes` says."""
    return np.concatenate(([0], np.cumsum(sizes)))[ends]


def _encoder(codec: str) -> Callable[[pa.Array], pa.Array]:
    if codec == "utf-8":
        return lambda text: pc.cast(text, pa.binary())
    if codec == "utf-16":
        return _encode_with_mark

    def encode(text: pa.Array) -> pa.Array:
        data, ends = _bytes_of(text)
        is_first = (data & 0xC0) != 0x80
        # A character beyond U+FFFF, which begins with 0xF0 or more, is two units of UTF-16.
        sizes = np.where(data >= 0xF0, 4, 2) * is_first if codec.startswith("utf-16") else is_first
        written = data.tobytes().decode().encode(codec, "replace")
        return _column(pa.binary(), _ends_by(sizes, ends), written, null_mask(text))

    return encode


def _encode_with_mark(text: pa.Array) -> pa.Array:
    """Big endian, after its mark; without any character there is none."""
    encoded = _encoder("utf-16-be")(text)
    mark = pc.if_else(pc.equal(text, ""), pa.scalar(b""), pa.scalar(_BIG_ENDIAN))
    return pc.binary_join_element_wise(mark, encoded, pa.scalar(b""))


def _decoder(codec: str) -> Callable[[pa.Array], pa.Array]:
    if codec == "utf-8":
        return valid_text
    if codec == "utf-16":
        return _decode_by_mark
    if codec.startswith("utf-16"):
        return lambda data: _decode_utf16(data, codec)

    def decode(data: pa.Array) -> pa.Array:
        values, ends = _bytes_of(data)
        is_high = values >= 0x80
        # U+FFFD takes three bytes of UTF-8, the upper half of ISO 8859-1 two.
        sizes = 1 + is_high * (2 if codec == "ascii" else 1)
        written = values.tobytes().decode(codec, "replace").encode()
        return _column(pa.string(), _ends_by(sizes, ends), written, null_mask(data))

    return decode


def _decode_utf16(data: pa.Array, codec: str) -> pa.Array:
    values, ends = _bytes_of(data)
    lengths = np.diff(ends)
    units = values[: len(values) // 2 * 2].view(">u2" if codec.endswith("be") else "<u2")
    is_high, is_low = (units & 0xFC00) == 0xD800, (units & 0xFC00) == 0xDC00
    is_paired = len(units) == 0 or (
        np.array_equal(is_high[:-1], is_low[1:]) and not is_low[0] and not is_high[-1]
    )
    if (lengths % 2).any() or not is_paired or is_low[ends[:-1][lengths > 0] // 2].any():
        return _decode_each(data, codec)
    sizes = np.where(is_high | is_low, 2, np.where(units >= 0x800, 3, np.where(units >= 0x80, 2, 1)))
    written = values.tobytes().decode(codec).encode()
    return _column(pa.string(), _ends_by(sizes, ends // 2), written, null_mask(data))


def _decode_each(data: pa.Array, codec: str) -> pa.Array:
    """Value by value, for columns with malformed values: each distinct one is decoded once."""
    encoded = data.dictionary_encode()
    texts = [value.decode(codec, "replace") for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _decode_by_mark(data: pa.Array) -> pa.Array:
    """Big endian, unless the mark of little endian comes first; marks are no text."""
    mark = pc.binary_slice(data, 0, 2)
    is_little = pc.equal(mark, pa.scalar(_LITTLE_ENDIAN))
    has_mark = pc.or_(is_little, pc.equal(mark, pa.scalar(_BIG_ENDIAN)))
    # Without an end Arrow fails for values that are shorter than the cut.
    longest = pc.max(pc.binary_length(data)).as_py() or 0
    rest = pc.if_else(has_mark, pc.binary_slice(data, 2, max(longest, 2)), data)
    nothing = pa.scalar(None, pa.binary())
    little = _decode_utf16(pc.if_else(is_little, rest, nothing), "utf-16-le")
    return pc.coalesce(little, _decode_utf16(pc.if_else(is_little, nothing, rest), "utf-16-be"))


def valid_text(data: pa.Array) -> pa.Array:
    """Bytes of UTF-8 as text; each malformed sequence becomes U+FFFD."""
    try:
        return pc.cast(data, pa.string())
    except pa.ArrowInvalid:
        return _decode_each(data, "utf-8")


def _is_valid(data: Any) -> pa.Array:
    column = as_array(data, rows_of(data))
    try:
        pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return evaluate_in_duckdb("CASE WHEN a0 IS NOT NULL THEN try(decode(a0)) IS NOT NULL END", column)
    return pc.if_else(pc.is_valid(column), True, pa.scalar(None, pa.bool_()))


BUILDERS: dict[str, Builder] = {
    "ENCODE": _by_charset(_encoder),
    "DECODE": _by_charset(_decoder),
    "UNHEX": in_duckdb(UNHEX),
    "IS_VALID_UTF8": plain(_is_valid),
    "MAKE_VALID_UTF8": plain(lambda data: valid_text(as_array(data, rows_of(data)))),
}
