"""Deployment descriptors of a job's tasks: they name both ends of every channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from sqlstream.graph.job_graph import JobEdge, JobVertex
from sqlstream.graph.key_groups import key_groups_of
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint import SavedOperator, SubtaskState, TableState, TaskRestore
from sqlstream.runtime.jobmanager.checkpoints.completed_checkpoints import CompletedCheckpoint
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.specs import BackfillSpec, IterateSpec, MutualIterateSpec, ValuesSpec
from sqlstream.spi.connector import AssignedSplits


def consumers_of(kind: ExchangeKind, producer: int, producers: int, consumers: int) -> tuple[int, ...]:
    """The consumer subtasks that a producer subtask feeds; FORWARD and RESCALE pair neighbours, others meet
    all.

    >>> [consumers_of(ExchangeKind.RESCALE, p, 2, 5) for p in range(2)]
    [(0, 1, 2), (3, 4)]
    >>> [consumers_of(ExchangeKind.RESCALE, p, 4, 2) for p in range(4)]
    [(0,), (0,), (1,), (1,)]
    """
    if kind is ExchangeKind.FORWARD:
        return (producer,)
    if kind is not ExchangeKind.RESCALE:
        return tuple(range(consumers))
    if producers >= consumers:
        return (producer * consumers // producers,)
    return tuple(c for c in range(consumers) if c * producers // consumers == producer)


def partition_id(producer: ExecutionVertex, edge: JobEdge) -> str:
    return f"{producer.execution.execution_id}-{edge.id}"


@dataclass(frozen=True)
class Deployment:
    """What tasks are deployed with besides their channels: where rows for the client go, the first splits of each source whose
    splits are assigned, where checkpoints are written (empty: nowhere), and the checkpoint that the tasks go on from."""

    result_address: str
    first_splits: Callable[[ExecutionVertex], AssignedSplits | None]
    checkpoint_directory: str = ""
    restored: CompletedCheckpoint | None = None

    def splits_of(self, subtask: ExecutionVertex) -> AssignedSplits | None:
        """A reader that nobody assigns splits to goes on from its own positions."""
        assigned = self.first_splits(subtask)
        if assigned is not None or self.restored is None:
            return assigned
        own = self.restored.positions_of(subtask.vertex.id, subtask.subtask)
        return AssignedSplits(own, is_last=True) if own is not None else None

    def restore_of(self, subtask: ExecutionVertex, job_id: str) -> TaskRestore | None:
        """What the attempt of this job goes on from."""
        if self.restored is None:
            return None
        restore = self.restored.restore_of(subtask.vertex.id, subtask.subtask)
        if restore is None:
            return None
        restore = replace(restore, is_foreign=self.restored.manifest.job_id != job_id)
        return share_of(restore, subtask.vertex, subtask.subtask)


def describe_tasks(
    graph: ExecutionGraph, subtasks: Iterable[ExecutionVertex], deployment: Deployment
) -> dict[str, rpc.TaskDeploymentDescriptor]:
    """The descriptors by execution id. These subtasks, and all at the other ends of their channels, must have their slots."""
    job = graph.job_graph
    return {
        s.execution.execution_id: rpc.TaskDeploymentDescriptor(
            job_id=job.job_id,
            job_name=job.name,
            vertex=s.vertex,
            subtask=s.subtask,
            attempt=s.execution.attempt,
            execution_id=s.execution.execution_id,
            allocation_id=s.execution.allocation_id,
            inputs=tuple(_input_gate(graph, edge, s.subtask) for edge in job.inputs_of(s.vertex.id)),
            outputs=tuple(_result_partition(graph, edge, s) for edge in job.outputs_of(s.vertex.id)),
            result_address=deployment.result_address,
            config=job.config,
            splits=deployment.splits_of(s),
            checkpoint_directory=deployment.checkpoint_directory,
            restore=deployment.restore_of(s, job.job_id),
            python=job.python,
            artifacts=job.artifacts,
            peers=_peers(graph, s),
            peers_id=_peers_id(s),
        )
        for s in subtasks
    }


def _peers_id(subtask: ExecutionVertex) -> str:
    return f"{subtask.execution.execution_id}-peers"


def _peers(graph: ExecutionGraph, subtask: ExecutionVertex) -> tuple[rpc.InputChannelDescriptor, ...]:
    """The channels from the other subtasks of a recursive query. They are no edge: elements that pass through the graph do not
    pass through them. All subtasks have the same inputs, and so are of one region."""
    if not isinstance(subtask.vertex.operators[0].spec, IterateSpec | MutualIterateSpec):
        return ()
    return tuple(
        _channel(peer, _peers_id(peer), subtask.subtask)
        for peer in graph.vertices[subtask.vertex.id]
        if peer.subtask != subtask.subtask
    )


def _channel(producer: ExecutionVertex, partition_id: str, subpartition: int) -> rpc.InputChannelDescriptor:
    e = producer.execution
    return rpc.InputChannelDescriptor(
        partition_id=partition_id,
        subpartition=subpartition,
        subtask=producer.subtask,
        execution_id=e.execution_id,
        task_manager_id=e.task_manager_id,
        address=e.address,
    )


def _input_gate(graph: ExecutionGraph, edge: JobEdge, subtask: int) -> rpc.InputGateDescriptor:
    producers, consumers = graph.vertices[edge.source], graph.vertices[edge.target]
    channels = []
    for producer in producers:
        fed = consumers_of(edge.exchange.kind, producer.subtask, len(producers), len(consumers))
        if subtask in fed:
            channels.append(_channel(producer, partition_id(producer, edge), fed.index(subtask)))
    return rpc.InputGateDescriptor(edge, tuple(channels))


def _result_partition(
    graph: ExecutionGraph, edge: JobEdge, producer: ExecutionVertex
) -> rpc.ResultPartitionDescriptor:
    producers, consumers = graph.vertices[edge.source], graph.vertices[edge.target]
    fed = consumers_of(edge.exchange.kind, producer.subtask, len(producers), len(consumers))
    ends = tuple(
        rpc.ConsumerDescriptor(i, e.execution_id, e.task_manager_id, e.address)
        for i, e in ((i, consumers[i].execution) for i in fed)
    )
    return rpc.ResultPartitionDescriptor(partition_id(producer, edge), edge, ends)


# What one attempt needs of the state of its vertex: descriptors would grow with the square of the parallelism
# otherwise.


def share_of(restore: TaskRestore, vertex: JobVertex, subtask: int) -> TaskRestore:
    """The same with only those segments that may have key groups of the subtask, shared tables, and the items that were in flight
    to and from it; an attempt that only passes on the end of its input loads nothing. Of as many subtasks as there were each gets
    only what it has saved itself."""
    if restore.is_finished:
        return replace(restore, states=(), arrivals=None)
    key_groups = key_groups_of(subtask, vertex.parallelism, vertex.max_parallelism)
    # Rows that are part of the statement have no splits that could be assigned: each reader leaves out what any has read.
    needs_splits = isinstance(vertex.operators[0].spec, ValuesSpec | BackfillSpec)
    states = tuple(
        SubtaskState(
            operators=_operators(
                state, key_groups, is_loaded=not restore.is_own or n == subtask, is_whole=restore.is_own
            ),
            splits=state.splits if needs_splits else None,
            in_flight=state.in_flight if n == subtask else (),
            channels=state.channels if restore.is_own and n == subtask else (),
        )
        for n, state in enumerate(restore.states)
    )
    return replace(restore, states=states)


def _operators(
    state: SubtaskState, key_groups: range, *, is_loaded: bool, is_whole: bool
) -> tuple[SavedOperator, ...]:
    if not is_loaded:
        return ()
    return state.operators if is_whole else tuple(_operator(o, key_groups) for o in state.operators)


def _operator(operator: SavedOperator, key_groups: range) -> SavedOperator:
    return replace(operator, tables=tuple(_table(t, key_groups) for t in operator.tables))


def _table(table: TableState, key_groups: range) -> TableState:
    if not table.is_keyed:
        return table
    segments = tuple(
        s
        for s in table.segments
        if s.first_key_group < key_groups.stop and s.last_key_group >= key_groups.start
    )
    return replace(table, segments=segments)
