"""The subtasks that exchange rows while they run, so that they start, fail and restart together (Flink: PipelinedRegion)."""

from __future__ import annotations

import enum

from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.jobmanager.deployment import consumers_of
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex


class RegionPhase(enum.Enum):
    """
        WAITING ─► DEPLOYED ─► FINISHED
           ▲           │
        DELAYED ◄─ STOPPING

    WAITING for slots. STOPPING: a task of it has failed, and the others are being ended. DELAYED until its restart, which gives
    every subtask a new attempt. FINISHED: every task has, so nothing that is lost later concerns it.
    """

    WAITING = "WAITING"
    DEPLOYED = "DEPLOYED"
    STOPPING = "STOPPING"
    DELAYED = "DELAYED"
    FINISHED = "FINISHED"


class PipelinedRegion:
    """A connected part of the ExecutionGraph. State: its phase, and when it restarts at the earliest."""

    def __init__(self, subtasks: tuple[ExecutionVertex, ...]) -> None:
        self.subtasks = subtasks
        self.phase = RegionPhase.WAITING
        self.restart_ms = 0

    @property
    def is_under_restart(self) -> bool:
        return self.phase in (RegionPhase.STOPPING, RegionPhase.DELAYED)

    def are_all_terminal(self) -> bool:
        return all(s.execution.is_terminal for s in self.subtasks)

    def are_all(self, state: ExecutionState) -> bool:
        return all(s.execution.state is state for s in self.subtasks)


def regions_of(graph: ExecutionGraph) -> tuple[PipelinedRegion, ...]:
    """The connected components of the subtasks under the channels between them, in the order of their first subtasks."""
    component = {s: {s} for s in graph.subtasks()}
    for edge in graph.job_graph.edges:
        producers, consumers = graph.vertices[edge.source], graph.vertices[edge.target]
        for producer in producers:
            fed = consumers_of(edge.exchange.kind, producer.subtask, len(producers), len(consumers))
            for i in fed:
                _join(component, producer, consumers[i])
    order = {s: i for i, s in enumerate(graph.subtasks())}
    distinct = {id(members): members for members in component.values()}
    return tuple(PipelinedRegion(tuple(sorted(m, key=order.__getitem__))) for m in distinct.values())


def _join(
    component: dict[ExecutionVertex, set[ExecutionVertex]], a: ExecutionVertex, b: ExecutionVertex
) -> None:
    small, large = sorted((component[a], component[b]), key=len)
    if small is not large:
        large |= small
        component.update((s, large) for s in small)
