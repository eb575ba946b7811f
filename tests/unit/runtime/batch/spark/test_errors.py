"""What fails in Spark is told in our words, with the cause and without a stack trace."""

from __future__ import annotations

import pytest

from sqlstream.errors import (
    ExternalError,
    FailureReason,
    InternalError,
    JobError,
    Retry,
    Span,
    SqlStreamError,
    UserError,
)
from sqlstream.runtime.batch.spark.errors import TaskFailed, described

TRACE = "\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\tat java.base/java.lang.Thread.run"


class AnalysisException(Exception):
    """Named as PySpark's."""


@pytest.mark.parametrize(
    "error",
    [
        UserError("SS5011", 'could not read "a.csv" line 3', span=Span(1, 4), detail="d\n2", hint="h"),
        ExternalError("SS5001", 'could not read "ä.csv": no such file', retry=Retry.BACKOFF, hint="check"),
    ],
)
def test_an_error_of_our_own_comes_back_out_of_a_task_as_it_was(error: SqlStreamError) -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 in stage 0.0"
        f" (TID 0) (h executor driver): org.apache.spark.api.python.PythonException: Traceback\n{TaskFailed(error)}{TRACE}"
    )
    back = described(RuntimeError(text))
    assert type(back) is type(error)
    assert (back.code, back.message, back.detail, back.hint) == (
        error.code,
        error.message,
        error.detail,
        error.hint,
    )
    assert getattr(back, "span", None) == getattr(error, "span", None)
    assert getattr(back, "retry", None) == getattr(error, "retry", None)


def test_a_foreign_error_in_a_task_is_our_bug() -> None:
    back = described(RuntimeError(f"x {TaskFailed(KeyError('k'))}"))
    assert isinstance(back, InternalError)
    assert back.message == "KeyError: 'k'"


def test_the_reason_of_a_failed_task_is_one_line() -> None:
    text = (
        "Job aborted due to stage failure: Task 1 in stage 2.0 failed 4 times, most recent failure: Lost task 1.3 in stage 2.0"
        f" (TID 9) (10.0.0.7 executor 1): org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] boo{TRACE}"
    )
    error = described(RuntimeError(text))
    assert isinstance(error, JobError)
    assert error.code == "SS6061"
    assert (
        error.message == "Spark could not run the query: SparkRuntimeException: [USER_RAISED_EXCEPTION] boo"
    )
    assert error.detail == ""


def test_a_lost_executor_is_told_apart() -> None:
    text = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in stage 0.0"
        " (TID 3) (10.0.0.7 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: x"
    )
    error = described(RuntimeError(text))
    assert isinstance(error, JobError)
    assert error.reason is FailureReason.TASK_MANAGER_LOST


def test_sql_that_spark_refuses_is_our_bug() -> None:
    error = described(AnalysisException(f"[UNRESOLVED_COLUMN] no column c9. SQLSTATE: 42703; line 1{TRACE}"))
    assert isinstance(error, InternalError)
    assert error.message.endswith("[UNRESOLVED_COLUMN] no column c9. SQLSTATE: 42703; line 1")


def test_a_full_heap_names_the_setting() -> None:
    error = described(RuntimeError(f"Task 0 failed: java.lang.OutOfMemoryError: Java heap space{TRACE}"))
    assert isinstance(error, ExternalError)
    assert "spark.driver.memory" in error.hint


def test_a_jvm_that_has_died_is_said_to_have_ended() -> None:
    error = described(ConnectionRefusedError(111, "refused"), "last words")
    assert isinstance(error, ExternalError)
    assert error.message == "Spark ended while it ran the query"
    assert error.detail == "its last lines are\nlast words"


def test_an_endless_reason_is_cut() -> None:
    assert len(described(RuntimeError("x" * 10_000)).message) < 600


class OfAnEndedJvm(Exception):
    """As py4j's Java exceptions, which ask the JVM for their text."""

    def __str__(self) -> str:
        raise ConnectionError("the JVM has ended")


def test_an_exception_whose_text_is_gone_with_the_jvm_is_described_all_the_same() -> None:
    assert "OfAnEndedJvm" in described(OfAnEndedJvm()).message
