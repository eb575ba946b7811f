"""What holds of a job after every step of its JobMaster."""

from __future__ import annotations

from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import ExecutionState, JobStatus
from sqlstream.runtime.jobmanager.checkpoints.job_checkpoints import JobCheckpoints
from sqlstream.runtime.jobmanager.execution_graph import ExecutionGraph, ExecutionVertex
from sqlstream.runtime.jobmanager.job_phase import ACTIVE, JobPhase, status_in
from sqlstream.runtime.jobmanager.pipelined_region import PipelinedRegion, RegionPhase
from sqlstream.runtime.jobmanager.sink_commits import SinkCommits
from sqlstream.spi.committable import LAST_CHECKPOINT_ID

_AFTER_THE_TASKS = (JobPhase.COMMITTING, JobPhase.CLEANING_UP, JobPhase.ABORTING)
_SUCCESSFUL = (JobPhase.COMMITTING, JobPhase.CLEANING_UP, JobPhase.FINISHED)
_UNPLACED = (ExecutionState.CREATED, ExecutionState.SCHEDULED)


def broken_rule(
    phase: JobPhase,
    status: JobStatus,
    error: ErrorInfo | None,
    graph: ExecutionGraph,
    regions: tuple[PipelinedRegion, ...],
    is_stopped: bool = False,
) -> str:
    """The first rule that does not hold, as the end of a sentence about the job; empty when all hold. `is_stopped`: the job ends
    with a savepoint, and not with its tasks."""
    if status_in(phase, status) is not status:
        return f"is {phase.value} and shows {status.value}"
    if (status.is_globally_terminal or phase in _AFTER_THE_TASKS) and not graph.are_all_terminal():
        return f"is {phase.value} before its tasks have ended"
    if phase in _SUCCESSFUL and not is_stopped and not graph.are_all(ExecutionState.FINISHED):
        return f"is {phase.value} without all of its tasks"
    if phase is JobPhase.FAILED and error is None:
        return "failed without a cause"
    for subtask in graph.subtasks():
        if problem := _broken_rule_of_attempts(subtask):
            return problem
    if phase in ACTIVE:
        for region in regions:
            if problem := _broken_rule_of_region(region):
                return problem
    return ""


def broken_rule_of_checkpoints(checkpoints: JobCheckpoints, commits: SinkCommits) -> str:
    """As `broken_rule`, of the job's checkpoints and their commits."""
    coordinator, newest = checkpoints.coordinator, checkpoints.completed.newest
    if newest is not None and newest.checkpoint_id > coordinator.newest_completed_id:
        return f"would go on from {newest.checkpoint_id}, which is not complete"
    if len(coordinator.pending) > coordinator.settings.concurrent_max:
        return f"has {len(coordinator.pending)} checkpoints in progress"
    if any(p.checkpoint_id <= coordinator.newest_completed_id for p in coordinator.pending.values()):
        return "awaits a checkpoint that is older than a completed one"
    early = [n for n in commits.open if coordinator.newest_completed_id < n < LAST_CHECKPOINT_ID]
    if early and not coordinator.history.counts.completed:
        return f"commits {early[0]}, which is not complete"
    return ""


def _broken_rule_of_attempts(subtask: ExecutionVertex) -> str:
    alive = [e for e in subtask.earlier if not e.is_terminal]
    if alive:
        return f"replaced {alive[0].execution_id} before it had ended"
    attempts = [e.attempt for e in (*subtask.earlier, subtask.execution)]
    if attempts != list(range(attempts[0], attempts[0] + len(attempts))):
        return f"has attempts {attempts} of one subtask"
    return ""


def _broken_rule_of_region(region: PipelinedRegion) -> str:
    states = {s.execution.state for s in region.subtasks}
    is_possible = {
        RegionPhase.WAITING: states == {ExecutionState.SCHEDULED},
        RegionPhase.DEPLOYED: states.isdisjoint(_UNPLACED),
        RegionPhase.STOPPING: all(state.is_terminal or state is ExecutionState.CANCELING for state in states),
        RegionPhase.DELAYED: all(state.is_terminal for state in states),
        RegionPhase.FINISHED: states == {ExecutionState.FINISHED},
    }[region.phase]
    if is_possible:
        return ""
    return f"has a region that is {region.phase.value} with tasks {sorted(s.value for s in states)}"
