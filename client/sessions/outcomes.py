"""What becomes of a statement: rows, a text, or a job that was submitted; and what is known of it before its rows come."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.client.following.lost_rows import RejectedRowsPlace, job_remarks
from sqlstream.client.following.remarks import Remark
from sqlstream.errors import ErrorInfo
from sqlstream.messages.job_state import JobStatus
from sqlstream.schema import Schema
from sqlstream.types import STRING

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.messages.rpc import JobMetrics, JobStatusReply
    from sqlstream.runtime.net.results import JobResults


TEXT = Schema.of(("result", STRING))
"""The one column of an answer that is a text, as Flink calls it."""


JOB_ID = Schema.of(("job id", STRING))


def text_of(batches: Iterable[pa.RecordBatch]) -> str:
    """The text that rows of the schema TEXT are, of which there are few."""
    return "\n".join(value for batch in batches for value in batch.column(0).to_pylist())


class ResultKind(enum.Enum):
    """What a statement answered with."""

    ROWS = "ROWS"
    """The whole answer is there: SHOW, DESCRIBE, SET without a key. No job runs."""
    QUERY = "QUERY"
    """The rows of a SELECT or VALUES, as its job emits them."""
    JOB = "JOB"
    """An INSERT or a statement set: its job was submitted, and its rows go into tables."""
    CONFIRMATION = "CONFIRMATION"
    """The statement took effect and has no answer in rows: CREATE, DROP, USE, SET, RESET."""
    TEXT = "TEXT"
    """A text to be printed as it is: EXPLAIN, SHOW CREATE."""


@dataclasses.dataclass(frozen=True)
class ResultFacts:
    """What is known of the answer to a statement before its rows come, here and behind HTTP.

    `columns`: those of its rows, for any kind. `text`: that of TEXT and CONFIRMATION, else empty. `note`: lines for the user
    that come with any kind of answer. `label`: what a user calls the job, such as `INSERT INTO clicks`. `job_id`: that of QUERY
    and JOB; None for a query over literal rows, which needs no job. `is_bounded`: whether the job ends by itself, since all its
    tables end; True where no job runs. `is_updating`: whether the batches carry row kinds. `is_failure`: whether the statement
    is VERIFY, and has found a difference. `is_value`: whether a TEXT is the value of a column, as that of SHOW CREATE is; a
    server does not tell.
    """

    kind: ResultKind
    columns: Schema
    _: dataclasses.KW_ONLY
    text: str = ""
    note: str = ""
    label: str = ""
    job_id: str | None = None
    is_bounded: bool = True
    is_updating: bool = False
    is_failure: bool = False
    is_value: bool = False

    @property
    def schema(self) -> Schema | None:
        """The columns of ROWS and QUERY, else None."""
        return self.columns if self.kind in (ResultKind.ROWS, ResultKind.QUERY) else None


@dataclasses.dataclass(frozen=True)
class Rows:
    """The outcome of a statement that runs no job. `done` is a confirmation, for a statement without an answer in rows; `note`
    is shown to the user in any case."""

    schema: Schema
    batches: tuple[pa.RecordBatch, ...]
    done: str = ""
    note: str = ""

    @property
    def facts(self) -> ResultFacts:
        if self.done:
            return ResultFacts(ResultKind.CONFIRMATION, self.schema, text=self.done, note=self.note)
        if self.schema.names != TEXT.names:
            return ResultFacts(ResultKind.ROWS, self.schema, note=self.note)
        return ResultFacts(
            ResultKind.TEXT, self.schema, text=text_of(self.batches), note=self.note, is_value=True
        )


@dataclasses.dataclass(frozen=True)
class Text:
    """The answer of EXPLAIN or VERIFY. `is_failure`: VERIFY has found a difference."""

    text: str
    is_failure: bool = False

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(ResultKind.TEXT, TEXT, text=self.text, is_failure=self.is_failure)


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

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(
            ResultKind.JOB if self.schema is None else ResultKind.QUERY,
            self.schema or JOB_ID,
            note=self.note,
            label=self.label,
            job_id=self.id,
            is_bounded=self.is_bounded,
            is_updating=self.is_updating,
        )

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

    def remarks(self) -> list[Remark]:
        """What is to be told of the rows that the ended job has lost, and of what else befell it."""
        return job_remarks(self.metrics(), self.rejected, lambda: self.cluster.details(self.id).restarts)

    def cancel(self) -> None:
        self.cluster.cancel(self.id)


@dataclasses.dataclass(frozen=True)
class LiteralJob(Job):
    """A query over literal rows that computes nothing: its answer needs no cluster, which knows nothing of it."""

    batches: tuple[pa.RecordBatch, ...]

    @property
    def facts(self) -> ResultFacts:
        return dataclasses.replace(super().facts, job_id=None)

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
