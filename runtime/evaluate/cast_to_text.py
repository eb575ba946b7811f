"""CAST to character strings, in Flink's forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.runtime.evaluate.kernel import null_mask, numbers, zero
from sqlstream.runtime.evaluate.time.local_time import to_local
from sqlstream.runtime.evaluate.time.timestamp_format import TimestampFormat
from sqlstream.times import DAY_MS
from sqlstream.types import LogicalType, TypeRoot

Writer = Callable[[pa.Array], pa.Array]
_SCIENTIFIC = r"\A(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<part>\d+))?(?:e(?P<exponent>[+-]?\d+))?\z"
_PLAIN_SCALE_MAX = 6


def text_writer(source: LogicalType, time_zone: str) -> Writer:
    """The writer of one source type that has no parts."""
    if sql.is_integer(source):
        return lambda values: pc.cast(values, pa.string())
    if sql.is_timestamp(source):
        pattern = "yyyy-MM-dd HH:mm:ss" + ("." + "S" * source.precision if source.precision else "")
        form = TimestampFormat(pattern)
        return lambda values: form.format(to_local(values, time_zone))
    if source.root in sql.APPROXIMATE_ROOTS:
        return write_floats
    if source.root is TypeRoot.TIME:
        pattern = "HH:mm:ss" + ("." + "S" * source.precision if source.precision else "")
        return _time_writer(TimestampFormat(pattern))
    return _WRITERS[source.root]


def _write_booleans(values: pa.Array) -> pa.Array:
    return pc.if_else(values, "TRUE", "FALSE")


def _time_writer(form: TimestampFormat) -> Writer:
    return lambda values: form.format(
        pc.cast(pc.cast(values, pa.int32()), pa.int64()).view(pa.timestamp("ms"))
    )


def _write_decimals(values: pa.Array) -> pa.Array:
    """All digits of the scale, never an exponent."""
    scale = values.type.scale
    if scale <= _PLAIN_SCALE_MAX:
        return pc.cast(values, pa.string())
    digits = pc.cast(pc.abs(values).view(pa.decimal128(values.type.precision, 0)), pa.string())
    padded = pc.utf8_lpad(digits, scale + 1, "0")
    sign = pc.if_else(pc.less(values, zero(values.type)), "-", "")
    whole, part = pc.utf8_slice_codeunits(padded, 0, -scale), pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(sign, whole, ".", part, "")


def write_floats(values: pa.Array) -> pa.Array:
    """As Java prints: 1.0, 123.45, 1.0E7, 1.0E-4, NaN, Infinity."""
    text = pc.cast(values, pa.string())
    magnitude = np.abs(numbers(values, np.float64))
    is_plain = ((magnitude >= 1e-3) & (magnitude < 1e7)) | (magnitude == 0)
    plain, is_whole = text, magnitude == np.floor(magnitude)
    if is_whole.any():
        plain = pc.if_else(pa.array(is_whole), pc.binary_join_element_wise(text, ".0", ""), text)
    if is_plain.all():
        return plain
    special = pc.replace_substring(pc.replace_substring(text, "nan", "NaN"), "inf", "Infinity")
    is_finite = pa.array(np.isfinite(magnitude))
    return pc.if_else(pa.array(is_plain), plain, pc.if_else(is_finite, _scientific(text), special))


def _scientific(text: pa.Array) -> pa.Array:
    """One digit, a point, the other digits (at least one), E and the exponent."""
    parts = pc.extract_regex(text, _SCIENTIFIC)
    sign, whole, part, exponent = (
        pc.fill_null(pc.struct_field(parts, n), "") for n in ("sign", "whole", "part", "exponent")
    )
    digits = pc.binary_join_element_wise(whole, part, "")
    significant = pc.utf8_ltrim(digits, characters="0")
    leading_zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    given = pc.cast(
        pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, characters="+")), pa.int32()
    )
    power = pc.add(pc.subtract(pc.subtract(pc.utf8_length(whole), 1), leading_zeros), given)
    rest = pc.utf8_rtrim(pc.utf8_slice_codeunits(significant, 1), characters="0")
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    result = pc.binary_join_element_wise(sign, first, ".", rest, "E", pc.cast(power, pa.string()), "")
    return pc.if_else(pc.is_valid(text), result, None)


def _write_day_time(values: pa.Array) -> pa.Array:
    """+1 02:03:04.005"""
    milliseconds = numbers(values, np.int64)
    sign = pc.if_else(pa.array(milliseconds < 0), "-", "+")
    # Unsigned: the least number of 64 bits has no positive counterpart.
    days, rest = np.divmod(np.abs(milliseconds).astype(np.uint64), np.uint64(DAY_MS))
    moments = pa.array(rest.astype(np.int64)).view(pa.timestamp("ms"))
    time_of_day = TimestampFormat("HH:mm:ss.SSS").format(moments)
    text = pc.binary_join_element_wise(sign, pc.cast(pa.array(days), pa.string()), " ", time_of_day, "")
    return _with_nulls(text, values)


def _write_year_month(values: pa.Array) -> pa.Array:
    """+1-02"""
    months = numbers(values, np.int64)
    sign = pc.if_else(pa.array(months < 0), "-", "+")
    years, rest = np.divmod(np.abs(months), 12)
    rest_text = pc.utf8_lpad(pc.cast(pa.array(rest), pa.string()), 2, "0")
    text = pc.binary_join_element_wise(sign, pc.cast(pa.array(years), pa.string()), "-", rest_text, "")
    return _with_nulls(text, values)


def _write_bitmaps(values: pa.Array) -> pa.Array:
    from sqlstream.runtime.evaluate.bitmap import Bitmaps

    return Bitmaps.of(values).texts()


def _with_nulls(text: pa.Array, values: pa.Array) -> pa.Array:
    mask = null_mask(values)
    return text if mask is None else pc.if_else(pa.array(mask), pa.scalar(None, pa.string()), text)


_WRITERS: dict[TypeRoot, Writer] = {
    TypeRoot.BOOLEAN: _write_booleans,
    TypeRoot.VARIANT: lambda values: values,
    TypeRoot.BITMAP: _write_bitmaps,
    TypeRoot.DECIMAL: _write_decimals,
    TypeRoot.DATE: lambda values: TimestampFormat("yyyy-MM-dd").format(pc.cast(values, pa.timestamp("s"))),
    TypeRoot.INTERVAL_DAY_TIME: _write_day_time,
    TypeRoot.INTERVAL_YEAR_MONTH: _write_year_month,
}
