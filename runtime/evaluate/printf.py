"""PRINTF: java.util.Formatter's conversions, a column at a time."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.evaluate.cast import cast_kernel
from runtime.evaluate.context import EvaluationContext
from runtime.evaluate.kernel import (
    Builder,
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
from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.types import LogicalType, TypeRoot

_SPECIFIER = re.compile(
    r"%(?:(?P<index>\d+)\$)?(?P<flags>[-+ 0,#(]*)(?P<width>[1-9]\d*)?(?:\.(?P<precision>\d+))?(?P<conversion>[a-zA-Z%])"
)
_FIXED_DIGITS_MAX = 18
_WIDTH_MAX = 10_000
Writer = Callable[[pa.Array], pa.Array]


class _Invalid(Exception):
    """A format that Java does not take, for which the result is NULL."""


@dataclasses.dataclass(frozen=True)
class _Piece:
    """A part of a format: `text` as it is, or the argument `index` by a conversion."""

    text: str = ""
    index: int = -1
    flags: str = ""
    width: int = 0
    precision: int | None = None
    conversion: str = ""


def _pieces(form: str) -> list[_Piece]:
    pieces, at, following = [], 0, 0
    while at < len(form):
        percent = form.find("%", at)
        if percent < 0:
            pieces.append(_Piece(form[at:]))
            break
        pieces.append(_Piece(form[at:percent]))
        found = _SPECIFIER.match(form, percent)
        if found is None:
            raise _Invalid
        at, conversion = found.end(), found["conversion"]
        flags, width = found["flags"], int(found["width"] or 0)
        precision = int(found["precision"]) if found["precision"] else None
        if width > _WIDTH_MAX or (precision or 0) > _WIDTH_MAX or len(set(flags)) < len(flags):
            raise _Invalid
        if conversion in "%n":
            pieces.append(_padded_mark(conversion, flags, width, precision))
            continue
        if found["index"]:
            index = int(found["index"]) - 1
        else:
            index, following = following, following + 1
        pieces.append(_Piece("", index, flags, width, precision, conversion))
    return [piece for piece in pieces if piece.text or piece.conversion]


def _padded_mark(conversion: str, flags: str, width: int, precision: int | None) -> _Piece:
    if precision is not None or (conversion == "n" and (flags or width)) or set(flags) - {"-"}:
        raise _Invalid
    if conversion == "n":
        return _Piece("\n")
    return _Piece("%".ljust(width) if "-" in flags else "%".rjust(width))


def _printf(call: Call, context: EvaluationContext) -> Kernel:
    types = [a.type for a in call.args[1:]]
    if is_literal(call, 0):
        return _formatted(literal_of(call, 0), types, context.time_zone)

    def kernel(form: Datum, *values: Datum) -> pa.Array:
        columns = as_arrays(form, *values)
        encoded = columns[0].dictionary_encode()
        codes = numbers(pc.fill_null(encoded.indices, -1), np.int64)
        rows, results = [], []
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            rows.append(chosen)
            if code < 0:
                results.append(pa.nulls(len(chosen), pa.string()))
                continue
            part = [column.take(pa.array(chosen)) for column in columns]
            results.append(_formatted(encoded.dictionary[int(code)].as_py(), types, context.time_zone)(*part))
        if not rows:
            return pa.nulls(0, pa.string())
        places = np.empty(len(codes), dtype=np.int64)
        places[np.concatenate(rows)] = np.arange(len(codes))
        return pa.concat_arrays(results).take(pa.array(places))

    return kernel


def _formatted(form: str, types: list[LogicalType], time_zone: str) -> Kernel:
    """The kernel of one format; NULL for each row when Java does not take the format for these types."""
    try:
        pieces = _pieces(form)
        writers = [_writer(p, types, time_zone) if p.conversion else None for p in pieces]
    except _Invalid:
        return lambda *given: pa.nulls(rows_of(*given), pa.string())

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


def _writer(piece: _Piece, types: list[LogicalType], time_zone: str) -> Writer:
    if piece.index >= len(types):
        raise _Invalid
    make = _CONVERSIONS.get(piece.conversion.lower() if piece.conversion in "SXB" else piece.conversion)
    if make is None or set(piece.flags) - set(_FLAGS[piece.conversion.lower()]):
        if piece.conversion in "aAcCeEgGhHtT" or piece.conversion in _FLAGS:
            hint = "use %s, %d, %x, %o, %f, %b, %n or %%, with the flags - + 0 , and a space"
            raise UserError("SS3462", f"PRINTF does not know %{piece.flags}{piece.conversion}", hint=hint)
        raise _Invalid
    is_zeroed = "0" in piece.flags
    if (("-" in piece.flags or is_zeroed) and not piece.width) or (is_zeroed and "-" in piece.flags):
        raise _Invalid
    write = make(piece, types[piece.index], time_zone)

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


def _text(piece: _Piece, t: LogicalType, time_zone: str) -> Writer:
    write = cast_kernel(t, sql.STRING, time_zone, is_try=True)

    def kernel(values: pa.Array) -> pa.Array:
        text = write(values)
        if t.root is TypeRoot.BOOLEAN:
            text = pc.utf8_lower(text)
        return text if piece.precision is None else pc.utf8_slice_codeunits(text, 0, piece.precision)

    return kernel


def _whole(piece: _Piece, t: LogicalType, time_zone: str) -> Writer:
    if not (sql.is_integer(t) or t.root is TypeRoot.NULL) or piece.precision is not None:
        raise _Invalid
    return lambda values: _signed(piece, pc.cast(values, pa.string()))


def _signed(piece: _Piece, text: pa.Array) -> pa.Array:
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


def _digits(base_bits: int) -> Callable[[_Piece, LogicalType, str], Writer]:
    """%x and %o: negative numbers as their bits."""

    def make(piece: _Piece, t: LogicalType, time_zone: str) -> Writer:
        if (
            not (sql.is_integer(t) or t.root is TypeRoot.NULL)
            or piece.precision is not None
            or set(piece.flags) & set("+ ,")
        ):
            raise _Invalid

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


def _fixed(piece: _Piece, t: LogicalType, time_zone: str) -> Writer:
    """%f: rounded half up from the decimal digits of the number, as in Java."""
    digits = 6 if piece.precision is None else piece.precision
    if t.root is not TypeRoot.NULL and t.root not in (*sql.APPROXIMATE_ROOTS, TypeRoot.DECIMAL):
        raise _Invalid
    if digits > _FIXED_DIGITS_MAX:
        raise UserError(
            "SS3462", f"PRINTF has at most {_FIXED_DIGITS_MAX} digits behind the point", hint="ask for fewer"
        )
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


def _boolean(piece: _Piece, t: LogicalType, time_zone: str) -> Writer:
    def kernel(values: pa.Array) -> pa.Array:
        is_true = pc.fill_null(values, False) if t.root is TypeRoot.BOOLEAN else pc.is_valid(values)
        text = pc.if_else(is_true, "true", "false")
        return text if piece.precision is None else pc.utf8_slice_codeunits(text, 0, piece.precision)

    return kernel


_FLAGS = {"s": "-", "d": "-+ 0,", "x": "-0", "o": "-0", "f": "-+ 0,", "b": "-"}
_CONVERSIONS: dict[str, Callable[[_Piece, LogicalType, str], Writer]] = {
    "s": _text,
    "d": _whole,
    "x": _digits(4),
    "o": _digits(3),
    "f": _fixed,
    "b": _boolean,
}

BUILDERS: dict[str, Builder] = {"PRINTF": _printf}
