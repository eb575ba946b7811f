"""Messages of Protocol Buffers as columns, by tables that were compiled from their descriptor.

A context is a message type where it stands in the columns: that of the rows, one for each message within, and one for the
elements of each list of messages. Its lines of `fields` are in the order of their numbers. Fields come in any order and may be
repeated: the last value counts, and messages are merged. What a malformed message has written is written over by the next one.
"""

from __future__ import annotations

import numpy as np

from sqlstream.runtime.kernels.intrinsics import (
    copy_bytes,
    is_text,
    load_8,
    load_32,
    load_64,
    load_float,
    store_8,
    store_32,
    store_64,
    store_double,
)
from sqlstream.runtime.native.kernel import inlined, kernel

# How a field is encoded and taken. WORD: 64 bits, SIGNED: the low 32 bits, within the limits A and B. UNSIGNED: the low 32 bits.
# ZIGZAG: signed, by its lowest bit. SYMBOL, NUMBER: an enum as its text, or as its number, by the B lines of `symbols` from A on.
WORD, SIGNED, UNSIGNED, ZIGZAG, BOOLEAN, SYMBOL, NUMBER = range(7)
FIXED_SIGNED, FIXED_UNSIGNED, FLOAT, FIXED_WORD, BYTES, TEXT, MESSAGE = range(7, 14)

# A line of `fields`. LIST: the column of the list that the value is an element of, whose scope is WITHIN; −1 for none.
# A of a MESSAGE: its context. UNKNOWN: the line of `symbols` for a number that the enum does not have; −1 where that is no value.
# CLEARED, CLEARED_COUNT: the lines of `resets` for the other members of its oneof.
FIELD, KIND, COLUMN, LIST, WITHIN, A, B, UNKNOWN, CLEARED, CLEARED_COUNT = range(10)
FIELD_WIDTH = 10

# A line of `contexts`: its fields, what begins an entry of it, and the column that says whether it is there (−1 for none).
FIRST, COUNT, RESET, RESET_COUNT, THERE = range(5)
CONTEXT_WIDTH = 5

# A line of `resets`: what an entry of a column is until a field says otherwise. SHAPE: how its value is stored; IS_THERE: 0 for
# NULL; DEFAULT: the value, the line of `symbols`, or the scope of the elements.
RESET_COLUMN, SHAPE, IS_THERE, DEFAULT = range(4)
RESET_WIDTH = 4
NO_VALUE, IN_WORD, IN_BYTE, AS_TEXT, AS_LIST, AS_INNER_LIST = range(6)

# A line of `symbols`: a number of an enum, and the address and length of a text.
SYMBOL_WIDTH = 3

# The columns: addresses, the number of NULLs, which is not counted here, and the scope.
VALUES, OFFSETS, VALID, NULLS, SCOPE = range(5)

# The stack: where a message ends, its context, the line of the field that it is an element of (−1 for none), the next field.
END, CONTEXT, ELEMENT, NEXT = range(4)
FRAME_WIDTH = 4
GROUPS_MAX = 64

# Why a message is rejected.
TOO_SHORT, NO_NUMBER, NO_TAG, NO_TEXT, OUT_OF_RANGE, NO_GROUP = range(-1, -7, -1)

_SEVEN, _LOW_BITS, _ONE, _ZERO = np.uint64(7), np.uint64(127), np.uint64(1), np.uint64(0)
_LOW_32 = np.uint64(0xFFFFFFFF)
_VARINT, _EIGHT, _DELIMITED, _GROUP, _GROUP_END, _FOUR = range(6)


@inlined
def _varint(at, end):  # type: ignore[no-untyped-def]
    """Up to 64 bits and the address behind them, which is TOO_SHORT or NO_NUMBER when there are none."""
    if at < end:
        byte = load_8(at)
        if byte <= _LOW_BITS:
            return byte, at + 1
    word = _ZERO
    shift = _ZERO
    while at < end:
        byte = load_8(at)
        at += 1
        word |= (byte & _LOW_BITS) << shift
        if byte <= _LOW_BITS:
            return word, at
        shift += _SEVEN
        if shift >= np.uint64(70):
            return _ZERO, np.int64(NO_NUMBER)
    return _ZERO, np.int64(TOO_SHORT)


@inlined
def _low_signed(word):  # type: ignore[no-untyped-def]
    """The low 32 bits as a signed number."""
    return np.int64(word << np.uint64(32)) >> 32


@inlined
def _skip(at, end, wire, number, groups):  # type: ignore[no-untyped-def]
    """The address behind the value of a field that nobody wants."""
    depth = 0
    while True:
        if wire == _VARINT:
            word, at = _varint(at, end)
        elif wire in (_EIGHT, _FOUR):
            at += 8 if wire == _EIGHT else 4
        elif wire == _DELIMITED:
            word, at = _varint(at, end)
            if at >= 0:
                if word > np.uint64(end - at):
                    return np.int64(TOO_SHORT)
                at += np.int64(word)
        elif wire == _GROUP:
            if depth == GROUPS_MAX:
                return np.int64(NO_GROUP)
            groups[depth] = number
            depth += 1
        elif wire == _GROUP_END:
            if depth == 0 or groups[depth - 1] != number:
                return np.int64(NO_GROUP)
            depth -= 1
        else:
            return np.int64(NO_TAG)
        if at < 0:
            return at
        if at > end:
            return np.int64(TOO_SHORT)
        if depth == 0:
            return at
        word, at = _varint(at, end)
        if at < 0:
            return at
        wire, number = np.int64(word & _SEVEN), np.int64(word >> np.uint64(3))
        if number == 0 or number >= 1 << 29:
            return np.int64(NO_TAG)


@inlined
def _reset(first, count, resets, columns, cursors, symbols):  # type: ignore[no-untyped-def]
    """Begin entries of columns."""
    for line in range(first, first + count):
        column = resets[line, RESET_COLUMN]
        shape, default = resets[line, SHAPE], resets[line, DEFAULT]
        i = cursors[columns[column, SCOPE]]
        if shape == AS_INNER_LIST:
            # A list within elements that are forgotten: its own begin where theirs did.
            cursors[default] = np.int64(load_32(columns[column, OFFSETS] + 4 * i))
            continue
        store_8(columns[column, VALID] + i, np.uint64(resets[line, IS_THERE]))
        if shape == IN_WORD:
            store_64(columns[column, VALUES] + 8 * i, np.uint64(default))
        elif shape == IN_BYTE:
            store_8(columns[column, VALUES] + i, np.uint64(default))
        elif shape == AS_TEXT:
            offsets = columns[column, OFFSETS] + 4 * i
            begin, length = np.int64(load_32(offsets)), symbols[default, 2]
            copy_bytes(columns[column, VALUES] + begin, symbols[default, 1], length)
            store_32(offsets + 4, np.uint64(begin + length))
        elif shape == AS_LIST:
            offsets = columns[column, OFFSETS] + 4 * i
            begin = load_32(offsets)
            store_32(offsets + 4, begin)
            cursors[default] = np.int64(begin)


@inlined
def _found(number, first, count, fields, place):  # type: ignore[no-untyped-def]
    """The line of the field with this number, which is often the next or the last one; −1 for none."""
    if place < first + count and fields[place, FIELD] == number:
        return place
    if place > first and fields[place - 1, FIELD] == number:
        return place - 1
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if fields[middle, FIELD] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < first + count and fields[low, FIELD] == number else np.int64(-1)


@inlined
def _symbol(number, first, count, symbols):  # type: ignore[no-untyped-def]
    """The line of a number of an enum, −1 for none."""
    low, high = first, first + count
    while low < high:
        middle = (low + high) >> 1
        if symbols[middle, 0] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < first + count and symbols[low, 0] == number else np.int64(-1)


@inlined
def _put_bytes(column, i, source, length, columns):  # type: ignore[no-untyped-def]
    offsets = columns[column, OFFSETS] + 4 * i
    begin = np.int64(load_32(offsets))
    copy_bytes(columns[column, VALUES] + begin, source, length)
    store_32(offsets + 4, np.uint64(begin + length))


@inlined
def _value(at, end, f, fields, columns, cursors, symbols):  # type: ignore[no-untyped-def]
    """Read a value into its column. Returns the address behind it, or why there is none, and whether it is a value."""
    kind, column = fields[f, KIND], fields[f, COLUMN]
    i = cursors[columns[column, SCOPE]]
    values = columns[column, VALUES]
    if kind <= NUMBER:
        word, at = _varint(at, end)
        if at < 0:
            return at, False
        if kind == WORD:
            if np.int64(word) < fields[f, A] or np.int64(word) > fields[f, B]:
                return np.int64(OUT_OF_RANGE), False
            store_64(values + 8 * i, word)
        elif kind == SIGNED:
            number = _low_signed(word)
            if number < fields[f, A] or number > fields[f, B]:
                return np.int64(OUT_OF_RANGE), False
            store_64(values + 8 * i, np.uint64(number))
        elif kind == UNSIGNED:
            store_64(values + 8 * i, word & _LOW_32)
        elif kind == ZIGZAG:
            store_64(values + 8 * i, (word >> _ONE) ^ (_ZERO - (word & _ONE)))
        elif kind == BOOLEAN:
            store_8(values + i, _ONE if word != _ZERO else _ZERO)
        else:
            number = _low_signed(word)
            line = _symbol(number, fields[f, A], fields[f, B], symbols)
            line = fields[f, UNKNOWN] if line < 0 else line
            if line < 0:
                return at, False
            if kind == NUMBER:
                store_64(values + 8 * i, np.uint64(number))
            else:
                _put_bytes(column, i, symbols[line, 1], symbols[line, 2], columns)
    elif kind <= FLOAT:
        if end - at < 4:
            return np.int64(TOO_SHORT), False
        if kind == FLOAT:
            store_double(values + 8 * i, load_float(at))
        elif kind == FIXED_SIGNED:
            store_64(values + 8 * i, np.uint64(_low_signed(load_32(at))))
        else:
            store_64(values + 8 * i, load_32(at))
        at += 4
    elif kind == FIXED_WORD:
        if end - at < 8:
            return np.int64(TOO_SHORT), False
        store_64(values + 8 * i, load_64(at))
        at += 8
    else:
        word, at = _varint(at, end)
        if at < 0:
            return at, False
        if word > np.uint64(end - at):
            return np.int64(TOO_SHORT), False
        length = np.int64(word)
        if kind == TEXT and not is_text(at, at + length):
            return np.int64(NO_TEXT), False
        _put_bytes(column, i, at, length, columns)
        at += length
    store_8(columns[column, VALID] + i, _ONE)
    return at, True


@inlined
def _end_element(f, fields, columns, cursors):  # type: ignore[no-untyped-def]
    """An element of a list is whole."""
    cursors[fields[f, WITHIN]] += 1
    column = fields[f, LIST]
    i = cursors[columns[column, SCOPE]]
    store_8(columns[column, VALID] + i, _ONE)
    store_32(columns[column, OFFSETS] + 4 * i + 4, np.uint64(cursors[fields[f, WITHIN]]))


@inlined
def _wire(kind):  # type: ignore[no-untyped-def]
    """How values of a kind are encoded."""
    if kind <= NUMBER:
        return _VARINT
    if kind <= FLOAT:
        return _FOUR
    return _EIGHT if kind == FIXED_WORD else _DELIMITED


@inlined
def _packed(at, end, f, fields, columns, cursors, symbols):  # type: ignore[no-untyped-def]
    """Read the elements of a list that stand behind their length."""
    word, at = _varint(at, end)
    if at < 0:
        return at
    if word > np.uint64(end - at):
        return np.int64(TOO_SHORT)
    end = at + np.int64(word)
    while at < end:
        at, is_value = _value(at, end, f, fields, columns, cursors, symbols)
        if at < 0:
            return at
        if is_value:
            _end_element(f, fields, columns, cursors)
    return at


@inlined
def _row(  # type: ignore[no-untyped-def]
    at, end, contexts, fields, resets, columns, cursors, symbols, stack, groups
):
    """Read a message; returns the address behind it, or why there is none."""
    depth = 0
    stack[0, END], stack[0, CONTEXT], stack[0, ELEMENT], stack[0, NEXT] = end, 0, -1, contexts[0, FIRST]
    _reset(contexts[0, RESET], contexts[0, RESET_COUNT], resets, columns, cursors, symbols)
    while True:
        if at == stack[depth, END]:
            f = stack[depth, ELEMENT]
            if f >= 0:
                _end_element(f, fields, columns, cursors)
            if depth == 0:
                return at
            depth -= 1
            continue
        end, context = stack[depth, END], stack[depth, CONTEXT]
        word, at = _varint(at, end)
        if at < 0:
            return at
        number, wire = np.int64(word >> np.uint64(3)), np.int64(word & _SEVEN)
        if number <= 0 or number >= 1 << 29:
            return np.int64(NO_TAG)
        f = _found(number, contexts[context, FIRST], contexts[context, COUNT], fields, stack[depth, NEXT])
        if f >= 0:
            stack[depth, NEXT] = f + 1
            kind, is_element = fields[f, KIND], fields[f, LIST] >= 0
            if wire == _wire(kind):
                if fields[f, CLEARED_COUNT] > 0:
                    _reset(fields[f, CLEARED], fields[f, CLEARED_COUNT], resets, columns, cursors, symbols)
                if kind != MESSAGE:
                    at, is_value = _value(at, end, f, fields, columns, cursors, symbols)
                    if at < 0:
                        return at
                    if is_element and is_value:
                        _end_element(f, fields, columns, cursors)
                    continue
                word, at = _varint(at, end)
                if at < 0:
                    return at
                if word > np.uint64(end - at):
                    return np.int64(TOO_SHORT)
                inner = fields[f, A]
                there = contexts[inner, THERE]
                is_new = True
                if there >= 0:
                    place = columns[there, VALID] + cursors[columns[there, SCOPE]]
                    is_new = is_element or load_8(place) == _ZERO
                    store_8(place, _ONE)
                if is_new:
                    _reset(
                        contexts[inner, RESET],
                        contexts[inner, RESET_COUNT],
                        resets,
                        columns,
                        cursors,
                        symbols,
                    )
                depth += 1
                stack[depth, END], stack[depth, CONTEXT] = at + np.int64(word), inner
                stack[depth, ELEMENT] = f if is_element else -1
                stack[depth, NEXT] = contexts[inner, FIRST]
                continue
            if is_element and wire == _DELIMITED and kind <= FIXED_WORD:
                at = _packed(at, end, f, fields, columns, cursors, symbols)
                if at < 0:
                    return at
                continue
        at = _skip(at, end, wire, number, groups)
        if at < 0:
            return at


@inlined
def _take_back(columns, lists, cursors):  # type: ignore[no-untyped-def]
    """Forget the elements of a row that is not whole. Lists stand before those in their elements."""
    for scope in range(1, len(cursors)):
        column = lists[scope]
        place = columns[column, OFFSETS] + 4 * cursors[columns[column, SCOPE]]
        cursors[scope] = np.int64(load_32(place))


@kernel(
    "UniTuple(int64, 2)(int64, int32[::1], int64, uint8[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[:, ::1],"
    " int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])"
)
def decode_messages(  # type: ignore[no-untyped-def]
    data,
    bounds,
    header,
    is_there,
    contexts,
    fields,
    resets,
    columns,
    lists,
    cursors,
    symbols,
    stack,
    groups,
    owners,
    rejected,
):
    """Read messages: message m is the bytes `bounds[m]` to `bounds[m + 1]` behind the address `data`, behind a header of so many
    bytes, and a row where `is_there`. `lists` has the list of each scope, `stack` a frame for each depth of messages.

    `owners` gets the message of each row, `rejected` message and reason of each that is malformed. Returns how many there are of
    both.
    """
    rows, failures = np.int64(0), np.int64(0)
    for m in range(len(is_there)):
        if is_there[m] == 0:
            continue
        at, end = data + np.int64(bounds[m]) + header, data + np.int64(bounds[m + 1])
        at = (
            _row(at, end, contexts, fields, resets, columns, cursors, symbols, stack, groups)
            if at <= end
            else np.int64(TOO_SHORT)
        )
        if at < 0:
            _take_back(columns, lists, cursors)
            rejected[failures, 0] = m
            rejected[failures, 1] = at
            failures += 1
        else:
            owners[rows] = m
            rows += 1
            cursors[0] = rows
    return rows, failures
