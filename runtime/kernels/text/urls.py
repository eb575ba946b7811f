"""Finds the parts of URLs: RFC 3986's, of the protocols that Java's `URL` knows."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.native.kernel import READ_BYTES, inlined, kernel

PROTOCOL, AUTHORITY, USERINFO, HOST, PATH, QUERY, REF, FILE = range(8)
"""The parts; a FILE is a path with its query."""

_PROTOCOL, _AUTHORITY, _USERINFO, _HOST, _PATH, _QUERY, _REF = range(7)
_HASH, _SLASH, _COLON, _QUESTION, _AT, _OPEN, _CLOSE = 35, 47, 58, 63, 64, 91, 93


@inlined
def _is_word(data, start, end, word, length):  # type: ignore[no-untyped-def]
    """Whether the letters, in any case, are those of `word`, the last in its lowest byte."""
    if end - start != length:
        return False
    for i in range(start, end):  # noqa: SIM110 (kernels know no generators)
        if np.uint64(data[i] | 32) != (word >> np.uint64(8 * (end - 1 - i))) & np.uint64(255):
            return False
    return True


@inlined
def _is_protocol(data, start, end):  # type: ignore[no-untyped-def]
    return (
        _is_word(data, start, end, np.uint64(0x68747470), 4)
        or _is_word(data, start, end, np.uint64(0x6874747073), 5)
        or _is_word(data, start, end, np.uint64(0x667470), 3)
        or _is_word(data, start, end, np.uint64(0x66696C65), 4)
        or _is_word(data, start, end, np.uint64(0x6A6172), 3)
        or _is_word(data, start, end, np.uint64(0x6D61696C746F), 6)
    )


@inlined
def _after_host(data, start, end):  # type: ignore[no-untyped-def]
    """The place behind the host at `start`: an address in brackets, or all up to a mark."""
    i = start
    if i < end and data[i] == _OPEN:
        i += 1
        while (
            i < end and data[i] != _CLOSE and data[i] != _SLASH and data[i] != _QUESTION and data[i] != _HASH
        ):
            i += 1
        return i + 1 if i < end and data[i] == _CLOSE else start
    while (
        i < end
        and data[i] != _SLASH
        and data[i] != _QUESTION
        and data[i] != _HASH
        and data[i] != _COLON
        and data[i] != _AT
        and data[i] != _OPEN
        and data[i] != _CLOSE
    ):
        i += 1
    return i


@inlined
def _after_user(data, start, end):  # type: ignore[no-untyped-def]
    """The place behind the @ of the user at `start`; `start` for none."""
    i = start
    while i < end and data[i] != _SLASH and data[i] != _QUESTION and data[i] != _HASH and data[i] != _AT:
        i += 1
    return i + 1 if i < end and data[i] == _AT else start


@inlined
def _find(data, i, end, byte, other):  # type: ignore[no-untyped-def]
    while i < end and data[i] != byte and data[i] != other:
        i += 1
    return i


@inlined
def _part(data, i, end, part):  # type: ignore[no-untyped-def]
    """Where a part begins and ends; -1 for a text that is no URL or has no such part."""
    while i < end and (data[i] == 32 or data[i] == 9 or data[i] == 10 or data[i] == 12 or data[i] == 13):
        i += 1
    first = i
    # The longest name of a protocol has 6 letters.
    i = _find(data, i, min(end, i + 7), _COLON, _COLON)
    if i >= end or data[i] != _COLON or not _is_protocol(data, first, i):
        return -1, -1
    if part == _PROTOCOL:
        return first, i
    i += 1
    begin, host, after = i, i, i
    if i + 1 < end and data[i] == _SLASH and data[i + 1] == _SLASH:
        begin = i + 2
        host = _after_user(data, begin, end)
        after = _after_host(data, host, end)
        i = after
        if i < end and data[i] == _COLON:
            i += 1
            while i < end and 48 <= data[i] <= 57:
                i += 1
    elif part == _AUTHORITY:
        return -1, -1
    if part == _AUTHORITY:
        return begin, i
    if part == _USERINFO:
        return (begin, host - 1) if host > begin else (-1, -1)
    if part == _HOST:
        return host, after
    query = _find(data, i, end, _QUESTION, _HASH)
    if part == _PATH:
        return i, query
    ref = _find(data, query, end, _HASH, _HASH)
    if part == _QUERY:
        return (query + 1, ref) if ref > query else (-1, -1)
    if part == _REF:
        return (ref + 1, end) if ref < end else (-1, -1)
    return i, ref


@kernel(f"void(int32[::1], int32[::1], uint8[::1], {READ_BYTES}, int32[::1], int64)")
def find_url_parts_into(starts, places, is_found, data, offsets, part):  # type: ignore[no-untyped-def]
    """Of each text `data[offsets[n]:offsets[n + 1]]`: where this part begins, where it ends when all parts follow each other, and
    whether there is one."""
    o = np.int64(0)
    places[0] = 0
    for row in range(len(starts)):
        start, end = _part(data, np.int64(offsets[row]), np.int64(offsets[row + 1]), part)
        starts[row], is_found[row] = max(start, 0), 1 if start >= 0 else 0
        o += end - start
        places[row + 1] = o
