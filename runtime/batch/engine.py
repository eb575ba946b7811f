"""What a batch engine promises, and what it is given for one run."""

from __future__ import annotations

import importlib
import threading
from typing import Any, Protocol

import pyarrow as pa

from sqlstream.batch_plan import BatchPlan
from sqlstream.errors import InternalError
from sqlstream.runtime.host.process_end import before_end
from sqlstream.spi.committable import Committable


class BatchCancelled(Exception):
    """The run was cancelled, or nobody reads further; the engine stops and returns by raising it."""


class BatchRun(Protocol):
    """One run of a plan, as the engine sees it. Thread-safe. Outputs and tables are named by their index and name in the plan."""

    def emit(self, output: int, batch: pa.RecordBatch) -> None:
        """Deliver rows of an output, in the engine's Arrow types; they are cast to the output's schema, and go to the client or
        to the sink. Waits while the reader is behind, so that a bounded number of bytes is held. BatchCancelled once the job is
        cancelled or the reader has gone."""

    def written(self, output: int, committables: list[Committable]) -> None:
        """What SinkWriters in other processes have given at their end, for an engine that does not emit the rows of an INSERT.

        See sqlstream.runtime.batch.spark.tasks. Nothing is visible yet: the job commits all outputs together when it has
        finished."""

    def is_cancelled(self) -> bool: ...

    def report(self, done: int, total: int) -> None:
        """Progress in tasks of the engine; `total` is 0 while it is not known."""

    def state(self, words: str) -> None:
        """What the engine is busy with before it runs the query, such as "starting Spark"; the empty string ends it."""

    def count(self, table: str, metric: str, n: int) -> None:
        """Add to a metric of a table (numRecordsOut: the rows that were read; numBytesIn, numRecordsRejected) or, with the name
        `output`, of the sink (numRecordsIn: the rows that were written elsewhere)."""

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        """Lines for the user's terminal: the first rejected rows."""

    def blame(self, table: str) -> None:
        """The failure that the engine is about to raise comes from reading this table: its place in the SQL is underlined."""

    @property
    def files(self) -> Any:
        """The file system that readers and writers use in this process: it refuses places that the server does not allow."""

    @property
    def attempt(self) -> str:
        """Unique among all runs; names the files of readers and writers (ConnectorContext.vertex_id)."""


class BatchEngine(Protocol):
    """Runs plans of its dialect, several at once when threads call it so. One per process; thread-safe.

    Errors are SqlStreamError: UserError for what the user can set right (no Java, wrong data), else JobError or ExternalError."""

    name: str

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        """Compute all outputs, on the caller's thread; returns when each has given its last row. BatchCancelled soon after
        `cancel`."""

    def cancel(self, job_id: str) -> None:
        """Interrupt the runs of a job, from any thread; harmless when there are none."""

    def explain(self, plan: BatchPlan, files: Any) -> str:
        """How each table is read, then the engine's own plan of every output, as text; reads no rows. `files` decides which files
        may be looked at."""

    def close(self) -> None:
        """Cancel what runs and free everything; harmless when repeated."""


# The batch engines of this process: each is made when the first job needs it, and ends with the process.


ENGINES: dict[str, str] = {
    "duckdb": "sqlstream.runtime.batch.duckdb:DuckDbEngine",
    "spark": "sqlstream.runtime.batch.spark.engine:SparkEngine",
}
"""Name → "module:class"."""

_made: dict[str, BatchEngine] = {}
_making = threading.Lock()
_is_over = False


def batch_engine(name: str) -> BatchEngine:
    """The engine of that name, warm once a job has used it. BatchCancelled while the process ends."""
    with _making:
        if _is_over:
            raise BatchCancelled
        if name not in _made:
            place = ENGINES.get(name)
            if place is None:
                raise InternalError(f'there is no batch engine "{name}"')
            module, kind = place.split(":")
            engine: BatchEngine = getattr(importlib.import_module(module), kind)()
            _made[name] = engine
        return _made[name]


def close_engines() -> None:
    """End all engines, whose files are gone then, and take no more jobs. Harmless when repeated."""
    global _is_over
    with _making:
        _is_over = True
        engines = list(_made.values())
        _made.clear()
    for engine in engines:
        engine.close()


before_end(close_engines)
