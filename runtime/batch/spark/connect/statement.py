"""One plan at a Spark Connect server: its rows as the server sends them, or written to tables by its tasks."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from typing import Any

import msgspec

from sqlstream.batch_plan import BatchOutput, BatchPlan
from sqlstream.errors import SqlStreamError
from sqlstream.runtime.batch.engine import BatchCancelled, BatchRun
from sqlstream.runtime.batch.spark.connect.errors import described_at
from sqlstream.runtime.batch.spark.connect.figures import FIGURES_DDL, decode_figures
from sqlstream.runtime.batch.spark.connect.result_spool import ResultSpool
from sqlstream.runtime.batch.spark.connect.sessions import ConnectSession
from sqlstream.runtime.batch.spark.connect.tables import ConnectTables
from sqlstream.runtime.batch.spark.task_arguments import WriteArguments, encode_arguments
from sqlstream.runtime.batch.spark.tasks import WRITTEN_DDL, Figures
from sqlstream.runtime.batch.spark.threaded_call import ThreadedCall
from sqlstream.runtime.batch.spark.told_figures import hand_on_figures
from sqlstream.runtime.host.clock import steady_s
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
