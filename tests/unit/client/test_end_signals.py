"""How a signal reaches the main thread."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from sqlstream.client.main import EndSignals

TIMEOUT_S = 60.0


@pytest.fixture
def hang_up() -> Iterator[int]:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield signal.SIGHUP
    signal.signal(signal.SIGHUP, before)


def test_a_signal_leaves_no_lock_taken(hang_up: int) -> None:
    """One that comes between `Condition` taking its lock and the `with` that gives it back is raised later."""
    lock = threading.Lock()
    condition = threading.Condition(lock)
    came: list[FrameType] = []

    def when_taken(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and frame.f_code is threading.Condition.__enter__.__code__:
            sys.setprofile(None)
            came.append(frame)
            handler = signal.getsignal(hang_up)
            assert callable(handler)
            handler(hang_up, frame)

    def take() -> None:
        sys.setprofile(when_taken)
        with condition:
            assert came, "the signal came while the lock was taken"
        time.sleep(TIMEOUT_S)

    with pytest.raises(KeyboardInterrupt), EndSignals():
        take()
    assert not lock.locked()


def test_a_signal_breaks_off_a_wait(hang_up: int) -> None:
    def wait() -> None:
        threading.Timer(0, signal.pthread_kill, (threading.main_thread().ident, hang_up)).start()
        threading.Event().wait(TIMEOUT_S)

    signals = EndSignals()
    with pytest.raises(KeyboardInterrupt), signals:
        wait()
    assert signals.number == hang_up
