"""What a task of Spark finds before it starts a TaskManager, and what is told of one that has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark import TaskContext

from sqlstream.errors import ErrorInfo, FailureReason
from sqlstream.runtime.net.endpoint import TlsFiles
from sqlstream.runtime.providers.spark.launch import launch_task_manager
from sqlstream.runtime.providers.spark.launched import lost_executor, needed_packages
from sqlstream.runtime.providers.spark.messages import (
    StartTaskManager,
    TaskManagerEnded,
    decode_from_driver,
    decode_to_driver,
    encode_line,
)
from sqlstream.runtime.providers.spark.shipped import make_launch
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options

OPTIONS = TaskManagerOptions("tm-1", "unix:/nowhere/a", "secret", 1, 0, 1000, 5000)


@pytest.fixture
def task() -> Iterator[TaskContext]:
    """PySpark's own, as its worker sets it."""
    context = TaskContext._getOrCreate()
    context._attemptNumber = 0
    yield context
    TaskContext._taskContext = None


def launched(packages: dict[str, str], options: TaskManagerOptions = OPTIONS) -> dict[str, object]:
    (text,) = make_launch(encode_options(options).decode(), packages, None)(iter(()))
    found: dict[str, object] = json.loads(text)
    return found


def test_a_task_that_spark_restarts_starts_no_task_manager(task: TaskContext) -> None:
    task._attemptNumber = 1
    assert launched({}) == {"is_restarted": True}


def test_packages_that_are_missing_or_of_another_version_are_named(task: TaskContext) -> None:
    needed = needed_packages()
    found = launched({**needed, "msgspec": "0.1", "no-such-package": "2.0"})
    assert found["problems"] == [
        f"msgspec is {needed['msgspec']}, not 0.1",
        "no-such-package 2.0 is not installed",
    ]


def test_an_executor_that_may_not_enter_the_directory_of_sockets_says_so(
    task: TaskContext, tmp_path: Path
) -> None:
    options = msgspec.structs.replace(OPTIONS, job_manager_address=f"unix:{tmp_path}/gone/a")
    error = launched(needed_packages(), options)["error"]
    assert isinstance(error, dict)
    assert (error["code"], error["reason"]) == ("SS6072", "NO_RESOURCES")
    assert "jobmanager.rpc.address" in error["hint"]


def test_an_executor_that_does_not_reach_the_job_manager_says_so() -> None:
    options = TaskManagerOptions("tm-1", "grpc://127.0.0.1:1", "secret", 1, 0, 1000, 5000)
    found = json.loads(launch_task_manager(encode_options(options).decode()))
    assert found["error"]["message"].startswith("could not reach the JobManager at 127.0.0.1:1: ")


def test_an_executor_without_the_files_of_its_certificate_says_so(tmp_path: Path) -> None:
    files = TlsFiles(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"), str(tmp_path / "ca.pem"))
    options = msgspec.structs.replace(OPTIONS, tls=files)
    error = json.loads(launch_task_manager(encode_options(options).decode()))["error"]
    assert (error["code"], error["reason"]) == ("SS4070", "NO_RESOURCES")
    assert "cert.pem" in error["message"]


def test_a_lost_executor_is_told_in_sparks_words() -> None:
    messages = (
        "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: code 137\n\tat x"
    )
    error = lost_executor("tm-1", messages)
    assert error.message == (
        "TaskManager tm-1 was lost with its executor: executor 3 exited caused by one of the running tasks: code 137"
    )
    assert error.reason is FailureReason.TASK_MANAGER_LOST
    assert lost_executor("tm-1", "").message == "TaskManager tm-1 was lost: its task in Spark has failed"


def test_lines_between_the_processes_arrive_as_they_were_and_others_are_output() -> None:
    start = StartTaskManager(OPTIONS)
    assert decode_to_driver(encode_line(start)) == start
    ended = TaskManagerEnded(
        "tm-1", ErrorInfo("SS6074", "lost\nand gone", reason=FailureReason.TASK_MANAGER_LOST)
    )
    line = encode_line(ended)
    assert line.count(b"\n") == 1
    assert decode_from_driver(line) == ended
    assert decode_from_driver(b"{a warning}\n") is None


def test_code_that_is_shipped_by_value_imports_none_of_our_packages() -> None:
    source = Path(make_launch.__code__.co_filename).read_text().partition("\ndef make_launch")[0]
    assert "runtime" not in source
    assert "sqlstream" not in source
