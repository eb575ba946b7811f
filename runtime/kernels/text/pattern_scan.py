"""Matches simple patterns by looking for their literal: a character or the beginning, the literal, a run of a class, an end."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.kernels.intrinsics import byte_places, copy_bytes, load_8, lowest_bit
from sqlstream.runtime.native.kernel import always_inlined, kernel

_WIDTH = 64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
MAY_BEGIN, HAS_BEFORE, RUN_MIN, AFTER, WANTS_RUN = range(5)
"""The entries of `rules`: whether the literal may begin the text; whether a character of the class `before` may precede it; the
characters that the run has at least, -1 without a run; the byte that follows, -1 for any and -2 for the end of the text; whether
the run alone is the result."""


def extract(
    texts: pa.Array, literal: bytes, before: np.ndarray, run: np.ndarray, rules: np.ndarray
) -> pa.Array:
    """The first match in each text, or its run; NULL without a match. `before` and `run` are classes: boolean[256] by byte."""
    offsets, address = view_offsets(texts)
    data = texts.buffers()[2]
    size = int(offsets[-1] - offsets[0])
    valid = valid_mask(texts)
    matched = np.ones(len(texts), np.uint8) if valid is None else valid.astype(np.uint8)
    limit = 0 if data is None else data.address + data.size
    out = pa.allocate_buffer(size)
    ends = pa.allocate_buffer(4 * (len(texts) + 1))
    places = view_buffer(ends, np.int32, 0, len(texts) + 1)
    wanted = np.frombuffer(literal, np.uint8).copy()
    written = view_buffer(out, np.uint8, 0, size)
    used = _extract(offsets, address, limit, wanted, before, run, rules, matched, places, written)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [validity_buffer(matched), ends, out.slice(0, used)]
    )


@always_inlined
def _places(at, count, limit, literal):  # type: ignore[no-untyped-def]
    """Bit i: whether the literal's first and last byte are in place when it begins at byte i; `count` places, at most 64."""
    last = len(literal) - 1
    if at + last + _WIDTH <= limit:
        bits = byte_places(at, literal[0]) & byte_places(at + last, literal[last])
        return bits if count >= _WIDTH else bits & ((_ONE << np.uint64(count)) - _ONE)
    bits = _ZERO
    for i in range(min(count, _WIDTH)):
        if np.uint8(load_8(at + i)) == literal[0] and np.uint8(load_8(at + i + last)) == literal[last]:
            bits |= _ONE << np.uint64(i)
    return bits


@always_inlined
def _is_literal(at, literal):  # type: ignore[no-untyped-def]
    i = 1
    while i < len(literal) - 1 and np.uint8(load_8(at + i)) == literal[i]:
        i += 1
    return i >= len(literal) - 1


@kernel(
    "int64(int32[::1], int64, int64, uint8[::1], boolean[::1], boolean[::1], int64[::1], uint8[::1], int32[::1], uint8[::1])"
)
def _extract(offsets, address, limit, literal, before, run, rules, matched, places, out):  # type: ignore[no-untyped-def]
    """Rows whose `matched` is 0 are NULL; it becomes 0 for rows without a match. Returns the bytes of all results."""
    target = out.ctypes.data
    begun = target
    places[0] = 0
    length = len(literal)
    for row in range(len(matched)):
        begin = address + offsets[row]
        end = address + offsets[row + 1]
        at = begin
        is_open = matched[row] != 0
        matched[row] = 0
        while is_open and at + length <= end:
            bits = _places(at, end - length - at + 1, limit, literal)
            while is_open and bits != _ZERO:
                place = at + lowest_bit(bits)
                bits &= bits - _ONE
                if not _is_literal(place, literal):
                    continue
                start = place
                if place > begin:
                    if rules[HAS_BEFORE] == 0 or not before[np.int64(load_8(place - 1))]:
                        continue
                    start = place - 1 if rules[HAS_BEFORE] == 1 else place
                elif rules[MAY_BEGIN] == 0:
                    continue
                first = place + length
                stop = first
                if rules[RUN_MIN] >= 0:
                    while stop < end and run[np.int64(load_8(stop))]:
                        stop += 1
                    if stop - first < rules[RUN_MIN]:
                        continue
                after = stop
                if rules[AFTER] >= 0:
                    if stop == end or np.int64(load_8(stop)) != rules[AFTER]:
                        continue
                    after = stop + 1
                elif rules[AFTER] == -2 and stop != end:
                    continue
                source = first if rules[WANTS_RUN] != 0 else start
                bytes_found = (stop if rules[WANTS_RUN] != 0 else after) - source
                if bytes_found > 0:
                    copy_bytes(target, source, bytes_found)
                target += bytes_found
                matched[row] = 1
                is_open = False
            at += _WIDTH
        places[row + 1] = target - begun
    return target - begun
