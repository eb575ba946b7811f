"""What no job may ever be is found, and said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState as State
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionGraph
from sqlstream.runtime.jobmanager.job_master import broken_rule
from sqlstream.runtime.jobmanager.job_phase import JobPhase
from sqlstream.runtime.jobmanager.job_regions import PipelinedRegion, RegionPhase, regions_of
from sqlstream.runtime.story import Story

MakeJob = Callable[..., JobGraph]
CAUSE = ErrorInfo(code="SS5002", message="bad row", reason=FailureReason.OPERATOR_FAILED)


def graph_in(make_job: MakeJob, *states: State) -> ExecutionGraph:
    """A source and a sink in these states."""
    graph = ExecutionGraph(make_job("j1", 1, 1), 0, Story())
    for execution, state in zip(graph.executions(), states, strict=True):
        execution.state = state
    return graph


def rule_of(phase: JobPhase, status: JobStatus, graph: ExecutionGraph, error: ErrorInfo | None = None) -> str:
    return broken_rule(phase, status, error, graph, ())


@pytest.mark.parametrize(
    ("phase", "status", "states", "broken"),
    [
        (JobPhase.RUNNING, JobStatus.RUNNING, (State.RUNNING, State.FINISHED), ""),
        (JobPhase.RUNNING, JobStatus.CREATED, (State.RUNNING, State.RUNNING), "is RUNNING and shows CREATED"),
        (JobPhase.FINISHED, JobStatus.FINISHED, (State.FINISHED, State.FINISHED), ""),
        (
            JobPhase.COMMITTING,
            JobStatus.RUNNING,
            (State.FINISHED, State.RUNNING),
            "is COMMITTING before its tasks have ended",
        ),
        (
            JobPhase.FINISHED,
            JobStatus.FINISHED,
            (State.FINISHED, State.CANCELED),
            "is FINISHED without all of its tasks",
        ),
        (
            JobPhase.CANCELED,
            JobStatus.CANCELED,
            (State.CANCELING, State.CANCELED),
            "is CANCELED before its tasks have ended",
        ),
        (JobPhase.FAILED, JobStatus.FAILED, (State.FAILED, State.CANCELED), "failed without a cause"),
    ],
)
def test_a_job_is_what_its_tasks_are(
    make_job: MakeJob, phase: JobPhase, status: JobStatus, states: tuple[State, State], broken: str
) -> None:
    assert rule_of(phase, status, graph_in(make_job, *states)) == broken
    if phase is JobPhase.FAILED:
        assert rule_of(phase, status, graph_in(make_job, *states), CAUSE) == ""


def test_attempts_of_a_subtask_follow_each_other_and_only_the_last_may_live(make_job: MakeJob) -> None:
    graph = graph_in(make_job, State.RUNNING, State.RUNNING)
    subtask = graph.subtasks()[0]
    earlier = Execution("e0", 0, 0, Story())
    subtask.earlier.append(earlier)
    subtask.execution.attempt = 1
    assert rule_of(JobPhase.RUNNING, JobStatus.RUNNING, graph) == "replaced e0 before it had ended"
    earlier.state = State.FAILED
    assert rule_of(JobPhase.RUNNING, JobStatus.RUNNING, graph) == ""
    subtask.execution.attempt = 2
    assert rule_of(JobPhase.RUNNING, JobStatus.RUNNING, graph) == "has attempts [0, 2] of one subtask"


@pytest.mark.parametrize(
    ("phase", "possible", "impossible"),
    [
        (RegionPhase.WAITING, [(State.SCHEDULED, State.SCHEDULED)], [(State.SCHEDULED, State.DEPLOYING)]),
        (
            RegionPhase.DEPLOYED,
            [(State.DEPLOYING, State.FINISHED)],
            [(State.RUNNING, State.SCHEDULED), (State.CREATED, State.RUNNING)],
        ),
        (
            RegionPhase.STOPPING,
            [(State.FAILED, State.CANCELING), (State.FAILED, State.CANCELED)],
            [(State.FAILED, State.RUNNING)],
        ),
        (RegionPhase.DELAYED, [(State.FAILED, State.CANCELED)], [(State.FAILED, State.CANCELING)]),
        (RegionPhase.FINISHED, [(State.FINISHED, State.FINISHED)], [(State.FINISHED, State.CANCELED)]),
    ],
)
def test_a_region_is_where_its_tasks_are(
    make_job: MakeJob,
    phase: RegionPhase,
    possible: list[tuple[State, State]],
    impossible: list[tuple[State, State]],
) -> None:
    for states in (*possible, *impossible):
        graph = graph_in(make_job, *states)
        (region,) = regions_of(graph)
        region.phase = phase
        found = broken_rule(JobPhase.RUNNING, JobStatus.RUNNING, None, graph, (region,))
        named = f"has a region that is {phase.value} with tasks {sorted(s.value for s in states)}"
        assert found == ("" if states in possible else named)
        # A job that no longer starts tasks has no use for its regions.
        assert broken_rule(JobPhase.FAILING, JobStatus.FAILING, None, graph, (region,)) == ""


def test_a_region_under_restart_is_one_that_stops_or_waits_for_it(make_job: MakeJob) -> None:
    region = PipelinedRegion(tuple(graph_in(make_job, State.FAILED, State.RUNNING).subtasks()))
    under = []
    for phase in RegionPhase:
        region.phase = phase
        if region.is_under_restart:
            under.append(phase)
    assert under == [RegionPhase.STOPPING, RegionPhase.DELAYED]
    assert not region.are_all_terminal()
    assert not region.are_all(State.RUNNING)
