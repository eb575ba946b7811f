"""Texts as lines, each with a line end behind it and none within."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import load_8, load_64, store_8, store_64
from sqlstream.runtime.native.kernel import inlined, kernel

_NEWLINE, _SPACE = 10, 32
_NEWLINES, _ONES, _HIGH_BITS = 0x0A0A0A0A0A0A0A0A, 0x0101010101010101, 0x8080808080808080


@inlined
def _newline_bits(word):  # type: ignore[no-untyped-def]
    """Not 0 if one of the eight bytes is a newline."""
    other = word ^ np.uint64(_NEWLINES)
    return (other - np.uint64(_ONES)) & ~other & np.uint64(_HIGH_BITS)


@kernel("void(int32[::1], int64, int64)")
def write_lines(offsets, source, target):  # type: ignore[no-untyped-def]
    """Write each text and a newline behind it to the address `target`; newlines within a text become spaces."""
    for row in range(len(offsets) - 1):
        start, length = source + offsets[row], np.int64(offsets[row + 1] - offsets[row])
        found = np.uint64(0)
        at = np.int64(0)
        while at + 8 <= length:
            word = load_64(start + at)
            found |= _newline_bits(word)
            store_64(target + at, word)
            at += 8
        while at < length:
            byte = load_8(start + at)
            found |= np.uint64(byte == np.uint64(_NEWLINE))
            store_8(target + at, byte)
            at += 1
        if found != 0:
            for place in range(target, target + length):
                if load_8(place) == np.uint64(_NEWLINE):
                    store_8(place, np.uint64(_SPACE))
        target += length
        store_8(target, np.uint64(_NEWLINE))
        target += 1
