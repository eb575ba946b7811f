"""The plan of one batch query: SQL of an engine over tables that our own readers fill."""

from __future__ import annotations

import msgspec

from sqlstream.graph.job_graph import JobVertex
from sqlstream.schema import Field, Schema
from sqlstream.specs import BatchQuerySpec, EventSourceSpec, SinkSpec, SourceSpec
from sqlstream.specs.batch_query import HostedFunction
from sqlstream.specs.sink import COLLECT
from sqlstream.types import BIGINT, STRING, TINYINT

CHANGE_COLUMNS = (Field("row_kind", TINYINT.not_null()), Field("row_place", BIGINT.not_null()))
"""What the relation of a table of changes has behind its columns: the number of the RowKind, and that of the change."""


UNKNOWN_COLUMN = Field("row_unknown", STRING)
"""What stands in front of those, where the changes are events that may lack values (spi.format.UNKNOWN_VALUES)."""


class BatchTable(msgspec.Struct, frozen=True):
    """One scan of a table. The SQL calls it `name` (t0, t1, …), and its columns c0, c1, … by position: neither the case of names
    nor a metadata key that is also a column matters then. `source` says what is read: bounded, without a watermark.

    `has_changes`: the rows are changes in their order, which the SQL folds. Two more columns hold the kind and the number of
    each. `is_shared`: the SQL reads it more than once, and its rows are read once, since they may be random."""

    name: str
    source: SourceSpec | EventSourceSpec
    is_shared: bool = False
    has_changes: bool = False

    @property
    def schema(self) -> Schema:
        """The relation that the SQL reads: the source's columns, then its metadata columns, named c0, c1, …, then what changes
        have more."""
        columns = tuple(Field(f"c{i}", t) for i, t in enumerate(source_schema(self.source).types))
        marks_unknown = isinstance(self.source, EventSourceSpec) and self.source.marks_unknown
        unknown = (UNKNOWN_COLUMN,) if marks_unknown else ()
        return Schema((*columns, *unknown, *CHANGE_COLUMNS) if self.has_changes else columns)


class BatchOutput(msgspec.Struct, frozen=True):
    """One result. `sql` is a single SELECT in the engine's dialect whose columns are those of `schema` in order, in the engine's
    own types; rows come in the order of its ORDER BY, if it has one. `schema` has the types that rows are delivered in.
    `sink` is the table that takes the rows, None for a query, whose rows go to the client."""

    sql: str
    schema: Schema
    sink: SinkSpec | None = None

    @property
    def is_ours(self) -> bool:
        """Whether the rows must reach this process, whatever process computes them: those of a query, and lines to print."""
        return self.sink is None or self.sink.connector in (COLLECT, "print")


class BatchPlan(msgspec.Struct, frozen=True):
    """What an engine runs at once. `engine` is `duckdb` or `spark`; `config` holds the settings in force when the statement was
    planned, `spark.*` keys among them. `functions` are those of the stream that the SQL calls. Each INSERT
    of a statement set is a plan with the same `job_id`; they may run at the same time."""

    job_id: str
    name: str
    engine: str
    tables: tuple[BatchTable, ...]
    outputs: tuple[BatchOutput, ...]
    config: dict[str, str] = {}
    functions: tuple[HostedFunction, ...] = ()


def batch_plan(vertex: JobVertex, job_id: str, config: dict[str, str]) -> BatchPlan:
    """The plan of a vertex whose head is a BatchQuerySpec."""
    query = vertex.operators[0].spec
    assert isinstance(query, BatchQuerySpec)
    sources = {o.id: o.spec for o in vertex.operators if isinstance(o.spec, SourceSpec)}
    sinks = [o.spec for o in vertex.operators if isinstance(o.spec, SinkSpec)]
    sink = sinks[0] if sinks and sinks[0].connector != COLLECT else None
    return BatchPlan(
        job_id,
        vertex.name,
        query.engine,
        tuple(
            BatchTable(name, sources[id], name in query.shared, name in query.changes)
            for name, id in zip(table_names(len(query.tables)), query.tables, strict=True)
        ),
        (BatchOutput(query.sql, vertex.operators[0].output_schema, sink),),
        config,
        query.functions,
    )


def table_names(count: int) -> tuple[str, ...]:
    """What the SQL of a plan calls its tables.

    >>> table_names(2)
    ('t0', 't1')
    """
    return tuple(f"t{n}" for n in range(count))


def source_schema(source: SourceSpec) -> Schema:
    """The columns that readers of this source give, with their own names."""
    types = dict(zip(source.schema.names, source.schema.types, strict=True))
    return Schema((*(Field(name, types[name]) for name in source.columns), *source.metadata))
