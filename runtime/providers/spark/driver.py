"""Spark's driver as a process: `python -P -m sqlstream.runtime.providers.spark.driver`. It reads what to start and end
from standard input, and ends, with Spark and all TaskManagers, when that does."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from typing import BinaryIO

from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.runtime.batch.spark.connect.address import is_connect
from sqlstream.runtime.batch.spark.packages import require_packages
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.process import ignore_interrupts
from sqlstream.runtime.providers.spark.launcher import Launched, Launcher
from sqlstream.runtime.providers.spark.messages import (
    DriverFailed,
    DriverStarted,
    EndTaskManager,
    FromDriver,
    StartDriver,
    StartTaskManager,
    TaskManagerEnded,
    ToDriver,
    decode_to_driver,
    encode_line,
)
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions

_ALIVE_CHECK_S = 0.5
"""How often the driver looks whether Spark and its own parent are still there."""

_END_TIMEOUT_S = 4.0
"""How long TaskManagers may take to end before Spark ends and takes their executors away."""


class SparkDriver:
    """A connection to Spark, and the TaskManagers that run in tasks there. State: both, until `stop`."""

    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._writing = threading.Lock()
        self._lines: queue.SimpleQueue[ToDriver] = queue.SimpleQueue()
        self._is_over = threading.Event()
        self._launcher: Launcher | None = None
        self._task_managers: dict[str, Launched] = {}
        self._lock = threading.Lock()

    def run(self, settings: dict[str, str]) -> int:
        """Until standard input ends (0) or Spark does (1)."""
        threading.Thread(target=self._read, name="read", daemon=True).start()
        try:
            self._launcher = launcher = _launcher(settings)
        except SqlStreamError as error:
            self._send(DriverFailed(ErrorInfo.of(error)))
            return 1
        self._send(DriverStarted(launcher.application_id, launcher.jvm_process_id))
        try:
            return self._obey(launcher)
        finally:
            self._stop(launcher)

    def _read(self) -> None:
        while line := sys.stdin.buffer.readline():
            self._lines.put(decode_to_driver(line))
        self._is_over.set()
        if self._launcher is None:
            # A JVM that is starting ends with the pipe that we hold.
            os._exit(0)

    def _obey(self, launcher: Launcher) -> int:
        while not self._is_over.is_set():
            failure = launcher.failure()
            if failure is not None:
                self._send(DriverFailed(failure))
                return 1
            with contextlib.suppress(queue.Empty):
                self._carry_out(launcher, self._lines.get(timeout=_ALIVE_CHECK_S))
        return 0

    def _carry_out(self, launcher: Launcher, line: ToDriver) -> None:
        match line:
            case StartTaskManager(options):
                self._start(launcher, options)
            case EndTaskManager(resource_id, is_lost):
                with self._lock:
                    released = self._task_managers.get(resource_id)
                if released is not None:
                    released.release(is_lost)

    def _start(self, launcher: Launcher, options: TaskManagerOptions) -> None:
        # Under the lock: one that ends at once is put in before it is taken out.
        with self._lock:
            self._task_managers[options.resource_id] = launcher.launch(options, self._on_end)

    def _on_end(self, resource_id: str, error: ErrorInfo) -> None:
        self._send(TaskManagerEnded(resource_id, error))
        with self._lock:
            self._task_managers.pop(resource_id, None)

    def _stop(self, launcher: Launcher) -> None:
        with self._lock:
            left = list(self._task_managers.values())
        for task_manager in left:
            task_manager.release(is_lost=False)
        deadline_s = steady_s() + _END_TIMEOUT_S
        for task_manager in left:
            task_manager.join(max(0.0, deadline_s - steady_s()))
        launcher.stop()

    def _send(self, line: FromDriver) -> None:
        with self._writing:
            try:
                self._output.write(encode_line(line))
                self._output.flush()
            except BrokenPipeError:
                # Who reads this is gone, and our standard input has ended as well.
                return


def _launcher(settings: dict[str, str]) -> Launcher:
    """SqlStreamError when there is no connection to be had."""
    require_packages(is_connect(settings))
    if is_connect(settings):
        from sqlstream.runtime.providers.spark.connect_launcher import ConnectLauncher

        return ConnectLauncher(settings)
    from sqlstream.runtime.providers.spark.context_launcher import ContextLauncher

    return ContextLauncher(settings)


def main() -> int:
    ignore_interrupts()
    output = os.fdopen(os.dup(1), "wb")
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    start = decode_to_driver(line)
    assert isinstance(start, StartDriver)
    return SparkDriver(output).run(start.settings)


if __name__ == "__main__":
    # PySpark leaves threads, which a normal exit would wait for.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
