"""What a checkpoint or savepoint holds, as tables with SQL names: for looking into it without its job."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.errors import UserError, did_you_mean
from sqlstream.messages.checkpoint import InFlightItems, StateSegment, TableState
from sqlstream.messages.manifest import OperatorIdentity, VertexState
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.checkpoint.state_reader import SegmentReader
from sqlstream.runtime.state.snapshots.current_rows import VERSION_COLUMN, current_rows
from sqlstream.spi.files import Files

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


CHANNEL_COLUMNS = ("$subtask", "$channel")
"""The first columns of a table of rows in flight: both numbers start at 0. Channels of an input are the producers that the
subtask reads, those of an output its consumers."""

_Place = tuple[bool, int, tuple[str, ...]]


@dataclass(frozen=True)
class SavedTable:
    """A table that an operator declares, over all subtasks. `schema_name` and `name` are those in SQL; `parts` are what the
    subtasks have saved, of those that have saved it at all. Of rows in flight, `channels` has the subtask and the channel of each
    part; other tables have none."""

    schema_name: str
    name: str
    operator: OperatorIdentity
    vertex: VertexState
    parts: tuple[TableState, ...]
    channels: tuple[tuple[int, int], ...] = ()

    @property
    def qualified_name(self) -> str:
        return f"{self.schema_name}.{self.name}"

    @property
    def identity(self) -> tuple[str, str]:
        """What finds the same table in another checkpoint, also of another job. Of operators with the same meaning, those are
        the same that feed the same tables."""
        state = self.operator.state
        meaning = self.operator.uid if state is None else f"{state.id} {' '.join(state.feeds)}"
        return meaning, self.parts[0].name

    @property
    def is_keyed(self) -> bool:
        return self.parts[0].is_keyed

    @property
    def segments(self) -> tuple[StateSegment, ...]:
        return tuple(segment for part in self.parts for segment in part.segments)

    @property
    def saved_rows(self) -> int:
        """With increments more than there are: a row that was saved again counts again."""
        return sum(segment.rows for segment in self.segments)

    @property
    def bytes(self) -> int:
        return sum(segment.length for segment in self.segments)


class SavedTables:
    """The tables of a stored checkpoint. `in_flight` are the rows that an unaligned one found between tasks: per vertex and input
    or output of it a table, named after the operator that reads or sends the rows. State: the files that were opened."""

    def __init__(self, files: Files, stored: StoredCheckpoint) -> None:
        self.stored = stored
        self._segments = SegmentReader(files, stored.directory)
        self.tables = tuple(_tables_of(stored))

    @functools.cached_property
    def in_flight(self) -> tuple[SavedTable, ...]:
        """Which channels are of one input is told by their columns, in the files. ExternalError SS6210 for a damaged one."""
        return tuple(self._in_flight())

    def _in_flight(self) -> Iterator[SavedTable]:
        for vertex in self.stored.manifest.vertices:
            found: dict[_Place, list[tuple[int, InFlightItems]]] = {}
            for number, subtask in enumerate(vertex.subtasks):
                for items in (i for i in subtask.in_flight if i.segments):
                    names = tuple(self._segments.schema(items.segments[0]).names)
                    found.setdefault((items.is_output, items.edge, names), []).append((number, items))
            inputs = itertools.count(1)
            for (is_output, edge, names), stored in sorted(found.items()):
                count = edge + 1 if is_output else next(inputs)
                name = f"in_flight_{'output' if is_output else 'input'}"
                operator = vertex.operators[-1 if is_output else 0]
                channels = tuple((number, items.channel) for number, items in stored)
                yield SavedTable(
                    sql_name(operator.name),
                    name if count == 1 else f"{name}_{count}",
                    operator,
                    vertex,
                    tuple(TableState(f"{name} {edge} {names}", False, items.segments) for _, items in stored),
                    channels,
                )

    def find(self, name: str) -> SavedTable:
        """By its qualified name, or by its own where no other table has that. UserError SS2001 for a name that fits none or
        several."""
        folded = name.lower()
        known = (*self.tables, *self.in_flight)
        found = [t for t in known if folded in (t.qualified_name, t.name)]
        exact = [t for t in found if t.qualified_name == folded]
        if len(exact or found) == 1:
            return (exact or found)[0]
        names = [t.qualified_name for t in found or known]
        raise UserError(
            "SS2001",
            f'checkpoint "{self.stored.path}" has {"several tables" if found else "no table"} "{name}"',
            hint=(did_you_mean(name, names) if not found else "")
            or f"its tables are {', '.join(names) or 'none'}",
        )

    def rows(self, table: SavedTable) -> pa.Table:
        """All rows of a table; ExternalError SS6210 for a file that is not as it was written."""
        if table.channels:
            return self._in_channels(table)
        batches = [batch for part in table.parts for batch in self._rows(part)]
        return pa.Table.from_batches(batches, self.columns(table))

    def _in_channels(self, table: SavedTable) -> pa.Table:
        """The rows of each channel in their order, behind the number of their subtask and that of the channel."""
        schema, pieces = self.columns(table), []
        for places, part in zip(table.channels, table.parts, strict=True):
            for batch in (b for segment in part.segments for b in self._segments.batches(segment)):
                numbers = [pa.repeat(pa.scalar(n, pa.int32()), batch.num_rows) for n in places]
                columns = [c.cast(f.type) for c, f in zip(batch.columns, list(schema)[2:], strict=True)]
                pieces.append(pa.RecordBatch.from_arrays([*numbers, *columns], schema=schema))
        return pa.Table.from_batches(pieces, schema)

    def _rows(self, part: TableState) -> Iterator[pa.RecordBatch]:
        for batch in current_rows([b for s in part.segments for b in self._segments.batches(s)]):
            yield batch.select(_shown(batch.schema.names))

    def columns(self, table: SavedTable) -> pa.Schema:
        schema = self._segments.schema(table.segments[0])
        if table.channels:
            places = [pa.field(name, pa.int32()) for name in CHANNEL_COLUMNS]
            return pa.schema([*places, *(f.with_type(_plain(f.type)) for f in schema)])
        return pa.schema([schema.field(n) for n in _shown(schema.names)])


def _tables_of(stored: StoredCheckpoint) -> Iterator[SavedTable]:
    for vertex in stored.manifest.vertices:
        for operator in vertex.operators:
            parts: dict[str, list[TableState]] = {}
            for saved in (o for s in vertex.subtasks for o in s.operators if o.operator_id == operator.id):
                for part in saved.tables:
                    if part.segments:
                        parts.setdefault(part.name, []).append(part)
            for name, found in parts.items():
                yield SavedTable(sql_name(operator.name), _table_name(name), operator, vertex, tuple(found))


def _plain(type: pa.DataType) -> pa.DataType:
    """Channels differ in whether they encode a column."""
    return type.value_type if pa.types.is_dictionary(type) else type


def _shown(names: list[str]) -> list[int]:
    """The numbers of all columns but that of versions, which is only for `current_rows`."""
    return [number for number, name in enumerate(names) if name != VERSION_COLUMN]


def _table_name(name: str) -> str:
    """A table's own name, or for a part of it, such as `groups.EXPR$2`, one that needs no quotes: `groups_expr_2`."""
    return re.sub(r"\W+", "_", name).lower()


def sql_name(operator_name: str) -> str:
    """The schema in SQL of an operator's tables.

    >>> sql_name("GlobalWindowAggregate[4]"), sql_name("Source: bids[1]"), sql_name("TopN[2]")
    ('global_window_aggregate_4', 'source_bids_1', 'top_n_2')
    """
    return "_".join(_WORD.findall(operator_name)).lower()
