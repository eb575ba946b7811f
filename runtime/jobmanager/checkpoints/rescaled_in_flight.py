"""Rows that were in flight at an unaligned checkpoint, for a job of the same vertices at another parallelism.

All of them become what arrives at the consumers: what producers had queued for a subtask follows what that subtask had received
from them, so that the rows of a channel keep their order. Each new subtask takes the rows that are its own (ArrivingRows)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream.elements import WATERMARK_MAX, WATERMARK_MIN, Watermark
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobEdge, JobGraph, JobVertex
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.checkpoint import Arrivals, ArrivingRows, InFlightItems
from sqlstream.messages.manifest import CheckpointManifest, VertexState
from sqlstream.runtime.jobmanager.deployment import consumers_of

_SPREADS = frozenset(
    {ExchangeKind.HASH, ExchangeKind.REBALANCE, ExchangeKind.RESCALE, ExchangeKind.SINGLETON}
)
"""Of FORWARD nobody knows which subtask a row belongs to, and of BROADCAST each old consumer had taken other rows."""


def has_other_parallelism(manifest: CheckpointManifest, job: JobGraph) -> bool:
    return [v.parallelism for v in manifest.vertices] != [v.parallelism for v in job.vertices]


def arrivals_of(manifest: CheckpointManifest, job: JobGraph, path: str) -> dict[str, Arrivals]:
    """What arrives at each vertex of the job, whose vertices are those of the checkpoint in the same order. UserError SS6222 when
    rows are in flight whose subtask cannot be told."""
    olds = {vertex.id: old for vertex, old in zip(job.vertices, manifest.vertices, strict=True)}
    found = {}
    for vertex in job.vertices:
        gates = tuple(job.inputs_of(vertex.id))
        if gates:
            found[vertex.id] = Arrivals(
                rows=tuple(r for number in range(len(gates)) for r in _rows(job, vertex, number, olds, path)),
                watermarks=tuple(
                    tuple(_watermark(job, edge, n, olds) for n in range(olds[vertex.id].parallelism))
                    for edge in gates
                ),
            )
    under_way = sum(s.in_flight_rows for old in manifest.vertices for s in old.subtasks)
    if under_way != sum(sum(each.rows) for arrivals in found.values() for each in arrivals.rows):
        raise UserError(
            "SS6222",
            f'"{path}" is an unaligned checkpoint with rows in flight that no channel of the job brings',
        )
    return found


def _rows(
    job: JobGraph, vertex: JobVertex, gate: int, olds: dict[str, VertexState], path: str
) -> Iterator[ArrivingRows]:
    edge = tuple(job.inputs_of(vertex.id))[gate]
    for consumer in range(olds[vertex.id].parallelism):
        for _, items in _channels(job, edge, consumer, olds):
            for each in items:
                rows = tuple(item for item in each.items if isinstance(item, int) and item)
                if not rows:
                    continue
                if edge.exchange.kind not in _SPREADS:
                    raise UserError(
                        "SS6222",
                        f'"{path}" is an unaligned checkpoint with rows in flight to "{vertex.name}" by '
                        f"{edge.exchange.kind.value}, which goes on with the same parallelism only",
                    )
                yield ArrivingRows(gate, consumer, rows, each.segments)


def _watermark(job: JobGraph, edge: JobEdge, consumer: int, olds: dict[str, VertexState]) -> int:
    """The watermark that all channels of an edge had brought an old consumer once their rows had come; WATERMARK_MIN when one had
    none. No row that follows is earlier than what its producer had sent."""
    old = olds[edge.target]
    if old.finished[consumer]:
        return WATERMARK_MAX
    marks = old.subtasks[consumer].channels
    lowest = WATERMARK_MAX
    for number, items in _channels(job, edge, consumer, olds):
        last = marks[number].watermark_ms if number < len(marks) else WATERMARK_MIN
        sent = (i.timestamp_ms for each in items for i in each.items if isinstance(i, Watermark))
        lowest = min(lowest, max([last, *sent]))
    return lowest


def _channels(
    job: JobGraph, edge: JobEdge, consumer: int, olds: dict[str, VertexState]
) -> Iterator[tuple[int, Sequence[InFlightItems]]]:
    """The channels of an old consumer that belong to an edge: their numbers among all that it read, and what was in flight in
    each: what it had received, and what the producer had queued."""
    number = 0
    received = olds[edge.target].subtasks[consumer].in_flight
    for other in job.inputs_of(edge.target):
        producers = olds[other.source].parallelism
        outputs = [e.id for e in job.outputs_of(edge.source)]
        for producer in range(producers):
            fed = consumers_of(other.exchange.kind, producer, producers, olds[edge.target].parallelism)
            if consumer not in fed:
                continue
            if other.id == edge.id:
                queued = olds[edge.source].subtasks[producer].in_flight
                place = outputs.index(edge.id), fed.index(consumer)
                yield (
                    number,
                    (
                        *(i for i in received if not i.is_output and i.channel == number),
                        *(i for i in queued if i.is_output and (i.edge, i.channel) == place),
                    ),
                )
            number += 1
