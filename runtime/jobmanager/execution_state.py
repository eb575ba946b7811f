"""Checks the transitions of an execution against the diagram in `sqlstream.messages.job_state`."""

from __future__ import annotations

from sqlstream.errors import InternalError
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.story import Story

_E = ExecutionState

EXECUTION_TRANSITIONS: dict[ExecutionState, frozenset[ExecutionState]] = {
    _E.CREATED: frozenset({_E.SCHEDULED, _E.RECONCILING, _E.CANCELED, _E.FAILED}),
    _E.SCHEDULED: frozenset({_E.DEPLOYING, _E.CANCELED, _E.FAILED}),
    _E.DEPLOYING: frozenset({_E.INITIALIZING, _E.CANCELING, _E.FAILED}),
    _E.INITIALIZING: frozenset({_E.RUNNING, _E.CANCELING, _E.FAILED}),
    _E.RUNNING: frozenset({_E.FINISHED, _E.CANCELING, _E.FAILED}),
    _E.CANCELING: frozenset({_E.CANCELED, _E.FAILED}),
    _E.RECONCILING: frozenset({_E.INITIALIZING, _E.RUNNING, _E.FINISHED, _E.CANCELED, _E.FAILED}),
    _E.FINISHED: frozenset(),
    _E.CANCELED: frozenset(),
    _E.FAILED: frozenset(),
}

_WAY_TO_FINISHED = (_E.DEPLOYING, _E.INITIALIZING, _E.RUNNING, _E.FINISHED)


def check_execution_transition(
    current: ExecutionState, target: ExecutionState, execution_id: str, story: Story
) -> None:
    """InternalError with the story when the diagram has no such arrow."""
    if target not in EXECUTION_TRANSITIONS[current]:
        raise InternalError(
            f"execution {execution_id} cannot go from {current.value} to {target.value}", story=story.lines()
        )


def steps_to(current: ExecutionState, reported: ExecutionState) -> tuple[ExecutionState, ...]:
    """The transitions from `current` to the state that a TaskManager reports; its earlier reports may be lost.

    >>> [s.value for s in steps_to(ExecutionState.DEPLOYING, ExecutionState.RUNNING)]
    ['INITIALIZING', 'RUNNING']
    >>> [s.value for s in steps_to(ExecutionState.CANCELING, ExecutionState.FINISHED)]
    ['CANCELED']
    """
    if current is _E.CANCELING:
        # A task that finished before the cancellation reached it counts as cancelled.
        return (_E.CANCELED,) if reported in (_E.FINISHED, _E.CANCELED) else _only_terminal(reported)
    if reported in (_E.CANCELED, _E.CANCELING):
        return (_E.CANCELING, _E.CANCELED) if reported is _E.CANCELED else (_E.CANCELING,)
    if reported in _WAY_TO_FINISHED and current in _WAY_TO_FINISHED:
        return _WAY_TO_FINISHED[_WAY_TO_FINISHED.index(current) + 1 : _WAY_TO_FINISHED.index(reported) + 1]
    return (reported,)


def _only_terminal(reported: ExecutionState) -> tuple[ExecutionState, ...]:
    return (reported,) if reported.is_terminal else ()
