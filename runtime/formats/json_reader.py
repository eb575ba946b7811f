"""Lines of JSON as batches.

A kernel decodes plainly written objects at once. The others are read into a tape, and Arrow turns the texts of their values
into columns.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.errors import UserError
from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.blocks import BLOCK_BYTES, Block, owned, read_blocks
from sqlstream.runtime.formats.file_rows import (
    VALUE_CHARACTERS_MAX,
    FileRows,
    empty_columns,
    joined_rows,
    undecodable,
)
from sqlstream.runtime.formats.json_objects import JsonObjects, parse_values, why_no_object
from sqlstream.runtime.formats.json_options import JsonOptions
from sqlstream.runtime.formats.json_plain import LineIndex, PlainObjects, PlainRows
from sqlstream.runtime.formats.text_values import find_unparsable, joined_lines, texts_of
from sqlstream.runtime.kernels.json.json_tape import ARRAY
from sqlstream.spi.format import DecodedMessages, ReadRequest, Rejected
from sqlstream.spi.table_options import parse_options
from sqlstream.terminal_text import shortened
from sqlstream.times import what_it_is_not
from sqlstream.types import NESTED_ROOTS, LogicalType

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class JsonReader(FileRows):
    """Decode the requested fields block by block.

    All values are taken as text, at every depth: so a value that is none of the column's type is found, and never converted
    into one.
    """

    def __init__(self, request: ReadRequest, *, uses_kernel: bool = True, identifier: str = "json") -> None:
        """`uses_kernel`: whether plainly written objects are decoded at once. `identifier`: the format whose option has
        undecodable rows skipped."""
        super().__init__(request)
        given = parse_options(JsonOptions, request.options)
        self._ignores_errors, self._needs_fields = given.ignores_errors, given.needs_fields
        self._block_bytes = request.block_bytes or BLOCK_BYTES
        self._identifier = identifier
        # The kernel does not see which fields objects lack that it takes as text, as those in maps.
        has_nested = any(t.root in NESTED_ROOTS for t in self._types.values())
        self._uses_kernel = uses_kernel and not (self._needs_fields and has_nested)
        self._plain = PlainObjects(self._types, needs_fields=self._needs_fields)
        self._fault: tuple[int, UserError] | None = None

    def decoded(self) -> Iterator[tuple[pa.RecordBatch, list[Rejected]]]:
        # The kernel's columns refer to nothing of a block.
        lends = self._uses_kernel
        for block in read_blocks(self._stream, self._path, LineIndex().cut, self._block_bytes, lends=lends):
            rows = self.decode(block)
            yield rows.batch, rows.rejected

    def decode(self, block: Block) -> DecodedMessages:
        """The rows of a block; owners and rejected messages are lines of it. Each element of a line that is an array is a row."""
        return self._unless_undecodable(self._decode(block, None))

    def _unless_undecodable(self, found: DecodedMessages) -> DecodedMessages:
        """UserError SS5011 for the first undecodable line so far, where this is an error."""
        if self._fault is not None:
            raise self._fault[1]
        return found

    def _decode(self, block: Block, numbers: Numbers | None) -> DecodedMessages:
        """`numbers`: the lines that the lines of the block are elements of; None: they are lines themselves."""
        plain = self._decode_plain(block)
        if plain is not None and not len(plain.odd_lines):
            has_all = plain.batch.num_rows == _count_lines(block)
            return DecodedMessages(plain.batch, None if has_all else _plain_lines(block, plain), [])
        block = owned(block)
        lines = lines_of(block)
        odd = np.arange(len(lines)) if plain is None else plain.odd_lines
        odd_lines = lines if plain is None else lines.take(pa.array(odd))
        arrays = elements_of_arrays(odd_lines) if numbers is None else None
        if numbers is None:
            numbers = np.arange(len(lines)) + block.first_line
        others = np.arange(len(odd))
        if arrays is not None:
            others = np.flatnonzero(~arrays.is_array)
            odd_lines = odd_lines.take(pa.array(others))
        rows = self._decode_lines(odd_lines, numbers[odd[others]])
        rows = dataclasses.replace(rows, lines=others[rows.lines])
        found = (
            DecodedMessages(rows.batch, odd[rows.lines], rows.rejected)
            if plain is None
            else _merge(plain, _plain_lines(block, plain), rows)
        )
        if arrays is None or not len(arrays.owners):
            return found
        owners = odd[arrays.owners]
        inner = self._decode(arrays.elements, numbers[owners])
        owners = owners if inner.owners is None else owners[inner.owners]
        return joined_rows([found, DecodedMessages(inner.batch, owners, inner.rejected)])

    def _decode_plain(self, block: Block) -> PlainRows | None:
        if not self._uses_kernel:
            return None
        try:
            return self._plain.decode(block)
        except pa.ArrowInvalid:
            # Decoding line by line finds the one at fault.
            return None

    def _decode_lines(self, lines: pa.Array, numbers: np.ndarray[Any, Any]) -> DecodedRows:
        """`numbers`: which lines of the file they are, from 1."""
        texts, foreign = texts_of(lines)
        reasons = dict.fromkeys(foreign, "it is no text in UTF-8")
        objects = self._taken_apart(texts)
        for row in np.flatnonzero(~objects.is_object):
            line = lines[row].as_py()
            if line.strip(b" \t\r\n"):
                reasons.setdefault(int(row), why_no_object(line))
        if self._needs_fields:
            _blame(reasons, objects.lacks_field & objects.is_object, "a field is missing")
        for name, t in self._types.items():
            _blame(reasons, objects.is_misshapen[name], f'field "{name}" is no {t.with_nullable(True)}')
        is_good = objects.is_object.copy()
        is_good[list(reasons)] = False
        try:
            batch = self._convert(objects, is_good)
        except pa.ArrowInvalid:
            rows = np.flatnonzero(is_good)
            values = objects.values.filter(pa.array(is_good))
            for (name, t), part in zip(self._types.items(), values.flatten(), strict=True):
                for place in find_unparsable(part, partial(self._parse, t=t)):
                    reasons.setdefault(int(rows[place]), self._what_it_is_not(part.slice(place, 1), name, t))
            is_good[list(reasons)] = False
            batch = self._convert(objects, is_good)
        rejected = [self._reject(lines[row], int(numbers[row]), reasons[row]) for row in sorted(reasons)]
        return DecodedRows(batch, np.flatnonzero(is_good), rejected)

    def _taken_apart(self, texts: pa.Array) -> JsonObjects:
        return JsonObjects(texts, self._types)

    def _convert(self, objects: JsonObjects, is_good: np.ndarray[Any, Any]) -> pa.RecordBatch:
        """The objects that are good as rows; ArrowInvalid when a text is no value of its column's type."""
        if not self._types:
            return empty_columns(int(is_good.sum()))
        values = objects.values if is_good.all() else objects.values.filter(pa.array(is_good))
        columns = [
            self._parse(part, t) for part, t in zip(values.flatten(), self._types.values(), strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(self._types))

    def _parse(self, part: pa.Array, t: LogicalType) -> pa.Array:
        """The texts of a field as values; ArrowInvalid when one of them is none."""
        return parse_values(part, t)

    def _what_it_is_not(self, part: pa.Array, name: str, t: LogicalType) -> str:
        """Why `_parse` refuses the one text of `part`."""
        value = part[0].as_py()
        shown = shortened(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS_MAX)
        return f'{shown} in field "{name}" is no {what_it_is_not(str(value), t)}'

    def _reject(self, line: pa.Scalar, number: int, reason: str, hint: str = "") -> Rejected:
        text = line.as_py().decode("utf-8", "replace").rstrip("\r\n")
        rejected = Rejected(number, reason, text)
        # Elements of arrays are decoded behind the other lines, whichever came first.
        if not self._ignores_errors and (self._fault is None or number < self._fault[0]):
            option = f"{self._identifier}.ignore-parse-errors"
            self._fault = number, undecodable(self._path, rejected, option, hint)
        return rejected


@dataclass(frozen=True)
class DecodedRows:
    """Rows decoded from lines, the place of each row's line among them, and the lines that were rejected."""

    batch: pa.RecordBatch
    lines: np.ndarray[Any, Any]
    rejected: list[Rejected]


@dataclass(frozen=True)
class ElementsOfArrays:
    """`is_array`: which lines are arrays. `elements`: each a line of its own. `owners`: the line that each is an element of."""

    is_array: np.ndarray[Any, Any]
    elements: Block
    owners: Numbers


def elements_of_arrays(lines: pa.Array) -> ElementsOfArrays | None:
    """None where no line is an array."""
    begin = pc.match_substring_regex(lines, rb"^[ \t\r\n]*\[").to_numpy(zero_copy_only=False)
    candidates = np.flatnonzero(begin)
    if not len(candidates):
        return None
    documents = read_lines(texts_of(lines.take(pa.array(candidates)))[0])
    found = documents.kinds(documents.roots) == ARRAY
    if not found.any():
        return None
    is_array = np.zeros(len(lines), dtype=bool)
    is_array[candidates[found]] = True
    children, counts = documents.children(documents.roots[found])
    texts = bytes(joined_lines(documents.json(children), b"\n")) if len(children) else b""
    block = Block(texts, 0, len(children))
    return ElementsOfArrays(is_array, block, np.repeat(candidates[found], counts))


def _count_lines(block: Block) -> int:
    return block.newlines + (block.data[-1:] != b"\n")


def _plain_lines(block: Block, plain: PlainRows) -> np.ndarray[Any, Any]:
    """The place of the line of each plain row: all but the odd ones, and those that are blank."""
    is_plain = np.ones(_count_lines(block), dtype=bool)
    is_plain[plain.odd_lines] = False
    if plain.batch.num_rows + len(plain.odd_lines) != len(is_plain):
        is_blank = pc.match_substring_regex(lines_of(block), "^[ \t\r\n]*$")
        is_plain &= ~is_blank.to_numpy(zero_copy_only=False)
    return np.flatnonzero(is_plain)


def _merge(plain: PlainRows, lines: np.ndarray[Any, Any], odd: DecodedRows) -> DecodedMessages:
    """The rows of both in the order of their lines; `lines` are those of the plain ones."""
    rows, odd_rows = plain.batch.num_rows, odd.batch.num_rows
    if not odd_rows:
        return DecodedMessages(plain.batch, lines, odd.rejected)
    places = plain.rows_before[odd.lines]
    lines = np.insert(lines, places, plain.odd_lines[odd.lines])
    if not odd.batch.num_columns:
        return DecodedMessages(empty_columns(rows + odd_rows), lines, odd.rejected)
    order = np.insert(np.arange(rows), places, np.arange(rows, rows + odd_rows))
    merged = pa.concat_batches([plain.batch, odd.batch]).take(pa.array(order))
    return DecodedMessages(merged, lines, odd.rejected)


def _blame(reasons: dict[int, str], mask: np.ndarray[Any, Any], reason: str) -> None:
    for row in np.flatnonzero(mask):
        reasons.setdefault(int(row), reason)


def lines_of(block: Block) -> pa.Array:
    """The lines where they stand in the block, each with its line end, which is white space to JSON."""
    ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == 10) + 1
    if not len(ends) or ends[-1] != len(block.data):
        ends = np.append(ends, len(block.data))
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(block.data)]
    )
