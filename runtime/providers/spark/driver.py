"""Spark's driver as a process: `python -P -m sqlstream.runtime.providers.spark.driver`. It reads what to start and end
from standard input, and ends, with Spark and all TaskManagers, when that does."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Protocol, TypeAlias

import msgspec
import pyarrow as pa

from sqlstream.errors import ErrorInfo, ExternalError, SqlStreamError, UserError
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE
from sqlstream.runtime.batch.spark.connect.address import connect_address, is_connect
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSession
from sqlstream.runtime.batch.spark.errors import first_line
from sqlstream.runtime.batch.spark.packages import require_packages
from sqlstream.runtime.batch.spark.session import RunningSpark, SparkStart, check_reachable
from sqlstream.runtime.batch.spark.settings import is_of_this_machine
from sqlstream.runtime.batch.spark.threaded_call import ThreadedCall
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.process import ignore_interrupts
from sqlstream.runtime.providers.spark.launched import (
    LaunchedTaskManager,
    end_of,
    needed_packages,
    task_manager_failure,
)
from sqlstream.runtime.providers.spark.provider import (
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
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options
from sqlstream.spark import MASTER


class ContextLauncher:
    """TaskManagers as jobs of a SparkContext, whose JVM is a child of this process.

    Implements `Launcher`. State: the running Spark, until `stop`."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """SqlStreamError when Spark cannot be started."""
        check_reachable(settings[MASTER])
        launch = dict(settings)
        self._running = RunningSpark(launch, SparkStart(launch))

    @property
    def application_id(self) -> str:
        found: str = self._running.session.sparkContext.applicationId
        return found

    @property
    def jvm_process_id(self) -> int:
        return self._running.jvm.process_id

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> LaunchedTaskManager:
        context = self._running.session.sparkContext
        return LaunchedTaskManager(context, options, self._running.has_our_code, on_end)

    def failure(self) -> ErrorInfo | None:
        return None if self._running.is_alive else _spark_ended(self._running.jvm.last_words())

    def stop(self) -> None:
        self._running.stop()


def _spark_ended(last_words: str) -> ErrorInfo:
    return ErrorInfo.of(
        ExternalError(
            "SS6075",
            "Spark ended while it ran TaskManagers",
            detail=f"its last lines are\n{last_words}" if last_words else "",
            hint="look at the logs of the Spark cluster: it ends an application whose executors fail again and again",
        )
    )


# TaskManagers as operations of a session at a Spark Connect server.


_LOOK_S = 0.3
_ASK_AGAIN_S = 3.0
"""How often the server is asked whether it still has the session, which also keeps it from forgetting it."""

_ANSWER_TIMEOUT_S = 60.0
_NEEDED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
"""Of a server with executors on other hosts: the secret of the TaskManagers goes through its connections."""


class ConnectLauncher:
    """Implements `Launcher`. State: the session, until `stop`, and the question whether the server still has it."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """SqlStreamError when there is no session to be had, or the server would carry a secret in plain text."""
        address = connect_address(settings)
        assert address is not None
        self._session = ConnectSession(address)
        self._asked_s = steady_s()
        self._asking: ThreadedCall[bool] | None = None
        try:
            _check_encryption(self._session.settings_of_server)
        except UserError:
            self.stop()
            raise

    @property
    def application_id(self) -> str:
        return self._session.settings_of_server.get("spark.app.id", str(self._session.address))

    jvm_process_id = 0

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> ConnectTaskManager:
        return ConnectTaskManager(self._session, options, on_end)

    def failure(self) -> ErrorInfo | None:
        now_s = steady_s()
        if self._asking is None:
            if now_s - self._asked_s >= _ASK_AGAIN_S:
                self._asking, self._asked_s = ThreadedCall(self._session.answers, "ask-spark"), now_s
            return None
        if not self._asking.wait(0):
            return self._lost() if now_s - self._asked_s > _ANSWER_TIMEOUT_S else None
        is_there = self._asking.result()
        self._asking = None
        return None if is_there else self._lost()

    def stop(self) -> None:
        self._session.close()

    def _lost(self) -> ErrorInfo:
        return ErrorInfo.of(
            ExternalError(
                "SS6075",
                f'the Spark Connect server "{self._session.address}" has ended, or has ended the session',
                hint="start it, and run the statement again",
            )
        )


def _check_encryption(settings: Mapping[str, str]) -> None:
    if is_of_this_machine(settings.get(MASTER, "")):
        return
    missing = [key for key, value in _NEEDED.items() if settings.get(key, "false").lower() != value]
    if missing:
        raise UserError(
            "SS4072",
            f"the Spark Connect server has other machines and no '{missing[0]}', so that the secret of the TaskManagers would"
            " reach them in plain text",
            hint=f"start it with {missing[0]} = true",
        )


class ConnectTaskManager:
    """Implements `Launched`: an operation of the session, which has the resource id as its tag. State: its thread, and whether
    it is to end."""

    def __init__(self, session: ConnectSession, options: TaskManagerOptions, on_end: OnEnd) -> None:
        self.resource_id = options.resource_id
        self._session = session
        self._on_end = on_end
        self._is_released = threading.Event()
        self._call = ThreadedCall(lambda: self._run(encode_options(options).decode()), "spark-task-manager")
        self._thread = threading.Thread(target=self._watch, name=f"watch-{self.resource_id}", daemon=True)
        self._thread.start()

    def release(self, is_lost: bool) -> None:
        # Executors are the server's.
        del is_lost
        self._is_released.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self, options: str) -> list[str]:
        """What the task gives once the TaskManager has ended. On the thread of the call, whose operations have the tag."""
        from pyspark.cloudpickle import register_pickle_by_value

        from sqlstream.runtime.providers.spark import shipped

        register_pickle_by_value(shipped)
        client: Any = self._session.spark.client
        client.add_tag(self.resource_id)
        launch = shipped.make_arrow_launch(options, needed_packages(), ARCHIVE)
        frame = self._session.spark.range(0, 1, 1, 1).mapInArrow(launch, "result STRING")
        texts: list[str] = []
        for found in client.to_table_as_iterator(frame._plan.to_proto(client), {}):
            if isinstance(found, pa.Table):
                texts += found.column(0).to_pylist()
        return texts

    def _watch(self) -> None:
        while not self._call.wait(_LOOK_S):
            if self._is_released.is_set():
                # Again and again: an operation is interrupted only once the server knows it.
                with contextlib.suppress(Exception):  # a server that is gone runs nothing
                    self._session.spark.client.interrupt_tag(self.resource_id)
        self._on_end(self.resource_id, self._end())

    def _end(self) -> ErrorInfo:
        try:
            texts = self._call.result()
        except Exception as error:
            if self._is_released.is_set():
                return task_manager_failure(self.resource_id, "was released")
            cause = described_at(self._session.address, error)
            reason = first_line(cause).removeprefix("Spark could not run the query: ")
            failure = task_manager_failure(self.resource_id, f"could not run in Spark: {reason}")
            return msgspec.structs.replace(failure, hint=cause.hint)
        return end_of(self.resource_id, texts)


# What Spark's driver process needs of Spark: tasks that run TaskManagers.


OnEnd: TypeAlias = Callable[[str, ErrorInfo], None]
"""Called once for each TaskManager, with its resource id, from a thread of its own."""


class Launched(Protocol):
    """A TaskManager in a task of Spark, or on its way there. One whose executor is lost has ended, also when Spark restarts its
    task."""

    def release(self, is_lost: bool) -> None:
        """End it; returns at once. Of one that `is_lost` Spark's executor is ended too where it can be: it may hang as well, and
        would be given the next TaskManager."""

    def join(self, timeout_s: float) -> None:
        """Wait until it has ended, or for that long."""


class Launcher(Protocol):
    """A connection to Spark."""

    @property
    def application_id(self) -> str:
        """What Spark calls it."""

    @property
    def jvm_process_id(self) -> int:
        """The child of this process in which Spark runs; 0 where it has none."""

    def launch(self, options: TaskManagerOptions, on_end: OnEnd) -> Launched: ...

    def failure(self) -> ErrorInfo | None:
        """Why it can run no TaskManager any more, None while it can; returns at once."""

    def stop(self) -> None:
        """Give everything back. TaskManagers that still run end with it."""


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
        return ConnectLauncher(settings)
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
