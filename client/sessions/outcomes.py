"""What becomes of a statement: rows, a text, or a job that was submitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.client.following.lost_rows import RejectedRowsPlace, job_warnings
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.messages.rpc import JobMetrics, JobStatusReply
    from sqlstream.runtime.net.results import JobResults


@dataclasses.dataclass(frozen=True)
class Rows:
    """The outcome of a statement that runs no job. `done` is a confirmation, for a statement without an answer in rows; `note`
    is shown to the user in any case."""

    schema: Schema
    batches: tuple[pa.RecordBatch, ...]
    done: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Text:
    """The answer of EXPLAIN or VERIFY. `is_failure`: VERIFY has found a difference."""

    text: str
    is_failure: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """A submitted job. `label` names it to the user; `schema` is the result's for a query, else None; `is_bounded`: every
    source ends; `is_updating`: the batches of its result carry row kinds; `rejected`: where its sources keep undecodable rows,
    by operator id; `note`: what its user should know at its start."""

    id: str
    label: str
    is_bounded: bool
    is_updating: bool
    schema: Schema | None
    cluster: ClusterClient
    rejected: Mapping[int, RejectedRowsPlace]
    note: str = dataclasses.field(default="", kw_only=True)

    def results(self) -> JobResults:
        """The query's changelog, for one reader."""
        return self.cluster.results(self.id)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The query's changelog, batch by batch as rows arrive, until the job has ended."""
        return iter(self.results())

    def wait(self, timeout_s: float | None = None) -> tuple[JobStatus, ErrorInfo | None]:
        """Wait for the end of the job; returns its status, and its error if it failed. TimeoutError after `timeout_s`."""
        reply = self.cluster.wait(self.id, timeout_s)
        return reply.status, reply.error

    def when_ended(self, callback: Callable[[JobStatusReply], None]) -> None:
        """Call once when the job has ended, from any thread."""
        self.cluster.when_ended(self.id, callback)

    def metrics(self) -> JobMetrics:
        return self.cluster.metrics(self.id)

    def warnings(self) -> list[str]:
        """Lines on the rows that the ended job has lost, and on what else befell it."""
        return job_warnings(self.metrics(), self.rejected, lambda: self.cluster.details(self.id).restarts)

    def cancel(self) -> None:
        self.cluster.cancel(self.id)


@dataclasses.dataclass(frozen=True)
class LiteralJob(Job):
    """A query over literal rows that computes nothing: its answer needs no cluster, which knows nothing of it."""

    batches: tuple[pa.RecordBatch, ...]

    def results(self) -> JobResults:
        return LiteralResults(self.batches)

    def wait(self, timeout_s: float | None = None) -> tuple[JobStatus, ErrorInfo | None]:
        return JobStatus.FINISHED, None

    def when_ended(self, callback: Callable[[JobStatusReply], None]) -> None:
        from sqlstream.messages.rpc import JobStatusReply

        callback(JobStatusReply(self.id, JobStatus.FINISHED))

    def metrics(self) -> JobMetrics:
        from sqlstream.messages.rpc import JobMetrics

        return JobMetrics(self.id, JobStatus.FINISHED, {}, {})

    def cancel(self) -> None:
        """Nothing runs, so nothing is cancelled."""


class LiteralResults:
    """Rows that are there from the start. Implements `JobResults`. State: the batches not yet taken."""

    def __init__(self, batches: tuple[pa.RecordBatch, ...]) -> None:
        self._batches = list(batches)

    @property
    def is_ended(self) -> bool:
        return not self._batches

    @property
    def unread_bytes(self) -> int:
        return sum(batch.nbytes for batch in tuple(self._batches))

    def poll(self) -> pa.RecordBatch | None:
        return self._batches.pop(0) if self._batches else None

    def when_ready(self, callback: Callable[[], None]) -> None:
        callback()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self.poll()) is not None:
            yield batch

    def close(self) -> None:
        self._batches.clear()


Outcome = Rows | Text | Job


def literal_batches(schema: Schema, rows: tuple[tuple[object, ...], ...]) -> tuple[pa.RecordBatch, ...]:
    """One batch of rows in the encoding of `Literal.value`."""
    from sqlstream.runtime.evaluate.values import values_batches
    from sqlstream.specs import ValuesSpec

    return tuple(values_batches(ValuesSpec(rows), schema, max(1, len(rows))))  # type: ignore[arg-type]
