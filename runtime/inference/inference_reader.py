"""Infers a table from files as the source of a task."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.cancellation import given_up_by
from sqlstream.errors import ErrorInfo, SqlStreamError
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.inference.duckdb_sniffer import interrupt_sniffing
from sqlstream.runtime.inference.file_inference import LocalFileInference
from sqlstream.specs.source import ANSWER, InferenceAnswer, InferTableSpec
from sqlstream.spi.connector import SourceStatus

POLL_WAIT_S = 0.02
INTERRUPT_AGAIN_S = 0.05
CLOSE_TIMEOUT_S = 2.0
"""How long `close` waits for the thread, which a slow disk may hold up for longer."""


class InferenceReader:
    """Implements `SourceReader` with one row. A thread of its own reads the files, so that a slow disk does not hold up the task;
    after `close` it ends at the next file or column. State: the answer, until it is polled."""

    def __init__(self, spec: InferTableSpec, files: Any) -> None:
        """`files` is the file system that may be read."""
        self._options = spec.options
        self._files = files
        self._closed = threading.Event()
        self._ended = threading.Event()
        self._answer: InferenceAnswer | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="infer table", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with given_up_by(self._closed):
                self._answer = answer(self._options, self._files)
        except BaseException as error:  # the thread's boundary: `poll` raises it on the task's thread
            self._error = error
        finally:
            self._ended.set()

    def poll(self) -> pa.RecordBatch | SourceStatus:
        if not self._ended.wait(POLL_WAIT_S):
            return SourceStatus.NOTHING_YET
        if self._error is not None:
            raise self._error
        found, self._answer = self._answer, None
        if found is None:
            return SourceStatus.END
        text = msgspec.json.encode(found).decode()
        return pa.RecordBatch.from_arrays([pa.array([text], pa.string())], schema=to_arrow_schema(ANSWER))

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self._closed.set()
        deadline_s = steady_s() + CLOSE_TIMEOUT_S
        while self._thread.is_alive() and steady_s() < deadline_s:
            # Again and again: a query that is about to begin would miss the first call.
            interrupt_sniffing(self._thread.ident or 0)
            self._thread.join(INTERRUPT_AGAIN_S)


def answer(options: dict[str, str], files: Any) -> InferenceAnswer:
    """What `LocalFileInference` says, with its errors as data: they belong to a statement that is still planned."""
    inference = LocalFileInference(files)
    try:
        if "format" in options:
            return InferenceAnswer(options["format"], inference.table(options))
        form = inference.format(options["path"])
    except SqlStreamError as error:
        return InferenceAnswer(error=ErrorInfo.of(error))
    try:
        return InferenceAnswer(form, inference.table({**options, "format": form}))
    except SqlStreamError:
        # It may need options that are asked for next.
        return InferenceAnswer(form)
