"""A cluster started by one process: the JobManager runs in it, TaskManagers run as child processes or in it too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, SqlStreamError, UserError
from sqlstream.graph.artifacts import PYTHON, Artifact
from sqlstream.graph.job_graph import (
    JobGraph,
    decode_job_graph,
    encode_job_graph,
    read_tables,
    written_tables,
)
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.messages.client_rpc import SavepointRequest, SavepointStatusReply
from sqlstream.messages.log_levels import LogLevels, SetLogLevels
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.messages.stacks import RequestStacks, StacksReply
from sqlstream.options.state_options import directories_of
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore, recovered_checkpoints
from sqlstream.runtime.checkpoint.local_copies import LocalCopies, local_copy_directories
from sqlstream.runtime.client_messages import ClientMessages
from sqlstream.runtime.cluster_surroundings import ClusterSurroundings, TaskManagers, print_to_terminal
from sqlstream.runtime.host.artifacts import HostArtifacts
from sqlstream.runtime.host.clock import now_ms, steady_ms, steady_s
from sqlstream.runtime.host.process import ProcessUsage
from sqlstream.runtime.host.random import random_id, random_token
from sqlstream.runtime.host.rooted_files import files_at
from sqlstream.runtime.jobmanager.checkpoints.checkpoint_settings import checkpoint_settings
from sqlstream.runtime.jobmanager.events import (
    CancelRequested,
    EndedJob,
    LoadedCheckpoint,
    SavepointRequested,
)
from sqlstream.runtime.jobmanager.instruction_executor import JobManagerServices
from sqlstream.runtime.jobmanager.job_manager import JobManagerConfig
from sqlstream.runtime.jobmanager.job_master_config import JobMasterConfig
from sqlstream.runtime.jobmanager.resources.hosts import BlocklistConfig, load_balance_of
from sqlstream.runtime.jobmanager.resources.provisioning import ProvisioningConfig
from sqlstream.runtime.jobmanager.resources.resource_manager import ResourceManagerConfig
from sqlstream.runtime.jobmanager.shell import JobManagerShell
from sqlstream.runtime.net.attached_clients import AttachedClients
from sqlstream.runtime.net.results import JobResults, PrintLines, ResultStore
from sqlstream.runtime.providers.providers import (
    SPARK,
    STANDALONE,
    TARGET,
    endpoint_of,
    is_on_one_host,
    provider_of,
)
from sqlstream.runtime.sink_committer import ConnectorCommitter, begin_with, tell_end
from sqlstream.runtime.split_enumerators import (
    ConnectorEnumerators,
    enumerates_splits,
    is_of_spark,
    with_absolute_paths,
)
from sqlstream.runtime.staging_claims import ClaimingStore
from sqlstream.runtime.taskmanager.task_manager_options import options_of
from sqlstream.specs import InferTableSpec, SinkSpec, SourceSpec

RESULT_BUFFER_BYTES = 16 * 1024 * 1024
"""Result rows of one job that may wait for the client."""

IN_PROCESS_SLOTS = 16
"""Enough for a few jobs at once, each of at most four subtasks a vertex."""

END_JOBS_TIMEOUT_S = 3.0
"""How long `close` waits for the jobs that it cancels."""


class EmbeddedCluster:
    """JobManager and TaskManagers that live as long as this object, from `start` to `close`. All methods are
    thread-safe.

    Children have `taskmanager.numberOfTaskSlots` slots each. They start when jobs need slots; `task_managers` of them start
    at once and stay (by default what `slotmanager.number-of-slots.min` takes). With `in_process`, tasks are threads of this
    process: they start at once but share one interpreter, which suits short jobs.
    State: jobs and their results, until `close`. Children end with this process, however it ends."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        task_managers: int | None = None,
        in_process: bool = False,
        print_lines: PrintLines = print_to_terminal,
        surroundings: ClusterSurroundings | None = None,
    ) -> None:
        self._config = dict(config or {})
        self._around = around = surroundings or ClusterSurroundings()
        self._files = files = files_at(around.places)
        self._usage = ProcessUsage(lambda: self._task_managers.process_ids)
        self._print_errors: dict[str, OSError] = {}
        self._is_started = False
        target = options.get(self._config, TARGET)
        self._is_elsewhere = not in_process and target in (SPARK, STANDALONE)
        self._is_on_one_host = in_process or is_on_one_host(self._config)
        self._cluster_id = random_id()[:8]
        self._provisioning = (
            None
            if in_process or target == STANDALONE
            else ProvisioningConfig.of(self._config, f"taskmanager-{self._cluster_id}", task_managers)
        )
        self._slots_max: int | None = IN_PROCESS_SLOTS if in_process else None
        if self._provisioning is not None:
            self._slots_max = self._provisioning.slots_max
        self.token = around.token or random_token()
        self._attached = AttachedClients(self.cancel, print_lines)
        self._results = ResultStore(
            RESULT_BUFFER_BYTES, print_lines, self._on_unprinted, self._attached.take_lines
        )
        self._task_managers = self._in_process() if in_process else self._in_children()
        self._store = ClaimingStore(around.store, files)
        self._checkpoints = CheckpointStore(around.on_checkpoint, around.artifacts, around.check_owner)
        self._shell = JobManagerShell(
            self._job_manager_config(),
            JobManagerServices(
                self._task_managers.transport,
                self._store,
                around.committer or ConnectorCommitter(files),
                self._task_managers,
                ConnectorEnumerators(files),
                self._checkpoints,
            ),
            steady_ms,
            now_ms,
            self._on_crash,
        )
        self._shell.remember(around.ended)
        self._client_messages = ClientMessages(
            self, self._shell, self._attached, around.on_client_change, self._results.forget
        )

    def _in_process(self) -> TaskManagers:
        """One TaskManager in this process."""
        from sqlstream.runtime.memory.managed_memory import ManagedMemory, ManagedMemoryOptions
        from sqlstream.runtime.taskmanager.in_process import InProcessTaskManager

        return InProcessTaskManager(
            IN_PROCESS_SLOTS,
            self._results,
            self._receive,
            self._on_crash,
            options.get(self._config, "task.cancellation.timeout"),
            LocalCopies(local_copy_directories(self._config)),
            ManagedMemory(
                ManagedMemoryOptions(
                    options.get(self._config, "taskmanager.memory.managed.size"),
                    # A slot is as large as in a child process, however many there are here.
                    options.get(self._config, "taskmanager.numberOfTaskSlots"),
                    directories_of(options.get(self._config, "io.tmp.dirs")),
                )
            ),
            HostArtifacts(self._around.artifacts),
        )

    def _in_children(self) -> TaskManagers:
        """The TaskManagers that the provider starts."""
        from sqlstream.runtime.providers.flight_cluster import FlightTaskManagers

        make_provider, endpoint = provider_of(self._config), endpoint_of(self._config)

        def on_exit(resource_id: str, error: ErrorInfo) -> None:
            self._shell.task_manager_exited(resource_id, error)

        return FlightTaskManagers(
            options_of(
                self._config, self.token, endpoint.tls if endpoint is not None else None, self._around.places
            ),
            endpoint,
            lambda told: make_provider(told, on_exit, self._around.pass_on),
            receiver=self._results,
            receive=self._receive,
            on_release=self._usage.measure,
            on_request=lambda data: self._client_messages.answer(data),
            on_attach=lambda data, is_gone: self._client_messages.attach(data, is_gone),
            artifact_part=self._around.artifacts.part,
            has_gateways=options.get(self._config, "sqlstream.jobmanager.gateways.enabled"),
        )

    def _job_manager_config(self) -> JobManagerConfig:
        def value(key: str) -> int:
            found: int = options.get(self._config, key)
            return found

        return JobManagerConfig(
            ResourceManagerConfig(
                value("heartbeat.interval"),
                value("heartbeat.timeout"),
                resource_manager_id=self._cluster_id,
                provisioning=self._provisioning,
                owner_slots_max=value("slotmanager.number-of-slots.max-per-user"),
                load_balance=load_balance_of(self._config),
                blocklist=BlocklistConfig(
                    value("cluster.blocklist.failures"),
                    value("cluster.blocklist.window"),
                    value("cluster.blocklist.duration"),
                ),
            ),
            JobMasterConfig(
                result_address=self._task_managers.result_address,
                slot_request_timeout_ms=value("slot.request.timeout"),
                enumerates=enumerates_splits,
                checkpoint_directory=self._around.checkpoint_directory,
                job_manager_id=self._cluster_id,
                epoch=self._around.epoch,
            ),
            archive_max=value("jobstore.max-capacity"),
            archive_ms=1000 * value("jobstore.expiration-time"),
            slots_max=self._slots_max,
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
        self.close()

    # --- jobs

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
        """Submit a job. UserError or JobError when it cannot run. One that `is_recovered` has run under an earlier JobManager,
        and goes on from the last of its checkpoints; else it goes on from what its settings name, or begins."""
        if self._is_elsewhere or is_of_spark(graph):
            # Those processes run in directories of their own.
            graph = with_absolute_paths(graph)
        # Encoded as for the network: a job that cannot be sent to a TaskManager fails here, before it affects others.
        encoded = encode_job_graph(graph)
        self.check_job(graph, len(encoded), is_recovered)
        if not self._is_on_one_host:
            from sqlstream.runtime.batch.spark.task_arguments import (
                refuse_local_checkpoints,
                refuse_local_files,
            )

            refuse_local_files(_tables(graph), graph.config)
            refuse_local_checkpoints(graph.config)
        graph = decode_job_graph(encoded)
        is_first = self._results.open(graph.job_id)
        try:
            restored = self._restored(graph, is_recovered)
            graph = self._with_artifacts(graph, restored)
            self._shell.submit(graph, encode_job_graph(graph), restored, is_recovered)
        except SqlStreamError:
            # The rows of a job that runs under this id stay.
            if is_first:
                self._results.forget(graph.job_id)
            raise
        # Not before: under this id another job may run.
        self._around.artifacts.need(graph.job_id, graph.artifacts)
        self.when_ended(graph.job_id, self._on_end)

    def _on_end(self, reply: rpc.JobStatusReply) -> None:
        self._results.close(reply.job_id)
        if reply.status.is_globally_terminal:
            self._around.artifacts.release(reply.job_id)

    def _with_artifacts(self, graph: JobGraph, restored: tuple[LoadedCheckpoint, ...]) -> JobGraph:
        """The graph with the files of the savepoint that it goes on from, but for those of which it names others. All of them
        are here for long enough to submit it. UserError SS5088 for a file that was not sent, or is gone."""
        own = {artifact.name for artifact in graph.artifacts}
        saved = next(iter(restored), None)
        is_savepoint = saved is not None and saved.manifest.kind.is_savepoint
        more = [a for a in saved.manifest.artifacts if a.name not in own] if saved and is_savepoint else []
        if saved is not None and more:
            self._checkpoints.fetch_artifacts(saved.directory, more, graph.config)
            graph = replace(graph, artifacts=(*graph.artifacts, *more))
        for artifact in graph.artifacts:
            if not self._around.artifacts.holds(artifact):
                raise UserError(
                    "SS5088",
                    f'the file "{artifact.name}" that goes with the job is not there: {artifact.digest}',
                    hint="compile the statement again"
                    if artifact.name.startswith(PYTHON)
                    else "name the path of the file in 'pipeline.cached-files'",
                )
        return graph

    def add_artifact_part(self, artifact: Artifact, offset: int, data: bytes) -> int:
        """Take the next part of a file that goes with jobs to come; returns how many bytes of it are there, and with no `data`
        begins nothing else. UserError SS5087, ExternalError SS5089."""
        return self._around.artifacts.add_part(
            artifact,
            offset,
            data,
            size_max=options.get(self._config, "sqlstream.artifacts.max-size"),
            room=options.get(self._config, "sqlstream.artifacts.cache-size"),
        )

    def _restored(self, graph: JobGraph, is_recovered: bool) -> tuple[LoadedCheckpoint, ...]:
        """The checkpoints that the job goes on from, newest first. UserError when there is none where its settings name one."""
        settings = checkpoint_settings(graph, self._around.checkpoint_directory)
        if is_recovered and settings.directory:
            found = recovered_checkpoints(self._checkpoints, graph, settings.directory)
            if found:
                return found
        path: str = options.get(graph.config, "execution.state-recovery.path")
        if not path:
            return ()
        loaded = self._checkpoints.load(path, graph.config)
        begin_with(loaded.manifest.job_id, graph, self._files)
        return (loaded,)

    def check_job(self, graph: JobGraph, size: int, is_recovered: bool) -> None:
        """UserError for a job that the cluster may not run; `size` is that of its encoded graph in bytes."""

    def artifact_size(self, digest: str) -> int | None:
        return self._around.artifacts.size(digest)

    def results(self, job_id: str) -> JobResults:
        """The rows of the job's `collect` sink.

        Up to RESULT_BUFFER_BYTES of rows are kept for the reader, then the job waits for it.
        """
        return self._results.reader(job_id)

    def status(self, job_id: str) -> rpc.JobStatusReply:
        return self._shell.status(job_id)

    def wait(self, job_id: str, timeout_s: float | None = None) -> rpc.JobStatusReply:
        """Wait until the job has ended, or raise TimeoutError. OSError when it ended because its printed lines cannot be
        written, BrokenPipeError when their reader has closed the pipe."""
        reply = self._shell.wait(job_id, timeout_s)
        if job_id in self._print_errors:
            raise self._print_errors[job_id]
        return reply

    def when_ended(self, job_id: str, callback: Callable[[rpc.JobStatusReply], None]) -> None:
        """Call once with the job's final status: from the JobManager's thread, so the callback must not wait; at once when the
        job has ended. When the JobManager ends first, the job is SUSPENDED. UserError when there is no such job."""
        self._shell.status(job_id)
        tell_end(self._shell.end_of(job_id), job_id, callback)

    def metrics(self, job_id: str) -> rpc.JobMetrics:
        return self._shell.metrics(job_id)

    def details(self, job_id: str) -> rpc.JobDetails:
        return self._shell.details(job_id)

    def described(self, job_id: str) -> tuple[rpc.JobDetails, JobGraph]:
        return self._shell.described(job_id)

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        return self._shell.exceptions(job_id)

    def job_graph(self, job_id: str) -> JobGraph:
        return self._shell.job_graph(job_id)

    def jobs(self) -> tuple[rpc.JobOverviewEntry, ...]:
        return self._shell.overview()

    def check_answers(self) -> None:
        self._shell.overview()

    def task_managers(self) -> tuple[rpc.TaskManagerOverview, ...]:
        return self._shell.cluster()

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        return self._task_managers.stacks(address, request)

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        return self._task_managers.log_levels(address, request)

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        self._task_managers.keep_log_levels(levels)

    def cancel(self, job_id: str) -> None:
        """Cancel the job, whose client takes no more rows; `wait` returns once it has ended."""
        self._results.forget(job_id)
        self._shell.cancel(job_id)

    def end_again(self, request: CancelRequested | SavepointRequested) -> None:
        """Repeat what the server that ran the job before had been asked for."""
        self._shell.end_again(request)

    def list_suspended(self, job: EndedJob) -> None:
        """Show a job of an earlier cluster that this one does not run."""
        self._shell.remember([job])

    def suspend(self, job_id: str) -> None:
        """Leave the job, with its checkpoints, to a later cluster: it is SUSPENDED here, and what it has written since its last
        checkpoint does not count."""
        self._shell.suspend(job_id)

    # --- checkpoints

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        """The job's checkpoints and savepoints. UserError when there is no such job."""
        return self._shell.checkpoints(job_id)

    def take_checkpoint(self, job_id: str, trigger_id: str) -> None:
        self._shell.take_checkpoint(job_id, trigger_id)

    def take_savepoint(self, request: SavepointRequest) -> None:
        """UserError SS4057 for a directory that not all TaskManagers see."""
        if request.directory and not self._is_on_one_host:
            from sqlstream.runtime.batch.spark.task_arguments import refuse_local_directory

            config = self._shell.job_graph(request.job_id).config
            refuse_local_directory("the savepoint's place", request.directory, config)
        if not request.is_temporary:
            self._shell.take_savepoint(request)
            return
        # What is temporary is known to be so before it is there.
        place = self._shell.savepoint_place(request)
        self._around.on_temporary(place, True)
        try:
            self._shell.take_savepoint(request)
        except SqlStreamError:
            self._around.on_temporary(place, False)
            raise

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        return self._shell.savepoint_status(job_id, trigger_id)

    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None:
        self._shell.dispose_savepoint(path, config or {})
        self._around.on_temporary(path, False)

    # --- another parallelism

    def rescale(self, graph: JobGraph, trigger_id: str) -> None:
        """Give a running job this graph, of the same operators at another parallelism. UserError or JobError when it is
        refused."""
        self._shell.rescale(graph, trigger_id)

    def rescale_status(self, job_id: str, trigger_id: str) -> RescaleStatus:
        return self._shell.rescale_status(job_id, trigger_id)

    # --- the cluster

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The TaskManagers' processes."""
        return self._task_managers.process_ids

    def cpu_seconds(self) -> float:
        """CPU time of this process since the cluster was created, and of all its children."""
        return self._usage.cpu_seconds()

    def peak_rss_bytes(self) -> int:
        """Peak memory, summed over this process and its children."""
        return self._usage.peak_rss_bytes()

    def close(self) -> None:
        """Cancel all jobs and end the cluster; harmless when repeated. No child, no task thread and no file of an unfinished
        job is left, unless a job does not end within END_JOBS_TIMEOUT_S."""
        with contextlib.ExitStack() as ends:
            # In reverse order; each of them also when one before it fails or is interrupted.
            ends.callback(self._store.close)
            ends.callback(self._shell.stop)
            ends.callback(self._task_managers.stop)
            ends.callback(self._end_jobs)
            ends.callback(self._results.close_all)
            ends.callback(self._attached.close)

    def _end_jobs(self) -> None:
        is_running, self._is_started = self._is_started, False
        # A crashed JobManager has no jobs to end.
        with contextlib.suppress(SqlStreamError):
            if is_running:
                self._cancel_jobs()

    def _cancel_jobs(self) -> None:
        deadline_s = steady_s() + END_JOBS_TIMEOUT_S
        running = [j.job_id for j in self._shell.overview() if not j.status.is_terminal]
        # One that has ended meanwhile may be forgotten.
        for job_id in running:
            with contextlib.suppress(UserError):
                self._shell.cancel(job_id)
        for job_id in running:
            with contextlib.suppress(UserError, TimeoutError):
                self._shell.wait(job_id, max(0.0, deadline_s - steady_s()))

    @property
    def address(self) -> str:
        """Where the JobManager listens; `token` is what its clients must present."""
        return self._task_managers.address

    @property
    def task_managers_address(self) -> str:
        """Where TaskManagers register."""
        return self._task_managers.result_address

    def _on_unprinted(self, job_id: str, error: OSError) -> None:
        self._print_errors[job_id] = error
        self.cancel(job_id)

    def _receive(self, message: rpc.ToJobManager) -> None:
        self._shell.receive(message)

    def _on_crash(self, _: ErrorInfo) -> None:
        self._attached.close()
        self._around.on_crash()


def _tables(graph: JobGraph) -> Iterator[SourceSpec | SinkSpec | InferTableSpec]:
    """Those that the job reads and writes, and the one that it infers."""
    yield from (o.spec for v in graph.vertices for o in v.operators if isinstance(o.spec, InferTableSpec))
    yield from (spec for _, spec in read_tables(graph))
    yield from (spec for _, spec in written_tables(graph))
