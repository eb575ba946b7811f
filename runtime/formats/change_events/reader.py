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

from sqlstream.runtime.evaluate import lists
from sqlstream.runtime.evaluate.json.documents import read_lines
from sqlstream.runtime.formats.blocks import Block
from sqlstream.runtime.formats.change_events.changelog import ChangelogOfEvents, old_columns_of
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
)
from sqlstream.runtime.formats.change_events.metadata import EventMetadata
from sqlstream.runtime.formats.json_objects import parse_values
from sqlstream.runtime.formats.json_reader import JsonReader, lines_of
from sqlstream.runtime.formats.text_values import find_unparsable
from sqlstream.runtime.kernels.json import json_tape
from sqlstream.schema import Schema
from sqlstream.spi.format import DecodedMessages, EventDemand, ReadRequest
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
        self._format, self._demand = format_, request.demand
        self._changelog = wanted = ChangelogOfEvents(
            request.schema, request.columns, request.demand, metadata, self._old_columns
        )
        envelope = format_.envelope(wanted.row, wanted.old, wanted.more)
        opened = dataclasses.replace(request, schema=envelope, columns=envelope.names)
        super().__init__(opened, uses_kernel=False, identifier=format_.identifier)
        self._counts: Counter[str] = Counter()

    def _old_columns(self, schema: Schema, read: tuple[str, ...], demand: EventDemand) -> tuple[str, ...]:
        return old_columns_of(schema, read, demand)

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
        for event, fault in self._changelog.unreadable_metadata(events):
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
        batch, owners = self._changelog.batch(kept, events, chosen)
        all_rejected = sorted(decoded.rejected + rejected, key=lambda r: r.line)
        return self._unless_undecodable(DecodedMessages(batch, places[at[owners]], all_rejected))

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
        yield from self._changelog.missing(changes)
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
