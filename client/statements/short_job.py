"""Short jobs with which a statement asks something while it is planned."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from sqlstream.cancellation import check_not_given_up
from sqlstream.errors import ErrorInfo, ExternalError, JobError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import ExecutionState

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.client.clusters.cluster_client import ClusterClient
    from sqlstream.messages.rpc import JobDetails, JobStatusReply
    from sqlstream.runtime.net.results import JobResults

GIVEN_UP_CHECK_S = 0.1
"""How long a statement waits for rows before it looks whether it was given up."""


class JobEnd:
    """The end of a job, which the cluster tells once. State: what was told."""

    def __init__(self) -> None:
        self._told: JobStatusReply | None = None
        self._is_told = threading.Event()

    def tell(self, reply: JobStatusReply) -> None:
        self._told = reply
        self._is_told.set()

    def awaited(self, deadline_s: float = float("inf")) -> JobStatusReply:
        """The errors of `await_event`."""
        await_event(self._is_told, deadline_s)
        assert self._told is not None
        return self._told


class Answer(Protocol):
    """What the one row of such a job holds, as JSON."""

    @property
    def error(self) -> ErrorInfo | None: ...


AnswerType = TypeVar("AnswerType", bound=Answer)


def answer_of(
    graph: JobGraph, cluster: ClusterClient, timeout_s: float, kind: type[AnswerType], late: ExternalError
) -> AnswerType:
    """The answer of a job, whose error is raised. `late` when it takes longer than `timeout_s`; the errors of
    `answered_texts`."""
    try:
        texts = answered_texts(graph, cluster, timeout_s)
    except TimeoutError as error:
        raise late from error
    answer = msgspec.json.decode(texts[0], type=kind)
    if answer.error is not None:
        raise answer.error.to_error()
    return answer


def answered_texts(graph: JobGraph, cluster: ClusterClient, timeout_s: float = float("inf")) -> list[str]:
    """The first column of all rows of a job. The job's error when it fails, JobError SS6031 soon after nobody awaits the
    statement, JobError SS6003 when no task got a slot in this time, TimeoutError when one did and takes longer; the job is
    cancelled then."""
    deadline_s = time.monotonic() + timeout_s
    cluster.submit(graph)
    rows, end = cluster.results(graph.job_id), JobEnd()
    try:
        cluster.when_ended(graph.job_id, end.tell)
        texts = [text for batch in awaited_batches(rows, deadline_s) for text in batch.column(0).to_pylist()]
        ended = end.awaited(deadline_s)
    except BaseException as error:
        rows.close()
        cluster.cancel(graph.job_id)
        if isinstance(error, TimeoutError) and not _was_deployed(cluster.details(graph.job_id)):
            raise _no_slot(graph.name, timeout_s) from None
        raise
    if ended.error is not None:
        raise ended.error.to_error()
    return texts


def _was_deployed(job: JobDetails) -> bool:
    """Whether a TaskManager was given any task of the job."""
    subtasks = [subtask for vertex in job.vertices for subtask in vertex.subtasks]
    return any(ExecutionState.DEPLOYING.value in subtask.timestamps_ms for subtask in subtasks)


def _no_slot(name: str, timeout_s: float) -> JobError:
    return JobError(
        "SS6003",
        f'job "{name}", which the statement needs while it is planned, got no slot within {timeout_s:g} s',
        hint="stop a job (SHOW JOBS), start more TaskManagers or raise taskmanager.numberOfTaskSlots",
    )


def awaited_batches(rows: JobResults, deadline_s: float = float("inf")) -> Iterator[pa.RecordBatch]:
    """All rows as they come. JobError SS6031 soon after nobody awaits the statement, TimeoutError when no row comes and the clock
    (`time.monotonic`) is past the deadline."""
    while not rows.is_ended:
        check_not_given_up()
        batch = rows.poll()
        if batch is not None:
            yield batch
            continue
        is_ready = threading.Event()
        rows.when_ready(is_ready.set)
        await_event(is_ready, deadline_s)


def await_event(event: threading.Event, deadline_s: float = float("inf")) -> None:
    """JobError SS6031 soon after nobody awaits the statement, TimeoutError when the clock (`time.monotonic`) is past the
    deadline before the event."""
    while not event.wait(GIVEN_UP_CHECK_S):
        check_not_given_up()
        if time.monotonic() > deadline_s:
            raise TimeoutError
