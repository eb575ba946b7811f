"""The second copies of state files that a TaskManager keeps on its local disk, so that recovery reads no store far away."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from sqlstream import config as options
from sqlstream.errors import InternalError
from sqlstream.messages.checkpoint import checkpoint_of_path
from sqlstream.messages.rpc import RESTORED_FROM_STORE, RESTORED_LOCALLY, Metrics
from sqlstream.options.state_options import directories_of
from sqlstream.runtime.host.process_directory import ProcessDirectory

LOCAL_BACKUP = "execution.checkpointing.local-backup.enabled"
FROM_LOCAL = "execution.state-recovery.from-local"


def writes_local_copies(config: Mapping[str, str]) -> bool:
    """Whether tasks with these settings keep copies of their state on the local disk."""
    writes: bool = options.get(config, LOCAL_BACKUP)
    return writes if LOCAL_BACKUP in config else reads_local_copies(config)


def reads_local_copies(config: Mapping[str, str]) -> bool:
    """Whether attempts with these settings go on from copies on the local disk."""
    reads: bool = options.get(config, FROM_LOCAL)
    return reads


def local_copy_directories(config: Mapping[str, str]) -> tuple[str, ...]:
    """Where TaskManagers of a cluster with these settings keep the copies; empty: where the system has temporary files."""
    directories: str = options.get(config, "execution.checkpointing.local-backup.dirs")
    if directories:
        return directories_of(directories)
    working: str = options.get(config, "process.taskmanager.working-dir") or options.get(
        config, "process.working-dir"
    )
    if working:
        return (f"{working.rstrip('/')}/localState",)
    return directories_of(options.get(config, "io.tmp.dirs"))


logger = logging.getLogger(__name__)

PREFIX = "sqlstream-local-state-"


@dataclasses.dataclass
class _Kept:
    """The copies of one subtask, some of which others share: their names, with the checkpoints that they were written for."""

    is_running: bool = True
    names: dict[str, int] = dataclasses.field(default_factory=dict)


class LocalCopies:
    """The copies of all tasks of one TaskManager, in one directory of this process below each of `roots`.

    A copy has the name and the bytes of its original. Of each subtask those are kept that the newest completed checkpoint names,
    and those written for it or since; all of a job go once it holds no slot here (`release`), and all when the process ends. A
    copy is only ever a shortcut: whoever finds none, or one with other bytes, reads the store.
    Copies of other processes of this machine are found too: those of a killed TaskManager serve the one that takes its place.
    They go with the next completed checkpoint of the job, with the job, or ABANDONED_S after the kill.
    All errors are OSError. Thread-safe. State: by job, vertex and subtask the copies."""

    def __init__(self, roots: Sequence[str] = ()) -> None:
        self._directories = [ProcessDirectory(root, PREFIX) for root in (roots or (tempfile.gettempdir(),))]
        self._jobs: dict[str, dict[tuple[str, int], _Kept]] = {}
        self._lock = threading.Lock()

    def of_subtask(self, job_id: str, vertex_id: str, subtask: int, figures: StateFigures) -> SubtaskCopies:
        """Those of a subtask of which an attempt starts in a slot of this TaskManager."""
        with self._lock:
            subtasks = self._jobs.setdefault(_checked(job_id), {})
            subtasks.setdefault((vertex_id, subtask), _Kept()).is_running = True
        return SubtaskCopies(self, job_id, (vertex_id, subtask), figures)

    def release(self, job_id: str) -> Callable[[], None] | None:
        """The job holds no slot here any more. Returns at once what removes its copies, if there may be any: to be called once,
        by any thread; it raises nothing."""
        with self._lock:
            subtasks = self._jobs.pop(job_id, None)
        if subtasks is None:
            return None
        return functools.partial(self._clear, job_id, [n for kept in subtasks.values() for n in kept.names])

    def find(self, job_id: str, name: str) -> str | None:
        """A file that may be the copy: that of this process, or of another."""
        below = f"{_checked(job_id)}/{_checked(name)}"
        for directory in self._directories:
            if directory.made and os.path.exists(path := f"{directory.made}/{below}"):
                return path
            for place in directory.others():
                if os.path.exists(path := f"{place}/{below}"):
                    return path
        return None

    # --- what the copies of one subtask do

    def add(self, job_id: str, owner: tuple[str, int], name: str) -> str | None:
        """The path of a copy that is to be written; None when its job has left."""
        with self._lock:
            kept = self._jobs.get(job_id, {}).get(owner)
            if kept is None:
                return None
            kept.names[name] = checkpoint_of_path(name)
        path = f"{self.directory_of(name)}/{job_id}/{_checked(name)}"
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        return path

    def keeps(self, job_id: str, owner: tuple[str, int], name: str) -> bool:
        """Whether nobody has dropped the copy since it was added."""
        with self._lock:
            kept = self._jobs.get(job_id, {}).get(owner)
            return kept is not None and name in kept.names

    def retain(self, job_id: str, owner: tuple[str, int], checkpoint_id: int, named: frozenset[str]) -> None:
        """A checkpoint is complete: keep of the subtask the `named` copies, those of this checkpoint and later ones; and none of
        a subtask that has taken no part in it here: it has finished, or runs elsewhere."""
        removed: list[str] = []
        with self._lock:
            for other, kept in self._jobs.get(job_id, {}).items():
                if other == owner:
                    old = {n for n, id in kept.names.items() if id < checkpoint_id and n not in named}
                elif not kept.is_running and max(kept.names.values(), default=0) < checkpoint_id:
                    old = set(kept.names)
                else:
                    continue
                kept.names = {n: id for n, id in kept.names.items() if n not in old}
                removed += old
            removed = self._unshared(job_id, removed)
        self._remove(job_id, removed)
        self._remove_abandoned(job_id)

    def _unshared(self, job_id: str, names: Iterable[str]) -> list[str]:
        kept = {name for other in self._jobs.get(job_id, {}).values() for name in other.names}
        return [name for name in names if name not in kept]

    def drop(self, job_id: str, names: Iterable[str]) -> None:
        """Remove these copies, if they are there, also those that subtasks share."""
        dropped = list(names)
        with self._lock:
            for kept in self._jobs.get(job_id, {}).values():
                kept.names = {n: id for n, id in kept.names.items() if n not in dropped}
        self._remove(job_id, dropped)

    def drop_checkpoint(self, job_id: str, owner: tuple[str, int], checkpoint_id: int) -> None:
        """Remove the copies that were written for this checkpoint, once no subtask keeps them."""
        with self._lock:
            kept = self._jobs.get(job_id, {}).get(owner, _Kept())
            names = [name for name, id in kept.names.items() if id == checkpoint_id]
            kept.names = {n: id for n, id in kept.names.items() if id != checkpoint_id}
            names = self._unshared(job_id, names)
        self._remove(job_id, names)

    def ended(self, job_id: str, owner: tuple[str, int]) -> None:
        """The attempt has ended. Its copies are for the next one."""
        with self._lock:
            if kept := self._jobs.get(job_id, {}).get(owner):
                kept.is_running = False

    def directory_of(self, name: str) -> str:
        """The directory for the copy of this name: copies are spread over all of them."""
        return self._directories[zlib.crc32(name.encode()) % len(self._directories)].path

    def _remove(self, job_id: str, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                os.remove(f"{self.directory_of(name)}/{job_id}/{_checked(name)}")

    def _clear(self, job_id: str, names: Iterable[str]) -> None:
        """Remove the copies of a job that left, which had these names; one that is back meanwhile may have others."""
        with self._lock:
            is_back = job_id in self._jobs
        with _logged():
            if is_back:
                self._remove(job_id, names)
                return
            for directory in self._directories:
                if directory.made:
                    shutil.rmtree(f"{directory.made}/{job_id}", ignore_errors=True)
            self._remove_abandoned(job_id)

    def _remove_abandoned(self, job_id: str) -> None:
        for directory in self._directories:
            for path in directory.abandoned():
                shutil.rmtree(f"{path}/{job_id}", ignore_errors=True)


class SubtaskCopies:
    """The copies of one subtask, for one attempt. `path` is that of the original. What goes wrong with a copy is logged and
    counted, and never raised. State: what it counts."""

    def __init__(
        self, copies: LocalCopies, job_id: str, owner: tuple[str, int], figures: StateFigures
    ) -> None:
        self._copies = copies
        self._job_id = job_id
        self._owner = owner
        self.figures = figures

    # --- writing

    def begin(self, path: str) -> str | None:
        """Where to write a copy; None when none can be written."""
        try:
            return self._copies.add(self._job_id, self._owner, os.path.basename(path))
        except OSError as error:
            self.failed(path, error)
            return None

    def share(self, path: str) -> None:
        """The subtask has written to a file of another's, whose copy it keeps, too."""
        self.begin(path)

    def is_on_same_disk(self, path: str) -> bool:
        """Whether the copy of a file of the local disk lies on the same file system."""
        with suppress(OSError):
            return os.stat(path).st_dev == os.stat(self._copies.directory_of(os.path.basename(path))).st_dev
        return False

    def link(self, path: str) -> None:
        """Make the copy of a file of the same file system, without writing any byte of it."""
        if (copy := self.begin(path)) is None:
            return
        try:
            os.link(path, copy)
        except OSError as error:
            self.failed(path, error)
        else:
            self.written(path)

    def written(self, path: str) -> None:
        """The copy is complete; it goes when its job has left, or its checkpoint was aborted, meanwhile."""
        if not self._copies.keeps(self._job_id, self._owner, os.path.basename(path)):
            self.drop([path])

    def failed(self, path: str, error: OSError) -> None:
        """The copy cannot be written: the checkpoint stands without it."""
        logger.warning('could not write the local copy of "%s": %s', path, error)
        self.figures.copies_failed += 1
        self.drop([path])

    # --- reading

    def find(self, path: str) -> str | None:
        """A file that may be the copy."""
        with suppress(OSError):
            return self._copies.find(self._job_id, os.path.basename(path))
        return None

    def damaged(self, path: str, problem: str) -> None:
        """The copy does not have the bytes that were written."""
        logger.warning('the local copy of "%s" is damaged, and the store is read: %s', path, problem)
        self.figures.copies_damaged += 1
        self.drop([path])

    # --- what becomes of checkpoints and of the attempt

    def completed(self, checkpoint_id: int, named: Iterable[str]) -> None:
        """`named` are the paths of all files that the checkpoint refers to."""
        names = frozenset(os.path.basename(path) for path in named)
        with _logged():
            self._copies.retain(self._job_id, self._owner, checkpoint_id, names)

    def aborted(self, checkpoint_id: int) -> None:
        with _logged():
            self._copies.drop_checkpoint(self._job_id, self._owner, checkpoint_id)

    def drop(self, paths: Iterable[str]) -> None:
        """Remove copies, if there are any."""
        with _logged():
            self._copies.drop(self._job_id, [os.path.basename(path) for path in paths])

    def close(self) -> None:
        self._copies.ended(self._job_id, self._owner)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        logger.warning("could not remove a local copy of state: %s", error)


def _checked(name: str) -> str:
    """The name of one file or directory, which is no path."""
    if not name or name in (".", "..") or "/" in name:
        raise InternalError(f'"{name}" is no name of a file')
    return name


# What a task counts of the state that it went on from, and of its local copies.


@dataclass
class StateFigures:
    """Bytes of state that a task has loaded, by where they were read, and how long that took; copies on the local disk that could
    not be written, and those that had other bytes than their originals. Written by the task's thread and by those that write its
    state; read by any."""

    local_bytes: int = 0
    store_bytes: int = 0
    restored_ms: int = 0
    copies_failed: int = 0
    copies_damaged: int = 0

    def read(self) -> Metrics:
        """Those above 0, under Flink's names where it has them."""
        figures: Metrics = {
            RESTORED_LOCALLY: self.local_bytes,
            RESTORED_FROM_STORE: self.store_bytes,
            "InitializeStateDurationMs": self.restored_ms,
            "numLocalCopiesFailed": self.copies_failed,
            "numLocalCopiesDamaged": self.copies_damaged,
        }
        return {name: value for name, value in figures.items() if value}
