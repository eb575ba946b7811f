"""Values as the text of CSV and JSON files, and text as values: whole columns at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.formats.base64_column import decode_base64, encode_base64
from sqlstream.runtime.kernels.buffers import to_array, view_texts
from sqlstream.runtime.kernels.decimals import read_plain_doubles_into
from sqlstream.runtime.kernels.text.time_texts import read_plain_times_into
from sqlstream.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot, is_integer

Parse = Callable[[pa.Array], pa.Array]


class Unparsable(pa.ArrowInvalid):  # type: ignore[misc]
    """Some of the texts of a column are no value: those at `positions`, never none, and perhaps others."""

    def __init__(self, message: str, positions: np.ndarray[Any, Any]) -> None:
        super().__init__(message)
        self.positions = positions


def require_parsed(column: pa.Array, values: pa.Array, t: pa.DataType) -> pa.Array:
    """The values of texts, NULL for one that is none; Unparsable when there are such."""
    if values.null_count > column.null_count:
        lost = pc.and_(pc.is_valid(column), pc.is_null(values))
        raise Unparsable(f"not every text is a {t}", lost.to_numpy(zero_copy_only=False).nonzero()[0])
    return values


FRACTION_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def parse_text(column: pa.Array, t: LogicalType) -> pa.Array:
    """Texts as values of a scalar type; ArrowInvalid when one of them is none.

    Accepts what Flink's CSV and JSON formats do: blanks around numbers and dates, more digits of a second than the type
    keeps (they are cut), more digits of a decimal (it is rounded half up).
    """
    if t.root in STRING_ROOTS:
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    if t.root in BINARY_ROOTS:
        return decode_base64(column)
    target = to_arrow_type(t)
    if is_integer(t) and holds_hexadecimal(column):
        raise pa.ArrowInvalid("0x10 is no number")
    if t.root is TypeRoot.DECIMAL:
        return parse_decimals(column, target)
    if t.root is TypeRoot.TIME:
        return _parse_time(column, target)
    if t.root is TypeRoot.DOUBLE and (plain := _plain_doubles(column)) is not None:
        return plain
    if pa.types.is_timestamp(target) and (plain := _plain_times(column, target)) is not None:
        return plain
    try:
        values = pc.cast(column, target)
    except pa.ArrowInvalid:
        values = _parse_untidy(column, target, t)
    return require_times(values)


def _plain_doubles(column: pa.Array) -> pa.Array | None:
    """Texts that are written as numbers of few digits mostly are, as DOUBLE; None where one is not."""
    if not pa.types.is_string(column.type):
        return None
    values, (valid, *texts) = np.empty(len(column), dtype=np.float64), view_texts(column)
    return to_array(pa.float64(), values, valid) if read_plain_doubles_into(values, *texts) else None


def _plain_times(column: pa.Array, target: pa.TimestampType) -> pa.Array | None:
    """Texts that are written as timestamps mostly are, as such, in half the time that Arrow takes; None where one is not."""
    if not pa.types.is_string(column.type):
        return None
    values, (valid, *texts) = np.empty(len(column), dtype=np.int64), view_texts(column)
    digits = FRACTION_DIGITS[target.unit]
    if not read_plain_times_into(values, *texts, digits, target.tz is not None):
        return None
    return to_array(target, values, valid)


def require_times(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The same values. ArrowInvalid for a date or timestamp that is beyond the range of its type; those inside of nested
    values are not looked at."""
    if not pa.types.is_date32(values.type) and not pa.types.is_timestamp(values.type):
        return values
    from sqlstream.runtime.evaluate.time.time_range import are_within_range

    if not are_within_range(values):
        raise pa.ArrowInvalid(f"a time is beyond the range of {values.type}")
    return values


def holds_hexadecimal(column: pa.Array) -> bool:
    """Whether texts may hold integers like 0x10, which Arrow reads and SQL does not have."""
    found = (pc.any(pc.match_substring(column, x)).as_py() for x in ("0x", "0X"))
    return any(found)


def parse_decimals(column: pa.Array, target: pa.DataType) -> pa.Array:
    """As CAST reads them; Arrow's own reading gives wrong values where exponents or scales are large."""
    from sqlstream.runtime.evaluate.cast_from_text import read_decimals

    return require_parsed(column, read_decimals(column, target), target)


def _parse_untidy(column: pa.Array, target: pa.DataType, t: LogicalType) -> pa.Array:
    trimmed = pc.utf8_trim_whitespace(column)
    match t.root:
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return pc.cast(_cut_fraction(trimmed, FRACTION_DIGITS[target.unit]), target)
        case TypeRoot.BOOLEAN:
            return pc.cast(pc.utf8_lower(trimmed), target)
        case _ if is_integer(t):
            return pc.cast(pc.replace_substring_regex(trimmed, r"^\+(\d)", r"\1"), target)
        case _:
            return pc.cast(trimmed, target)


def _cut_fraction(column: pa.Array, digits: int) -> pa.Array:
    return pc.replace_substring_regex(column, rf"(\.\d{{{digits}}})\d+", r"\1")


def _parse_time(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Arrow has no cast of text to time: a time is a moment of the first day."""
    trimmed = _cut_fraction(pc.utf8_trim_whitespace(column), 3)
    moments = pc.binary_join_element_wise(pa.scalar("1970-01-01"), trimmed, pa.scalar(" "))
    return pc.cast(moments, pa.timestamp("ms")).cast(target)


def texts_of(lines: pa.Array) -> tuple[pa.Array, list[int]]:
    """Bytes as texts, and the positions of those that are none in UTF-8, which are empty texts."""
    try:
        return lines.cast(pa.string()), []
    except pa.ArrowInvalid:
        foreign = find_unparsable(lines, lambda part: part.cast(pa.string()))
    is_text = np.ones(len(lines), dtype=bool)
    is_text[foreign] = False
    return pc.if_else(pa.array(is_text), lines, b"").cast(pa.string()), foreign


def find_unparsable(column: pa.Array, parse: Parse) -> list[int]:
    """Positions of the values that `parse` refuses: those that it tells, and where it tells none by halving, with a call for
    every bad value and level, none for good ones."""
    rows, left = np.arange(len(column)), column
    is_over = False
    while not is_over:
        try:
            parse(left)
            is_over = True
        except Unparsable as error:
            rows = np.delete(rows, error.positions)
            left = column.take(pa.array(rows))
        except pa.ArrowInvalid:
            rows = np.delete(rows, _halved(left, parse))
            is_over = True
    return np.setdiff1d(np.arange(len(column)), rows, assume_unique=True).tolist()


def _halved(column: pa.Array, parse: Parse) -> list[int]:
    bad: list[int] = []
    pending = [(0, len(column))]
    while pending:
        start, stop = pending.pop()
        try:
            parse(column.slice(start, stop - start))
        except pa.ArrowInvalid:
            if stop - start == 1:
                bad.append(start)
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
    return bad


def format_text(column: pa.Array, t: LogicalType, date_separator: str = " ") -> pa.Array:
    """Scalar values as text, NULL staying NULL; `date_separator` stands between date and time of a timestamp."""
    match t.root:
        case _ if t.root in STRING_ROOTS:
            return column
        case _ if t.root in BINARY_ROOTS:
            return encode_base64(column)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _format_float(column)
        case TypeRoot.TIME:
            return _with_fraction(column, t.precision)
        case TypeRoot.TIMESTAMP:
            return _format_timestamp(column, t.precision, date_separator, "")
        case TypeRoot.TIMESTAMP_LTZ:
            return _format_timestamp(
                column.cast(pa.timestamp(column.type.unit)), t.precision, date_separator, "Z"
            )
        case TypeRoot.INTERVAL_DAY_TIME:
            return column.cast(pa.int64()).cast(pa.string())
        case TypeRoot.NULL:
            return pa.nulls(len(column), pa.string())
        case _:
            return column.cast(pa.string())


_SPECIAL_FLOATS: dict[str, str] = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _format_float(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return texts
    for arrow, name in _SPECIAL_FLOATS.items():
        texts = pc.if_else(pc.equal(texts, arrow), name, texts)
    return texts


def _format_timestamp(column: pa.Array, precision: int, separator: str, suffix: str) -> pa.Array:
    texts = _with_fraction(column, precision)
    if separator != " ":
        texts = pc.replace_substring(texts, " ", separator, max_replacements=1)
    return pc.binary_join_element_wise(texts, pa.scalar(suffix), pa.scalar("")) if suffix else texts


def _with_fraction(column: pa.Array, precision: int) -> pa.Array:
    """Times with as many digits of a second as their type has."""
    # A cast is ten times as fast as strftime, and writes as many digits as the unit has.
    texts = column.cast(pa.string())
    unit_digits = FRACTION_DIGITS[column.type.unit]
    if precision > unit_digits:
        return pc.binary_join_element_wise(texts, pa.scalar("0" * (precision - unit_digits)), "")
    surplus = unit_digits - precision + (0 if precision else 1)
    return pc.utf8_slice_codeunits(texts, 0, -surplus) if unit_digits and surplus > 0 else texts


def joined_lines(rows: pa.Array, end: bytes) -> memoryview:
    """Texts or bytes, none of them NULL, each with its end, as one piece of Arrow's memory."""
    return joined_bytes(pc.binary_join_element_wise(rows.cast(pa.binary()), pa.scalar(end), b""))


def joined_bytes(texts: pa.Array) -> memoryview:
    """Texts or bytes, none of them NULL, one after the other, as one piece of Arrow's memory."""
    if not len(texts):
        return memoryview(b"")
    offsets = memoryview(texts.buffers()[1]).cast("i")
    return memoryview(texts.buffers()[2])[offsets[texts.offset] : offsets[texts.offset + len(texts)]]


def bracketed(column: pa.Array, items: pa.Array, signs: str) -> pa.Array:
    """Lists of texts, laid out as `column` is, as one text each; `signs` are the brackets with the separator between.

    >>> lists = pa.array([[1, 2], []])
    >>> bracketed(lists, pa.array(["a", "b"]), "[, ]").to_pylist()
    ['[a, b]', '[]']
    """
    texts = pa.ListArray.from_buffers(
        pa.list_(pa.string()), len(column), column.buffers()[:2], column.null_count, column.offset, [items]
    )
    return pc.binary_join_element_wise(signs[0], pc.binary_join(texts, signs[1:-1]), signs[-1], "")
