"""Explores how two threads may meet: the second one runs at each instruction of the first in turn.

Nothing is left to the machine. `explore` runs a scenario again and again. Each time the first thread stops before its next
instruction (of the files that are named), and the second one runs until it has ended or waits for a lock; then the first goes on.
That finds what one change of threads at a wrong moment breaks, which most forgotten locks are."""

from __future__ import annotations

import dataclasses
import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

TIMEOUT_S = 30
_actor = threading.local()


class WatchedLock:
    """A lock whose waiting lets the other thread go on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._lock.acquire(False):
            return True
        if not blocking:
            return False
        quiet: threading.Event | None = getattr(_actor, "quiet", None)
        if quiet is not None:
            quiet.set()
        return self._lock.acquire(True, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class NoLock(WatchedLock):
    """A lock that keeps nobody out: what a class is without its lock."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return True

    def release(self) -> None:
        return None


@dataclasses.dataclass(frozen=True)
class Meeting:
    """What two threads do to one object, and what has to hold afterwards."""

    first: Callable[[], object]
    second: Callable[[], object]
    check: Callable[[], None]


def explore(make: Callable[[], Meeting], *files: str) -> int:
    """Run a new meeting for each instruction in `files` (ends of paths); returns how many there were. An error of a thread or of
    a check is raised with the place at which the threads changed."""
    for number in itertools.count():
        meeting = make()
        run = _Run(meeting, files, number)
        try:
            run.run()
            meeting.check()
        except Exception as error:
            raise AssertionError(
                f"the other thread ran before {run.place or 'nothing'}: {error!r}"
            ) from error
        if not run.place:
            return number
    raise AssertionError


class _Run:
    """One schedule. State: the instructions that the first thread has still to take before the second one runs."""

    def __init__(self, meeting: Meeting, files: tuple[str, ...], number: int) -> None:
        self.place = ""
        self._meeting = meeting
        self._files = files
        self._left = number
        self._quiet = threading.Event()
        self._errors: list[BaseException] = []
        self._second = threading.Thread(target=self._run_second, daemon=True)

    def run(self) -> None:
        before = sys.gettrace()
        sys.settrace(self._trace_call)
        try:
            self._meeting.first()
        finally:
            sys.settrace(before)
            if not self.place:
                self._second.start()
            self._second.join(TIMEOUT_S)
        assert not self._second.is_alive(), "the second thread does not end"
        for error in self._errors:
            raise error

    def _run_second(self) -> None:
        _actor.quiet = self._quiet
        try:
            self._meeting.second()
        except Exception as error:
            self._errors.append(error)
        finally:
            self._quiet.set()

    def _trace_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(self._files):
            return None
        frame.f_trace_opcodes = True
        return self._trace

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode" and not self.place:
            self._left -= 1
            if self._left < 0:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self._second.start()
                assert self._quiet.wait(TIMEOUT_S), "the second thread neither ends nor waits"
        return self._trace
