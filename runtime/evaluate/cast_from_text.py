"""CAST of character strings: the values, and the positions of strings that cannot be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate import decimals
from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb
from sqlstream.runtime.evaluate.kernel import Values, numbers
from sqlstream.runtime.evaluate.time.local_time import from_local
from sqlstream.runtime.evaluate.time.time_parts import cut_off
from sqlstream.runtime.evaluate.time.time_range import null_beyond_range
from sqlstream.runtime.evaluate.time.timestamp_parser import Parsed, TimestampParser
from sqlstream.runtime.kernels.buffers import validity_buffer, view_texts
from sqlstream.runtime.kernels.decimals import read_plain_decimals_into
from sqlstream.types import LogicalType, TypeRoot

Reader = Callable[[pa.Array], pa.Array]
"""From text to values; NULL for text that cannot be read."""

SPACES = " \t\r\n"
_INTEGER = r"\A[+-]?\d+(?:\.\d*)?\z"
DECIMAL_TEXT = r"\A[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\z"
# 12.5e-3 as 0.0125: Arrow refuses exponents that put digits far behind the point, and crashes on very long ones. `at` is the
# point's place in `digits`; beyond 40 zeros it does not matter how many there are.
_PARTS = r"\A([+-]?)0*(\d*)\.?(\d*)[eE]([+-]?\d+)\z"
_WITHOUT_EXPONENT = f"""
list_transform([regexp_extract(a0, '{_PARTS}', ['sign', 'whole', 'part', 'exponent'])], lambda x:
    CASE WHEN a0 IS NULL OR x.exponent = '' THEN a0
    ELSE list_transform([{{
        'digits': x.whole || x.part, 'at': length(x.whole) + CAST(TRY_CAST(x.exponent AS INTEGER) AS BIGINT)
    }}], lambda y: x.sign || CASE
            WHEN ltrim(y.digits, '0') = '' THEN '0'
            WHEN y.at <= 0 THEN '0.' || repeat('0', least(-y.at, 40)) || y.digits
            WHEN y.at >= length(y.digits) THEN
                ltrim(y.digits, '0') || repeat('0', least(y.at - length(y.digits), 40))
            ELSE substr(y.digits, 1, y.at) || '.' || substr(y.digits, y.at + 1) END)[1]
    END)[1]
"""
_HOUR_LENGTH = len("2024-01-31 10")
"""Arrow reads an hour alone, which would be a time or none depending on the other rows of the batch."""
_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def text_reader(target: LogicalType, time_zone: str) -> Reader:
    """The reader of one target type."""
    if sql.is_integer(target):
        return lambda text: _read_integers(text, to_arrow_type(target))
    if target.root in sql.APPROXIMATE_ROOTS:
        return lambda text: _read_floats(text, to_arrow_type(target))
    match target.root:
        case TypeRoot.DECIMAL:
            return lambda text: read_decimals(text, to_arrow_type(target))
        case TypeRoot.BOOLEAN:
            return _read_booleans
        case TypeRoot.DATE:
            return _temporal(TimestampParser.of_sql_date(), lambda parsed: parsed.dates(), pa.date32())
        case TypeRoot.TIME:
            return _time_reader(target)
        case _:
            return _timestamp_reader(target, time_zone)


def _timestamp_reader(target: LogicalType, time_zone: str) -> Reader:
    arrow = to_arrow_type(target)
    local = pa.timestamp(arrow.unit)
    read = _temporal(TimestampParser.of_sql_timestamp(), lambda parsed: parsed.timestamps(arrow.unit), local)
    return lambda text: null_beyond_range(cut_off(from_local(read(text), arrow, time_zone), target.precision))


def _time_reader(target: LogicalType) -> Reader:
    read = _temporal(TimestampParser.of_sql_time(), lambda parsed: parsed.times(), None)
    return lambda text: pc.cast(cut_off(read(text), target.precision), to_arrow_type(target))


def _temporal(
    parser: TimestampParser, finish: Callable[[Parsed], pa.Array], quick: pa.DataType | None
) -> Reader:
    def read(text: pa.Array) -> pa.Array:
        if quick is not None:
            # Arrow reads the usual form many times faster, but fails on the whole column when one value is unusual.
            try:
                values = pc.cast(text, quick)
            except pa.ArrowInvalid:
                return finish(parser.parse(text))
            if not pc.any(pc.equal(pc.binary_length(text), _HOUR_LENGTH)).as_py():
                return null_beyond_range(values)
        return finish(parser.parse(text))

    return read


def _null_unless(condition: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(condition, text, pa.scalar(None, pa.string()))


def _read_integers(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Digits after a point are dropped, as in Flink; a value that does not fit the type is NULL."""
    try:
        values = pc.cast(text, target)
    except pa.ArrowInvalid:
        values = None
    # Arrow reads 0x10 as a number.
    if values is not None and not pc.any(pc.match_substring_regex(text, "[xX]")).as_py():
        return values
    trimmed = pc.utf8_trim(text, characters=SPACES)
    known = _null_unless(pc.match_substring_regex(trimmed, _INTEGER), trimmed)
    digits = pc.replace_substring_regex(known, r"\A\+?(-?)0*(\d+?)(?:\.\d*)?\z", r"\1\2")
    short = _null_unless(pc.less_equal(pc.utf8_length(digits), 20), digits)
    wide = pc.cast(pc.cast(short, pa.decimal128(38, 0)), pa.decimal128(38, 0))
    bits = target.bit_width - 1
    low, high = (pa.scalar(bound, pa.int64()).cast(wide.type) for bound in (-(2**bits), 2**bits - 1))
    fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
    return pc.cast(pc.if_else(fits, wide, pa.scalar(None, wide.type)), target)


def _read_floats(text: pa.Array, target: pa.DataType) -> pa.Array:
    trimmed = pc.utf8_trim(text, characters=SPACES)
    known = _null_unless(
        pc.match_substring_regex(trimmed, rf"{DECIMAL_TEXT}|\ANaN\z|\A[+-]?Infinity\z"), trimmed
    )
    return pc.cast(pc.replace_substring_regex(known, r"\A\+", ""), target)


def _plain_decimals(text: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Texts that are written as decimals mostly are, as such, in a tenth of the time that Arrow takes; None where one is not."""
    if not pa.types.is_string(text.type) or target.precision > decimals.INT64_DIGITS:
        return None
    values, (valid, *texts) = np.empty(2 * len(text), dtype=np.int64), view_texts(text)
    if not read_plain_decimals_into(values, *texts, target.precision, target.scale):
        return None
    return pa.Array.from_buffers(target, len(text), [validity_buffer(valid), pa.py_buffer(values)])


def read_decimals(text: pa.Array, target: pa.DataType) -> pa.Array:
    """Rounded half up to the target's scale; NULL when it has too many digits before the point."""
    if (plain := _plain_decimals(text, target)) is not None:
        return plain
    has_exponent = pc.any(pc.match_substring_regex(text, "[eE]")).as_py()
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    # Arrow checks precisions but no overflow of the 128 bits that it counts in.
    if not has_exponent and longest + target.scale <= decimals.DECIMAL128_DIGITS:
        try:
            return pc.cast(text, target)
        except pa.ArrowInvalid:
            pass
    trimmed = pc.utf8_trim(text, characters=SPACES)
    known = _null_unless(pc.match_substring_regex(trimmed, DECIMAL_TEXT), trimmed)
    if has_exponent:
        known = pc.cast(evaluate_in_duckdb(_WITHOUT_EXPONENT, known), pa.string())
    # The digit after the scale decides on rounding; those behind it are cut off, and a whole part too long is NULL.
    scale = target.scale + 1
    cut = pc.replace_substring_regex(known, rf"\A([^.]*\.\d{{{scale}}})\d*\z", r"\1")
    whole_digits = min(decimals.DECIMAL128_DIGITS, decimals.DECIMAL256_DIGITS - scale)
    is_long = pc.match_substring_regex(cut, rf"\A[+-]?0*[1-9]\d{{{whole_digits},}}")
    short = _null_unless(pc.invert(is_long), cut)
    return decimals.fit(pc.cast(short, pa.decimal256(decimals.DECIMAL256_DIGITS, scale)), target)


def _read_booleans(text: pa.Array) -> pa.Array:
    known = pc.utf8_lower(pc.utf8_trim(text, characters=SPACES))
    is_true = pc.is_in(known, value_set=pa.array(_TRUE))
    is_read = pc.or_(is_true, pc.is_in(known, value_set=pa.array(_FALSE)))
    return pc.if_else(is_read, is_true, pa.scalar(None, pa.bool_()))


def unread(text: pa.Array, values: pa.Array) -> Values:
    """Positions of strings that became NULL."""
    if text.null_count == values.null_count:
        return np.empty(0, dtype=np.int64)
    lost = pc.and_(pc.is_valid(text), pc.is_null(values))
    return np.flatnonzero(numbers(lost, np.bool_))
