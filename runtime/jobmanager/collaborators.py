"""Those who carry out what the JobManager decides: the store of jobs, the committer of sinks, the provider of TaskManagers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sqlstream.errors import ErrorInfo
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.runtime.jobmanager import events


class JobStore(Protocol):
    """Where jobs are kept while they live. Called on one thread; errors are SqlStreamError or OSError."""

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        """Keep a job; `encoded` is its graph as `encode_job_graph` gives it."""

    def mark_ending(self, job_id: str, end: JobStatus, error: ErrorInfo | None) -> None:
        """What sinks have not committed is about to be removed: the job ends so, and never runs again."""

    def keep_end(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        """Somebody has asked for the end of the job, also when the process dies before that."""

    def forget_end(self, job_id: str) -> None:
        """Nobody asks for it any more."""

    def blame(self, job_id: str) -> None:
        """The JobManager ends by an error of its own while it deals with this job. Called on any thread."""

    def remove(self, job_id: str, ended: events.EndedJob) -> None:
        """The job has ended, and `ended` is what is known of it, with times of the wall clock."""

    def kept_file(self, job_id: str) -> str:
        """The absolute path of the file that is there while the job is kept, also when the process has died. Empty for a store
        that ends with its process."""


class Committer(Protocol):
    """Finishes or undoes the work of sinks through their connectors. Errors are SqlStreamError or OSError."""

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[events.SinkCommit, ...], is_last: bool = False
    ) -> None:
        """All or nothing as far as a reader can see; harmless when repeated, and completes a commit that broke off. `is_last`:
        the job ends with it."""

    def abort(self, job_id: str, commits: tuple[events.SinkCommit, ...]) -> None:
        """Remove what is staged for the job, and what those committables name, also when it has been committed."""

    def remove_staged(self, job_id: str, staged: tuple[events.StagedRows, ...]) -> None:
        """Remove what these writers have staged, which no job needs."""


class CheckpointStore(Protocol):
    """Keeps manifests beside the state files that tasks write. Called on several threads, and on one at a time for each
    checkpoint. Errors are SqlStreamError or OSError."""

    def store(self, directory: str, manifest: CheckpointManifest) -> str:
        """Make the checkpoint complete, all at once; returns its path. `directory` is that of the job's checkpoints, and that of
        a savepoint. ExternalError SS6210 when a file of an earlier checkpoint is gone that it refers to."""

    def load(self, path: str, config: Mapping[str, str]) -> events.LoadedCheckpoint:
        """The checkpoint or savepoint at a path: its directory, or the `_metadata` in it. UserError when there is none, and
        ExternalError SS6210 for one that is not as it was written."""

    def latest(self, directory: str, config: Mapping[str, str]) -> Sequence[events.LoadedCheckpoint]:
        """The complete checkpoints of a job, newest first. What cannot be read is left out, and logged."""

    def discard(
        self,
        directory: str,
        manifest: CheckpointManifest,
        still_needed: frozenset[str] | None,
        config: Mapping[str, str],
    ) -> None:
        """Remove the manifest, then all its files but these; None: but those of other checkpoints in the directory."""

    def remove_aborted(self, directory: str, checkpoint_id: int, config: Mapping[str, str]) -> None:
        """Remove what was written for a checkpoint that is not complete, the manifest first if it is there after all."""

    def remove_all(self, directory: str, config: Mapping[str, str]) -> None:
        """Remove the directory of a job's checkpoints with all that is in it."""


class ResourceProvider(Protocol):
    """Starts and ends TaskManagers. Calls `task_manager_exited` of the shell once for each that was started and has ended,
    released or not."""

    def request_task_manager(self, resource_id: str) -> None:
        """Start a TaskManager of that id; returns before it is up. Any error means that it was not started."""

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None:
        """End that TaskManager: by force when it `is_lost`, else it may end itself first. Returns before it has ended, and
        does nothing when it ended before."""


class SplitEnumerators(Protocol):
    """Runs the enumerators of all jobs, on threads of its own: every call but `on_finished` returns at once."""

    def start(
        self,
        source: events.StartEnumerator,
        report: Callable[[events.SplitsDiscovered | events.DiscoveryFailed], None],
    ) -> None:
        """Start the enumerator of a source, or let it look again."""

    def give_back(self, returned: events.GiveBackSplits) -> None: ...

    def on_finished(self, job_id: str, read: tuple[events.ReadTable, ...]) -> None:
        """A job is about to finish that has read these tables: returns when their connectors know it. Called by any thread."""

    def stop_job(self, job_id: str) -> None:
        """End and forget the enumerators of a job; a look that is under way is not reported."""

    def close(self) -> None: ...


class KeepNothing:
    """The JobStore of a cluster that ends with its only client: it keeps nothing, as nothing would read it."""

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        del job_graph, encoded

    def mark_ending(self, job_id: str, end: JobStatus, error: ErrorInfo | None) -> None:
        del job_id, end, error

    def keep_end(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        del request

    def forget_end(self, job_id: str) -> None:
        del job_id

    def blame(self, job_id: str) -> None:
        del job_id

    def remove(self, job_id: str, ended: events.EndedJob) -> None:
        del job_id, ended

    def kept_file(self, job_id: str) -> str:
        del job_id
        return ""
