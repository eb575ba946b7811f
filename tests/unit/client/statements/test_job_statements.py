"""Statements about jobs, on a cluster of literal answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqlstream.client.following.checkpoint_text import remark_on
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements.jobs import CHECKPOINTS, LEDGER, execute_job_statement
from sqlstream.errors import ErrorInfo, ExternalError, FailureReason, UserError
from sqlstream.messages.checkpoint_statistics import (
    CheckpointKind,
    CheckpointRecord,
    CheckpointStatistics,
    CheckpointStatus,
    SubtaskCheckpoint,
    VertexCheckpoint,
)
from sqlstream.messages.client_rpc import SavepointStatusReply, StopWithSavepoint
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.ledger import JobLedger, LedgerEntry, LedgerSide
from sqlstream.messages.rpc import (
    CheckpointFigures,
    JobDetails,
    JobOverviewEntry,
    JobStatusReply,
    LateChannel,
    RestartRecord,
)
from sqlstream.planner.dialect.parser import parse_statement

LOST = ErrorInfo("SS6006", "the TaskManager is lost")
FULL = ErrorInfo("SS5001", "could not write: no space left", reason=FailureReason.EXTERNAL)
DIRECTORY = {"execution.checkpointing.savepoint-dir": "/savepoints"}


def record(id: int, status: CheckpointStatus, *acknowledged_ms: int, **more: Any) -> CheckpointRecord:
    figures = CheckpointFigures(written_bytes=10, state_bytes=100)
    subtasks = tuple(SubtaskCheckpoint(n, ms, figures) for n, ms in enumerate(acknowledged_ms))
    vertex = VertexCheckpoint("v", "join", len(subtasks), subtasks)
    ended_ms = -1 if status is CheckpointStatus.IN_PROGRESS else 1250
    return CheckpointRecord(id, CheckpointKind.CHECKPOINT, status, 1000, ended_ms, (vertex,), **more)


LEDGER_OF_A1 = JobLedger(
    7,
    1250,
    (
        LedgerEntry(0, "Source: t", "v", 12, 12, balance=("out",)),
        LedgerEntry(1, "Calc", "v", 12, 9, {"filtered": 3}, ("out", "filtered"), sent=12),
        LedgerEntry(2, "Over", "w", 8, 5, {"held": 2, "late": 1}, ("out", "held", "late"), sent=9, lost=1),
        LedgerEntry(3, "GroupAggregate", "w", 5, 7, sent=5),
        LedgerEntry(
            4,
            "Join",
            "x",
            7,
            3,
            {"held": 2},
            sides=(
                LedgerSide("left", 5, {"retracted": 4, "held": 1}, ("held", "retracted")),
                LedgerSide("right", 2, {"held": 1}, ("held", "retracted"), 1),
            ),
        ),
    ),
)


class Literal:
    """Two jobs, the second of which restarts. State: what was asked, and how often a savepoint is still to be under way."""

    def __init__(self, error: ErrorInfo | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._error = error
        self._looks = 2

    def jobs(self) -> tuple[JobOverviewEntry, ...]:
        return tuple(
            JobOverviewEntry(id, "insert", status, 5, -1, {})
            for id, status in (("a1", JobStatus.RUNNING), ("b2", JobStatus.RESTARTING))
        )

    def details(self, job_id: str) -> JobDetails:
        restarts = (RestartRecord(0, LOST, "join (1/2)"),)
        return JobDetails(job_id, "insert", JobStatus.RESTARTING, 5, -1, {}, (), restarts=restarts)

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        if job_id == "b2":
            return CheckpointStatistics("b2")
        failed = record(3, CheckpointStatus.FAILED, 1100, error=FULL, failed_task="join (2/2)")
        pending = record(4, CheckpointStatus.IN_PROGRESS, 1100, -1, -1, -1, -1, -1)
        completed = record(2, CheckpointStatus.COMPLETED, 1100, 1200, path="/c/chk-2")
        removed = record(1, CheckpointStatus.COMPLETED, 1100, path="/c/chk-1", is_discarded=True)
        return CheckpointStatistics("a1", history=(pending, failed, completed, removed), ledger=LEDGER_OF_A1)

    def take_savepoint(self, request: StopWithSavepoint) -> None:
        self.asked.append((request.job_id, request.directory, request.is_drain))

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        self._looks -= 1
        path = "/savepoints/s" if self._error is None else ""
        return SavepointStatusReply(job_id, trigger_id, self._looks < 0, 4, path, self._error)

    def wait(self, job_id: str, timeout_s: float | None) -> JobStatusReply:
        self.asked.append(("wait", job_id))
        return JobStatusReply(job_id, JobStatus.FINISHED)

    def cancel(self, job_id: str) -> None:
        self.asked.append(("cancel", job_id))


@pytest.fixture
def run() -> Callable[..., list[tuple[Any, ...]]]:
    def run(sql: str, cluster: Literal) -> list[tuple[Any, ...]]:
        answer = execute_job_statement(parse_statement(sql), Session(cluster, DIRECTORY))  # type: ignore[arg-type]
        return [tuple(row.values()) for batch in answer.batches for row in batch.to_pylist()]

    return run


def test_checkpoints_say_why_they_failed_and_whom_they_wait_for(run: Any) -> None:
    rows = run("SHOW CHECKPOINTS FOR JOB 'a1'", Literal())
    assert rows == run("SHOW CHECKPOINTS", Literal())
    names = CHECKPOINTS.names
    found = [dict(zip(names, row, strict=True)) for row in rows]
    assert [
        (c["id"], c["status"], c["duration ms"], c["state bytes"], c["written bytes"]) for c in found
    ] == [
        (4, "IN_PROGRESS", None, 600, 60),
        (3, "FAILED", 250, 100, 10),
        (2, "COMPLETED", 250, 200, 20),
        (1, "COMPLETED", 250, 100, 10),
    ]
    assert [(c["path"], c["remark"]) for c in found] == [
        (None, "waits for join (2/6), join (3/6), join (4/6) and 2 more"),
        (None, "join (2/2): could not write: no space left"),
        ("/c/chk-2", None),
        (None, "removed"),
    ]


def test_the_ledger_says_what_became_of_rows_and_what_is_missing(run: Any) -> None:
    rows = run("SHOW LEDGER FOR JOB 'a1'", Literal())
    assert rows == run("SHOW LEDGER", Literal())
    found = [{n: v for n, v in zip(LEDGER.names, row, strict=True) if v not in (0, None)} for row in rows]
    common = {"job id": "a1", "checkpoint": 7}
    assert found == [
        common | {"operator": "Source: t", "rows in": 12, "rows out": 12, "remark": "rows in = rows out"},
        common
        | {
            "operator": "Calc",
            "rows in": 12,
            "rows out": 9,
            "filtered": 3,
            "remark": "rows in = rows out + filtered",
        },
        common
        | {
            "operator": "Over",
            "rows in": 8,
            "rows out": 5,
            "late": 1,
            "held": 2,
            "remark": "9 rows were sent to it, and 8 have arrived: 1 is missing",
        },
        common | {"operator": "GroupAggregate", "rows in": 5, "rows out": 7},
        common
        | {
            "operator": "Join",
            "rows in": 7,
            "rows out": 3,
            "held": 2,
            "remark": "right: of 2 rows in 1 is missing: held 1, retracted 0",
        },
        common
        | {
            "operator": "Join left",
            "rows in": 5,
            "retracted": 4,
            "held": 1,
            "remark": "rows in = held + retracted",
        },
        common
        | {
            "operator": "Join right",
            "rows in": 2,
            "held": 1,
            "remark": "of 2 rows in 1 is missing: held 1, retracted 0",
        },
    ]


@pytest.mark.parametrize(
    ("late", "remark"),
    [
        ((LateChannel("s", 3, 2345), LateChannel("s", 0, 1500)), "join (1/1) waited 2.3 s for the barrier of source (4/4)"),
        ((LateChannel("gone", 3, 2345),), "join (1/1) waited 2.3 s for the barrier of an input that has finished"),
        ((LateChannel("s", 3, 999),), ""),
        ((), ""),
    ],
)  # fmt: skip
def test_a_checkpoint_whose_barriers_came_far_apart_says_which_was_late(
    late: tuple[LateChannel, ...], remark: str
) -> None:
    source = VertexCheckpoint("s", "source", 4, tuple(SubtaskCheckpoint(n, 1100) for n in range(4)))
    figures = CheckpointFigures(alignment_ms=2345, late_channels=late)
    join = VertexCheckpoint("v", "join", 1, (SubtaskCheckpoint(0, 4000, figures),))
    completed = CheckpointStatus.COMPLETED
    assert (
        remark_on(CheckpointRecord(1, CheckpointKind.CHECKPOINT, completed, 0, 1, (source, join))) == remark
    )


def test_a_checkpoint_with_rows_in_flight_says_how_many_and_what_follows() -> None:
    figures = CheckpointFigures(in_flight_items=3, in_flight_rows=1200), CheckpointFigures(in_flight_items=1)
    subtasks = tuple(SubtaskCheckpoint(n, 4000, f) for n, f in enumerate(figures))
    join = VertexCheckpoint("v", "join", 2, subtasks)
    found = CheckpointRecord(1, CheckpointKind.CHECKPOINT, CheckpointStatus.COMPLETED, 0, 1, (join,))
    assert (
        remark_on(found)
        == "unaligned: 1,200 rows were under way, so it goes on with the same parallelism only"
    )


def test_a_job_that_restarts_says_since_when_and_why(run: Any) -> None:
    running, restarting = run("SHOW JOBS", Literal())
    assert (running[2], running[4]) == ("RUNNING", None)
    assert restarting[2] == "RESTARTING"
    assert restarting[4].startswith("failed at ")
    assert restarting[4].endswith(": join (1/2): error[SS6006]: the TaskManager is lost")
    assert run("DESCRIBE JOB 'b2'", Literal()) == [restarting]


@pytest.mark.parametrize(("drain", "is_drained"), [("", False), (" WITH DRAIN", True)])
def test_a_job_is_stopped_with_a_savepoint_of_the_sessions_directory(
    run: Any, drain: str, is_drained: bool
) -> None:
    cluster = Literal()
    assert run(f"STOP JOB 'a1' WITH SAVEPOINT{drain}", cluster) == [("/savepoints/s",)]
    assert cluster.asked == [("a1", "/savepoints", is_drained), ("wait", "a1")]


def test_a_savepoint_that_fails_leaves_the_job_as_it_is(run: Any) -> None:
    cluster = Literal(FULL)
    with pytest.raises(ExternalError, match="no space left"):
        run("STOP JOB 'a1' WITH SAVEPOINT", cluster)
    assert cluster.asked == [("a1", "/savepoints", False)]


@pytest.mark.parametrize(
    "sql", ["SHOW CHECKPOINTS FOR JOB 'x'", "STOP JOB 'x' WITH SAVEPOINT", "STOP JOB 'x'"]
)
def test_a_job_that_is_not_known_is_underlined(run: Any, sql: str) -> None:
    cluster = Literal()
    with pytest.raises(UserError, match="is not known") as raised:
        run(sql, cluster)
    assert raised.value.span is not None
    assert cluster.asked == []


class Forgetful(Literal):
    """Its second job has ended since the first question, and is not remembered."""

    def details(self, job_id: str) -> JobDetails:
        raise UserError("SS6009", f'job "{job_id}" is not known')

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        return Literal.checkpoints(self, job_id) if job_id == "a1" else self.details(job_id)  # type: ignore[return-value]


@pytest.mark.parametrize("listed", ["JOBS", "CHECKPOINTS", "LEDGER"])
def test_a_job_that_is_forgotten_while_jobs_are_listed_is_no_error(run: Any, listed: str) -> None:
    rows = run(f"SHOW {listed}", Forgetful())
    assert "a1" in {row[0] for row in rows}
    assert all(row[-1] is None for row in rows if row[0] == "b2")
