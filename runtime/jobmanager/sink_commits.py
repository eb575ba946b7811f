"""What the sinks of a job have written, as far as its subtasks have reported it."""

from __future__ import annotations

from typing import Any

from runtime.jobmanager.events import SinkCommit
from runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.specs import SinkSpec


class DiscardedOutput:
    """The committables of attempts that later ones have replaced, by sink: nobody may see them, and they are removed when the
    job ends. State: these, for the life of the job."""

    def __init__(self) -> None:
        self._committables: dict[tuple[str, int], tuple[dict[str, Any], ...]] = {}

    def add(self, subtask: ExecutionVertex) -> None:
        for sink in subtask.execution.committables:
            if sink.committables:
                key = (subtask.vertex.id, sink.operator_id)
                self._committables[key] = (*self._committables.get(key, ()), *sink.committables)

    def of(self, vertex_id: str, operator_id: int) -> tuple[dict[str, Any], ...]:
        return self._committables.get((vertex_id, operator_id), ())


def sink_commits(graph: ExecutionGraph) -> tuple[SinkCommit, ...]:
    """Every sink of the job with what the current attempts have written, also those without committables: a sink without rows
    may have to create an empty result."""
    commits = []
    for vertex in graph.job_graph.vertices:
        reported = [s.execution.committables for s in graph.vertices[vertex.id]]
        for operator in vertex.operators:
            if isinstance(operator.spec, SinkSpec):
                parts = [c for task in reported for c in task if c.operator_id == operator.id]
                committables = tuple(c for part in parts for c in part.committables)
                commits.append(SinkCommit(vertex.id, operator.id, operator.spec, committables))
    return tuple(commits)


def sink_leftovers(
    graph: ExecutionGraph, committed: bool, discarded: DiscardedOutput, is_unclean: bool
) -> tuple[SinkCommit, ...]:
    """What has to be removed at the end of a job: all but what was `committed`. Sinks without committables are in it when tasks
    may have left what they have not reported (`is_unclean`)."""
    leftovers = []
    for commit in sink_commits(graph):
        written = () if committed else commit.committables
        written += discarded.of(commit.vertex_id, commit.operator_id)
        if written or is_unclean:
            leftovers.append(SinkCommit(commit.vertex_id, commit.operator_id, commit.spec, written))
    return tuple(leftovers)
