"""The job that runs the statement of a job and a changed one on the same rows, and compares what both write."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.expressions import references
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import FORWARD, Exchange, ExchangeKind
from sqlstream.messages.manifest import CheckpointManifest, OperatorIdentity, VertexState
from sqlstream.schema import Field, Schema
from sqlstream.specs import CalcSpec, SinkSpec, SourceSpec, Spec
from sqlstream.specs.changelog_functions import ToChangelogSpec
from sqlstream.spi.connector import ConnectorDescriptor
from sqlstream.types import STRING

NEW_IDS = 1_000_000
"""Ids of operators: of the job below this, of the changed statement from here on, of the comparison from twice this on, and of
what is added for the three, such as shared sources, from three times this on."""

NEW = "new:"
_SINGLETON = Exchange(ExchangeKind.SINGLETON)
OF_KEYS = ("I", None, "I", "D")
OF_ROWS = ("I", "D", "I", "D")
"""By RowKind, the `op` of a row that the comparison reads; None: it does not get such rows. OF_KEYS is for tables with a primary
key, where the last row of a key counts and -U says nothing; OF_ROWS is for others, where each row counts."""


def of_new(vertex_id: str) -> str:
    """The id of a vertex of the changed statement: a hash, as both statements may have vertices with the same id."""
    return hashlib.sha256(f"{NEW}{vertex_id}".encode()).hexdigest()[:32]


_Operator = TypeVar("_Operator", ChainedOperator, OperatorIdentity)


def _with_new_ids(operator: _Operator) -> _Operator:
    """An operator of the changed statement, in its job and in the savepoint that it restores: by these ids it finds its state."""
    state = operator.state
    return replace(
        operator,
        id=NEW_IDS + operator.id,
        uid=f"{NEW}{operator.uid}",
        state=replace(state, id=f"{NEW}{state.id}") if state is not None else None,
    )


def renamed(graph: JobGraph) -> JobGraph:
    """The graph of the changed statement, with ids of its own: those of the second copy in a savepoint that is `doubled`."""

    def moved(operator: ChainedOperator) -> ChainedOperator:
        is_head = operator.input == NETWORK_INPUT
        input = operator.input if is_head else NEW_IDS + operator.input
        return replace(_with_new_ids(operator), input=input)

    vertices = tuple(
        replace(v, id=of_new(v.id), operators=tuple(map(moved, v.operators))) for v in graph.vertices
    )
    edges = tuple(
        replace(
            e, source=of_new(e.source), target=of_new(e.target), source_operator=NEW_IDS + e.source_operator
        )
        for e in graph.edges
    )
    return replace(graph, vertices=vertices, edges=edges)


def doubled(manifest: CheckpointManifest) -> CheckpointManifest:
    """The savepoint with a copy of everything for `renamed`, and without what the job's own sinks have to commit."""

    def moved(operator: OperatorIdentity) -> OperatorIdentity:
        inputs = operator.inputs
        renumbered = None if inputs is None else tuple(tuple(NEW_IDS + i for i in each) for each in inputs)
        return replace(_with_new_ids(operator), inputs=renumbered)

    def copied(vertex: VertexState) -> VertexState:
        subtasks = tuple(
            replace(s, operators=tuple(replace(o, operator_id=NEW_IDS + o.operator_id) for o in s.operators))
            for s in vertex.subtasks
        )
        operators = tuple(map(moved, vertex.operators))
        return replace(vertex, vertex_id=of_new(vertex.vertex_id), operators=operators, subtasks=subtasks)

    return replace(
        manifest,
        vertices=(*manifest.vertices, *map(copied, manifest.vertices)),
        enumerators={**manifest.enumerators, **{of_new(v): e for v, e in manifest.enumerators.items()}},
        commits=(),
    )


def canary_job(
    old: JobGraph,
    new: JobGraph,
    comparison: JobGraph,
    codes: tuple[str | None, ...],
    connectors: Mapping[str, ConnectorDescriptor],
) -> JobGraph:
    """`comparison` is a job of two sources, "old_rows" and "new_rows", which are fed by what the two statements would write; its
    ids begin behind those of both. UserError SS5451 when the statements read a table in ways that cannot be one."""
    joined = _Joined(
        (*old.vertices, *renamed(new).vertices, *_apart(comparison).vertices),
        (*old.edges, *renamed(new).edges, *_apart(comparison).edges),
    )
    for reader in joined.sources(2 * NEW_IDS, 3 * NEW_IDS):
        side = 0 if _table(reader) == "old_rows" else NEW_IDS
        joined.feed_rows(joined.cut_sink(side, side + NEW_IDS), reader, codes)
    joined.share_sources(connectors)
    if old.python is not None and new.python is not None and old.python != new.python:
        raise UserError("SS5450", "the code of the functions in Python is another, and one job runs one")
    files = {a.name: a.digest for a in old.artifacts}
    for artifact in new.artifacts:
        if files.get(artifact.name, artifact.digest) != artifact.digest:
            raise UserError("SS5450", f'file "{artifact.name}" is another, and one job has one')
    return replace(
        new,
        python=new.python or old.python,
        vertices=joined.ordered(),
        edges=tuple(replace(e, id=number) for number, e in enumerate(joined.edges)),
        scaling=None,
        artifacts=tuple(dict.fromkeys((*old.artifacts, *new.artifacts))),
    )


def _apart(graph: JobGraph) -> JobGraph:
    """The graph of the comparison, with ids of its own, too."""
    twice = renamed(renamed(graph))
    return replace(
        twice,
        vertices=tuple(
            replace(v, operators=tuple(replace(o, uid=f"comparison:{o.uid}") for o in v.operators))
            for v in twice.vertices
        ),
    )


class _Joined:
    """The vertices and edges of several jobs, while they become one."""

    def __init__(self, vertices: Iterable[JobVertex], edges: Iterable[JobEdge]) -> None:
        self._vertices = {v.id: v for v in vertices}
        self.edges = list(edges)
        self._next_id = 3 * NEW_IDS

    def sources(self, first: int, last: int) -> list[ChainedOperator]:
        operators = (o for v in self._vertices.values() for o in v.operators)
        return [o for o in operators if first <= o.id < last and isinstance(o.spec, SourceSpec)]

    def _vertex_of(self, id: int) -> JobVertex:
        return next(v for v in self._vertices.values() if any(o.id == id for o in v.operators))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def cut_sink(self, first: int, last: int) -> list[JobEdge]:
        """Remove the sink with an id from `first` up to `last`; returns the edges to it, whose target is still to be set."""
        vertex, sink = next(
            (v, o)
            for v in self._vertices.values()
            for o in v.operators
            if first <= o.id < last and isinstance(o.spec, SinkSpec)
        )
        if sink.input == NETWORK_INPUT:
            del self._vertices[vertex.id]
            found = [e for e in self.edges if e.target == vertex.id]
            self.edges = [e for e in self.edges if e.target != vertex.id]
            return found
        rest = tuple(o for o in vertex.operators if o is not sink)
        self._vertices[vertex.id] = replace(vertex, name=" -> ".join(o.name for o in rest), operators=rest)
        schema, mode = sink.input_schemas[0], sink.input_modes[0]
        return [JobEdge(0, vertex.id, sink.input, "", 0, _SINGLETON, schema, mode)]

    def feed_rows(self, edges: list[JobEdge], reader: ChainedOperator, codes: tuple[str | None, ...]) -> None:
        """Replace a source of the comparison by operators that turn the changes of these edges into its rows."""
        first = edges[0]
        names = (f"c{place}" for place in range(len(first.schema)))
        fields = (Field("op", STRING), *map(Field, names, first.schema.types))
        told = Schema(fields)
        places = [told.names.index(name) for name in reader.output_schema.names]
        calc = CalcSpec(references(told.types, places))
        head = _operator(
            self._new_id(), "ToChangelog", ToChangelogSpec(codes), first.schema, first.mode, told
        )
        tail = _operator(reader.id, "Calc", calc, told, ChangelogMode.INSERT_ONLY, reader.output_schema)
        vertex = self._in_place_of(reader, (head, replace(tail, input=head.id)))
        self.edges += [replace(e, target=vertex.id, ordinal=0, exchange=_SINGLETON) for e in edges]

    def _in_place_of(self, reader: ChainedOperator, operators: tuple[ChainedOperator, ...]) -> JobVertex:
        vertex = self._vertex_of(reader.id)
        rest = tuple(o for o in vertex.operators if o is not reader)
        made = (*operators, *rest)
        vertex = replace(vertex, name=" -> ".join(o.name for o in made), operators=made)
        self._vertices[vertex.id] = vertex
        return vertex

    def share_sources(self, connectors: Mapping[str, ConnectorDescriptor]) -> None:
        """Each table is read once: both statements see the same rows up to each place."""
        olds, news = self.sources(0, NEW_IDS), self.sources(NEW_IDS, 2 * NEW_IDS)
        for new in news:
            same = [o for o in olds if _table(o) == _table(new)]
            if not same:
                # It is read for the changed statement alone.
                continue
            old = next((o for o in same if _is_same_table(o, new)), None)
            if old is None:
                raise UserError("SS5451", f'the job reads table "{_table(new)}" in another way')
            olds.remove(old)
            self._share(old, new, connectors)

    def _share(
        self, old: ChainedOperator, new: ChainedOperator, connectors: Mapping[str, ConnectorDescriptor]
    ) -> None:
        vertex = self._vertex_of(old.id)
        if self._vertex_of(new.id).parallelism != vertex.parallelism:
            raise UserError("SS5451", f'table "{_table(new)}" is read at another parallelism')
        whole, spec = _union(old, new, connectors)
        id = hashlib.sha256(f"shared:{vertex.id}".encode()).hexdigest()[:32]
        source = replace(old, id=self._new_id(), uid=f"shared:{old.uid}", spec=spec, output_schema=whole)
        self._vertices[id] = replace(vertex, id=id, name=source.name, operators=(source,))
        for reader in (old, new):
            places = [whole.names.index(name) for name in reader.output_schema.names]
            calc = CalcSpec(references(whole.types, places))
            shim = _operator(reader.id, "Calc", calc, whole, old.output_mode, reader.output_schema)
            target = self._in_place_of(reader, (shim,))
            self.edges.append(JobEdge(0, id, source.id, target.id, 0, FORWARD, whole, old.output_mode))

    def ordered(self) -> tuple[JobVertex, ...]:
        """In topological order."""
        found: dict[str, JobVertex] = {}
        waiting = dict(self._vertices)
        while waiting:
            ready = [
                v for v in waiting.values() if all(e.source in found for e in self.edges if e.target == v.id)
            ]
            for vertex in ready:
                found[vertex.id] = waiting.pop(vertex.id)
        return tuple(found.values())


def _operator(
    id: int, name: str, spec: Spec, input: Schema, mode: ChangelogMode, output: Schema
) -> ChainedOperator:
    mode_of = ChangelogMode.INSERT_ONLY if isinstance(spec, ToChangelogSpec) else mode
    return ChainedOperator(
        id, f"canary:{id}", f"{name}[{id}]", spec, NETWORK_INPUT, (input,), (mode,), output, mode_of, name
    )


def _table(reader: ChainedOperator) -> str:
    return reader.spec.table if isinstance(reader.spec, SourceSpec) else reader.name


def _is_same_table(old: ChainedOperator, new: ChainedOperator) -> bool:
    """Whether both read the same rows, though not the same columns of them."""
    one, other = (replace(o.spec, columns=(), schema=Schema(()), filters=()) for o in (old, new))
    return one == other and old.output_mode == new.output_mode


def _union(
    old: ChainedOperator, new: ChainedOperator, connectors: Mapping[str, ConnectorDescriptor]
) -> tuple[Schema, Spec]:
    """The columns that either reads, and what reads them. Filters with which a connector skips some of the rows that the plan
    drops anyway are left out where they differ."""
    if old.spec == new.spec:
        return old.output_schema, old.spec
    assert isinstance(old.spec, SourceSpec)
    assert isinstance(new.spec, SourceSpec)
    reading = connectors[old.spec.connector].reading
    is_filtered = old.spec.filters != new.spec.filters
    if old.spec.watermark is not None or (is_filtered and (reading.filters_exactly or reading.counts_rows)):
        raise UserError("SS5451", f'the statements read other parts of table "{_table(old)}"')
    # The places of columns in filters are those of one statement.
    filters = old.spec.filters if not is_filtered and old.spec.columns == new.spec.columns else ()
    if reading.filters_exactly and filters != old.spec.filters:
        raise UserError("SS5451", f'the statements read other columns of table "{_table(old)}"')
    more = tuple(c for c in new.spec.columns if c not in old.spec.columns)
    types: Mapping[str, Field] = {f.name: f for f in (*old.output_schema.fields, *new.output_schema.fields)}
    columns = (*old.spec.columns, *more)
    names = (*columns, *(f for f in old.output_schema.names if f not in columns))
    return Schema(tuple(types[n] for n in names)), replace(old.spec, columns=columns, filters=filters)
