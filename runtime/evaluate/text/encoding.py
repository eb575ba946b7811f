"""Texts as bytes of a charset and back, for whole columns at a time; malformed bytes become U+FFFD, as in Java."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.functions.encoding import SHA2_BITS, SHA2_HINT
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
from sqlstream.runtime.evaluate.text.string import in_duckdb
from sqlstream.runtime.kernels.buffers import view_buffer, view_offsets
from sqlstream.text.charsets import codec_of

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


@plain
def is_valid_utf8(data: Any) -> pa.Array:
    column = as_array(data, rows_of(data))
    try:
        pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return evaluate_in_duckdb("CASE WHEN a0 IS NOT NULL THEN try(decode(a0)) IS NOT NULL END", column)
    return pc.if_else(pc.is_valid(column), True, pa.scalar(None, pa.bool_()))


# Hash functions.


@functools.cache
def _words(bits: int) -> tuple[Any, Any]:
    """The words at the start, and the constants."""
    from sqlstream.runtime.kernels.text.sha2 import root_fractions

    if bits in (384, 512):
        return root_fractions(8 if bits == 384 else 0, 8, 64), root_fractions(0, 80, 64, is_cube=True)
    # Those of SHA-224 are the lower halves of SHA-384's.
    first = root_fractions(0, 8, 32) if bits == 256 else root_fractions(8, 8, 64) & np.uint64(0xFFFFFFFF)
    return first, root_fractions(0, 64, 32, is_cube=True)


def sha2(text: Any, bits: int) -> pa.Array:
    """The digests as hexadecimal digits."""
    from sqlstream.runtime.kernels.text.sha2 import sha2_32_into, sha2_64_into

    column = as_array(text, rows_of(text))
    rows, size = len(column), bits // 8
    offsets, _ = view_offsets(column)
    data = view_buffer(column.buffers()[2], np.uint8, 0, int(offsets[rows]))
    first, constants = _words(bits)
    digests = np.empty(rows * size, dtype=np.uint8)
    hash_into = sha2_64_into if bits > 256 else sha2_32_into
    hash_into(
        digests, size, data, offsets[: rows + 1], first, constants, np.empty(len(constants) + 8, np.uint64)
    )
    digits = np.frombuffer(digests.tobytes().hex().encode(), dtype=np.uint8)
    ends = np.arange(0, 2 * size * rows + 1, 2 * size, dtype=np.int32) if rows else np.zeros(1, np.int32)
    nulls = null_mask(column)
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(digits), valid)


def _of_bits(bits: int) -> Builder:
    return plain(lambda text: sha2(text, bits))


def sha2_of_bits(call: Call, context: EvaluationContext) -> Kernel:
    """SHA2(string, bits)."""

    def made(bits: int) -> Kernel:
        if bits not in SHA2_BITS:
            raise UserError("SS5102", f"SHA2 has no hash of {bits} bits", hint=SHA2_HINT)
        return lambda text, *_: sha2(text, bits)

    return made(literal_of(call, 1)) if is_literal(call, 1) else by_parameter(made, pa.string())


# The builders of the functions.

ENCODE = _by_charset(_encoder)
DECODE = _by_charset(_decoder)
UNHEX = in_duckdb(
    "CASE WHEN regexp_full_match(a0, '[0-9A-Fa-f]*') THEN "
    "CASE WHEN length(a0) % 2 = 0 THEN from_hex(a0) ELSE from_hex('00' || substr(a0, 2)) END END"
)
MAKE_VALID_UTF8 = plain(lambda data: valid_text(as_array(data, rows_of(data))))
MD5 = in_duckdb("md5(a0)")
SHA1 = in_duckdb("sha1(a0)")
SHA224 = _of_bits(224)
SHA256 = in_duckdb("sha256(a0)")
SHA384 = _of_bits(384)
SHA512 = _of_bits(512)
