"""The thread around the JobManager: it takes events and the questions of clients."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, InternalError, SqlStreamError, UserError
from sqlstream.graph.job_graph import JobGraph, encode_job_graph
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointKind, CheckpointStatistics
from sqlstream.messages.client_rpc import SavepointRequest, SavepointStatusReply, StopWithSavepoint
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.runtime.event_loop import EventLoop
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.dispatcher import Dispatcher
from sqlstream.runtime.jobmanager.instruction_executor import InstructionExecutor, JobManagerServices
from sqlstream.runtime.jobmanager.job_details import (
    checkpoints_at,
    details_at,
    entry_at,
    metrics_at,
    task_manager_at,
)
from sqlstream.runtime.jobmanager.job_manager import JobManager, JobManagerConfig
from sqlstream.runtime.logs import of_job

Answer = TypeVar("Answer")

ANSWER_TIMEOUT_S = 30.0
END_CHECK_S = 1.0

CLOCKS_APART_MS = 20
"""A change of the distance between wall clock and steady clock that is not shown."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Question:
    ask: Callable[[JobManager], Any]
    answer: Future[Any]


@dataclass(frozen=True)
class _Submission:
    job_graph: JobGraph
    encoded: bytes
    answer: Future[str]
    restored: tuple[events.LoadedCheckpoint, ...] = ()
    is_recovered: bool = False


@dataclass(frozen=True)
class _EndAwaited:
    job_id: str
    answer: Future[rpc.JobStatusReply]


@dataclass(frozen=True)
class _EndForgotten:
    job_id: str
    answer: Future[rpc.JobStatusReply]


class JobManagerShell:
    """One thread around a JobManager; all public methods are thread-safe.

    Clients: submit, cancel, status, wait, metrics, details, exceptions, overview, cluster; checkpoints and savepoints. Network:
    `receive`. Resource provider: `task_manager_exited`. `on_crash(error)` is called when the JobManager's own rules are broken;
    it answers nothing after that. All deadlines are on the clock `steady_ms`; `now_ms` dates what clients are shown.
    """

    def __init__(
        self,
        config: JobManagerConfig,
        services: JobManagerServices,
        steady_ms: Callable[[], int],
        now_ms: Callable[[], int],
        on_crash: Callable[[ErrorInfo], None],
    ) -> None:
        self._job_manager = JobManager(config, _log_broken)
        self._steady_ms = steady_ms
        self._now_ms = now_ms
        self._on_crash = on_crash
        self._being_stored: dict[str, list[Future[str]]] = {}
        self._ends_awaited: dict[str, list[Future[rpc.JobStatusReply]]] = {}
        # All futures of `end_of` that have no result yet, whether their event was handled or not.
        self._unanswered: set[Future[rpc.JobStatusReply]] = set()
        self._unanswered_lock = threading.Lock()
        self._distance_ms: int | None = None
        self._end: BaseException | None = None
        self._store = services.store
        self._loop: EventLoop[Any] = EventLoop(
            "job-manager", self._take, self._tick, self._crashed, self._job_manager.tick_after_ms
        )
        self._executor = InstructionExecutor(services, self._loop.put, self._wall_ms)
        self._checkpoints = services.checkpoints

    def remember(self, ended: Iterable[events.EndedJob]) -> None:
        """Know jobs that have ended under an earlier JobManager, or do not run under this one, with times of the wall clock."""
        behind_ms = self._now_ms() - self._steady_ms()
        for job in ended:
            self._add_ended(replace(job, details=details_at(job.details, lambda ms: ms - behind_ms)))

    def _add_ended(self, job: events.EndedJob) -> None:
        self._put(_Question(lambda j: j.dispatcher.add_ended(job), Future()))

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        """End the loop and its threads. Jobs that have not ended are SUSPENDED, and stay in the store; callers that wait for
        anything else get UserError SS6012."""
        has_crashed = self._end is not None
        end = self._end = UserError("SS6012", "the cluster has ended")
        self._loop.stop()
        try:
            if not has_crashed:
                self._suspend_jobs()
        finally:
            self._executor.stop()
            self._fail_unanswered(end)

    # --- network and provider

    def receive(self, message: rpc.ToJobManager) -> None:
        self._loop.put(events.MessageReceived(message))

    def task_manager_exited(self, resource_id: str, error: ErrorInfo) -> None:
        self._loop.put(events.TaskManagerExited(resource_id, error))

    # --- clients

    def submit(
        self,
        job_graph: JobGraph,
        encoded: bytes | None = None,
        restored: tuple[events.LoadedCheckpoint, ...] = (),
        is_recovered: bool = False,
    ) -> str:
        """Submit a job; returns its id once it is stored. UserError or JobError when it cannot run. `encoded` is the graph as
        `encode_job_graph` gives it, which need not be done again then; `restored` is what it goes on from, newest first. One that
        `is_recovered` has run under an earlier JobManager."""
        answer: Future[str] = Future()
        encoded = encoded or encode_job_graph(job_graph)
        self._put(_Submission(job_graph, encoded, answer, restored, is_recovered))
        return self._result(answer)

    def cancel(self, job_id: str) -> None:
        """Cancel a job; returns before it has ended, and does nothing when it ended before. UserError when there is none. Of a
        job that would run again after the death of this process, also one that waits for it, the request is in the store on
        return."""
        self._keep_end(events.CancelRequested(job_id))
        self._put(events.CancelRequested(job_id))

    def end_again(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        """Repeat what an earlier JobManager was asked for, and the store still has."""
        self._put(request)

    def _keep_end(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        status, graph = self._ask(lambda d: (d.status(request.job_id).status, d.job_graph(request.job_id)))
        if not status.is_globally_terminal and not graph.is_query:
            self._executor.keep_end(request)

    def suspend(self, job_id: str) -> None:
        """Leave a job, with its checkpoints, to another JobManager; returns before its tasks have ended."""
        self._put(events.SuspendRequested(job_id))

    def status(self, job_id: str) -> rpc.JobStatusReply:
        return self._ask(lambda d: d.status(job_id))

    def wait(self, job_id: str, timeout_s: float | None = None) -> rpc.JobStatusReply:
        """Wait until the job has ended, or raise TimeoutError. UserError when there is no such job."""
        end = self.end_of(job_id)
        try:
            return self._wait_for(end, timeout_s)
        except TimeoutError:
            self._put(_EndForgotten(job_id, end))
            self._forget_unanswered(end)
            raise

    def end_of(self, job_id: str) -> Future[rpc.JobStatusReply]:
        """The final status of a job, once it has ended: for callers that have no thread to wait with. Its exception is a
        UserError when there is no such job, or the JobManager is stopped first, and an InternalError when it breaks off."""
        answer: Future[rpc.JobStatusReply] = Future()
        with self._unanswered_lock:
            self._put(_EndAwaited(job_id, answer))
            self._unanswered.add(answer)
        answer.add_done_callback(self._forget_unanswered)
        return answer

    def _forget_unanswered(self, answer: Future[rpc.JobStatusReply]) -> None:
        with self._unanswered_lock:
            self._unanswered.discard(answer)

    def job_graph(self, job_id: str) -> JobGraph:
        """The graph of a job. UserError when there is none, or its record is already forgotten."""
        return self._ask(lambda d: d.job_graph(job_id))

    def metrics(self, job_id: str) -> rpc.JobMetrics:
        """The latest figures. Also requests fresh ones from the TaskManagers, for the next call."""
        self._put(events.MetricsRequested(job_id))
        return metrics_at(self._ask(lambda d: d.metrics(job_id)), self._wall_ms)

    def details(self, job_id: str) -> rpc.JobDetails:
        """The job's vertices and subtasks, with their latest figures; requests fresh ones as `metrics` does."""
        return self.described(job_id)[0]

    def described(self, job_id: str) -> tuple[rpc.JobDetails, JobGraph]:
        """As `details`, with the graph of the same moment."""
        self._put(events.MetricsRequested(job_id))
        details, graph = self._ask(lambda d: (d.details(job_id), d.job_graph(job_id)))
        return details_at(details, self._wall_ms), graph

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        """The job's failures: its cause first, then the other failures that its tasks reported."""
        details = self.details(job_id)
        own = [s.error for v in details.vertices for s in v.subtasks]
        return tuple(dict.fromkeys(e for e in (details.error, *own) if e is not None))

    # --- checkpoints

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        """UserError when there is no such job."""
        return checkpoints_at(self._ask(lambda d: d.checkpoints(job_id)), self._wall_ms)

    def take_checkpoint(self, job_id: str, trigger_id: str) -> None:
        """Ask for a checkpoint; a repetition does nothing. UserError when the job takes none, or does not run."""
        self._request_savepoint(events.SavepointRequested(job_id, trigger_id, CheckpointKind.CHECKPOINT))

    def take_savepoint(self, request: SavepointRequest) -> None:
        """Ask for a savepoint in a new directory. A request that ends the job is, like a cancellation, in the store on return."""
        place, is_last = self.savepoint_place(request), isinstance(request, StopWithSavepoint)
        kind = CheckpointKind.SYNC_SAVEPOINT if is_last else CheckpointKind.SAVEPOINT
        is_drain = isinstance(request, StopWithSavepoint) and request.is_drain
        self._request_savepoint(
            events.SavepointRequested(request.job_id, request.trigger_id, kind, place, is_drain, is_last)
        )

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        return self._ask(lambda d: d.savepoint_status(job_id, trigger_id))

    # --- another parallelism

    def rescale(self, job_graph: JobGraph, trigger_id: str) -> None:
        """Give a running job the graph of another parallelism; `rescale_status` tells how far that is, and a repetition does
        nothing. UserError or JobError when it is refused."""
        self._ask(lambda d: d.check_rescale(job_graph, trigger_id))
        self._put(events.RescaleRequested(job_graph.job_id, trigger_id, job_graph))

    def rescale_status(self, job_id: str, trigger_id: str) -> RescaleStatus:
        return self._ask(lambda d: d.rescale_status(job_id, trigger_id))

    def dispose_savepoint(self, path: str, config: Mapping[str, str]) -> None:
        """Remove a savepoint, whose place is reached by these settings, on the caller's thread. UserError when there is none at
        the path, or it is no savepoint."""
        loaded = self._checkpoints.load(path, config)
        if not loaded.manifest.kind.is_savepoint:
            raise UserError(
                "SS6209", f'"{path}" is a checkpoint of job "{loaded.manifest.job_id}", and no savepoint'
            )
        self._checkpoints.discard(loaded.directory, loaded.manifest, frozenset(), config)

    def _request_savepoint(self, request: events.SavepointRequested) -> None:
        self._ask(lambda d: d.check_savepoint(request.job_id, request.kind))
        if request.is_last:
            self._keep_end(request)
        self._put(request)

    def savepoint_place(self, request: SavepointRequest) -> str:
        """`<directory>/savepoint-<6 of the job>-<12 of the trigger>`, as Flink names them. The directory is that of the request,
        or of the job's settings."""
        root = request.directory or options.get(
            self.job_graph(request.job_id).config, "execution.checkpointing.savepoint-dir"
        )
        if not root:
            raise UserError(
                "SS4005",
                "a savepoint needs a directory",
                hint="name one, as by --directory, or SET 'execution.checkpointing.savepoint-dir' before the job starts",
            )
        name = hashlib.sha256(request.trigger_id.encode()).hexdigest()[:12]
        return f"{root.rstrip('/')}/savepoint-{request.job_id[:6]}-{name}"

    def overview(self) -> tuple[rpc.JobOverviewEntry, ...]:
        return tuple(entry_at(entry, self._wall_ms) for entry in self._ask(lambda d: d.overview()))

    def cluster(self) -> tuple[rpc.TaskManagerOverview, ...]:
        answer: Future[tuple[rpc.TaskManagerOverview, ...]] = Future()
        self._put(_Question(lambda j: j.resource_manager.overview(), answer))
        return tuple(task_manager_at(found, self._wall_ms) for found in self._result(answer))

    def _wall_ms(self, ms: int) -> int:
        """A time of the steady clock as wall-clock time. The same time is shown again and again, so that the distance of the two
        clocks, which are read one after the other, is taken anew only when it has really changed."""
        distance_ms = self._now_ms() - self._steady_ms()
        if self._distance_ms is None or abs(distance_ms - self._distance_ms) > CLOCKS_APART_MS:
            self._distance_ms = distance_ms
        return ms + self._distance_ms

    def _ask(self, ask: Callable[[Dispatcher], Answer]) -> Answer:
        answer: Future[Answer] = Future()
        self._put(_Question(lambda j: ask(j.dispatcher), answer))
        return self._result(answer)

    def _put(self, event: Any) -> None:
        if self._end is not None:
            raise self._end
        self._loop.put(event)

    def _result(self, answer: Future[Answer]) -> Answer:
        try:
            return self._wait_for(answer, ANSWER_TIMEOUT_S)
        except TimeoutError as error:
            raise InternalError("the JobManager does not answer") from error

    def _wait_for(self, answer: Future[Answer], timeout_s: float | None) -> Answer:
        """Wait in slices: a call that was still queued when the loop ended is never answered."""
        waited_s = 0.0
        while True:
            slice_s = END_CHECK_S if timeout_s is None else min(END_CHECK_S, max(timeout_s - waited_s, 0.0))
            if wait([answer], slice_s).done:
                return answer.result()
            waited_s += slice_s
            if self._end is not None:
                raise self._end
            if timeout_s is not None and waited_s >= timeout_s:
                raise TimeoutError

    # --- the loop's thread

    def _tick(self) -> None:
        self._handle(events.Tick())

    def _take(self, event: Any) -> None:
        match event:
            case _Question(ask, answer):
                _answer_with(answer, lambda: ask(self._job_manager))
            case _Submission():
                self._submit(event)
            case events.JobStored(job_id) | events.JobStoreFailed(job_id):
                self._handle(event)
                for answer in self._being_stored.pop(job_id, []):
                    answer.set_result(job_id)
            case _EndAwaited(job_id, answer):
                self._await_end(job_id, answer)
            case _EndForgotten(job_id, answer):
                awaited = self._ends_awaited.get(job_id, [])
                if answer in awaited:
                    awaited.remove(answer)
            case _:
                self._handle(event)

    def _submit(self, submission: _Submission) -> None:
        """Answer once the job is stored, so that no accepted job is lost with this process. A job that cannot be stored is
        accepted as well, and has failed."""
        job_graph, answer = submission.job_graph, submission.answer
        try:
            self._job_manager.dispatcher.check_submission(job_graph, submission.restored)
        except SqlStreamError as error:
            answer.set_exception(error)
            return
        except Exception as error:  # the boundary of a job that does not run yet
            answer.set_exception(_broken_submission(job_graph, error))
            return
        job_id = job_graph.job_id
        is_known = self._job_manager.dispatcher.knows(job_id)
        if job_id not in self._being_stored and is_known:
            answer.set_result(job_id)
            return
        if not is_known:
            self._executor.expect_job(job_id, submission.encoded)
            try:
                self._handle(events.SubmitRequested(job_graph, submission.restored, submission.is_recovered))
            except Exception as error:  # the boundary of a job that does not run yet
                self._job_manager.dispatcher.masters.pop(job_id, None)
                self._executor.forget_job(job_id)
                answer.set_exception(_broken_submission(job_graph, error))
                return
        self._being_stored.setdefault(job_id, []).append(answer)

    def _await_end(self, job_id: str, answer: Future[rpc.JobStatusReply]) -> None:
        try:
            status = self._job_manager.dispatcher.status(job_id)
        except SqlStreamError as error:
            answer.set_exception(error)
            return
        if status.status.is_terminal:
            answer.set_result(status)
        else:
            self._ends_awaited.setdefault(job_id, []).append(answer)

    def _handle(self, event: events.JobManagerEvent) -> None:
        instructions = self._job_manager.handle(event, self._steady_ms())
        owners = [self._job_manager.owner_of(instruction) for instruction in instructions]
        for instruction, job_id in zip(instructions, owners, strict=True):
            if isinstance(instruction, events.JobFinished):
                self._tell_end(instruction)
            else:
                self._carry_out(instruction, job_id)

    def _carry_out(self, instruction: events.JobManagerInstruction, job_id: str) -> None:
        try:
            self._executor.carry_out(instruction)
        except Exception as error:  # the boundary of a job: others go on
            if not job_id:
                raise
            if job_id in self._job_manager.dispatcher.masters:
                self._handle(events.JobBroken(job_id, error))
            else:
                logger.exception("the JobManager could not carry out an instruction", extra=of_job(job_id))

    def _suspend_jobs(self) -> None:
        """Who waits for a job learns how it is. Its TaskManagers end by themselves without a JobManager."""
        for job_id in list(self._job_manager.dispatcher.masters):
            for instruction in self._job_manager.handle(events.SuspendRequested(job_id), self._steady_ms()):
                if isinstance(instruction, events.JobFinished):
                    self._tell_end(instruction)

    def _tell_end(self, end: events.JobFinished) -> None:
        _log_end(end)
        for answer in self._ends_awaited.pop(end.job_id, []):
            answer.set_result(rpc.JobStatusReply(end.job_id, end.status, end.error))

    def _crashed(self, error: BaseException) -> None:
        described = ErrorInfo.of(error)
        if not isinstance(error, SqlStreamError):
            logger.critical("the JobManager ends", exc_info=error)
            error = InternalError(f"the JobManager broke off: {described.message}")
        self._end = error
        self._fail_unanswered(error)
        if job_id := self._job_manager.at_work_for:
            self._blame(job_id)
        self._on_crash(described)

    def _blame(self, job_id: str) -> None:
        """Another process is to take care when it takes up this job."""
        try:
            self._store.blame(job_id)
        except Exception:  # the JobManager ends anyway
            logger.exception(
                "the job that the JobManager was dealing with cannot be noted", extra=of_job(job_id)
            )

    def _fail_unanswered(self, error: BaseException) -> None:
        with self._unanswered_lock:
            unanswered, self._unanswered = self._unanswered, set()
        for answer in unanswered:
            # Done between the two steps: the job ended just before the JobManager.
            if not answer.done():
                answer.set_exception(error)


def _answer_with(answer: Future[Any], ask: Callable[[], Any]) -> None:
    """Pass the result or the error of a call to the caller's thread; an InternalError ends the loop as well."""
    try:
        answer.set_result(ask())
    except SqlStreamError as error:
        answer.set_exception(error)
        if isinstance(error, InternalError):
            raise
    except Exception as error:  # our own bug: the caller gets the error, and the loop ends
        answer.set_exception(InternalError(f"the JobManager broke off: {type(error).__name__}: {error}"))
        raise


def _log_broken(job_id: str, told: InternalError, error: Exception) -> None:
    story = "".join(f"\n{line}" for line in told.story)
    logger.error("%s%s", told.message, story, exc_info=error, extra=of_job(job_id))


def _broken_submission(job_graph: JobGraph, error: Exception) -> InternalError:
    logger.error("the job cannot be submitted", exc_info=error, extra=of_job(job_graph.job_id))
    return InternalError(f'job "{job_graph.name}" cannot be run: {ErrorInfo.of(error).message}')


def _log_end(end: events.JobFinished) -> None:
    cause = f": {end.error.line}" if end.error is not None else ""
    logger.info("the job is %s%s", end.status.value, cause, extra=of_job(end.job_id))
