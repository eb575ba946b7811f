"""Generators of connector `faker`: texts drawn from pools, written by patterns and joined, moments before and after now."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.connectors.generators.datagen_generators import (
    Generator,
    Numbers,
    between,
    draw,
    element_rows,
)
from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.types import LogicalType, timestamp

_32 = np.uint64(32)
_LETTERS_PER_DRAW = 4


class Constant:
    rows: int | None = None

    def __init__(self, text: str) -> None:
        self.text = text

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        return pa.repeat(pa.scalar(self.text, pa.string()), len(rows))


class Pool:
    """Texts, each as often as any other."""

    rows: int | None = None

    def __init__(self, key: int, texts: tuple[str, ...]) -> None:
        self._key, self._texts = key, pa.array(texts, pa.string())

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        return self._texts.take(pa.array(chosen(self._key, rows, len(self._texts))))


def chosen(key: int, rows: Numbers, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number below `count` for each row."""
    return ((draw(key, rows) >> _32) * np.uint64(count) >> _32).view(np.int64)


class Letters:
    """Texts of one width; `alphabets` has the ASCII characters that each place may have."""

    rows: int | None = None

    def __init__(self, key: int, alphabets: list[str]) -> None:
        self._key = key
        self._template = np.frombuffer("".join(a[0] for a in alphabets).encode("ascii"), np.uint8)
        self._places = np.array([i for i, a in enumerate(alphabets) if len(a) > 1], np.int64)
        varying = [alphabets[i] for i in self._places]
        self._sizes = np.array([len(a) for a in varying], np.uint32)
        widest = max(map(len, varying), default=1)
        table = b"".join(a.encode("ascii").ljust(widest, b"\0") for a in varying)
        self._table = np.frombuffer(table, np.uint8)
        self._starts = np.arange(len(varying), dtype=np.uint32) * np.uint32(widest)

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        count, width, varying = len(rows), len(self._template), len(self._places)
        letters = np.tile(self._template, (count, 1))
        if varying:
            draws = -(-varying // _LETTERS_PER_DRAW)
            numbers = rows[:, None] * np.uint64(draws) + np.arange(draws, dtype=np.uint64)
            bits = draw(self._key, numbers).view(np.uint16)
            bits = bits.reshape(count, draws * _LETTERS_PER_DRAW)[:, :varying]
            picked = (bits.astype(np.uint32) * self._sizes >> np.uint32(16)) + self._starts
            letters[:, self._places] = self._table[picked]
        offsets = np.arange(count + 1, dtype=np.int64) * width
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(letters)]
        return pa.Array.from_buffers(pa.string(), count, buffers)


class Joined:
    """Texts one after the other."""

    rows: int | None = None

    def __init__(self, parts: list[Generator], separator: str = "") -> None:
        self._parts, self._separator = parts, separator

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        made = [p.text if isinstance(p, Constant) else p.make(rows, now_ms) for p in self._parts]
        return pc.binary_join_element_wise(*made, self._separator)


class Quoted:
    """Texts as JSON has them."""

    rows: int | None = None

    def __init__(self, part: Generator) -> None:
        self._part = part

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        made = self._part.make(rows, now_ms)
        for sign, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
            made = pc.replace_substring(made, sign, written)
        return pc.binary_join_element_wise('"', made, '"', "")


class OneOf:
    """For each row one of several generators, each as often as any other."""

    rows: int | None = None

    def __init__(self, key: int, parts: list[Generator]) -> None:
        self._key, self._parts = key, parts

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        numbers = chosen(self._key, rows, len(self._parts))
        places = [np.flatnonzero(numbers == i) for i in range(len(self._parts))]
        made = [part.make(rows[own], now_ms) for part, own in zip(self._parts, places, strict=True)]
        order = np.empty(len(rows), np.int64)
        order[np.concatenate(places)] = np.arange(len(rows))
        return pa.concat_arrays(made).take(pa.array(order))


class AtMost:
    """The first of several texts joined: `least` of them to all."""

    rows: int | None = None

    def __init__(self, key: int, least: int, parts: list[Generator]) -> None:
        self._key, self._least, self._parts = key, least, parts

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        counts = between(draw(self._key, rows), self._least, len(self._parts))
        made = [part.make(rows, now_ms) for part in self._parts]
        kept = [
            text if i < self._least else pc.if_else(pa.array(counts > i), text, "")
            for i, text in enumerate(made)
        ]
        return pc.binary_join_element_wise(*kept, "")


class AsText:
    """Another generator's values as CAST writes them, or moments by a pattern of Java."""

    def __init__(self, source: Generator, t: LogicalType, pattern: str | None = None) -> None:
        from sqlstream.runtime.evaluate.cast import cast_kernel
        from sqlstream.types import STRING

        self._source, self.rows = source, source.rows
        self._write = (
            cast_kernel(t, STRING, "UTC", is_try=False)
            if pattern is None
            else TimestampFormat(pattern).format
        )

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        return self._write(self._source.make(rows, now_ms))


class RoundedFloat:
    """Numbers of so many digits after the point."""

    rows: int | None = None

    def __init__(self, key: int, digits: int, low: int, high: int) -> None:
        self._key, self._unit = key, 10**digits
        self._low, self._high = low * self._unit, high * self._unit

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        return pa.array(between(draw(self._key, rows), self._low, self._high) / self._unit)


class Moment:
    """TIMESTAMP(3): from `low` to `high` milliseconds after now; after the epoch unless it `is_from_now`."""

    rows: int | None = None

    def __init__(self, key: int, low: int, high: int, is_from_now: bool = True) -> None:
        self._key, self._low, self._high, self._is_from_now = key, low, high, is_from_now

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        moments = between(draw(self._key, rows), self._low, self._high)
        return pa.array(moments + now_ms * self._is_from_now).cast(to_arrow_type(timestamp(3)))


class Counted:
    """MULTISETs of `length` elements: each element, and how often it is there."""

    def __init__(self, t: LogicalType, length: int, element: Generator) -> None:
        self._type = to_arrow_type(t)
        self._length, self._element = length, element
        self.rows = element.rows

    def make(self, rows: Numbers, now_ms: int) -> pa.Array:
        length = self._length
        elements = self._element.make(element_rows(rows, length), now_ms)
        owners = np.repeat(np.arange(len(rows), dtype=np.int64), length)
        codes = elements.dictionary_encode().indices.to_numpy().astype(np.int64)
        _, first, counts = np.unique(
            owners * (len(elements) + 1) + codes, return_index=True, return_counts=True
        )
        order = np.argsort(first)
        kept = first[order]
        offsets = np.concatenate(([0], np.cumsum(np.bincount(owners[kept], minlength=len(rows)))))
        return pa.MapArray.from_arrays(
            pa.array(offsets.astype(np.int32)),
            elements.take(pa.array(kept)),
            pa.array(counts[order].astype(np.int32)),
            type=self._type,
        )
