"""The job that infers a table from files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph
from sqlstream.planner.collecting import collecting_vertex
from sqlstream.specs import InferTableSpec
from sqlstream.specs.infer_table import ANSWER

NAME = "infer"


def inferring_job(options: dict[str, str], job_id: str, config: Mapping[str, str]) -> JobGraph:
    """One vertex, whose only row is the answer to an InferTableSpec; `config` holds the settings of the session."""
    spec, mode = InferTableSpec(options), ChangelogMode.INSERT_ONLY
    uid = hashlib.sha256(repr(spec).encode()).hexdigest()[:32]
    name = "InferTable"
    head = ChainedOperator(0, f"{uid}-infer", name, spec, NETWORK_INPUT, (), (), ANSWER, mode, name)
    return JobGraph(job_id, NAME, (collecting_vertex(uid, head),), (), dict(config))
