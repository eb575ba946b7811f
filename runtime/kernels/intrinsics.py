"""What kernels share: 128-bit multiply, unaligned loads, a search for a byte, prefetch, the mixers, the comparison of bytes and
of values, numbers and timestamps read from texts, and the escapes of JSON.

The only file that other kernel files may inline from (see the package's docstring). Functions here carry no
signature: they compile as part of their callers and are cached with them. Addresses are int64; loads are
little-endian, as Arrow's buffers are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.native.kernel import always_inlined, inlined, instruction

# Odd constants with balanced bits: wyhash's secrets and the golden ratio.
SECRET_0 = np.uint64(0xA0761D6478BD642F)
SECRET_1 = np.uint64(0xE7037ED1A0B428DB)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
#: The hash of NULL, whatever its type.
NULL_HASH = np.uint64(0x5D3C8A91E6F40B27)

#: Marks a long value's place in an arena, so that no stored word equals the address of a value in a batch.
IN_ARENA = np.uint64(1 << 63)
#: How the values of a column are compared (see `compared_values`).
INTEGER_ORDER, FLOAT_ORDER, DECIMAL_ORDER, BYTES_ORDER = 0, 1, 2, 3

_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_SIGN = np.uint64(1 << 63)
_HIGH_BITS = np.uint64(0x8080808080808080)
_VECTOR_BYTES = 64


@instruction("uint64(uint64, uint64)")
def mul_fold(ir: Any, builder: Any, a: Any, b: Any) -> Any:
    """The high half of the 128-bit product of two uint64, xor the low half."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))
    return builder.xor(high, builder.trunc(product, ir.IntType(64)))


def _load(bits: int, ir: Any, builder: Any, address: Any) -> Any:
    pointer = builder.inttoptr(address, ir.IntType(bits).as_pointer())
    value = builder.load(pointer, align=1, typ=ir.IntType(bits))
    return value if bits == 64 else builder.zext(value, ir.IntType(64))


@instruction("uint64(int64)")
def load_8(ir: Any, builder: Any, address: Any) -> Any:
    """One byte as uint64."""
    return _load(8, ir, builder, address)


@instruction("uint64(int64)")
def load_32(ir: Any, builder: Any, address: Any) -> Any:
    """Four bytes, unaligned, as uint64."""
    return _load(32, ir, builder, address)


@instruction("uint64(int64)")
def load_64(ir: Any, builder: Any, address: Any) -> Any:
    """Eight bytes, unaligned, as uint64."""
    return _load(64, ir, builder, address)


def _store(bits: int, ir: Any, builder: Any, address: Any, value: Any) -> None:
    pointer = builder.inttoptr(address, ir.IntType(bits).as_pointer())
    builder.store(value if bits == 64 else builder.trunc(value, ir.IntType(bits)), pointer, align=1)


@instruction("void(int64, uint64)")
def store_8(ir: Any, builder: Any, address: Any, value: Any) -> None:
    """Write the low byte of a uint64."""
    _store(8, ir, builder, address, value)


@instruction("void(int64, uint64)")
def store_32(ir: Any, builder: Any, address: Any, value: Any) -> None:
    """Write the low four bytes of a uint64, unaligned."""
    _store(32, ir, builder, address, value)


@instruction("void(int64, uint64)")
def store_64(ir: Any, builder: Any, address: Any, value: Any) -> None:
    """Write a uint64, unaligned."""
    _store(64, ir, builder, address, value)


@instruction("float64(int64)")
def load_float(ir: Any, builder: Any, address: Any) -> Any:
    """Four bytes, unaligned, as a wider number."""
    pointer = builder.inttoptr(address, ir.FloatType().as_pointer())
    return builder.fpext(builder.load(pointer, align=1, typ=ir.FloatType()), ir.DoubleType())


@instruction("void(int64, float64)")
def store_double(ir: Any, builder: Any, address: Any, value: Any) -> None:
    """Write a number of eight bytes, unaligned."""
    builder.store(value, builder.inttoptr(address, ir.DoubleType().as_pointer()), align=1)


@instruction("uint64(int64, uint8)")
def byte_places(ir: Any, builder: Any, address: Any, byte: Any) -> Any:
    """Bit i: whether byte i of the 64 at an address is this one."""
    vector = ir.VectorType(ir.IntType(8), _VECTOR_BYTES)
    loaded = builder.load(builder.inttoptr(address, vector.as_pointer()), align=1, typ=vector)
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, byte, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), _VECTOR_BYTES), [0] * _VECTOR_BYTES)
    every = builder.shuffle_vector(one, undefined, lanes)
    return builder.bitcast(builder.icmp_unsigned("==", loaded, every), ir.IntType(_VECTOR_BYTES))


@instruction("int64(uint64)")
def lowest_bit(ir: Any, builder: Any, word: Any) -> Any:
    """The position of the lowest bit that is 1 of a uint64 other than 0."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))


@instruction("void(int64)")
def prefetch(ir: Any, builder: Any, address: Any) -> None:
    """Ask the processor to bring the cache line at an address; never faults."""
    byte_pointer = ir.IntType(8).as_pointer()
    flag = ir.IntType(32)
    function = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(
        builder.module, ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag]), "llvm.prefetch.p0"
    )
    builder.call(function, [builder.inttoptr(address, byte_pointer), flag(0), flag(3), flag(1)])


@instruction("int64()")
def small_buffer(ir: Any, builder: Any) -> Any:
    """The address of 64 bytes on the stack of the kernel."""
    with builder.goto_entry_block():
        place = builder.alloca(ir.ArrayType(ir.IntType(8), 64))
    return builder.ptrtoint(place, ir.IntType(64))


@inlined
def mix(word):  # type: ignore[no-untyped-def]
    """splitmix64's finaliser: a bijection whose every output bit depends on every input bit."""
    word = (word ^ (word >> _S30)) * MIX_1
    word = (word ^ (word >> _S27)) * MIX_2
    return word ^ (word >> _S31)


@inlined
def hash_word(word):  # type: ignore[no-untyped-def]
    """The hash of a value that fits one word."""
    return mix(word + GOLDEN)


@inlined
def combine(left, right):  # type: ignore[no-untyped-def]
    """The hash of two hashes, in this order."""
    word = left * SECRET_1 + right
    word = (word ^ (word >> _S32)) * MIX_1
    return word ^ (word >> _S30)


@inlined
def hash_bytes(address, length):  # type: ignore[no-untyped-def]
    """wyhash's short path and 16-byte loop; reads no byte outside the value."""
    seed = SECRET_0
    if length <= 16:
        if length >= 4:
            step = (length >> 3) << 2
            a = (load_32(address) << _S32) | load_32(address + step)
            b = (load_32(address + length - 4) << _S32) | load_32(address + length - 4 - step)
        elif length > 0:
            a = (
                (load_8(address) << np.uint64(16))
                | (load_8(address + (length >> 1)) << np.uint64(8))
                | load_8(address + length - 1)
            )
            b = np.uint64(0)
        else:
            a = np.uint64(0)
            b = np.uint64(0)
    else:
        left = length
        at = address
        while left > 16:
            seed = mul_fold(load_64(at) ^ SECRET_1, load_64(at + 8) ^ seed)
            left -= 16
            at += 16
        a = load_64(at + left - 16)
        b = load_64(at + left - 8)
    return mul_fold(SECRET_0 ^ np.uint64(length), mul_fold(a ^ SECRET_1, b ^ seed) ^ SECRET_1)


@inlined
def equal_bytes(left, right, length):  # type: ignore[no-untyped-def]
    """Whether two byte ranges of one length hold the same bytes."""
    if length >= 8:
        at = 0
        while at + 8 <= length:
            if load_64(left + at) != load_64(right + at):
                return False
            at += 8
        return load_64(left + length - 8) == load_64(right + length - 8)
    difference = np.uint64(0)
    for at in range(length):
        difference |= load_8(left + at) ^ load_8(right + at)
    return difference == np.uint64(0)


def _copy(width: int, ir: Any, builder: Any, target: Any, source: Any) -> None:
    pointer = ir.VectorType(ir.IntType(8), width).as_pointer()
    loaded = builder.load(builder.inttoptr(source, pointer), align=1, typ=pointer.pointee)
    builder.store(loaded, builder.inttoptr(target, pointer), align=1)


@instruction("void(int64, int64)")
def copy_16(ir: Any, builder: Any, target: Any, source: Any) -> None:
    """Copy 16 bytes between two addresses by one unaligned vector load and store."""
    _copy(16, ir, builder, target, source)


@instruction("void(int64, int64)")
def copy_32(ir: Any, builder: Any, target: Any, source: Any) -> None:
    """As `copy_16`, of 32 bytes."""
    _copy(32, ir, builder, target, source)


@inlined
def copy_bytes(target, source, length):  # type: ignore[no-untyped-def]
    """Copy bytes between ranges that do not overlap."""
    if length >= 8:
        at = 0
        while at + 8 <= length:
            store_64(target + at, load_64(source + at))
            at += 8
        store_64(target + length - 8, load_64(source + length - 8))
    elif length >= 4:
        head, tail = load_32(source), load_32(source + length - 4)
        store_32(target, head)
        store_32(target + length - 4, tail)
    else:
        for at in range(length):
            store_8(target + at, load_8(source + at))


@inlined
def short_bytes(address, length):  # type: ignore[no-untyped-def]
    """At most eight bytes as one word, missing ones 0."""
    if length == 8:
        return load_64(address)
    word = np.uint64(0)
    for at in range(length):
        word |= load_8(address + at) << np.uint64(8 * at)
    return word


@inlined
def is_set(bitmap, position):  # type: ignore[no-untyped-def]
    """Arrow's bit order: the lowest bit of a byte is its first."""
    return (bitmap[position >> 3] >> np.uint8(position & 7)) & np.uint8(1) != 0


@inlined
def is_same_row(left, right, arena, payloads, width):  # type: ignore[no-untyped-def]
    """Whether two rows of words (see `RowLayout`) are equal; long values of `right` that are marked stand in
    the arena.
    """
    for w in range(width):
        a, b = load_64(left + w * 8), load_64(right + w * 8)
        if a != b:
            if load_8(payloads + w) == np.uint64(0):
                return False
            length = np.int64(load_64(left + w * 8 - 8))
            place = np.int64(b & ~IN_ARENA) + (arena if b & IN_ARENA else 0)
            if length <= 8 or not equal_bytes(np.int64(a), place, length):
                return False
    return True


@inlined
def _signed(x, y):  # type: ignore[no-untyped-def]
    return 0 if x == y else (-1 if x < y else 1)


@inlined
def _bytes_at(value, arena):  # type: ignore[no-untyped-def]
    """The address of a value's bytes: at most eight are in the row."""
    if np.int64(load_64(value)) <= 8:
        return value + 8
    return arena + np.int64(load_64(value + 8) & ~IN_ARENA)


@inlined
def _compared_bytes(left, left_length, right, right_length):  # type: ignore[no-untyped-def]
    shorter = min(left_length, right_length)
    for at in range(shorter):
        x, y = load_8(left + at), load_8(right + at)
        if x != y:
            return -1 if x < y else 1
    return _signed(left_length, right_length)


@inlined
def compared_values(left, right, arena, order):  # type: ignore[no-untyped-def]
    """Negative, 0 or positive: the order of the values at two addresses, each as a row of words has it; `order` is that of their
    column. NaN is greater than every number."""
    x, y = load_64(left), load_64(right)
    if order == INTEGER_ORDER:
        return _signed(np.int64(x), np.int64(y))
    if order == FLOAT_ORDER:
        # The bits of a positive double are in its order, those of a negative one in reverse; the one NaN is above infinity.
        x = ~x if x & _SIGN else x | _SIGN
        y = ~y if y & _SIGN else y | _SIGN
        return 0 if x == y else (-1 if x < y else 1)
    if order == DECIMAL_ORDER:
        high = _signed(np.int64(load_64(left + 8)), np.int64(load_64(right + 8)))
        return high if high != 0 else (0 if x == y else (-1 if x < y else 1))
    return _compared_bytes(_bytes_at(left, arena), np.int64(x), _bytes_at(right, arena), np.int64(y))


_HIGH_NIBBLES, _SIXES = np.uint64(0xF0F0F0F0F0F0F0F0), np.uint64(0x0606060606060606)
_THREES, _LOW_NIBBLES = np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)


@always_inlined
def other_than_digits(word):  # type: ignore[no-untyped-def]
    """Not 0 in the bytes of a word that are no digits. (A sum carries only into bytes behind the first such one.)"""
    return ((word & _HIGH_NIBBLES) | (((word + _SIXES) & _HIGH_NIBBLES) >> np.uint64(4))) ^ _THREES


@always_inlined
def number_of_digits(word):  # type: ignore[no-untyped-def]
    """The number that eight digits are, of which the first is the lowest byte."""
    # Neighbours are added up in pairs: digits to twos, twos to fours, fours to eight.
    word = ((word & _LOW_NIBBLES) * np.uint64(2561)) >> np.uint64(8)
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    return ((word & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)


POWERS = np.array([10**digits for digits in range(20)], dtype=np.uint64)
"""Those that fit a word."""


@instruction("int64(uint64)")
def trailing_zeros(ir: Any, builder: Any, word: Any) -> Any:
    """How many of the lowest bits of a uint64 are 0."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 0))


@always_inlined
def digits_at(at, end, readable):  # type: ignore[no-untyped-def]
    """The digits from `at` on, up to `end`, as a number; returns (behind them, the number, how many): the number is right when
    they are at most 19, leading zeros apart. Memory may be read up to `readable`."""
    first, value = at, np.uint64(0)
    while at + 8 <= readable:
        word = load_64(at)
        count = min(trailing_zeros(other_than_digits(word)) >> 3, end - at)
        if count == 0:
            return at, value, at - first
        # Fewer than eight digits are moved to where the last ones of eight stand, behind zeros.
        value = value * POWERS[count] + number_of_digits(word << np.uint64(64 - 8 * count))
        at += count
        if count < 8:
            return at, value, at - first
    while at < end and 48 <= np.int64(load_8(at)) <= 57:
        value = value * np.uint64(10) + (load_8(at) - np.uint64(48))
        at += 1
    return at, value, at - first


@inlined
def _exponent_at(at, end):  # type: ignore[no-untyped-def]
    """An exponent of at most two digits, as `e-7`; returns (behind it, or 0 when it is none; it)."""
    if at + 1 >= end:
        return 0, 0
    sign = np.int64(load_8(at + 1))
    at += 2 if sign == 43 or sign == 45 else 1
    first, exponent = at, np.int64(0)
    while at < end and 48 <= np.int64(load_8(at)) <= 57:
        exponent = exponent * 10 + np.int64(load_8(at)) - 48
        at += 1
        if at - first > 2:
            return 0, 0
    if at == first:
        return 0, 0
    return at, (-exponent if sign == 45 else exponent)


@always_inlined
def _short_number(at, end, readable):  # type: ignore[no-untyped-def]
    """`number_at` for digits, a point and digits that are less than eight bytes, without an exponent; 0 for any other number."""
    if at + 8 > readable:
        return 0, np.uint64(0), 0
    word = load_64(at)
    others = other_than_digits(word)
    whole = trailing_zeros(others) >> 3
    if whole == 0 or whole > 5 or load_8(at + whole) != np.uint64(46):
        return 0, np.uint64(0), 0
    behind = np.uint64(8 * (whole + 1))
    fraction = trailing_zeros(others >> behind) >> 3
    after = at + whole + 1 + fraction
    if fraction == 0 or after >= at + 8 or after > end or load_8(after) | np.uint64(32) == np.uint64(101):
        return 0, np.uint64(0), 0
    # The point is taken out, and the digits are moved to where the last ones of eight stand.
    before = np.uint64(8 * whole)
    word = (word & ((np.uint64(1) << before) - np.uint64(1))) | (word >> behind) << before
    return after, number_of_digits(word << np.uint64(64 - 8 * (whole + fraction))), -fraction


@inlined
def number_at(at, end, readable):  # type: ignore[no-untyped-def]
    """A number such as `-12.34` or `1e-7`, which may begin with zeros; returns (behind it, or 0 when it is none or has more than
    19 digits; its digits as a number; the power of ten that they are multiplied by). The sign is left to the caller. Memory may
    be read up to `readable`."""
    if at < end and load_8(at) == np.uint64(45):
        at += 1
    after, digits, power = _short_number(at, end, readable)
    if after != 0:
        return after, digits, power
    at, digits, count = digits_at(at, end, readable)
    if count == 0:
        return 0, digits, 0
    if at < end and load_8(at) == np.uint64(46):
        point = at + 1
        at = point
        if digits == np.uint64(0) and count <= 19:
            # With more digits the number has overflown, and may be zero again. Zeros before the first other digit do not count.
            count = 0
            while at < end and load_8(at) == np.uint64(48):
                at += 1
        at, fraction, more = digits_at(at, end, readable)
        power = point - at
        count += more
        if power == 0:
            return 0, digits, 0
        if count <= 19:
            digits = digits * POWERS[more] + fraction
    if count > 19:
        return 0, digits, 0
    if at < end and load_8(at) | np.uint64(32) == np.uint64(101):
        at, exponent = _exponent_at(at, end)
        power += exponent
    return at, digits, power


@inlined
def unscaled_decimal(digits, power, precision, scale):  # type: ignore[no-untyped-def]
    """digits * 10^power, with less than 20 digits, as the unscaled value of a DECIMAL of at most 18 digits, rounded half up;
    returns (it, whether it fits and was found)."""
    power += scale
    if power < 0:
        if power < -19:
            return np.int64(0), False
        step = POWERS[-power]
        digits = (digits + (step >> np.uint64(1))) // step
        return np.int64(digits), digits < POWERS[precision]
    if power > precision:
        return np.int64(0), digits == np.uint64(0)
    return np.int64(digits * POWERS[power]), digits < POWERS[precision - power]


_EXPONENT_MAX = 160


def _words_of_power(exponent: int) -> tuple[int, int]:
    """128 bits of a power of ten, the first of them 1, as words (high, low): cut off, those of a fraction that a double may
    equal rounded up."""
    size = 5 ** abs(exponent)
    if exponent < 0:
        length = (size - 1).bit_length()
        bits = (1 << (length + 127 if exponent >= -27 else 2 * length + 128)) // size + 1
    else:
        bits = size << 128
    bits >>= bits.bit_length() - 128
    return bits >> 64, bits & (2**64 - 1)


# Of each power of ten from that of -_EXPONENT_MAX on.
_WORDS_OF_POWERS = np.array(
    [_words_of_power(exponent) for exponent in range(-_EXPONENT_MAX, _EXPONENT_MAX + 1)], dtype=np.uint64
)
_EXACT_POWERS = np.array([10.0**digits for digits in range(23)])
_EXACT_DIGITS = np.uint64(1 << 53)
_UNSETTLED = np.uint64(0x1FF)


@instruction("uint64(uint64, uint64)")
def _high_product(ir: Any, builder: Any, a: Any, b: Any) -> Any:
    """The high half of the 128-bit product of two uint64."""
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))


@instruction("int64(uint64)")
def _leading_zeros(ir: Any, builder: Any, word: Any) -> Any:
    """How many of the highest bits are 0 of a uint64 other than 0."""
    return builder.ctlz(word, ir.Constant(ir.IntType(1), 1))


@instruction("float64(uint64)")
def _double_of_bits(ir: Any, builder: Any, word: Any) -> Any:
    return builder.bitcast(word, ir.DoubleType())


@inlined
def rounded_double(digits, exponent):  # type: ignore[no-untyped-def]
    """The double nearest to digits * 10^exponent; returns (it, whether it is that). It is not for exponents beyond 160.

    Digits and powers that are doubles without rounding make a product or a quotient that is rounded once (Clinger 1990). Others
    are multiplied as integers with as many bits of the power as decide (Mushtak and Lemire 2022, "Fast Number Parsing Without
    Fallback").
    """
    if exponent == 0:
        return np.float64(digits), True
    if digits <= _EXACT_DIGITS and -22 <= exponent <= 22:
        exact = np.float64(np.int64(digits))
        return (exact / _EXACT_POWERS[-exponent] if exponent < 0 else exact * _EXACT_POWERS[exponent]), True
    if digits == np.uint64(0):
        return 0.0, True
    if exponent < -_EXPONENT_MAX or exponent > _EXPONENT_MAX:
        return 0.0, False
    zeros = _leading_zeros(digits)
    digits <<= np.uint64(zeros)
    power = _WORDS_OF_POWERS[exponent + _EXPONENT_MAX, 0]
    high, low = _high_product(digits, power), digits * power
    if high & _UNSETTLED == _UNSETTLED:
        # What the lower bits of the power add may carry into the bits that are kept.
        added = _high_product(digits, _WORDS_OF_POWERS[exponent + _EXPONENT_MAX, 1])
        low += added
        if low < added:
            high += np.uint64(1)
    first = high >> np.uint64(63)
    shift = first + np.uint64(9)
    mantissa = high >> shift
    if low <= np.uint64(1) and -4 <= exponent <= 23 and mantissa & np.uint64(3) == np.uint64(1):  # noqa: SIM102
        if mantissa << shift == high:
            # Halfway between two doubles: to the even one.
            mantissa ^= np.uint64(1)
    # 54 bits are rounded to 53; 217706 / 2^16 is a little more than the binary logarithm of 10.
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    carried = mantissa >> np.uint64(53)
    binary = ((217706 * exponent) >> 16) + 1086 - zeros + np.int64(first + carried)
    bits = (np.uint64(binary) << np.uint64(52)) | ((mantissa >> carried) & np.uint64((1 << 52) - 1))
    return _double_of_bits(bits), True


@inlined
def days_of(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970-01-01 in the proleptic Gregorian calendar, by years that begin in March."""
    year -= 1 if month <= 2 else 0
    cycle = year // 400
    of_cycle = year - cycle * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return cycle * 146_097 + of_cycle * 365 + of_cycle // 4 - of_cycle // 100 + of_year - 719_468


@inlined
def days_in(year, month):  # type: ignore[no-untyped-def]
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 + ((month + (month >> 3)) & 1)


# Words of eight characters, the first in the lowest byte: "YYYY-MM-" and "hh:mm:ss". Masks of what is no digit, and what it is.
_DATE_MARKS, _DATE_MARK = np.uint64(0xFF0000FF00000000), np.uint64(0x2D00002D00000000)
_CLOCK_MARKS, _CLOCK_MARK = np.uint64(0x0000FF0000FF0000), np.uint64(0x00003A00003A0000)
_ZEROS, _BYTE, _TWO_BYTES, _S16 = (
    np.uint64(0x3030303030303030),
    np.uint64(0xFF),
    np.uint64(0xFFFF),
    np.uint64(16),
)
# 1678-01-01 and 2261-12-31 are as far from the epoch: nanoseconds reach no other years as a whole.
_NANOSECOND_DAYS = 106_650


@always_inlined
def _pairs(word, marks, mark):  # type: ignore[no-untyped-def]
    """Whether a word has these marks and digits elsewhere; in each byte that begins two digits, the number that they are."""
    digits = (word & ~marks) | (_ZEROS & marks)
    fits = (word & marks) == mark and other_than_digits(digits) == np.uint64(0)
    digits ^= _ZEROS
    return fits, digits * np.uint64(10) + (digits >> np.uint64(8))


@always_inlined
def _pair(pairs, place):  # type: ignore[no-untyped-def]
    return np.int64((pairs >> np.uint64(8 * place)) & _BYTE)


@inlined
def _day_at(at):  # type: ignore[no-untyped-def]
    """`YYYY-MM-DD` as days since the epoch; returns (them, whether it is a day of the years 1 to 9999)."""
    fits, pairs = _pairs(load_64(at), _DATE_MARKS, _DATE_MARK)
    year, month = _pair(pairs, 0) * 100 + _pair(pairs, 2), _pair(pairs, 5)
    ten, one = np.int64(load_8(at + 8)) - 48, np.int64(load_8(at + 9)) - 48
    day = ten * 10 + one
    is_day = fits and year > 0 and 1 <= month <= 12 and 0 <= ten <= 3 and 0 <= one <= 9
    if not is_day or day < 1 or day > days_in(year, month):
        return np.int64(0), False
    return days_of(year, month, day), True


@always_inlined
def timestamp_at(at, end, readable, kept, digits):  # type: ignore[no-untyped-def]
    """A timestamp as most are written, `YYYY-MM-DD hh:mm:ss`, with `T` for the blank, and with a fraction; returns (behind it, or
    0 when it is none of the years 1 to 9999, or 1678 to 2261 for nanoseconds; it in parts of a second, of so many digits, since
    the epoch). More digits of a fraction are cut off.

    `kept` is the address of 16 bytes for the last date, the second eight of which are 0 at first. Memory may be read up to
    `readable`.
    """
    if at + 19 > end:
        return 0, np.int64(0)
    date, of_month, last = load_64(at), load_32(at + 8) & _TWO_BYTES, load_64(kept + 8)
    if last == np.uint64(0) or date != load_64(kept) or of_month != last & _TWO_BYTES:
        days, is_day = _day_at(at)
        if not is_day or (digits == 9 and abs(days) > _NANOSECOND_DAYS):
            return 0, np.int64(0)
        last = np.uint64(days) << _S16 | of_month
        store_64(kept, date)
        store_64(kept + 8, last)
    fits, pairs = _pairs(load_64(at + 11), _CLOCK_MARKS, _CLOCK_MARK)
    hour, minute, second = _pair(pairs, 0), _pair(pairs, 3), _pair(pairs, 6)
    between = load_8(at + 10)
    is_separated = between == np.uint64(32) or between == np.uint64(84)
    if not fits or not is_separated or hour > 23 or minute > 59 or second > 59:
        return 0, np.int64(0)
    at += 19
    seconds = (np.int64(last) >> 16) * 86_400 + (hour * 60 + minute) * 60 + second
    value = seconds * np.int64(POWERS[digits])
    if at < end and load_8(at) == np.uint64(46):
        first = at + 1
        at, fraction, count = digits_at(first, end, readable)
        if count == 0 or count > 19:
            return 0, np.int64(0)
        if count > digits:
            fraction //= POWERS[count - digits]
        else:
            fraction *= POWERS[digits - count]
        value += np.int64(fraction)
    return at, value


@inlined
def _four_digits(at, end):  # type: ignore[no-untyped-def]
    """Four hexadecimal digits as a number, -1 when they are none."""
    if at + 4 > end:
        return np.int64(-1)
    value = np.int64(0)
    for place in range(4):
        c = np.int64(load_8(at + place))
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= (c | 32) <= 102:
            digit = (c | 32) - 87
        else:
            return np.int64(-1)
        value = value * 16 + digit
    return value


@inlined
def escaped_character(at, end):  # type: ignore[no-untyped-def]
    """The character that the escape at an address in JSON stands for, and the address behind the escape, which ends before `end`.

    It is -1 for what is no escape, and -2 for half a surrogate pair.
    """
    c = np.int64(load_8(at + 1)) if at + 2 <= end else np.int64(0)
    if c != 117:
        code = np.int64(-1)
        if c == 110:
            code = np.int64(10)
        elif c == 34 or c == 92 or c == 47:
            code = c
        elif c == 116:
            code = np.int64(9)
        elif c == 114:
            code = np.int64(13)
        elif c == 98:
            code = np.int64(8)
        elif c == 102:
            code = np.int64(12)
        return code, at + 2
    code = _four_digits(at + 2, end)
    at += 6
    if code < 0xD800 or code >= 0xE000:
        return code, at
    if code < 0xDC00 and at + 6 <= end and load_8(at) == np.uint64(92) and load_8(at + 1) == np.uint64(117):
        low = _four_digits(at + 2, end)
        if 0xDC00 <= low < 0xE000:
            return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), at + 6
    return np.int64(-2), at


@inlined
def put_utf8(target, code):  # type: ignore[no-untyped-def]
    """Write a character at an address; returns the address behind it."""
    if code < 0x80:
        store_8(target, np.uint64(code))
        return target + 1
    if code < 0x800:
        store_8(target, np.uint64(0xC0 | (code >> 6)))
    elif code < 0x10000:
        store_8(target, np.uint64(0xE0 | (code >> 12)))
        store_8(target + 1, np.uint64(0x80 | ((code >> 6) & 63)))
        target += 1
    else:
        store_8(target, np.uint64(0xF0 | (code >> 18)))
        store_8(target + 1, np.uint64(0x80 | ((code >> 12) & 63)))
        store_8(target + 2, np.uint64(0x80 | ((code >> 6) & 63)))
        target += 2
    store_8(target + 1, np.uint64(0x80 | (code & 63)))
    return target + 2


@inlined
def is_text(at, end):  # type: ignore[no-untyped-def]
    """Whether bytes are UTF-8."""
    while at < end:
        if at + 8 <= end and load_64(at) & _HIGH_BITS == np.uint64(0):
            at += 8
            continue
        lead = np.int64(load_8(at))
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead < 0xE0:
            more = 1
        elif 0xE0 <= lead < 0xF0:
            more = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead < 0xF5:
            more = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return False
        if at + more > end:
            return False
        second = np.int64(load_8(at))
        if second < low or second > high:
            return False
        for place in range(1, more):
            if load_8(at + place) & np.uint64(0xC0) != np.uint64(0x80):
                return False
        at += more
    return True
