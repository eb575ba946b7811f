"""The operator that hands the rows of another one to the client."""

from __future__ import annotations

from sqlstream.graph.job_graph import ChainedOperator, JobVertex
from sqlstream.specs import SinkSpec
from sqlstream.specs.sink import COLLECT

NAME = f"Sink: {COLLECT}"


def collecting(head: ChainedOperator, id: int, uid: str) -> ChainedOperator:
    """The sink `collect` behind `head`, with its rows as they are."""
    schema, mode = head.output_schema, head.output_mode
    spec = SinkSpec(COLLECT, COLLECT, {"connector": COLLECT}, schema)
    return ChainedOperator(id, uid, NAME, spec, head.id, (schema,), (mode,), schema, mode, NAME)


def collecting_vertex(id: str, head: ChainedOperator) -> JobVertex:
    """One task of two operators: `head`, whose rows are the answer to the client."""
    sink = collecting(head, head.id + 1, f"{id}-sink")
    return JobVertex(id, f"{head.name} -> {NAME}", (head, sink), parallelism=1, max_parallelism=1)
