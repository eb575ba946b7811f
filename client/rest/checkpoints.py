"""A job's checkpoints in Flink's bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from sqlstream import config as options
from sqlstream.client.following.checkpoint_text import remark_on
from sqlstream.messages import checkpoint_statistics as kept
from sqlstream.messages.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointStatus,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.ledger import JobLedger, balance_text, difference_text, side_difference_text

_LONG_MAX = 2**63 - 1
_PREFIX = "execution.checkpointing."


class CheckpointCounts(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class CheckpointFigure(TypedDict):
    """A quantile of nothing is the text NaN."""

    min: int
    max: int
    avg: int
    p50: float | str
    p90: float | str
    p95: float | str
    p99: float | str
    p999: float | str


class Progress(TypedDict):
    """How far a checkpoint or one of its vertices has come."""

    latest_ack_timestamp: int
    checkpointed_size: int
    state_size: int
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    num_subtasks: int
    num_acknowledged_subtasks: int


class VertexInCheckpoint(Progress):
    id: int
    status: str


class CheckpointBody(VertexInCheckpoint):
    """`external_path` and `discarded` are those of a completed one, `failure_…` of one that has failed."""

    className: str
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    checkpoint_type: str
    tasks: dict[str, VertexInCheckpoint]
    external_path: NotRequired[str]
    discarded: NotRequired[bool]
    failure_timestamp: NotRequired[int]
    failure_message: NotRequired[str]


class RestoredCheckpoint(TypedDict):
    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str


class LatestCheckpoints(TypedDict):
    completed: CheckpointBody | None
    savepoint: CheckpointBody | None
    failed: CheckpointBody | None
    restored: RestoredCheckpoint | None


class CheckpointStatistics(TypedDict):
    counts: CheckpointCounts
    summary: dict[str, CheckpointFigure]
    latest: LatestCheckpoints
    history: list[CheckpointBody]


CheckpointTimes = TypedDict("CheckpointTimes", {"sync": CheckpointFigure, "async": CheckpointFigure})


class AlignmentSummary(TypedDict):
    buffered: CheckpointFigure
    processed: CheckpointFigure
    persisted: CheckpointFigure
    duration: CheckpointFigure


class SubtasksSummary(TypedDict):
    checkpointed_size: CheckpointFigure
    state_size: CheckpointFigure
    end_to_end_duration: CheckpointFigure
    checkpoint_duration: CheckpointTimes
    alignment: AlignmentSummary
    start_delay: CheckpointFigure


LateChannel = TypedDict("LateChannel", {"vertex-id": str, "subtask": int, "duration": int})


class SubtaskAlignment(TypedDict):
    """`late_channels` are the producers whose barriers came last, the latest first."""

    buffered: int
    processed: int
    persisted: int
    duration: int
    late_channels: list[LateChannel]


class SubtaskInCheckpoint(TypedDict):
    """The figures are those of a subtask that has acknowledged the checkpoint."""

    className: str
    index: int
    status: str
    ack_timestamp: NotRequired[int]
    end_to_end_duration: NotRequired[int]
    checkpointed_size: NotRequired[int]
    state_size: NotRequired[int]
    checkpoint: NotRequired[dict[str, int]]
    alignment: NotRequired[SubtaskAlignment]
    start_delay: NotRequired[int]
    unaligned_checkpoint: NotRequired[bool]
    aborted: NotRequired[bool]


class SubtasksInCheckpoint(VertexInCheckpoint):
    summary: SubtasksSummary
    subtasks: list[SubtaskInCheckpoint]


class Externalization(TypedDict):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(TypedDict):
    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


_STATE_BACKENDS = {"hashmap": "HashMapStateBackend", "mapped": "MappedStateBackend"}


def checkpoint_config(config: Mapping[str, str]) -> CheckpointConfig:
    """The settings of a job's checkpoints. The longest interval that there is means: no periodic checkpoints."""

    def setting(key: str) -> Any:
        return options.get(config, _PREFIX + key)

    retention = str(setting("externalized-checkpoint-retention"))
    return {
        "mode": str(setting("mode")).lower(),
        "interval": setting("interval") or _LONG_MAX,
        "timeout": setting("timeout"),
        "min_pause": setting("min-pause"),
        "max_concurrent": setting("max-concurrent-checkpoints"),
        "externalization": {
            "enabled": retention != "NO_EXTERNALIZED_CHECKPOINTS",
            "delete_on_cancellation": retention != "RETAIN_ON_CANCELLATION",
        },
        "state_backend": _STATE_BACKENDS[options.get(config, "state.backend.type")],
        "checkpoint_storage": "FileSystemCheckpointStorage",
        "unaligned_checkpoints": setting("unaligned.enabled"),
        "tolerable_failed_checkpoints": setting("tolerable-failed-checkpoints"),
        "aligned_checkpoint_timeout": setting("aligned-checkpoint-timeout"),
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": _LONG_MAX,
        "changelog_storage": "memory",
    }


def checkpoint_statistics(found: kept.CheckpointStatistics) -> CheckpointStatistics:
    """The counts, the newest checkpoints without their vertices, and figures over those of them that were completed."""
    completed = [record for record in found.history if record.status is CheckpointStatus.COMPLETED]
    counts = found.counts
    return {
        "counts": {
            "restored": counts.restored,
            "total": counts.total,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
        },
        "summary": {
            "checkpointed_size": _summary(record.written_bytes for record in completed),
            "state_size": _summary(record.state_bytes for record in completed),
            "end_to_end_duration": _summary(record.ended_ms - record.triggered_ms for record in completed),
            "alignment_buffered": _summary(0 for _ in completed),
            "processed_data": _summary(0 for _ in completed),
            "persisted_data": _summary(_in_flight_bytes(_subtasks(record)) for record in completed),
        },
        "latest": {
            "completed": _if_there(found.latest_completed),
            "savepoint": _if_there(found.latest_savepoint),
            "failed": _if_there(found.latest_failed),
            "restored": _restored(found.latest_restored),
        },
        "history": [checkpoint_body(record, has_tasks=False) for record in found.history],
    }


def _subtasks(record: CheckpointRecord) -> list[SubtaskCheckpoint]:
    return [subtask for vertex in record.vertices for subtask in vertex.subtasks]


def _in_flight_bytes(subtasks: Iterable[SubtaskCheckpoint]) -> int:
    """The rows that the barriers of an unaligned checkpoint have passed."""
    return sum(subtask.figures.in_flight_bytes for subtask in subtasks)


def _if_there(record: CheckpointRecord | None) -> CheckpointBody | None:
    return None if record is None else checkpoint_body(record, has_tasks=False)


def _restored(found: kept.RestoredCheckpoint | None) -> RestoredCheckpoint | None:
    if found is None:
        return None
    return {
        "id": found.id,
        "restore_timestamp": found.restored_ms,
        "is_savepoint": found.kind.is_savepoint,
        "external_path": found.path,
    }


def checkpoint_body(record: CheckpointRecord, has_tasks: bool) -> CheckpointBody:
    """One checkpoint; `has_tasks`: with its vertices by id."""
    body: CheckpointBody = {
        "className": record.status.value.lower(),
        "id": record.id,
        "status": record.status.value,
        "is_savepoint": record.kind.is_savepoint,
        "savepointFormat": "CANONICAL" if record.kind.is_savepoint else None,
        "trigger_timestamp": record.triggered_ms,
        **_progress(record, _subtasks(record)),  # type: ignore[typeddict-item]  # it has none of the keys below
        "checkpoint_type": record.kind.value,
        "tasks": {v.vertex_id: _vertex_body(record, v) for v in record.vertices} if has_tasks else {},
    }
    if record.status is CheckpointStatus.COMPLETED:
        body["external_path"] = record.path
        body["discarded"] = record.is_discarded
    elif record.status is CheckpointStatus.FAILED:
        body["failure_timestamp"] = record.ended_ms
        body["failure_message"] = remark_on(record)
    return body


def _vertex_body(record: CheckpointRecord, vertex: VertexCheckpoint) -> VertexInCheckpoint:
    status = record.status
    if all(subtask.acknowledged_ms >= 0 for subtask in vertex.subtasks):
        status = CheckpointStatus.COMPLETED
    return {"id": record.id, "status": status.value, **_progress(record, vertex.subtasks)}


def _progress(record: CheckpointRecord, subtasks: Sequence[SubtaskCheckpoint]) -> Progress:
    acknowledged = [subtask for subtask in subtasks if subtask.acknowledged_ms >= 0]
    latest_ms = max((subtask.acknowledged_ms for subtask in acknowledged), default=-1)
    return {
        "latest_ack_timestamp": latest_ms,
        "checkpointed_size": sum(subtask.figures.written_bytes for subtask in subtasks),
        "state_size": sum(subtask.figures.state_bytes for subtask in subtasks),
        "end_to_end_duration": max(0, latest_ms - record.triggered_ms) if acknowledged else -1,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": _in_flight_bytes(subtasks),
        "num_subtasks": len(subtasks),
        "num_acknowledged_subtasks": len(acknowledged),
    }


def vertex_body(record: CheckpointRecord, vertex: VertexCheckpoint) -> SubtasksInCheckpoint:
    """One vertex in a checkpoint, with each of its subtasks and figures over those that have acknowledged it."""
    acknowledged = [subtask for subtask in vertex.subtasks if subtask.acknowledged_ms >= 0]

    def summary(figure: Callable[[SubtaskCheckpoint], int]) -> CheckpointFigure:
        return _summary(map(figure, acknowledged))

    return {
        **_vertex_body(record, vertex),
        "summary": {
            "checkpointed_size": summary(lambda s: s.figures.written_bytes),
            "state_size": summary(lambda s: s.figures.state_bytes),
            "end_to_end_duration": summary(lambda s: max(0, s.acknowledged_ms - record.triggered_ms)),
            "checkpoint_duration": {
                "sync": summary(lambda s: s.figures.sync_ms),
                "async": summary(lambda s: s.figures.async_ms),
            },
            "alignment": {
                "buffered": summary(lambda _: 0),
                "processed": summary(lambda _: 0),
                "persisted": summary(lambda s: s.figures.in_flight_bytes),
                "duration": summary(lambda s: s.figures.alignment_ms),
            },
            "start_delay": summary(lambda s: _start_delay_ms(record, s)),
        },
        "subtasks": [_subtask_body(record, subtask) for subtask in vertex.subtasks],
    }


def _subtask_body(record: CheckpointRecord, subtask: SubtaskCheckpoint) -> SubtaskInCheckpoint:
    if subtask.acknowledged_ms < 0:
        return {"className": "pending", "index": subtask.subtask, "status": "pending_or_failed"}
    figures = subtask.figures
    return {
        "className": "completed",
        "index": subtask.subtask,
        "status": "completed",
        "ack_timestamp": subtask.acknowledged_ms,
        "end_to_end_duration": max(0, subtask.acknowledged_ms - record.triggered_ms),
        "checkpointed_size": figures.written_bytes,
        "state_size": figures.state_bytes,
        "checkpoint": {"sync": figures.sync_ms, "async": figures.async_ms},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": figures.in_flight_bytes,
            "duration": figures.alignment_ms,
            "late_channels": [
                {"vertex-id": late.vertex_id, "subtask": late.subtask, "duration": late.after_ms}
                for late in figures.late_channels
            ],
        },
        "start_delay": _start_delay_ms(record, subtask),
        "unaligned_checkpoint": figures.is_unaligned,
        "aborted": False,
    }


def _start_delay_ms(record: CheckpointRecord, subtask: SubtaskCheckpoint) -> int:
    """From the beginning of the checkpoint to the subtask's first barrier: all that its own figures leave of its time."""
    figures = subtask.figures
    own_ms = figures.alignment_ms + figures.sync_ms + figures.async_ms
    return max(0, subtask.acknowledged_ms - record.triggered_ms - own_ms)


def _summary(values: Iterable[int]) -> CheckpointFigure:
    """Quantiles of nothing are `NaN`, which Flink sends as a text."""
    found = sorted(values)

    def quantile(share: float) -> float | str:
        return _quantile(found, share) if found else "NaN"

    return {
        "min": found[0] if found else 0,
        "max": found[-1] if found else 0,
        "avg": sum(found) // len(found) if found else 0,
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
    }


def _quantile(ordered: Sequence[int], share: float) -> float:
    """The value at `share` of the way through, between two neighbours where it falls there (Flink: DescriptiveStatistics).

    >>> _quantile([10, 20, 30], 0.5), _quantile([10, 20, 30, 40], 0.5), _quantile([10, 20], 0.99), _quantile([10, 20, 30], 0.25)
    (20.0, 25.0, 20.0, 10.0)
    """
    position = share * (len(ordered) + 1)
    below = int(position)
    if below < 1 or below >= len(ordered):
        return float(ordered[0] if below < 1 else ordered[-1])
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])


# The ledger of a job, which Flink has not.

SideInLedger = TypedDict(
    "SideInLedger",
    {"name": str, "rows-in": int, "parts": dict[str, int], "balance": str, "difference": int, "text": str},
)
OperatorInLedger = TypedDict(
    "OperatorInLedger",
    {
        "id": int,
        "name": str,
        "vertex-id": str,
        "rows-in": int,
        "rows-out": int,
        "rows-sent": int | None,
        "in-flight": int,
        "parts": dict[str, int],
        "balance": str,
        "difference": int,
        "lost": int,
        "text": str,
        "sides": list[SideInLedger],
    },
)
"""`parts` are what the rows became beside those that came out, by name; `balance` says what adds up, and `text` what does not.
`sides` are the left and the right one of a join."""


class Ledger(TypedDict):
    """`checkpoint` is None at the end of the job, and before its first checkpoint, when there are no operators."""

    checkpoint: int | None
    timestamp: int | None
    balanced: bool
    operators: list[OperatorInLedger]


def ledger_body(found: JobLedger | None) -> Ledger:
    if found is None:
        return {"checkpoint": None, "timestamp": None, "balanced": True, "operators": []}
    return {
        "checkpoint": found.checkpoint_id or None,
        "timestamp": found.taken_ms,
        "balanced": found.is_balanced,
        "operators": [
            {
                "id": entry.operator_id,
                "name": entry.name,
                "vertex-id": entry.vertex_id,
                "rows-in": entry.rows_in,
                "rows-out": entry.rows_out,
                "rows-sent": entry.sent,
                "in-flight": entry.in_flight,
                "parts": entry.parts,
                "balance": balance_text(entry),
                "difference": entry.difference,
                "lost": entry.lost,
                "text": difference_text(entry),
                "sides": [
                    {
                        "name": side.name,
                        "rows-in": side.rows_in,
                        "parts": side.parts,
                        "balance": balance_text(side),
                        "difference": side.difference,
                        "text": side_difference_text(side),
                    }
                    for side in entry.sides
                ],
            }
            for entry in found.entries
        ],
    }
