"""Memory goes back to the system when a TaskManager has been idle from one check to the next, and once."""

from __future__ import annotations

from sqlstream.runtime.taskmanager.task_manager import IdleMemory


def test_memory_is_given_back_once_after_a_whole_interval_without_a_task() -> None:
    tasks = {"started": 0, "running": 0}
    given_back: list[int] = []
    memory = IdleMemory(
        lambda: tasks["started"], lambda: tasks["running"], lambda: given_back.append(tasks["started"])
    )
    for started, running in [(0, 0), (1, 1), (1, 1), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)]:
        tasks.update(started=started, running=running)
        memory.check()
        if (started, running) == (1, 1):
            assert given_back == []
    assert given_back == [1, 2]
