"""The JobGraph: chained operators as vertices; what is submitted, stored and deployed (Flink: JobGraph, JobVertex)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from sqlstream.bounds import Count, Parallelism
from sqlstream.changelog import ChangelogMode
from sqlstream.errors import InternalError, Span
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.python_files import PythonFiles
from sqlstream.graph.scaling import Scaling
from sqlstream.graph.state_identity import StateIdentity
from sqlstream.graph.stream_graph import DEFAULT_GROUP, Exchange
from sqlstream.schema import Schema
from sqlstream.specs import (
    BackfillSpec,
    BatchQuerySpec,
    ChangingSinkSpec,
    InferTableSpec,
    InspectFunctionSpec,
    LookupJoinSpec,
    ModelPredictSpec,
    SinkSpec,
    SourceSpec,
    Spec,
)
from sqlstream.specs.sink import COLLECT

NETWORK_INPUT = -1
"""`ChainedOperator.input` of the chain's head: it reads the vertex's input edges (or, as a source, nothing)."""


class ChainedOperator(msgspec.Struct, frozen=True):
    """An operator inside a vertex. The first of a vertex is the head and may have several inputs, all from the network; every
    other has one input, the operator `input` of the same vertex. A chain is a tree: one operator may feed several. `state` finds
    its state again in another job; without it `uid` does."""

    id: Count
    uid: str
    name: str
    spec: Spec
    input: Count
    input_schemas: tuple[Schema, ...]
    input_modes: tuple[ChangelogMode, ...]
    output_schema: Schema
    output_mode: ChangelogMode
    description: str = ""
    span: Span | None = None
    state: StateIdentity | None = None


class JobVertex(msgspec.Struct, frozen=True):
    """A chain of operators that run in one task per subtask. `id` is 32 hex digits, stable for an unchanged query.

    `max_parallelism` is the number of key groups, by which keys belong to subtasks and to state. It is fixed when the job is
    planned and stays the same at any parallelism, which may not be above it."""

    id: str
    name: str
    operators: Annotated[tuple[ChainedOperator, ...], msgspec.Meta(min_length=1)]
    parallelism: Parallelism
    max_parallelism: Parallelism
    slot_sharing_group: str = DEFAULT_GROUP


class JobEdge(msgspec.Struct, frozen=True):
    """Operator `source_operator` of vertex `source` sends to input `ordinal` of the head of vertex `target`.

    `id` is unique in the job; each edge is one ResultPartition per source subtask, with one subpartition per consumer subtask.
    """

    id: Count
    source: str
    source_operator: Count
    target: str
    ordinal: Count
    exchange: Exchange
    schema: Schema
    mode: ChangelogMode


class JobGraph(msgspec.Struct, frozen=True):
    """Vertices in topological order. `config` holds the settings in force when the statement was planned. `scaling` is what the
    graph for another parallelism follows from; jobs of batch engines have none. `python` are modules of users' functions, and
    `artifacts` the files that these open. `owner` is whose share of the slots it takes: a user of a server, or a session.
    `chosen` says of settings that follow from `latency.target` why they are what they are."""

    job_id: str
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    config: dict[str, str] = {}
    version: Literal[1] = 1
    scaling: Scaling | None = None
    python: PythonFiles | None = None
    owner: str = ""
    artifacts: tuple[Artifact, ...] = ()
    chosen: dict[str, str] = {}

    @property
    def is_query(self) -> bool:
        """Whether rows of the job go to a client."""
        specs = (o.spec for v in self.vertices for o in v.operators)
        return any(isinstance(spec, SinkSpec) and spec.connector == COLLECT for spec in specs)

    @property
    def replaces_rows(self) -> bool:
        """Whether its only commit also removes rows that were there, as that of INSERT OVERWRITE, UPDATE and DELETE."""
        return any(isinstance(o.spec, ChangingSinkSpec) for v in self.vertices for o in v.operators)

    @property
    def is_for_planning(self) -> bool:
        """Whether a statement runs the job to learn something before its own job is there."""
        heads = (v.operators[0].spec for v in self.vertices)
        return any(
            isinstance(s, InferTableSpec | InspectFunctionSpec)
            or (isinstance(s, BatchQuerySpec) and s.is_explained)
            for s in heads
        )

    @property
    def is_batch(self) -> bool:
        """Whether batch engines alone compute the job's rows."""
        return all(isinstance(v.operators[0].spec, BatchQuerySpec) for v in self.vertices)

    @property
    def is_on_spark(self) -> bool:
        specs = (v.operators[0].spec for v in self.vertices)
        return any(isinstance(spec, BatchQuerySpec) and spec.engine == "spark" for spec in specs)

    def vertex(self, id: str) -> JobVertex:
        """KeyError for one that the graph does not have."""
        return {v.id: v for v in self.vertices}[id]

    def inputs_of(self, vertex_id: str) -> tuple[JobEdge, ...]:
        return tuple(e for e in self.edges if e.target == vertex_id)

    def outputs_of(self, vertex_id: str) -> tuple[JobEdge, ...]:
        return tuple(e for e in self.edges if e.source == vertex_id)


def read_tables(graph: JobGraph) -> Iterator[tuple[ChainedOperator, SourceSpec]]:
    """Every table that the job reads, as a stream or by key, with the operator that reads it."""
    for operator in (o for v in graph.vertices for o in v.operators):
        if isinstance(operator.spec, SourceSpec):
            yield operator, operator.spec
        elif isinstance(operator.spec, LookupJoinSpec):
            yield operator, operator.spec.source
        elif isinstance(operator.spec, ModelPredictSpec) and operator.spec.weights is not None:
            yield operator, operator.spec.weights
        elif isinstance(operator.spec, BackfillSpec):
            yield from ((operator, source) for source in operator.spec.sources)


def written_tables(graph: JobGraph) -> Iterator[tuple[ChainedOperator, SinkSpec]]:
    """Every table that the job writes, with the operator that writes it."""
    for operator in (o for v in graph.vertices for o in v.operators):
        if isinstance(operator.spec, SinkSpec):
            yield operator, operator.spec


def encode_job_graph(graph: JobGraph) -> bytes:
    """Versioned msgpack, for the network and the Dispatcher's store. InternalError when a value cannot be encoded."""
    try:
        return msgspec.msgpack.encode(graph)
    except (TypeError, OverflowError, UnicodeEncodeError, msgspec.MsgspecError) as error:
        raise InternalError(f"the plan cannot be sent: {error}") from error


def decode_job_graph(data: bytes) -> JobGraph:
    """The inverse; msgspec.ValidationError for what is not a JobGraph of this version."""
    return msgspec.msgpack.decode(data, type=JobGraph)
