"""Whether a job can be taken to another parallelism at all, and whether it is one that was."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import ChainedOperator, JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.checkpoints.awaited_executions import awaited_executions, obstacle
from sqlstream.runtime.jobmanager.job_master import JobMaster
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase

_OF_PARALLELISM = ("parallelism.default", "table.exec.resource.default-parallelism")
"""The settings that a rescale changes."""


def is_one_job(one: JobGraph, other: JobGraph) -> bool:
    """Whether the graphs are equal, or would be at one parallelism."""
    if one == other:
        return True
    if one.scaling is None or other.scaling is None:
        return False
    return (
        (one.job_id, one.name, one.scaling.nodes) == (other.job_id, other.name, other.scaling.nodes)
        and _unchained(one) == _unchained(other)
        and _settings(one) == _settings(other)
    )


def _unchained(job: JobGraph) -> dict[int, tuple[ChainedOperator, int]]:
    """Which operators are in one vertex depends on the parallelism."""
    return {o.id: (replace(o, input=0), v.max_parallelism) for v in job.vertices for o in v.operators}


def _settings(job: JobGraph) -> dict[str, str]:
    return {key: value for key, value in job.config.items() if key not in _OF_PARALLELISM}


def check_can_be_rescaled(master: JobMaster, job_graph: JobGraph) -> None:
    """UserError SS6232 when the job, as it is now, cannot go on with this graph."""
    present = master.job_graph
    if _operators(job_graph) != _operators(present):
        raise UserError(
            "SS6008",
            f'job "{master.job_id}" has other operators',
            hint="rescale the job that has this id now",
        )
    if present.is_query:
        raise not_rescaled(
            master.job_id,
            "sends its rows to a client, and cannot go on from a checkpoint",
            "only jobs of INSERT are rescaled",
        )
    if present.is_batch:
        raise not_rescaled(
            master.job_id, "is one of a batch engine", "only streaming jobs are rescaled: see runtime-mode"
        )
    if master.rescaling.is_under_way:
        raise not_rescaled(master.job_id, "is being rescaled", "rescale it again once its tasks run")
    if master.phase is not JobPhase.RUNNING:
        raise _not_running(master)
    if not master.checkpoints.settings.directory:
        raise not_rescaled(
            master.job_id,
            "has no directory for the checkpoint from which it would go on",
            "SET 'execution.checkpointing.dir' before the job is started",
        )
    if awaited_executions(master.graph) is None:
        cause, hint = obstacle(master.graph)
        raise not_rescaled(
            master.job_id, f"has finished in part, so that it can take no checkpoint: {cause}", hint
        )


def _not_running(master: JobMaster) -> UserError:
    if master.phase not in ACTIVE | {JobPhase.STORING, JobPhase.CREATED}:
        status = master.status
        return not_rescaled(
            master.job_id, "is ending" if status is JobStatus.RUNNING else f"is {status.value}"
        )
    is_restarting = master.phase is JobPhase.RESTARTING
    return not_rescaled(
        master.job_id,
        "is RESTARTING" if is_restarting else "is starting",
        f"rescale it again once all of its tasks run: sqlstream job {master.job_id}",
    )


def _operators(job: JobGraph) -> dict[int, tuple[str, int]]:
    return {o.id: (o.uid, v.max_parallelism) for v in job.vertices for o in v.operators}


def not_rescaled(
    job_id: str, why: str, hint: str = "jobs that run are rescaled: sqlstream jobs"
) -> UserError:
    return UserError("SS6232", f'job "{job_id}" {why}', hint=hint)
