"""Lines of JSON as batches.

A kernel decodes plainly written objects. DuckDB splits the others into fields, and Arrow turns the texts of their values
into columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.formats.blocks import Block, cut_at_newline, read_blocks
from sqlstream.runtime.formats.file_rows import VALUE_CHARACTERS_MAX, FileRows, empty_columns, undecodable
from sqlstream.runtime.formats.json_objects import (
    Structure,
    has_fields_of,
    has_shape_of,
    holds,
    shows_digits,
    take_apart,
)
from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.runtime.formats.json_plain import KERNEL_DEMAND, PlainObjects, PlainRows, is_nested
from sqlstream.runtime.formats.json_strict import (
    REASONS,
    keep_last_members,
    may_be_lenient,
    may_repeat_members,
)
from sqlstream.runtime.formats.json_values import parse_values, text_type_of
from sqlstream.runtime.formats.text_values import find_unparsable
from sqlstream.spi.format import ReadRequest, Rejected
from sqlstream.spi.table_options import parse_options
from sqlstream.terminal_text import shortened
from sqlstream.times import what_it_is_not
from sqlstream.types import LogicalType

KERNEL_BLOCK_BYTES = 1 << 20
"""Bytes per block for the kernel, which is fastest when a block stays in the caches."""

DUCKDB_BLOCK_BYTES = 8 << 20
"""DuckDB takes larger pieces apart half as fast again as small ones; a poll should still end within 0.1 s."""

_ODD_LINES_MAX = 1 / 16
"""With a larger part of odd lines, DuckDB's blocks are faster."""


class JsonReader(FileRows):
    """Decode the requested fields block by block.

    All values are requested as text, at every depth, so that a value which is none of the column's type is found and
    never converted into one.
    """

    def __init__(
        self, request: ReadRequest, *, uses_kernel: bool | None = None, identifier: str = "json"
    ) -> None:
        """`uses_kernel`: None for what is fastest, which is not to load the kernel for little data. `identifier`: the format
        whose option has undecodable rows skipped."""
        super().__init__(request)
        given = parse_options(JsonOptions, request.options)
        self._ignores_errors, self._needs_fields = given.ignores_errors, given.needs_fields
        self._block_bytes = request.block_bytes
        self._identifier = identifier
        self._structure = self._requested(keeps_numbers=any(shows_digits(t) for t in self._types.values()))
        self._shape = has_shape_of(self._types)
        # Fields that nested objects lack are DuckDB's to find.
        can_use_kernel = not (self._needs_fields and any(is_nested(t) for t in self._types.values()))
        self._uses_kernel = uses_kernel if can_use_kernel else False
        self._is_plain = True
        self._plain = PlainObjects(self._types, needs_fields=self._needs_fields)

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        for block in read_blocks(self._stream, self._path, cut_at_newline, self._wanted_bytes):
            yield self._decode(block)

    def _wanted_bytes(self) -> int:
        if self._block_bytes is not None:
            return self._block_bytes
        return KERNEL_BLOCK_BYTES if self._is_plain and self._decodes_plain() else DUCKDB_BLOCK_BYTES

    def _decodes_plain(self) -> bool:
        return KERNEL_DEMAND.is_met() if self._uses_kernel is None else self._uses_kernel

    def _decode(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected]]:
        plain = self._decode_plain(block)
        self._is_plain = plain is not None and len(plain.odd_lines) <= _ODD_LINES_MAX * block.newlines
        if plain is None:
            lines = lines_of(block)
            rows = self._decode_lines(lines, np.arange(len(lines)) + block.first_line)
            return rows.batch, rows.rejected
        if not len(plain.odd_lines):
            return plain.batch, []
        odd_lines = lines_of(block).take(pa.array(plain.odd_lines))
        odd = self._decode_lines(odd_lines, plain.odd_lines + block.first_line)
        return _merge(plain, odd), odd.rejected

    def _decode_plain(self, block: Block) -> PlainRows | None:
        if not self._decodes_plain():
            KERNEL_DEMAND.add(len(block.data))
            return None
        try:
            return self._plain.decode(block)
        except pa.ArrowInvalid:
            # Decoding line by line finds the one at fault.
            return None

    def _decode_lines(self, lines: pa.Array, numbers: np.ndarray[Any, Any]) -> DecodedRows:
        """`numbers`: which lines of the file they are, from 1."""
        try:
            texts = lines.cast(pa.string())
            if may_be_lenient(texts):
                return self._decode_doubtful(lines, numbers)
            values = self._objects(texts)
            if may_repeat_members(texts, values, self._types):
                last, _ = keep_last_members(texts)
                values = values if last is texts else self._objects(last)
                texts = last
            # DuckDB finds all fields missing from [], where it finds no object in other arrays.
            if values.null_count or self._needs_fields or not _begin_objects(texts):
                return self._decode_doubtful(lines, numbers)
            if self._shape and not holds(texts, self._shape).all():
                return self._decode_doubtful(lines, numbers)
            return DecodedRows(self._convert(values), np.arange(len(lines)), [])
        except pa.ArrowInvalid:
            return self._decode_doubtful(lines, numbers)

    def _objects(self, lines: pa.Array) -> pa.StructArray:
        if not len(lines):
            return pa.array([], text_type_of(self._types))
        return take_apart(lines, self._structure)

    def _convert(self, values: pa.StructArray) -> pa.RecordBatch:
        if not self._types:
            return empty_columns(len(values))
        parts = values.flatten()
        columns = [self._parse(part, t) for part, t in zip(parts, self._types.values(), strict=False)]
        return pa.RecordBatch.from_arrays(columns, names=list(self._types))

    def _requested(self, *, keeps_numbers: bool) -> Structure:
        """What `take_apart` is asked for."""
        return Structure(self._types, keeps_numbers=keeps_numbers)

    def _parse(self, part: pa.Array, t: LogicalType) -> pa.Array:
        """The texts of a field as values; ArrowInvalid when one of them is none."""
        return parse_values(part, t)

    def _what_it_is_not(self, part: pa.Array, name: str, t: LogicalType) -> str:
        """Why `_parse` refuses the one text of `part`."""
        value = part[0].as_py()
        shown = shortened(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS_MAX)
        return f'{shown} in field "{name}" is no {what_it_is_not(str(value), t)}'

    # --- line by line -------------------------------------------------------------------------------------------------

    def _decode_doubtful(self, lines: pa.Array, numbers: np.ndarray[Any, Any]) -> DecodedRows:
        reasons = dict.fromkeys(
            find_unparsable(lines, lambda part: part.cast(pa.string())), "it is no text in UTF-8"
        )
        is_text = np.ones(len(lines), dtype=bool)
        is_text[list(reasons)] = False
        texts = pc.if_else(pa.array(is_text), lines, b"").cast(pa.string())
        last, faults = keep_last_members(texts)
        reasons.update((int(row), REASONS[int(faults[row])]) for row in np.flatnonzero(faults))
        rows = np.flatnonzero(~_mask(pc.equal(pc.ascii_trim_whitespace(texts), "")) & (faults == 0))
        is_object = holds(texts.take(pa.array(rows)), "json_valid(a0) AND json_type(a0) = 'OBJECT'")
        reasons.update((int(row), "it is no JSON object") for row in rows[~is_object])
        rows, texts = rows[is_object], last
        if self._needs_fields and self._types:
            has_all = holds(texts.take(pa.array(rows)), has_fields_of(self._types))
            reasons.update((int(row), "a field is missing") for row in rows[~has_all])
            rows = rows[has_all]
        for name, t in self._types.items():
            shape = has_shape_of({name: t})
            if shape:
                has_shape = holds(texts.take(pa.array(rows)), shape)
                reasons.update(
                    (int(row), f'field "{name}" is no {t.with_nullable(True)}') for row in rows[~has_shape]
                )
                rows = rows[has_shape]
        values = self._objects(texts.take(pa.array(rows)))
        is_good = np.ones(len(rows), dtype=bool)
        for (name, t), part in zip(self._types.items(), values.flatten(), strict=False):
            for row in find_unparsable(part, partial(self._parse, t=t)):
                is_good[row] = False
                reasons.setdefault(int(rows[row]), self._what_it_is_not(part.slice(row, 1), name, t))
        rejected = [self._reject(lines[row], int(numbers[row]), reasons[row]) for row in sorted(reasons)]
        return DecodedRows(self._convert(values.filter(pa.array(is_good))), rows[is_good], rejected)

    def _reject(self, line: pa.Scalar, number: int, reason: str, hint: str = "") -> Rejected:
        text = line.as_py().decode("utf-8", "replace").rstrip("\r\n")
        rejected = Rejected(number, reason, text)
        if not self._ignores_errors:
            raise undecodable(self._path, rejected, f"{self._identifier}.ignore-parse-errors", hint)
        return rejected


@dataclass(frozen=True)
class DecodedRows:
    """Rows decoded from lines, the index of each row's line, and the lines that were rejected."""

    batch: pa.RecordBatch
    lines: np.ndarray[Any, Any]
    rejected: list[Rejected]


def _merge(plain: PlainRows, odd: DecodedRows) -> pa.RecordBatch:
    """The rows of both in the order of their lines."""
    rows, odd_rows = plain.batch.num_rows, odd.batch.num_rows
    if not odd_rows:
        return plain.batch
    if not odd.batch.num_columns:
        return empty_columns(rows + odd_rows)
    order = np.insert(np.arange(rows), plain.rows_before[odd.lines], np.arange(rows, rows + odd_rows))
    return pa.concat_batches([plain.batch, odd.batch]).take(pa.array(order))


def _begin_objects(lines: pa.Array) -> bool:
    begin = pc.all(pc.starts_with(lines, "{")).as_py()
    return begin or pc.all(pc.starts_with(pc.ascii_ltrim_whitespace(lines), "{")).as_py()


def _mask(booleans: pa.Array) -> np.ndarray[Any, Any]:
    mask: np.ndarray[Any, Any] = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def lines_of(block: Block) -> pa.Array:
    """The lines where they stand in the block, each with its line end, which is white space to JSON."""
    ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == 10) + 1
    if not len(ends) or ends[-1] != len(block.data):
        ends = np.append(ends, len(block.data))
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
    )
