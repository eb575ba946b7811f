"""CAST of character strings: the values, and which of the strings could not be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate import decimals
from runtime.evaluate.date_pattern import Parsed, TimestampParser
from runtime.evaluate.kernel import Values, numbers
from runtime.evaluate.local_time import from_local
from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.types import LogicalType, TypeRoot

Reader = Callable[[pa.Array], pa.Array]
"""From text to values; NULL for text that cannot be read."""

_SPACES = " \t\r\n"
_INTEGER = r"\A[+-]?\d+(?:\.\d*)?\z"
_DECIMAL = r"\A[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\z"
_TRUE = pa.array(["t", "true", "y", "yes", "1"])
_FALSE = pa.array(["f", "false", "n", "no", "0"])


def text_reader(target: LogicalType, time_zone: str) -> Reader:
    """The reader of one target type."""
    if sql.is_integer(target):
        return lambda text: _read_integers(text, to_arrow_type(target))
    if target.root in sql.APPROXIMATE_ROOTS:
        return lambda text: _read_floats(text, to_arrow_type(target))
    match target.root:
        case TypeRoot.DECIMAL:
            return lambda text: _read_decimals(text, to_arrow_type(target))
        case TypeRoot.BOOLEAN:
            return _read_booleans
        case TypeRoot.DATE:
            return _temporal(TimestampParser.of_sql_date(), lambda parsed: parsed.dates(), pa.date32())
        case TypeRoot.TIME:
            return _temporal(TimestampParser.of_sql_time(), lambda parsed: parsed.times(), None)
        case _:
            return _timestamp_reader(target, time_zone)


def _timestamp_reader(target: LogicalType, time_zone: str) -> Reader:
    arrow = to_arrow_type(target)
    local = pa.timestamp(arrow.unit)
    read = _temporal(TimestampParser.of_sql_timestamp(), lambda parsed: parsed.timestamps(arrow.unit), local)
    return lambda text: from_local(read(text), arrow, time_zone)


def _temporal(
    parser: TimestampParser, finish: Callable[[Parsed], pa.Array], quick: pa.DataType | None
) -> Reader:
    def read(text: pa.Array) -> pa.Array:
        if quick is not None:
            # Arrow reads the usual form many times faster, and refuses the column when one value is unusual.
            try:
                return pc.cast(text, quick)
            except pa.ArrowInvalid:
                pass
        return finish(parser.parse(text))

    return read


def _null_unless(condition: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(condition, text, pa.scalar(None, pa.string()))


def _read_integers(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Digits after a point are read and dropped, as in Flink; what does not fit the type is not read."""
    try:
        return pc.cast(text, target)
    except pa.ArrowInvalid:
        pass
    trimmed = pc.utf8_trim(text, characters=_SPACES)
    known = _null_unless(pc.match_substring_regex(trimmed, _INTEGER), trimmed)
    digits = pc.replace_substring_regex(known, r"\A\+?(-?)0*(\d+?)(?:\.\d*)?\z", r"\1\2")
    short = _null_unless(pc.less_equal(pc.utf8_length(digits), 20), digits)
    wide = pc.cast(pc.cast(short, pa.decimal128(38, 0)), pa.decimal128(38, 0))
    bits = target.bit_width - 1
    low, high = (pa.scalar(bound, pa.int64()).cast(wide.type) for bound in (-(2**bits), 2**bits - 1))
    fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), target)


def _read_floats(text: pa.Array, target: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(text, characters=_SPACES)
    known = _null_unless(pc.match_substring_regex(trimmed, rf"{_DECIMAL}|\ANaN\z|\A[+-]?Infinity\z"), trimmed)
    return pc.cast(pc.replace_substring_regex(known, r"\A\+", ""), target)


def _read_decimals(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounded half up to the target's scale; NULL when it has too many digits before the point."""
    try:
        return pc.cast(text, target)
    except pa.ArrowInvalid:
        pass
    trimmed = pc.utf8_trim(text, characters=_SPACES)
    known = _null_unless(pc.match_substring_regex(trimmed, _DECIMAL), trimmed)
    # No DECIMAL holds more than 38 digits on a side of the point: more are cut off or do not fit anyway.
    cut = pc.replace_substring_regex(known, r"\A([^.eE]*\.\d{38})\d*\z", r"\1")
    is_long = pc.match_substring_regex(
        cut, r"\A[+-]?\d{39,}|[eE][+-]?\d{3,}|[eE](?:\+?(?:3[89]|[4-9]\d)|-(?:[3-9]\d))"
    )
    short = _null_unless(pc.invert(is_long), cut)
    try:
        return decimals.fit(pc.cast(short, pa.decimal256(76, 38)), target)
    except pa.ArrowInvalid:
        return decimals.fit(pc.cast(pc.cast(short, pa.float64()), pa.decimal256(76, 38)), target)


def _read_booleans(text: pa.Array) -> pa.Array:
    known = pc.utf8_lower(pc.utf8_trim(text, characters=_SPACES))
    is_true = pc.is_in(known, value_set=_TRUE)
    is_read = pc.or_(is_true, pc.is_in(known, value_set=_FALSE))
    return pc.if_else(is_read, is_true, pa.scalar(None, pa.bool_()))


def unread(text: pa.Array, values: pa.Array) -> Values:
    """Positions of strings that became NULL."""
    if text.null_count == values.null_count:
        return np.empty(0, dtype=np.int64)
    lost = pc.and_(pc.is_valid(text), pc.is_null(values))
    return np.flatnonzero(numbers(lost, np.bool_))
