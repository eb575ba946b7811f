"""Fixed texts that Nexmark's strings are picked from: the same for every seed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.runtime.connectors.generators.nexmark_draws import STEP, Draw, below, draw, draw_key

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
NAMES = tuple(f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES)
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
COLD_CHANNEL_COUNT = 10_000
LETTER_STARTS = 1 << 16
_BLOCK_BYTES = 16


@dataclass(frozen=True)
class StringPool:
    """Strings to pick from, each padded to `width` bytes so that a pick is copied in whole blocks."""

    width: int
    data: Any
    lengths: Any
    dictionary: Any

    @staticmethod
    def of(texts: tuple[str, ...]) -> StringPool:
        """ASCII texts as a pool."""
        encoded = [text.encode("ascii") for text in texts]
        width = -(-max(map(len, encoded)) // _BLOCK_BYTES) * _BLOCK_BYTES
        return StringPool(
            width=width,
            data=np.frombuffer(b"".join(text.ljust(width, b"\0") for text in encoded), dtype=np.uint8),
            lengths=np.array([len(text) for text in encoded], dtype=np.int32),
            dictionary=pa.array(texts, type=pa.string()),
        )


@functools.cache
def letter_pool(width: int) -> Any:
    """Random lower-case letters: any `width` bytes from one of `LETTER_STARTS` places are a text.

    Letter i does not depend on `width`, so that longer rows elsewhere change no text.
    """
    # SplitMix64 for a whole array, wrapping around as unsigned arithmetic does.
    numbers = np.arange(LETTER_STARTS + width, dtype=np.uint64)
    bits = np.uint64(draw_key(0, Draw.POOL_LETTER)) + numbers * np.uint64(STEP)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    letters = (((bits >> np.uint64(32)) * np.uint64(26)) >> np.uint64(32)).astype(np.uint8) + np.uint8(97)
    letters.flags.writeable = False
    return letters


@functools.cache
def name_pool() -> StringPool:
    return StringPool.of(NAMES)


@functools.cache
def city_pool() -> StringPool:
    return StringPool.of(CITIES)


@functools.cache
def state_pool() -> StringPool:
    return StringPool.of(STATES)


@functools.cache
def channel_pool() -> StringPool:
    """The hot channels, then `channel-0` to `channel-9999`."""
    return StringPool.of((*HOT_CHANNELS, *(f"channel-{i}" for i in range(COLD_CHANNEL_COUNT))))


@functools.cache
def url_pool() -> StringPool:
    """The url of each entry of `channel_pool`."""
    letters = letter_pool(32).tobytes().decode("ascii")
    hot = len(HOT_CHANNELS)
    return StringPool.of(tuple(_url(i, i - hot, letters) for i in range(hot + COLD_CHANNEL_COUNT)))


def _url(pick: int, channel: int, letters: str) -> str:
    """Three directories of three or four letters; nine in ten of the numbered channels carry an id."""
    bits = draw(draw_key(0, Draw.POOL_URL), pick)
    directories = []
    for _ in range(3):
        start, length = bits & 0xFFFF, 3 + (bits >> 16 & 1)
        directories.append(letters[start : start + length])
        bits >>= 17
    url = f"https://www.nexmark.com/{'/'.join(directories)}/item.htm?query=1"
    has_channel_id = channel >= 0 and below(draw(draw_key(1, Draw.POOL_URL), pick) >> 32, 10) > 0
    return f"{url}&channel_id={_reversed_bits(channel)}" if has_channel_id else url


def _reversed_bits(channel: int) -> int:
    """The public suite's channel ids: the size of the 32-bit integer read backwards.

    >>> _reversed_bits(2), _reversed_bits(3)
    (1073741824, 1073741824)
    """
    backwards = int(f"{channel:032b}"[::-1], 2)
    return min(backwards, (1 << 32) - backwards) if channel else 0


@functools.cache
def price_powers(digit_bits: int) -> Any:
    """Three tables in one: 100 * 10^(6u) is the product of one entry of each, u's digits from high to low."""
    size = 1 << digit_bits
    digits = np.arange(size, dtype=np.float64)
    parts = [10.0 ** (6.0 * digits / float(size**place)) for place in (1, 2, 3)]
    parts[0] *= 100.0
    return np.concatenate(parts)
