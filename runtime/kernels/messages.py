"""Messages of librdkafka (rd_kafka_message_t) as arrays: the fields of each, and payloads one after the other.

A table has a row for each message, whose entries are numbered below. Payloads stay in the library's memory until `release`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import copy_bytes, load_32, load_64
from sqlstream.runtime.native.kernel import instruction, kernel

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


@kernel("void(int64[::1], int64, int64)")
def release(messages, count, function):  # type: ignore[no-untyped-def]
    """Give messages back to the library. `function` is rd_kafka_message_destroy."""
    for row in range(count):
        _call(function, messages[row], 0)
