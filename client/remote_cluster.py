"""A cluster whose JobManager runs in another process of this machine and user."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from runtime.host.clock import steady_s
from runtime.net.flight import FlightConnections
from runtime.net.results import JobResults
from sqlstream.errors import ErrorInfo, ExternalError, InternalError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import (
    CancelJob,
    ClientReply,
    ClientRequest,
    ClusterOverviewReply,
    JobDetails,
    JobDetailsReply,
    JobExceptionsReply,
    JobGraphReply,
    JobMetrics,
    JobMetricsReply,
    JobOverviewEntry,
    JobOverviewReply,
    JobStatusReply,
    JobSubmitted,
    RequestClusterOverview,
    RequestFailed,
    RequestJobDetails,
    RequestJobExceptions,
    RequestJobGraph,
    RequestJobMetrics,
    RequestJobOverview,
    RequestJobStatus,
    SubmitJob,
    TaskManagerOverview,
    decode_client_reply,
    encode_message,
)

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0
STATUS_INTERVAL_S = 0.1
"""Interval between questions for the status of the jobs whose end is awaited."""

BATCHES_AHEAD_MAX = 4
"""Batches of a query that are read before the reader takes them."""

Reply = TypeVar("Reply")


class RemoteClusterClient:
    """Asks the JobManager at `address`, a socket that only this user can reach, with the cluster's token. Implements
    `ClusterClient`; ExternalError SS6015 when the JobManager cannot be reached.

    State: the connection, a thread that asks for the status of the jobs whose end is awaited while there are any, and a thread
    for each query that is being read.
    """

    def __init__(self, address: str, token: str) -> None:
        self._address = address
        self._connections = FlightConnections(token)
        self._awaited: dict[str, list[Callable[[JobStatusReply], None]]] = {}
        self._lock = threading.Lock()
        self._is_asking = False
        self._closed = threading.Event()

    def submit(self, graph: JobGraph) -> None:
        self._request(SubmitJob(graph), JobSubmitted)

    def results(self, job_id: str) -> JobResults:
        return _RemoteResults(lambda: self._connections.read_results(self._address, job_id))

    def when_ended(self, job_id: str, callback: Callable[[JobStatusReply], None]) -> None:
        reply = self.status(job_id)
        if reply.status.is_terminal:
            callback(reply)
            return
        with self._lock:
            self._awaited.setdefault(job_id, []).append(callback)
            if not self._is_asking:
                self._is_asking = True
                threading.Thread(target=self._ask_for_ends, name="job-ends", daemon=True).start()

    def _ask_for_ends(self) -> None:
        while True:
            self._closed.wait(STATUS_INTERVAL_S)
            with self._lock:
                awaited = list(self._awaited)
                if not awaited:
                    self._is_asking = False
                    return
            for job_id in awaited:
                reply = self._status_or_lost(job_id)
                if reply.status.is_terminal:
                    self._end(reply)

    def _status_or_lost(self, job_id: str) -> JobStatusReply:
        """The status of a job; SUSPENDED when the JobManager has ended, or this client is closed."""
        try:
            return self.status(job_id)
        except Exception as error:  # a thread's boundary: the callbacks are owed an answer
            return JobStatusReply(job_id, JobStatus.SUSPENDED, ErrorInfo.of(error))

    def _end(self, reply: JobStatusReply) -> None:
        with self._lock:
            callbacks = self._awaited.pop(reply.job_id, [])
        for callback in callbacks:
            try:
                callback(reply)
            except Exception:  # a thread's boundary: the ends of other jobs are still to be told
                logger.exception("a callback failed at the end of job %s", reply.job_id)

    def wait(self, job_id: str, timeout_s: float | None = None) -> JobStatusReply:
        deadline_s = None if timeout_s is None else steady_s() + timeout_s
        while not (reply := self.status(job_id)).status.is_terminal:
            if deadline_s is not None and steady_s() >= deadline_s:
                raise TimeoutError
            self._closed.wait(STATUS_INTERVAL_S)
        return reply

    def status(self, job_id: str) -> JobStatusReply:
        return self._request(RequestJobStatus(job_id), JobStatusReply)

    def cancel(self, job_id: str) -> None:
        self._request(CancelJob(job_id), JobStatusReply)

    def metrics(self, job_id: str) -> JobMetrics:
        return self._request(RequestJobMetrics(job_id), JobMetricsReply).metrics

    def details(self, job_id: str) -> JobDetails:
        return self._request(RequestJobDetails(job_id), JobDetailsReply).details

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        return self._request(RequestJobExceptions(job_id), JobExceptionsReply).errors

    def job_graph(self, job_id: str) -> JobGraph:
        return self._request(RequestJobGraph(job_id), JobGraphReply).job_graph

    def jobs(self) -> tuple[JobOverviewEntry, ...]:
        return self._request(RequestJobOverview(), JobOverviewReply).jobs

    def task_managers(self) -> tuple[TaskManagerOverview, ...]:
        return self._request(RequestClusterOverview(), ClusterOverviewReply).task_managers

    def close(self) -> None:
        """Disconnect; jobs run on."""
        self._closed.set()
        self._connections.close()

    def _request(self, request: ClientRequest, expected: type[Reply]) -> Reply:
        try:
            data = self._connections.request(self._address, encode_message(request), REQUEST_TIMEOUT_S)
        except (pa.ArrowException, OSError) as error:
            raise ExternalError(
                "SS6015",
                f"could not reach the JobManager: {str(error).splitlines()[0]}",
                hint="see whether the server runs: sqlstream status",
            ) from error
        reply: ClientReply = decode_client_reply(data)
        if isinstance(reply, RequestFailed):
            raise reply.error.to_error()
        if not isinstance(reply, expected):
            raise InternalError(f"{type(reply).__name__} answers {type(request).__name__}")
        return reply


class _RemoteResults:
    """The rows of one job, read on a thread that starts with the first call. Implements `JobResults`.

    State: at most BATCHES_AHEAD_MAX batches; the JobManager keeps the others. When the connection breaks, the rows end; the
    job's status tells why.
    """

    def __init__(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._read = read
        self._batches: queue.Queue[pa.RecordBatch | None] = queue.Queue(BATCHES_AHEAD_MAX)
        self._lock = threading.Lock()
        self._callback: Callable[[], None] | None = None
        self._is_started = False
        self._is_closed = False
        self.is_ended = False

    @property
    def unread_bytes(self) -> int:
        with self._batches.mutex:
            return sum(batch.nbytes for batch in self._batches.queue if batch is not None)

    def poll(self) -> pa.RecordBatch | None:
        self._start()
        if self.is_ended:
            return None
        try:
            return self._taken(self._batches.get_nowait())
        except queue.Empty:
            return None

    def when_ready(self, callback: Callable[[], None]) -> None:
        self._start()
        with self._lock:
            is_ready = self.is_ended or not self._batches.empty()
            if not is_ready:
                self._callback = callback
        if is_ready:
            callback()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._start()
        while not self.is_ended:
            if (batch := self._taken(self._batches.get())) is not None:
                yield batch

    def close(self) -> None:
        self._is_closed = True
        self.is_ended = True
        # A reader that is blocked by the full queue notices.
        with contextlib.suppress(queue.Empty):
            while True:
                self._batches.get_nowait()
        # A thread that waits for the next batch, and the one that reads them, both go on.
        with contextlib.suppress(queue.Full):
            self._batches.put_nowait(None)
        self._call()

    def _taken(self, batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
        if batch is None:
            self.is_ended = True
        return batch

    def _start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        threading.Thread(target=self._read_all, name="read-results", daemon=True).start()

    def _read_all(self) -> None:
        try:
            for batch in self._read():
                if self._is_closed:
                    return
                self._put(batch)
        except (pa.ArrowException, OSError):
            # The end of the rows, too early: whoever reads them asks for the job's status next.
            pass
        self._put(None)

    def _put(self, batch: pa.RecordBatch | None) -> None:
        self._batches.put(batch)
        self._call()

    def _call(self) -> None:
        with self._lock:
            callback, self._callback = self._callback, None
        if callback is not None:
            callback()
