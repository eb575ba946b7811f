"""What a session needs of the cluster that runs its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from sqlstream.errors import ErrorInfo
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages import rpc
from sqlstream.messages.checkpoint_statistics import CheckpointStatistics
from sqlstream.messages.client_rpc import SavepointRequest, SavepointStatusReply
from sqlstream.messages.log_levels import LogLevels, SetLogLevels
from sqlstream.messages.rescale import RescaleStatus
from sqlstream.messages.stacks import RequestStacks, StacksReply

if TYPE_CHECKING:
    from sqlstream.runtime.net.results import JobResults


class ClusterClient(Protocol):
    """Submits jobs and follows them (Flink: ClusterClient). All methods are thread-safe; their errors are SqlStreamError, with
    UserError SS6009 for a job that is not known, or no longer.

    Implemented by `EmbeddedCluster` (JobManager in this process), `LocalClusterClient` (which starts what a job needs) and
    `RemoteClusterClient` (JobManager in another process).
    """

    def submit(self, graph: JobGraph) -> None:
        """Start the job; returns once it is accepted. UserError or JobError when it cannot run."""

    def results(self, job_id: str) -> JobResults:
        """The rows of the job's `collect` sink, for one reader. While nobody reads, a bounded number of bytes waits, and then
        the job waits."""

    def when_ended(self, job_id: str, callback: Callable[[rpc.JobStatusReply], None]) -> None:
        """Call once with the job's final status, from any thread, so the callback must not wait; at once when the job has
        ended. A job whose JobManager ends first is SUSPENDED."""

    def wait(self, job_id: str, timeout_s: float | None = None) -> rpc.JobStatusReply:
        """Wait until the job has ended; TimeoutError when it takes longer. OSError when the lines of its `print` sink could
        not be written here."""

    def status(self, job_id: str) -> rpc.JobStatusReply: ...

    def cancel(self, job_id: str) -> None:
        """Cancel the job and drop its rows; returns before it has ended, and does nothing when it has."""

    def metrics(self, job_id: str) -> rpc.JobMetrics:
        """The latest figures. Asking for them makes TaskManagers report fresh ones for the next call."""

    def details(self, job_id: str) -> rpc.JobDetails: ...

    def described(self, job_id: str) -> tuple[rpc.JobDetails, JobGraph]:
        """The details of a job and its graph, both of one moment: they name the same vertices, also while the job is
        rescaled."""

    def exceptions(self, job_id: str) -> tuple[ErrorInfo, ...]:
        """The job's failures: its cause first, then what else its tasks reported."""

    def job_graph(self, job_id: str) -> JobGraph: ...

    def jobs(self) -> tuple[rpc.JobOverviewEntry, ...]:
        """Running jobs, then the newest of those that have ended."""

    def checkpoints(self, job_id: str) -> CheckpointStatistics:
        """The counts of the job's checkpoints and the newest of them; also of one that takes none."""

    def take_checkpoint(self, job_id: str, trigger_id: str) -> None:
        """Begin a checkpoint of a job that runs; `savepoint_status` tells how it went. UserError when it takes none."""

    def take_savepoint(self, request: SavepointRequest) -> None:
        """Begin a savepoint of a job that runs, or the one with which it ends; `savepoint_status` tells how it went."""

    def savepoint_status(self, job_id: str, trigger_id: str) -> SavepointStatusReply:
        """How far what was triggered under that id is."""

    def dispose_savepoint(self, path: str, config: Mapping[str, str] | None = None) -> None:
        """Remove a savepoint; returns when it is removed. `config` are the settings by which its place is reached, beside
        those of the cluster."""

    def add_artifact_part(self, artifact: Artifact, offset: int, data: bytes) -> int:
        """Send the next part of a file that goes with jobs to come; returns how many bytes of it the cluster has, which is all of
        them once it is whole. Without `data` it only tells. UserError SS5087 for one that is too large, ExternalError SS5089
        for bytes that have another digest."""

    def artifact_size(self, digest: str) -> int | None:
        """The bytes of a file that the cluster has whole; None for one that it has not."""

    def task_managers(self) -> tuple[rpc.TaskManagerOverview, ...]: ...

    def close(self) -> None:
        """Disconnect. A cluster that this client started ends with it; harmless when repeated."""


class ServedCluster(ClusterClient, Protocol):
    """The cluster of a server, whose REST also changes the parallelism of jobs. Implemented by `EmbeddedCluster`."""

    def check_answers(self) -> None:
        """Return when the JobManager answers, and raise within a second when it does not: SqlStreamError with a message that
        names no addresses."""

    def rescale(self, graph: JobGraph, trigger_id: str) -> None:
        """Give a running job this graph, of the same operators at another parallelism; returns once that has begun, and a
        repetition does nothing. UserError or JobError when it is refused."""

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        """What the threads of the TaskManager at `address` do. ExternalError SS6072 when it does not answer."""

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        """Set levels of loggers of the TaskManager at `address`, and say which are set. ExternalError SS6072 when it does not
        answer."""

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        """Set these levels in TaskManagers that come later, too."""

    def rescale_status(self, job_id: str, trigger_id: str) -> RescaleStatus:
        """How far the rescale is that was asked for under that id."""
