"""A cluster whose JobManager runs in another process of this machine and user."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyarrow import flight

from sqlstream import __version__
from sqlstream.errors import ErrorInfo, ExternalError, InternalError, SqlStreamError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import client_rpc, rpc
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.runtime.host.random import random_id
from sqlstream.runtime.net.channels import ChannelClosed
from sqlstream.runtime.net.flight import FlightConnections
from sqlstream.runtime.net.results import JobResults, ResultStore
from sqlstream.runtime.sink_committer import tell_end
from sqlstream.runtime.split_enumerators import with_absolute_paths

if TYPE_CHECKING:
    from sqlstream.runtime.net.results import PrintLines


logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0
ATTACH_TIMEOUT_S = 10.0
LEAVE_TIMEOUT_S = 1.0
"""How long `close` waits for an answer, and then for the last lines that jobs have printed."""

RECONNECT_S = 1.0
REPEAT_S = 60.0
"""How often the next JobManager is looked for, and how long a request is repeated."""

CHECK_TIMEOUT_S = 0.6
"""Within which a JobManager answers that is there."""

Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Link:
    """The JobManager's address, and what this process shows there."""

    address: str
    connections: FlightConnections


class RemoteClusterClient:
    """Asks the JobManager at `address`, a socket that only this user can reach, with the cluster's token. Implements
    `ClusterClient`; relative paths of tables are this process's, and lines that its jobs print go to `print_lines`, by default
    to standard output and error.

    It is attached from the start until `close`, over a stream that a thread reads: the JobManager cancels the queries of a client
    that is gone, while its other jobs run on, and a client learns at once that the JobManager is gone. From then on every call
    raises ExternalError SS6034; but with `connect_again`, which finds the next JobManager or raises, requests are repeated there
    for a minute, which all of them bear, and ends are awaited there.
    State: the connection, the ends that are awaited, and a thread for each query that is being read."""

    def __init__(
        self,
        address: str,
        token: str,
        print_lines: PrintLines | None = None,
        connect_again: Callable[[], Link] | None = None,
    ) -> None:
        """With `connect_again` it makes the first connection, too. ExternalError SS6015 when the JobManager cannot be reached,
        SS6032 when it refuses the token; UserError SS6033 when it is of another release."""
        self._connect_again = connect_again
        self._link = Link(address, FlightConnections(token)) if connect_again is None else connect_again()
        self._is_there = threading.Event()
        self._closing = threading.Event()
        self._print_lines = print_lines
        self._id = random_id()
        self._lock = threading.Lock()
        self._ends: dict[str, Future[rpc.JobStatusReply]] = {}
        self._print_errors: dict[str, OSError] = {}
        self._lost: SqlStreamError | None = None
        self._is_attached: Future[None] = Future()
        self._is_closed = False
        self._follower = threading.Thread(target=self._follow, name="follow-jobs", daemon=True)
        self._follower.start()
        try:
            self._is_attached.result(ATTACH_TIMEOUT_S)
        except TimeoutError as error:
            self.close()
            raise _unreachable(f"it has not answered for {ATTACH_TIMEOUT_S:.0f} s") from error
        except BaseException:
            self.close()
            raise

    # --- the stream

    def _follow(self) -> None:
        while True:
            self._lose(self._attached())
            if self._closing.is_set() or self._is_attached.exception() is not None or not self._reconnect():
                return

    def _reconnect(self) -> bool:
        """Find the next JobManager; False when there is none to be looked for, or nobody waits any more."""
        if self._connect_again is None:
            return False
        self._link.connections.close()
        while not self._closing.is_set():
            try:
                self._link, self._id = self._connect_again(), random_id()
                return True
            except (SqlStreamError, OSError) as error:
                logger.info("the JobManager is looked for again: %s", error)
                self._closing.wait(RECONNECT_S)
        return False

    def _await_again(self) -> None:
        """Ask the next JobManager for the ends that are awaited."""
        for job_id, end in list(self._ends.items()):
            # Whoever waits for the end is told that it cannot be asked for.
            with contextlib.suppress(SqlStreamError):
                self._ask_for_end(job_id, end)

    def _ask_for_end(self, job_id: str, end: Future[rpc.JobStatusReply]) -> None:
        try:
            self._request(client_rpc.AwaitJobEnd(job_id, self._id), rpc.JobStatusReply)
        except SqlStreamError as error:
            with self._lock:
                self._ends.pop(job_id, None)
            # Another thread may wait for it by now, and a third have told it of the end.
            with contextlib.suppress(InvalidStateError):
                end.set_exception(error)
            raise

    def _attached(self) -> SqlStreamError:
        """Take what comes until the stream ends; returns why."""
        attach = rpc.encode_message(client_rpc.AttachClient(self._id, __version__))
        lost: SqlStreamError = _ended()
        try:
            for data in self._link.connections.attach(self._link.address, attach):
                event = client_rpc.decode_client_event(data)
                if self._is_closed and isinstance(event, client_rpc.ClientAttached):
                    # The farewell was sent before the JobManager knew this client: the end of the stream tells it.
                    break
                self._take(event)
        except SqlStreamError as error:
            lost = error
        except (pa.ArrowException, OSError) as error:
            lost = self._not_reached(error)
        except Exception as error:  # a thread's boundary: whoever waits is owed an answer
            logger.exception("the stream from the JobManager cannot be read")
            lost = InternalError(f"the stream from the JobManager cannot be read: {error}")
        return lost

    def _take(self, event: client_rpc.ClientEvent) -> None:
        match event:
            case client_rpc.ClientAttached():
                self._lost = None
                self._is_there.set()
                if self._is_attached.done():
                    # Its answers come over this stream, which has to be read meanwhile.
                    threading.Thread(target=self._await_again, name="await-jobs", daemon=True).start()
                else:
                    self._is_attached.set_result(None)
            case client_rpc.JobPrinted(job_id, lines, is_error):
                self._print(job_id, lines, is_error)
            case client_rpc.JobEnded(reply):
                with self._lock:
                    end = self._ends.pop(reply.job_id, None)
                if end is not None:
                    with contextlib.suppress(InvalidStateError):
                        end.set_result(reply)
            case client_rpc.RequestFailed(error):
                raise error.to_error()

    def _print(self, job_id: str, lines: list[str], is_error: bool) -> None:
        """Print lines; a job whose lines cannot be printed is cancelled, as none of them would be seen."""
        if job_id in self._print_errors:
            return
        try:
            if self._print_lines is None:
                from sqlstream.runtime.cluster_surroundings import print_to_terminal

                self._print_lines = print_to_terminal
            self._print_lines(job_id, lines, is_error)
        except OSError as error:
            self._print_errors[job_id] = error
            # A job that has ended meanwhile is forgotten, or its JobManager is gone.
            with contextlib.suppress(SqlStreamError):
                self.cancel(job_id)

    def _lose(self, error: SqlStreamError) -> None:
        """Tell all who wait that no answer comes, unless the next JobManager is looked for."""
        self._is_there.clear()
        with self._lock:
            self._lost = error
            goes_on = self._connect_again is not None and not self._closing.is_set()
            ends = [] if goes_on and self._is_attached.done() else list(self._ends.values())
            self._ends = self._ends if goes_on else {}
        for end in ends:
            with contextlib.suppress(InvalidStateError):
                end.set_exception(error)
        if not self._is_attached.done():
            self._is_attached.set_exception(error)

    # --- jobs

    def submit(self, graph: JobGraph) -> None:
        try:
            self._request(client_rpc.SubmitJob(with_absolute_paths(graph), self._id), client_rpc.JobSubmitted)
        except KeyboardInterrupt:
            # Whoever interrupts the submission does not know the job that it may have started.
            with contextlib.suppress(SqlStreamError):
                self.cancel(graph.job_id)
            raise

    def results(self, job_id: str) -> JobResults:
        link = self._link
        return RemoteResults(lambda: link.connections.read_results(link.address, job_id))

    def when_ended(self, job_id: str, callback: Callable[[rpc.JobStatusReply], None]) -> None:
        tell_end(self._end_of(job_id), job_id, callback)

    def wait(self, job_id: str, timeout_s: float | None = None) -> rpc.JobStatusReply:
        reply = self._end_of(job_id).result(timeout_s)
        if job_id in self._print_errors:
            raise self._print_errors[job_id]
        return reply

    def _end_of(self, job_id: str) -> Future[rpc.JobStatusReply]:
        """The end of a job, when the stream tells it: behind all lines that the job has printed."""
        with self._lock:
            if self._lost is not None and (self._connect_again is None or self._closing.is_set()):
                raise self._lost
            known = self._ends.get(job_id)
            end = self._ends.setdefault(job_id, Future())
        if known is None:
            self._ask_for_end(job_id, end)
        return end

    def status(self, job_id: str) -> rpc.JobStatusReply:
        return self._request(client_rpc.RequestJobStatus(job_id), rpc.JobStatusReply)

    def cancel(self, job_id: str) -> None:
        self._request(client_rpc.CancelJob(job_id), rpc.JobStatusReply)

    def metrics(self, job_id: str) -> rpc.JobMetrics:
        return self._request(client_rpc.RequestJobMetrics(job_id), client_rpc.JobMetricsReply).metrics

    def details(self, job_id: str) -> rpc.JobDetails:
        return self._request(client_rpc.RequestJobDetails(job_id), client_rpc.JobDetailsReply).details

    def described(self, job_id: str) -> tuple[rpc.JobDetails, JobGraph]:
        found = self._request(client_rpc.RequestDescribedJob(job_id), client_rpc.DescribedJobReply)
        return found.details, found.job_graph

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        return self._request(client_rpc.RequestJobExceptions(job_id), client_rpc.JobExceptionsReply).errors

    def job_graph(self, job_id: str) -> JobGraph:
        return self._request(client_rpc.RequestJobGraph(job_id), client_rpc.JobGraphReply).job_graph

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        return self._request(
            client_rpc.RequestCheckpointStatistics(job_id), client_rpc.CheckpointStatisticsReply
        ).statistics

    def take_checkpoint(self, job_id: str, trigger_id: str) -> None:
        self._request(client_rpc.TakeCheckpoint(job_id, trigger_id), client_rpc.SavepointStatusReply)

    def take_savepoint(self, request: client_rpc.SavepointRequest) -> None:
        self._request(request, client_rpc.SavepointStatusReply)

    def savepoint_status(self, job_id: str, trigger_id: str) -> client_rpc.SavepointStatusReply:
        return self._request(
            client_rpc.RequestSavepointStatus(job_id, trigger_id), client_rpc.SavepointStatusReply
        )

    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None:
        self._request(client_rpc.DisposeSavepoint(path, dict(config or {})), client_rpc.SavepointDisposed)

    def add_artifact_part(self, artifact: Artifact, offset: int, data: bytes) -> int:
        request = client_rpc.AddArtifactPart(artifact, offset, data)
        return self._request(request, client_rpc.ArtifactHeld).size

    def artifact_size(self, digest: str) -> int | None:
        held = self._request(client_rpc.RequestArtifact(digest), client_rpc.ArtifactHeld)
        return held.size if held.is_whole else None

    def jobs(self) -> tuple[rpc.JobOverviewEntry, ...]:
        return self._request(client_rpc.RequestJobOverview(), client_rpc.JobOverviewReply).jobs

    def task_managers(self) -> tuple[rpc.TaskManagerOverview, ...]:
        return self._request(
            client_rpc.RequestClusterOverview(), client_rpc.ClusterOverviewReply
        ).task_managers

    def check_answers(self) -> None:
        """Return when the JobManager answers, without a second attempt. ExternalError SS6034 when it is gone, SS6015 when it has
        not answered for CHECK_TIMEOUT_S."""
        link, lost = self._link, self._lost
        if lost is not None:
            raise self._no_other() from lost
        try:
            request = rpc.encode_message(client_rpc.RequestClusterOverview())
            link.connections.request(link.address, request, CHECK_TIMEOUT_S)
        except (pa.ArrowException, OSError) as error:
            if self._lost is not None:
                raise self._no_other() from error
            raise ExternalError("SS6015", "the JobManager does not answer") from error

    def _no_other(self) -> ExternalError:
        """The JobManager that this process was attached to is gone, and it has found none in its place."""
        if self._connect_again is None:
            return _ended()
        return ExternalError(
            "SS6034",
            "the JobManager has ended, or broke off the connection, and none is found in its place",
            hint="start it again, or another one: it is looked for again and again",
        )

    def close(self) -> None:
        """Leave: queries are cancelled, other jobs run on. Harmless when repeated."""
        self._is_closed = True
        self._closing.set()
        # A JobManager that is gone needs no farewell.
        with contextlib.suppress(SqlStreamError):
            self._request(client_rpc.DetachClient(self._id), client_rpc.ClientDetached, LEAVE_TIMEOUT_S)
            self._follower.join(LEAVE_TIMEOUT_S)
        self._link.connections.close()

    def _request(
        self, request: client_rpc.ClientRequest, expected: type[Reply], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> Reply:
        data = self._sent(rpc.encode_message(request), timeout_s)
        reply: client_rpc.ClientReply = client_rpc.decode_client_reply(data)
        if isinstance(reply, client_rpc.RequestFailed):
            raise reply.error.to_error()
        if not isinstance(reply, expected):
            raise InternalError(f"{type(reply).__name__} answers {type(request).__name__}")
        return reply

    def _sent(self, request: bytes, timeout_s: float) -> bytes:
        """The answer of the JobManager, or of the next one."""
        deadline_s = time.monotonic() + REPEAT_S
        while True:
            link, lost = self._link, self._lost
            repeats = self._connect_again is not None and not self._closing.is_set()
            if lost is None:
                try:
                    return link.connections.request(link.address, request, timeout_s)
                except (pa.ArrowException, OSError) as error:
                    lost = self._not_reached(error)
                    lost.__cause__ = error
            if not repeats or time.monotonic() > deadline_s or lost.code not in ("SS6015", "SS6034"):
                raise self._no_other() if lost.code == "SS6034" else lost
            self._closing.wait(RECONNECT_S / 10)
            self._is_there.wait(RECONNECT_S)

    def _not_reached(self, error: Exception) -> ExternalError:
        if isinstance(error, flight.FlightUnauthenticatedError):
            return ExternalError("SS6032", "the server refuses the secret of this command")
        if self._is_attached.done() and isinstance(error, flight.FlightUnavailableError):
            return _ended()
        return _unreachable(str(error).splitlines()[0])


def _unreachable(reason: str) -> ExternalError:
    return ExternalError("SS6015", f"could not reach the JobManager: {reason}")


def _ended() -> ExternalError:
    return ExternalError("SS6034", "the server has ended, or broke off the connection")


# The rows of a job whose JobManager runs in another process.


BYTES_AHEAD_MAX = 4 * 1024 * 1024
"""Rows of a query that are read before the reader takes them, and one batch."""

_JOB = "job"
"""The only job of the store of one RemoteResults."""


class RemoteResults:
    """The rows of one job, read on a thread that starts with the first call. Implements `JobResults`.

    State: rows up to BYTES_AHEAD_MAX and one batch; the JobManager keeps the others. When the connection breaks, the rows end;
    the job's status tells why. Any other failure to read them is raised behind the rows before it, as InternalError."""

    def __init__(self, read: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._read = read
        self._store = ResultStore(BYTES_AHEAD_MAX, lambda job_id, lines, is_error: None)
        self._store.open(_JOB)
        self._rows = self._store.reader(_JOB)
        self._lock = threading.Lock()
        self._is_started = False
        self._error: InternalError | None = None

    @property
    def is_ended(self) -> bool:
        return self._rows.is_ended

    @property
    def unread_bytes(self) -> int:
        return self._rows.unread_bytes

    def poll(self) -> pa.RecordBatch | None:
        self._start()
        batch = self._rows.poll()
        if batch is None:
            self._raise_error()
        return batch

    def when_ready(self, callback: Callable[[], None]) -> None:
        self._start()
        self._rows.when_ready(callback)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._start()
        yield from self._rows
        self._raise_error()

    def close(self) -> None:
        self._rows.close()

    def _raise_error(self) -> None:
        if self._error is not None and self.is_ended:
            raise self._error

    def _start(self) -> None:
        with self._lock:
            if self._is_started:
                return
            self._is_started = True
        threading.Thread(target=self._read_all, name="read-results", daemon=True).start()

    def _read_all(self) -> None:
        try:
            for batch in self._read():
                self._store.put_rows(_JOB, 0, batch, lambda: False)
        except (ChannelClosed, pa.ArrowException, OSError):
            # The reader has left, or the rows end too early: whoever reads them asks for the job's status next.
            pass
        except Exception as error:  # a thread's boundary: the reader raises it
            logger.exception("the rows of a job cannot be read")
            self._error = InternalError(f"the rows of the job cannot be read: {error}")
        finally:
            self._store.close(_JOB)
