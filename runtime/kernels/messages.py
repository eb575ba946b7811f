"""Messages of librdkafka (rd_kafka_message_t) as arrays: the fields of each, and payloads one after the other.

A table has a row for each message, whose entries are numbered below. Payloads stay in the library's memory until `release`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.kernels.intrinsics import copy_bytes, load_8, load_32, load_64
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


@kernel(
    "UniTuple(int64, 3)(int64[::1], int64, int64, int64[::1], int64[::1], int32[::1], int32[:, ::1], int64, int64,"
    " uint8[::1])"
)
def headers(messages, first, end, functions, scratch, counts, offsets, names, values, valid):  # type: ignore[no-untyped-def]
    """The headers of messages, one after the other.

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


# Messages that are sent one by one, since they have headers or a time (rd_kafka_produceva).

_RKT, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADERS_OF = 2, 3, 4, 5, 7, 8, 10
"""What an argument is (RD_KAFKA_VTYPE_…)."""
_WORDS = 9
"""Of an argument (rd_kafka_vu_t): what it is, and 64 bytes for it."""
ARGUMENT_WORDS = 7 * _WORDS
_MESSAGE_VALUE, _MESSAGE_VALUE_BYTES, _MESSAGE_KEY, _MESSAGE_KEY_BYTES = 3, 4, 5, 6
"""The words of an rd_kafka_message_t that are its value and its key."""
_COPIES = 2
"""RD_KAFKA_MSG_F_COPY."""


@inlined
def _made_headers(functions, first, count, names, name_offsets, values, value_offsets, is_there):  # type: ignore[no-untyped-def]
    """The library's list of some headers; those that are not there are left out."""
    made = _call(functions[1], count, 0)
    for header in range(first, first + count):
        if is_there[header]:
            name, value = np.int64(name_offsets[header]), np.int64(value_offsets[header])
            _call_5(
                functions[2],
                made,
                names + name,
                name_offsets[header + 1] - name,
                values + value,
                value_offsets[header + 1] - value,
            )
    return made


@kernel(
    "UniTuple(int64, 2)(int64[:, ::1], int64, int64, int64, int64, int64, int64[::1], int64[:, ::1], int64, int32[::1], int64,"
    " int32[::1], uint8[::1], int64[::1], int64[::1])"
)
def produce(  # type: ignore[no-untyped-def]
    messages,
    first,
    end,
    client,
    topic,
    partition,
    times,
    lists,
    names,
    name_offsets,
    values,
    value_offsets,
    is_there,
    functions,
    arguments,
):
    """Send the messages of these rows (rd_kafka_message_t, of which value and key are read) in their order. Returns the first row
    that was not sent, and the library's error with it; (end, 0) when all were.

    `times` are milliseconds since 1970, 0 for now. `lists` has for each message the first of its headers and how many there are;
    names and values of headers are addresses with Arrow's offsets. `functions` are the addresses of rd_kafka_produceva,
    …headers_new, …header_add, …headers_destroy, …error_code and …error_destroy. `arguments` is room for those of a call.
    """
    for number, kind in enumerate((_RKT, _PARTITION, _FLAGS, _VALUE, _KEY, _TIMESTAMP, _HEADERS_OF)):
        arguments[number * _WORDS] = kind
    arguments[1], arguments[_WORDS + 1], arguments[2 * _WORDS + 1] = topic, partition, _COPIES
    at_value, at_key, at_time, at_headers = 3 * _WORDS + 1, 4 * _WORDS + 1, 5 * _WORDS + 1, 6 * _WORDS + 1
    for row in range(first, end):
        arguments[at_value] = messages[row, _MESSAGE_VALUE]
        arguments[at_value + 1] = messages[row, _MESSAGE_VALUE_BYTES]
        arguments[at_key] = messages[row, _MESSAGE_KEY]
        arguments[at_key + 1] = messages[row, _MESSAGE_KEY_BYTES]
        arguments[at_time] = times[row]
        made = np.int64(0)
        if lists[row, 1]:
            made = _made_headers(
                functions, lists[row, 0], lists[row, 1], names, name_offsets, values, value_offsets, is_there
            )
        arguments[at_headers] = made
        # The library has its own list of headers from here on, unless it does not take the message.
        error = _call_5(functions[0], client, arguments.ctypes.data, 7 if made else 6, 0, 0)
        if error:
            code = np.int64(np.int32(_call(functions[4], error, 0)))
            _call(functions[5], error, 0)
            if made:
                _call(functions[3], made, 0)
            return row, code
    return end, np.int64(0)
