"""Carries out what the JobManager decides, on threads where that takes time."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from sqlstream.cancellation import given_up_by
from sqlstream.errors import ErrorInfo, ExternalError, SqlStreamError
from sqlstream.graph.job_graph import JobGraph, encode_job_graph
from sqlstream.messages.rpc import TriggerCheckpoint
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.collaborators import (
    CheckpointStore,
    Committer,
    JobStore,
    ResourceProvider,
    SplitEnumerators,
)
from sqlstream.runtime.jobmanager.job_details import details_at
from sqlstream.runtime.logs import of_job
from sqlstream.runtime.transport import Transport

logger = logging.getLogger(__name__)

notes = logging.getLogger("sqlstream.runtime.jobmanager.notes")
"""Has a handler of its own, as a process without a log, such as that of a command, would print warnings: it tells of restarts in
its own way."""
notes.addHandler(logging.NullHandler())


@dataclasses.dataclass(frozen=True)
class JobManagerServices:
    """What a JobManager acts upon."""

    transport: Transport
    store: JobStore
    committer: Committer
    provider: ResourceProvider
    enumerators: SplitEnumerators
    checkpoints: CheckpointStore


class InstructionExecutor:
    """Carries out instructions in their order, without waiting; `report` is called with what comes of them, from any thread.
    `wall_ms` turns a time of the steady clock into one that clients are shown.

    State: its threads, until `stop`, and the encoded graphs of jobs that are about to be stored."""

    def __init__(
        self,
        services: JobManagerServices,
        report: Callable[[events.JobManagerEvent], None],
        wall_ms: Callable[[int], int],
    ) -> None:
        self._transport = services.transport
        self._store = services.store
        self._committer = services.committer
        self._provider = services.provider
        self._enumerators = services.enumerators
        self._checkpoints = services.checkpoints
        self._report = report
        self._wall_ms = wall_ms
        self._encoded: dict[str, bytes] = {}
        # One thread each for the store and the provider keeps their calls in order; commits of jobs are
        # independent.
        self._store_thread = ThreadPoolExecutor(1, "job-store")
        self._provider_thread = ThreadPoolExecutor(1, "resource-provider")
        self._commit_threads = ThreadPoolExecutor(4, "sink-committer")
        self._is_stopping = threading.Event()
        self._checkpoint_threads = ThreadPoolExecutor(4, "checkpoint-store")

    def stop(self) -> None:
        """Carry out no more. A commit under way is completed, as a part of it may already be visible, unless a system does not
        answer it; and so is what is known of jobs that ended."""
        self._is_stopping.set()
        self._enumerators.close()
        self._provider_thread.shutdown(wait=False, cancel_futures=True)
        self._commit_threads.shutdown(wait=True, cancel_futures=True)
        # Of a job that is removed, its checkpoints are removed next.
        self._store_thread.shutdown(wait=True)
        self._checkpoint_threads.shutdown(wait=True)

    def expect_job(self, job_id: str, encoded: bytes) -> None:
        """The job's graph as it is to be stored: the next instruction about the job is StoreJob."""
        self._encoded[job_id] = encoded

    def forget_job(self, job_id: str) -> None:
        """It is not stored after all."""
        self._encoded.pop(job_id, None)

    def keep_end(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        """Store that the job is to end, before whoever asked is told so. A store that fails keeps nobody from ending a job."""
        try:
            self._store_thread.submit(self._store.keep_end, request).result()
        except (SqlStreamError, OSError, RuntimeError) as error:
            # RuntimeError: the JobManager is being stopped, as whoever asked is told next.
            logger.warning("the end of the job is not stored: %s", error, extra=of_job(request.job_id))

    def carry_out(self, instruction: events.JobManagerInstruction) -> None:
        match instruction:
            case events.Send(address, TriggerCheckpoint() as message):
                dated = msgspec.structs.replace(message, timestamp_ms=self._wall_ms(message.timestamp_ms))
                self._transport.send(address, dated)
            case events.Send(address, message):
                self._transport.send(address, message)
            case events.StoreJob(job_graph, is_rescaled=True):
                self._store_thread.submit(self._store_job, job_graph, encode_job_graph(job_graph))
            case events.StoreJob(job_graph):
                encoded = self._encoded.pop(job_graph.job_id)
                logger.info('job "%s" is submitted', job_graph.name, extra=of_job(job_graph.job_id))
                self._store_thread.submit(self._store_job, job_graph, encoded)
            case events.RescaleEnded(job_id, parallelism, error):
                if error is None:
                    logger.info(
                        "the job is rescaled to the parallelism %d", parallelism, extra=of_job(job_id)
                    )
                else:
                    logger.warning("%s", error.message, extra=of_job(job_id))
            case events.StopGivenUp(job_id):
                forgotten = self._store_thread.submit(self._store.forget_end, job_id)
                forgotten.add_done_callback(_log_error)
            case events.Noted(text, job_id, is_warning):
                level = logging.WARNING if is_warning else logging.INFO
                notes.log(level, "%s", text, extra=of_job(job_id) if job_id else None)
            case events.RemoveJob():
                self._store_thread.submit(self._remove_job, instruction).add_done_callback(_log_error)
            case events.StartEnumerator():
                self._enumerators.start(instruction, self._report)
            case events.GiveBackSplits():
                self._enumerators.give_back(instruction)
            case events.StopEnumerators(job_id):
                self._enumerators.stop_job(job_id)
            case events.CommitSinks():
                self._commit_threads.submit(self._commit, instruction)
            case events.AbortSinks():
                self._commit_threads.submit(self._abort, instruction).add_done_callback(_log_error)
            case events.RemoveStagedRows(job_id, staged):
                removed = self._commit_threads.submit(self._committer.remove_staged, job_id, staged)
                removed.add_done_callback(_log_error)
            case events.StoreCheckpoint():
                self._checkpoint_threads.submit(self._store_checkpoint, instruction)
            case events.DiscardCheckpoint() | events.RemoveAborted() | events.RemoveCheckpoints():
                removed = self._checkpoint_threads.submit(self._remove_checkpoint, instruction)
                removed.add_done_callback(_log_error)
            case events.RequestTaskManagers(resource_ids):
                for resource_id in resource_ids:
                    self._provider_thread.submit(self._request_task_manager, resource_id)
            case events.ReleaseTaskManager(resource_id, is_lost):
                released = self._provider_thread.submit(
                    self._provider.release_task_manager, resource_id, is_lost
                )
                released.add_done_callback(_log_error)

    def _request_task_manager(self, resource_id: str) -> None:
        try:
            self._provider.request_task_manager(resource_id)
        except (
            Exception
        ) as error:  # a thread's boundary: becomes the cause when no TaskManager can be started
            self._report(events.TaskManagerExited(resource_id, ErrorInfo.of(error)))

    def _store_job(self, job_graph: JobGraph, encoded: bytes) -> None:
        try:
            self._store.put(job_graph, encoded)
        except Exception as error:  # a thread's boundary: becomes the job's cause
            logger.warning("the job could not be stored: %s", error, extra=of_job(job_graph.job_id))
            self._report(events.JobStoreFailed(job_graph.job_id, ErrorInfo.of(error)))
        else:
            self._report(events.JobStored(job_graph.job_id))

    def _remove_job(self, instruction: events.RemoveJob) -> None:
        job_id, ended = instruction.job_id, instruction.ended
        self._store.remove(
            job_id, msgspec.structs.replace(ended, details=details_at(ended.details, self._wall_ms))
        )
        kept_file = self._store.kept_file(job_id) if instruction.removals else ""
        if kept_file and os.path.exists(kept_file):
            logger.info("the job is still kept, and so are its checkpoints", extra=of_job(job_id))
            return
        for removal in instruction.removals:
            self.carry_out(removal)

    def _commit(self, instruction: events.CommitSinks) -> None:
        job_id, checkpoint_id = instruction.job_id, instruction.checkpoint_id
        try:
            with given_up_by(self._is_stopping):
                self._committer.commit(job_id, checkpoint_id, instruction.commits, instruction.is_last)
                if instruction.read:
                    self._enumerators.on_finished(job_id, instruction.read)
        except Exception as error:  # a thread's boundary: becomes the job's cause
            self._report(events.SinksCommitFailed(job_id, checkpoint_id, ErrorInfo.of(error)))
        else:
            self._report(events.SinksCommitted(job_id, checkpoint_id))

    def _store_checkpoint(self, instruction: events.StoreCheckpoint) -> None:
        job_id, manifest = instruction.job_id, instruction.manifest
        dated = msgspec.structs.replace(
            manifest,
            started_ms=self._wall_ms(manifest.started_ms),
            completed_ms=self._wall_ms(manifest.completed_ms),
        )
        try:
            path = self._checkpoints.store(instruction.directory, dated)
        except Exception as error:  # a thread's boundary: becomes the reason of the failed checkpoint
            self._report(events.CheckpointStoreFailed(job_id, manifest.checkpoint_id, ErrorInfo.of(error)))
        else:
            self._report(events.CheckpointStored(job_id, manifest.checkpoint_id, path))

    def _remove_checkpoint(
        self, instruction: events.DiscardCheckpoint | events.RemoveAborted | events.RemoveCheckpoints
    ) -> None:
        match instruction:
            case events.DiscardCheckpoint(_, directory, manifest, still_needed, config):
                self._checkpoints.discard(directory, manifest, still_needed, config)
            case events.RemoveAborted(_, directory, checkpoint_id, config):
                self._checkpoints.remove_aborted(directory, checkpoint_id, config)
            case events.RemoveCheckpoints(_, directory, config):
                self._checkpoints.remove_all(directory, config)

    def _abort(self, instruction: events.AbortSinks) -> None:
        try:
            if instruction.end is not None:
                # What a checkpoint has to commit goes too: the job cannot go on from it.
                self._store.mark_ending(instruction.job_id, instruction.end, instruction.error)
            self._committer.abort(instruction.job_id, instruction.commits)
        finally:
            # The job ends either way: output that a failed abort leaves behind was never visible.
            self._report(events.SinksAborted(instruction.job_id))


def _log_error(done: Future[Any]) -> None:
    """Log the failure of a call that no job depends on."""
    if not done.cancelled() and (error := done.exception()) is not None:
        # Of something outside that fails, such as a store that does not answer, the place in the code says nothing.
        stack = None if isinstance(error, ExternalError) else error
        detail = f": {error.detail}" if isinstance(error, ExternalError) and error.detail else ""
        logger.warning(
            "the JobManager could not carry out an instruction: %s%s", error, detail, exc_info=stack
        )
