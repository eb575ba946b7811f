"""What is said of a checkpoint that has failed, or that takes long."""

from __future__ import annotations

from sqlstream.messages.checkpoint_statistics import CheckpointRecord, CheckpointStatus

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


def awaited_tasks(record: CheckpointRecord) -> list[str]:
    """The subtasks that have not acknowledged it, in Flink's names: `window (1/2)`."""
    return [
        f"{vertex.name} ({subtask.subtask + 1}/{vertex.parallelism})"
        for vertex in record.vertices
        for subtask in vertex.subtasks
        if subtask.acknowledged_ms < 0
    ]
