"""Key columns in the form that kernels read: 64-bit words for fixed-width values, offsets and an address for bytes.

Equal SQL values have equal words: integers are sign-extended, -0.0 is 0.0 and every NaN is one NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.errors import UserError
from sqlstream.runtime.kernels.buffers import (
    address_of,
    to_array,
    unpack_bits,
    view_bitmap,
    view_buffer,
    view_offsets,
)
from sqlstream.runtime.kernels.intrinsics import (
    BYTES_ORDER,
    DECIMAL_ORDER,
    FLOAT_ORDER,
    INTEGER_ORDER,
    equal_bytes,
    is_set,
    short_bytes,
)
from sqlstream.runtime.native.kernel import kernel

_NAN = np.uint64(0x7FF8000000000000)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


_WHOLE_NUMBERS: dict[int, np.dtype[Any]] = {
    data_type.id: np.dtype(
        f"{'u' if pa.types.is_unsigned_integer(data_type) else 'i'}{data_type.bit_width // 8}"
    )
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.timestamp("ms"), pa.duration("ms")),
    )
}
"""By the number of a type of whole numbers or times: numpy's type with its memory layout. Most keys are such: for them one
look-up answers what otherwise takes a dozen questions, for each column of each batch."""


@dataclass(frozen=True, slots=True)
class WordColumn:
    """A fixed-width column. `words` holds `width` words per row; those under a NULL are arbitrary."""

    words: np.ndarray
    width: int
    bitmap: np.ndarray
    bit: int


@dataclass(frozen=True, slots=True)
class BytesColumn:
    """A variable-width column: row i is the bytes from `address + offsets[i]` to `address + offsets[i + 1]`."""

    offsets: np.ndarray
    address: int
    bitmap: np.ndarray
    bit: int
    owner: pa.Array


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_large_binary(data_type)
    )


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type as which keys of a type are stored: without dictionary, extension and view.

    Raises UserError SS3090 for a type that cannot be a key.
    """
    if data_type.id in _WHOLE_NUMBERS:
        return data_type
    if isinstance(data_type, pa.BaseExtensionType):
        return plain_type(data_type.storage_type)
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_binary_view(data_type) or pa.types.is_fixed_size_binary(data_type):
        # Arrow counts decimals as fixed-size binary in some versions and not in others.
        return data_type if pa.types.is_decimal(data_type) else pa.binary()
    if pa.types.is_null(data_type):
        return pa.int64()
    if _is_bytes(data_type) or pa.types.is_decimal128(data_type) or _is_one_word(data_type):
        return data_type
    raise UserError(
        "SS3090",
        f'a value of type "{data_type}" cannot be a key',
        hint="group, join or distribute by columns of simple types",
    )


def _is_one_word(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(data_type)) and data_type.bit_width <= 64


def plain_array(array: pa.Array) -> pa.Array:
    """The array in its plain type; the same array when it is that already."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type.id in _WHOLE_NUMBERS:
        return array
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage)
    if isinstance(array, pa.DictionaryArray):
        return plain_array(array.dictionary_decode())
    plain = plain_type(array.type)
    return array if plain == array.type else array.cast(plain)


def is_whole_number(data_type: pa.DataType) -> bool:
    """Whether a plain type is one of whole numbers or times."""
    return data_type.id in _WHOLE_NUMBERS


def word_count(data_type: pa.DataType) -> int:
    """The number of words per value of a plain type in a packed row; bytes take a length and a payload."""
    return 2 if _is_bytes(data_type) or pa.types.is_decimal128(data_type) else 1


def is_bytes_type(data_type: pa.DataType) -> bool:
    """Whether values of a plain type vary in length."""
    return _is_bytes(data_type)


def order_of(data_type: pa.DataType) -> int:
    """How kernels compare the values of a plain type (see `compared_values`)."""
    if _is_bytes(data_type):
        return BYTES_ORDER
    if pa.types.is_decimal(data_type):
        return DECIMAL_ORDER
    return FLOAT_ORDER if pa.types.is_floating(data_type) else INTEGER_ORDER


def storage_dtype(data_type: pa.DataType) -> np.dtype[Any]:
    """The numpy type with the memory layout of a plain one-word type that is not boolean."""
    if pa.types.is_floating(data_type):
        return np.dtype(f"f{data_type.bit_width // 8}")
    return _WHOLE_NUMBERS[data_type.id]


def read_column(array: pa.Array) -> WordColumn | BytesColumn:
    """A plain array as words or bytes; zero-copy for 8-byte integers and times, decimals and bytes."""
    bitmap, bit = view_bitmap(array)
    data_type = array.type
    whole = _WHOLE_NUMBERS.get(data_type.id)
    if whole is not None:
        return WordColumn(_whole_words(array, whole), 1, bitmap, bit)
    if _is_bytes(data_type):
        offsets, address = view_offsets(array)
        return BytesColumn(offsets, address, bitmap, bit, array)
    if pa.types.is_decimal128(data_type):
        words = view_buffer(array.buffers()[1], np.uint64, 2 * array.offset, 2 * len(array))
        return WordColumn(words, 2, bitmap, bit)
    if pa.types.is_boolean(data_type):
        start, first = array.offset >> 3, array.offset & 7
        packed = view_buffer(array.buffers()[1], np.uint8, start, (first + len(array) + 7) >> 3)
        return WordColumn(unpack_bits(packed, first, len(array)).astype(np.uint64), 1, bitmap, bit)
    values = view_buffer(array.buffers()[1], storage_dtype(data_type), array.offset, len(array))
    return WordColumn(canonical_floats(values.astype(np.float64, copy=False)), 1, bitmap, bit)


def _whole_words(array: pa.Array, whole: np.dtype[Any]) -> np.ndarray:
    values = view_buffer(array.buffers()[1], whole, array.offset, len(array))
    if whole.itemsize == 8:
        return values.view(np.uint64)
    if whole.kind == "u":
        return values.astype(np.uint64, copy=False)
    return values.astype(np.int64, copy=False).view(np.uint64)


def has_one_value(array: pa.Array) -> bool:
    """Whether all rows of a plain array, of which there is one at least, have one value other than NULL."""
    if array.null_count:
        return False
    column = read_column(array)
    if isinstance(column, WordColumn):
        return bool(_is_repeated(address_of(column.words), 8 * column.width, 8 * len(column.words)))
    length = int(column.offsets[1]) - int(column.offsets[0])
    if not _are_of_length(column.offsets, length):
        return False
    return bool(_is_repeated(column.address + int(column.offsets[0]), length, length * len(array)))


@kernel("boolean(int64, int64, int64)")
def _is_repeated(address, length, total):  # type: ignore[no-untyped-def]
    """Whether the `total` bytes at an address repeat the first `length` of them."""
    return equal_bytes(address, address + length, total - length) if total > length else True


_ARE_OF_LENGTH = "boolean({}[::1], int64)"


@kernel(_ARE_OF_LENGTH.format("int32"), _ARE_OF_LENGTH.format("int64"))
def _are_of_length(offsets, length):  # type: ignore[no-untyped-def]
    differs = np.int64(0)
    for i in range(len(offsets) - 1):
        differs |= (np.int64(offsets[i + 1]) - np.int64(offsets[i])) ^ length
    return differs == 0


def array_from_words(data_type: pa.DataType, words: np.ndarray, valid: np.ndarray | None) -> pa.Array:
    """A plain one-word array from its words: the inverse of `read_column`."""
    if pa.types.is_boolean(data_type):
        return to_array(data_type, words != 0, valid)
    words = np.ascontiguousarray(words)
    values = words.view(np.float64) if pa.types.is_floating(data_type) else words
    return to_array(data_type, values.astype(storage_dtype(data_type), copy=False), valid)


def canonical_floats(values: np.ndarray) -> np.ndarray:
    """The bits of doubles with one zero and one NaN."""
    words = np.empty(len(values), dtype=np.uint64)
    _canonical_floats_into(values, values.view(np.uint64), words)
    return words


@kernel("void(float64[::1], uint64[::1], uint64[::1])")
def _canonical_floats_into(values, bits, words):  # type: ignore[no-untyped-def]
    for i in range(len(values)):
        value = values[i]
        words[i] = _NAN if value != value else (_ZERO if value == 0.0 else bits[i])


def zero_nulls(words: np.ndarray, bitmap: np.ndarray, bit: int) -> np.ndarray:
    """Words with 0 under each NULL."""
    zeroed = np.empty(len(words), dtype=np.uint64)
    _zero_nulls_into(words, bitmap, bit, zeroed)
    return zeroed


@kernel("void(uint64[::1], uint8[::1], int64, uint64[::1])")
def _zero_nulls_into(words, bitmap, bit, zeroed):  # type: ignore[no-untyped-def]
    for i in range(len(words)):
        zeroed[i] = words[i] if is_set(bitmap, bit + i) else _ZERO


@kernel("void(uint64[::1], int64, uint8[::1], int64, uint64[:, ::1], int64, int64)")
def _pack_words(words, width, bitmap, bit, rows, column, number):  # type: ignore[no-untyped-def]
    null_word, null_bit = 1 + (number >> 6), _ONE << np.uint64(number & 63)
    for i in range(rows.shape[0]):
        if len(bitmap) == 0 or is_set(bitmap, bit + i):
            for part in range(width):
                rows[i, column + part] = words[i * width + part]
        else:
            rows[i, null_word] |= null_bit
            for part in range(width):
                rows[i, column + part] = _ZERO


_PACK_BYTES = "void({}[::1], int64, uint8[::1], int64, uint64[:, ::1], int64, int64)"


@kernel(_PACK_BYTES.format("int32"), _PACK_BYTES.format("int64"))
def _pack_bytes(offsets, address, bitmap, bit, rows, column, number):  # type: ignore[no-untyped-def]
    null_word, null_bit = 1 + (number >> 6), _ONE << np.uint64(number & 63)
    for i in range(rows.shape[0]):
        if len(bitmap) == 0 or is_set(bitmap, bit + i):
            start = np.int64(offsets[i])
            length = np.int64(offsets[i + 1]) - start
            rows[i, column] = np.uint64(length)
            if length <= 8:
                rows[i, column + 1] = short_bytes(address + start, length)
            else:
                rows[i, column + 1] = np.uint64(address + start)
        else:
            rows[i, null_word] |= null_bit
            rows[i, column] = _ZERO
            rows[i, column + 1] = _ZERO


def null_words(columns: int) -> int:
    """The number of words that hold the NULL bits of so many columns."""
    return max(1, (columns + 63) // 64)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The layout of a key of several columns in a row of words: its hash, one NULL bit per column, then the columns.

    The NULL bit of column c is bit c % 64 of word 1 + c // 64; there is at least one word of them.

    A value of at most eight bytes is in the row itself; of a longer one there is an address (or a position in an arena).
    `payloads[w]` is 1 where word w is such a payload, whose length is the word before it.
    """

    types: tuple[pa.DataType, ...]
    columns: tuple[int, ...]
    payloads: np.ndarray

    @staticmethod
    def of(types: Sequence[pa.DataType]) -> RowLayout:
        columns, payloads = [], [0] * (1 + null_words(len(types)))
        for data_type in types:
            columns.append(len(payloads))
            payloads += [0, int(_is_bytes(data_type))] if word_count(data_type) == 2 else [0]
        return RowLayout(tuple(types), tuple(columns), np.array(payloads, dtype=np.uint8))

    @property
    def width(self) -> int:
        return len(self.payloads)

    @property
    def has_bytes(self) -> bool:
        return bool(self.payloads.any())

    def pack(self, columns: Sequence[pa.Array], hashes: np.ndarray) -> np.ndarray:
        """uint64[n, width] rows of plain arrays. They hold addresses into the arrays: keep those alive
        meanwhile.
        """
        rows = np.empty((len(hashes), self.width), dtype=np.uint64)
        rows[:, 0] = hashes
        rows[:, 1 : 1 + null_words(len(self.types))] = 0
        for number, (place, array) in enumerate(zip(self.columns, columns, strict=True)):
            column = read_column(array)
            if isinstance(column, WordColumn):
                _pack_words(column.words, column.width, column.bitmap, column.bit, rows, place, number)
            else:
                _pack_bytes(column.offsets, column.address, column.bitmap, column.bit, rows, place, number)
        return rows
