"""What is said of a checkpoint that has failed, that takes long, or that its job has gone on from."""

from __future__ import annotations

from sqlstream.client.following.progress import size_text
from sqlstream.messages.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointStatus,
    RestoredCheckpoint,
    VertexCheckpoint,
)

TASKS_MAX = 3
"""How many of the subtasks that a checkpoint waits for are named."""
LONG_WAIT_MS = 1000
"""From which wait on a completed checkpoint tells which input a subtask waited for."""


def remark_on(record: CheckpointRecord) -> str:
    """Why a checkpoint failed and which subtask was the cause, which subtasks one in progress waits for, or that it is
    removed, or which barrier came so late that a subtask waited long, and that it stores rows that were under way."""
    if record.error is not None:
        task = f"{record.failed_task}: " if record.failed_task else ""
        return f"{task}{record.error.message}"
    if record.is_discarded:
        return "removed"
    if record.status is CheckpointStatus.COMPLETED:
        return "; ".join(text for text in (_longest_wait(record), _in_flight(record)) if text)
    awaited = awaited_tasks(record) if record.status is CheckpointStatus.IN_PROGRESS else []
    if not awaited:
        return ""
    more = f" and {len(awaited) - TASKS_MAX} more" if len(awaited) > TASKS_MAX else ""
    return f"waits for {', '.join(awaited[:TASKS_MAX])}{more}"


def _longest_wait(record: CheckpointRecord) -> str:
    """Which subtask waited longest for the barrier of one of its inputs, and for which, if that was long."""
    waits = [
        (late.after_ms, vertex, subtask, late)
        for vertex in record.vertices
        for subtask in vertex.subtasks
        for late in subtask.figures.late_channels[:1]
    ]
    after_ms, vertex, subtask, late = max(waits, key=lambda wait: wait[0], default=(0, None, None, None))
    if after_ms < LONG_WAIT_MS or vertex is None or subtask is None or late is None:
        return ""
    producer = next((v for v in record.vertices if v.vertex_id == late.vertex_id), None)
    awaited = _task(producer, late.subtask) if producer is not None else "an input that has finished"
    return f"{_task(vertex, subtask.subtask)} waited {after_ms / 1000:.1f} s for the barrier of {awaited}"


def _in_flight(record: CheckpointRecord) -> str:
    if not record.has_in_flight:
        return ""
    return f"unaligned: {in_flight_text(record.in_flight_rows)}"


def in_flight_text(rows: int) -> str:
    """What an unaligned checkpoint with so many rows in flight is good for."""
    return f"{rows:,} rows were under way, so it goes on with the same parallelism only"


def _task(vertex: VertexCheckpoint, subtask: int) -> str:
    return f"{vertex.name} ({subtask + 1}/{vertex.parallelism})"


def restored_remark(restored: RestoredCheckpoint) -> str:
    """Where the state was read that the job went on with; empty when nothing is known of that.

    >>> from sqlstream.messages.checkpoint_statistics import CheckpointKind
    >>> restored_remark(RestoredCheckpoint(7, CheckpointKind.CHECKPOINT, 0, "/c/chk-7", 3 << 20, 1000))
    'went on with 3.0 MiB of local copies and 1000 B of the store'
    """
    places = {"local copies": restored.local_bytes, "the store": restored.store_bytes}
    read = [f"{size_text(size)} of {place}" for place, size in places.items() if size]
    return f"went on with {' and '.join(read)}" if read else ""


def awaited_tasks(record: CheckpointRecord) -> list[str]:
    """The subtasks that have not acknowledged it, in Flink's names: `window (1/2)`."""
    return [
        _task(vertex, subtask.subtask)
        for vertex in record.vertices
        for subtask in vertex.subtasks
        if subtask.acknowledged_ms < 0
    ]
