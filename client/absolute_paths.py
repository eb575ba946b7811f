"""Tables of a JobGraph that another process runs, whose paths do not depend on where that process was started."""

from __future__ import annotations

import os

from msgspec.structs import replace

from runtime.connectors import connector
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths


def with_absolute_paths(graph: JobGraph) -> JobGraph:
    """The graph with the relative paths of its tables below the present directory of this process."""
    directory = os.getcwd()

    def changed(operator: ChainedOperator) -> ChainedOperator:
        spec = operator.spec
        if isinstance(spec, SourceSpec | SinkSpec):
            named = connector(spec.connector)
            if isinstance(named, NamesPaths):
                options = dict(named.with_absolute_paths(spec.options, directory))
                return replace(operator, spec=replace(spec, options=options))
        return operator

    vertices = tuple(replace(v, operators=tuple(map(changed, v.operators))) for v in graph.vertices)
    return replace(graph, vertices=vertices)
