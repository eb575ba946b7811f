"""What a batch engine promises, and what it is given for one job."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from sqlstream.batch_plan import BatchPlan


class BatchCancelled(Exception):
    """The job was cancelled, or the client reads no further; the engine stops and returns by raising it."""


class BatchRun(Protocol):
    """One run of a plan, as the engine sees it. Thread-safe. Outputs and tables are named by their index and name in the plan."""

    def emit(self, output: int, batch: pa.RecordBatch) -> None:
        """Deliver rows of an output whose rows are ours (BatchOutput.is_ours), in the engine's Arrow types; they are cast to the
        output's schema. Waits while the reader is behind, so at most a bounded number of bytes is held. BatchCancelled once the
        job is cancelled or the reader has gone."""

    def written(self, output: int, committables: list[dict[str, Any]]) -> None:
        """What SinkWriters of an output have given at their end (see runtime.batch.sinks). Nothing is visible yet: all outputs
        are committed together after `run` has returned, or aborted when it raises."""

    def is_cancelled(self) -> bool: ...

    def report(self, done: int, total: int) -> None:
        """Progress in the engine's own unit (tasks or rows); `total` is 0 while it is not known."""

    def state(self, words: str) -> None:
        """What the engine is busy with, for the live line: "starting Spark"; the empty string when it runs the query."""

    def count(self, table: str, metric: str, n: int) -> None:
        """Add to a metric of a table (numRecordsIn, numRecordsRejected, numBytesIn, …) or, with the name `output N`, of an output
        (numRecordsOut)."""

    def print_lines(self, lines: list[str], is_error: bool) -> None:
        """Lines for the user's terminal: rejected rows, and those of connector `print`."""

    @property
    def files(self) -> Any:
        """The file system that readers and writers use in this process: it refuses places that the server does not allow."""


class BatchEngine(Protocol):
    """Runs plans of its dialect, several at once when threads call it so. Made once per process; thread-safe.

    Errors are SqlStreamError: UserError for what the user can set right (no Java, wrong data), else JobError or ExternalError."""

    name: str

    def run(self, plan: BatchPlan, run: BatchRun) -> None:
        """Compute all outputs, on the caller's thread; returns when each has given its last row. BatchCancelled soon after
        `cancel`."""

    def cancel(self, job_id: str) -> None:
        """Interrupt a running plan, from any thread; harmless for one that is not running."""

    def explain(self, plan: BatchPlan) -> str:
        """The engine's own plan of every output, as text; reads no rows."""

    def close(self) -> None:
        """Cancel what runs and free everything; harmless when repeated."""
