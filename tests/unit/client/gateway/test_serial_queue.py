"""Tasks of one queue run in order; those of several share the threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sqlstream.client.gateway.sessions import SerialQueue

Done = Callable[[], None]
TIMEOUT_S = 60


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_tasks_run_one_after_the_other_in_the_order_in_which_they_came(pool: ThreadPoolExecutor) -> None:
    queue, seen, ended = SerialQueue(pool, 200), [], threading.Event()
    running = threading.Lock()

    def task(number: int) -> Callable[[Done], None]:
        def run(done: Done) -> None:
            assert running.acquire(blocking=False)
            seen.append(number)
            running.release()
            done()
            if number == 199:
                ended.set()

        return run

    for number in range(200):
        queue.put(task(number))
    assert ended.wait(TIMEOUT_S)
    assert seen == list(range(200))


def test_a_task_that_waits_holds_no_thread_and_holds_back_its_own_queue_alone(
    pool: ThreadPoolExecutor,
) -> None:
    waiting, last = [SerialQueue(pool, 200) for _ in range(5)], SerialQueue(pool, 200)
    held: list[Done] = []
    behind, ended = threading.Event(), threading.Event()
    for queue in waiting:
        queue.put(held.append)
    waiting[0].put(lambda done: (behind.set(), done()))
    last.put(lambda done: (ended.set(), done()))
    # Five tasks wait on two threads, and a sixth runs.
    assert ended.wait(TIMEOUT_S)
    assert not behind.is_set()
    while len(held) < 5:
        threading.Event().wait(0.01)
    for done in held:
        done()
    assert behind.wait(TIMEOUT_S)


def test_a_task_that_says_twice_that_it_is_done_starts_one_task_only(pool: ThreadPoolExecutor) -> None:
    queue, held = SerialQueue(pool, 200), list[Done]()
    second, third = threading.Event(), threading.Event()
    first = threading.Event()
    queue.put(lambda done: (held.append(done), first.set()))
    queue.put(lambda done: (held.append(done), second.set()))
    queue.put(lambda done: (third.set(), done()))
    assert first.wait(TIMEOUT_S)
    held[0]()
    assert second.wait(TIMEOUT_S)
    held[0]()
    assert not third.wait(0.3)
    held[1]()
    assert third.wait(TIMEOUT_S)
