"""The loops of the Nexmark generator: event numbers in, column buffers out.

Randomness is counter-based: draw `f` of event `n` is `mix(key(seed, f) + n * GOLDEN)`. That is the n-th output of
the SplitMix64 generator that starts at the field's key (Steele, Lea, Flood, "Fast splittable pseudorandom number
generators", 2014). No event depends on another, so any range of numbers can be generated
by itself, in any order, by any subtask. A draw's high and low 32 bits serve as two independent numbers; `below`
maps 32 bits to [0, bound) without a division.

Strings are copied in blocks of 16 or 32 bytes, whatever their length: each copy spills over the end of its
row and the next row overwrites what spilled. Outputs have as much slack at their end as one row's blocks
can spill.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import GOLDEN, copy_16, copy_32, mix
from sqlstream.runtime.native.kernel import READ_BYTES, always_inlined, kernel

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)

# As in runtime/connectors/generators/nexmark_draws.py, which kernels do not import.
SHUFFLE_FACTOR = 953
# Hot ids are the first of their block of a hundred, in the public suite whatever the hot ratio is.
HOT_BLOCK = 100
# How far past the last id that exists a random id may lie.
LEAD = 10
PRICE_DIGIT_BITS = 10


@always_inlined
def draw(key: Any, number: Any) -> Any:
    return mix(key + np.uint64(number) * GOLDEN)


@always_inlined
def below(bits: Any, bound: Any) -> Any:
    """32 random bits → a number in [0, bound), for bounds under 2^31 (Lemire's multiply and shift)."""
    return np.int64((bits * np.uint64(bound)) >> _HALF)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def select_events(
    start: int, stop: int, total: int, low: int, high: int, group: int, numbers: Any, epochs: Any
) -> int:
    """Numbers and epochs of the events at positions [start, stop) whose place in the epoch is in [low, high).

    With `group` > 1, positions are shuffled within their group. Returns how many there are.
    """
    count = 0
    for position in range(start, stop):
        number = position
        if group > 1:
            offset = position % group
            number = position - offset + (offset * SHUFFLE_FACTOR) % group
        epoch = number // total
        place = number - epoch * total
        if low <= place < high:
            numbers[count] = number
            epochs[count] = epoch
            count += 1
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64[::1], int64[::1])")
def select_events_in_order(
    start: int, stop: int, total: int, low: int, high: int, numbers: Any, epochs: Any
) -> int:
    """`select_events` without shuffling: a walk over epochs that visits no events of other kinds."""
    count = 0
    for epoch in range(start // total, (stop + total - 1) // total):
        base = epoch * total
        first = max(start, base + low)
        end = min(stop, base + high)
        for number in range(first, end):
            numbers[count + number - first] = number
            epochs[count + number - first] = epoch
        count += max(0, end - first)
    return count


@kernel("void(int64[::1], int64, int64, int64[::1])")
def event_times(numbers: Any, base_time_ms: int, rate: int, out: Any) -> None:
    """base time + n / rate, in whole milliseconds."""
    time, rest, before = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(numbers)):
        # Most numbers follow one another: the remainder tells whether the millisecond is the same, or the next.
        rest += (numbers[i] - before) * 1000
        before = numbers[i]
        if rest >= rate:
            rest -= rate
            time += 1
        if rest < 0 or rest >= rate:
            time = (before * 1000) // rate
            rest = before * 1000 - time * rate
        out[i] = base_time_ms + time


@kernel("void(int64[::1], uint64, int64, int64, int64[::1])")
def auction_lengths(numbers: Any, key: int, rate: int, numbers_ahead: int, out: Any) -> None:
    """Milliseconds until an auction expires: 1 + uniform(0, twice the time of `numbers_ahead` events)."""
    for i in range(len(numbers)):
        number = numbers[i]
        horizon = ((number + numbers_ahead) * 1000) // rate - (number * 1000) // rate
        bits = draw(key, number)
        # A slow rate gives horizons past 2^31 ms, so this draw uses a remainder of all its bits.
        out[i] = 1 + np.int64((bits >> np.uint64(1)) % np.uint64(max(2 * horizon, 1)))


@kernel("void(int64[::1], int64[::1], uint64, int64, int64, int64, int64, int64, int64[::1])")
def references(
    numbers: Any,
    epochs: Any,
    key: int,
    per_epoch: int,
    hot_ratio: int,
    recent: int,
    first: int,
    hot: int,
    out: Any,
) -> None:
    """Ids of another kind, of which an epoch that reached its bids holds `per_epoch`.

    With probability 1 - 1/hot_ratio the hot one: `hot` after the start of the last id's block of a hundred;
    else one of the last `recent` + 1 or of the next `LEAD`.
    """
    for i in range(len(numbers)):
        last = epochs[i] * per_epoch + per_epoch - 1
        oldest = max(last - recent, 0)
        bits = draw(key, numbers[i])
        cold_id = oldest + below(bits >> _HALF, last - oldest + 1 + LEAD)
        hot_id = np.int64(np.uint64(last) // np.uint64(HOT_BLOCK)) * HOT_BLOCK + hot
        is_hot = (bits & _LOW_HALF) * np.uint64(hot_ratio) > _LOW_HALF
        out[i] = first + (hot_id if is_hot else cold_id)


@kernel("void(int64[::1], uint64, float64[::1], int64[::1])")
def prices(numbers: Any, key: int, powers: Any, out: Any) -> None:
    """round(10^(6u) * 100), u of 30 bits: the product of three table entries, one for each ten bits of u.

    Neighbouring values of u are a factor 1.3e-8 apart, less than one unit at the highest price.
    """
    size = np.uint64(1 << PRICE_DIGIT_BITS)
    mask = size - np.uint64(1)
    for i in range(len(numbers)):
        bits = draw(key, numbers[i])
        high = powers[bits & mask]
        middle = powers[size + ((bits >> np.uint64(10)) & mask)]
        low = powers[size + size + ((bits >> np.uint64(20)) & mask)]
        out[i] = np.int64(high * middle * low + 0.5)


@kernel("void(int64[::1], uint64, int64, int64, int32[::1])")
def uniform(numbers: Any, key: int, first: int, bound: int, out: Any) -> None:
    """Numbers in [first, first + bound)."""
    for i in range(len(numbers)):
        out[i] = first + below(draw(key, numbers[i]) >> _HALF, bound)


@kernel("void(int64[::1], uint64, int64, int64, int32[::1])")
def channel_picks(numbers: Any, key: int, hot: int, cold: int, out: Any) -> None:
    """Half the time one of the first `hot` channels, else one of the `cold` after them."""
    for i in range(len(numbers)):
        bits = draw(key, numbers[i])
        high = bits >> _HALF
        is_hot = (bits & np.uint64(1)) == np.uint64(0)
        out[i] = below(high, hot) if is_hot else hot + below(high, cold)


@kernel("void(int64[::1], uint64, int64, int32[::1], int32[::1])")
def filler_lengths(numbers: Any, key: int, average: int, used: Any, out: Any) -> None:
    """How many letters bring a row that has `used[i]` bytes to about `average`: what is missing ± 20 %."""
    for i in range(len(numbers)):
        missing = average - used[i]
        if missing < 0:
            missing = 0
        spread = (2 * missing + 5) // 10
        out[i] = missing - spread + below(draw(key, numbers[i]) >> _HALF, 2 * spread)


@kernel("void(int32[::1], int32[::1])")
def offsets_of_lengths(lengths: Any, offsets: Any) -> None:
    """Running sum: Arrow's string offsets."""
    end = 0
    offsets[0] = 0
    for i in range(len(lengths)):
        end += lengths[i]
        offsets[i + 1] = end


@kernel("void(int32[::1], int32[::1], int32[::1])")
def offsets_of_picks(picks: Any, pool_lengths: Any, offsets: Any) -> None:
    """Arrow's string offsets for rows that are picked from a pool."""
    end = 0
    offsets[0] = 0
    for i in range(len(picks)):
        end += pool_lengths[picks[i]]
        offsets[i + 1] = end


@kernel(f"void(int32[::1], {READ_BYTES}, int64, int32[::1], uint8[::1])")
def copy_picks(picks: Any, pool: Any, width: int, offsets: Any, data: Any) -> None:
    """Copy pool entry `picks[i]`, padded to `width` bytes (a multiple of 16), to `offsets[i]`."""
    target, source = data.ctypes.data, pool.ctypes.data
    for i in range(len(picks)):
        to, origin = target + offsets[i], source + picks[i] * width
        for block in range(0, width, 16):
            copy_16(to + block, origin + block)


@kernel(f"void(int64[::1], uint64, {READ_BYTES}, int64, int32[::1], int64, uint8[::1])")
def copy_text(numbers: Any, key: int, pool: Any, starts: int, offsets: Any, width: int, data: Any) -> None:
    """Copy `width` bytes (a multiple of 32) from one of the pool's first `starts` places to `offsets[i]`."""
    target, source = data.ctypes.data, pool.ctypes.data
    for i in range(len(numbers)):
        to = target + offsets[i]
        origin = source + below(draw(key, numbers[i]) & _LOW_HALF, starts)
        for block in range(0, width, 32):
            copy_32(to + block, origin + block)


@kernel("void(int64[::1], uint64, int64, uint8[::1])")
def credit_cards(numbers: Any, key: int, width: int, data: Any) -> None:
    """Sixteen digits in fours, `dddd dddd dddd dddd`: 19 bytes per row, each four from 16 bits of the draw."""
    for i in range(len(numbers)):
        bits = draw(key, numbers[i])
        for group in range(4):
            number = below((bits & np.uint64(0xFFFF)) << np.uint64(16), 10_000)
            bits >>= np.uint64(16)
            at = i * width + group * 5
            for digit in range(3, -1, -1):
                data[at + digit] = 48 + number % 10
                number //= 10
            if group < 3:
                data[at + 4] = 32


@kernel(f"void(int64[::1], uint64, {READ_BYTES}, int64, int32[::1], int32[::1], uint8[::1])")
def email_addresses(
    numbers: Any, key: int, pool: Any, starts: int, users: Any, offsets: Any, data: Any
) -> None:
    """`x@y.com`: `users[i]` letters, then what is left of the row between the at sign and `.com`."""
    for i in range(len(numbers)):
        bits = draw(key, numbers[i])
        user, domain = below(bits & _LOW_HALF, starts), below(bits >> _HALF, starts)
        at = np.int64(offsets[i])
        sign, dot = at + users[i], np.int64(offsets[i + 1]) - 4
        for j in range(at, sign):
            data[j] = pool[user + j - at]
        data[sign] = 64
        for j in range(sign + 1, dot):
            data[j] = pool[domain + j - sign - 1]
        data[dot], data[dot + 1], data[dot + 2], data[dot + 3] = 46, 99, 111, 109
