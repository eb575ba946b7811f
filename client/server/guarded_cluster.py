"""The server's cluster: it refuses jobs that reach beyond what the server allows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runtime.cluster_surroundings import ClusterSurroundings
from runtime.connectors import connector
from runtime.embedded import EmbeddedCluster
from runtime.host.rooted_files import RootedFiles
from runtime.net.results import PrintLines
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph, read_tables, written_tables
from sqlstream.specs import SinkSpec, SourceSpec
from sqlstream.spi.connector import NamesPaths

_JOB_ID = re.compile(r"[0-9a-f]{32}")


class GuardedCluster(EmbeddedCluster):
    """A cluster of child processes whose jobs are checked when they are submitted, in whatever way: their id, the places of their
    files, and the size of their plan. TaskManagers check each file again when they open it."""

    def __init__(
        self,
        config: Mapping[str, str],
        task_managers: int | None,
        print_lines: PrintLines,
        surroundings: ClusterSurroundings,
        plan_bytes_max: int,
    ) -> None:
        super().__init__(config, task_managers, False, print_lines, surroundings)
        self._places = surroundings.places
        self._plan_bytes_max = plan_bytes_max

    def check_job(self, graph: JobGraph, size: int) -> None:
        check_job_id(graph.job_id)
        check_plan_size(size, self._plan_bytes_max)
        if self._places is not None:
            check_paths(graph, RootedFiles(self._places))


def check_job_id(job_id: str) -> None:
    """UserError SS6036 for what this project's sessions never make: files of the job are named after it."""
    if _JOB_ID.fullmatch(job_id) is None:
        raise UserError("SS6036", f'"{job_id}" is no job id', hint="give 32 hexadecimal digits")


def check_plan_size(size: int, bytes_max: int) -> None:
    """UserError SS3020 for a plan that would fill the memory of its TaskManagers."""
    if size > bytes_max:
        raise UserError(
            "SS3020",
            f"the plan has {size} bytes, more than the {bytes_max} that the server allows",
            hint="split the statement, or start the server with a larger sqlstream.server.plan.max-size",
        )


def check_paths(graph: JobGraph, files: RootedFiles) -> None:
    """UserError SS5030, with the place in the statement, for a table outside of the allowed directories."""
    tables: list[tuple[ChainedOperator, SourceSpec | SinkSpec]] = [
        *read_tables(graph),
        *written_tables(graph),
    ]
    for operator, spec in tables:
        named = connector(spec.connector)
        if not isinstance(named, NamesPaths):
            continue
        for path in named.paths(spec.options):
            try:
                files.check(path)
            except UserError as error:
                raise error.at(operator.span) from None
