"""Finds where the records of a CSV text begin and end, and removes from the text all that Arrow's reader does not support.

A record ends at a line feed, a carriage return or both. A quote opens a quoted field only where a field begins;
elsewhere it is text. Only blanks may follow a closing quote before the delimiter or the line end. Where a quote breaks
these rules, the record is lost up to the end of the line on which the quote opens. Reading continues at the next line, so
how much is lost depends neither on the rest of the file nor on the bounds of blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sqlstream.runtime.native.kernel import READ_BYTES, inlined, instruction, kernel

WHOLE, UNTERMINATED, TEXT_BEHIND_QUOTE, ESCAPE_AT_END = 0, 1, 2, 3
"""Results of `tidy` for a record: its quotes are valid; a quote is not closed, or closed on a later line and followed by
text; a quote is closed on its line and followed by text; the file ends after an escape character."""
_INCOMPLETE = 4

TRIM, COMMENTS, TRAILING_DELIMITER, EXTRA_FIELDS, EMPTY_LINES = 1, 2, 4, 8, 16
_LF, _CR, _HASH, _BLANK, _TAB = 10, 13, 35, 32, 9
_WIDTH = 64


@instruction("int64(int64, int64, int64)")
def _find_one_of(ir: Any, builder: Any, address: Any, first: Any, second: Any) -> Any:
    """The position of the first of two bytes or a line end in the 64 bytes at an address, 64 when there is none."""
    byte, lane = ir.IntType(8), ir.IntType(32)
    vector = ir.VectorType(byte, _WIDTH)
    text = builder.load(builder.inttoptr(address, vector.as_pointer()), align=1, typ=vector)
    same_lane = ir.Constant(ir.VectorType(lane, _WIDTH), [0] * _WIDTH)
    found = builder.or_(
        builder.icmp_unsigned("==", text, ir.Constant(vector, [_LF] * _WIDTH)),
        builder.icmp_unsigned("==", text, ir.Constant(vector, [_CR] * _WIDTH)),
    )
    for wanted in (first, second):
        one = builder.insert_element(
            ir.Constant(vector, ir.Undefined), builder.trunc(wanted, byte), ir.Constant(lane, 0)
        )
        spread = builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), same_lane)
        found = builder.or_(found, builder.icmp_unsigned("==", text, spread))
    mask = builder.bitcast(found, ir.IntType(_WIDTH))
    return builder.cttz(mask, ir.Constant(ir.IntType(1), 0))


@inlined
def _next_one_of(data, i, first, second):  # type: ignore[no-untyped-def]
    """The place, from `i` on, of the first of two bytes (-1 is none) or a line end; the length where there is none."""
    n = len(data)
    if i + _WIDTH <= n:
        # A byte of -1 is replaced by a line end, which is searched for anyway.
        one, two = first if first >= 0 else _LF, second if second >= 0 else _LF
        address = data.ctypes.data
        while i + _WIDTH <= n:
            found = _find_one_of(address + i, one, two)
            i += found
            if found < _WIDTH:
                return i
    while i < n:
        c = np.int64(data[i])
        if c == first or c == second or c == _LF or c == _CR:  # noqa: SIM109 (one comparison after the other)
            return i
        i += 1
    return i


@inlined
def _line_end(data, i, is_last):  # type: ignore[no-untyped-def]
    """(where the line of `data[i]` ends, behind its line end); -1 behind when more of the file is needed to know."""
    n = len(data)
    i = _next_one_of(data, i, -1, -1)
    if i >= n:
        return n, n if is_last else -1
    if data[i] == _LF:
        return i, i + 1
    if i + 1 == n:
        return i, n if is_last else -1
    return i, i + 2 if data[i + 1] == _LF else i + 1


@inlined
def _measure(data, first, delimiter, quote, escape, flags, bytes_max, is_last):  # type: ignore[no-untyped-def]
    """Find the end of the record that begins at `first`.

    Returns (status, end of its text, start of the next one, fields, whether the last field is empty, whether blanks stand
    behind a closing quote). The status is one of WHOLE …; `fields` is their number, or the number of the one that is wrong.
    With `is_last` the data goes to the end of the file. A quote that is open at a line end more than `bytes_max` bytes behind
    `first` is unterminated.
    """
    n, i, fields, has_blanks = len(data), first, 1, False
    while True:
        if (flags & TRIM) != 0:
            while i < n and (data[i] == _BLANK or data[i] == _TAB) and np.int64(data[i]) != delimiter:
                i += 1
        field = i
        if i < n and np.int64(data[i]) == quote:
            is_open, is_one_line, is_long = True, True, False
            i += 1
            while i < n and is_open and not is_long:
                i = _next_one_of(data, i, quote, escape)
                if i == n:
                    break
                c = np.int64(data[i])
                i += 1
                if c == quote:
                    if i < n and np.int64(data[i]) == quote:
                        i += 1
                    else:
                        is_open = False
                elif c == escape:
                    i += 1
                else:
                    is_one_line, is_long = False, i - first > bytes_max
            is_unterminated = is_open and (is_long or (i >= n and is_last))
            if not is_open:
                closed = i
                while i < n and (data[i] == _BLANK or data[i] == _TAB) and np.int64(data[i]) != delimiter:
                    i += 1
                has_blanks = has_blanks or i > closed
            if is_unterminated or (
                i < n and not is_open and np.int64(data[i]) != delimiter and data[i] != _LF and data[i] != _CR
            ):
                end, after = _line_end(data, field, is_last)
                wrong = TEXT_BEHIND_QUOTE if is_one_line and not is_unterminated else UNTERMINATED
                return (wrong if after >= 0 else _INCOMPLETE), end, after, fields, False, has_blanks
            if i >= n and not is_last:
                return _INCOMPLETE, n, n, fields, False, has_blanks
        else:
            i = _next_one_of(data, i, delimiter, escape)
            while i < n and np.int64(data[i]) == escape:
                i = _next_one_of(data, i + 2, delimiter, escape)
            if i > n and is_last:
                return ESCAPE_AT_END, n, n, fields, False, has_blanks
        if i < n and np.int64(data[i]) == delimiter:
            fields += 1
            i += 1
            continue
        if i >= n and not is_last:
            return _INCOMPLETE, n, n, fields, False, has_blanks
        is_last_empty = i == field
        end, after = _line_end(data, min(i, n), is_last)
        return (WHOLE if after >= 0 else _INCOMPLETE), end, after, fields, is_last_empty, has_blanks


@kernel(f"UniTuple(int64, 2)({READ_BYTES}, int64, int64, int64, int64, int64, boolean)")
def complete_length(data, delimiter, quote, escape, flags, bytes_max, is_last):  # type: ignore[no-untyped-def]
    """Bytes up to the end of the last record that is complete, its line end included; whether Arrow reads these as we do.

    `bytes_max` and `is_last` as in `_measure`, of `flags` TRIM and COMMENTS as in `tidy`.
    """
    i, n, is_plain = 0, len(data), True
    while i < n:
        if (flags & COMMENTS) != 0 and data[i] == _HASH:
            _, after = _line_end(data, i, is_last)
            if after < 0:
                break
        else:
            status, _, after, _, _, has_blanks = _measure(
                data, i, delimiter, quote, escape, flags, bytes_max, is_last
            )
            if status == _INCOMPLETE:
                break
            is_plain = is_plain and status == WHOLE and not has_blanks
        i = after
    return i, is_plain


@inlined
def _copy_record(data, i, end, delimiter, quote, escape, trims, fields, out, o):  # type: ignore[no-untyped-def]
    """Copy the first `fields` fields of the whole record `data[i:end]` to `out[o:]`; returns the place behind them."""
    for field in range(fields):
        if field:
            out[o] = data[i]
            i, o = i + 1, o + 1
        if trims:
            while i < end and (data[i] == _BLANK or data[i] == _TAB) and np.int64(data[i]) != delimiter:
                i += 1
        if i < end and np.int64(data[i]) == quote:
            out[o] = data[i]
            i, o, is_open = i + 1, o + 1, True
            while is_open:
                c = np.int64(data[i])
                out[o] = data[i]
                i, o = i + 1, o + 1
                if c == escape or (c == quote and i < end and np.int64(data[i]) == quote):
                    out[o] = data[i]
                    i, o = i + 1, o + 1
                elif c == quote:
                    is_open = False
            # What stands here before the delimiter is blank.
            while i < end and np.int64(data[i]) != delimiter:
                i += 1
            continue
        keep = o
        while i < end and np.int64(data[i]) != delimiter:
            is_escape = np.int64(data[i]) == escape
            out[o] = data[i]
            i, o = i + 1, o + 1
            if is_escape:
                out[o] = data[i]
                i, o = i + 1, o + 1
                keep = o
        if trims:
            while o > keep and (out[o - 1] == _BLANK or out[o - 1] == _TAB):
                o -= 1
    return o


@kernel(
    f"UniTuple(int64, 2)({READ_BYTES}, int64, int64, int64, int64, int64, int64, uint8[::1], "
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def tidy(  # type: ignore[no-untyped-def]
    data, delimiter, quote, escape, fields, flags, bytes_max, out, starts, ends, lines, counts, faults
):
    """Copy the records that have `fields` fields to `out`; returns (records seen, bytes of `out`).

    Of every record: `starts` and `ends` in `data`, the line (from 0) on which it begins, and what is wrong with its quotes
    (WHOLE …). `counts` has its number of fields, or which field (from 1) is wrong. `bytes_max` as in `_measure`. Flags:
    TRIM drops blanks around unquoted values. COMMENTS drops lines that begin with #. TRAILING_DELIMITER drops one more field
    that is empty, EXTRA_FIELDS any more fields. EMPTY_LINES makes an empty line a record.
    """
    n, i, o, line, record = len(data), 0, 0, 0, 0
    trims = (flags & TRIM) != 0
    while i < n:
        if (flags & COMMENTS) != 0 and data[i] == _HASH:
            _, after = _line_end(data, i, True)
        elif (flags & EMPTY_LINES) == 0 and (data[i] == _LF or data[i] == _CR):
            after = i + 1
        else:
            status, end, after, count, is_last_empty, _ = _measure(
                data, i, delimiter, quote, escape, flags, bytes_max, True
            )
            passes = count == fields
            if (flags & TRAILING_DELIMITER) != 0 and count == fields + 1 and is_last_empty:
                passes = True
            if (flags & EXTRA_FIELDS) != 0 and count > fields:
                passes = True
            starts[record], ends[record], lines[record], faults[record] = i, end, line, status
            counts[record] = fields if passes and status == WHOLE else count
            record += 1
            if passes and status == WHOLE:
                o = _copy_record(data, i, end, delimiter, quote, escape, trims, fields, out, o)
                out[o] = _LF
                o += 1
        while i < after:
            line += data[i] == _LF
            i += 1
    return record, o
