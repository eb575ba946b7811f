"""The operators of a recursive query's step, run within one operator: they call each other, and their state is its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.changelog import ChangelogMode
from sqlstream.runtime.operators import make_operator
from sqlstream.runtime.operators.deferred_rows import DeferredRows
from sqlstream.runtime.operators.operator import Operator, OperatorContext
from sqlstream.runtime.operators.peers import Peers
from sqlstream.runtime.state.operator_state import NeverExpires, PendingTables, StateTable
from sqlstream.runtime.state.snapshots.snapshot import SavedTables
from sqlstream.schema import Schema
from sqlstream.specs.iterate import InnerOperator, inner_table_prefix


class InnerTable(NeverExpires):
    """A table of an inner operator under a name of its own. Implements `StateTable`. No state but the table."""

    def __init__(self, prefix: str, table: StateTable) -> None:
        self.name = prefix + table.name
        self._table = table

    def begin(self, checkpoint_id: int, *, is_full: bool) -> PendingTables:
        return _Renamed(self._table.begin(checkpoint_id, is_full=is_full), self._table.name, self.name)

    def completed(self, checkpoint_id: int) -> None:
        self._table.completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        self._table.aborted(checkpoint_id)

    def load(self, saved: SavedTables) -> None:
        self._table.load(_renamed(saved, self.name, self._table.name))

    def nbytes(self) -> int:
        return self._table.nbytes()


@dataclasses.dataclass(frozen=True)
class _Renamed:
    """Implements `PendingTables`."""

    pending: PendingTables
    name: str
    new_name: str

    def collect(self) -> SavedTables:
        return _renamed(self.pending.collect(), self.name, self.new_name)

    def stream(self) -> SavedTables:
        return _renamed(self.pending.stream(), self.name, self.new_name)


def _renamed(saved: SavedTables, name: str, new_name: str) -> SavedTables:
    """The tables `name` and `name.part` under another name."""
    keyed, shared, increments = (
        {new_name + key.removeprefix(name): value for key, value in tables.items()}
        for tables in (saved.keyed, saved.shared, saved.increments)
    )
    return SavedTables(keyed, shared, increments)


class Edge:
    """What an inner operator, or an input of the step, sends its rows to. Implements `Output`.

    State: the batches that are results of the step, until `take`."""

    splits_rows = False

    def __init__(self, is_result: bool) -> None:
        self._readers: list[tuple[Operator[Any], int, Edge]] = []
        self._crossings: list[Crossing] = []
        self._is_result = is_result
        self._results: list[pa.RecordBatch] = []

    def add_reader(self, operator: Operator[Any], ordinal: int, edge: Edge) -> None:
        self._readers.append((operator, ordinal, edge))

    def add_crossing(self, crossing: Crossing) -> None:
        self._crossings.append(crossing)

    def take(self) -> list[pa.RecordBatch]:
        results, self._results = self._results, []
        return results

    def emit(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        for operator, ordinal, edge in self._readers:
            operator.on_batch(batch, ordinal, edge)
        for crossing in self._crossings:
            crossing.hold(batch)
        if self._is_result:
            self._results.append(batch)

    def emit_rows(self, batch: pa.RecordBatch, rows: np.ndarray[Any, Any]) -> None:
        self.emit(batch.take(pa.array(rows)))

    def emit_deferred(self, rows: DeferredRows) -> None:
        if not rows.num_rows:
            return
        if not self._is_result and not self._crossings and len(self._readers) == 1:
            operator, _, edge = self._readers[0]
            if len(operator.context.input_schemas) == 1:
                operator.on_deferred(rows, edge)
                return
        self.emit(rows.batch())

    def emit_watermark(self, timestamp_ms: int) -> None:
        """Rows of a step have no time."""

    def emit_idle(self, is_idle: bool) -> None:
        """Rows of a step have no time."""

    def end(self) -> None:
        """Nothing more comes: a join need not keep the rows of its other side for it."""
        for operator, ordinal, edge in self._readers:
            operator.on_end_of_input(ordinal, edge)


class Crossing:
    """Where rows of the numbers `sources` go to the subtask that has their `keys`, before an operator reads them. State: these,
    until `cross`."""

    def __init__(
        self,
        keys: tuple[int, ...],
        sources: frozenset[int],
        operator: Operator[Any],
        ordinal: int,
        edge: Edge,
    ) -> None:
        self.sources = sources
        self._keys = keys
        self._reader = operator, ordinal, edge
        self._held: list[pa.RecordBatch] = []

    @property
    def bytes(self) -> int:
        return sum(batch.nbytes for batch in self._held)

    def hold(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)

    def cross(self, peers: Peers) -> None:
        """Exchange rows with all peers, each of which calls this too."""
        held, self._held = self._held, []
        came = peers.exchange(self._keys, held)
        if came is not None:
            operator, ordinal, edge = self._reader
            operator.on_batch(came, ordinal, edge)


class InnerChain:
    """The step of a recursive query. State: that of its operators, declared as tables of `context`, and with peers the rows that
    wait for the next exchange."""

    def __init__(
        self,
        operators: tuple[InnerOperator, ...],
        results: Iterable[int],
        context: OperatorContext,
        inputs: list[tuple[Schema, ChangelogMode]],
        placements: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        """`inputs` have the first numbers: the columns and the modes of what is fed. `results`: the numbers of what is taken.
        `placements`: by number the keys by which the rows of inputs are distributed among subtasks."""
        outputs = [*inputs, *((o.schema, _mode(o)) for o in operators)]
        taken = frozenset(results)
        self._edges = [Edge(number in taken) for number in range(len(outputs))]
        self._operators: list[tuple[Operator[Any], Edge]] = []
        self._crossings: list[Crossing] = []
        for place, inner in enumerate(operators):
            number = len(inputs) + place
            operator = self._open(inner, place, outputs, context)
            self._operators.append((operator, self._edges[number]))
            for ordinal, sources in enumerate(inner.inputs):
                keys = inner.exchanges[ordinal] if context.peers is not None else ()
                crossed = frozenset(s for s in sources if keys and keys not in placements[s : s + 1])
                crossing = Crossing(keys, crossed, operator, ordinal, self._edges[number])
                if crossed:
                    self._crossings.append(crossing)
                for source in sources:
                    if source in crossed:
                        self._edges[source].add_crossing(crossing)
                    else:
                        self._edges[source].add_reader(operator, ordinal, self._edges[number])
        self._made_of = [
            self._numbers_behind(number, operators, len(inputs)) for number in range(len(inputs))
        ]

    @staticmethod
    def _open(
        inner: InnerOperator,
        place: int,
        outputs: list[tuple[Schema, ChangelogMode]],
        context: OperatorContext,
    ) -> Operator[Any]:
        # Branches of a union have the same columns and the same mode.
        read = [outputs[sources[0]] for sources in inner.inputs]
        own = dataclasses.replace(
            context,
            peers=None,
            input_schemas=tuple(schema for schema, _ in read),
            input_modes=tuple(mode for _, mode in read),
            output_schema=inner.schema,
            output_mode=_mode(inner),
            feeds_global_phase=False,
        )
        operator = make_operator(inner.spec, own)
        for table in operator.context.state.tables:
            context.state.add(InnerTable(inner_table_prefix(inner, place), table))
        return operator

    @staticmethod
    def _numbers_behind(number: int, operators: tuple[InnerOperator, ...], first: int) -> frozenset[int]:
        found = {number}
        for made, inner in enumerate(operators, first):
            if any(source in found for sources in inner.inputs for source in sources):
                found.add(made)
        return frozenset(found)

    def made_of(self, number: int) -> frozenset[int]:
        """The numbers of what is made of the rows that are fed as this one, and its own."""
        return self._made_of[number]

    def feed(self, number: int, batch: pa.RecordBatch) -> None:
        """Rows of the last round (0), or of an input of the step."""
        self._edges[number].emit(batch)

    def end(self, number: int) -> None:
        """An input of the step has ended."""
        self._edges[number].end()

    @property
    def bytes(self) -> int:
        """Of the rows that wait for the next exchange."""
        return sum(crossing.bytes for crossing in self._crossings)

    def cross(self, peers: Peers, number: int | None = None) -> None:
        """Exchange with all peers, in the order of the operators, what these have to read and others of them have. With a number
        where no more than that has been fed since."""
        for crossing in self._crossings:
            if number is None or crossing.sources & self._made_of[number]:
                self._flush()
                crossing.cross(peers)

    def _flush(self) -> None:
        for operator, edge in self._operators:
            operator.flush(edge)

    def take(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """What the step has made since it was asked last, by number. Nothing is held back then but what waits for an exchange."""
        self._flush()
        for number, edge in enumerate(self._edges):
            for batch in edge.take():
                yield number, batch

    def on_restored(self) -> None:
        for operator, _ in self._operators:
            operator.on_restored()

    def close(self) -> None:
        for operator, _ in self._operators:
            operator.close()


def _mode(inner: InnerOperator) -> ChangelogMode:
    return ChangelogMode.INSERT_ONLY if inner.is_insert_only else ChangelogMode.RETRACT
