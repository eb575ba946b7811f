"""TaskManagers as operations of a session at a Spark Connect server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.errors import ErrorInfo, ExternalError, UserError
from sqlstream.runtime.batch.spark.code_archive import ARCHIVE
from sqlstream.runtime.batch.spark.connect.address import connect_address
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSession
from sqlstream.runtime.batch.spark.errors import first_line
from sqlstream.runtime.batch.spark.settings import ENCRYPTED, is_of_this_machine
from sqlstream.runtime.batch.spark.threaded_call import ThreadedCall
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.providers.spark.launched import end_of, needed_packages, task_manager_failure
from sqlstream.runtime.providers.spark.launcher import OnEnd
from sqlstream.runtime.taskmanager.task_manager_options import TaskManagerOptions, encode_options
from sqlstream.spark import MASTER

_LOOK_S = 0.3
_ASK_AGAIN_S = 3.0
"""How often the server is asked whether it still has the session, which also keeps it from forgetting it."""

_ANSWER_TIMEOUT_S = 60.0


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
    missing = [key for key, value in ENCRYPTED.items() if settings.get(key, "false").lower() != value]
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
