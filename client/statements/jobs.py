"""Statements about the jobs of the cluster: SHOW JOBS, SHOW CHECKPOINTS, SHOW LEDGER, DESCRIBE JOB, DIAGNOSE JOB and STOP JOB."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from sqlstream import types as sql
from sqlstream.cancellation import check_not_given_up
from sqlstream.client.following.checkpoint_text import remark_on, restored_remark
from sqlstream.client.following.lost_rows import restart_text
from sqlstream.effects import Effects
from sqlstream.errors import ExternalError, UserError
from sqlstream.messages.client_rpc import StopWithSavepoint
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.ledger import LEDGER_PARTS, balance_text, difference_text, side_difference_text
from sqlstream.planner.dialect.statements import (
    DescribeJob,
    DiagnoseJob,
    Show,
    ShowCheckpoints,
    ShowKind,
    ShowLedger,
    Statement,
    StopJob,
)
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.client.sessions.outcomes import Rows, Text
    from sqlstream.client.sessions.planning import PlanningSession
    from sqlstream.errors import Span
    from sqlstream.messages.checkpoint_statistics import CheckpointRecord, RestoredCheckpoint
    from sqlstream.messages.rpc import JobOverviewEntry

Answer = TypeVar("Answer")

JOBS = Schema.of(
    ("job id", sql.STRING),
    ("job name", sql.STRING),
    ("status", sql.STRING),
    ("start time", sql.timestamp_ltz(3)),
    ("remark", sql.STRING),
)
CHECKPOINTS = Schema.of(
    ("job id", sql.STRING),
    ("id", sql.BIGINT),
    ("type", sql.STRING),
    ("status", sql.STRING),
    ("trigger time", sql.timestamp_ltz(3)),
    ("duration ms", sql.BIGINT),
    ("state bytes", sql.BIGINT),
    ("written bytes", sql.BIGINT),
    ("path", sql.STRING),
    ("remark", sql.STRING),
)
LEDGER = Schema.of(
    ("job id", sql.STRING),
    ("checkpoint", sql.BIGINT),
    ("operator", sql.STRING),
    ("rows in", sql.BIGINT),
    ("rows out", sql.BIGINT),
    *((name, sql.BIGINT) for name in LEDGER_PARTS),
    ("remark", sql.STRING),
)
SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"
STATUS_INTERVAL_S = 0.05
END_TIMEOUT_S = 60.0
"""How long a job may take to commit what its savepoint covers."""

_NS_PER_MS = 1_000_000


def is_job_statement(statement: Statement) -> bool:
    return isinstance(statement, DescribeJob | DiagnoseJob | StopJob | ShowCheckpoints | ShowLedger) or (
        isinstance(statement, Show) and statement.kind is ShowKind.JOBS
    )


def execute_job_statement(statement: Statement, session: PlanningSession) -> Rows | Text:
    """The jobs, or one of them; their checkpoints; what became of their rows; what holds one back; or how one was stopped.
    UserError SS6009 for an
    unknown job, SS2037 where the session's permit does not let jobs be stopped."""
    from sqlstream.client.sessions.outcomes import Rows, Text, literal_batches

    cluster = session.cluster
    match statement:
        case DiagnoseJob():
            from sqlstream.client.diagnosis.diagnose import diagnose_job
            from sqlstream.client.diagnosis.state_growth import explain_job_state

            known_job(statement.job_id, statement.id_span, cluster)
            if statement.is_of_state:
                return Text(explain_job_state(cluster, statement.job_id, session.config))
            return Text(diagnose_job(cluster, statement.job_id).text)
        case StopJob():
            session.permit.require(Effects(jobs=frozenset({statement.job_id})), statement.id_span)
            return _stop(statement, cluster, session.config)
        case ShowCheckpoints():
            rows = _checkpoint_rows(statement, cluster)
            return Rows(CHECKPOINTS, literal_batches(CHECKPOINTS, rows))
        case ShowLedger():
            return Rows(LEDGER, literal_batches(LEDGER, _ledger_rows(statement, cluster)))
        case DescribeJob(job_id=job_id):
            jobs: tuple[JobOverviewEntry, ...] = (known_job(job_id, statement.id_span, cluster),)
        case _:
            jobs = cluster.jobs()
    return Rows(JOBS, literal_batches(JOBS, tuple(_job_row(job, cluster) for job in jobs)))


def _job_row(job: JobOverviewEntry, cluster: ClusterClient) -> tuple[object, ...]:
    """Flink's columns, and of a job that restarts, when it failed and why."""
    remark = None
    if job.status is JobStatus.RESTARTING:
        details = unless_forgotten(cluster.details, job.job_id)
        remark = restart_text(details.restarts[0]).strip() if details and details.restarts else None
    return (job.job_id, job.name, job.status.value, job.start_ms * _NS_PER_MS, remark)


def _stop(statement: StopJob, cluster: ClusterClient, config: Mapping[str, str]) -> Rows:
    """OK once the job is being cancelled, or the path of the savepoint with which it has ended."""
    from sqlstream.client.sessions.outcomes import Rows, literal_batches
    from sqlstream.runtime.checkpoint.places import with_absolute_places

    job_id = statement.job_id
    known_job(job_id, statement.id_span, cluster)
    if statement.has_savepoint:
        directory = with_absolute_places(config).get(SAVEPOINT_DIRECTORY, "")
        path = stop_with_savepoint(cluster, job_id, directory, statement.is_drained)
        schema = Schema.of(("savepoint path", sql.STRING))
        return Rows(schema, literal_batches(schema, ((path,),)))
    cluster.cancel(job_id)
    schema = Schema.of(("result", sql.STRING))
    done = f'job "{job_id}" is being cancelled'
    return Rows(schema, literal_batches(schema, (("OK",),)), done=done)


def stop_with_savepoint(cluster: ClusterClient, job_id: str, directory: str, is_drain: bool) -> str:
    """Wait for the end of the job; returns the path of its savepoint. The error of a savepoint that failed: the job runs on.
    ExternalError SS6214 when a complete savepoint does not end the job."""
    trigger_id = secrets.token_hex(16)
    cluster.take_savepoint(StopWithSavepoint(job_id, trigger_id, directory, is_drain))
    path = awaited_savepoint(cluster, job_id, trigger_id, gives_up=False)
    try:
        end = cluster.wait(job_id, END_TIMEOUT_S)
    except TimeoutError as error:
        raise ExternalError(
            "SS6214", f'the savepoint {path} is complete, but job "{job_id}" does not end'
        ) from error
    if end.error is not None:
        raise end.error.to_error()
    return path


def awaited_savepoint(cluster: ClusterClient, job_id: str, trigger_id: str, *, gives_up: bool = True) -> str:
    """Wait for a checkpoint or savepoint; returns its path, or raises its error. `gives_up`: the statement can be cancelled."""
    while not (status := cluster.savepoint_status(job_id, trigger_id)).is_done:
        if gives_up:
            check_not_given_up()
        time.sleep(STATUS_INTERVAL_S)
    if status.error is not None:
        raise status.error.to_error()
    return status.path


def _checkpoint_rows(statement: ShowCheckpoints, cluster: ClusterClient) -> tuple[tuple[object, ...], ...]:
    """The remembered checkpoints of one job or of all, newest first within a job."""
    rows: list[tuple[object, ...]] = []
    for job in _jobs_of(statement, cluster):
        found = unless_forgotten(cluster.checkpoints, job.job_id)
        if found is not None:
            rows += (_checkpoint_row(job.job_id, record, found.latest_restored) for record in found.history)
    return tuple(rows)


def _jobs_of(statement: ShowCheckpoints | ShowLedger, cluster: ClusterClient) -> tuple[JobOverviewEntry, ...]:
    if statement.job_id:
        assert statement.id_span is not None
        return (known_job(statement.job_id, statement.id_span, cluster),)
    return cluster.jobs()


def _ledger_rows(statement: ShowLedger, cluster: ClusterClient) -> tuple[tuple[object, ...], ...]:
    """The operators of one job or of all, in the order of the plan."""
    rows: list[tuple[object, ...]] = []
    for job in _jobs_of(statement, cluster):
        found = unless_forgotten(cluster.checkpoints, job.job_id)
        ledger = found.ledger if found is not None else None
        for entry in ledger.entries if ledger is not None else ():
            assert ledger is not None
            parts = (entry.parts.get(name, 0) for name in LEDGER_PARTS)
            remark = difference_text(entry) or balance_text(entry)
            at = ledger.checkpoint_id or None
            rows.append((job.job_id, at, entry.name, entry.rows_in, entry.rows_out, *parts, remark or None))
            for side in entry.sides:
                parts = (side.parts.get(name, 0) for name in LEDGER_PARTS)
                remark = side_difference_text(side) or balance_text(side)
                rows.append((job.job_id, at, f"{entry.name} {side.name}", side.rows_in, None, *parts, remark))
    return tuple(rows)


def _checkpoint_row(
    job_id: str, record: CheckpointRecord, restored: RestoredCheckpoint | None
) -> tuple[object, ...]:
    remarks = [remark_on(record)]
    if restored is not None and restored.id == record.id:
        remarks.append(restored_remark(restored))
    return (
        job_id,
        record.id,
        record.kind.value,
        record.status.value,
        record.triggered_ms * _NS_PER_MS,
        record.ended_ms - record.triggered_ms if record.ended_ms >= 0 else None,
        record.state_bytes,
        record.written_bytes,
        None if record.is_discarded else record.path or None,
        ", ".join(filter(None, remarks)) or None,
    )


def unless_forgotten(ask: Callable[[str], Answer], job_id: str) -> Answer | None:
    """What the cluster answers about a job that it has listed; None where it has ended since, and is not remembered."""
    try:
        return ask(job_id)
    except UserError as error:
        if error.code != "SS6009":
            raise
        return None


def known_job(job_id: str, span: Span, cluster: ClusterClient) -> JobOverviewEntry:
    """UserError SS6009 when the cluster has no such job."""
    for job in cluster.jobs():
        if job.job_id == job_id:
            return job
    hint = "list the jobs that are: SHOW JOBS"
    raise UserError("SS6009", f'job "{job_id}" is not known', span=span, hint=hint)
