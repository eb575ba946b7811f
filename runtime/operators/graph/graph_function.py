"""Keeps a graph whose edges come and go, and emits what changes of its vertices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.arrow import is_accumulate, is_changelog, row_kinds, to_arrow_schema, without_row_kinds
from sqlstream.changelog import ChangelogMode, RowKind
from sqlstream.runtime.kernels.buffers import to_array
from sqlstream.runtime.kernels.graph import list_changes, list_values
from sqlstream.runtime.operators.graph.components import Components
from sqlstream.runtime.operators.graph.emitted import Changed, EmittedColumn, ValueColumn, VertexColumn
from sqlstream.runtime.operators.graph.graph_edges import GraphEdges
from sqlstream.runtime.operators.graph.paths import Paths
from sqlstream.runtime.operators.graph.rounds import Rounds
from sqlstream.runtime.operators.graph.triangles import Triangles
from sqlstream.runtime.operators.operator import Operator, OperatorContext, Output
from sqlstream.runtime.state.operator_state import SavesNothing
from sqlstream.runtime.state.storage.arrays import Array
from sqlstream.runtime.state.tables.keyed_table import KeyedTable
from sqlstream.specs.graph import GraphAlgorithm, GraphSpec


class _Derived(SavesNothing):
    """Implements `StateTable`: what is made of other tables. Its bytes count, and nothing of it is saved."""

    name = "derived"

    def __init__(self, parts: list[Callable[[], int]]) -> None:
        self._parts = parts

    def nbytes(self) -> int:
        return sum(nbytes() for nbytes in self._parts)


class Algorithm(Protocol):
    """What is known of the vertices of a graph, which follows from its edges."""

    def change(self, came: Array, went: Array) -> Changed:
        """Link the edges that came, unlink those that went, by their slots, and tell what changes."""

    def forget(self, vertices: Array) -> None:
        """These vertices have no edge any more, and their slots may be others'."""

    def rebuild(self) -> None:
        """Know what follows from the state that was restored."""

    def nbytes(self) -> int:
        """Memory held, in bytes."""


class GraphFunction(Operator[GraphSpec]):
    """Emits for each batch what it changes of the vertices: one row less, one more, or one of each per vertex.

    State: the table `vertices` with what was last emitted of each vertex, and the table `edges`, unless no edge ever goes.
    Neither expires; both forget what is gone.
    """

    def __init__(self, spec: GraphSpec, context: OperatorContext) -> None:
        super().__init__(spec, context)
        self._schema = to_arrow_schema(context.output_schema, context.output_mode)
        vertex, *values = list(self._schema)[: len(context.output_schema)]
        self._emitted: list[EmittedColumn]
        if spec.algorithm in (GraphAlgorithm.CONNECTED_COMPONENTS, GraphAlgorithm.LABEL_PROPAGATION):
            self._emitted = [VertexColumn(value) for value in values]
        else:
            self._emitted = [ValueColumn(value.name, value.type) for value in values]
        state = context.state
        self._vertices = state.add(KeyedTable("vertices", pa.schema([vertex]), self._emitted, state.scope))
        for column in self._emitted:
            if isinstance(column, VertexColumn):
                column.refer_to(self._vertices)
        self._edges = None
        if spec.keeps_edges:
            self._edges = GraphEdges(to_arrow_schema(context.input_schemas[0]), state, self._vertices)
        self._algorithm = self._made()
        parts = [self._algorithm.nbytes, *([] if self._edges is None else [self._edges.nbytes])]
        state.add(_Derived(parts))

    def _made(self) -> Algorithm:
        spec, emitted, vertices, edges = self.spec, self._emitted, self._vertices, self._edges
        first: Any = emitted[0]
        if spec.algorithm is GraphAlgorithm.CONNECTED_COMPONENTS:
            return Components(first, vertices, edges)
        assert edges is not None
        if spec.algorithm is GraphAlgorithm.SHORTEST_PATHS:
            source = pa.array([spec.source], self._schema.types[0])
            return Paths([c for c in emitted if isinstance(c, ValueColumn)], vertices, edges, source)
        if spec.algorithm is GraphAlgorithm.TRIANGLES:
            return Triangles([first], vertices, edges)
        damping = spec.damping if spec.algorithm is GraphAlgorithm.PAGERANK else None
        return Rounds(first, vertices, edges, spec.iterations, damping)

    def on_restored(self) -> None:
        self._algorithm.rebuild()

    def on_batch(self, batch: pa.RecordBatch, input_index: int, output: Output) -> None:
        signs = np.ones(batch.num_rows, dtype=np.int64)
        if is_changelog(batch):
            signs[~is_accumulate(row_kinds(batch))] = -1
        columns = without_row_kinds(batch).columns
        if any(column.null_count for column in columns):
            is_edge = np.ones(batch.num_rows, dtype=bool)
            for column in columns:
                is_edge &= column.is_valid().to_numpy(zero_copy_only=False)
            columns, signs = [column.filter(pa.array(is_edge)) for column in columns], signs[is_edge]
        if not len(signs):
            return
        if self._edges is None:
            assert isinstance(self._algorithm, Components)
            ends, _ = self._vertices.get_or_create([pa.concat_arrays(columns[:2])])
            half = len(signs)
            self._emit(self._algorithm.insert(ends[:half].copy(), ends[half:].copy()), output)
            return
        if self.spec.algorithm.is_undirected:
            columns[:2] = [
                pc.min_element_wise(*columns[:2]),
                pc.max_element_wise(*columns[:2]),
            ]
        came, went, idle = self._edges.change(columns, signs)
        changed = self._algorithm.change(came, went)
        self._emit(changed, output)
        if len(went):
            ends = np.unique(np.concatenate(self._edges.ends(went)))
            alone = ends[self._edges.are_alone(ends)]
            self._algorithm.forget(alone)
            self._vertices.forget(alone)
        self._edges.forget(np.concatenate([went, idle]))

    def _emit(self, changes: Changed, output: Output) -> None:
        changed, olds, news = changes
        if not len(changed):
            return
        self._vertices.writing(changed)
        for column, new in zip(self._emitted, news, strict=True):
            column.values[changed] = new
        had, has = olds[0] >= 0, news[0] >= 0
        if self.context.output_mode is ChangelogMode.UPSERT and has.all():
            kinds = np.where(had, np.int8(RowKind.UPDATE_AFTER), np.int8(RowKind.INSERT))
            self._emit_rows(changed, news, kinds, output)
            return
        tells_before = self.context.output_mode is ChangelogMode.RETRACT
        places, kinds = np.empty(2 * len(changed), dtype=np.int64), np.empty(2 * len(changed), dtype=np.int8)
        rows = list_changes(olds[0], news[0], tells_before, places, kinds)
        places, kinds = places[:rows], kinds[:rows]
        values = [np.empty(rows, dtype=new.dtype) for new in news]
        for old, new, found in zip(olds, news, values, strict=True):
            list_values(old, new, places, kinds, found)
        self._emit_rows(changed[places], values, kinds, output)

    def _emit_rows(self, vertices: Array, values: list[Array], kinds: Array, output: Output) -> None:
        arrays = self._vertices.keys(vertices)
        for column, value in zip(self._emitted, values, strict=True):
            arrays += column.arrays(value)
        arrays.append(to_array(pa.int8(), kinds))
        arrays = [a if a.type == t else a.cast(t) for a, t in zip(arrays, self._schema.types, strict=True)]
        output.emit(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
