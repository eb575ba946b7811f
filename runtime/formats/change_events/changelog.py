"""The rows that events change as a changelog, with what a table wants of the events besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.changelog import ROW_KIND_COLUMN
from sqlstream.runtime.formats.change_events.events import (
    REPLICA_IDENTITY,
    Changes,
    Fault,
    Mask,
    Numbers,
    Rows,
    row_type,
)
from sqlstream.runtime.formats.change_events.metadata import EventMetadata
from sqlstream.runtime.formats.text_values import find_unparsable
from sqlstream.schema import Field, Schema
from sqlstream.spi.format import UNKNOWN_VALUES, VALUE_PREFIX, EventDemand, event_column

OldColumns = Callable[[Schema, tuple[str, ...], EventDemand], tuple[str, ...]]
"""From a table, the columns that are read of it, and what it wants of events, to those that are read of what was before."""


def old_columns_of(schema: Schema, read: tuple[str, ...], demand: EventDemand) -> tuple[str, ...]:
    """Those of the key, if it suffices."""
    return tuple(c for c in read if c in demand.keys) if demand.keys else read


class ChangelogOfEvents:
    """What a table reads of events: `row` is the ROW of its columns, `old` of those of them that are read of what was before a
    change, `more` the members beside the rows. No state."""

    def __init__(
        self,
        schema: Schema,
        columns: tuple[str, ...],
        demand: EventDemand,
        metadata: Mapping[str, EventMetadata],
        old_columns: OldColumns = old_columns_of,
    ) -> None:
        # Whether a row is there is known by its object, which is read for the sake of one column at least.
        read = columns or schema.names[:1]
        self.demand, self._columns = demand, columns
        self._metadata = {f.name: metadata[f.name.removeprefix(VALUE_PREFIX)] for f in demand.metadata}
        old = old_columns(schema, read, demand)
        self.row = row_type(schema.select(tuple(schema.index_of(c) for c in read)))
        self.old = row_type(schema.select(tuple(schema.index_of(c) for c in old)))
        self.more: tuple[Field, ...] = tuple({m.member: m.field for m in self._metadata.values()}.values())

    def unreadable_metadata(self, events: pa.RecordBatch) -> Iterator[tuple[int, Fault]]:
        """Events with metadata that are not the moments that they should be; all others are what the envelope declares."""
        moments = {key: metadata for key, metadata in self._metadata.items() if metadata.is_moment}
        for key, metadata in moments.items():
            for event in find_unparsable(events.column(metadata.member), metadata.of):
                name = key.removeprefix(VALUE_PREFIX)
                yield event, Fault(f'the event has something else than a time as its "{name}"')

    def missing(self, changes: Changes) -> Iterator[tuple[Fault, Mask]]:
        """What changes lack, and which."""
        yield from changes.missing(self.demand.keys)
        if not self.demand.marked:
            for name, mask in changes.unknown.items():
                yield Fault(f'the event does not have the value of "{name}"', REPLICA_IDENTITY), mask

    def batch(
        self, changes: Changes, events: pa.RecordBatch, chosen: Numbers
    ) -> tuple[pa.RecordBatch, Numbers]:
        """The rows of changes of the chosen events, and the event of each of them."""
        rows = changes.rows(self.demand.keys)
        owners = chosen[changes.owners[rows.sources]]
        columns = rows.columns if self._columns else []
        names = list(self._columns)
        for key, metadata in self._metadata.items():
            columns.append(metadata.of(events.column(metadata.member).take(pa.array(owners))))
            names.append(event_column(key))
        if self.demand.marked:
            columns.append(_marks(rows, self.demand.marked))
            names.append(UNKNOWN_VALUES)
        batch = pa.RecordBatch.from_arrays([*columns, pa.array(rows.kinds)], names=[*names, ROW_KIND_COLUMN])
        return batch, owners


def _marks(rows: Rows, marked: tuple[str, ...]) -> pa.Array:
    """The column of UNKNOWN_VALUES."""
    count = len(rows.kinds)
    marks = pa.nulls(count, pa.string())
    for name, is_unknown in rows.unknown.items():
        place = pa.scalar(f"{marked.index(name)},")
        longer = pc.binary_join_element_wise(pc.fill_null(marks, ","), place, "")
        marks = pc.if_else(pa.array(is_unknown), longer, marks)
    return marks


def faults_by_event(faults: Iterator[tuple[Fault, Mask]], owners: Numbers) -> dict[int, Fault]:
    """The first fault of each event; `owners` are the events of the rows that the masks are of."""
    found: dict[int, Fault] = {}
    for fault, mask in faults:
        for event in np.unique(owners[mask]).tolist():
            found.setdefault(event, fault)
    return found
