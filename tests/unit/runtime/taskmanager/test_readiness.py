"""Tasks are woken when a descriptor of their reader can be read."""

from __future__ import annotations

import os
import queue
from collections.abc import Callable, Iterator

import pytest

from sqlstream.runtime.taskmanager.inputs.readiness import GATHER_MS, DescriptorWait, Readiness

TIMEOUT_S = 30

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


class Reader:
    def __init__(self, fileno: int | None) -> None:
        self.fileno = fileno

    def wait_fileno(self) -> int | None:
        return self.fileno


class Task:
    """A task's mail and clock, and the wait of its reader."""

    def __init__(self, fileno: int | None) -> None:
        self.mail: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.now_ms = 1_000
        self.reader = Reader(fileno)
        self.wait = DescriptorWait(self.reader, Readiness(), self.mail.put, lambda: self.now_ms)

    def take_mail(self) -> None:
        self.mail.get(timeout=TIMEOUT_S)()


def test_a_function_is_called_once_when_a_descriptor_can_be_read(pipe: Pipe) -> None:
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()
    readiness = Readiness()
    readiness.call_when_readable(pipe[0], lambda: calls.put("first"))
    os.write(pipe[1], b"x")
    assert calls.get(timeout=TIMEOUT_S) == "first"
    # It can still be read, and is waited for again.
    readiness.call_when_readable(pipe[0], lambda: calls.put("second"))
    assert calls.get(timeout=TIMEOUT_S) == "second"
    assert calls.empty()


def test_what_is_forgotten_is_not_called(pipe: Pipe) -> None:
    calls: queue.SimpleQueue[str] = queue.SimpleQueue()
    other = os.pipe()
    readiness = Readiness()
    readiness.call_when_readable(pipe[0], lambda: calls.put("forgotten"))
    readiness.forget(pipe[0])
    readiness.forget(pipe[0])
    readiness.call_when_readable(other[0], lambda: calls.put("other"))
    os.write(pipe[1], b"x")
    os.write(other[1], b"x")
    assert calls.get(timeout=TIMEOUT_S) == "other"
    assert calls.empty()
    for end in other:
        os.close(end)


def test_a_reader_that_can_be_read_is_polled_when_the_last_poll_was_some_time_ago(pipe: Pipe) -> None:
    task = Task(pipe[0])
    task.wait.on_poll()
    task.wait.begin()
    assert task.wait.early_s() == 0
    os.write(pipe[1], b"x")
    task.take_mail()
    assert task.wait.early_s() == GATHER_MS / 1000
    task.now_ms += GATHER_MS - 1
    assert task.wait.early_s() == 0.001
    task.now_ms += 1
    assert task.wait.early_s() == 0
    task.wait.on_poll()
    assert task.wait.early_s() == 0


def test_a_reader_may_have_no_descriptor_or_another_one(pipe: Pipe) -> None:
    task = Task(None)
    task.wait.begin()
    task.reader.fileno = pipe[0]
    task.wait.begin()
    task.wait.begin()
    os.write(pipe[1], b"x")
    task.take_mail()
    task.wait.begin()
    task.take_mail()
    task.wait.begin()
    task.wait.end()
    task.wait.end()
    # It is nobody's now, so that another one can wait for it.
    task.wait.begin()
    task.take_mail()
