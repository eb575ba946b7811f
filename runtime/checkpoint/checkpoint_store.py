"""Where a JobManager keeps the checkpoints of all its jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from sqlstream import config as options
from sqlstream.errors import SqlStreamError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.manifest import ARTIFACTS_DIRECTORY, CheckpointManifest
from sqlstream.runtime.checkpoint.checkpoint_directory import (
    CheckpointDirectory,
    StoredCheckpoint,
    load_checkpoint,
)
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.runtime.host.file_systems import FileSystemOptions, check_login, is_in_store, remote_files
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.owned_files import CheckOwner, owned
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.spi.files import Files


def checkpoint_files(directory: str, config: Mapping[str, str]) -> Files:
    """The files of a directory, or of a path of another file system, which the job's settings such as `s3.access-key` say how to
    reach. UserError SS4002 and SS4005 for a login of which a part is missing."""
    if not is_in_store(directory):
        return PrivateFiles()
    check_login(f'for "{directory}"', {key: value for key, value in config.items() if value}, directory)
    elsewhere = FileSystemOptions(
        endpoint=options.get(config, "s3.endpoint"),
        region=options.get(config, "s3.endpoint.region"),
        access_key=options.get(config, "s3.access-key"),
        secret_key=options.get(config, "s3.secret-key"),
        gs_endpoint=options.get(config, "gs.endpoint"),
        gs_token=options.get(config, "gs.access-token"),
        azure_key=options.get(config, "fs.azure.account.key"),
        azure_endpoint=options.get(config, "fs.azure.endpoint"),
        user=options.get(config, "fs.user"),
        password=options.get(config, "fs.password"),
        private_key=options.get(config, "fs.private-key"),
        host_key=options.get(config, "fs.host-key"),
        token=options.get(config, "fs.token"),
    )
    # A server has asked already whether its users may name stores.
    return remote_files(directory, elsewhere, LocalFiles())


logger = logging.getLogger(__name__)


class CheckpointStore:
    """Stores, loads and removes checkpoints in directories of the local disk or elsewhere, whichever their paths name; `config`
    has the settings of the job, by which a store is reached. `on_complete` is called with the ids of a job and a checkpoint once
    that is in the store, which counts only when that returns. With `check_owner`, nothing is removed that another server may own.
    Errors are SqlStreamError. No state.

    `directory` is that of a job's checkpoints, `<execution.checkpointing.dir>/<job id>`, or a savepoint's own."""

    def __init__(
        self,
        on_complete: Callable[[str, int], None] = lambda job_id, checkpoint_id: None,
        artifacts: ArtifactStore | None = None,
        check_owner: CheckOwner | None = None,
    ) -> None:
        """Savepoints take the files that go with their jobs from `artifacts`."""
        self._on_complete = on_complete
        self._artifacts = artifacts
        self._check_owner = check_owner

    def store(self, directory: str, manifest: CheckpointManifest) -> str:
        """Make a checkpoint complete; returns its path, as users name it. See `CheckpointDirectory.store`."""
        if manifest.kind.is_savepoint and manifest.artifacts and self._artifacts is not None:
            files = checkpoint_files(directory, manifest.config)
            self._artifacts.copy_to(files, f"{directory}/{ARTIFACTS_DIRECTORY}", manifest.artifacts)
        path = self._directory(directory, manifest.config).store(manifest)
        if not manifest.kind.is_savepoint:
            self._on_complete(manifest.job_id, manifest.checkpoint_id)
        return path

    def load(self, path: str, config: Mapping[str, str]) -> StoredCheckpoint:
        """See `load_checkpoint`."""
        return load_checkpoint(checkpoint_files(path, config), path)

    def fetch_artifacts(
        self, directory: str, artifacts: Iterable[Artifact], config: Mapping[str, str]
    ) -> None:
        """Bring files of the savepoint in this directory here. ExternalError SS5001, SS5089 when one is gone or damaged."""
        assert self._artifacts is not None
        files = checkpoint_files(directory, config)
        for artifact in artifacts:
            self._artifacts.copy_from(files, f"{directory}/{ARTIFACTS_DIRECTORY}", artifact)

    def latest(self, directory: str, config: Mapping[str, str]) -> list[StoredCheckpoint]:
        """The complete checkpoints of a job, newest first; the log names those that cannot be read."""
        retained = self._directory(directory, config).retained()
        for fault in retained.faults:
            logger.warning("%s", fault.error.message)
        return list(retained.checkpoints)

    def sweep(self, directory: str, config: Mapping[str, str]) -> None:
        """Remove what a JobManager that has died left behind, as far as the store lets. See `CheckpointDirectory.sweep`."""
        try:
            self._directory(directory, config).sweep()
        except SqlStreamError as error:
            logger.warning('could not remove what is left in "%s": %s', directory, error.message)

    def discard(
        self,
        directory: str,
        manifest: CheckpointManifest,
        still_needed: frozenset[str] | None,
        config: Mapping[str, str],
    ) -> None:
        """Remove a checkpoint, and the files that only it needs."""
        self._directory(directory, config).discard(manifest, still_needed)

    def remove_aborted(self, directory: str, checkpoint_id: int, config: Mapping[str, str]) -> None:
        """Remove what was written for an aborted checkpoint. See `CheckpointDirectory.remove_aborted`."""
        self._directory(directory, config).remove_aborted(checkpoint_id)

    def remove_all(self, directory: str, config: Mapping[str, str]) -> None:
        """Remove what a job that has ended has in its directory. See `CheckpointDirectory.remove_all`."""
        self._directory(directory, config).remove_all()

    def _directory(self, directory: str, config: Mapping[str, str]) -> CheckpointDirectory:
        files = owned(checkpoint_files(directory, config), self._check_owner)
        return CheckpointDirectory(files, directory)


def recovered_checkpoints(
    store: CheckpointStore, graph: JobGraph, directory: str
) -> tuple[StoredCheckpoint, ...]:
    """Its own in `directory`, newest first, after what crashes have left behind was removed; then what it has claimed and not
    removed yet, which it goes back to, or removes with its next checkpoints. Empty when it has none of its own."""
    store.sweep(directory, graph.config)
    own = tuple(store.latest(directory, graph.config))
    return own + _claimed(store, graph) if own else ()


def _claimed(store: CheckpointStore, graph: JobGraph) -> tuple[StoredCheckpoint, ...]:
    path: str = options.get(graph.config, "execution.state-recovery.path")
    if not path or options.get(graph.config, "execution.state-recovery.claim-mode") != "CLAIM":
        return ()
    try:
        return (store.load(path, graph.config),)
    except SqlStreamError as error:
        # SS6212: the job has removed it.
        if error.code != "SS6212":
            logger.warning("what the job has claimed is left over: %s", error.message)
        return ()
