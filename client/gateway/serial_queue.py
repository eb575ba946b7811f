"""Tasks that run one after the other on threads of a pool, without a thread of their own."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

Task = Callable[[Callable[[], None]], None]
"""Called on a thread of the pool with `done`, which it calls when the next task may run: before it returns, or later from any
thread. Only the first call counts."""


class SerialQueue:
    """Runs tasks in the order in which they come, each after the one before is done. Thread-safe.

    While a task waits for something it holds no thread, since it may return before it is done. State: the tasks not yet
    started, at most `tasks_max`, and whether one is running.
    """

    def __init__(self, pool: ThreadPoolExecutor, tasks_max: int) -> None:
        self._pool = pool
        self._tasks_max = tasks_max
        self._tasks: deque[Task] = deque()
        self._is_running = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The tasks that have not been started."""
        return len(self._tasks)

    def put(self, task: Task) -> None:
        """Run the task once those before it are done. queue.Full when too many wait; RuntimeError when the pool has been shut
        down."""
        with self._lock:
            if len(self._tasks) >= self._tasks_max:
                raise queue.Full
            self._tasks.append(task)
            if self._is_running:
                return
            self._is_running = True
        self._pool.submit(self._run_next)

    def _run_next(self) -> None:
        with self._lock:
            task = self._tasks.popleft()
        task(_once(self._done))

    def _done(self) -> None:
        with self._lock:
            if not self._tasks:
                self._is_running = False
                return
        # Not a loop: the sessions of a gateway take turns on the threads. A pool that was shut down runs nothing more.
        with contextlib.suppress(RuntimeError):
            self._pool.submit(self._run_next)


def _once(act: Callable[[], None]) -> Callable[[], None]:
    """Acts at its first call, by whichever thread, and at no other: a second `done` would let two tasks run at once."""
    is_done = threading.Lock()

    def call() -> None:
        if is_done.acquire(blocking=False):
            act()

    return call
