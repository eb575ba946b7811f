"""SHOW JOBS, DESCRIBE JOB and STOP JOB: statements about the jobs of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.dialect.statements import DescribeJob, Show, ShowKind, Statement, StopJob
from sqlstream import types as sql
from sqlstream.errors import UserError
from sqlstream.schema import Schema

if TYPE_CHECKING:
    from client.cluster_client import ClusterClient
    from client.session import Rows
    from sqlstream.errors import Span
    from sqlstream.messages.rpc import JobOverviewEntry

JOBS = Schema.of(
    ("job id", sql.STRING),
    ("job name", sql.STRING),
    ("status", sql.STRING),
    ("start time", sql.timestamp_ltz(3)),
)
_NS_PER_MS = 1_000_000


def is_job_statement(statement: Statement) -> bool:
    return isinstance(statement, DescribeJob | StopJob) or (
        isinstance(statement, Show) and statement.kind is ShowKind.JOBS
    )


def execute_job_statement(statement: Statement, cluster: ClusterClient) -> Rows:
    """The jobs with Flink's columns, or one of them, or OK once a job is being cancelled. UserError SS6009 for an unknown job."""
    from client.session import Rows, literal_batches

    match statement:
        case StopJob(job_id=job_id):
            known_job(job_id, statement.id_span, cluster)
            cluster.cancel(job_id)
            schema = Schema.of(("result", sql.STRING))
            done = f'job "{job_id}" is being cancelled'
            return Rows(schema, literal_batches(schema, (("OK",),)), done=done)
        case DescribeJob(job_id=job_id):
            jobs: tuple[JobOverviewEntry, ...] = (known_job(job_id, statement.id_span, cluster),)
        case _:
            jobs = cluster.jobs()
    rows = tuple((job.job_id, job.name, job.status.value, job.start_ms * _NS_PER_MS) for job in jobs)
    return Rows(JOBS, literal_batches(JOBS, rows))


def known_job(job_id: str, span: Span, cluster: ClusterClient) -> JobOverviewEntry:
    """UserError SS6009 when the cluster has no such job."""
    for job in cluster.jobs():
        if job.job_id == job_id:
            return job
    hint = "list the jobs that are: SHOW JOBS"
    raise UserError("SS6009", f'job "{job_id}" is not known', span=span, hint=hint)
