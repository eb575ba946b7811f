"""A cluster of this process and its children, started when a job needs it."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, BinaryIO

from sqlstream import config as options
from sqlstream.errors import ErrorInfo, UserError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph, read_tables
from sqlstream.options.checkpointing_options import takes_checkpoints
from sqlstream.runtime.host.process_directory import ABANDONED_S

if TYPE_CHECKING:
    from sqlstream.messages import rpc
    from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
    from sqlstream.messages.client_rpc import SavepointRequest, SavepointStatusReply
    from sqlstream.runtime.embedded import EmbeddedCluster
    from sqlstream.runtime.host.artifacts import ArtifactStore
    from sqlstream.runtime.net.results import JobResults, PrintLines

IN_PROCESS_INPUT = "sqlstream.in-process.max-input-size"

RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
OWN_DIRECTORY = "execution.checkpointing.dir"

CHECKPOINTS_PREFIX = "sqlstream-checkpoints-"
TEMPORARY = ".temporary"
"""The locked file of a directory that goes with its process."""

IN_PROCESS_PARALLELISM_MAX = 4
"""Highest parallelism of a job in this process; wider jobs run in child processes, since threads share one interpreter lock."""

JOBS_REMEMBERED_MAX = 1000
"""How many ended jobs are found again by their id."""


class LocalClusterClient:
    """Runs a job with little to read on threads of this process, where it finishes before a child process would have started,
    and every other job in child processes. Implements `ClusterClient`.

    Each of the two clusters starts with the first job that needs it, and ends with `close`. Children start as jobs
    need them; `task_managers` of them start at once and stay, and then run every job, however small. State: the clusters,
    which of them runs each job, and the checkpoints of jobs that name no directory for them.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        task_managers: int | None = None,
        print_lines: PrintLines | None = None,
    ) -> None:
        """`config` holds the settings of the cluster. `print_lines` receives the lines of connector `print`; by default they go
        to standard output and error."""
        self._config = dict(config or {})
        if options.get(self._config, "execution.target") == "standalone":
            raise UserError(
                "SS4003",
                "TaskManagers join a server, and not a command",
                hint="start sqlstream server, and use sqlstream submit, or give this command execution.target = local",
            )
        self._is_on_spark = options.get(self._config, "execution.target") == "spark"
        self._task_managers = task_managers
        self._print_lines = print_lines
        self._clusters: dict[bool, EmbeddedCluster] = {}
        self._checkpoints = CommandCheckpoints()
        self._cluster_of: dict[str, EmbeddedCluster] = {}
        self._ended: deque[str] = deque()
        self._kept_artifacts: ArtifactStore | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def cluster(self, in_process: bool = False) -> EmbeddedCluster:
        """The cluster of child processes, or the one in this process; started at the first call."""
        with self._lock:
            if self._is_closed:
                raise UserError("SS6012", "the cluster has ended")
            if in_process not in self._clusters:
                from sqlstream.runtime.cluster_surroundings import ClusterSurroundings, print_to_terminal
                from sqlstream.runtime.embedded import EmbeddedCluster
                from sqlstream.runtime.providers.providers import is_on_one_host

                print_lines = self._print_lines or print_to_terminal
                is_reached = in_process or is_on_one_host(self._config)
                surroundings = ClusterSurroundings(
                    checkpoint_directory=self._checkpoints.directory if is_reached else "",
                    artifacts=self._artifacts(),
                )
                cluster = EmbeddedCluster(
                    self._config, self._task_managers, in_process, print_lines, surroundings
                )
                self._clusters[in_process] = cluster
                cluster.start()
            return self._clusters[in_process]

    def submit(self, graph: JobGraph) -> None:
        self._checkpoints.note(graph)
        cluster = self.cluster(self._runs_in_process(graph))
        cluster.submit(graph)
        with self._lock:
            self._cluster_of[graph.job_id] = cluster
        cluster.when_ended(graph.job_id, lambda reply: self._remember_ended(reply.job_id))

    def _remember_ended(self, job_id: str) -> None:
        with self._lock:
            self._ended.append(job_id)
            while len(self._ended) > JOBS_REMEMBERED_MAX:
                self._cluster_of.pop(self._ended.popleft(), None)

    def _runs_in_process(self, graph: JobGraph) -> bool:
        if is_trivial(graph) or (graph.is_batch and self._task_managers is None):
            # A batch engine has threads or processes of its own, and is warm for the next statement.
            return True
        if self._is_on_spark:
            # An executor starts no Spark of its own.
            return graph.is_on_spark
        input_max = options.get(graph.config, IN_PROCESS_INPUT) if self._task_managers is None else 0
        return input_max > 0 and is_small(graph, input_max)

    def _of(self, job_id: str) -> EmbeddedCluster:
        with self._lock:
            found = self._cluster_of.get(job_id)
        if found is None:
            raise UserError(
                "SS6009", f'job "{job_id}" is not known', hint="list the jobs that are: SHOW JOBS"
            )
        return found

    def results(self, job_id: str) -> JobResults:
        return self._of(job_id).results(job_id)

    def when_ended(self, job_id: str, callback: Callable[[rpc.JobStatusReply], None]) -> None:
        self._of(job_id).when_ended(job_id, callback)

    def wait(self, job_id: str, timeout_s: float | None = None) -> rpc.JobStatusReply:
        return self._of(job_id).wait(job_id, timeout_s)

    def status(self, job_id: str) -> rpc.JobStatusReply:
        return self._of(job_id).status(job_id)

    def cancel(self, job_id: str) -> None:
        self._of(job_id).cancel(job_id)

    def metrics(self, job_id: str) -> rpc.JobMetrics:
        return self._of(job_id).metrics(job_id)

    def details(self, job_id: str) -> rpc.JobDetails:
        return self._of(job_id).details(job_id)

    def described(self, job_id: str) -> tuple[rpc.JobDetails, JobGraph]:
        return self._of(job_id).described(job_id)

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        return self._of(job_id).exceptions(job_id)

    def job_graph(self, job_id: str) -> JobGraph:
        return self._of(job_id).job_graph(job_id)

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        return self._of(job_id).checkpoints(job_id)

    def take_checkpoint(self, job_id: str, trigger_id: str) -> None:
        self._of(job_id).take_checkpoint(job_id, trigger_id)

    def take_savepoint(self, request: SavepointRequest) -> None:
        self._of(request.job_id).take_savepoint(request)

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        return self._of(job_id).savepoint_status(job_id, trigger_id)

    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None:
        self.cluster().dispose_savepoint(path, config)

    def add_artifact_part(self, artifact: Artifact, offset: int, data: bytes) -> int:
        return self._artifacts().add_part(
            artifact,
            offset,
            data,
            size_max=options.get(self._config, "sqlstream.artifacts.max-size"),
            room=options.get(self._config, "sqlstream.artifacts.cache-size"),
        )

    def artifact_size(self, digest: str) -> int | None:
        return self._artifacts().size(digest)

    def _artifacts(self) -> ArtifactStore:
        """The files that go with the jobs of both clusters."""
        if self._kept_artifacts is None:
            from sqlstream.runtime.cluster_surroundings import temporary_artifacts

            self._kept_artifacts = temporary_artifacts()
        return self._kept_artifacts

    def jobs(self) -> tuple[rpc.JobOverviewEntry, ...]:
        return tuple(job for cluster in self._started() for job in cluster.jobs())

    def task_managers(self) -> tuple[rpc.TaskManagerOverview, ...]:
        return tuple(found for cluster in self._started() for found in cluster.task_managers())

    def _started(self) -> tuple[EmbeddedCluster, ...]:
        with self._lock:
            return tuple(self._clusters.values())

    def close(self) -> None:
        """Stop the clusters; running jobs are cancelled with them."""
        with self._lock:
            self._is_closed = True
            clusters = list(self._clusters.values())
        for cluster in clusters:
            cluster.close()
        self._checkpoints.close()


class CommandCheckpoints:
    """A temporary directory, made when the first job needs it and removed by `close`, unless a job was to leave its
    checkpoints. That of a command that was killed is removed by a later one, ABANDONED_S after its last change.

    State: whether a job leaves its checkpoints, and the lock that says that this process lives."""

    def __init__(self) -> None:
        # Only the name is chosen here: most commands take no checkpoints.
        self.directory = os.path.join(tempfile.gettempdir(), f"{CHECKPOINTS_PREFIX}{secrets.token_hex(8)}")
        self._is_retained = False
        self._lock: BinaryIO | None = None

    def note(self, graph: JobGraph) -> None:
        """A job is about to be submitted."""
        if options.get(graph.config, RETENTION) != "NO_EXTERNALIZED_CHECKPOINTS":
            self._is_retained = True
            self._unlock()
            return
        takes_them_here = takes_checkpoints(graph.config) and not options.get(graph.config, OWN_DIRECTORY)
        if takes_them_here and self._lock is None and not self._is_retained:
            self._make()

    def _make(self) -> None:
        """The locked file in the directory says that nobody is to find it later."""
        for path in glob.glob(f"{glob.escape(tempfile.gettempdir())}/{CHECKPOINTS_PREFIX}*/{TEMPORARY}"):
            with contextlib.suppress(OSError):
                _remove_if_abandoned(path)
        # What is wrong with the place is the error of the first checkpoint.
        with contextlib.suppress(OSError):
            os.makedirs(self.directory, 0o700)
            self._lock = open(os.path.join(self.directory, TEMPORARY), "xb")  # noqa: SIM115 (closed by _unlock)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._lock.name)
            self._lock.close()
            self._lock = None

    def close(self) -> None:
        if not self._is_retained:
            shutil.rmtree(self.directory, ignore_errors=True)
        self._unlock()


def _remove_if_abandoned(path: str) -> None:
    """Remove the directory of a locked file whose process has ended. OSError when another user's, or locked."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory = os.path.dirname(path)
        changed_s = max(
            os.stat(found).st_mtime for found in (directory, *glob.glob(f"{glob.escape(directory)}/*/*"))
        )
        is_ours = os.fstat(lock.fileno()).st_uid == os.getuid() == os.lstat(directory).st_uid
        if is_ours and not os.path.islink(directory) and time.time() - changed_s > ABANDONED_S:
            shutil.rmtree(directory, ignore_errors=True)


def is_trivial(graph: JobGraph) -> bool:
    """Whether the job reads literal rows only and runs in one subtask, so that no child process is worth its start."""
    has_source = next(read_tables(graph), None) is not None
    return not has_source and all(v.parallelism == 1 for v in graph.vertices)


def is_small(graph: JobGraph, input_bytes_max: int) -> bool:
    """Whether all tables of the job end, hold at most `input_bytes_max` by their connectors' estimates, and few subtasks run."""
    from sqlstream.runtime.connectors import connector
    from sqlstream.runtime.host.files import LocalFiles
    from sqlstream.spi.connector import MeasuresInput

    if any(v.parallelism > IN_PROCESS_PARALLELISM_MAX for v in graph.vertices):
        return False
    sources = [spec for _, spec in read_tables(graph)]
    if not all(source.is_bounded for source in sources):
        return False
    total, files = 0, LocalFiles()
    for source in sources:
        measuring = connector(source.connector)
        if not isinstance(measuring, MeasuresInput):
            return False
        total += measuring.input_bytes(source, files)
        if total > input_bytes_max:
            return False
    return True
