"""TaskManagers that are children: how their ends are told, and what ends them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sqlstream.errors import ErrorInfo, ExternalError, FailureReason
from sqlstream.runtime.host import process
from sqlstream.runtime.providers.early_children import EARLY_CHILDREN, KEEP_FREED_MEMORY
from sqlstream.runtime.providers.local import LocalProvider, describe_exit
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, decode_options

OPTIONS = TaskManagerOptions("", "unix:/nowhere/a", "secret", 1, 0, 1000, 1000)
TIMEOUT_S = 60.0
CHILD = """
import sys
line = sys.stdin.buffer.readline()
sys.stdout.write("read " + line.decode())
sys.stdout.flush()
if "dies" in line.decode():
    sys.exit(7)
if "deaf" in line.decode():
    import time
    time.sleep(60)
sys.stdin.read()
"""


class Started:
    """A provider whose children run CHILD."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: list[tuple[str, ErrorInfo]] = []
        self.printed: list[str] = []
        self.environments: list[dict[str, str]] = []
        monkeypatch.setattr(process, "start_python_module", self.start)
        self.provider = LocalProvider(OPTIONS, lambda *end: self.ends.append(end), self.printed.append)

    def start(self, module: str, arguments: list[str], environment: dict[str, str]) -> Any:
        assert (module, arguments) == ("sqlstream.runtime.taskmanager", [])
        self.environments.append(environment)
        return subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def wait_for(self, count: int) -> list[tuple[str, ErrorInfo]]:
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(self.ends) < count:
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        return self.ends


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    made = Started(monkeypatch)
    yield made
    made.provider.stop()


def test_a_child_is_told_its_options_and_its_end_is_told_with_its_last_words(started: Started) -> None:
    started.provider.request("tm-dies")
    ((resource_id, error),) = started.wait_for(1)
    assert resource_id == "tm-dies"
    assert error.message.startswith("TaskManager tm-dies (process ")
    assert error.message.endswith(") ended with exit code 7")
    line = error.detail.removeprefix("its last lines are\nread ").encode()
    assert decode_options(line).resource_id == "tm-dies"
    assert started.environments == [KEEP_FREED_MEMORY]
    assert (started.provider.process_ids, started.printed) == ((), [])


def test_what_a_child_that_is_up_prints_goes_to_the_user(started: Started) -> None:
    started.provider.request("tm-1")
    deadline_s = time.monotonic() + TIMEOUT_S
    while not started.printed:
        started.provider.registered("tm-1")
        started.provider.registered("tm-9")
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    assert started.printed[0].startswith("read ")
    assert len(started.provider.process_ids) == 1


def test_a_lost_child_is_killed_and_an_idle_one_ends_itself(started: Started) -> None:
    for resource_id in ("tm-lost", "tm-idle"):
        started.provider.request(resource_id)
    assert len(started.provider.process_ids) == 2
    started.provider.release("tm-lost", is_lost=True)
    started.provider.release("tm-idle", is_lost=False)
    started.provider.release("tm-9", is_lost=True)
    ends = {resource_id: error.message.rpartition(") ")[2] for resource_id, error in started.wait_for(2)}
    assert ends == {"tm-lost": "was killed by signal 9", "tm-idle": "ended with exit code 0"}


def test_one_that_does_not_hear_is_killed_in_the_end(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.providers.local.STOP_TIMEOUT_S", 0.05)
    started.provider.request("tm-deaf")
    started.provider.release("tm-deaf", is_lost=False)
    ((_, error),) = started.wait_for(1)
    assert error.message.endswith("was killed by signal 9")


def test_after_a_stop_no_child_runs_none_starts_and_no_end_is_told(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.runtime.providers.local.STOP_TIMEOUT_S", 0.2)
    for resource_id in ("tm-1", "tm-deaf"):
        started.provider.request(resource_id)
    started.provider.stop()
    started.provider.request("tm-2")
    assert len(started.environments) == 2
    watchers = [t for t in threading.enumerate() if t.name in ("watch-tm-1", "watch-tm-deaf")]
    for watcher in watchers:
        watcher.join(TIMEOUT_S)
    assert started.ends == []


def test_a_system_that_refuses_processes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process, "start_python_module", refuse)
    provider = LocalProvider(OPTIONS, lambda *end: None, lambda text: None)
    with pytest.raises(ExternalError, match="TaskManager tm-1 could not be started: Resource") as caught:
        provider.request("tm-1")
    assert caught.value.code == "SS6006"
    assert provider.process_ids == ()


@pytest.mark.parametrize(
    ("code", "last_words", "how", "hint"),
    [
        (0, "", "ended with exit code 0", ""),
        (1, "a\nb", "ended with exit code 1", ""),
        (-15, "", "was killed by signal 15", ""),
        (-9, "", "was killed by signal 9", "run the statement again; a process killed by signal 9 has"),
    ],
)
def test_the_end_of_a_process_is_described(code: int, last_words: str, how: str, hint: str) -> None:
    error = describe_exit("tm-1", 77, code, last_words)
    assert (error.code, error.reason) == ("SS6006", FailureReason.TASK_MANAGER_LOST)
    assert error.message == f"TaskManager tm-1 (process 77) {how}"
    assert error.detail == (f"its last lines are\n{last_words}" if last_words else "")
    assert error.hint.startswith(hint)
    assert bool(error.hint) is bool(hint)


def test_a_child_that_waits_is_the_first_that_is_asked_for_and_one_that_nobody_took_ends(
    started: Started,
) -> None:
    EARLY_CHILDREN.start(3)
    died, taken, left = EARLY_CHILDREN._waiting
    died.kill()
    died.wait(TIMEOUT_S)
    started.provider.request("tm-1")
    assert started.provider.process_ids == (taken.pid,)
    EARLY_CHILDREN.end()
    assert left.returncode == -9
    started.provider.request("tm-2")
    assert len(started.provider.process_ids) == 2
    assert len(started.environments) == 4


def test_a_system_that_refuses_early_children_is_named_when_one_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(process, "start_python_module", refuse)
    EARLY_CHILDREN.start(2)
    assert EARLY_CHILDREN.take() is None
