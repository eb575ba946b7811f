"""CAST and TRY_CAST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream import types as sql
from sqlstream.arrow import to_arrow_type
from sqlstream.errors import UserError
from sqlstream.expressions import Call
from sqlstream.row_errors import cannot_cast
from sqlstream.runtime.evaluate import decimals
from sqlstream.runtime.evaluate.cast_from_text import DECIMAL_TEXT, SPACES, text_reader, unread
from sqlstream.runtime.evaluate.cast_to_text import text_writer
from sqlstream.runtime.evaluate.context import EvaluationContext
from sqlstream.runtime.evaluate.fallible import is_narrower
from sqlstream.runtime.evaluate.kernel import Kernel, Values, null_mask, numbers, zero
from sqlstream.runtime.evaluate.lists import Lists, last_kept, list_column
from sqlstream.runtime.evaluate.time.intervals import checked_interval, milliseconds_of
from sqlstream.runtime.evaluate.time.local_time import from_local, to_local
from sqlstream.runtime.evaluate.time.time_parts import cut_off, in_unit
from sqlstream.runtime.evaluate.time.time_range import null_beyond_range, require_range
from sqlstream.runtime.overflow import overflowed
from sqlstream.times import DAY_MS
from sqlstream.types import LogicalType, TypeRoot


def cast(call: Call, context: EvaluationContext) -> Kernel:
    source = call.args[0].type
    if sql.is_integer(call.type) and (sql.is_integer(source) or source.root in sql.APPROXIMATE_ROOTS):
        return _to_integer(call)
    return cast_kernel(call.args[0].type, call.type, context.time_zone, is_try=call.function == "TRY_CAST")


def _to_integer(call: Call) -> Kernel:
    """Of whole and of binary numbers; says how many are beyond the type."""
    source = call.args[0].type
    plain = cast_kernel(source, call.type, "UTC", is_try=False)
    if sql.is_integer(source) and not is_narrower(call.type, source):
        return plain
    high = 2 ** (to_arrow_type(call.type).bit_width - 1)
    low = -high

    def kernel(value: pa.Array) -> pa.Array:
        result = plain(value)
        extent = pc.min_max(value)
        least, most = extent["min"].as_py(), extent["max"].as_py()
        if least is not None and (most >= high or least < low):
            whole = pc.cast(value, pa.float64(), safe=False) if sql.is_integer(source) else pc.trunc(value)
            beyond = pc.or_(pc.greater_equal(whole, float(high)), pc.less(whole, float(low)))
            overflowed(pc.sum(beyond).as_py() or 0, "CAST", call.type, call.span)
        return result

    return kernel


def cast_kernel(source: LogicalType, target: LogicalType, time_zone: str, *, is_try: bool) -> Kernel:
    """The kernel that casts `source` to `target`; text that cannot be read is an error, or NULL when `is_try`."""
    if source.root is TypeRoot.NULL:
        return lambda value: pa.nulls(len(value), to_arrow_type(target))
    if sql.is_string(target):
        return _to_text(source, target, time_zone, is_try)
    if target.root in sql.BINARY_ROOTS:
        return lambda value: _to_bytes(value, target)
    if sql.is_string(source):
        return _from_text(target, time_zone, is_try)
    if source.same_as(target):
        return lambda value: value
    if source.element is not None or source.fields:
        return _nested(source, target, time_zone, is_try)
    if sql.is_timestamp(target):
        return _to_timestamp(source, target, time_zone, is_try)
    if sql.is_timestamp(source):
        return _from_timestamp(target, time_zone, is_try)
    return _to_number(source, target, is_try)


def _from_text(target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    reader = text_reader(target, time_zone)

    def kernel(text: pa.Array) -> pa.Array:
        values = reader(text)
        if is_try or (target.root is TypeRoot.DECIMAL and not _is_malformed(text, values)):
            return values
        bad = unread(text, values)
        if len(bad):
            raise cannot_cast(text[int(bad[0])].as_py(), str(target.with_nullable(True)))
        return values

    return kernel


def _is_malformed(text: pa.Array, values: pa.Array) -> bool:
    """Whether some string that became NULL is not a number; a number that is only too large is NULL, as in Flink."""
    bad = unread(text, values)
    return bool(len(bad)) and not pc.all(_is_number(text.take(pa.array(bad)))).as_py()


def _is_number(text: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim(text, characters=SPACES)
    return pc.match_substring_regex(trimmed, DECIMAL_TEXT)


def _to_text(source: LogicalType, target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    if sql.is_string(source):
        write: Any = None
    elif source.root in sql.BINARY_ROOTS:
        write = _decoder(is_try)
    elif source.root in NESTED:
        write = nested_writer(source, lambda t: cast_kernel(t, sql.STRING, time_zone, is_try=is_try))
    else:
        write = text_writer(source, time_zone)
    is_shorter = target.length < sql.VARCHAR_LENGTH_MAX and not (
        sql.is_string(source) and source.length <= target.length
    )
    is_padded = target.root is TypeRoot.CHAR and not (
        source.root is TypeRoot.CHAR and source.length == target.length
    )

    def kernel(value: pa.Array) -> pa.Array:
        text = value if write is None else write(value)
        if is_shorter:
            text = pc.utf8_slice_codeunits(text, 0, target.length)
        return pc.utf8_rpad(text, target.length) if is_padded else text

    return kernel


def _decoder(is_try: bool) -> Kernel:
    def decode(value: pa.Array) -> pa.Array:
        try:
            return pc.cast(value, pa.string())
        except pa.ArrowInvalid as error:
            if not is_try:
                raise UserError("SS5102", "cannot cast bytes to STRING: they are not UTF-8") from error
        from sqlstream.runtime.evaluate.duckdb_function import evaluate_in_duckdb

        return evaluate_in_duckdb("try(decode(a0))", value)

    return decode


def _to_bytes(value: pa.Array, target: LogicalType) -> pa.Array:
    """Cut off at the target's length; BINARY is filled up with zeros."""
    data = pc.cast(value, pa.binary())
    if target.length == sql.VARCHAR_LENGTH_MAX:
        return data
    data = pc.binary_slice(data, 0, target.length)
    if target.root is TypeRoot.BINARY:
        filled = pc.binary_join_element_wise(data, pa.scalar(b"\0" * target.length), pa.scalar(b""))
        return pc.binary_slice(filled, 0, target.length)
    return data


def _to_timestamp(source: LogicalType, target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    arrow = to_arrow_type(target)
    is_same_kind = source.root is target.root
    held = null_beyond_range if is_try else require_range

    def kernel(value: pa.Array) -> pa.Array:
        if source.root is TypeRoot.TIME:
            value = pc.cast(pc.cast(value, pa.int32()), pa.int64()).view(pa.timestamp("ms"))
        moved = value if is_same_kind else _as_timestamp(to_local(value, time_zone))
        moved = in_unit(held(cut_off(moved, target.precision), arrow.unit), arrow.unit)
        return moved if is_same_kind else held(from_local(moved, arrow, time_zone))

    return kernel


def _as_timestamp(value: pa.Array) -> pa.Array:
    return pc.cast(value, pa.timestamp("ms")) if pa.types.is_date32(value.type) else value


def _from_timestamp(target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    held = null_beyond_range if is_try else require_range

    def to_date(value: pa.Array) -> pa.Array:
        days = numbers(milliseconds_of(to_local(value, time_zone)), np.int64) // DAY_MS
        return held(pa.array(days.astype(np.int32), mask=null_mask(value)).view(pa.date32()))

    def to_time(value: pa.Array) -> pa.Array:
        of_day = numbers(milliseconds_of(to_local(value, time_zone)), np.int64) % DAY_MS
        return pa.array(of_day.astype(np.int32), mask=null_mask(value)).view(pa.time32("ms"))

    return to_date if target.root is TypeRoot.DATE else to_time


def _to_number(source: LogicalType, target: LogicalType, is_try: bool) -> Kernel:
    """Between numbers, booleans and intervals, as Flink: integers wrap, floats saturate, decimals round."""
    arrow = to_arrow_type(target)
    if target.root is TypeRoot.BOOLEAN:
        return lambda value: pc.not_equal(value, zero(value.type))
    if target.root is TypeRoot.DECIMAL:
        return _to_decimal(source, arrow)
    if source.root is TypeRoot.DECIMAL and sql.is_integer(target):
        return lambda value: _whole_part(value, arrow)
    if source.root is TypeRoot.DECIMAL and target.root in sql.APPROXIMATE_ROOTS:
        return lambda value: decimals.to_floats(value, arrow)
    if source.root in sql.APPROXIMATE_ROOTS and sql.is_integer(target):
        return lambda value: _saturated(value, arrow)
    if source.root is TypeRoot.INTERVAL_DAY_TIME:
        return lambda value: pc.cast(pc.cast(value, pa.int64()), arrow, safe=False)
    if sql.is_interval(target):
        return _to_interval(arrow, is_try)
    return lambda value: value if value.type == arrow else pc.cast(value, arrow, safe=False)


def _to_interval(arrow: pa.DataType, is_try: bool) -> Kernel:
    """Whole numbers as milliseconds or months; too many months are an error, or NULL."""

    def kernel(value: pa.Array) -> pa.Array:
        if is_try and value.type.bit_width > arrow.bit_width:
            fits = pc.equal(pc.cast(pc.cast(value, arrow, safe=False), value.type), value)
            value = pc.if_else(fits, value, pa.scalar(None, value.type))
        return checked_interval(lambda number: number, arrow, value)

    return kernel


def _to_decimal(source: LogicalType, arrow: pa.DataType) -> Kernel:
    if source.root is TypeRoot.BOOLEAN:
        return lambda value: decimals.fit(pc.cast(value, pa.int8()), arrow)
    if source.root in sql.APPROXIMATE_ROOTS:
        reader = text_reader(sql.decimal(arrow.precision, arrow.scale), "UTC")
        # Through text, because Java converts the shortest decimal that prints as the number.
        return lambda value: reader(pc.cast(value, pa.string()))
    return lambda value: decimals.fit(value, arrow)


def _whole_part(value: pa.Array, arrow: pa.DataType) -> pa.Array:
    whole = pc.cast(pc.trunc(decimals.with_headroom(value)), pa.decimal128(38, 0))
    words = pa.array(decimals.low_words(whole), mask=null_mask(value))
    return pc.cast(words, arrow, safe=False)


def _saturated(value: pa.Array, arrow: pa.DataType) -> pa.Array:
    """NaN becomes 0, too large a value the largest INT or BIGINT; narrower types take the low bits of that."""
    is_long = arrow.bit_width == 64
    values = numbers(value, np.float64)
    low, high = (-(2.0**63), 2.0**63) if is_long else (-(2.0**31), 2.0**31 - 1)
    with np.errstate(invalid="ignore"):
        clipped = np.clip(np.nan_to_num(values, nan=0.0, posinf=high, neginf=low), low, high)
        integers = np.where(clipped >= 2.0**63, np.int64(2**63 - 1), clipped.astype(np.int64))
    return pc.cast(pa.array(integers, mask=null_mask(value)), arrow, safe=False)


def _nested(source: LogicalType, target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    """Cast element by element. With `is_try` a value is NULL when one of its elements cannot be cast."""
    if source.root is TypeRoot.ROW:
        return _row(source, target, time_zone, is_try)
    if source.root is TypeRoot.MAP:
        return _map(source, target, time_zone, is_try)
    assert source.element is not None
    assert target.element is not None
    element = cast_kernel(source.element, target.element, time_zone, is_try=is_try)
    arrow, source_element, target_element = to_arrow_type(target), source.element, target.element

    def kernel(value: pa.Array) -> pa.Array:
        lists = Lists.of(value)
        # Only those: another row's element, from which the column was cut, may be one that fails.
        given = lists.elements()
        values, nulls = element(given), lists.nulls
        if is_try:
            has_failed = lists.counted(failures(given, values, source_element, target_element)) > 0
            nulls = has_failed if nulls is None else nulls | has_failed
        return list_column(arrow, lists.lengths, values, nulls)

    return kernel


def _row(source: LogicalType, target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    pairs = [(s.type, t.type) for s, t in zip(source.fields, target.fields, strict=True)]
    kernels = [cast_kernel(s, t, time_zone, is_try=is_try) for s, t in pairs]
    fields = list(to_arrow_type(target))

    def kernel(value: pa.Array) -> pa.Array:
        mask = null_mask(value)
        given = value.flatten()
        children = [k(c) for k, c in zip(kernels, given, strict=True)]
        if is_try:
            for before, after, (s, t) in zip(given, children, pairs, strict=True):
                failed = failures(before, after, s, t)
                mask = failed if mask is None else mask | failed
        return pa.StructArray.from_arrays(
            children, fields=fields, mask=None if mask is None else pa.array(mask)
        )

    return kernel


def _map(source: LogicalType, target: LogicalType, time_zone: str, is_try: bool) -> Kernel:
    """Keys and values one by one; of keys that become equal the last is kept."""
    assert source.key is not None
    assert target.key is not None
    assert source.element is not None
    assert target.element is not None
    pairs = [(source.key, target.key), (source.element, target.element)]
    kernels = [cast_kernel(s, t, time_zone, is_try=is_try) for s, t in pairs]
    arrow = to_arrow_type(target)

    def kernel(value: pa.Array) -> pa.Array:
        entries = Lists.of(value)
        owners, given = entries.owners(), entries.elements().flatten()
        keys, items = (k(column) for k, column in zip(kernels, given, strict=True))
        nulls, lengths = entries.nulls, entries.lengths
        if is_try:
            lost = [failures(g, c, s, t) for g, c, (s, t) in zip(given, (keys, items), pairs, strict=True)]
            has_failed = entries.counted(lost[0] | lost[1]) > 0
            nulls = has_failed if nulls is None else nulls | has_failed
            kept = pa.array(np.flatnonzero(~has_failed[owners]))
            lengths, keys, items = lengths * ~has_failed, keys.take(kept), items.take(kept)
        return last_kept(arrow, lengths, keys, items, nulls)

    return kernel


def failures(given: pa.Array, cast: pa.Array, source: LogicalType, target: LogicalType) -> Values:
    """bool[n]: values that TRY_CAST made NULL because CAST fails on them; a decimal that is merely too large is NULL in
    both."""
    if target.root is TypeRoot.DECIMAL and not sql.is_string(source):
        return np.zeros(len(given), dtype=np.bool_)
    lost = pc.and_(pc.is_valid(given), pc.is_null(cast))
    if target.root is TypeRoot.DECIMAL:
        lost = pc.and_(lost, pc.fill_null(pc.invert(_is_number(given)), False))
    return numbers(lost, np.bool_)


# Arrays, maps, multisets and rows as text, in Flink's forms: [1, 2], {a=1, b=2} and (1, a).


Writer = Callable[[pa.Array], pa.Array]
NESTED = frozenset(sql.CONSTRUCTED_ROOTS)


def nested_writer(source: LogicalType, writer_of: Callable[[LogicalType], Writer]) -> Writer:
    """The writer of a nested type; `writer_of` gives that of a part. NULL within is NULL in words."""
    if source.root is TypeRoot.ROW:
        return _row_writer([writer_of(f.type) for f in source.fields])
    assert source.element is not None
    element = writer_of(source.element) if source.root is not TypeRoot.MULTISET else writer_of(sql.INT)
    if source.root is TypeRoot.ARRAY:
        return lambda values: _joined(
            "[", Lists.of(values), _in_words(element(Lists.of(values).elements())), "]"
        )
    key = writer_of(source.key if source.key is not None else source.element)

    def write(values: pa.Array) -> pa.Array:
        entries = Lists.of(values)
        keys, items = entries.elements().flatten()
        pairs = pc.binary_join_element_wise(_in_words(key(keys)), _in_words(element(items)), "=")
        return _joined("{", entries, pairs, "}")

    return write


def _row_writer(writers: list[Writer]) -> Writer:
    def write(values: pa.Array) -> pa.Array:
        parts = [_in_words(w(column)) for w, column in zip(writers, values.flatten(), strict=True)]
        inner = pc.binary_join_element_wise(*parts, ", ")
        text = pc.binary_join_element_wise("(", inner, ")", "")
        return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))

    return write


def _in_words(text: pa.Array) -> pa.Array:
    return pc.fill_null(text, "NULL")


def _joined(left: str, lists: Lists, texts: pa.Array, right: str) -> pa.Array:
    whole = list_column(pa.list_(pa.string()), lists.lengths, texts, lists.nulls)
    return pc.binary_join_element_wise(left, pc.binary_join(whole, ", "), right, "")
