"""Batches as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.runtime.formats.row_writer import (
    ENCLOSED,
    JSON,
    PLAIN,
    RowColumn,
    RowForm,
    RowWriter,
    direct_column,
    text_column,
)
from sqlstream.runtime.formats.text_values import bracketed, format_text
from sqlstream.schema import Schema
from sqlstream.spi.table_options import parse_options
from sqlstream.types import INT, STRING_ROOTS, LogicalType, TypeRoot, is_integer

_SHORT_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NUMBERS = (
    *(TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DECIMAL, TypeRoot.BOOLEAN),
    *(TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH),
)


_TIMES = (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


class JsonWriter:
    """Write each batch as lines. No state but the stream."""

    def __init__(self, stream: BinaryIO, schema: Schema, options: dict[str, str]) -> None:
        self._stream = stream
        self._schema = schema
        given = parse_options(JsonOptions, options)
        self._leaves_out_nulls = given.leaves_out_nulls
        self._is_plain = given.writes_plain_decimals
        self._date_separator = "T" if given.timestamp_standard == "ISO-8601" else " "
        labels = [f"{json.dumps(name, ensure_ascii=False)}:".encode() for name in schema.names]
        self._rows = RowWriter(
            RowForm(
                opening=b"{",
                prefixes=tuple(
                    b"," + label if number or given.leaves_out_nulls else label
                    for number, label in enumerate(labels)
                ),
                end=b"}\n",
                null=b"null",
                leaves_out_nulls=given.leaves_out_nulls,
                date_separator=self._date_separator,
            )
        )

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            columns = [self._column(c, t) for c, t in zip(batch.columns, self._schema.types, strict=True)]
            self._rows.write(self._stream, columns, batch.num_rows)

    def close(self) -> None:
        """Nothing is buffered."""

    def _column(self, column: pa.Array, t: LogicalType) -> RowColumn:
        if t.root in STRING_ROOTS:
            return text_column(column, JSON)
        quoting = ENCLOSED if t.root in _TIMES else PLAIN
        return direct_column(column, t, quoting) or text_column(self.value_texts(column, t), PLAIN)

    def object_texts(
        self, columns: Sequence[pa.Array], names: Sequence[str], types: Sequence[LogicalType]
    ) -> pa.Array:
        pieces: list[pa.Array | pa.Scalar] = []
        for number, (name, column, t) in enumerate(zip(names, columns, types, strict=True)):
            label = json.dumps(name, ensure_ascii=False) + ":"
            text = self.value_texts(column, t)
            if self._leaves_out_nulls:
                labelled = pc.binary_join_element_wise(pa.scalar("," + label), text, "")
                pieces.append(pc.fill_null(labelled, ""))
            else:
                pieces += [pa.scalar(("," if number else "") + label), pc.fill_null(text, "null")]
        if not self._leaves_out_nulls:
            return pc.binary_join_element_wise(pa.scalar("{"), *pieces, pa.scalar("}"), "")
        # Every field that is there has its comma in front; the first one's goes.
        joined = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*pieces, ""), 1)
        return pc.binary_join_element_wise(pa.scalar("{"), joined, pa.scalar("}"), "")

    def value_texts(self, column: pa.Array, t: LogicalType) -> pa.Array:
        """The JSON text of every value; NULL stays NULL."""
        match t.root:
            case TypeRoot.ROW:
                names, types = [f.name for f in t.fields], [f.type for f in t.fields]
                return _with_nulls_of(column, self.object_texts(column.flatten(), names, types))
            case TypeRoot.ARRAY:
                assert t.element is not None
                items = pc.fill_null(self.value_texts(column.values, t.element), "null")
                return bracketed(column, items, "[,]")
            case TypeRoot.MAP | TypeRoot.MULTISET:
                key, item = (t.key, t.element) if t.key is not None else (t.element, INT)
                assert key is not None
                assert item is not None
                keys = quote(format_text(column.keys, key, self._date_separator))
                items = pc.fill_null(self.value_texts(column.items, item), "null")
                return bracketed(column, pc.binary_join_element_wise(keys, items, pa.scalar(":")), "{,}")
            case TypeRoot.DECIMAL if self._is_plain:
                return plain_decimal(column)
            case _ if is_integer(t) or t.root in _NUMBERS:
                return _quote_special(format_text(column, t), t)
            case _:
                return quote(format_text(column, t, self._date_separator))


def _quote_special(texts: pa.Array, t: LogicalType) -> pa.Array:
    """NaN and the infinities are no JSON numbers; a whole number shows that it is approximate, as Flink writes it."""
    if t.root not in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return texts
    is_whole = pc.match_substring_regex(texts, r"^-?\d+$")
    texts = pc.if_else(is_whole, pc.binary_join_element_wise(texts, "0", "."), texts)
    is_special = pc.match_substring_regex(texts, "[NI]")
    return pc.if_else(is_special, pc.binary_join_element_wise('"', texts, '"', ""), texts)


def quote(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings."""
    if pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        for character, escaped in _SHORT_ESCAPES.items():
            texts = pc.replace_substring(texts, character, escaped)
        for code in range(32):
            if pc.any(pc.match_substring(texts, chr(code))).as_py():
                texts = pc.replace_substring(texts, chr(code), f"\\u{code:04x}")
    edge = pa.scalar('"')
    return pc.binary_join_element_wise(edge, texts, edge, "")


def plain_decimal(column: pa.Array) -> pa.Array:
    """Decimals without an exponent: Arrow writes one when a value is very small."""
    texts = column.cast(pa.string())
    has_exponent = pc.match_substring(texts, "E")
    if not pc.any(has_exponent).as_py():
        return texts
    wide = pa.decimal256(column.type.precision + 1, column.type.scale)
    size = pc.cast(pc.abs(column), wide)
    # An exponent means that the value is below one. With one added it has a point and all its zeros: 1.000000027.
    shifted = pc.cast(pc.add(size, pa.scalar(1).cast(wide)), pa.string())
    sign = pc.if_else(pc.less(column, pa.scalar(0).cast(column.type)), "-0", "0")
    plain = pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(shifted, 1), "")
    return pc.if_else(has_exponent, plain, texts)


def _with_nulls_of(column: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.string())) if column.null_count else texts
