"""What a checkpoint or savepoint holds, as tables with SQL names: for looking into it without its job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from runtime.checkpoint.state_reader import SegmentReader
from runtime.state.snapshots.current_rows import VERSION_COLUMN, current_rows
from sqlstream.errors import UserError, did_you_mean
from sqlstream.messages.checkpoint import StateSegment, TableState
from sqlstream.messages.manifest import OperatorIdentity, VertexState
from sqlstream.spi.files import Files

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True)
class SavedTable:
    """A table that an operator declares, over all subtasks. `schema_name` and `name` are those in SQL; `parts` are what the
    subtasks have saved, of those that have saved it at all."""

    schema_name: str
    name: str
    operator: OperatorIdentity
    vertex: VertexState
    parts: tuple[TableState, ...]

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
    """The tables of a stored checkpoint. State: the files that were opened."""

    def __init__(self, files: Files, stored: StoredCheckpoint) -> None:
        self.stored = stored
        self._segments = SegmentReader(files, stored.directory)
        self.tables = tuple(_tables_of(stored))

    def find(self, name: str) -> SavedTable:
        """By its qualified name, or by its own where no other table has that. UserError SS2001 for a name that fits none or
        several."""
        folded = name.lower()
        found = [t for t in self.tables if folded in (t.qualified_name, t.name)]
        exact = [t for t in found if t.qualified_name == folded]
        if len(exact or found) == 1:
            return (exact or found)[0]
        names = [t.qualified_name for t in found or self.tables]
        raise UserError(
            "SS2001",
            f'checkpoint "{self.stored.path}" has {"several tables" if found else "no table"} "{name}"',
            hint=(did_you_mean(name, names) if not found else "")
            or f"its tables are {', '.join(names) or 'none'}",
        )

    def rows(self, table: SavedTable) -> pa.Table:
        """All rows of a table; ExternalError SS6210 for a file that is not as it was written."""
        batches = [batch for part in table.parts for batch in self._rows(part)]
        return pa.Table.from_batches(batches, self.columns(table))

    def _rows(self, part: TableState) -> Iterator[pa.RecordBatch]:
        for batch in current_rows([b for s in part.segments for b in self._segments.batches(s)]):
            yield batch.select(_shown(batch.schema.names))

    def columns(self, table: SavedTable) -> pa.Schema:
        schema = self._segments.schema(table.segments[0])
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
