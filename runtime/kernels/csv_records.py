"""Where the records of a CSV text begin and end, and the text without what Arrow's reader does not know."""

from __future__ import annotations

import numpy as np

from runtime.native.kernel import READ_BYTES, inlined, kernel

UNTERMINATED = -1
"""Field count of a record whose quote is never closed."""

TRIM, COMMENTS, TRAILING_DELIMITER, EXTRA_FIELDS, EMPTY_LINES = 1, 2, 4, 8, 16


@kernel(f"int64({READ_BYTES}, int64, int64, int64, int64)")
def complete_length(data, delimiter, quote, escape, flags):  # type: ignore[no-untyped-def]
    """Bytes up to the end of the last record that is complete, its line end included; TRIM and COMMENTS as in `tidy`."""
    end, i, n = 0, 0, len(data)
    is_field_start, is_line_start, in_quotes, is_closed = True, True, False, False
    while i < n:
        c = np.int64(data[i])
        i += 1
        if is_line_start and c == 35 and (flags & COMMENTS) != 0:
            while i < n and data[i] != 10:
                i += 1
            continue
        is_line_start = False
        # Of a doubled quote inside quotes the first closes and the second, right behind it, opens again.
        was_closed, is_closed = is_closed, False
        if c == escape:
            i += 1
            is_field_start = False
        elif in_quotes:
            if c == quote:
                in_quotes, is_closed = False, True
        elif c == quote:
            # A quote within plain text is text.
            in_quotes = is_field_start or was_closed
            is_field_start = False
        elif c == 10:
            end, is_field_start, is_line_start = i, True, True
        elif not ((flags & TRIM) != 0 and is_field_start and (c == 32 or c == 9) and c != delimiter):
            is_line_start = c == 13
            is_field_start = c == delimiter or is_line_start
    return end


@inlined
def _copy_field(data, i, delimiter, quote, escape, trims, out, o, line):  # type: ignore[no-untyped-def]
    """Copy one field from `data[i:]` to `out[o:]`; returns (i, o, line) behind it and whether its quote is open."""
    n, is_open = len(data), False
    if trims:
        while i < n and (data[i] == 32 or data[i] == 9) and np.int64(data[i]) != delimiter:
            i += 1
    keep = o
    if i < n and np.int64(data[i]) == quote:
        out[o] = data[i]
        i, o, is_open = i + 1, o + 1, True
        while i < n and is_open:
            c = np.int64(data[i])
            out[o] = data[i]
            i, o = i + 1, o + 1
            if (c == escape or (c == quote and i < n and np.int64(data[i]) == quote)) and i < n:
                line += data[i] == 10
                out[o] = data[i]
                i, o = i + 1, o + 1
            elif c == quote:
                is_open = False
            elif c == 10:
                line += 1
        keep = o
    while i < n and np.int64(data[i]) != delimiter and data[i] != 10 and data[i] != 13:
        if np.int64(data[i]) == escape and i + 1 < n:
            out[o] = data[i]
            i, o = i + 1, o + 1
        out[o] = data[i]
        i, o = i + 1, o + 1
    if trims:
        while o > keep and (out[o - 1] == 32 or out[o - 1] == 9):
            o -= 1
    return i, o, line, is_open


@kernel(
    f"UniTuple(int64, 2)({READ_BYTES}, int64, int64, int64, int64, int64, uint8[::1], "
    "int64[::1], int64[::1], int64[::1], int64[::1])"
)
def tidy(data, delimiter, quote, escape, fields, flags, out, starts, ends, lines, counts):  # type: ignore[no-untyped-def]
    """Copy the records that have `fields` fields to `out`; returns (records seen, bytes of `out`).

    Of every record: where it stands in `data`, on which line (from 0) it begins, and how many fields it has. `flags`: TRIM
    drops blanks around unquoted values, COMMENTS drops lines that begin with #, TRAILING_DELIMITER and EXTRA_FIELDS let
    records pass that have one empty or any further fields (which are dropped), EMPTY_LINES makes an empty line a record.
    """
    n, i, o, line, record = len(data), 0, 0, 0, 0
    trims = (flags & TRIM) != 0
    while i < n:
        if (flags & COMMENTS) != 0 and data[i] == 35:
            while i < n and data[i] != 10:
                i += 1
            i, line = i + 1, line + 1
            continue
        if (flags & EMPTY_LINES) == 0 and (data[i] == 10 or data[i] == 13):
            line += data[i] == 10
            i += 1
            continue
        starts[record], lines[record] = i, line
        first_out, wanted_end, count = o, 0, 0
        is_open, is_record = False, True
        while is_record:
            field_out = o
            i, o, line, is_open = _copy_field(data, i, delimiter, quote, escape, trims, out, o, line)
            count += 1
            if count == fields:
                wanted_end = o
            is_last_empty = o == field_out
            if i < n and np.int64(data[i]) == delimiter:
                out[o] = data[i]
                i, o = i + 1, o + 1
            else:
                is_record = False
        ends[record] = i
        if i < n and data[i] == 13:
            i += 1
            if i >= n or data[i] != 10:
                i -= 1
        if i < n:
            line += data[i] == 10
            i += 1
        passes = count == fields
        if (flags & TRAILING_DELIMITER) != 0 and count == fields + 1 and is_last_empty:
            passes = True
        if (flags & EXTRA_FIELDS) != 0 and count > fields:
            passes = True
        if is_open:
            counts[record], o = UNTERMINATED, first_out
        elif passes:
            counts[record], o = fields, wanted_end
            out[o] = 10
            o += 1
        else:
            counts[record], o = count, first_out
        record += 1
    return record, o


@kernel(f"boolean({READ_BYTES}, int64)")
def may_hold_risky_number(data, digits_max):  # type: ignore[no-untyped-def]
    """Whether some digits and points are more than `digits_max` in a row, or have an exponent of two digits behind them."""
    n, run = len(data), 0
    for i in range(n):
        c = data[i]
        if (48 <= c <= 57) or c == 46:
            run += 1
            if run > digits_max:
                return True
            continue
        if run and (c == 69 or c == 101):
            at = i + 1
            if at < n and (data[at] == 43 or data[at] == 45):
                at += 1
            if at + 1 < n and 48 <= data[at] <= 57 and 48 <= data[at + 1] <= 57:
                return True
        run = 0
    return False
