"""What is said of a checkpoint that has failed, that takes long, or that its job has gone on from."""

from __future__ import annotations

from client.following.progress import size_text
from sqlstream.messages.checkpoint_statistics import CheckpointRecord, CheckpointStatus, RestoredCheckpoint

TASKS_MAX = 3
"""How many of the subtasks that a checkpoint waits for are named."""


def remark_on(record: CheckpointRecord) -> str:
    """Why a checkpoint failed and which subtask was the cause, which subtasks one in progress waits for, or that it is
    removed."""
    if record.error is not None:
        task = f"{record.failed_task}: " if record.failed_task else ""
        return f"{task}{record.error.message}"
    if record.is_discarded:
        return "removed"
    awaited = awaited_tasks(record) if record.status is CheckpointStatus.IN_PROGRESS else []
    if not awaited:
        return ""
    more = f" and {len(awaited) - TASKS_MAX} more" if len(awaited) > TASKS_MAX else ""
    return f"waits for {', '.join(awaited[:TASKS_MAX])}{more}"


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
        f"{vertex.name} ({subtask.subtask + 1}/{vertex.parallelism})"
        for vertex in record.vertices
        for subtask in vertex.subtasks
        if subtask.acknowledged_ms < 0
    ]
