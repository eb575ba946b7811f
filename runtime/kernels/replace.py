"""Replaces a text in texts by one that is not longer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.native.kernel import kernel


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
