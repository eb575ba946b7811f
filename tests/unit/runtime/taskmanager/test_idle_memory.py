"""Memory goes back to the system when a TaskManager has been idle from one check to the next, and once."""

from __future__ import annotations

from runtime.taskmanager.idle_memory import IdleMemory


def test_memory_is_given_back_once_after_a_whole_interval_without_a_task() -> None:
    started, running, given_back = 0, 0, 0

    def give_back() -> None:
        nonlocal given_back
        given_back += 1

    memory = IdleMemory(lambda: started, lambda: running, give_back)
    counts = []
    for started, running in [(0, 0), (1, 1), (1, 1), (1, 0), (1, 0), (2, 0), (2, 0), (2, 0)]:
        memory.check()
        counts.append(given_back)
    assert counts == [0, 0, 0, 1, 1, 1, 2, 2]
