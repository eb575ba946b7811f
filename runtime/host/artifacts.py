"""Files that go with jobs, kept by the SHA-256 of their bytes: at the JobManager, and in a cache on each host that runs tasks.

Nothing holds a whole file in memory: it comes and goes in parts of PART_BYTES. A file is there under its digest only once all of
its bytes were seen and have this digest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from sqlstream.errors import ExternalError, UserError
from sqlstream.graph.artifacts import PART_BYTES, Artifact
from sqlstream.runtime.host.files import file_error
from sqlstream.runtime.host.whole_files import FILE_MODE, sync_directory
from sqlstream.spi.files import Files

KEPT_S = 3600.0
"""How long a file that no job needs stays at the JobManager: one that was uploaded, and the job that needs it comes later."""

_DRAFT = ".draft-"
_ABANDONED_S = 600.0
_UPLOADS_MAX = 16
_CHECK_S = 0.1
"""How soon a task that waits for a file that another one fetches sees that it is to end."""


def digest_of(stream: BinaryIO, size_max: int, path: str) -> tuple[str, int]:
    """The SHA-256 of a file in hex, and its bytes. UserError SS5087 for one that is larger, unread where its size is known."""
    found, size = hashlib.sha256(), 0
    # A file of a store elsewhere has no number.
    with contextlib.suppress(AttributeError, OSError):
        if os.fstat(stream.fileno()).st_size > size_max:
            raise too_large(path, size_max)
    while data := stream.read(PART_BYTES):
        size += len(data)
        if size > size_max:
            raise too_large(path, size_max)
        found.update(data)
    return found.hexdigest(), size


def too_large(path: str, size_max: int) -> UserError:
    return UserError(
        "SS5087",
        f'"{path}" has more than {size_max} bytes, the most for a file that goes with a job',
        hint="a larger sqlstream.artifacts.max-size allows it",
    )


def _no_room(room: int) -> UserError:
    return UserError(
        "SS5087",
        f"the files that go with jobs would take more than {room} bytes, or {_UPLOADS_MAX} are uploaded by now",
        hint="a larger sqlstream.artifacts.cache-size allows them; those that no job needs go after an hour",
    )


class ArtifactStore:
    """The files in one private directory, which `directory` gives at its first use. Thread-safe, also between processes.

    State: which jobs need which files, and uploads that are under way."""

    def __init__(self, directory: Callable[[], str], kept_s: float = KEPT_S) -> None:
        self._made_directory = directory
        self._kept_s = kept_s
        # Jobs of the process before this one may need files that look old, and say so soon.
        self._since_s = time.time()
        self._lock = threading.Lock()
        self._needed: dict[str, frozenset[str]] = {}
        self._uploads: dict[str, _Draft] = {}

    def path(self, digest: str) -> str:
        return os.path.join(self._directory(), digest)

    def holds(self, artifact: Artifact) -> bool:
        """Whether the whole file is there; it stays for KEPT_S from now."""
        try:
            os.utime(self.path(artifact.digest))
        except FileNotFoundError:
            return False
        return True

    def size(self, digest: str) -> int | None:
        """The bytes of a file that is there; None for one that is not."""
        try:
            return os.stat(self.path(digest)).st_size
        except FileNotFoundError:
            return None

    def part(self, digest: str, offset: int) -> bytes:
        """The next bytes of a file, PART_BYTES at most. ExternalError SS5089 when it is not there."""
        try:
            with open(self.path(digest), "rb") as stream:
                stream.seek(offset)
                return stream.read(PART_BYTES)
        except FileNotFoundError as error:
            raise ExternalError("SS5089", f"no file with the digest {digest} is kept here") from error

    # --- what comes

    def add_part(self, artifact: Artifact, offset: int, data: bytes, *, size_max: int, room: int) -> int:
        """Take the next part of a file that is uploaded; returns how many bytes are there, by which whoever sends goes on: all of
        them once the file is whole. `data` may be empty, to ask, which begins nothing. UserError SS5087 for a file beyond
        `size_max`, or when all take more than `room`; ExternalError SS5089 for bytes that have another digest: they are
        dropped."""
        if artifact.size > size_max:
            raise too_large(artifact.name, size_max)
        while not self.holds(artifact):
            if not data and artifact.size and artifact.digest not in self._uploads:
                if artifact.size > room:
                    raise _no_room(room)
                return 0
            draft = self._uploaded(artifact, room)
            # Not under the lock of all: to sync a large file takes long, and ends of jobs must not wait for it.
            with draft.lock:
                if draft.is_over:
                    continue
                try:
                    if offset == draft.written:
                        draft.write(data)
                    if draft.written < artifact.size:
                        return draft.written
                    draft.publish(self.path(artifact.digest))
                except BaseException:
                    draft.drop()
                    raise
                finally:
                    if draft.is_over:
                        with self._lock:
                            del self._uploads[artifact.digest]
        return artifact.size

    def _uploaded(self, artifact: Artifact, room: int) -> _Draft:
        """The draft of a file that is uploaded; the first part begins it."""
        with self._lock:
            draft = self._uploads.get(artifact.digest)
            if draft is None:
                self._drop_abandoned()
                self.sweep()
                self._check_room(artifact.size, room)
                draft = self._uploads[artifact.digest] = _Draft(self._directory(), artifact)
            return draft

    def fetch(self, artifact: Artifact, part: Callable[[int], bytes]) -> None:
        """Bring a file here, in parts from an offset on. ExternalError SS5089 for bytes that have another digest."""
        draft = _Draft(self._directory(), artifact)
        try:
            while draft.written < artifact.size:
                data = part(draft.written)
                if not data:
                    break
                draft.write(data)
            draft.publish(self.path(artifact.digest))
        except BaseException:
            draft.drop()
            raise

    def _drop_abandoned(self) -> None:
        for digest, draft in list(self._uploads.items()):
            is_idle = draft.used_s < time.monotonic() - _ABANDONED_S
            if is_idle and draft.lock.acquire(blocking=False):
                draft.drop()
                del self._uploads[digest]
                draft.lock.release()

    def _check_room(self, size: int, room: int) -> None:
        if len(self._uploads) >= _UPLOADS_MAX or size + sum(f[1] for f in self._files(drafts=True)) > room:
            raise _no_room(room)

    # --- who needs what

    def need(self, job_id: str, artifacts: Iterable[Artifact]) -> None:
        """Keep the files while the job lives."""
        if digests := frozenset(a.digest for a in artifacts):
            with self._lock:
                self._needed[job_id] = digests

    def release(self, job_id: str) -> None:
        """The job has ended: what no job needs goes KEPT_S later."""
        if job_id not in self._needed:
            return
        with self._lock:
            for digest in self._needed.pop(job_id, ()):
                with contextlib.suppress(OSError):
                    os.utime(self.path(digest))
            self.sweep()

    def sweep(self) -> None:
        """Remove what no job needs, and what crashes have left."""
        needed = frozenset[str]().union(*self._needed.values())
        for path, _, used_s in self._files():
            is_old = max(used_s, self._since_s) < time.time() - self._kept_s
            if is_old and os.path.basename(path) not in needed:
                with contextlib.suppress(OSError):
                    os.unlink(path)
        self.remove_left_drafts()

    def remove_left_drafts(self) -> None:
        """Remove the drafts of processes that have ended."""
        for path, _, _ in self._files(drafts=True):
            if _is_draft(path):
                _remove_free(path)

    def _files(self, *, drafts: bool = False) -> Iterator[tuple[str, int, float]]:
        """Path, bytes, and when it was used last. A draft has the bytes that it is to have."""
        with contextlib.suppress(FileNotFoundError), os.scandir(self._directory()) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_file(follow_symlinks=False) and (drafts or not _is_draft(entry.path)):
                        yield entry.path, found.st_size, found.st_mtime

    def make_room(self, size: int, room: int) -> None:
        """Of a cache: remove what was used longest ago until a file of this size fits, but for what a process holds."""
        files = sorted(self._files(drafts=True), key=lambda file: file[2])
        taken = sum(size for _, size, _ in files)
        for path, freed, _ in files:
            if taken + size <= room:
                return
            if _remove_free(path):
                taken -= freed

    def _directory(self) -> str:
        directory = self._made_directory()
        os.makedirs(directory, 0o700, exist_ok=True)
        return directory

    # --- with savepoints

    def copy_to(self, files: Files, directory: str, artifacts: Iterable[Artifact]) -> None:
        """Put the files beside a savepoint, those that are not there yet."""
        for artifact in artifacts:
            path = f"{directory}/{artifact.digest}"
            status = files.status(path)
            if status is not None and status.size == artifact.size:
                continue
            draft = f"{directory}/.{artifact.digest}"
            try:
                with open(self.path(artifact.digest), "rb") as source, files.open_write(draft) as stream:
                    while data := source.read(PART_BYTES):
                        stream.write(data)
                    stream.flush()
                    files.sync(stream)
            except OSError as error:
                raise file_error("write", path, error) from error
            files.publish(draft, path)

    def copy_from(self, files: Files, directory: str, artifact: Artifact) -> None:
        """Bring a file of a savepoint here, unless it is here. ExternalError SS5089 when it is not what was put there."""
        if self.holds(artifact):
            return
        with files.open_read(f"{directory}/{artifact.digest}") as stream:
            self.fetch(artifact, lambda offset: stream.read(PART_BYTES))


class _Draft:
    """A file that is written under a name of its own, which is locked while it is, and has all its bytes from the beginning: so
    whoever makes room counts it, and removes it once its process has ended. Who writes or ends one that others may have takes
    `lock`. State: the bytes so far, and their digest."""

    def __init__(self, directory: str, artifact: Artifact) -> None:
        self.written = 0
        self.artifact = artifact
        self.used_s = time.monotonic()
        self.lock = threading.Lock()
        self.is_over = False
        self._digest = hashlib.sha256()
        self.path, number = _new_draft(directory)
        self._stream = os.fdopen(number, "wb")
        try:
            os.truncate(number, artifact.size)
        except OSError as error:
            self.drop()
            raise file_error("write", self.path, error) from error

    def write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise file_error("write", self.path, error) from error
        self._digest.update(data)
        self.used_s = time.monotonic()
        self.written += len(data)
        if self.written > self.artifact.size:
            raise self._not_the_file()

    def publish(self, path: str) -> None:
        if self.written != self.artifact.size or self._digest.hexdigest() != self.artifact.digest:
            raise self._not_the_file()
        try:
            self._stream.flush()
            os.fsync(self._stream.fileno())
            # One that came meanwhile stays: tasks hold it.
            with contextlib.suppress(FileExistsError):
                os.link(self.path, path)
            os.unlink(self.path)
            sync_directory(os.path.dirname(path))
            # Closed after it: what is not locked is removed.
            self._stream.close()
        except OSError as error:
            raise file_error("write", path, error) from error
        self.is_over = True

    def drop(self) -> None:
        self.is_over = True
        with contextlib.suppress(OSError):
            self._stream.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _not_the_file(self) -> ExternalError:
        return ExternalError(
            "SS5089",
            f'the bytes of "{self.artifact.name}" are not those with the digest {self.artifact.digest}',
        )


def _new_draft(directory: str) -> tuple[str, int]:
    """A new draft, open and locked, and its path. ExternalError where files cannot be locked."""
    while True:
        path = os.path.join(directory, f"{_DRAFT}{secrets.token_hex(8)}")
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            # Shared: once it has its name, others lock it so.
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(number).st_nlink:
                return path, number
        except BlockingIOError:
            pass
        except OSError as error:
            os.close(number)
            raise file_error("lock", path, error) from error
        # Somebody took it for one that is left, between the two calls.
        os.close(number)


def _is_draft(path: str) -> bool:
    return os.path.basename(path).startswith(_DRAFT)


class HostArtifacts:
    """The files that jobs need on this host, fetched when a task needs them first and shared by all TaskManagers of this user.

    `part` asks the JobManager for the bytes of a digest from an offset on. With `room` the directory is a cache of so many bytes;
    without, it is the JobManager's own. State: the files that tasks of this process use, locked until their job has none here."""

    def __init__(
        self, store: ArtifactStore, part: Callable[[str, int], bytes] | None = None, room: int = 0
    ) -> None:
        self._store, self._part, self._room = store, part, room
        # Held for no longer than it takes to look: whoever fetches a file lets others go on.
        self._turn = threading.Condition()
        self._held: dict[str, dict[str, int]] = {}
        self._fetched: set[str] = set()

    def use(self, job_id: str, artifacts: Iterable[Artifact], check: Callable[[], None]) -> dict[str, str]:
        """The paths by name. `check` is called now and then, and raises when the task is to end. ExternalError SS5089."""
        paths = {}
        for artifact in artifacts:
            check()
            # One thread of this process fetches it; another process that fetches the same at the same time does no harm.
            with self._alone(artifact.digest, check):
                if artifact.digest not in self._held.get(job_id, ()):
                    number = self._taken(artifact, check)
                    with self._turn:
                        self._held.setdefault(job_id, {})[artifact.digest] = number
            paths[artifact.name] = self._store.path(artifact.digest)
        return paths

    @contextlib.contextmanager
    def _alone(self, digest: str, check: Callable[[], None]) -> Iterator[None]:
        with self._turn:
            while digest in self._fetched:
                self._turn.wait(_CHECK_S)
                check()
            self._fetched.add(digest)
        try:
            yield
        finally:
            with self._turn:
                self._fetched.remove(digest)
                self._turn.notify_all()

    def _taken(self, artifact: Artifact, check: Callable[[], None]) -> int:
        while (number := _locked(self._store.path(artifact.digest), fcntl.LOCK_SH)) is None:
            ask = self._part
            if ask is None:
                raise ExternalError("SS5089", f'the file "{artifact.name}" that goes with the job is gone')

            def part(offset: int, ask: Callable[[str, int], bytes] = ask) -> bytes:
                check()
                return ask(artifact.digest, offset)

            self._store.remove_left_drafts()
            self._store.make_room(artifact.size, self._room)
            self._store.fetch(artifact, part)
        self._store.holds(artifact)
        return number

    def release(self, job_id: str) -> None:
        """No task of the job is left here. Does not wait for files that are fetched."""
        with self._turn:
            held = self._held.pop(job_id, {})
        for number in held.values():
            os.close(number)


def _locked(path: str, kind: int) -> int | None:
    """The file, open and locked; None when it is not there, or another process has it."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(number, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    if os.fstat(number).st_nlink == 0:
        # Removed between the two calls.
        os.close(number)
        return None
    return number


def _remove_free(path: str) -> bool:
    """Remove a file that no process holds; whether it was."""
    held = _locked(path, fcntl.LOCK_EX)
    if held is None:
        return False
    os.unlink(path)
    os.close(held)
    return True
