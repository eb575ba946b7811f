"""The job that imports a Python function for its declaration."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqlstream.changelog import ChangelogMode
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph
from sqlstream.graph.python_files import PythonFiles
from sqlstream.planner.collecting import collecting_vertex
from sqlstream.specs import InspectFunctionSpec
from sqlstream.specs.infer_table import ANSWER

NAME = "inspect"


def inspecting_job(
    module: str, attribute: str, python: PythonFiles | None, job_id: str, config: Mapping[str, str]
) -> JobGraph:
    """One vertex, whose only row is the answer to an InspectFunctionSpec."""
    spec, mode = InspectFunctionSpec(module, attribute), ChangelogMode.INSERT_ONLY
    uid = hashlib.sha256(repr(spec).encode()).hexdigest()[:32]
    name = "InspectFunction"
    head = ChainedOperator(0, f"{uid}-inspect", name, spec, NETWORK_INPUT, (), (), ANSWER, mode, name)
    return JobGraph(job_id, NAME, (collecting_vertex(uid, head),), (), dict(config), python=python)
