"""The processes of a Spark cluster and of sqlstream, found by their command lines, and waits for what they do."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil

WAIT_S = 240.0
"""For what a machine does in seconds when nothing else runs on it."""

EXECUTOR = "CoarseGrainedExecutorBackend"
TASK_MANAGER = "-m sqlstream.runtime.taskmanager"
DRIVER = "sqlstream.runtime.providers.spark.driver"

FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Half the processor time of a short life."""


def wait_until(condition: Callable[[], object], timeout_s: float = WAIT_S) -> None:
    """What is soon so is soon seen, and what takes long is asked for seldom."""
    deadline_s, pause_s = time.monotonic() + timeout_s, 0.001
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come true"
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)


def descendants(process_id: int, *words: str) -> list[psutil.Process]:
    """The processes below that one whose command line has all of the words."""
    return [p for p in psutil.Process(process_id).children(recursive=True) if is_of(p, *words)]


def is_of(process: psutil.Process, *words: str) -> bool:
    """Whether it runs, and its command line has all of the words."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        line = " ".join(process.cmdline())
        return bool(line) and all(word in line for word in words)
    return False


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
