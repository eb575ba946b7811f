"""Runs the query of a batch engine as the source of a task, so that its rows take the way of all rows."""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from sqlstream.arrow import to_arrow_schema
from sqlstream.batch_plan import BatchPlan, batch_plan
from sqlstream.graph.job_graph import JobVertex
from sqlstream.runtime.batch.casting import cast_batch
from sqlstream.runtime.batch.engine import BatchCancelled, BatchEngine, batch_engine
from sqlstream.runtime.host.clock import steady_s
from sqlstream.runtime.python.environment import files_of_thread
from sqlstream.runtime.taskmanager.metrics import OperatorCounters
from sqlstream.runtime.taskmanager.operator_chain import ChainPosition
from sqlstream.specs import BatchQuerySpec, SinkSpec
from sqlstream.spi.committable import Committable
from sqlstream.spi.connector import ConnectorContext, SourceStatus

logger = logging.getLogger(__name__)

HELD_BYTES_MAX = 16 * 1024 * 1024
"""Rows that wait for the task, and one batch; then the engine waits."""

SLICE_ROWS = 65_536

CLOSE_TIMEOUT_S = 30.0
"""How long `close` waits for an engine to return after it was interrupted."""

CANCEL_AGAIN_S = 0.1

POLL_WAIT_S = 0.05
"""How long `poll` waits for rows. Waiting here returns with the first row, and the task looks at its mail often enough."""


class BatchQueryReader:
    """Implements `SourceReader` with the rows that the engine emits on a thread of its own, and `BatchRun` for the engine.

    State: batches not yet polled, up to HELD_BYTES_MAX; figures and lines that `poll` hands on, since counters and streams are
    the task thread's alone. All is dropped by `close`, which interrupts the engine and waits for it."""

    def __init__(
        self,
        plan: BatchPlan,
        engine: BatchEngine,
        attempt: str,
        files: Any,
        print_lines: Callable[[list[str], bool], None],
        counters: Mapping[str, OperatorCounters],
        blame: Callable[[str], None] = lambda table: None,
        is_explained: bool = False,
    ) -> None:
        """`counters` are those of the tables by their name in the plan, of the query as `query`, and of the sink as `output` if
        the task has one. `blame` is called with the name of a table before `poll` raises a failure to read it. `is_explained`:
        the only row is the engine's plan."""
        self._plan = plan
        self._engine = engine
        self._attempt = attempt
        self._files = files
        self._print_lines = print_lines
        self._counters = counters
        self._blame = blame
        self._blamed = ""
        self._is_explained = is_explained
        self._schema = to_arrow_schema(plan.outputs[0].schema)
        self._changed = threading.Condition()
        self._batches: deque[pa.RecordBatch] = deque()
        self._held_bytes = 0
        self._counts: Counter[tuple[str, str]] = Counter()
        self._gauges: dict[str, int] = {}
        self._lines: list[tuple[list[str], bool]] = []
        self._is_cancelled = False
        self._has_ended = False
        self._error: BaseException | None = None
        self.committables: list[Committable] = []
        self._use_files = files_of_thread()
        self._thread = threading.Thread(target=self._run, name=f"{plan.engine} {plan.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._use_files()
        try:
            if self._is_explained:
                text = self._engine.explain(self._plan, self._files)
                self.emit(0, pa.record_batch([pa.array([text])], ["result"]))
            else:
                self._engine.run(self._plan, self)
        except BatchCancelled:
            pass
        except BaseException as error:  # the thread's boundary: `poll` raises it on the task's thread
            self._error = error
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    # --- SourceReader

    def poll(self) -> pa.RecordBatch | SourceStatus:
        with self._changed:
            if not self._batches and not self._has_ended:
                self._changed.wait(POLL_WAIT_S)
            self._hand_on_figures()
            lines = self._taken_lines()
            polled = self._next()
        self._print(lines)
        if polled is SourceStatus.END and self._error is not None:
            if self._blamed:
                self._blame(self._blamed)
            raise self._error
        return polled

    def _next(self) -> pa.RecordBatch | SourceStatus:
        if self._batches:
            batch = self._batches.popleft()
            self._held_bytes -= batch.nbytes
            self._changed.notify_all()
            return batch
        return SourceStatus.END if self._has_ended else SourceStatus.NOTHING_YET

    def next_poll_ms(self) -> int | None:
        return None

    def snapshot(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        with self._changed:
            self._is_cancelled = True
            self._batches.clear()
            self._changed.notify_all()
        deadline_s = steady_s() + CLOSE_TIMEOUT_S
        while not self._has_ended and steady_s() < deadline_s:
            # Again and again: an engine that is about to begin its query would miss the first call.
            self._engine.cancel(self._plan.job_id)
            self._thread.join(CANCEL_AGAIN_S)
        if not self._has_ended:
            logger.warning(
                "%s does not end %.0f s after its cancellation", self._thread.name, CLOSE_TIMEOUT_S
            )
        with self._changed:
            self._hand_on_figures()
            lines = self._taken_lines()
        self._print(lines)

    def _hand_on_figures(self) -> None:
        for (name, metric), n in self._counts.items():
            counters = self._counters.get(name)
            if counters is None:
                continue
            if metric == "numRecordsOut":
                counters.records_out += n
            elif metric == "numRecordsIn":
                counters.records_in += n
            else:
                counters.count(metric, n)
        self._counts.clear()
        for metric, value in self._gauges.items():
            self._counters["query"].record(metric, value)
        self._gauges.clear()

    def _taken_lines(self) -> list[tuple[list[str], bool]]:
        lines, self._lines = self._lines, []
        return lines

    def _print(self, lines: list[tuple[list[str], bool]]) -> None:
        """Not under the lock: it may wait for the client, and the engine counts and emits meanwhile."""
        for texts, is_error in lines:
            self._print_lines(texts, is_error)

    # --- BatchRun

    def emit(self, output: int, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, SLICE_ROWS):
            self._put(cast_batch(batch.slice(start, SLICE_ROWS), self._schema))

    def _put(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            while self._held_bytes >= HELD_BYTES_MAX and not self._is_cancelled:
                self._changed.wait()
            if self._is_cancelled:
                raise BatchCancelled
            self._batches.append(batch)
            self._held_bytes += batch.nbytes
            self._changed.notify_all()

    def written(self, output: int, committables: list[Committable]) -> None:
        with self._changed:
            self.committables += committables

    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def report(self, done: int, total: int) -> None:
        with self._changed:
            self._gauges["batchTasksDone"] = done
            self._gauges["batchTasksTotal"] = total

    def state(self, words: str) -> None:
        with self._changed:
            self._gauges["batchEngineStarting"] = int(bool(words))

    def count(self, table: str, metric: str, n: int) -> None:
        with self._changed:
            self._counts[table, metric] += n

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        with self._changed:
            self._lines.append((lines, is_error))

    def blame(self, table: str) -> None:
        self._blamed = table

    @property
    def files(self) -> Any:
        return self._files

    @property
    def attempt(self) -> str:
        return self._attempt


def open_batch_query(
    vertex: JobVertex,
    execution_id: str,
    context: ConnectorContext,
    counters: Mapping[int, OperatorCounters],
    position: ChainPosition,
) -> BatchQueryReader:
    """Start the query of a vertex whose head is a BatchQuerySpec; `counters` are those of its operators by id. `position` is
    moved to the table that could not be read."""
    head = vertex.operators[0]
    assert isinstance(head.spec, BatchQuerySpec)
    plan = batch_plan(vertex, context.job_id, context.config)
    # Also names files, so it holds only what a file name may.
    attempt = "".join(c if c.isalnum() else "-" for c in execution_id)
    operators = {operator.id: operator for operator in vertex.operators}
    ids = {table.name: id for table, id in zip(plan.tables, head.spec.tables, strict=True)}

    named = {name: counters[id] for name, id in ids.items()}
    named["query"] = counters[head.id]
    for sink in (o for o in vertex.operators if isinstance(o.spec, SinkSpec)):
        named["output"] = counters[sink.id]

    def blame(table: str) -> None:
        position.current = operators[ids[table]]

    return BatchQueryReader(
        plan,
        batch_engine(plan.engine),
        attempt,
        context.files,
        context.print_lines,
        named,
        blame,
        head.spec.is_explained,
    )
