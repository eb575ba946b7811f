"""When the channels and the files of a job are given back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.stream_graph import ExchangeKind
from sqlstream.messages.job_state import ExecutionState
from sqlstream.runtime.taskmanager.events import TaskStateChanged
from sqlstream.runtime.taskmanager.task_context import NoArtifacts

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


def test_a_new_attempt_takes_the_files_of_its_job_after_the_last_one_gave_them_back(
    job: MakeJob, stage: Any, make_rows: Callable[..., pa.RecordBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.polls = [make_rows(("a", 1))]
    stage.gate.set()
    made = job(sinks=1)
    made.change_descriptors(artifacts=(Artifact("model", "0" * 64, 1),))
    held: list[str] = []
    starts_meanwhile: list[bool] = []

    class Kept(NoArtifacts):
        def use(self, job_id: str, *ignored: Any) -> dict[str, str]:
            held.append(job_id)
            return {}

        def release(self, job_id: str) -> None:
            # A task that starts now would use what is given back.
            waiting = threading.Thread(target=lambda: (made.runner._running(), starts_meanwhile.append(True)))
            waiting.start()
            waiting.join(0.2)
            assert not starts_meanwhile
            held.clear()

    monkeypatch.setattr(made.runner, "_artifacts", Kept())
    monkeypatch.setattr(made.runner, "_context", replace(made.runner._context, artifacts=Kept()))
    made.start()
    made.wait(ExecutionState.FINISHED, "source-0", "sink-0")
    made.runner.stop(20)
    assert held == []
