"""The phases of a job against Flink's job statuses."""

from __future__ import annotations

import pytest

from sqlstream.errors import InternalError
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.job_master import TRANSITIONS
from sqlstream.runtime.jobmanager.job_phase import (
    PHASE_TRANSITIONS,
    JobPhase,
    JobProgress,
    check_phase_transition,
    status_in,
)
from sqlstream.runtime.story import Story

J = JobStatus
TERMINAL = {JobPhase.FINISHED, JobPhase.FAILED, JobPhase.CANCELED, JobPhase.SUSPENDED}
OF_FLINK = {
    J.INITIALIZING: {J.CREATED, J.CANCELLING, J.FAILED, J.SUSPENDED},
    J.CREATED: {J.RUNNING, J.FAILING, J.CANCELLING, J.SUSPENDED},
    J.RUNNING: {J.FINISHED, J.FAILING, J.CANCELLING, J.RESTARTING, J.SUSPENDED},
    J.FAILING: {J.FAILED, J.RESTARTING, J.CANCELLING, J.SUSPENDED},
    J.RESTARTING: {J.RUNNING, J.FAILING, J.CANCELLING, J.SUSPENDED},
    J.CANCELLING: {J.CANCELED, J.FAILING, J.SUSPENDED},
}
"""Flink's JobStatus diagram."""


def test_every_phase_has_rows_and_only_final_ones_have_no_way_out() -> None:
    assert set(PHASE_TRANSITIONS) == set(TRANSITIONS) == set(JobPhase)
    assert {p for p, targets in PHASE_TRANSITIONS.items() if not targets} == TERMINAL
    assert {p for p, handlers in TRANSITIONS.items() if not handlers} == TERMINAL | {JobPhase.CREATED}


@pytest.mark.parametrize("phase", [p for p in JobPhase if p is not JobPhase.ABORTING])
def test_what_clients_see_follows_flinks_diagram(phase: JobPhase) -> None:
    before = status_in(phase, J.FAILING)
    for target in PHASE_TRANSITIONS[phase]:
        seen = status_in(target, before)
        assert seen is before or seen in OF_FLINK[before], f"{phase} -> {target}"


def statuses(is_recovered: bool, *phases: JobPhase) -> list[JobStatus]:
    progress = JobProgress("j1", Story(), 0, is_recovered)
    seen = [progress.status]
    for phase in phases:
        progress.transition(phase, 1)
        seen.append(progress.status)
    return seen


def test_a_job_of_an_earlier_jobmanager_is_reconciling_until_all_its_tasks_run_again() -> None:
    p = JobPhase
    start = (p.CREATED, p.SCHEDULING, p.DEPLOYING)
    before = [J.INITIALIZING, J.CREATED, J.RECONCILING, J.RECONCILING]
    later = (p.RUNNING, p.RESTARTING, p.SCHEDULING, p.DEPLOYING)
    again = [J.RUNNING, J.RESTARTING, J.RUNNING, J.RUNNING]
    assert statuses(True, *start, *later) == before + again
    # A restart that begins meanwhile is one of this JobManager.
    assert statuses(True, *start, p.RESTARTING, p.DEPLOYING) == [*before, J.RESTARTING, J.RUNNING]
    assert J.RECONCILING not in statuses(False, *start, *later)


@pytest.mark.parametrize("status", [J.FAILING, J.CANCELLING])
def test_a_job_that_aborts_its_sinks_shows_why(status: JobStatus) -> None:
    assert status_in(JobPhase.ABORTING, status) is status


def test_an_arrow_that_is_not_in_the_diagram_raises_with_the_story() -> None:
    story = Story()
    story.add(5, "something happened")
    with pytest.raises(InternalError, match="job j1 cannot go from FINISHED to RUNNING") as caught:
        check_phase_transition(JobPhase.FINISHED, JobPhase.RUNNING, "j1", story)
    assert caught.value.story == ("5 something happened",)
