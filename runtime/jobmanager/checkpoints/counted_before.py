"""What a job had counted at the checkpoint that a subtask goes on from."""

from __future__ import annotations

from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.messages.rpc import Metrics
from sqlstream.runtime.jobmanager.execution_graph import ExecutionVertex
from sqlstream.runtime.jobmanager.metrics import combine_all


def counted_before(manifest: CheckpointManifest, subtask: ExecutionVertex) -> dict[int, Metrics]:
    """The counters by operator, as far as they go on with this subtask. Where its vertex had another parallelism, or other
    operators, they all go on with its first subtask."""
    vertex, ids = subtask.vertex, {o.id for o in subtask.vertex.operators}
    for saved in manifest.vertices:
        has_same_subtasks = saved.parallelism == vertex.parallelism
        if saved.vertex_id == vertex.id and has_same_subtasks and {o.id for o in saved.operators} == ids:
            return saved.subtasks[subtask.subtask].counted
    if subtask.subtask:
        return {}
    everything = combine_all(state.counted for saved in manifest.vertices for state in saved.subtasks)
    return {id: counters for id, counters in everything.items() if id in ids}
