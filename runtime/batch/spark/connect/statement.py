"""One plan at a Spark Connect server: its rows as the server sends them, or written to tables by its tasks."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from sqlstream.batch_plan import BatchOutput, BatchPlan
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSession
from sqlstream.runtime.batch.spark.connect.tables import ConnectTables
from sqlstream.runtime.batch.spark.connect.tasks import FIGURES_DDL, decode_figures
from sqlstream.runtime.batch.spark.task_arguments import WriteArguments, encode_arguments
from sqlstream.runtime.batch.spark.tasks import WRITTEN_DDL, Figures
from sqlstream.runtime.batch.spark.threaded_call import ThreadedCall
from sqlstream.runtime.batch.spark.told_figures import hand_on_figures
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.host.rooted_files import RootedFiles
from sqlstream.spi.committable import Committable

_PROGRESS_S = 0.2
_CANCEL_WAIT_S = 1.5
"""How long a cancelled query may take to end; then the whole session is given up."""


class ConnectStatement:
    """Runs a plan once. State: the progress that the server reports."""

    def __init__(
        self, session: ConnectSession, plan: BatchPlan, run: BatchRun, is_cancelled: Callable[[], bool]
    ) -> None:
        self._session = session
        self._plan = plan
        self._run = run
        self._is_cancelled = is_cancelled
        self._progress = (0, 0)
        self._progress_s = 0.0
        places = run.files.places if isinstance(run.files, RootedFiles) else None
        self._tables = ConnectTables(session, plan, places, run.attempt)

    def run(self) -> None:
        """Compute all outputs, one after the other. SqlStreamError, BatchCancelled."""
        client = self._session.spark.client
        client.register_progress_handler(self._on_progress)
        try:
            for number, output in enumerate(self._plan.outputs):
                (self._deliver if output.is_ours else self._write)(number, output)
            self._run.report(*self._progress)
            self._hand_on_figures(self._tables.figures())
        except SqlStreamError:
            raise
        except Exception as error:
            if isinstance(error, BatchCancelled) or self._is_cancelled():
                raise BatchCancelled from error
            raise described_at(self._session.address, error) from error
        finally:
            client.clear_progress_handlers()
            self._tables.close()

    def _deliver(self, number: int, output: BatchOutput) -> None:
        """Give the rows of a query to the run, in their order, as fast as it takes them."""
        spool = ResultSpool(tempfile.gettempdir())

        def receive() -> bool:
            for batch in self._tables.rows(self._tables.query(output)):
                spool.add(batch)
            return True

        with contextlib.closing(spool):
            call = ThreadedCall(receive, "spark-result")
            try:
                for batch in spool.batches(lambda: call.result() is not None):
                    if batch is not None:
                        self._run.emit(number, batch)
                    self._look()
            except BaseException:
                spool.close()
                self._end(call)
                raise

    def _write(self, number: int, output: BatchOutput) -> None:
        """Let every partition write its rows; what the writers give for the commit goes to the run."""
        call = ThreadedCall(lambda: self._written(output), "spark-result")
        try:
            while not call.wait(_PROGRESS_S):
                self._look()
            found = call.result()
        except BaseException:
            self._end(call)
            raise
        assert found is not None
        committables, figures = found
        self._hand_on_figures(decode_figures(figures))
        self._run.written(number, committables)

    def _written(self, output: BatchOutput) -> tuple[list[Committable], list[str]]:
        """What the writers give for the commit, and the figures of their tasks. On the thread of the call."""
        assert output.sink is not None
        told = WriteArguments(
            self._plan.job_id,
            f"{self._run.attempt}-output",
            self._plan.config,
            self._tables.places,
            output.sink,
        )
        task = self._tables.task("write", encode_arguments(told))
        frame = self._tables.query(output).mapInArrow(task, f"{WRITTEN_DDL}, {FIGURES_DDL}")
        committables: list[Committable] = []
        figures: list[str] = []
        for batch in self._tables.rows(frame):
            texts, told_figures = (column.to_pylist() for column in batch.columns)
            for text in texts:
                if text is not None:
                    committables += msgspec.json.decode(text, type=list[Committable])
            figures += (text for text in told_figures if text is not None)
        return committables, figures

    # --- while the query runs

    def _on_progress(self, stages: Any, **_: Any) -> None:
        """On the thread of the call."""
        known = list(stages or ())
        if known:
            self._progress = (sum(s.num_completed_tasks for s in known), sum(s.num_tasks for s in known))

    def _look(self) -> None:
        """Report progress now and then. BatchCancelled."""
        if self._is_cancelled():
            raise BatchCancelled
        now_s = steady_s()
        if now_s - self._progress_s >= _PROGRESS_S:
            self._progress_s = now_s
            self._run.report(*self._progress)

    def _end(self, call: ThreadedCall[Any]) -> None:
        """Stop what still runs. A server that does not obey in time loses the session, which stops it too."""
        deadline_s = steady_s() + _CANCEL_WAIT_S
        client = self._session.spark.client
        while not call.wait(0) and steady_s() < deadline_s:
            # Again and again: a statement has several operations, and one may begin right now.
            interrupt = ThreadedCall(client.interrupt_all, "spark-interrupt")
            interrupt.wait(deadline_s - steady_s())
            call.wait(_PROGRESS_S)
        if not call.wait(0):
            self._session.is_broken = True

    def _hand_on_figures(self, figures: Figures) -> None:
        for (name, _), metrics in figures.items():
            hand_on_figures(self._run, name, metrics)


# Rows of a result between the thread that takes them from Spark and the one that gives them to the client.


IN_MEMORY_BYTES_MAX = 16 * 1024 * 1024
"""What waits beyond that goes to a file."""

IN_FILE_BYTES_MAX = 64 * 1024 * 1024 * 1024
"""The size of the file at which the thread that fills it waits."""

_TICK_S = 0.1

_Kept: TypeAlias = bytes | tuple[int, int]
"""A message, or where it is in the file and how long."""


class ResultSpool:
    """Takes batches as fast as they come and gives them in their order, so that a client that reads slowly holds up no server.

    State: batches that were not given yet, in memory and in a file without a name, until `close`. Thread-safe."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        # Closed by `close`: it outlives this call.
        self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
        self._changed = threading.Condition()
        self._kept: deque[_Kept] = deque()
        self._schema: pa.Schema | None = None
        self._memory_bytes = 0
        self._file_end = 0
        self._in_file = 0
        self._is_closed = False

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep a batch; all have one schema. ExternalError SS5001 for a full disk, BatchCancelled once it is closed."""
        message = memoryview(batch.serialize())
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._file_end < IN_FILE_BYTES_MAX)
            if self._is_closed:
                raise BatchCancelled
            self._schema = batch.schema
            if self._memory_bytes < IN_MEMORY_BYTES_MAX:
                self._kept.append(bytes(message))
                self._memory_bytes += len(message)
            else:
                self._kept.append(self._written(message))
            self._changed.notify_all()

    def batches(self, has_ended: Callable[[], bool]) -> Iterator[pa.RecordBatch | None]:
        """The batches as they come, and None at least every 100 ms while there is none. Ends when all are given that were added
        before `has_ended` returned True; it raises what has kept the rest from coming."""
        while True:
            is_last = has_ended()
            batch = self._taken()
            if batch is not None:
                yield batch
            elif is_last:
                return
            else:
                with self._changed:
                    if not self._kept:
                        self._changed.wait(_TICK_S)
                yield None

    def close(self) -> None:
        """Drop what is held; who adds more is told so. Harmless when repeated."""
        with self._changed:
            self._is_closed = True
            self._kept.clear()
            self._changed.notify_all()
            self._file.close()

    def _written(self, message: memoryview) -> tuple[int, int]:
        place = self._file_end
        written = 0
        try:
            while written < len(message):
                written += os.pwrite(self._file.fileno(), message[written:], place + written)
        except OSError as error:
            raise file_error("keep rows of the result in", self._directory, error) from error
        self._file_end += len(message)
        self._in_file += 1
        return place, len(message)

    def _taken(self) -> pa.RecordBatch | None:
        with self._changed:
            if not self._kept:
                return None
            kept = self._kept.popleft()
            if isinstance(kept, bytes):
                self._memory_bytes -= len(kept)
                message = kept
            else:
                place, length = kept
                message = os.pread(self._file.fileno(), length, place)
                self._in_file -= 1
                if not self._in_file:
                    self._file_end = 0
                    self._file.truncate(0)
            self._changed.notify_all()
        return pa.ipc.read_record_batch(pa.py_buffer(message), self._schema)
