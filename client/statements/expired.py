"""Which jobs keep the expired rows of a table, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlstream.client.statements.jobs import unless_forgotten
from sqlstream.errors import UserError
from sqlstream.expired_rows import RETENTION, KeptPlace
from sqlstream.messages.job_state import JobStatus

if TYPE_CHECKING:
    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.graph.job_graph import JobGraph


def expired_places(name: str, identity: str, cluster: ClusterClient) -> tuple[KeptPlace, ...]:
    """The last checkpoint or savepoint of each job that runs and keeps expired rows of the table with this identity; none of one
    that has no checkpoint yet. UserError SS3570 where no job keeps any, or none of them takes checkpoints."""
    keeping = [
        job.job_id
        for job in cluster.jobs()
        if not _ends(job.status) and _keeps(unless_forgotten(cluster.job_graph, job.job_id), identity)
    ]
    if not keeping:
        raise UserError(
            "SS3570",
            f'no job that runs keeps expired rows of table "{name}"',
            detail="a job keeps them from its start on, of the operators that drop them because of a time to live",
            hint=f"SET '{RETENTION}' = '1 h' before the job is started",
        )
    found = []
    takes_none = []
    for job_id in keeping:
        statistics = unless_forgotten(cluster.checkpoints, job_id)
        if statistics is None:
            continue
        latest = [statistics.latest_completed, statistics.latest_savepoint]
        done = [record for record in latest if record is not None and record.path and not record.is_discarded]
        if done:
            found.append(KeptPlace(job_id, max(done, key=lambda record: record.id).path))
        elif not statistics.interval_ms:
            takes_none.append(job_id)
    if takes_none and not found:
        raise UserError(
            "SS3570",
            f'the expired rows of table "{name}" are read out of checkpoints, and job "{takes_none[0]}" takes none',
            hint="SET 'execution.checkpointing.interval' = '10 s' before the job is started",
        )
    return tuple(found)


def _ends(status: JobStatus) -> bool:
    """Whether its checkpoints are removed, or about to be."""
    return status.is_terminal or status is JobStatus.CANCELLING


def _keeps(graph: JobGraph | None, identity: str) -> bool:
    vertices = graph.vertices if graph is not None else ()
    states = (o.state for v in vertices for o in v.operators if o.state is not None)
    return any(identity in kept.tables for state in states for kept in state.expired)
