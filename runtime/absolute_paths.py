"""Tables of a JobGraph that another process runs, whose paths do not depend on where that process was started."""

from __future__ import annotations

import os
from typing import TypeVar

from msgspec.structs import replace

from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.runtime.connectors import connector
from sqlstream.specs import BatchQuerySpec, InferTableSpec, LookupJoinSpec, SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths

Table = TypeVar("Table", bound=SourceSpec | SinkSpec)


def with_absolute_paths(graph: JobGraph) -> JobGraph:
    """The graph with the relative paths of its tables below the present directory of this process."""
    directory = os.getcwd()

    def changed(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, SourceSpec | SinkSpec):
            return replace(operator, spec=_in_directory(spec, directory))
        if isinstance(spec, InferTableSpec):
            return replace(
                operator,
                spec=replace(spec, options=_options_in(spec.options["connector"], spec.options, directory)),
            )
        if isinstance(spec, LookupJoinSpec):
            return replace(operator, spec=replace(spec, source=_in_directory(spec.source, directory)))
        return operator

    vertices = tuple(replace(v, operators=tuple(map(changed, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)


def is_of_spark(graph: JobGraph) -> bool:
    """Whether Spark computes the job, whose executors run in directories of their own."""
    specs = (o.spec for v in graph.vertices for o in v.operators)
    return any(isinstance(spec, BatchQuerySpec) and spec.engine == "spark" for spec in specs)


def _in_directory(spec: Table, directory: str) -> Table:
    return replace(spec, options=_options_in(spec.connector, spec.options, directory))


def _options_in(connector_name: str, options: dict[str, str], directory: str) -> dict[str, str]:
    named = connector(connector_name)
    return dict(named.with_absolute_paths(options, directory)) if isinstance(named, NamesPaths) else options
