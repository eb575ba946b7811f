"""A whole cluster from one process: the JobManager here, TaskManagers as children, or all of it in this
process."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from runtime.host.clock import now_ms, steady_ms, steady_s
from runtime.host.files import LocalFiles
from runtime.host.random import random_id, random_token
from runtime.jobmanager.job_manager import JobManagerConfig
from runtime.jobmanager.job_master import JobMasterConfig
from runtime.jobmanager.resource_manager import ResourceManagerConfig
from runtime.jobmanager.shell import JobManagerShell, KeepNothing
from runtime.metrics import ProcessUsage
from runtime.net.results import PrintLines, ResultStore
from runtime.sink_committer import ConnectorCommitter
from runtime.transport import Transport
from sqlstream import config as options
from sqlstream.errors import ErrorInfo, InternalError, SqlStreamError
from sqlstream.graph.job_graph import JobGraph, decode_job_graph, encode_job_graph
from sqlstream.messages.rpc import JobDetails, JobMetrics, JobStatusReply, ToJobManager

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_BUFFER_BYTES = 16 * 1024 * 1024
"""Result rows of one job that may wait for the client."""

IN_PROCESS_SLOTS = 16
"""Enough for a few jobs at once, each of at most four subtasks a vertex."""

END_JOBS_TIMEOUT_S = 3.0
"""How long `stop` waits for the jobs that it cancels."""


def print_to_terminal(job_id: str, lines: list[str], is_error: bool) -> None:
    """Where the connector `print` writes unless the client says otherwise."""
    stream = sys.stderr if is_error else sys.stdout
    stream.write("".join(f"{line}\n" for line in lines))
    stream.flush()


class TaskManagers(Protocol):
    """The part of a cluster that runs tasks: children, or threads of this process."""

    @property
    def address(self) -> str:
        """Where result sinks find the client."""

    @property
    def transport(self) -> Transport: ...

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Processes besides this one."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def slots_max(self) -> int:
        """Slots that there can ever be."""

    def reserve(self, slots: int) -> None:
        """Make sure that a job which needs so many slots can run."""

    def request_slots(self, slots_missing: int) -> None: ...

    def release(self, resource_id: str) -> None:
        """Give a TaskManager up that does not answer."""


class EmbeddedCluster:
    """JobManager and TaskManagers that live as long as this object, from `start` to `stop`. All methods are
    thread-safe.

    `task_managers` children (by default one a core) with `taskmanager.numberOfTaskSlots` slots each; with
    `in_process`, tasks are threads of this process, which starts at once but shares one interpreter: for jobs
    that have next to nothing to do. State: jobs and their results, until `stop`. Children end with this
    process, however it ends."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        task_managers: int | None = None,
        in_process: bool = False,
        print_lines: PrintLines = print_to_terminal,
    ) -> None:
        self._config = dict(config or {})
        self._usage = ProcessUsage(lambda: self._task_managers.process_ids)
        self._print_errors: dict[str, OSError] = {}
        self._is_started = False
        self._results = ResultStore(RESULT_BUFFER_BYTES, print_lines, self._on_unprinted)
        if in_process:
            from runtime.taskmanager.in_process import InProcessTaskManager

            self._task_managers: TaskManagers = InProcessTaskManager(
                IN_PROCESS_SLOTS,
                self._results,
                self._receive,
                self._on_crash,
                options.get(self._config, "task.cancellation.timeout"),
            )
        else:
            from runtime.providers.flight_cluster import ChildTaskManagers

            self._task_managers = ChildTaskManagers(
                count=task_managers or os.cpu_count() or 1,
                slots=options.get(self._config, "taskmanager.numberOfTaskSlots"),
                network_memory_bytes=options.get(self._config, "taskmanager.memory.network.max"),
                cancellation_timeout_ms=options.get(self._config, "task.cancellation.timeout"),
                token=random_token(),
                cluster_id=random_id()[:8],
                receiver=self._results,
                receive=self._receive,
                on_exit=lambda resource_id, error: self._shell.task_manager_exited(resource_id, error),
                on_given_up=lambda error: self._shell.no_task_manager_left(error),
            )
        self._shell = JobManagerShell(
            self._job_manager_config(),
            self._task_managers.transport,
            steady_ms,
            now_ms,
            KeepNothing(),
            ConnectorCommitter(LocalFiles()),
            self._task_managers,
            self._on_crash,
        )

    def _job_manager_config(self) -> JobManagerConfig:
        def value(key: str) -> int:
            found: int = options.get(self._config, key)
            return found

        return JobManagerConfig(
            ResourceManagerConfig(value("heartbeat.interval"), value("heartbeat.timeout")),
            JobMasterConfig(
                result_address=self._task_managers.address,
                slot_request_timeout_ms=value("slot.request.timeout"),
            ),
            slots_max=self._task_managers.slots_max,
        )

    def start(self) -> None:
        """Return at once; jobs submitted before the TaskManagers are up wait for them."""
        self._is_started = True
        self._shell.start()
        self._task_managers.start()

    def __enter__(self) -> EmbeddedCluster:
        self.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()

    # --- jobs

    def submit(self, job_graph: JobGraph) -> str:
        """Take a job in; returns its id. UserError or JobError when it cannot run."""
        # As over the wire: what cannot be sent to a TaskManager fails here, before it can trouble other jobs.
        job_graph = decode_job_graph(encode_job_graph(job_graph))
        self._results.open(job_graph.job_id)
        self._task_managers.reserve(max((v.parallelism for v in job_graph.vertices), default=1))
        try:
            job_id = self._shell.submit(job_graph)
        except SqlStreamError:
            self._results.forget(job_graph.job_id)
            raise
        closer = threading.Thread(
            target=self._close_results, args=(job_id,), name=f"end-{job_id[:8]}", daemon=True
        )
        closer.start()
        return job_id

    def _close_results(self, job_id: str) -> None:
        try:
            self._shell.wait(job_id)
        except InternalError:
            # The JobManager is gone; whoever waits for rows must not wait for ever.
            return
        finally:
            self._results.close(job_id)

    def results(self, job_id: str) -> Iterator[pa.RecordBatch]:
        """The rows of the job's `collect` sink as they come, until the job is over; ask `status` then how it
        ended.

        Rows wait here up to RESULT_BUFFER_BYTES, then the job waits for the reader.
        """
        yield from self._results.rows(job_id)
        self._results.forget(job_id)

    def status(self, job_id: str) -> JobStatusReply:
        return self._shell.status(job_id)

    def wait(self, job_id: str, timeout_s: float | None = None) -> JobStatusReply:
        """Until the job is over, or TimeoutError. OSError when it was ended because what it prints cannot be
        written, a BrokenPipeError when nobody reads it any more."""
        reply = self._shell.wait(job_id, timeout_s)
        if job_id in self._print_errors:
            raise self._print_errors[job_id]
        return reply

    def metrics(self, job_id: str) -> JobMetrics:
        return self._shell.metrics(job_id)

    def details(self, job_id: str) -> JobDetails:
        return self._shell.details(job_id)

    def cancel(self, job_id: str) -> None:
        """Ask the job to end; `wait` says when it has. Its client takes no more rows."""
        self._results.forget(job_id)
        self._shell.cancel(job_id)

    # --- the cluster

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The TaskManagers' processes."""
        return self._task_managers.process_ids

    def cpu_seconds(self) -> float:
        """CPU time of this process since the cluster was made, and of all its children."""
        return self._usage.cpu_seconds()

    def peak_rss_bytes(self) -> int:
        """Peak memory, summed over this process and its children."""
        return self._usage.peak_rss_bytes()

    def stop(self) -> None:
        """End everything, also what runs; harmless when repeated. No child and no thread of a task is
        left, and no file of a job that did not finish, unless it does not end within END_JOBS_TIMEOUT_S."""
        self._results.close_all()
        if self._is_started:
            self._is_started = False
            # A JobManager that broke off has no jobs to end.
            with contextlib.suppress(InternalError, TimeoutError):
                self._end_jobs()
        self._task_managers.stop()
        self._shell.stop()

    def _end_jobs(self) -> None:
        deadline_s = steady_s() + END_JOBS_TIMEOUT_S
        running = [j.job_id for j in self._shell.overview() if not j.status.is_terminal]
        for job_id in running:
            self._shell.cancel(job_id)
        for job_id in running:
            self._shell.wait(job_id, max(0.0, deadline_s - steady_s()))

    def _on_unprinted(self, job_id: str, error: OSError) -> None:
        self._print_errors[job_id] = error
        self.cancel(job_id)

    def _receive(self, message: ToJobManager) -> None:
        self._shell.receive(message)

    def _on_crash(self, _: ErrorInfo) -> None:
        # Whoever waits for rows learns that there are no more.
        self._results.close_all()
