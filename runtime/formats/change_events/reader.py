"""Lines of change events as batches of a changelog."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.runtime.evaluate import lists
from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.change_events.encodings import booleans
from sqlstream.runtime.formats.change_events.events import (
    DELETES,
    REPLICA_IDENTITY,
    TELLS,
    TOLD,
    TRUNCATED,
    TRUNCATES,
    UNKNOWN,
    ChangeEventFormat,
    Changes,
    Fault,
    Mask,
    Numbers,
    Operations,
    Rows,
    row_type,
)
from sqlstream.runtime.formats.change_events.metadata import EventMetadata
from sqlstream.runtime.formats.json_objects import parse_values
from sqlstream.runtime.formats.json_reader import JsonReader, lines_of
from sqlstream.runtime.formats.text_values import find_unparsable
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.schema import Schema
from sqlstream.spi.format import UNKNOWN_VALUES, VALUE_PREFIX, DecodedMessages, ReadRequest, event_column
from sqlstream.types import NESTED_ROOTS, LogicalType, TypeRoot

_TOMBSTONE_BYTES_MAX = 16
"""A line of no event, `null` or blank, has no more."""


class ChangeEventReader(JsonReader):
    """Decodes the envelopes as JSON, and turns each event into the rows that it changes.

    An event of an operation that the format does not have, or without what its rows need, is undecodable as a whole. A line that
    is blank or `null`, with which Kafka forgets a key, is passed over; so is an event that changes no row, and it is counted.
    State: the counts since they were last taken.
    """

    def __init__(
        self, request: ReadRequest, format_: ChangeEventFormat, metadata: Mapping[str, EventMetadata]
    ) -> None:
        schema, columns, demand = request.schema, request.columns, request.demand
        # Whether a row is there is known by its object, which is read for the sake of one column at least.
        read = columns or schema.names[:1]
        self._format, self._demand, self._columns = format_, demand, columns
        self._metadata = {f.name: metadata[f.name.removeprefix(VALUE_PREFIX)] for f in demand.metadata}
        self._row = row_type(schema.select(tuple(schema.index_of(c) for c in read)))
        self._old = row_type(
            schema.select(tuple(schema.index_of(c) for c in self._old_columns(schema, read)))
        )
        more = {m.member: m.field for m in self._metadata.values()}
        envelope = format_.envelope(self._row, self._old, tuple(more.values()))
        opened = dataclasses.replace(request, schema=envelope, columns=envelope.names)
        super().__init__(opened, uses_kernel=False, identifier=format_.identifier)
        self._counts: Counter[str] = Counter()

    def _old_columns(self, schema: Schema, read: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that are read of what was before a change: those of the key, if it suffices."""
        keys = self._demand.keys
        return tuple(c for c in read if c in keys) if keys else read

    def take_counts(self) -> dict[str, int]:
        counts, self._counts = self._counts, Counter()
        return counts

    def decode(self, block: Block) -> DecodedMessages:
        lines = lines_of(block)
        places = np.arange(len(lines))
        is_event = ~_are_tombstones(lines)
        if not is_event.all():
            lines, places = lines.filter(pa.array(is_event)), places[is_event]
        numbers = places + block.first_line
        decoded = self._decode_lines(lines, numbers)
        events, at = self._format.opened(decoded.batch), decoded.lines
        operations = self._format.operations(events)
        faults = self._told(lines, at, operations)
        for event, fault in self._unreadable_metadata(events):
            operations[event] = UNKNOWN
            faults.setdefault(int(at[event]), fault)
        self._counts[TRUNCATED] += int((operations == TRUNCATES).sum())
        self._counts[TOLD] += int((operations == TELLS).sum())
        chosen = np.flatnonzero(operations <= DELETES)
        changes = self._changes(events, lines, at, operations, chosen)
        is_whole = np.ones(len(lines), dtype=bool)
        is_whole[list(faults)] = False
        for fault, rows in self._faults(changes, lines, at[chosen]):
            for line in np.unique(at[chosen[changes.owners[rows]]]):
                is_whole[line] = False
                faults.setdefault(int(line), fault)
        kept = changes.kept(is_whole[at[chosen[changes.owners]]])
        rejected = [self._reject(lines[row], int(numbers[row]), *faults[row]) for row in sorted(faults)]
        batch, owners = self._changelog(kept, events, chosen)
        return DecodedMessages(
            batch, places[at[owners]], sorted(decoded.rejected + rejected, key=lambda r: r.line)
        )

    def _told(self, lines: pa.Array, at: Numbers, operations: Operations) -> dict[int, Fault]:
        """Look at the texts of events whose operation is UNKNOWN; the faults of those that stay so, by their lines."""
        unknown = np.flatnonzero(operations == UNKNOWN)
        if not len(unknown):
            return {}
        told, faults = self._format.told(lines.take(pa.array(at[unknown])).cast(pa.string()))
        operations[unknown] = told
        return {
            int(at[event]): fault
            for event, operation, fault in zip(unknown, told, faults, strict=True)
            if operation == UNKNOWN
        }

    def _unreadable_metadata(self, events: pa.RecordBatch) -> Iterator[tuple[int, Fault]]:
        """Events with metadata that are not the moments that they should be; all others are what the envelope declares."""
        moments = {key: metadata for key, metadata in self._metadata.items() if metadata.is_moment}
        for key, metadata in moments.items():
            for event in find_unparsable(events.column(metadata.member), metadata.of):
                name = key.removeprefix(VALUE_PREFIX)
                yield event, Fault(f'the event has something else than a time as its "{name}"')

    def _parse(self, part: pa.Array, t: LogicalType) -> pa.Array:
        if t.root in NESTED_ROOTS:
            return parse_values(part, t, self._parse)
        return parse_values(booleans(part) if t.root is TypeRoot.BOOLEAN else part, t)

    def _what_it_is_not(self, part: pa.Array, name: str, t: LogicalType) -> str:
        """As of the first field at fault, at any depth."""
        if t.root is TypeRoot.ROW or (t.element is not None and t.element.root is TypeRoot.ROW):
            rows, row = (part, t) if t.root is TypeRoot.ROW else (part.flatten(), t.element)
            assert row is not None
            for field, texts in zip(row.fields, rows.flatten(), strict=True):
                for place in find_unparsable(texts, partial(self._parse, t=field.type))[:1]:
                    return self._what_it_is_not(texts.slice(place, 1), field.name, field.type)
        return super()._what_it_is_not(part, name, t)

    def _changes(
        self, events: pa.RecordBatch, lines: pa.Array, at: Any, operations: Operations, chosen: Numbers
    ) -> Changes:
        names_at = partial(_names_at, lines, at[chosen])
        taken = events if len(chosen) == events.num_rows else events.take(pa.array(chosen))
        return self._format.changes(taken, operations[chosen], names_at, self._demand.keys).filled()

    def _faults(self, changes: Changes, lines: pa.Array, at: Numbers) -> Iterator[tuple[Fault, Mask]]:
        """What changes lack, and which."""
        yield from changes.missing(self._demand.keys)
        if not self._demand.marked:
            for name, mask in changes.unknown.items():
                yield Fault(f'the event does not have the value of "{name}"', REPLICA_IDENTITY), mask
        if not self._demand.keys:
            for is_partial in self._partial(changes, lines, at):
                lacks = Fault(
                    "the row before the change is not whole, and may have nothing but its key",
                    REPLICA_IDENTITY,
                )
                yield lacks, is_partial

    def _partial(self, changes: Changes, lines: pa.Array, at: Numbers) -> Iterator[Mask]:
        """Which changes cannot have a whole row in `before`."""
        yield from ()

    def _changelog(
        self, changes: Changes, events: pa.RecordBatch, chosen: Numbers
    ) -> tuple[pa.RecordBatch, Numbers]:
        """The rows, and the event of each of them."""
        rows = changes.rows(self._demand.keys)
        owners = chosen[changes.owners[rows.sources]]
        columns = rows.columns if self._columns else []
        names = list(self._columns)
        if self._metadata:
            for key, metadata in self._metadata.items():
                columns.append(metadata.of(events.column(metadata.member).take(pa.array(owners))))
                names.append(event_column(key))
        if self._demand.marked:
            columns.append(_marks(rows, self._demand.marked))
            names.append(UNKNOWN_VALUES)
        batch = pa.RecordBatch.from_arrays([*columns, pa.array(rows.kinds)], names=[*names, ROW_KIND_COLUMN])
        return batch, owners


def _are_tombstones(lines: pa.Array) -> Mask:
    """Which lines are blank or `null`."""
    found = np.zeros(len(lines), dtype=bool)
    short = np.flatnonzero(pc.binary_length(lines).to_numpy() <= _TOMBSTONE_BYTES_MAX)
    if len(short):
        texts = pc.replace_substring_regex(lines.take(pa.array(short)), rb"[ \t\r\n]", b"")
        found[short] = pc.is_in(texts, value_set=pa.array([b"", b"null"])).to_numpy(zero_copy_only=False)
    return found


def _names_at(lines: pa.Array, at: Numbers, member: str, events: Numbers | None) -> pa.ListArray:
    """KeysAt of the lines `at`."""
    at = at if events is None else at[events]
    documents = read_lines(lines.take(pa.array(at)).cast(pa.string())).without_repeated_names()
    values = documents.member(documents.roots, member)
    is_array = documents.kinds(values) == json_tape.ARRAY
    if is_array.any():
        values, _ = documents.children(np.where(is_array, values, -1))
    is_object = documents.kinds(values) == json_tape.OBJECT
    members, counts = documents.children(np.where(is_object, values, -1))
    offsets = lists.offsets_of(counts)
    return pa.ListArray.from_arrays(offsets, documents.names(members))


def _marks(rows: Rows, marked: tuple[str, ...]) -> pa.Array:
    """The column of UNKNOWN_VALUES."""
    count = len(rows.kinds)
    marks = pa.nulls(count, pa.string())
    for name, is_unknown in rows.unknown.items():
        place = pa.scalar(f"{marked.index(name)},")
        longer = pc.binary_join_element_wise(pc.fill_null(marks, ","), place, "")
        marks = pc.if_else(pa.array(is_unknown), longer, marks)
    return marks
