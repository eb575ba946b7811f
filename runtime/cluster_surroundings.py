"""What a cluster of one process has around it: the part that runs its tasks, and what it is given by who starts it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sqlstream.messages.log_levels import LogLevels, SetLogLevels
from sqlstream.messages.stacks import RequestStacks, StacksReply
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.runtime.host.owned_files import CheckOwner
from sqlstream.runtime.host.process_directory import ProcessDirectory
from sqlstream.runtime.host.rooted_files import FilePlaces
from sqlstream.runtime.jobmanager.collaborators import Committer, JobStore, KeepNothing
from sqlstream.runtime.jobmanager.events import EndedJob
from sqlstream.runtime.providers.child_output import PassOn, print_errors
from sqlstream.runtime.transport import Transport


def print_to_terminal(job_id: str, lines: list[str], is_error: bool) -> None:
    """Where the connector `print` writes unless the client says otherwise."""
    stream = sys.stderr if is_error else sys.stdout
    stream.write("".join(f"{line}\n" for line in lines))
    stream.flush()


class TaskManagers(Protocol):
    """The part of a cluster that runs tasks: child processes, or threads of this process."""

    @property
    def address(self) -> str:
        """Where clients of this machine reach the JobManager."""

    @property
    def result_address(self) -> str:
        """The address to which result sinks send rows for the client."""

    @property
    def transport(self) -> Transport: ...

    @property
    def process_ids(self) -> tuple[int, ...]:
        """The process ids of the TaskManagers, without this process."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def stacks(self, address: str, request: RequestStacks) -> StacksReply:
        """What the threads of the TaskManager at `address` do. ExternalError SS6072 when it does not answer."""

    def log_levels(self, address: str, request: SetLogLevels) -> LogLevels:
        """Set levels of loggers of the TaskManager at `address`, and say which are set. ExternalError SS6072 when it does not
        answer."""

    def keep_log_levels(self, levels: dict[str, str]) -> None:
        """Set these levels in TaskManagers that come later, too."""

    def request_task_manager(self, resource_id: str) -> None: ...

    def release_task_manager(self, resource_id: str, is_lost: bool) -> None: ...


def temporary_artifacts() -> ArtifactStore:
    """Files that go with the jobs of this process, and end with it."""
    own = ProcessDirectory(tempfile.gettempdir(), "sqlstream-artifacts-")
    return ArtifactStore(lambda: own.path)


@dataclass(frozen=True)
class ClusterSurroundings:
    """What a cluster that outlives its jobs has around it: where it keeps jobs, which ones have ended before, where files may
    lie (None: anywhere), what takes the output of its children, what is called when its JobManager breaks off, and with the
    name of the message and the job id when a client in another process submits or cancels a job. Jobs whose settings name no
    directory for their checkpoints have them below `checkpoint_directory`; empty: they take none. `on_checkpoint` is called with
    the ids of a job and a checkpoint, on any thread, before that counts as complete. Of servers
    that take the place of each other, each has an `epoch` of its own, which ids of checkpoints go by; 0 for one that is alone.
    It removes nothing when `check_owner` says that another has taken its place (SS6077). `token` is what all processes of the
    cluster show each other; empty: one is made for the life of this JobManager. `artifacts` are the files that go with jobs.
    `on_temporary` is called with the path of a savepoint that goes with its user, before it is there and when it is gone."""

    store: JobStore = field(default_factory=KeepNothing)
    committer: Committer | None = None
    ended: tuple[EndedJob, ...] = ()
    places: FilePlaces | None = None
    pass_on: PassOn = print_errors
    on_crash: Callable[[], None] = lambda: None
    on_client_change: Callable[[str, str], None] = lambda message, job_id: None
    checkpoint_directory: str = ""
    on_checkpoint: Callable[[str, int], None] = lambda job_id, checkpoint_id: None
    epoch: int = 0
    check_owner: CheckOwner | None = None
    token: str = ""
    artifacts: ArtifactStore = field(default_factory=lambda: temporary_artifacts())
    on_temporary: Callable[[str, bool], None] = lambda path, is_there: None
