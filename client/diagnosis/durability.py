"""Checkpoints that are slow or fail, restarts and their causes, state that grows, slots and rows that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlstream.client.diagnosis.finding import Finding, FindingKind, JobSnapshot, Severity, seconds_text
from sqlstream.client.following.checkpoint_text import awaited_tasks, remark_on
from sqlstream.client.following.lost_rows import lost_rows
from sqlstream.client.following.progress import size_text
from sqlstream.errors import ErrorInfo
from sqlstream.messages.checkpoint_statistics import (
    CheckpointRecord,
    CheckpointStatus,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.job_state import ExecutionState, JobStatus

SLOW_MS = 10_000
SLOW_SHARE = 0.5
"""A checkpoint that takes so long, or this part of its interval, is slow."""

SLOW_MIN_MS = 1_000
"""Below it none is, however short the interval."""

GROWTH_FACTOR = 1.2
GROWN_BYTES_MIN = 16 * 2**20
"""State that is so large, and has grown by so much over the checkpoints that are remembered, grows."""

RECENT_MS = 600_000
"""A failure since then holds the job back; one before is history."""

SLOT_WAIT_MS = 5_000

_LIVE = (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING, JobStatus.RECONCILING)
"""Where tasks may wait for slots."""


def waits_for_slots(snapshot: JobSnapshot) -> Iterator[Finding]:
    waiting = [
        subtask
        for vertex in snapshot.details.vertices
        for subtask in vertex.subtasks
        if subtask.state in (ExecutionState.CREATED, ExecutionState.SCHEDULED)
    ]
    since_ms = max((max(s.timestamps_ms.values(), default=0) for s in waiting), default=0)
    if not waiting or snapshot.details.status not in _LIVE or snapshot.now_ms - since_ms < SLOT_WAIT_MS:
        return
    wanted = len({subtask.subtask for subtask in waiting})
    yield Finding(
        FindingKind.WAITS_FOR_SLOTS,
        Severity.HIGH,
        "tasks wait for slots",
        {
            "tasks that wait": len(waiting),
            "slots that they need": wanted,
            "free slots": snapshot.free_slots,
            "for": seconds_text(snapshot.now_ms - since_ms),
        },
        (
            "start TaskManagers: sqlstream taskmanager --join …, or sqlstream server --task-managers N",
            "submit the job with fewer subtasks: SET 'parallelism.default' = '…'",
        ),
    )


def failures(snapshot: JobSnapshot) -> Iterator[Finding]:
    """What the job has failed with, or is being restarted after; and the restarts before."""
    details = snapshot.details
    if details.error is not None:
        yield Finding(
            FindingKind.FAILURE,
            Severity.HIGH,
            f"the job has failed: {details.error.message}",
            {"code": details.error.code},
            _advice_on(details.error),
        )
    if not details.restarts:
        return
    latest = details.restarts[0]
    codes = Counter(restart.error.code for restart in details.restarts)
    ago_ms = snapshot.now_ms - latest.failed_ms
    is_recent = ago_ms < RECENT_MS or details.status is JobStatus.RESTARTING
    evidence: dict[str, int | float | str] = {
        "restarts": int(snapshot.metrics.total.get("numRestarts", len(details.restarts))),
        "the last ones by cause": ", ".join(f"{code} {times}×" for code, times in codes.most_common()),
        "last failure": f"{seconds_text(max(0, ago_ms))} ago",
        "of": latest.task or "no single task",
        "code": latest.error.code,
    }
    yield Finding(
        FindingKind.RESTARTS,
        Severity.HIGH if is_recent else Severity.LOW,
        f"the job was restarted after: {latest.error.message}",
        evidence,
        _advice_on(latest.error),
    )


def _advice_on(error: ErrorInfo) -> tuple[str, ...]:
    return (*((error.hint,) if error.hint else ()), f"sqlstream explain-error {error.code}")


_LATE = (
    "a job that is backpressured passes barriers slowly: see the findings on that",
    "SET 'execution.checkpointing.unaligned.enabled' = 'true', or a longer 'execution.checkpointing.timeout'",
)


def checkpoint_troubles(snapshot: JobSnapshot) -> Iterator[Finding]:
    """The newest checkpoint if it failed, and the newest completed one, or the one in progress, if that is slow."""
    found = snapshot.checkpoints
    failed, completed = found.latest_failed, found.latest_completed
    if failed is not None and (completed is None or failed.id > completed.id):
        yield Finding(
            FindingKind.CHECKPOINT_FAILED,
            Severity.HIGH,
            f"the newest checkpoint has failed: {remark_on(failed)}",
            {
                "checkpoint": failed.id,
                "failed of all": f"{found.counts.failed} of {found.counts.total}",
                **({"code": failed.error.code} if failed.error is not None else {}),
            },
            _LATE if failed.error is None or failed.error.code == "SS6201" else _advice_on(failed.error),
        )
    limit_ms = max(SLOW_MIN_MS, min(SLOW_MS, SLOW_SHARE * found.interval_ms or SLOW_MS))
    pending = next((r for r in found.history if r.status is CheckpointStatus.IN_PROGRESS), None)
    if pending is not None and snapshot.now_ms - pending.triggered_ms >= limit_ms:
        awaited = awaited_tasks(pending)
        yield Finding(
            FindingKind.CHECKPOINT_SLOW,
            Severity.HIGH,
            f"checkpoint {pending.id} is in progress for {seconds_text(snapshot.now_ms - pending.triggered_ms)}",
            {
                "waits for": ", ".join(awaited[:3]) + (", …" if len(awaited) > 3 else ""),
                "tasks": len(awaited),
            },
            ("SET 'execution.checkpointing.unaligned.enabled' = 'true' lets barriers pass waiting rows",),
        )
    elif completed is not None and completed.ended_ms - completed.triggered_ms >= limit_ms:
        yield _slow(snapshot, completed)


def _slow(snapshot: JobSnapshot, record: CheckpointRecord) -> Finding:
    took_ms = record.ended_ms - record.triggered_ms
    evidence: dict[str, int | float | str] = {
        "checkpoint": record.id,
        "took": seconds_text(took_ms),
        "interval": seconds_text(snapshot.checkpoints.interval_ms),
        "written": size_text(record.written_bytes),
    }
    last = max(
        ((v, s) for v in record.vertices for s in v.subtasks),
        key=lambda each: each[1].acknowledged_ms,
        default=None,
    )
    advice: tuple[str, ...] = ()
    if last is not None:
        vertex, subtask = last
        parts = _parts(record, subtask)
        evidence["last task"] = f"{vertex.name} ({subtask.subtask + 1}/{vertex.parallelism})"
        evidence |= {name: seconds_text(ms) for name, ms in parts.items()}
        evidence["it wrote"] = size_text(subtask.figures.written_bytes)
        evidence |= _late(record.vertices, subtask)
        advice = _ADVICE[max(parts, key=lambda name: parts[name])]
    return Finding(
        FindingKind.CHECKPOINT_SLOW,
        Severity.HIGH if took_ms >= snapshot.checkpoints.interval_ms else Severity.LOW,
        f"checkpoint {record.id} took {seconds_text(took_ms)}",
        evidence,
        advice,
        last[0].vertex_id if last is not None else "",
    )


_BARRIER, _ALIGNMENT, _SYNC, _ASYNC = (
    *("until its first barrier", "alignment"),
    *("no input taken", "writing beside its work"),
)
_PASS = ("SET 'execution.checkpointing.unaligned.enabled' = 'true' lets barriers pass waiting rows",)
_ADVICE = {
    _BARRIER: _PASS,
    _ALIGNMENT: _PASS,
    _SYNC: ("a smaller 'execution.batch-rows', or more subtasks, makes what one of them holds smaller",),
    _ASYNC: ("look at the store of 'execution.checkpointing.dir', or give the job more subtasks that write",),
}


def _parts(record: CheckpointRecord, subtask: SubtaskCheckpoint) -> dict[str, int]:
    figures = subtask.figures
    known_ms = figures.alignment_ms + figures.sync_ms + figures.async_ms
    return {
        _BARRIER: max(0, subtask.acknowledged_ms - record.triggered_ms - known_ms),
        _ALIGNMENT: figures.alignment_ms,
        _SYNC: figures.sync_ms,
        _ASYNC: figures.async_ms,
    }


def _late(vertices: tuple[VertexCheckpoint, ...], subtask: SubtaskCheckpoint) -> dict[str, int | float | str]:
    """Which producer's barrier came last."""
    if not subtask.figures.late_channels:
        return {}
    late = subtask.figures.late_channels[0]
    producer = next((v for v in vertices if v.vertex_id == late.vertex_id), None)
    name = (
        f"{producer.name} ({late.subtask + 1}/{producer.parallelism})" if producer is not None else "an input"
    )
    return {"latest barrier": f"{name}, {seconds_text(late.after_ms)} behind the first"}


def state_growth(snapshot: JobSnapshot) -> Iterator[Finding]:
    """State that grows from checkpoint to checkpoint, over those that are remembered."""
    completed = [r for r in snapshot.checkpoints.history if r.status is CheckpointStatus.COMPLETED]
    if len(completed) < 3:
        return
    newest, oldest = completed[0], completed[-1]
    passed_ms = newest.triggered_ms - oldest.triggered_ms
    grown = newest.state_bytes - oldest.state_bytes
    is_large = newest.state_bytes >= GROWN_BYTES_MIN
    if passed_ms <= 0 or not is_large or newest.state_bytes < GROWTH_FACTOR * oldest.state_bytes:
        return
    before = {v.vertex_id: _state_bytes(v) for v in oldest.vertices}
    vertex = max(newest.vertices, key=lambda v: _state_bytes(v) - before.get(v.vertex_id, 0))
    yield Finding(
        FindingKind.STATE_GROWTH,
        Severity.LOW,
        f'the state grows, most in "{vertex.name}"',
        {
            "state": f"{size_text(oldest.state_bytes)}, {seconds_text(passed_ms)} later {size_text(newest.state_bytes)}",
            "growth per hour": size_text(grown * 3_600_000 / passed_ms),
            "of that vertex": size_text(_state_bytes(vertex) - before.get(vertex.vertex_id, 0)),
        },
        (
            "SET 'table.exec.state.ttl' = '…' drops what no row has touched for so long",
            "windows and interval joins drop state by event time: see what holds the watermark",
        ),
        vertex.vertex_id,
    )


def _state_bytes(vertex: VertexCheckpoint) -> int:
    return sum(s.figures.state_bytes for s in vertex.subtasks)


def rows_lost(snapshot: JobSnapshot) -> Iterator[Finding]:
    for remark in lost_rows(snapshot.metrics, {}):
        advice = tuple(line.removeprefix("hint: ") for line in remark.more)
        yield Finding(FindingKind.ROWS_LOST, Severity.LOW, remark.text, {}, advice)
