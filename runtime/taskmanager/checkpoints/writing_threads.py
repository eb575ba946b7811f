"""The threads of a TaskManager that write the state of its tasks."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)

WRITING_THREADS = 2
"""How many tasks write at the same time: a store far away is waited for more than a processor."""

Write = Callable[[], None]


class WritingThreads:
    """Makes calls one after the other on few threads, which start with the first. What a call raises is logged, and ends none.

    State: the calls that wait. Of each task these are few writes of state, as it refuses checkpoints beyond them, and one removal
    of local copies for each checkpoint that ended meanwhile."""

    def __init__(self, threads: int = WRITING_THREADS) -> None:
        self._threads = threads
        self._calls: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._is_stopped = False

    def submit(self, call: Write) -> None:
        """Make the call soon; never waits. Nothing is called behind `stop`."""
        with self._lock:
            if self._is_stopped:
                return
            if self._started < self._threads:
                self._started += 1
                # A store that does not answer must not keep the process from ending.
                name = f"state-writer-{self._started}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
        self._calls.put(call)

    def stop(self) -> None:
        """End the threads, once they have made the calls that wait; returns at once."""
        with self._lock:
            self._is_stopped = True
            for _ in range(self._started):
                self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:  # the thread's boundary: without it no further state would be written
                logger.exception("a call of %s failed", threading.current_thread().name)
