"""Generators of connector `datagen`: numbers of rows in, a column out.

Each value comes from one 64-bit draw, SplitMix64's finaliser over (seed, path of the field, row number), so that rows are the
same whichever reader makes them, in batches of any size.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.connectors.generators.nexmark_draws import STEP, mix
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.times import DAY_MS
from sqlstream.types import BINARY_ROOTS, LogicalType, TypeRoot

Numbers = np.ndarray[Any, Any]
"""uint64, of any shape."""

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)

# Made once: a table of few rows per second spends most of its time on what each batch costs. Arithmetic of unsigned arrays
# wraps around without a warning.
_STEP, _FACTOR_1, _FACTOR_2 = map(np.uint64, (STEP, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_27, _30, _31 = map(np.uint64, (27, 30, 31))


class Generator(Protocol):
    """`rows` is the number of values after which the generator ends; None when it never does."""

    rows: int | None

    def make(self, rows: Numbers, now_ms: int) -> pa.Array: ...


def draw_key(seed: int, path: str) -> int:
    """Where the sequence of a field starts."""
    return mix((mix(seed & (2**64 - 1)) + zlib.crc32(path.encode()) * STEP) & (2**64 - 1))


def draw(key: int, numbers: Numbers) -> Numbers:
    """64 random bits per number."""
    x = numbers * _STEP + np.uint64(key)
    x = (x ^ (x >> _30)) * _FACTOR_1
    x = (x ^ (x >> _27)) * _FACTOR_2
    return x ^ (x >> _31)


def fraction(bits: Numbers) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Random bits as numbers in [0, 1)."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def between(bits: Numbers, low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Random bits as integers from low to high, both included."""
    span = high - low + 1
    offsets = bits if span == 2**64 else bits % np.uint64(span)
    return (offsets + np.uint64(low & (2**64 - 1))).view(np.int64)


def _typed(values: pa.Array, t: pa.DataType) -> pa.Array:
    """The values cast to a type, unless they have it: a cast costs more than a few values."""
    return values if values.type == t else values.cast(t)


class Sequence:
    """start, start + 1, … end."""

    def __init__(self, t: LogicalType, start: int, end: int) -> None:
        self._type = to_arrow_type(t)
        self._start = start
        self.rows: int | None = end - start + 1

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        values = to_array(pa.int64(), rows.view(np.int64) + self._start)
        if pa.types.is_decimal(self._type):
            return values.cast(pa.decimal128(38, 0)).cast(self._type)
        return _typed(values, self._type)


class RandomInteger:
    """Integers, and intervals, which Arrow keeps as integers."""

    rows: int | None = None

    def __init__(self, t: LogicalType, key: int, low: int, high: int) -> None:
        self._type = to_arrow_type(t)
        self._key, self._low, self._high = key, low, high

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        values = between(draw(self._key, rows), self._low, self._high)
        return _typed(to_array(pa.int64(), values), self._type)


class RandomFloat:
    rows: int | None = None

    def __init__(self, t: LogicalType, key: int, low: float, high: float) -> None:
        self._type = to_arrow_type(t).to_pandas_dtype()
        self._key, self._low, self._high = key, low, high

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        u = fraction(draw(self._key, rows))
        # Not low + u * (high - low), which overflows between the least and the greatest double.
        values = np.clip(u * self._high + (1 - u) * self._low, self._low, self._high)
        return pa.array(values.astype(self._type))


class RandomDecimal:
    """Decimals of at most 18 digits; `low` and `high` in units of the last one."""

    rows: int | None = None

    def __init__(self, t: LogicalType, key: int, low: int, high: int) -> None:
        self._type = to_arrow_type(t)
        self._key, self._low, self._high = key, low, high

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        words = np.empty((len(rows), 2), dtype=np.int64)
        words[:, 0] = between(draw(self._key, rows), self._low, self._high)
        words[:, 1] = words[:, 0] >> 63
        return pa.Array.from_buffers(self._type, len(rows), [None, pa.py_buffer(words)])


class RandomBoolean:
    rows: int | None = None

    def __init__(self, t: LogicalType, key: int) -> None:
        self._key = key

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        return pa.array((draw(self._key, rows) & np.uint64(1)).astype(bool))


class RandomText:
    """Hexadecimal texts, or any bytes, of one length or of 1 to `length`."""

    rows: int | None = None

    def __init__(self, t: LogicalType, key: int, length: int, varies: bool) -> None:
        self._type = to_arrow_type(t)
        self._is_binary = t.root in BINARY_ROOTS
        self._key, self._length, self._varies = key, length, varies

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        width = self._length
        letters = self._letters(rows)
        if self._varies and width:
            lengths = between(draw(self._key ^ 1, rows), 1, width)
            letters = letters[np.arange(width) < lengths[:, None]]
        else:
            lengths = np.full(len(rows), width, dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters))]
        return pa.Array.from_buffers(self._type, len(rows), buffers)

    def _letters(self, rows: Numbers) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """uint8[rows, length]"""
        letters_per_draw = 8 if self._is_binary else 16
        draws = -(-self._length // letters_per_draw)
        numbers = rows[:, None] * np.uint64(draws) + np.arange(draws, dtype=np.uint64)
        random = draw(self._key, numbers).view(np.uint8).reshape(len(rows), -1)
        if not self._is_binary:
            random = _HEX[np.stack((random & 15, random >> 4), axis=2).reshape(len(rows), -1)]
        return random[:, : self._length]


class RandomMoment:
    """Timestamps of the present or of up to `past_ms` before; today's date; the present time."""

    rows: int | None = None

    def __init__(self, t: LogicalType, key: int, past_ms: int) -> None:
        self._root = t.root
        self._type = to_arrow_type(t)
        self._key, self._past_ms = key, past_ms

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        moments = now_ms - between(draw(self._key, rows), 0, self._past_ms)
        if self._root is TypeRoot.DATE:
            return pa.array((moments // DAY_MS).astype(np.int32)).cast(self._type)
        if self._root is TypeRoot.TIME:
            return pa.array((moments % DAY_MS).astype(np.int32)).cast(self._type)
        return pa.array(moments).cast(pa.timestamp("ms", self._type.tz)).cast(self._type)


class RandomRow:
    def __init__(self, t: LogicalType, parts: list[Generator]) -> None:
        self._type = to_arrow_type(t)
        self._parts = parts
        self.rows = min((p.rows for p in parts if p.rows is not None), default=None)

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        parts = [part.make(rows, now_ms) for part in self._parts]
        return pa.StructArray.from_arrays(parts, fields=list(self._type))


def element_rows(rows: Numbers, length: int) -> Numbers:
    """Numbers for the elements of each row, all different."""
    return (rows[:, None] * np.uint64(length) + np.arange(length, dtype=np.uint64)).reshape(-1)


def _elements_end(generator: Generator, length: int) -> int | None:
    return None if generator.rows is None or not length else generator.rows // length


class RandomArray:
    def __init__(self, t: LogicalType, length: int, element: Generator) -> None:
        self._type = to_arrow_type(t)
        self._length, self._element = length, element
        self.rows = _elements_end(element, length)

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        values = self._element.make(element_rows(rows, self._length), now_ms)
        offsets = np.arange(len(rows) + 1, dtype=np.int32) * self._length
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=self._type)


class RandomMap:
    """Maps of up to `length` entries; of equal keys in a row the first is kept. A MULTISET maps elements to counts."""

    def __init__(self, t: LogicalType, length: int, keys: Generator, values: Generator) -> None:
        self._type = to_arrow_type(t)
        self._length, self._keys, self._values = length, keys, values
        ends = [e for e in (_elements_end(keys, length), _elements_end(values, length)) if e is not None]
        self.rows = min(ends, default=None)

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        numbers = element_rows(rows, self._length)
        keys, values = self._keys.make(numbers, now_ms), self._values.make(numbers, now_ms)
        owners = np.repeat(np.arange(len(rows), dtype=np.int64), self._length)
        kept = self._first_of_each(keys, owners)
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owners[kept], minlength=len(rows)))))
        places = pa.array(kept)
        return pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32)), keys.take(places), values.take(places), type=self._type
        )

    @staticmethod
    def _first_of_each(keys: pa.Array, owners: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if pa.types.is_nested(keys.type):
            return np.arange(len(keys))
        codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        _, first = np.unique(owners * (len(keys) + 1) + codes, return_index=True)
        return np.sort(first)


class WithNulls:
    """Another generator's values, a part of which is NULL."""

    def __init__(self, generator: Generator, rate: float, key: int) -> None:
        self._generator, self._rate, self._key = generator, rate, key
        self.rows = generator.rows

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        import pyarrow.compute as pc

        values = self._generator.make(rows, now_ms)
        is_present = pa.array(fraction(draw(self._key, rows)) >= self._rate)
        return pc.if_else(is_present, values, pa.scalar(None, values.type))
