"""Messages of librdkafka (rd_kafka_message_t) as arrays: the fields of each, and payloads one after the other.

A table has a row for each message, whose entries are numbered below. Payloads stay in the library's memory until `release`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import copy_bytes, equal_bytes, load_8, load_32, load_64
from sqlstream.runtime.native.kernel import inlined, instruction, kernel

# The entries of a message. TOPIC is the address of the library's topic; addresses of what is NULL are 0.
ERROR, TOPIC, PARTITION, OFFSET, VALUE, VALUE_BYTES, KEY, KEY_BYTES = range(8)
ENTRIES = 8

# Where they are in an rd_kafka_message_t, which is the same on every machine of 64 bits.
_TOPIC_AT, _PARTITION_AT, _VALUE_AT, _VALUE_BYTES_AT, _KEY_AT, _KEY_BYTES_AT, _OFFSET_AT = (
    8,
    16,
    24,
    32,
    40,
    48,
    56,
)


@instruction("int64(int64, int64, int64)")
def _call(ir: Any, builder: Any, function: Any, first: Any, second: Any) -> Any:
    """Call a C function of two pointers by its address."""
    word = ir.IntType(64)
    pointer = builder.inttoptr(function, ir.FunctionType(word, [word, word]).as_pointer())
    return builder.call(pointer, [first, second])


@instruction("int64(int64, int64, int64, int64, int64, int64)")
def _call_5(ir: Any, builder: Any, function: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
    """Call a C function of five words by its address."""
    word = ir.IntType(64)
    pointer = builder.inttoptr(function, ir.FunctionType(word, [word] * 5).as_pointer())
    return builder.call(pointer, [a, b, c, d, e])


@kernel("int64(int64[::1], int64, int64[:, ::1], int64[::1])")
def describe(messages, count, table, runs):  # type: ignore[no-untyped-def]
    """Fill the table for messages at these addresses. `runs` gets the rows at which another topic, partition or error begins;
    returns how many there are."""
    found = 0
    for row in range(count):
        at = messages[row]
        error = np.int64(np.int32(np.uint32(load_32(at))))
        topic = np.int64(load_64(at + _TOPIC_AT))
        partition = np.int64(np.int32(np.uint32(load_32(at + _PARTITION_AT))))
        if (
            row == 0
            or error != table[row - 1, ERROR]
            or topic != table[row - 1, TOPIC]
            or partition != table[row - 1, PARTITION]
        ):
            runs[found] = row
            found += 1
        table[row, ERROR] = error
        table[row, TOPIC] = topic
        table[row, PARTITION] = partition
        table[row, OFFSET] = np.int64(load_64(at + _OFFSET_AT))
        table[row, VALUE] = np.int64(load_64(at + _VALUE_AT))
        table[row, VALUE_BYTES] = np.int64(load_64(at + _VALUE_BYTES_AT))
        table[row, KEY] = np.int64(load_64(at + _KEY_AT))
        table[row, KEY_BYTES] = np.int64(load_64(at + _KEY_BYTES_AT))
    return found


@kernel("int64(int64[:, ::1], int64, int64, int64, int32[::1], uint8[::1])")
def measure(table, first, end, entry, offsets, valid):  # type: ignore[no-untyped-def]
    """Arrow's offsets and validity of the values (or keys) of these rows; returns how many are NULL. `entry` is VALUE or KEY."""
    nulls = 0
    place = np.int64(0)
    offsets[0] = 0
    for row in range(first, end):
        is_there = table[row, entry] != 0
        valid[row - first] = is_there
        if is_there:
            place += table[row, entry + 1]
        else:
            nulls += 1
        offsets[row - first + 1] = place
    return nulls


@kernel("void(int64[:, ::1], int64, int64, int64, int64)")
def gather(table, first, end, entry, target):  # type: ignore[no-untyped-def]
    """Copy the values (or keys) of these rows one after the other to an address."""
    for row in range(first, end):
        if table[row, entry] != 0:
            length = table[row, entry + 1]
            copy_bytes(target, table[row, entry], length)
            target += length


@kernel("void(int64[::1], int64, int64, int64[::1], int64[::1], int64)")
def timestamps(messages, first, end, times, kinds, function):  # type: ignore[no-untyped-def]
    """The timestamps of messages in milliseconds and their kinds. `function` is rd_kafka_message_timestamp; `kinds` has the place
    that it writes to as its last word, too."""
    last = len(kinds) - 1
    for row in range(first, end):
        times[row - first] = _call(function, messages[row], kinds.ctypes.data + 8 * last)
        kinds[row - first] = np.int64(np.int32(kinds[last]))


# What `scratch` has at the place of a header: the headers of the message, and name, value and length of one of them.
_HEADERS, _NAME, _TEXT, _LENGTH = range(4)
SCRATCH_WORDS = 4
_NAME_BYTES_MAX = 1 << 20


@inlined
def _name_bytes(at):  # type: ignore[no-untyped-def]
    length = np.int64(0)
    while length < _NAME_BYTES_MAX and load_8(at + length) != np.uint64(0):
        length += 1
    return length


@inlined
def _is_repeated(scratch, place, functions, index):  # type: ignore[no-untyped-def]
    """Whether a header behind this one of the message has its name: the last one of a name counts."""
    name = scratch[_NAME]
    length = _name_bytes(name)
    found = False
    later = index + 1
    while (
        _call_5(
            functions[1], scratch[_HEADERS], later, place + 8 * _NAME, place + 8 * _TEXT, place + 8 * _LENGTH
        )
        & 0xFFFFFFFF
    ) == 0:
        if _name_bytes(scratch[_NAME]) == length and equal_bytes(scratch[_NAME], name, length):
            found = True
        later += 1
    return found


@kernel(
    "UniTuple(int64, 3)(int64[::1], int64, int64, int64[::1], int64[::1], int32[::1], int32[:, ::1], int64, int64,"
    " uint8[::1])"
)
def headers(messages, first, end, functions, scratch, counts, offsets, names, values, valid):  # type: ignore[no-untyped-def]
    """The headers of messages, one after the other, without those whose name a later one of the message has.

    `functions` are the addresses of rd_kafka_message_headers and rd_kafka_header_get_all. Returns how many there are, and how
    many bytes their names and values take. `counts` gets Arrow's offsets of the messages. With `names` and `values`, addresses
    with room for all, it also writes these, `offsets` of both (a row for each header and one more) and which values are there.
    """
    place = scratch.ctypes.data
    found, name_bytes, value_bytes = np.int64(0), np.int64(0), np.int64(0)
    counts[0] = 0
    if names:
        offsets[0, 0] = offsets[0, 1] = 0
    for row in range(first, end):
        if (_call(functions[0], messages[row], place) & 0xFFFFFFFF) == 0:
            index = 0
            while (
                _call_5(
                    functions[1],
                    scratch[_HEADERS],
                    index,
                    place + 8 * _NAME,
                    place + 8 * _TEXT,
                    place + 8 * _LENGTH,
                )
                & 0xFFFFFFFF
            ) == 0:
                name, text, length = scratch[_NAME], scratch[_TEXT], scratch[_LENGTH]
                if not _is_repeated(scratch, place, functions, index):
                    size = _name_bytes(name)
                    length = length if text != 0 else 0
                    if names:
                        copy_bytes(names + name_bytes, name, size)
                        copy_bytes(values + value_bytes, text, length)
                        offsets[found + 1, 0] = name_bytes + size
                        offsets[found + 1, 1] = value_bytes + length
                        valid[found] = text != 0
                    found += 1
                    name_bytes += size
                    value_bytes += length
                index += 1
        counts[row - first + 1] = found
    return found, name_bytes, value_bytes


@kernel("void(int64[::1], int64, int64, int64[::1], int64)")
def leader_epochs(messages, first, end, epochs, function):  # type: ignore[no-untyped-def]
    """`function` is rd_kafka_message_leader_epoch; −1 where it is not known."""
    for row in range(first, end):
        epochs[row - first] = np.int64(np.int32(_call(function, messages[row], 0)))


@kernel("void(int64[::1], int64, int64)")
def release(messages, count, function):  # type: ignore[no-untyped-def]
    """Give messages back to the library. `function` is rd_kafka_message_destroy."""
    for row in range(count):
        _call(function, messages[row], 0)
