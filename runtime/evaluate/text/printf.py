"""PRINTF: java.util.Formatter's conversions, a column at a time."""

from __future__ import annotations

import decimal
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.expressions import Call
from sqlstream.runtime.evaluate.by_parameter import by_parameter
from sqlstream.runtime.evaluate.cast import cast_kernel
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.kernel import (
    Datum,
    Kernel,
    as_arrays,
    is_literal,
    literal_of,
    null_mask,
    numbers,
    rows_of,
    zero,
)
from sqlstream.text.printf_format import Piece, read_format
from sqlstream.types import LogicalType, TypeRoot

Writer = Callable[[pa.Array], pa.Array]


def printf(call: Call, context: EvaluationContext) -> Kernel:
    types = [a.type for a in call.args[1:]]
    if is_literal(call, 0):
        return _formatted(literal_of(call, 0), types, context.time_zone)

    by_form = by_parameter(
        lambda form: _formatted(form, types, context.time_zone), pa.string(), width=len(call.args)
    )
    return lambda form, *values: by_form(form, *values, form)


def _formatted(form: str, types: list[LogicalType], time_zone: str) -> Kernel:
    """The kernel of one format; NULL for each row when Java does not take the format for these types."""
    pieces = read_format(form, types)
    if pieces is None:
        return lambda *given: pa.nulls(rows_of(*given), pa.string())
    writers = [_writer(p, types[p.index], time_zone) if p.conversion else None for p in pieces]

    def kernel(given: Datum, *values: Datum) -> pa.Array:
        columns = as_arrays(given, *values)
        parts = [
            pa.scalar(piece.text) if writer is None else writer(columns[1 + piece.index])
            for piece, writer in zip(pieces, writers, strict=True)
        ]
        empty = pa.array([""] * len(columns[0]), pa.string())
        text = pc.binary_join_element_wise(empty, *parts, "")
        return pc.if_else(pc.is_valid(columns[0]), text, pa.scalar(None, pa.string()))

    return kernel


def _writer(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
    write, is_zeroed = _CONVERSIONS[piece.kind](piece, t, time_zone), "0" in piece.flags

    def padded(values: pa.Array) -> pa.Array:
        text = pc.fill_null(write(values), "null"[: piece.precision] if piece.conversion in "sS" else "null")
        if piece.conversion in "bB":
            text = write(values)
        if piece.conversion.isupper():
            text = pc.utf8_upper(text)
        if not piece.width:
            return text
        if is_zeroed:
            has_digits = pc.and_(pc.is_valid(values), pc.match_substring_regex(text, "[0-9a-fA-F]\\z"))
            return pc.if_else(has_digits, _zero_filled(text, piece.width), pc.utf8_lpad(text, piece.width))
        return (pc.utf8_rpad if "-" in piece.flags else pc.utf8_lpad)(text, piece.width)

    return padded


def _zero_filled(text: pa.Array, width: int) -> pa.Array:
    """Zeros between the sign and the digits."""
    found = pc.extract_regex(text, r"\A(?P<sign>[-+ ]?)(?P<rest>.*)\z")
    sign, rest = pc.struct_field(found, "sign"), pc.struct_field(found, "rest")
    with_sign = pc.binary_join_element_wise(sign, pc.utf8_lpad(rest, width - 1, "0"), "")
    return pc.if_else(pc.equal(sign, ""), pc.utf8_lpad(rest, width, "0"), with_sign)


def _text(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
    write = cast_kernel(t, sql.STRING, time_zone, is_try=True)

    def kernel(values: pa.Array) -> pa.Array:
        text = write(values)
        if t.root is TypeRoot.BOOLEAN:
            text = pc.utf8_lower(text)
        return text if piece.precision is None else pc.utf8_slice_codeunits(text, 0, piece.precision)

    return kernel


def _whole(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
    return lambda values: _signed(piece, pc.cast(values, pa.string()))


def _signed(piece: Piece, text: pa.Array) -> pa.Array:
    if "+" in piece.flags and " " in piece.flags:
        return pa.nulls(len(text), pa.string())
    if "," in piece.flags:
        # A comma behind each digit that a multiple of three digits follows.
        whole = pc.struct_field(pc.extract_regex(text, r"\A(?P<whole>-?\d+)(?P<rest>.*)\z"), "whole")
        rest = pc.struct_field(pc.extract_regex(text, r"\A(?P<whole>-?\d+)(?P<rest>.*)\z"), "rest")
        turned = pc.replace_substring_regex(pc.utf8_reverse(whole), r"(\d{3})", r"\1,")
        grouped = pc.replace_substring_regex(pc.utf8_reverse(turned), r"\A(-?),", r"\1")
        text = pc.coalesce(pc.binary_join_element_wise(grouped, rest, ""), text)
    mark = "+" if "+" in piece.flags else " " if " " in piece.flags else ""
    if not mark:
        return text
    return pc.if_else(pc.starts_with(text, "-"), text, pc.binary_join_element_wise(mark, text, ""))


def _digits(base_bits: int) -> Callable[[Piece, LogicalType, str], Writer]:
    """%x and %o: negative numbers as their bits."""

    def make(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
        def kernel(values: pa.Array) -> pa.Array:
            if pa.types.is_null(values.type):
                return pa.nulls(len(values), pa.string())
            bits = values.type.bit_width
            unsigned = numbers(values, np.int64).astype(np.uint64) & np.uint64((1 << bits) - 1)
            count = -(-bits // base_bits)
            shifts = np.arange(count - 1, -1, -1, dtype=np.uint64) * np.uint64(base_bits)
            each = (unsigned[:, None] >> shifts) & np.uint64((1 << base_bits) - 1)
            letters = np.frombuffer(b"0123456789abcdef", np.uint8)[each.astype(np.int64)]
            ends = np.arange(0, count * len(values) + 1, count, dtype=np.int32)
            text = pa.StringArray.from_buffers(
                len(values), pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(letters))
            )
            trimmed = pc.utf8_ltrim(text, characters="0")
            trimmed = pc.if_else(pc.equal(trimmed, ""), "0", trimmed)
            nulls = null_mask(values)
            return (
                trimmed
                if nulls is None
                else pc.if_else(pa.array(nulls), pa.scalar(None, pa.string()), trimmed)
            )

        return kernel

    return make


def _fixed(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
    """%f: rounded half up from the decimal digits of the number, as in Java."""
    digits = piece.digits
    wide = sql.decimal(38, digits)
    to_decimal = cast_kernel(t, wide, time_zone, is_try=True)
    to_text = cast_kernel(wide, sql.STRING, time_zone, is_try=False)

    def kernel(values: pa.Array) -> pa.Array:
        text = to_text(to_decimal(values))
        # NaN, Infinity, and numbers of more than 38 digits.
        is_other = pc.and_(pc.is_valid(values), pc.is_null(text))
        others = np.flatnonzero(is_other.to_numpy(zero_copy_only=False))
        if len(others):
            rest = [_all_digits(value, digits) for value in values.take(pa.array(others)).to_pylist()]
            text = pc.replace_with_mask(text, is_other, pa.array(rest, pa.string()))
        text = _with_lost_sign(text, values)
        return pc.if_else(pc.equal(text, "NaN"), text, _signed(piece, text))

    return kernel


def _all_digits(value: float | decimal.Decimal, digits: int) -> str:
    return f"{decimal.Decimal(str(value)):.{digits}f}"


def _with_lost_sign(text: pa.Array, values: pa.Array) -> pa.Array:
    """A negative number keeps its sign when all its digits are 0, as -0.0 does."""
    if pa.types.is_null(values.type):
        return text
    if pa.types.is_floating(values.type):
        given = numbers(values, np.float64)
        is_negative = pa.array(np.signbit(given) & ~np.isnan(given))
    else:
        is_negative = pc.less(values, zero(values.type))
    has_lost = pc.and_(is_negative, pc.invert(pc.starts_with(text, "-")))
    return pc.if_else(has_lost, pc.binary_join_element_wise("-", text, ""), text)


def _boolean(piece: Piece, t: LogicalType, time_zone: str) -> Writer:
    def kernel(values: pa.Array) -> pa.Array:
        is_true = pc.fill_null(values, False) if t.root is TypeRoot.BOOLEAN else pc.is_valid(values)
        text = pc.if_else(is_true, "true", "false")
        return text if piece.precision is None else pc.utf8_slice_codeunits(text, 0, piece.precision)

    return kernel


_CONVERSIONS: dict[str, Callable[[Piece, LogicalType, str], Writer]] = {
    "s": _text,
    "d": _whole,
    "x": _digits(4),
    "o": _digits(3),
    "f": _fixed,
    "b": _boolean,
}
