"""The SHA-2 family of hashes (FIPS 180-4), one digest for each row."""

from __future__ import annotations

import functools
from math import isqrt
from typing import Any

import numpy as np

from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, kernel


@always_inlined
def _byte(data, start, length, at, size):  # type: ignore[no-untyped-def]
    """Byte `at` of a message as it is hashed: the message, a 1 bit, zeros, and its length in bits at the end of `size` bytes."""
    if at < length:
        return np.uint64(data[start + at])
    if at == length:
        return np.uint64(128)
    if at < size - 8:
        return np.uint64(0)
    return ((np.uint64(length) * np.uint64(8)) >> np.uint64(8 * (size - 1 - at))) & np.uint64(255)


@always_inlined
def _turned_64(x, n):  # type: ignore[no-untyped-def]
    return (x >> np.uint64(n)) | (x << np.uint64(64 - n))


@always_inlined
def _turned_32(x, n):  # type: ignore[no-untyped-def]
    return ((x >> np.uint64(n)) | (x << np.uint64(32 - n))) & np.uint64(0xFFFFFFFF)


@kernel(f"void(uint8[::1], int64, {READ_BYTES}, int32[::1], uint64[::1], uint64[::1], uint64[::1])")
def sha2_64_into(digests, digest_bytes, data, offsets, first, constants, words):  # type: ignore[no-untyped-def]
    """SHA-512 and SHA-384: `first` has the 8 words at the start, `constants` 80, `words` room for 88."""
    for row in range(len(offsets) - 1):
        start, length = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        size = (length + 17 + 127) // 128 * 128
        for i in range(8):
            words[80 + i] = first[i]
        for block in range(0, size, 128):
            for i in range(16):
                word = np.uint64(0)
                for j in range(8):
                    word = (word << np.uint64(8)) | _byte(data, start, length, block + 8 * i + j, size)
                words[i] = word
            for i in range(16, 80):
                x, y = words[i - 15], words[i - 2]
                x = _turned_64(x, 1) ^ _turned_64(x, 8) ^ (x >> np.uint64(7))
                y = _turned_64(y, 19) ^ _turned_64(y, 61) ^ (y >> np.uint64(6))
                words[i] = words[i - 16] + x + words[i - 7] + y
            a, b, c, d = words[80], words[81], words[82], words[83]
            e, f, g, h = words[84], words[85], words[86], words[87]
            for i in range(80):
                mixed = _turned_64(e, 14) ^ _turned_64(e, 18) ^ _turned_64(e, 41)
                t = h + mixed + ((e & f) ^ (~e & g)) + constants[i] + words[i]
                mixed = _turned_64(a, 28) ^ _turned_64(a, 34) ^ _turned_64(a, 39)
                u = mixed + ((a & b) ^ (a & c) ^ (b & c))
                h, g, f, e, d, c, b, a = g, f, e, d + t, c, b, a, t + u
            words[80] += a
            words[81] += b
            words[82] += c
            words[83] += d
            words[84] += e
            words[85] += f
            words[86] += g
            words[87] += h
        for at in range(digest_bytes):
            word = words[80 + at // 8] >> np.uint64(8 * (7 - at % 8))
            digests[row * digest_bytes + at] = np.uint8(word & np.uint64(255))


@kernel(f"void(uint8[::1], int64, {READ_BYTES}, int32[::1], uint64[::1], uint64[::1], uint64[::1])")
def sha2_32_into(digests, digest_bytes, data, offsets, first, constants, words):  # type: ignore[no-untyped-def]
    """SHA-256 and SHA-224, in words of 32 bits: `first` has 8, `constants` 64, `words` room for 72."""
    low = np.uint64(0xFFFFFFFF)
    for row in range(len(offsets) - 1):
        start, length = np.int64(offsets[row]), np.int64(offsets[row + 1]) - np.int64(offsets[row])
        size = (length + 9 + 63) // 64 * 64
        for i in range(8):
            words[64 + i] = first[i]
        for block in range(0, size, 64):
            for i in range(16):
                word = np.uint64(0)
                for j in range(4):
                    word = (word << np.uint64(8)) | _byte(data, start, length, block + 4 * i + j, size)
                words[i] = word
            for i in range(16, 64):
                x, y = words[i - 15], words[i - 2]
                x = _turned_32(x, 7) ^ _turned_32(x, 18) ^ (x >> np.uint64(3))
                y = _turned_32(y, 17) ^ _turned_32(y, 19) ^ (y >> np.uint64(10))
                words[i] = (words[i - 16] + x + words[i - 7] + y) & low
            a, b, c, d = words[64], words[65], words[66], words[67]
            e, f, g, h = words[68], words[69], words[70], words[71]
            for i in range(64):
                mixed = _turned_32(e, 6) ^ _turned_32(e, 11) ^ _turned_32(e, 25)
                t = h + mixed + ((e & f) ^ (~e & g)) + constants[i] + words[i]
                mixed = _turned_32(a, 2) ^ _turned_32(a, 13) ^ _turned_32(a, 22)
                u = mixed + ((a & b) ^ (a & c) ^ (b & c))
                h, g, f, e, d, c, b, a = g, f, e, (d + t) & low, c, b, a, (t + u) & low
            words[64] = (words[64] + a) & low
            words[65] = (words[65] + b) & low
            words[66] = (words[66] + c) & low
            words[67] = (words[67] + d) & low
            words[68] = (words[68] + e) & low
            words[69] = (words[69] + f) & low
            words[70] = (words[70] + g) & low
            words[71] = (words[71] + h) & low
        for at in range(digest_bytes):
            word = words[64 + at // 4] >> np.uint64(8 * (3 - at % 4))
            digests[row * digest_bytes + at] = np.uint8(word & np.uint64(255))


@functools.cache
def _primes(count: int) -> tuple[int, ...]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return tuple(found)


def _cube_root(value: int) -> int:
    """The whole part."""
    root = 1 << -(-value.bit_length() // 3)
    while root**3 > value:
        root = (2 * root + value // root**2) // 3
    return root


def root_fractions(first: int, count: int, bits: int, *, is_cube: bool = False) -> np.ndarray[Any, Any]:
    """The first `bits` bits behind the point of the square (or cube) roots of `count` primes: SHA-2's constants."""
    power = 3 if is_cube else 2
    root = _cube_root if is_cube else isqrt
    words = [root(p << power * bits) & (1 << bits) - 1 for p in _primes(first + count)[first:]]
    return np.array(words, dtype=np.uint64)
