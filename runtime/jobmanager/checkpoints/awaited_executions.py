"""Which tasks take part in a checkpoint, and whether there can be one."""

from __future__ import annotations

from sqlstream.graph.job_graph import JobVertex
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.jobmanager.deployment import consumers_of
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.specs import SinkSpec


def awaited_executions(graph: ExecutionGraph) -> dict[str, ExecutionVertex] | None:
    """All that have not finished, by execution id. None while there can be no checkpoint: a task is not running yet, all sources
    have finished, a vertex that reads other tasks has finished in part, whose state could not be shared out, or a task has to
    finish because all that it reads have, so that no barrier reaches it. Operators without state and sinks may have finished in
    part: subtasks of a source without splits end, and so do those that read no others."""
    awaited: dict[str, ExecutionVertex] = {}
    has_source = False
    for vertex_id, subtasks in graph.vertices.items():
        running = [s for s in subtasks if s.execution.state is ExecutionState.RUNNING]
        finished = [s for s in subtasks if s.execution.state is ExecutionState.FINISHED]
        if len(running) + len(finished) < len(subtasks):
            return None
        is_source = not graph.job_graph.inputs_of(vertex_id)
        if not is_source and running and not _are_fed(graph, running):
            return None
        if not is_source and running and finished and keeps_state(running[0].vertex):
            return None
        has_source = has_source or (is_source and bool(running))
        awaited.update((s.execution.execution_id, s) for s in running)
    return awaited if has_source else None


def obstacle(graph: ExecutionGraph) -> tuple[str, str]:
    """Why `awaited_executions` finds that there can be no checkpoint, and what to do about it."""
    vertices = list(graph.vertices.items())
    finished = ExecutionState.FINISHED
    if any(
        s.execution.state not in (ExecutionState.RUNNING, finished) for _, tasks in vertices for s in tasks
    ):
        return "not all tasks of the job ran", "look at the failures of the job, and ask again when it runs"
    ended = [(id, sum(s.execution.state is finished for s in tasks), tasks) for id, tasks in vertices]
    if all(count == len(tasks) for id, count, tasks in ended if not graph.job_graph.inputs_of(id)):
        return "its sources have read all that there is", "wait for the end of the job"
    for id, count, tasks in ended:
        if graph.job_graph.inputs_of(id) and 0 < count < len(tasks) and keeps_state(tasks[0].vertex):
            cause = f'{count} of {len(tasks)} subtasks of "{tasks[0].vertex.name}" have finished'
            return cause, "ask again once its other subtasks have finished, too"
    return "some of its tasks are about to finish", "ask again once they have"


def keeps_state(vertex: JobVertex) -> bool:
    """Whether what a subtask has kept ends with it; what sinks have written is committed nevertheless."""
    return any(o.state is not None and not isinstance(o.spec, SinkSpec) for o in vertex.operators)


def _are_fed(graph: ExecutionGraph, subtasks: list[ExecutionVertex]) -> bool:
    """Whether each of these subtasks of one vertex reads a task that has not finished."""
    vertex = subtasks[0].vertex
    fed: set[int] = set()
    for edge in graph.job_graph.inputs_of(vertex.id):
        producers = graph.vertices[edge.source]
        for producer in producers:
            if producer.execution.state is not ExecutionState.FINISHED:
                kind = edge.exchange.kind
                fed.update(consumers_of(kind, producer.subtask, len(producers), vertex.parallelism))
    return fed.issuperset(s.subtask for s in subtasks)
