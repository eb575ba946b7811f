"""Replaces a text in texts by one that is not longer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.kernels.intrinsics import byte_places, load_64, lowest_bit, store_64
from sqlstream.runtime.native.kernel import always_inlined, kernel


def replace_text(texts: pa.Array, search: bytes, replacement: bytes) -> pa.Array:
    """Every occurrence of `search` from left to right; both are whole characters, and `search` is neither empty nor shorter than
    `replacement`."""
    offsets, _ = view_offsets(texts)
    data = texts.buffers()[2]
    size = int(offsets[-1] - offsets[0])
    if data is None or size == 0:
        return texts
    out = pa.allocate_buffer(size)
    ends = pa.allocate_buffer(4 * len(offsets))
    given = view_buffer(data, np.uint8, int(offsets[0]), size)
    written = view_buffer(out, np.uint8, 0, size)
    places = view_buffer(ends, np.int32, 0, len(offsets))
    if len(search) == 1 and not replacement:
        _without_byte(given, offsets, search[0], written, places)
    else:
        _replaced(given, offsets, _bytes(search), _bytes(replacement), written, places)
    return pa.Array.from_buffers(
        texts.type, len(texts), [validity_buffer(valid_mask(texts)), ends, out.slice(0, int(places[-1]))]
    )


def _bytes(text: bytes) -> np.ndarray:
    return np.array(list(text), dtype=np.uint8)


@kernel("void(uint8[::1], int32[::1], int64, uint8[::1], int32[::1])")
def _without_byte(given, offsets, unwanted, written, places):  # type: ignore[no-untyped-def]
    # Every byte is written, and the next one over it where it is unwanted: no branch that depends on the texts.
    at = 0
    read = 0
    first = offsets[0]
    byte = np.uint8(unwanted)
    for row in range(len(offsets) - 1):
        places[row] = at
        end = np.int64(offsets[row + 1] - first)
        while read < end:
            value = given[read]
            written[at] = value
            at += 1 if value != byte else 0
            read += 1
    places[len(offsets) - 1] = at


@kernel("void(uint8[::1], int32[::1], uint8[::1], uint8[::1], uint8[::1], int32[::1])")
def _replaced(given, offsets, search, replacement, written, places):  # type: ignore[no-untyped-def]
    at = 0
    read = 0
    first = offsets[0]
    head = search[0]
    length = len(search)
    for row in range(len(offsets) - 1):
        places[row] = at
        end = np.int64(offsets[row + 1] - first)
        while read < end:
            is_found = given[read] == head and read + length <= end
            if is_found:
                for i in range(1, length):
                    if given[read + i] != search[i]:
                        is_found = False
                        break
            if is_found:
                for i in range(len(replacement)):
                    written[at] = replacement[i]
                    at += 1
                read += length
            else:
                written[at] = given[read]
                at += 1
                read += 1
    places[len(offsets) - 1] = at


# Finds and copies parts of delimited strings.


_WIDTH = 64
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@always_inlined
def _candidates(data, at, end, byte):  # type: ignore[no-untyped-def]
    """Bit i: whether data[at + i] is this byte, for the bytes before `end` and at most 64."""
    if at + _WIDTH <= len(data):
        bits = byte_places(data.ctypes.data + at, byte)
        if end - at < _WIDTH:
            bits &= (_ONE << np.uint64(end - at)) - _ONE
        return bits
    bits = _ZERO
    for i in range(min(_WIDTH, end - at)):
        if data[at + i] == byte:
            bits |= _ONE << np.uint64(i)
    return bits


@always_inlined
def _is_delimiter(data, at, end, delimiter):  # type: ignore[no-untyped-def]
    """Whether the delimiter, whose first byte stands at `at`, is there as a whole."""
    if at + len(delimiter) > end:
        return False
    matched = 1
    while matched < len(delimiter) and data[at + matched] == delimiter[matched]:
        matched += 1
    return matched == len(delimiter)


@always_inlined
def _record(starts, ends, is_found, rows, w, i, start, end):  # type: ignore[no-untyped-def]
    place = w * (rows + 1) + i
    starts[w * rows + i] = start
    ends[place + 1] = ends[place] + (end - start)
    is_found[w * rows + i] = 1


@kernel("void(int32[::1], int32[::1], uint8[::1], uint8[::1], int32[::1], uint8[::1], int64[::1])")
def find_parts_into(starts, ends, is_found, data, offsets, delimiter, wanted):  # type: ignore[no-untyped-def]
    """Parts number `wanted` (ascending, each once) of every row, in one pass over its bytes.

    Wanted part w of row i, of n rows: `is_found` and `starts` (its first byte) have it at w * n + i. It has
    ends[p + 1] - ends[p] bytes, with p = w * (n + 1) + i.
    """
    rows = len(offsets) - 1
    for w in range(len(wanted)):
        ends[w * (rows + 1)] = 0
    for i in range(rows):
        first, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        part, w = np.int64(0), 0
        start = at = first
        while at < end and w < len(wanted):
            bits = _candidates(data, at, end, delimiter[0])
            while bits != _ZERO:
                place = at + lowest_bit(bits)
                bits &= bits - _ONE
                # A delimiter may repeat its first byte.
                if place < start or not _is_delimiter(data, place, end, delimiter):
                    continue
                if part == wanted[w]:
                    _record(starts, ends, is_found, rows, w, i, start, place)
                    w += 1
                    if w == len(wanted):
                        break
                part += 1
                start = place + len(delimiter)
            at += _WIDTH
        if w < len(wanted) and part == wanted[w] and end > first:
            _record(starts, ends, is_found, rows, w, i, start, end)
            w += 1
        for missing in range(w, len(wanted)):
            _record(starts, ends, is_found, rows, missing, i, first, first)
            is_found[missing * rows + i] = 0


@kernel("void(uint8[::1], int32[::1], int32[::1], uint8[::1])")
def copy_parts_into(parts, starts, ends, data):  # type: ignore[no-untyped-def]
    """parts[ends[i]:ends[i + 1]] = the bytes of data from starts[i] on.

    Copies eight bytes per step: the last one spills into the next row, which is written later, or into the 8 spare bytes.
    """
    source_at, target_at = data.ctypes.data, parts.ctypes.data
    for i in range(len(starts)):
        source, target = np.int64(starts[i]), np.int64(ends[i])
        length = np.int64(ends[i + 1]) - target
        done = np.int64(0)
        while done < length and source + done + 8 <= len(data):
            store_64(target_at + target + done, load_64(source_at + source + done))
            done += 8
        for at in range(done, length):
            parts[target + at] = data[source + at]
