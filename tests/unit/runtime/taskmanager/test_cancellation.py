"""What wakes a task that is to end."""

from __future__ import annotations

import threading
import time

import pytest

from sqlstream.runtime.taskmanager.task_context import TaskCancellation, TaskCancelled


def test_a_request_closes_outputs_then_interrupts_and_is_seen() -> None:
    cancellation, called = TaskCancellation(), []
    cancellation.add_interrupt(lambda: called.append("interrupt"))
    cancellation.add_output(lambda: called.append("output"))
    cancellation.check()
    assert (cancellation.is_requested, called) == (False, [])
    cancellation.request()
    assert (cancellation.is_requested, called) == (True, ["output", "interrupt"])
    with pytest.raises(TaskCancelled):
        cancellation.check()


def test_what_is_added_after_the_request_is_called_at_once() -> None:
    cancellation, called = TaskCancellation(), []
    cancellation.request()
    cancellation.add_output(lambda: called.append("output"))
    cancellation.add_interrupt(lambda: called.append("interrupt"))
    assert called == ["output", "interrupt"]


def test_a_failed_task_closes_its_outputs_alone() -> None:
    cancellation, called = TaskCancellation(), []
    cancellation.add_output(lambda: called.append("output"))
    cancellation.add_interrupt(lambda: called.append("interrupt"))
    cancellation.close_outputs()
    assert (cancellation.is_requested, called) == (False, ["output"])


def test_a_wait_ends_with_the_request_or_its_time() -> None:
    cancellation = TaskCancellation()
    started_s = time.monotonic()
    cancellation.wait(0.02)
    assert time.monotonic() - started_s > 0.01
    thread = threading.Thread(target=cancellation.wait, daemon=True)
    thread.start()
    thread.join(0.02)
    assert thread.is_alive()
    cancellation.request()
    thread.join(60)
    assert not thread.is_alive()
