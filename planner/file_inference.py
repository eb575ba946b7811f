"""The job that infers a table from files."""

from __future__ import annotations

import hashlib

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.specs import InferTableSpec, SinkSpec
from sqlstream.specs.infer_table import ANSWER
from sqlstream.specs.sink import COLLECT

NAME = "infer"


def inferring_job(options: dict[str, str], job_id: str) -> JobGraph:
    """One vertex, whose only row is the answer to an InferTableSpec."""
    spec, mode = InferTableSpec(options), ChangelogMode.INSERT_ONLY
    uid = hashlib.sha256(repr(spec).encode()).hexdigest()[:32]
    head, collect = "InferTable", f"Sink: {COLLECT}"
    sink = SinkSpec(COLLECT, COLLECT, {"connector": COLLECT}, ANSWER)
    operators = (
        ChainedOperator(0, f"{uid}-infer", head, spec, NETWORK_INPUT, (), (), ANSWER, mode, head),
        ChainedOperator(1, f"{uid}-sink", collect, sink, 0, (ANSWER,), (mode,), ANSWER, mode, collect),
    )
    vertex = JobVertex(uid, f"{head} -> {collect}", operators, parallelism=1, max_parallelism=1)
    return JobGraph(job_id, NAME, (vertex,), ())
