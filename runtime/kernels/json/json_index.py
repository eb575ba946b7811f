"""Where lines of JSON end, and which of their bytes are special: one pass over the text, before its objects are read.

Where a value begins depends on where the one before it ends. Looked up in a bitmap this takes a few cycles; searched for in the
text it takes three times as many, and each search waits for the one before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import byte_places, lowest_bit, store_32, store_64
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, instruction, kernel

_WIDTH = 64
_BACKSLASH, _QUOTE, _NEWLINE = 92, 34, np.uint8(10)
_ZERO, _ONE, _LAST = np.uint64(0), np.uint64(1), np.uint64(1 << 63)


def _load_vector(ir: Any, builder: Any, address: Any) -> Any:
    vector = ir.VectorType(ir.IntType(8), _WIDTH)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=1, typ=vector)


def _splat(ir: Any, byte: int) -> Any:
    vector = ir.VectorType(ir.IntType(8), _WIDTH)
    return ir.Constant(vector, [byte] * _WIDTH)


@instruction("uint64(int64)")
def _specials_at(ir: Any, builder: Any, address: Any) -> Any:
    """A bit for each of 64 bytes, the lowest for the first: whether it is a quote, a backslash or a control character."""
    vector = _load_vector(ir, builder, address)
    edge = builder.or_(
        builder.icmp_unsigned("==", vector, _splat(ir, _QUOTE)),
        builder.icmp_unsigned("==", vector, _splat(ir, _BACKSLASH)),
    )
    special = builder.or_(edge, builder.icmp_unsigned("<", vector, _splat(ir, 32)))
    return builder.bitcast(special, ir.IntType(_WIDTH))


@instruction("uint64(int64)")
def _foreign_at(ir: Any, builder: Any, address: Any) -> Any:
    """As `_specials_at`: whether it is a part of a character beyond ASCII."""
    vector = _load_vector(ir, builder, address)
    return builder.bitcast(builder.icmp_signed("<", vector, _splat(ir, 0)), ir.IntType(_WIDTH))


@always_inlined
def _put_ends(newlines, place, ends, count):  # type: ignore[no-untyped-def]
    """Store where the newlines of 64 bytes stand. (Most have one or none, and to store one always costs less than to guess.)"""
    store_32(ends + 4 * count, np.uint64(place + lowest_bit(newlines | _LAST)))
    count += newlines != _ZERO
    newlines &= newlines - _ONE
    while newlines != _ZERO:
        store_32(ends + 4 * count, np.uint64(place + lowest_bit(newlines)))
        count += 1
        newlines &= newlines - _ONE
    return count


@kernel(f"UniTuple(int64, 2)({READ_BYTES}, uint64[::1], int32[::1], uint8[::1])")
def index_lines(data, specials, ends, scratch):  # type: ignore[no-untyped-def]
    """Fill the bitmap of special bytes and the places of newlines; returns (how many newlines, 1 where all bytes are ASCII).

    Sizes: `specials` `len(data) // 64 + 2`, bytes behind the text are special; `ends` `len(data) + 1`; `scratch` 64 bytes of the
    kernel's own.
    """
    base, words, places = data.ctypes.data, specials.ctypes.data, ends.ctypes.data
    count, foreign, at = 0, _ZERO, 0
    whole = len(data) & ~63
    while at < whole:
        address = base + at
        foreign |= _foreign_at(address)
        special, newlines = _specials_at(address), byte_places(address, _NEWLINE)
        store_64(words + (at >> 3), special)
        count = _put_ends(newlines, at, places, count)
        at += 64
    scratch[:] = 0
    for place in range(whole, len(data)):
        scratch[place - whole] = data[place]
    address = scratch.ctypes.data
    foreign |= _foreign_at(address)
    store_64(words + (at >> 3), _specials_at(address))
    store_64(words + (at >> 3) + 8, ~_ZERO)
    count = _put_ends(byte_places(address, _NEWLINE), at, places, count)
    return count, np.int64(foreign == _ZERO)
