"""The checkpoints of a job, or one savepoint, in a directory of the local disk or of another file system."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from sqlstream.errors import ExternalError, SqlStreamError, UserError
from sqlstream.messages.checkpoint import STATE_DIRECTORY, checkpoint_of_path
from sqlstream.messages.manifest import ARTIFACTS_DIRECTORY, CheckpointManifest
from sqlstream.runtime.checkpoint.manifest_file import (
    corrupt_checkpoint,
    decode_manifest,
    encode_manifest,
    files_not_shared,
)
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.files import Files

METADATA = "_metadata"
_DRAFT = "._metadata"
_CHECKPOINT = re.compile(r"chk-(\d{1,18})")
_METADATA_BYTES_MAX = 1 << 28
_NAMES_MAX = 1 << 20
_NAMES_LOOKED_AT_MAX = 50
"""For a hint, which is no reason to ask a store for long."""


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint or savepoint that was read. `path` is its own directory, as users name it; paths of its segments are below
    `directory`."""

    path: str
    directory: str
    manifest: CheckpointManifest


@dataclass(frozen=True)
class DamagedCheckpoint:
    """A checkpoint whose `_metadata` cannot be used, which the error names."""

    checkpoint_id: int
    error: SqlStreamError


@dataclass(frozen=True)
class RetainedCheckpoints:
    """What a directory holds, and what is damaged in it; both newest first."""

    checkpoints: tuple[StoredCheckpoint, ...]
    faults: tuple[DamagedCheckpoint, ...]

    def newest(self) -> StoredCheckpoint | None:
        """The newest of all, None when there is none; raises the error of one that is damaged."""
        checkpoint = next(iter(self.checkpoints), None)
        fault = next(iter(self.faults), None)
        if fault is None:
            return checkpoint
        if checkpoint is not None and checkpoint.manifest.checkpoint_id > fault.checkpoint_id:
            return checkpoint
        raise fault.error


class CheckpointDirectory:
    """Keeps manifests beside the files of state that tasks have written: those of checkpoints as `chk-<id>/_metadata` below the
    directory of a job, that of a savepoint as `_metadata` in its own.

    A checkpoint is there from the moment on at which its manifest is, whole and at once; and its manifest goes first. Failures
    are ExternalError SS5001 with the path and the cause, and leave what was there before. No state."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory.rstrip("/")

    def store(self, manifest: CheckpointManifest) -> str:
        """Make a checkpoint complete, durably; returns its path, by which `load_checkpoint` finds it. After a failure the
        manifest may be there all the same, if the store does not remove it either: `remove_aborted` then does, first of all.
        ExternalError SS6210 when a file of an earlier one is gone that it refers to, SS5001 when only files are that were written
        for it: one look at their directory finds it."""
        self._check_files(manifest)
        path = self._place(manifest)
        draft = f"{path}/{_DRAFT}"
        stream = self._files.open_write(draft)
        try:
            with stream:
                stream.write(encode_manifest(manifest))
                stream.flush()
                self._files.sync(stream)
            self._files.publish(draft, f"{path}/{METADATA}")
        except BaseException as error:
            # Of a store that fails this may fail too: the sweep finds what is left.
            with contextlib.suppress(ExternalError):
                self._files.remove(f"{path}/{METADATA}")
                self._files.remove(draft)
            if isinstance(error, OSError):
                raise file_error("write", f"{path}/{METADATA}", error) from error
            raise
        return path

    def _check_files(self, manifest: CheckpointManifest) -> None:
        """Somebody may have removed files of the checkpoints that its increments follow, or their volume may be away."""
        paths = manifest.paths()
        if not paths or not (gone := paths - self._state_paths()):
            return
        earlier = {path for path in gone if not _is_of(path, manifest.checkpoint_id)}
        if not earlier:
            # The next one would lack its files too, also when it is whole.
            raise files_not_shared(f"{self._directory}/{min(gone)}")
        raise corrupt_checkpoint(f"{self._directory}/{min(earlier)}", "there is no such file")

    def discard(self, manifest: CheckpointManifest, still_needed: frozenset[str] | None) -> None:
        """Remove a checkpoint with its files, but for those that others need. None: whoever removes it does not know which others
        there are, and the directory, which is not the caller's, goes with the last one. Harmless when repeated."""
        path = self._place(manifest)
        for name in (METADATA, _DRAFT):
            self._files.remove(f"{path}/{name}")
        if manifest.kind.is_savepoint and manifest.artifacts:
            self._files.remove(f"{path}/{ARTIFACTS_DIRECTORY}")
        if still_needed is not None or manifest.kind.is_savepoint:
            self._remove_state(manifest.paths() - (still_needed or frozenset()))
        else:
            retained = self.retained()
            # What one that cannot be read refers to is not known.
            if not retained.faults and not retained.checkpoints:
                # Nobody goes on from here: what a job has left that was killed while it took a checkpoint goes too. One that
                # still runs finds its files gone when it stores its manifest.
                self.sweep()
            elif not retained.faults:
                needed = {path for stored in retained.checkpoints for path in stored.manifest.paths()}
                self._remove_state(manifest.paths() - needed)
        if not manifest.kind.is_savepoint:
            self._files.remove_directory_if_empty(path)
        if manifest.kind.is_savepoint or still_needed is None:
            self._remove_if_empty()

    def remove_aborted(self, checkpoint_id: int) -> None:
        """Remove what was written for a checkpoint that is aborted: first its manifest, if it is there although the store has
        reported a failure, then its files, also those of tasks that died before they told."""
        for path in (f"{self._directory}/chk-{checkpoint_id}", self._directory):
            for name in (METADATA, _DRAFT):
                self._files.remove(f"{path}/{name}")
        self._files.remove_directory_if_empty(f"{self._directory}/chk-{checkpoint_id}")
        self._files.remove(f"{self._directory}/{ARTIFACTS_DIRECTORY}")
        self._remove_state(p for p in self._state_paths() if _is_of(p, checkpoint_id))

    def remove_all(self) -> None:
        """Remove all checkpoints, the manifests first: what is left when this breaks off is no checkpoint. The directory goes,
        too, unless users have put a savepoint there."""
        for number in self.numbers():
            self._files.remove(f"{self._directory}/chk-{number}")
        if self._files.status(self._directory) is None:
            return
        names = {name for name, _ in self._files.list_names(self._directory, 2)}
        # A store keeps an empty directory from which something was removed, so that it goes as a whole.
        is_own = names <= {STATE_DIRECTORY}
        self._files.remove(self._directory if is_own else f"{self._directory}/{STATE_DIRECTORY}")

    def retained(self) -> RetainedCheckpoints:
        """All complete checkpoints of the job, also those of JobManagers that have died."""
        checkpoints: list[StoredCheckpoint] = []
        faults: list[DamagedCheckpoint] = []
        for number in sorted(self.numbers(), reverse=True):
            path = f"{self._directory}/chk-{number}"
            if self._files.status(f"{path}/{METADATA}") is None:
                continue
            try:
                checkpoints.append(StoredCheckpoint(path, self._directory, _read(self._files, path)))
            except SqlStreamError as error:
                if not error.code.startswith("SS62"):
                    raise
                faults.append(DamagedCheckpoint(number, error))
        return RetainedCheckpoints(tuple(checkpoints), tuple(faults))

    def sweep(self) -> RetainedCheckpoints:
        """Remove what no checkpoint in the directory refers to, and the directory when nothing is left: what crashes have left
        behind. Called while no task of the job can write. With a manifest that cannot be read, its files are unknown: nothing is
        removed. Returns what `retained` does. Where there is nothing to remove, nothing is written, not even that this server
        may: a server that takes over sweeps for each job."""
        retained = self.retained()
        if retained.faults:
            return retained
        for stored in retained.checkpoints:
            # Whoever published it may have died before its name would survive a crash of the machine, and sinks commit behind it.
            self._files.sync_directory(stored.path)
            self._files.sync_directory(self._directory)
            # A store that publishes by a copy may have both.
            if self._files.status(draft := f"{stored.path}/{_DRAFT}") is not None:
                self._files.remove(draft)
        complete = {stored.manifest.checkpoint_id for stored in retained.checkpoints}
        for number in self.numbers() - complete:
            self._files.remove(f"{self._directory}/chk-{number}")
        needed = {path for stored in retained.checkpoints for path in stored.manifest.paths()}
        self._remove_state(self._state_paths() - needed)
        if not retained.checkpoints:
            self._remove_if_empty()
        return retained

    def _place(self, manifest: CheckpointManifest) -> str:
        if manifest.kind.is_savepoint:
            return self._directory
        return f"{self._directory}/chk-{manifest.checkpoint_id}"

    def numbers(self) -> set[int]:
        """The ids of the directories chk-<id>."""
        if self._files.status(self._directory) is None:
            return set()
        names = self._files.list_names(self._directory, _NAMES_MAX)
        return {
            int(found.group(1)) for name, is_dir in names if is_dir and (found := _CHECKPOINT.fullmatch(name))
        }

    def _state_paths(self) -> set[str]:
        directory = f"{self._directory}/{STATE_DIRECTORY}"
        if self._files.status(directory) is None:
            return set()
        names = self._files.list_names(directory, _NAMES_MAX)
        return {f"{STATE_DIRECTORY}/{name}" for name, is_directory in names if not is_directory}

    def _remove_state(self, paths: Iterable[str]) -> None:
        """As many files as can be removed are; the first failure is raised at the end."""
        failures = []
        for path in sorted(paths):
            try:
                self._files.remove(f"{self._directory}/{path}")
            except ExternalError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _remove_if_empty(self) -> None:
        self._files.remove_directory_if_empty(f"{self._directory}/{STATE_DIRECTORY}")
        self._files.remove_directory_if_empty(self._directory)


def load_checkpoint(files: Files, path: str) -> StoredCheckpoint:
    """The checkpoint or savepoint at a path that a user has named: its directory, or the `_metadata` in it. UserError SS6212 when
    there is none, SS6211 for one of another version; ExternalError SS6210 when it is torn."""
    place = path.rstrip("/").removesuffix(f"/{METADATA}")
    if files.status(f"{place}/{METADATA}") is None:
        raise UserError("SS6212", f'there is no checkpoint at "{path}"', hint=_hint(files, place))
    manifest = _read(files, place)
    directory = place if manifest.kind.is_savepoint else os.path.dirname(place)
    return StoredCheckpoint(place, directory, manifest)


def is_away(files: Files, directory: str) -> bool:
    """Whether a directory out of which a checkpoint is read has none that is complete: its volume is not mounted, say, or it was
    moved. Of a file that is missing there nothing follows."""
    if files.status(f"{directory}/{METADATA}") is not None:
        return False
    numbers = CheckpointDirectory(files, directory).numbers()
    return all(files.status(f"{directory}/chk-{number}/{METADATA}") is None for number in numbers)


def savepoint_directory(directory: str, job_id: str) -> str:
    """A directory for a savepoint below the one that the user has named, another at each call."""
    return f"{directory.rstrip('/')}/savepoint-{job_id[:6]}-{secrets.token_hex(6)}"


def _read(files: Files, place: str) -> CheckpointManifest:
    path = f"{place}/{METADATA}"
    status = files.status(path)
    if status is not None and status.size > _METADATA_BYTES_MAX:
        raise corrupt_checkpoint(path, f"it has {status.size} bytes")
    try:
        with files.open_read(path) as stream:
            return decode_manifest(path, stream.read(_METADATA_BYTES_MAX))
    except OSError as error:
        raise file_error("read", path, error) from error


def _is_of(path: str, checkpoint_id: int) -> bool:
    try:
        return checkpoint_of_path(path) == checkpoint_id
    except ValueError:
        return False


def _hint(files: Files, place: str) -> str:
    """What to name instead: the newest checkpoint or savepoint below the path, else the one beside it whose name is most like."""
    near = ""
    # Of a path that is a file there is nothing to list, and directories above it may be none of ours.
    with contextlib.suppress(SqlStreamError):
        if retained := CheckpointDirectory(files, place).retained().checkpoints:
            near = retained[0].path
        elif below := _checkpoints_in(files, place):
            near = max(below, key=lambda path: below[path])
    with contextlib.suppress(SqlStreamError):
        if not near:
            by_name = {os.path.basename(p): p for p in _checkpoints_in(files, os.path.dirname(place))}
            like = difflib.get_close_matches(os.path.basename(place), by_name, 1)
            near = by_name[like[0]] if like else ""
    if near:
        return f'write "{near}"'
    return "name the directory of a checkpoint (…/chk-12) or of a savepoint; a job that claims one removes it"


def _checkpoints_in(files: Files, directory: str) -> dict[str, int]:
    """Checkpoints and savepoints in a directory, and when they were complete."""
    if files.status(directory) is None:
        return {}
    names = files.list_names(directory, _NAMES_LOOKED_AT_MAX)
    paths = [f"{directory}/{name}" for name, is_directory in names if is_directory]
    found = ((path, files.status(f"{path}/{METADATA}")) for path in paths)
    return {path: status.modified_ms for path, status in found if status is not None}
