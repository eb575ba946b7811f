"""Looks through texts 64 bytes at a time: how many characters they have, where a byte or a literal stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.kernels.buffers import valid_mask, validity_buffer, view_buffer, view_offsets
from sqlstream.runtime.kernels.intrinsics import byte_places, copy_bytes, load_8, load_64, short_bytes
from sqlstream.runtime.native.kernel import always_inlined, instruction, kernel

_WIDTH = 64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_MOST_BITS = np.uint64(63)


def char_lengths(texts: pa.Array, byte: int = 0, per_byte: int = 0) -> pa.Array:
    """int32: the characters of each text, and `per_byte` more for each time that it has `byte`.

    >>> char_lengths(pa.array(["héé", "x,y,z", None]), ord(","), -1).to_pylist()
    [3, 3, None]
    """
    offsets, address = view_offsets(texts)
    lengths = pa.allocate_buffer(4 * len(texts))
    _count(offsets, address, _limit(texts), byte, per_byte, view_buffer(lengths, np.int32, 0, len(texts)))
    return pa.Array.from_buffers(pa.int32(), len(texts), [validity_buffer(valid_mask(texts)), lengths])


def are_any_of(texts: pa.Array, candidates: list[bytes]) -> pa.Array:
    """boolean: whether each text is one of the candidates, NULL for NULL.

    >>> are_any_of(pa.array(["a", "b", None]), [b"b", b"c"]).to_pylist()
    [False, True, None]
    """
    offsets, address = view_offsets(texts)
    sizes = np.array([len(c) for c in candidates], np.int64)
    joined = b"".join(candidates)
    given = np.frombuffer(joined + bytes(8), np.uint8)
    starts = np.cumsum(sizes) - sizes + given.ctypes.data
    heads = np.array([int.from_bytes(c[:8].ljust(8, b"\0"), "little") for c in candidates], np.uint64)
    found = np.empty(len(texts), dtype=np.bool_)
    _compare(offsets, address, _limit(texts), sizes, starts, heads, found)
    bits = pa.py_buffer(np.packbits(found, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(texts), [validity_buffer(valid_mask(texts)), bits])


def choose_texts(picks: np.ndarray, values: list[pa.Array]) -> pa.Array:
    """Row i of `values[picks[i]]` (uint8); a value of one row stands for all rows.

    >>> choose_texts(np.array([0, 1, 0], np.uint8), [pa.array(["a"]), pa.array(["x", None, "z"])]).to_pylist()
    ['a', None, 'a']
    """
    rows = len(picks)
    columns = np.zeros((len(values), 5), np.int64)
    kept = []
    for entries, value in zip(columns, values, strict=True):
        _, offsets, data = value.buffers()
        bits = value.buffers()[0] if value.null_count else None
        kept.append(value)
        entries[0] = offsets.address + 4 * value.offset
        entries[1] = 0 if data is None else data.address
        entries[2] = 0 if len(value) == 1 and rows != 1 else 1
        entries[3] = 0 if bits is None else bits.address
        entries[4] = value.offset
    ends = pa.allocate_buffer(4 * (rows + 1))
    places = view_buffer(ends, np.int32, 0, rows + 1)
    valid = np.ones(rows, np.uint8)
    size = _measure(picks, columns, places, valid)
    if size > 2**31 - 1:
        raise pa.ArrowCapacityError("the chosen texts have more than 2 GiB")
    out = pa.allocate_buffer(size)
    _copy_chosen(picks, columns, places, view_buffer(out, np.uint8, 0, size))
    has_null = any(value.null_count for value in values)
    return pa.Array.from_buffers(pa.string(), rows, [validity_buffer(valid if has_null else None), ends, out])


def _limit(texts: pa.Array) -> int:
    """The end of the memory that may be read."""
    data = texts.buffers()[2]
    return 0 if data is None else data.address + data.size


@instruction("uint64(int64)")
def _continuations(ir: Any, builder: Any, address: Any) -> Any:
    """Bit i: whether byte i of the 64 at an address goes on with a character of UTF-8."""
    vector = ir.VectorType(ir.IntType(8), _WIDTH)
    loaded = builder.load(builder.inttoptr(address, vector.as_pointer()), align=1, typ=vector)
    first = ir.Constant(vector, [-64] * _WIDTH)
    return builder.bitcast(builder.icmp_signed("<", loaded, first), ir.IntType(_WIDTH))


@instruction("int64(uint64)")
def _bit_count(ir: Any, builder: Any, word: Any) -> Any:
    return builder.ctpop(word)


@always_inlined
def _first_bits(bits, left):  # type: ignore[no-untyped-def]
    """The bits of the first `left` bytes."""
    return bits if left >= _WIDTH else bits & ((_ONE << np.uint64(left)) - _ONE)


@kernel("void(int32[::1], int64, int64, int64, int64, int32[::1])")
def _count(offsets, address, limit, byte, per_byte, lengths):  # type: ignore[no-untyped-def]
    wanted = np.uint8(byte)
    for row in range(len(lengths)):
        at = address + offsets[row]
        end = address + offsets[row + 1]
        length = end - at
        while at < end:
            if at + _WIDTH <= limit:
                length -= _bit_count(_first_bits(_continuations(at), end - at))
                if per_byte != 0:
                    length += per_byte * _bit_count(_first_bits(byte_places(at, wanted), end - at))
            else:
                for i in range(min(end - at, _WIDTH)):
                    found = load_8(at + i)
                    length -= 1 if (found & np.uint64(0xC0)) == np.uint64(0x80) else 0
                    length += per_byte if np.uint8(found) == wanted else 0
            at += _WIDTH
        lengths[row] = length


@kernel("void(int32[::1], int64, int64, int64[::1], int64[::1], uint64[::1], boolean[::1])")
def _compare(offsets, address, limit, sizes, starts, heads, found):  # type: ignore[no-untyped-def]
    for row in range(len(found)):
        at = address + offsets[row]
        length = np.int64(offsets[row + 1] - offsets[row])
        # No branch that depends on the texts, as long as they are short.
        if at + 8 <= limit:
            missing = np.uint64(64 - 8 * length if length < 8 else 0)
            head = (load_64(at) << (missing & _MOST_BITS)) >> (missing & _MOST_BITS)
            head = head if length > 0 else _ZERO
        else:
            head = short_bytes(at, min(length, 8))
        is_found = False
        for c in range(len(sizes)):
            is_same = (sizes[c] == length) & (heads[c] == head)
            if is_same & (length > 8):
                for i in range(8, length):
                    is_same = is_same & (load_8(at + i) == load_8(starts[c] + i))
            is_found = is_found | is_same
        found[row] = is_found


@kernel("int64(uint8[::1], int64[:, ::1], int32[::1], uint8[::1])")
def _measure(picks, columns, places, valid):  # type: ignore[no-untyped-def]
    """Write offsets (they are no good beyond 2^31) and which rows are valid; returns the bytes of all rows."""
    size = np.int64(0)
    for row in range(len(picks)):
        places[row] = size
        pick = picks[row]
        source = row * columns[pick, 2]
        bit = columns[pick, 4] + source
        if (
            columns[pick, 3] != 0
            and ((load_8(columns[pick, 3] + (bit >> 3)) >> np.uint64(bit & 7)) & _ONE) == _ZERO
        ):
            valid[row] = 0
        else:
            offsets = load_64(columns[pick, 0] + 4 * source)
            size += np.int64(offsets >> np.uint64(32)) - np.int64(offsets & np.uint64(0xFFFFFFFF))
    places[len(picks)] = size
    return size


@kernel("void(uint8[::1], int64[:, ::1], int32[::1], uint8[::1])")
def _copy_chosen(picks, columns, places, out):  # type: ignore[no-untyped-def]
    target = out.ctypes.data
    for row in range(len(picks)):
        length = np.int64(places[row + 1] - places[row])
        if length > 0:
            pick = picks[row]
            offsets = load_64(columns[pick, 0] + 4 * row * columns[pick, 2])
            source = columns[pick, 1] + np.int64(offsets & np.uint64(0xFFFFFFFF))
            copy_bytes(target + places[row], source, length)
