"""Attempts of subtasks: their ids, times and states."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqlstream.errors import InternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState as State
from sqlstream.runtime.jobmanager.execution_graph import Execution, ExecutionGraph, vertex_state
from sqlstream.runtime.story import Story

MakeJob = Callable[..., JobGraph]


def test_every_subtask_has_a_first_attempt_whose_id_says_where_it_belongs(make_job: MakeJob) -> None:
    graph = ExecutionGraph(make_job("j", 2, 1), 7, Story())
    assert [(e.execution_id, e.attempt, e.state) for e in graph.executions()] == [
        ("j-0-0-0", 0, State.CREATED),
        ("j-0-1-0", 0, State.CREATED),
        ("j-1-0-0", 0, State.CREATED),
    ]
    assert [e.timestamps_ms for e in graph.executions()] == [{"CREATED": 7}] * 3
    assert [graph.find(e.execution_id) for e in graph.executions()] == list(graph.subtasks())
    assert [(s.vertex.name, s.subtask) for s in graph.subtasks()] == [("bids", 0), ("bids", 1), ("out", 0)]
    assert graph.find("j-0-0-1") is None


def test_a_change_of_state_is_timed_and_told_and_an_illegal_one_is_refused() -> None:
    story = Story()
    execution = Execution("e", 0, 5, story)
    execution.transition(State.SCHEDULED, 6)
    assert (execution.state, execution.timestamps_ms) == (State.SCHEDULED, {"CREATED": 5, "SCHEDULED": 6})
    with pytest.raises(InternalError, match="execution e cannot go from SCHEDULED to FINISHED"):
        execution.transition(State.FINISHED, 7)
    assert execution.state is State.SCHEDULED
    assert story.lines() == ("6 e CREATED -> SCHEDULED",)


def test_a_report_is_followed_through_the_states_between_and_never_beyond_an_end() -> None:
    execution = Execution("e", 0, 0, Story())
    for state in (State.SCHEDULED, State.DEPLOYING):
        execution.transition(state, 1)
    execution.follow(State.RUNNING, 2)
    assert (execution.timestamps_ms["INITIALIZING"], execution.timestamps_ms["RUNNING"]) == (2, 2)
    execution.follow(State.RUNNING, 3)
    assert execution.timestamps_ms["RUNNING"] == 2
    execution.follow(State.FINISHED, 4)
    execution.follow(State.RUNNING, 5)
    execution.follow(State.FAILED, 5)
    assert (execution.state, execution.is_terminal) == (State.FINISHED, True)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((State.RUNNING, State.FINISHED), State.RUNNING),
        ((State.RUNNING, State.DEPLOYING), State.DEPLOYING),
        ((State.INITIALIZING, State.RUNNING), State.INITIALIZING),
        ((State.FINISHED, State.FINISHED), State.FINISHED),
        ((State.CANCELING, State.FAILED), State.FAILED),
        ((State.CANCELED, State.CANCELING), State.CANCELING),
        ((State.FINISHED, State.CANCELED), State.CANCELED),
        ((State.SCHEDULED, State.CREATED), State.CREATED),
    ],
)
def test_a_vertex_has_the_worst_state_or_the_least_advanced_of_its_subtasks(
    make_job: MakeJob, states: tuple[State, State], expected: State
) -> None:
    graph = ExecutionGraph(make_job("j", 2, 1), 0, Story())
    subtasks = graph.vertices[make_job("j").vertices[0].id]
    for subtask, state in zip(subtasks, states, strict=True):
        subtask.execution.state = state
    assert vertex_state(subtasks) is expected


def test_all_subtasks_count_when_a_graph_has_ended(make_job: MakeJob) -> None:
    graph = ExecutionGraph(make_job("j", 1, 1), 0, Story())
    first, second = graph.executions()
    first.state = State.FINISHED
    assert (graph.are_all(State.FINISHED), graph.are_all_terminal()) == (False, False)
    second.state = State.CANCELED
    assert (graph.are_all(State.FINISHED), graph.are_all_terminal()) == (False, True)
    second.state = State.FINISHED
    assert (graph.are_all(State.FINISHED), graph.are_all_terminal()) == (True, True)
