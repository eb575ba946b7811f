"""How Debezium encodes values: moments as numbers, decimals as bytes; by the schema of a message, or by the declared type."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import to_arrow_type
from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.base64_column import decode_base64
from sqlstream.runtime.formats.text_values import parse_text, require_times
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

ENCODED_ROOTS = (*TIMESTAMP_ROOTS, TypeRoot.DATE, TypeRoot.TIME, TypeRoot.DECIMAL, TypeRoot.BOOLEAN)

Mask = np.ndarray[Any, np.dtype[np.bool_]]

DAYS = "d"
MILLISECONDS, MICROSECONDS, NANOSECONDS = "ms", "us", "ns"
PRECISE, STRING = "precise", "string"

_UNITS = {
    "io.debezium.time.Date": DAYS,
    "io.debezium.time.Time": MILLISECONDS,
    "io.debezium.time.MicroTime": MICROSECONDS,
    "io.debezium.time.NanoTime": NANOSECONDS,
    "io.debezium.time.Timestamp": MILLISECONDS,
    "io.debezium.time.MicroTimestamp": MICROSECONDS,
    "io.debezium.time.NanoTimestamp": NANOSECONDS,
    "org.apache.kafka.connect.data.Date": DAYS,
    "org.apache.kafka.connect.data.Time": MILLISECONDS,
    "org.apache.kafka.connect.data.Timestamp": MILLISECONDS,
}
"""The unit of a number, by the name of its schema."""

_CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_SCALE = re.compile("-?[0-9]{1,4}")

_PER_SECOND = {MILLISECONDS: 10**3, MICROSECONDS: 10**6, NANOSECONDS: 10**9}
_PER_DAY = {DAYS: 1, **{unit: 86_400 * factor for unit, factor in _PER_SECOND.items()}}

_YEAR_9999_MS = 253_402_300_800_000
_NUMBER = r"^-?[0-9]+$"
_DECIMAL_TEXT = r"^\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*$"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class AmbiguousDecimal(pa.ArrowInvalid):  # type: ignore[misc]
    """A text that is a decimal number and the base64 of one, where no other value says which of both are written."""


@dataclass(frozen=True)
class Encoding:
    """How the values of a column are encoded, as their schema says it. `unit`: of numbers that are moments. `decimals`: PRECISE
    with the `scale` of the bytes, or STRING. None where the schema says nothing."""

    unit: str | None = None
    decimals: str | None = None
    scale: int | None = None


@dataclass
class Encodings:
    """What a table is told of the encodings of its columns.

    `time_unit`: of moments that are numbers without a schema; None for that of their precision. `decimals`: as
    `decimal.handling.mode` of the connector; None where the values themselves have to say it. `has_micro_times`: TIME is in
    microseconds whatever its precision, as MySQL's is. State: which of PRECISE and STRING values have shown so far.
    """

    time_unit: str | None = None
    decimals: str | None = None
    has_micro_times: bool = False
    by_column: Mapping[str, Encoding] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def parse(self, texts: pa.Array, t: LogicalType, known: Encoding | None = None) -> pa.Array:
        """Texts of scalar values, of DECIMAL those of their JSON. ArrowInvalid when one of them is no value of the type."""
        if t.root is TypeRoot.DECIMAL:
            return self._decimals(texts, t, known or Encoding())
        if t.root is TypeRoot.BOOLEAN:
            return parse_text(booleans(texts), t)
        if t.root in TIMESTAMP_ROOTS or t.root in (TypeRoot.DATE, TypeRoot.TIME):
            return self._moments(texts, t, known or Encoding())
        return parse_text(texts, t)

    def _moments(self, texts: pa.Array, t: LogicalType, known: Encoding) -> pa.Array:
        if t.root is not TypeRoot.TIME and known.unit is None:
            # No number is the text of a date.
            with contextlib.suppress(pa.ArrowInvalid):
                return parse_text(texts, t)
        are_numbers = pc.match_substring_regex(texts, _NUMBER)
        if not pc.any(are_numbers).as_py():
            return parse_text(texts, t)
        others = pc.if_else(are_numbers, pa.scalar(None, pa.string()), texts)
        numbers = pc.cast(pc.if_else(are_numbers, texts, pa.scalar(None, pa.string())), pa.int64())
        moments = _moments_of(numbers, t, known.unit or self._unit_of(t))
        if others.null_count == len(others):
            return moments
        return pc.coalesce(moments, parse_text(others, t))

    def _unit_of(self, t: LogicalType) -> str | None:
        if t.root is TypeRoot.DATE:
            return DAYS
        if t.root is TypeRoot.TIME and self.has_micro_times and self.time_unit is None:
            return MICROSECONDS
        return self.time_unit

    def _decimals(self, texts: pa.Array, t: LogicalType, known: Encoding) -> pa.Array:
        is_struct = pc.starts_with(texts, "{")
        is_quoted = pc.starts_with(texts, '"')
        if not (pc.any(is_struct).as_py() or pc.any(is_quoted).as_py()):
            return parse_text(texts, t)
        nothing = pa.scalar(None, pa.string())
        inner = pc.utf8_slice_codeunits(pc.if_else(is_quoted, texts, nothing), 1, -1)
        is_base64 = self._are_base64(inner, known)
        written = pc.if_else(is_quoted, pc.if_else(is_base64, nothing, inner), texts)
        written = pc.if_else(is_struct, nothing, written)
        encoded = pc.if_else(is_base64, inner, nothing)
        scale = t.scale if known.scale is None else known.scale
        parts = [parse_text(written, t), _decimals_of(decode_base64(encoded), scale, t)]
        return pc.coalesce(*parts, *_variable(pc.if_else(is_struct, texts, nothing), t))

    def _are_base64(self, inner: pa.Array, known: Encoding) -> pa.Array:
        """Which of the texts, of which some are NULL, are bytes."""
        mode = known.decimals or self.decimals
        if mode is not None:
            return pc.and_(pc.is_valid(inner), mode == PRECISE)
        base64 = pc.and_(pc.match_substring_regex(inner, _BASE64), pc.not_equal(inner, ""))
        number = pc.match_substring_regex(inner, _DECIMAL_TEXT)
        if pc.any(pc.and_not(base64, number)).as_py():
            self._seen.add(PRECISE)
        if pc.any(pc.and_not(number, base64)).as_py():
            self._seen.add(STRING)
        is_both = pc.and_(base64, number)
        if not pc.any(is_both).as_py():
            return base64
        if len(self._seen) != 1:
            raise AmbiguousDecimal("a text is a decimal number and the base64 of another one")
        return base64 if self._seen == {PRECISE} else pc.and_not(base64, number)


def booleans(texts: pa.Array) -> pa.Array:
    """MySQL has TINYINT(1) for BOOLEAN."""
    texts = pc.if_else(pc.equal(texts, "1"), "true", texts)
    return pc.if_else(pc.equal(texts, "0"), "false", texts)


def _moments_of(numbers: pa.Array, t: LogicalType, unit: str | None) -> pa.Array:
    """Numbers since 1970, or since midnight, as moments. Without a unit it is that of the precision, as Debezium's
    `time.precision.mode` = `adaptive` chooses it: what is beyond the range of milliseconds is microseconds."""
    is_null = numbers.is_null()
    values = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False)
    is_time = t.root is TypeRoot.TIME
    target = to_arrow_type(t)
    into = DAYS if t.root is TypeRoot.DATE else target.unit
    if unit is not None:
        moments = _converted(values, unit, into)
    else:
        limit = 86_400_000 if is_time else _YEAR_9999_MS
        adaptive = MILLISECONDS if t.precision <= 3 else MICROSECONDS if t.precision <= 6 else NANOSECONDS
        moments = np.empty_like(values)
        is_finer = (np.abs(values) >= limit) & (adaptive == MILLISECONDS)
        moments[~is_finer] = _converted(values[~is_finer], adaptive, into)
        moments[is_finer] = _converted(values[is_finer], MICROSECONDS, into)
    if is_time and ((moments < 0) | (moments >= _PER_DAY[into])).any():
        raise pa.ArrowInvalid("a time is none of a day")
    storage = pa.int32() if target.bit_width == 32 else pa.int64()
    made = pa.array(moments, pa.int64(), mask=is_null.to_numpy(zero_copy_only=False))
    return require_times(pc.cast(made, storage).view(target))


def _converted(values: np.ndarray[Any, Any], unit: str, into: str) -> np.ndarray[Any, Any]:
    """Numbers of one unit in another; what is finer is cut. ArrowInvalid for what 64 bits do not hold."""
    # A day has as many of each unit: the finer one is a multiple of the other.
    have, wanted = _PER_DAY[unit], _PER_DAY[into]
    if have >= wanted:
        return values // (have // wanted)
    factor = wanted // have
    if len(values) and (np.abs(values) > np.iinfo(np.int64).max // factor).any():
        raise pa.ArrowInvalid("a moment is beyond the range of its type")
    return values * factor


def _decimals_of(encoded: pa.Array, scale: int, t: LogicalType) -> pa.Array:
    """Big-endian two's complement numbers of any length as decimals."""
    count = len(encoded)
    offsets = np.frombuffer(encoded.buffers()[1], dtype=np.int32)[encoded.offset : encoded.offset + count + 1]
    lengths = np.diff(offsets).astype(np.int64)
    is_null = encoded.is_null().to_numpy(zero_copy_only=False)
    lengths[is_null] = 0
    if (lengths > 16).any() or ((lengths == 0) & ~is_null).any():
        raise pa.ArrowInvalid("a decimal has no more than 38 digits")
    target = to_arrow_type(t)
    if not lengths.sum():
        return pa.nulls(count, target)
    data = np.frombuffer(encoded.buffers()[2], dtype=np.uint8)
    little = np.zeros((count, 16), dtype=np.uint8)
    rows = np.repeat(np.arange(count), lengths)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    read = data[offsets[:-1][rows] + places]
    is_negative = np.zeros(count, dtype=bool)
    is_negative[rows[places == 0]] = read[places == 0] >= 0x80
    little[is_negative] = 0xFF
    little[rows, lengths[rows] - 1 - places] = read
    buffers = [None, pa.py_buffer(little.tobytes())]
    whole = pa.Array.from_buffers(pa.decimal128(38, scale), count, buffers)
    whole = pc.if_else(pa.array(is_null), pa.scalar(None, whole.type), whole)
    if scale > t.scale:
        whole = pc.round(whole, ndigits=t.scale, round_mode="half_towards_infinity")
    return pc.cast(whole, target)


def _variable(texts: pa.Array, t: LogicalType) -> Iterator[pa.Array]:
    """io.debezium.data.VariableScaleDecimal: an object of a scale and bytes. One array for each scale that there is."""
    if texts.null_count == len(texts):
        return
    documents = read_lines(texts)
    scale, value = documents.members(documents.roots, "scale", "value")
    scales = pc.cast(documents.texts(scale), pa.int32())
    encoded = decode_base64(documents.texts(np.where(documents.kinds(value) == json_tape.STRING, value, -1)))
    if scales.null_count > texts.null_count or encoded.null_count > texts.null_count:
        raise pa.ArrowInvalid("an object is no decimal")
    for scale in pc.unique(pc.drop_null(scales)).to_pylist():
        chosen = pc.if_else(pc.equal(scales, scale), encoded, pa.scalar(None, pa.binary()))
        yield _decimals_of(chosen, scale, t)


def encodings_of(schema_text: str | None) -> dict[str, Encoding]:
    """By column, what the schema of a message (Kafka Connect's, as JSON) says of its encoding."""
    try:
        schema = json.loads(schema_text or "null")
    except ValueError:
        return {}
    found: dict[str, Encoding] = {}
    for row in _fields(schema):
        if row.get("field") in ("before", "after"):
            for column in _fields(row):
                encoding = _encoding(column)
                if encoding is not None:
                    found[str(column.get("field"))] = encoding
    return found


def _fields(schema: Any) -> Iterator[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return (each for each in fields if isinstance(each, dict)) if isinstance(fields, list) else iter(())


def _encoding(column: dict[str, Any]) -> Encoding | None:
    name, kind = column.get("name"), column.get("type")
    if name in _UNITS:
        return Encoding(unit=_UNITS[name])
    if name == _CONNECT_DECIMAL:
        parameters = column.get("parameters")
        text = str(parameters.get("scale", "")) if isinstance(parameters, dict) else ""
        return Encoding(decimals=PRECISE, scale=int(text) if _SCALE.fullmatch(text) else None)
    if kind == "string":
        return Encoding(decimals=STRING)
    return None
