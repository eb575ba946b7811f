"""The transition table of executions."""

from __future__ import annotations

import itertools

import pytest

from sqlstream.errors import InternalError
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.jobmanager.execution_graph import (
    EXECUTION_TRANSITIONS,
    check_execution_transition,
    steps_to,
)
from sqlstream.runtime.story import Story


def test_every_state_has_a_row_and_only_final_states_have_no_way_out() -> None:
    assert set(EXECUTION_TRANSITIONS) == set(ExecutionState)
    assert {s for s, next_ in EXECUTION_TRANSITIONS.items() if not next_} == {
        s for s in ExecutionState if s.is_terminal
    }


def test_an_arrow_that_is_not_in_the_diagram_raises_with_the_story() -> None:
    story = Story()
    story.add(5, "something happened")
    with pytest.raises(InternalError, match="from CREATED to RUNNING") as caught:
        check_execution_transition(ExecutionState.CREATED, ExecutionState.RUNNING, "e1", story)
    assert caught.value.story == ("5 something happened",)


def test_every_report_of_a_deployed_task_is_reached_by_legal_steps() -> None:
    deployed = (
        ExecutionState.DEPLOYING,
        ExecutionState.INITIALIZING,
        ExecutionState.RUNNING,
        ExecutionState.CANCELING,
    )
    reported = (
        ExecutionState.INITIALIZING,
        ExecutionState.RUNNING,
        *(s for s in ExecutionState if s.is_terminal),
    )
    for current, report in itertools.product(deployed, reported):
        state = current
        for step in steps_to(current, report):
            check_execution_transition(state, step, "e1", Story())
            state = step
        assert state.is_terminal == report.is_terminal
