"""Events of whole rows, and what is known of those that are not whole: Debezium's and Oracle GoldenGate's."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.change_events.changelog import old_columns_of
from sqlstream.runtime.formats.change_events.encodings import (
    ENCODED_ROOTS,
    AmbiguousDecimal,
    Encoding,
    Encodings,
    encodings_of,
)
from sqlstream.runtime.formats.change_events.events import (
    DELETES,
    UPDATES,
    ChangeEventFormat,
    Changes,
    Mask,
    Numbers,
    Operations,
    is_there,
)
from sqlstream.runtime.formats.change_events.metadata import EventMetadata
from sqlstream.runtime.formats.change_events.reader import ChangeEventReader
from sqlstream.runtime.formats.json_objects import JsonObjects, parse_values
from sqlstream.runtime.formats.json_reader import DecodedRows
from sqlstream.runtime.formats.text_values import texts_of
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, EventDemand, ReadRequest
from sqlstream.times import is_time_text
from sqlstream.types import BINARY_ROOTS, NESTED_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

_OWN_FILE = re.compile(r"(?:^|/)part-[0-9a-f]{20}-(?:joined-)?\d+-\d{8}[.-][^/]*$")
"""A file that a sink of ours has written: its deletions have whole rows, however many NULLs these have."""

_MYSQL = re.compile(rb'"connector"\s*:\s*"(?:mysql|mariadb)"')
_POSTGRES = "postgresql"
_SCHEMAS_MAX = 64

_UNKNOWN = "$unknown"
"""A column of structs: of each column whether a placeholder stands for its value."""


class WholeRowsReader(ChangeEventReader):
    """Without a key a deletion has to carry a whole row. One of which half of the columns or more are absent, or NULL in what
    Postgres has logged, is refused: by default it logs nothing but the key (REPLICA IDENTITY). State: whether an update has shown
    that rows are logged whole.
    """

    path: tuple[str, ...] = ()
    """The members of its envelope that lead to an event."""

    def __init__(
        self,
        request: ReadRequest,
        format_: ChangeEventFormat,
        metadata: Mapping[str, EventMetadata],
        *,
        keeps_nulls: bool,
        logs_nulls: bool,
    ) -> None:
        """`keeps_nulls`: a field that is NULL is there. `logs_nulls`: what is not logged may be there as NULL."""
        super().__init__(request, format_, metadata)
        self._names, self._logs_nulls = request.schema.names, logs_nulls
        self._trusts_rows = (
            not keeps_nulls or len(self._names) < 2 or _OWN_FILE.search(self._path) is not None
        )

    def _old_columns(self, schema: Schema, read: tuple[str, ...], demand: EventDemand) -> tuple[str, ...]:
        """A value that an event leaves out after a change may be known from before, also where the key changes."""
        return read

    def _partial(self, changes: Changes, lines: pa.Array, at: Numbers) -> Iterator[Mask]:
        has_before = is_there(changes.before)
        is_update = changes.operations == UPDATES
        if self._trusts_rows:
            return
        has_null = np.zeros(len(has_before), dtype=bool)
        for column in changes.before.flatten():
            has_null |= ~is_there(column)
        is_doubtful = has_before & has_null & (is_update | (changes.operations == DELETES))
        doubtful = np.flatnonzero(is_doubtful)
        found = np.zeros(len(has_before), dtype=bool)
        if len(doubtful):
            absent, nulls, absent_after, connectors = self._looked_at(
                lines.take(pa.array(at[changes.owners[doubtful]]))
            )
            half = (len(self._names) + 1) // 2
            may_be_key = np.zeros(len(doubtful), dtype=bool)
            if self._logs_nulls and not (is_update & has_before).any():
                may_be_key = pc.equal(connectors, _POSTGRES).to_numpy(zero_copy_only=False)
            is_key = (absent >= half) | (may_be_key & (nulls >= half))
            found[doubtful] = np.where(is_update[doubtful], absent > absent_after, is_key)
        yield found
        # One update with its row before shows that the log has whole rows.
        self._logs_nulls = self._logs_nulls and not (is_update & has_before & ~found).any()

    def _looked_at(self, lines: pa.Array) -> tuple[Numbers, Numbers, Numbers, pa.Array]:
        """Of rows before: how many columns are absent, how many absent or NULL, how many are absent after the change, and which
        connector may have logged them."""
        documents = read_lines(lines.cast(pa.string()))
        events = documents.roots
        for name in self.path:
            events = documents.member(events, name)
        rows = documents.members(events, "before", "after")
        before, after = (documents.members(row, *self._names) for row in rows)
        is_null = np.stack([documents.kinds(members) for members in before]) == json_tape.NULL
        absent, absent_after = ((members < 0).sum(axis=0) for members in (before, after))
        sources = documents.member(events, "source")
        connectors = documents.texts(documents.member(sources, "connector"))
        # Flink and sqlstream write whole rows, an `after` that is NULL, and no source.
        own = pa.array((sources < 0) & (rows[1] >= 0))
        connectors = pc.if_else(own, "", pc.fill_null(connectors, _POSTGRES))
        return absent, absent + is_null.sum(axis=0), absent_after, connectors


class DebeziumReader(WholeRowsReader):
    """Values are encoded as Debezium's converters do it, and placeholders stand for those that are unknown. State: the encodings
    of the last block."""

    def __init__(
        self,
        request: ReadRequest,
        format_: ChangeEventFormat,
        metadata: Mapping[str, EventMetadata],
        *,
        encodings: Encodings,
        placeholder: str,
        has_schema: bool,
        keeps_nulls: bool,
    ) -> None:
        self._encodings = encodings
        self._placeholders = Placeholders(placeholder)
        self._has_placeholders = False
        self._has_schema = has_schema
        self._schemas: dict[str | None, dict[str, Encoding]] = {}
        if has_schema:
            self.path = ("payload",)
        super().__init__(request, format_, metadata, keeps_nulls=keeps_nulls, logs_nulls=True)

    def _old_columns(self, schema: Schema, read: tuple[str, ...], demand: EventDemand) -> tuple[str, ...]:
        """Of the values after a change only those that are stored apart may be unknown."""
        # Who reads events as they come wants the row time of a deletion.
        if not demand.marked:
            return read
        names = old_columns_of(schema, read, demand)
        types = dict(zip(schema.names, schema.types, strict=True))
        return tuple(c for c in read if c in names or self._placeholders.can_be(types[c]))

    def _taken_apart(self, texts: pa.Array) -> JsonObjects:
        return JsonObjects(texts, self._types, keeps_quotes=True)

    def decode(self, block: Block) -> DecodedMessages:
        self._has_placeholders = self._placeholders.may_be_in(block.data)
        self._encodings.has_micro_times = _MYSQL.search(block.data) is not None
        return super().decode(block)

    def _decode_lines(self, lines: pa.Array, numbers: np.ndarray[Any, Any]) -> DecodedRows:
        """The lines of each schema together: it says how their values are encoded."""
        if not self._has_schema or not len(lines):
            return super()._decode_lines(lines, numbers)
        coded = _schemas_of(lines).dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        parts = []
        for code in np.unique(codes):
            text = None if code < 0 else coded.dictionary[int(code)].as_py()
            self._encodings.by_column = self._encoded_by(text)
            places = np.flatnonzero(codes == code)
            rows = super()._decode_lines(lines.take(pa.array(places)), numbers[places])
            parts.append((places[rows.lines], rows))
        if len(parts) == 1:
            return parts[0][1]
        at = np.concatenate([at for at, _ in parts])
        order = np.argsort(at)
        batch = pa.concat_batches([rows.batch for _, rows in parts]).take(pa.array(order))
        rejected = sorted((r for _, rows in parts for r in rows.rejected), key=lambda r: r.line)
        return DecodedRows(batch, at[order], rejected)

    def _encoded_by(self, schema_text: str | None) -> dict[str, Encoding]:
        if len(self._schemas) > _SCHEMAS_MAX:
            self._schemas.clear()
        if schema_text not in self._schemas:
            self._schemas[schema_text] = encodings_of(schema_text)
        return self._schemas[schema_text]

    def _convert(self, objects: JsonObjects, is_good: Mask) -> pa.RecordBatch:
        batch = super()._convert(objects, is_good)
        if not self._has_placeholders:
            return batch
        values = objects.values.filter(pa.array(is_good))
        rows = _member(_member(values, "payload") if self._has_schema else values, "after")
        masks = [
            self._placeholders.find(texts, f.type)
            for texts, f in zip(rows.flatten(), self._changelog.row.fields, strict=True)
        ]
        unknown = pa.StructArray.from_arrays(
            map(pa.array, masks), names=[f.name for f in self._changelog.row.fields]
        )
        return pa.RecordBatch.from_arrays([*batch.columns, unknown], names=[*batch.schema.names, _UNKNOWN])

    def _changes(
        self, events: pa.RecordBatch, lines: pa.Array, at: Any, operations: Operations, chosen: Numbers
    ) -> Changes:
        changes = super()._changes(events, lines, at, operations, chosen)
        if not self._has_placeholders:
            return changes
        masks = events.column(_UNKNOWN).take(pa.array(chosen))
        found = {
            f.name: mask
            for f, column in zip(masks.type, masks.flatten(), strict=True)
            if (mask := _mask(column)).any()
        }
        return replace(changes, unknown=found).filled()

    def _parse(self, part: pa.Array, t: LogicalType) -> pa.Array:
        if t is self._changelog.row or t is self._changelog.old:
            columns = []
            for field, texts in zip(t.fields, part.flatten(), strict=True):
                if self._has_placeholders:
                    is_unknown = pa.array(self._placeholders.find(texts, field.type))
                    texts = pc.if_else(is_unknown, pa.scalar(None, texts.type), texts)
                columns.append(self._value(texts, field.type, self._encodings.by_column.get(field.name)))
            return pa.StructArray.from_arrays(columns, names=[f.name for f in t.fields], mask=part.is_null())
        return self._value(part, t)

    def _value(self, texts: pa.Array, t: LogicalType, known: Encoding | None = None) -> pa.Array:
        if t.root in NESTED_ROOTS:
            return parse_values(texts, t, self._parse)
        return self._encodings.parse(texts, t, known) if t.root in ENCODED_ROOTS else parse_values(texts, t)

    def _what_it_is_not(self, part: pa.Array, name: str, t: LogicalType) -> str:
        if t.root is TypeRoot.DECIMAL:
            said = super()._what_it_is_not(pc.utf8_trim(part, '"'), name, t)
            try:
                self._value(part, t)
            except AmbiguousDecimal:
                return (
                    f"{said} for sure, but may be the bytes of one: set 'debezium-json.decimal-handling-mode'"
                )
            except pa.ArrowInvalid:
                return said
        said = super()._what_it_is_not(part, name, t)
        if t.root is TypeRoot.TIMESTAMP and is_time_text(str(part[0].as_py()).rstrip("Z"), t):
            return f"{said}: it has a zone, declare TIMESTAMP_LTZ({t.precision})"
        return said


def _member(values: pa.StructArray, name: str) -> pa.Array:
    return values.flatten()[values.type.get_field_index(name)]


def _mask(booleans: pa.Array) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def _schemas_of(lines: pa.Array) -> pa.Array:
    """The text of the schema of each line; NULL for a line without one."""
    texts, _ = texts_of(lines)
    documents = read_lines(texts)
    return documents.json(documents.member(documents.roots, "schema"))


# What Debezium writes for a value that the log of Postgres does not have: an unchanged value that is stored apart
# (TOAST).


class Placeholders:
    """The placeholder, which each type has in a form of its own: the text; for BYTES its base64 or hexadecimal digits; for arrays
    one such element, or its bytes as numbers; for maps one entry of it."""

    def __init__(self, placeholder: str) -> None:
        raw = placeholder.encode()
        self._forms = (placeholder, base64.b64encode(raw).decode(), raw.hex())
        self._texts = pa.array(self._forms)
        self._json = pa.array([f'"{form}"' for form in self._forms])
        self._codes = [str(byte) for byte in raw]
        self._marks = (*(form.encode() for form in self._forms), ",".join(self._codes[:8]).encode())

    def may_be_in(self, data: bytes) -> bool:
        return any(mark in data for mark in self._marks)

    def can_be(self, t: LogicalType) -> bool:
        """Whether values of a type are stored apart."""
        kinds = (*STRING_ROOTS, *BINARY_ROOTS, TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.DECIMAL)
        return t.root in kinds

    def find(self, texts: pa.Array, t: LogicalType) -> Mask:
        """Which of the texts of a column stand for an unknown value."""
        count = len(texts)
        if t.root is TypeRoot.ARRAY:
            return self._lists(texts, count)
        if t.root is TypeRoot.MAP:
            found = self._is_one_of(texts.keys)
            lengths = np.diff(_offsets(texts))
            return _at_first(found, _offsets(texts), lengths == 1)
        if not self.can_be(t):
            return np.zeros(count, dtype=bool)
        return self._is_one_of(texts, self._json if t.root is TypeRoot.DECIMAL else self._texts)

    def _lists(self, texts: pa.ListArray, count: int) -> Mask:
        if not pa.types.is_string(texts.type.value_type):
            return np.zeros(count, dtype=bool)
        offsets, values = _offsets(texts), texts.values
        lengths = np.diff(offsets)
        is_one = _at_first(self._is_one_of(values), offsets, lengths == 1)
        # Bytes as numbers: each element is the byte at its place.
        width = len(self._codes)
        candidates = np.flatnonzero(lengths == width)
        if len(candidates):
            places = (offsets[:-1][candidates][:, None] + np.arange(width)).ravel()
            codes = pa.array(self._codes * len(candidates))
            same = pc.fill_null(pc.equal(values.take(pa.array(places)), codes), False)
            is_one[candidates] |= same.to_numpy(zero_copy_only=False).reshape(-1, width).all(axis=1)
        return is_one & texts.is_valid().to_numpy(zero_copy_only=False)

    def _is_one_of(self, texts: pa.Array, forms: pa.Array | None = None) -> Mask:
        found = pc.is_in(texts, value_set=self._texts if forms is None else forms)
        mask: Mask = found.to_numpy(zero_copy_only=False).astype(bool)
        return mask


def _offsets(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.frombuffer(column.buffers()[1], dtype=np.int32)[
        column.offset : column.offset + len(column) + 1
    ].astype(np.int64)


def _at_first(found: Mask, offsets: np.ndarray[Any, Any], is_chosen: Mask) -> Mask:
    """Of lists: whether one that is chosen has something that is `found` at its first place."""
    mask = np.zeros(len(is_chosen), dtype=bool)
    mask[is_chosen] = found[offsets[:-1][is_chosen]]
    return mask
