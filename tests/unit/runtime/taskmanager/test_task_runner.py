"""When the channels of a job are given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.taskmanager.events import TaskStateChanged

MakeJob = Callable[..., Any]
EXECUTIONS = ("source-0", "sink-0", "sink-1")


def released(job: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose channels are released from now on."""
    seen: list[str] = []
    monkeypatch.setattr(job.exchange, "release_job", seen.append)
    return seen


def test_a_job_whose_tasks_have_finished_releases_nothing(
    job: MakeJob, stage: Any, make_rows: Callable[..., pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.polls = [make_rows(("a", 1))]
    stage.gate.set()
    made = job(ExchangeKind.REBALANCE, sinks=2)
    seen = released(made, monkeypatch)
    made.start()
    made.wait(ExecutionState.FINISHED, *EXECUTIONS)
    made.runner.stop(20)
    assert (seen, made.runner.tasks_running, made.runner.tasks_started) == ([], 0, 3)


@pytest.mark.parametrize("fails", [False, True])
def test_the_last_task_that_ends_releases_the_channels_of_a_job_that_was_broken_off(
    fails: bool,
    job: MakeJob,
    stage: Any,
    make_rows: Callable[..., pa.RecordBatch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage.polls = [make_rows(("a", 1), ("b", 2)) for _ in range(4)]
    stage.fail_at_write = fails
    made = job(ExchangeKind.REBALANCE, sinks=2)
    seen = released(made, monkeypatch)
    ended: list[list[str]] = []
    told = made.runner._on_state

    def note(change: Any) -> None:
        if isinstance(change, TaskStateChanged) and change.state.is_terminal:
            ended.append(list(seen))
        told(change)

    monkeypatch.setattr(made.runner, "_on_state", note)
    made.start()
    made.wait(ExecutionState.RUNNING, *EXECUTIONS)
    for execution in EXECUTIONS if not fails else ():
        made.runner.cancel(execution)
    stage.gate.set()
    end = ExecutionState.FAILED if fails else ExecutionState.CANCELED
    made.wait(end, "sink-0", "sink-1")
    for execution in EXECUTIONS:
        made.runner.cancel(execution)
    made.runner.stop(20)
    assert seen == ["job"]
    # As long as another task of the job runs, nothing is released.
    assert ended[:2] == [[], []]
