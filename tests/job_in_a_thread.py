"""Runs the operators of a SELECT in one thread, with rows and changes that the caller gives, to look at its result after each."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from operator_harness import Collected, Row, batch, operator_context, restored
from plan_harness import compile_script

from sqlstream.arrow import to_arrow_schema
from sqlstream.changelog import ChangelogMode
from sqlstream.graph.stream_graph import StreamGraph, StreamNode
from sqlstream.runtime.operators.operator import Operator
from sqlstream.runtime.state.snapshots.snapshot import OperatorSnapshot
from sqlstream.specs import SinkSpec, SourceSpec, Spec, ValuesSpec
from sqlstream.spi.connector import Boundedness, ConnectorDescriptor, Place, Reading
from sqlstream.spi.format import FormatDescriptor

RETRACT, INSERT_ONLY = ChangelogMode.RETRACT, ChangelogMode.INSERT_ONLY
SOURCES = {
    mode: ConnectorDescriptor(
        "changes",
        (),
        reading=Reading(boundedness=Boundedness(False), mode=mode),
        place=Place(has_format=True),
    )
    for mode in (RETRACT, INSERT_ONLY)
}
FORMATS = {"rows": FormatDescriptor("rows", (), "")}


@functools.lru_cache(maxsize=64)
def _planned(script: str, mode: ChangelogMode, settings: tuple[tuple[str, str], ...]) -> StreamGraph:
    """Each job of the examples of a property has the same plan."""
    (plan,) = compile_script(script, dict(settings), {"changes": SOURCES[mode]}, FORMATS)
    return plan.stream_graph


class JobInAThread:
    """The operators of a SELECT over tables of INT columns that are given by hand. State: that of the operators, and what came
    out."""

    collects = Collected
    """What an operator's rows go to."""

    def __init__(
        self,
        text: str,
        tables: Mapping[str, Sequence[str]],
        mode: ChangelogMode = RETRACT,
        **settings: str,
    ) -> None:
        self.tables = tables
        created = "".join(
            f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)}) WITH ('connector' = 'changes', 'format' = 'rows');"
            for name, columns in tables.items()
        )
        planned = _planned(f"{created} {text}", mode, tuple(settings.items()))
        self.nodes = {node.id: node for node in planned.nodes}
        self.mode = mode
        self.settings = settings
        self.output = self.collects()
        self.operators: dict[int, Operator[Any]] = {}
        for node in self.nodes.values():
            if not isinstance(node.spec, SourceSpec | SinkSpec | ValuesSpec):
                self.operators[node.id] = self.made(node)
        for node in self.nodes.values():
            if isinstance(node.spec, ValuesSpec):
                self._emit(node, batch(node.output_schema, list(node.spec.rows), INSERT_ONLY))

    def context(self, node: StreamNode) -> Any:
        read = [next(e.source for e in node.inputs if e.ordinal == n) for n in range(self.inputs(node))]
        return operator_context(
            [self.nodes[source].output_schema for source in read],
            node.output_schema,
            input_modes=[self.nodes[source].output_mode for source in read],
            output_mode=node.output_mode,
            config=self.settings,
        )

    @staticmethod
    def inputs(node: StreamNode) -> int:
        return 1 + max(e.ordinal for e in node.inputs)

    @property
    def specs(self) -> list[Spec]:
        return [node.spec for node in self.nodes.values()]

    def change(self, table: str, rows: Sequence[Row]) -> None:
        """Give rows of a table, each behind its kind."""
        kinds = [] if self.mode is INSERT_ONLY else [0]
        for node, places in self._readers(table):
            chosen = [tuple(row[k] for k in kinds) + tuple(row[1 + p] for p in places) for row in rows]
            self._emit(node, batch(node.output_schema, chosen, self.mode))

    def give(self, table: str, rows: pa.RecordBatch) -> None:
        """Give a batch of all columns of a table, with its kinds if rows may be retracted."""
        for node, places in self._readers(table):
            schema = to_arrow_schema(node.output_schema, self.mode)
            kinds = rows.columns[len(self.tables[table]) :]
            chosen = [*(rows.column(p) for p in places), *kinds]
            self._emit(node, pa.RecordBatch.from_arrays(chosen, schema=schema))

    def end(self, table: str) -> None:
        """No more rows of a table come."""
        ended = {node.id for node, _ in self._readers(table)}
        for node in self.nodes.values():
            sources = {n: {e.source for e in node.inputs if e.ordinal == n} for n in range(len(node.inputs))}
            ends = [n for n, read in sources.items() if read and read <= ended]
            if not isinstance(node.spec, SinkSpec):
                for ordinal in ends:
                    self._run(node, lambda operator, out, n=ordinal: operator.on_end_of_input(n, out))
            if ends and {e.source for e in node.inputs} <= ended:
                ended.add(node.id)

    def _readers(self, table: str) -> Iterator[tuple[StreamNode, list[int]]]:
        for node in self.nodes.values():
            if isinstance(node.spec, SourceSpec) and node.spec.table == table:
                yield node, [self.tables[table].index(column) for column in node.spec.columns]

    def _emit(self, node: StreamNode, rows: Any) -> None:
        for reader in self.nodes.values():
            for edge in reader.inputs:
                if edge.source != node.id:
                    continue
                if isinstance(reader.spec, SinkSpec):
                    self.output.emit(rows)
                else:
                    self._run(reader, lambda o, out, n=edge.ordinal: o.on_batch(rows, n, out))

    def _run(self, node: StreamNode, act: Any) -> None:
        out = self.collects()
        act(self.operators[node.id], out)
        for rows in out.batches:
            self._emit(node, rows)

    def flush(self) -> None:
        for id in self.operators:
            self._run(self.nodes[id], lambda operator, out: operator.flush(out))

    def restore(self) -> None:
        """Go on with fresh operators and what the others have saved."""
        for id, operator in self.operators.items():
            node = self.nodes[id]
            subtasks = getattr(operator, "operators", [operator])
            self.operators[id] = self.made(node, [each.context.state.snapshot() for each in subtasks])

    def made(self, node: StreamNode, snapshots: Sequence[OperatorSnapshot] = ()) -> Operator[Any]:
        """The operator, with what those before it have saved."""
        return restored(node.spec, self.context(node), snapshots, 0, 1)
