"""Follows and writes values of a tape of JSON documents (`sqlstream.runtime.kernels.json.json_tape`)."""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import load_64, store_8, store_32, store_64
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, inlined, kernel

# As in json_tape: a kernel's file holds all that its machine code depends on.
_STRING, _ARRAY, _OBJECT = 0, 5, 6
_KIND, _START, _END, _KEY, _KEY_END, _PARENT, _FIRST, _SIBLING = range(8)


@inlined
def _name_of(data, start, length, names, ends, expected):  # type: ignore[no-untyped-def]
    """Which of the names stands at a place of the data, the `expected` one first; -1 for none of them."""
    for tried in range(len(ends)):
        n = expected + tried
        n = n - len(ends) if n >= len(ends) else n
        first = np.int64(ends[n - 1]) if n else np.int64(0)
        if ends[n] - first == length:
            i = 0
            while i < length and data[start + i] == names[first + i]:
                i += 1
            if i == length:
                return n
    return -1


@kernel(f"void(int32[:, ::1], int32[::1], {READ_BYTES}, int32[:, ::1], {READ_BYTES}, int32[::1])")
def members_into(out, values, data, tape, names, ends):  # type: ignore[no-untyped-def]
    """Per name, the last member of that name of each object; -1 where there is none, or the value (or -1) is no object.

    `names`: all names, each canonical, one behind the other. `ends`: where each ends.
    """
    for n in range(len(values)):
        for name in range(len(ends)):
            out[name, n] = -1
        if values[n] < 0 or tape[values[n], _KIND] != _OBJECT:
            continue
        child, expected = np.int64(tape[values[n], _FIRST]), 0
        while child >= 0:
            key = np.int64(tape[child, _KEY])
            found = _name_of(data, key, tape[child, _KEY_END] - key, names, ends, expected)
            if found >= 0:
                out[found, n] = child
                expected = found + 1 if found + 1 < len(ends) else 0
            child = np.int64(tape[child, _SIBLING])


@inlined
def _count(tape, value):  # type: ignore[no-untyped-def]
    count, child = 0, tape[value, _FIRST]
    while child >= 0:
        count += 1
        child = tape[child, _SIBLING]
    return count


@kernel("void(int32[::1], int32[::1], int32[:, ::1])")
def counts_into(out, values, tape):  # type: ignore[no-untyped-def]
    """How many children each value has; 0 for -1 and for scalars."""
    for n in range(len(values)):
        out[n] = _count(tape, values[n]) if values[n] >= 0 else 0


@kernel("void(int32[::1], int32[::1], int32[:, ::1], int64)")
def elements_into(out, values, tape, index):  # type: ignore[no-untyped-def]
    """The element at this index of each array, from the end where it is negative; -1 where there is none."""
    for n in range(len(values)):
        out[n] = -1
        if values[n] < 0 or tape[values[n], _KIND] != _ARRAY:
            continue
        place = index if index >= 0 else _count(tape, values[n]) + index
        if place < 0:
            continue
        child = tape[values[n], _FIRST]
        while child >= 0 and place > 0:
            child = tape[child, _SIBLING]
            place -= 1
        out[n] = child


@kernel("void(int32[::1], int32[::1], int32[:, ::1])")
def children_into(out, values, tape):  # type: ignore[no-untyped-def]
    """All children of all values (none is -1), in their order."""
    o = 0
    for n in range(len(values)):
        child = tape[values[n], _FIRST]
        while child >= 0:
            out[o] = child
            o += 1
            child = tape[child, _SIBLING]


@kernel("int64(int32[::1], int32[::1], int32[::1], int32[:, ::1])")
def containers_into(out, counts, values, tape):  # type: ignore[no-untyped-def]
    """All objects and arrays in each value, itself first, each before its children; returns how many.

    `out` may be empty: then they are only counted, per value, in `counts`.
    """
    total = np.int64(0)
    for n in range(len(values)):
        root, count = values[n], 0
        t = root
        while t >= 0:
            if tape[t, _KIND] >= _ARRAY:
                if len(out):
                    out[total + count] = t
                count += 1
            if tape[t, _FIRST] >= 0:
                t = tape[t, _FIRST]
                continue
            while t != root and tape[t, _SIBLING] < 0:
                t = tape[t, _PARENT]
            t = -1 if t == root else tape[t, _SIBLING]
        counts[n] = count
        total += count
    return total


@inlined
def _put(out, o, data, start, end):  # type: ignore[no-untyped-def]
    """Write a part of the data if there is room; returns the place behind it."""
    stop = o + end - start
    if stop <= len(out):
        for i in range(start, end):
            out[o + i - start] = data[i]
    return stop


@inlined
def _put_byte(out, o, byte):  # type: ignore[no-untyped-def]
    if o < len(out):
        out[o] = byte
    return o + 1


@always_inlined
def _copy(target, source, length):  # type: ignore[no-untyped-def]
    """Copy bytes by eight: the last step may write seven too many."""
    at = 0
    while at < length:
        store_64(target + at, load_64(source + at))
        at += 8


@always_inlined
def _begin_with_room(target, source, kind, key, name, start, length):  # type: ignore[no-untyped-def]
    """As `_begin`, where the memory has room for it; returns the address behind what is written. `name` is the length of the name
    at `key`, -1 for none, and `length` that of the text of a scalar."""
    if name >= 0:
        store_8(target, np.uint64(34))
        _copy(target + 1, source + key, name)
        store_32(target + 1 + name, np.uint64(0x3A22))
        target += name + 3
    if kind >= _ARRAY:
        store_8(target, np.uint64(123 if kind == _OBJECT else 91))
        return target + 1
    if kind != _STRING:
        _copy(target, source + start, length)
        return target + length
    store_8(target, np.uint64(34))
    _copy(target + 1, source + start, length)
    store_8(target + 1 + length, np.uint64(34))
    return target + length + 2


@inlined
def _begin(out, o, data, tape, t, root):  # type: ignore[no-untyped-def]
    """Write the name of a value and the value, of an object or array its bracket."""
    kind = tape[t, _KIND]
    is_member = t != root and tape[t, _KEY] >= 0
    key, key_end = np.int64(tape[t, _KEY]), np.int64(tape[t, _KEY_END])
    start, end = np.int64(tape[t, _START]), np.int64(tape[t, _END])
    name = key_end - key if is_member else -1
    length = end - start if kind < _ARRAY else 0
    if o + name + length + 24 <= len(out) and key_end + 8 <= len(data) and start + length + 8 <= len(data):
        target = out.ctypes.data + o
        behind = _begin_with_room(target, data.ctypes.data, kind, key, name, start, length)
        return o + (behind - target)
    if is_member:
        o = _put_byte(out, o, 34)
        o = _put(out, o, data, key, key_end)
        o = _put_byte(out, o, 34)
        o = _put_byte(out, o, 58)
    if kind >= _ARRAY:
        return _put_byte(out, o, 123 if kind == _OBJECT else 91)
    if kind == _STRING:
        o = _put_byte(out, o, 34)
    o = _put(out, o, data, start, end)
    return _put_byte(out, o, 34) if kind == _STRING else o


@inlined
def _end(out, o, tape, t):  # type: ignore[no-untyped-def]
    """Write the closing bracket of an object or array."""
    if tape[t, _KIND] < _ARRAY:
        return o
    return _put_byte(out, o, 125 if tape[t, _KIND] == _OBJECT else 93)


@kernel(f"int64(uint8[::1], int32[::1], int32[::1], {READ_BYTES}, int32[:, ::1])")
def write_into(out, offsets, values, data, tape):  # type: ignore[no-untyped-def]
    """Write values as JSON without blanks (nothing for -1), as far as `out` has room; returns the length of all."""
    o = np.int64(0)
    offsets[0] = 0
    for n in range(len(values)):
        root = np.int64(values[n])
        t = root
        while t >= 0:
            o = _begin(out, o, data, tape, t, root)
            if tape[t, _FIRST] >= 0:
                t = np.int64(tape[t, _FIRST])
                continue
            o = _end(out, o, tape, t)
            while t != root and tape[t, _SIBLING] < 0:
                t = np.int64(tape[t, _PARENT])
                o = _end(out, o, tape, t)
            if t == root:
                t = np.int64(-1)
            else:
                o = _put_byte(out, o, 44)
                t = np.int64(tape[t, _SIBLING])
        offsets[n + 1] = o
    return o
