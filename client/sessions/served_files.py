"""Tables of files in a server, whose own process reads none of what users wrote."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.catalog import InferredTable
from sqlstream.changelog import ChangelogMode
from sqlstream.client.sessions.shipped_files import shipped_archives
from sqlstream.client.statements.short_job import answer_of
from sqlstream.errors import ExternalError
from sqlstream.function_ref import InspectedFunction
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph
from sqlstream.graph.python_files import PythonFiles
from sqlstream.planner.graphs import collecting_vertex
from sqlstream.runtime.python.packing import pack, split_paths
from sqlstream.specs import InferTableSpec, InspectFunctionSpec
from sqlstream.specs.source import ANSWER, InferenceAnswer, InspectionAnswer

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient


TIMEOUT_S = 60.0
"""Bound on reading the samples of the files at one path."""


class ServedInference:
    """Asks a task for the table of files. Implements `FileInference`.

    State: the tables that came with the answers to questions for their format."""

    def __init__(
        self, cluster: ClusterClient, config: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`config` holds the settings of the session."""
        self._cluster = cluster
        self._config = dict(config or {})
        self._timeout_s = timeout_s
        self._known: list[tuple[dict[str, str], InferredTable]] = []

    def format(self, path: str) -> str:
        options = {"connector": "filesystem", "path": path}
        found = self._ask(options)
        if found.table is not None:
            self._known.append(({**options, "format": found.format}, found.table))
        return found.format

    def table(self, options: Mapping[str, str]) -> InferredTable:
        for asked, table in self._known:
            if asked == options:
                return table
        found = self._ask(dict(options)).table
        assert found is not None
        return found

    def _ask(self, options: dict[str, str]) -> InferenceAnswer:
        """The errors of LocalFileInference, ExternalError SS5026 when reading takes too long, JobError SS6003 when no task
        got a slot meanwhile, JobError when the task fails."""
        graph = inferring_job(options, secrets.token_hex(16), self._config)
        late = ExternalError(
            "SS5026", f'reading the columns of "{options["path"]}" took longer than {self._timeout_s:.0f} s'
        )
        return answer_of(graph, self._cluster, self._timeout_s, InferenceAnswer, late)


class ServedInspector:
    """Asks a task for the declaration of a function. Implements `FunctionInspector`. `check` raises where Python functions
    are not allowed."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: Mapping[str, str],
        files: Any,
        check: Callable[[], None],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._config = dict(config)
        self._files = files
        self._check = check
        self._timeout_s = timeout_s

    def inspect(self, module: str, attribute: str, files: tuple[str, ...]) -> InspectedFunction:
        """The errors of LocalFunctionInspector, UserError SS2034 where this is not allowed, ExternalError SS5033 when the
        import takes too long, JobError when the task fails."""
        self._check()
        paths = (*files, *split_paths(options.get(self._config, "python.files")))
        small, large = shipped_archives(paths, self._config, self._cluster, self._files)
        python = pack(small, self._files)
        graph = inspecting_job(module, attribute, python, secrets.token_hex(16), self._config)
        graph = replace(graph, artifacts=large)
        late = ExternalError(
            "SS5033", f'importing Python module "{module}" took longer than {self._timeout_s:.0f} s'
        )
        answer = answer_of(graph, self._cluster, self._timeout_s, InspectionAnswer, late)
        assert answer.function is not None
        return answer.function


# The job that infers a table from files.


FILES_NAME = "infer"


def inferring_job(options: dict[str, str], job_id: str, config: Mapping[str, str]) -> JobGraph:
    """One vertex, whose only row is the answer to an InferTableSpec; `config` holds the settings of the session."""
    spec, mode = InferTableSpec(options), ChangelogMode.INSERT_ONLY
    uid = hashlib.sha256(repr(spec).encode()).hexdigest()[:32]
    name = "InferTable"
    head = ChainedOperator(0, f"{uid}-infer", name, spec, NETWORK_INPUT, (), (), ANSWER, mode, name)
    return JobGraph(job_id, FILES_NAME, (collecting_vertex(uid, head),), (), _without_state(config))


# The job that imports a Python function for its declaration.


FUNCTIONS_NAME = "inspect"


def inspecting_job(
    module: str, attribute: str, python: PythonFiles | None, job_id: str, config: Mapping[str, str]
) -> JobGraph:
    """One vertex, whose only row is the answer to an InspectFunctionSpec."""
    spec, mode = InspectFunctionSpec(module, attribute), ChangelogMode.INSERT_ONLY
    uid = hashlib.sha256(repr(spec).encode()).hexdigest()[:32]
    name = "InspectFunction"
    head = ChainedOperator(0, f"{uid}-inspect", name, spec, NETWORK_INPUT, (), (), ANSWER, mode, name)
    vertices = (collecting_vertex(uid, head),)
    return JobGraph(job_id, FUNCTIONS_NAME, vertices, (), _without_state(config), python=python)


def _without_state(config: Mapping[str, str]) -> dict[str, str]:
    """The state that a session names is for the job of the statement, and not for those that it asks before."""
    return {key: value for key, value in config.items() if key != "execution.state-recovery.path"}
