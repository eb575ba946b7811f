"""A copy of all that a server keeps, taken while it runs or not, and how another data directory is made of it.

<backup>.partial/      what is not whole yet; in <backup>, if that was there before
<backup>/backup.json   written last: the release, the jobs with their checkpoints, and the digest of each file
<backup>/data/…        the files as they are in the data directory, those that only the leader has beside the shared ones
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec

from sqlstream import __version__
from sqlstream.bounds import Count, Millis
from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import OtherVersion, read_graph
from sqlstream.client.server.kept_file import DamagedFile, make_private_directory, write_file
from sqlstream.client.server.leaders.copied_records import LeaderStores, copied_records, fill, led_epoch
from sqlstream.client.server.place_formats import check_formats
from sqlstream.errors import ExternalError, SqlStreamError, UserError, reason_of_error
from sqlstream.graph.job_graph import JobGraph
from sqlstream.kept_formats import KeptFormat
from sqlstream.runtime.checkpoint.checkpoint_directory import StoredCheckpoint
from sqlstream.runtime.host.whole_files import FILE_MODE, sync_directory

RECORD, DATA, PARTIAL = "backup.json", "data", ".partial"
FORMAT = KeptFormat("backups", 1)
RESTORED = "restored"
"""A data directory that was made of a backup has this file: its jobs pass over numbers of checkpoints that were taken since."""

TRIES = 20
_OF_ALL = ("tokens.json", "token", "formats.json", "cluster", "kept", "artifacts")
_OF_LEADER = ("catalog", "sessions")
_SIGNS = (
    "formats.json",
    RESTORED,
    "tokens.json",
    "catalog/default_catalog",
    "jobs/ended",
    "cluster/authority.pem",
    "cluster/join-secret",
)
"""A data directory has one of these. `formats.json` is not in one that only sqlstream 0.1.0 has used."""
EPOCHS_SKIPPED = 1000
"""So many leaders the servers of which a backup was taken may have had since: ids of checkpoints go by them."""
_COPY_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class KeptPlace:
    """Where a server keeps what it must not lose: `root` is the data directory, or what several servers share; then what only the
    leader changes is in their `stores`."""

    root: str
    stores: LeaderStores | None = None

    @property
    def is_shared(self) -> bool:
        return self.stores is not None

    @contextlib.contextmanager
    def fenced(self) -> Iterator[str]:
        """The directory of what only the leader changes, as it is now: a copy, where servers share a store."""
        if self.stores is None:
            yield self.root
            return
        with tempfile.TemporaryDirectory(prefix="sqlstream-") as directory:
            copied_records(self.stores, directory)
            yield directory

    @property
    def checkpoints(self) -> str:
        return os.path.join(self.root, "checkpoints")


class SavedJob(msgspec.Struct, frozen=True):
    """`checkpoint` is the path that the job goes on from, empty when there is none; `is_copied`: it is in the backup."""

    id: str
    name: str
    checkpoint: str = ""
    is_copied: bool = False


class BackupRecord(msgspec.Struct, frozen=True):
    """`files` has the digests by path below `data`; of a directory, which ends with a slash, there is none."""

    version: Count
    release: str
    made_ms: Millis
    source: str
    is_shared: bool
    jobs: tuple[SavedJob, ...]
    files: dict[str, str]
    epoch: Count = 0


_NAME_IT = "name the data directory of the server with --data-dir"


def check_data_directory(path: str) -> None:
    """UserError SS6142 for what is none, such as a backup or a directory of something else."""
    if not os.path.isdir(path):
        raise UserError("SS6142", f'there is no data directory "{path}"', hint=_NAME_IT)
    reason = ""
    if any(os.path.exists(os.path.join(place, RECORD)) for place in (path, os.path.dirname(path))):
        reason = ", but a backup"
    elif not any(os.path.exists(os.path.join(path, sign)) for sign in _SIGNS):
        reason = ": no server has used it"
    if reason:
        raise UserError(
            "SS6142",
            f'"{path}" is no data directory of sqlstream{reason}',
            hint=_NAME_IT,
        )


def back_up(place: KeptPlace, target: str, now_ms: Callable[[], int]) -> BackupRecord:
    """Copy what is kept into the new directory `target`, which only this user may enter: under another name, so that the
    directory is a whole backup once it is there. What a backup has left there that was killed is removed. UserError SS6142 for a
    target that has something else or that another backup is writing, or a place that is none, SS6140 for one of a later release;
    ExternalError when a file cannot be read or written."""
    _check_target(target)
    check_data_directory(place.root)
    check_formats(place.root)
    was_there = os.path.isdir(target)
    work = os.path.join(target, PARTIAL) if was_there else target + PARTIAL
    left = (work, target) if was_there else (work,)
    if was_there:
        make_private_directory(target)
    with _told(f'could not back up "{place.root}" into "{target}"'), _alone(work, target):
        _remove_left(left)
        try:
            record = _Copy(place, os.path.join(work, DATA)).run(work, now_ms())
            if was_there:
                # The record last: without it there is no backup.
                for name in (DATA, RECORD):
                    os.rename(os.path.join(work, name), os.path.join(target, name))
                os.rmdir(work)
            else:
                os.rename(work, target)
            sync_directory(target if was_there else os.path.dirname(target))
        except BaseException:
            # The next try finds the directory as this one has.
            _remove_left(left)
            shutil.rmtree(work, ignore_errors=True)
            raise
    return record


def _check_target(target: str) -> None:
    """UserError SS6142 unless it is not there, empty, or has what a backup has left that was killed."""
    if not os.path.lexists(target):
        return
    found = set(os.listdir(target)) if os.path.isdir(target) else {RECORD}
    if found and (PARTIAL not in found or found - {PARTIAL, DATA}):
        raise UserError(
            "SS6142", f'"{target}" is there already', hint="name a directory that does not exist yet"
        )


@contextlib.contextmanager
def _alone(work: str, target: str) -> Iterator[None]:
    """While this backup alone writes into the directory, whose lock ends with the process. UserError SS6142."""
    make_private_directory(work)
    number = os.open(work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another one has given it its name between the two calls.
        is_ours = os.path.isdir(work) and os.path.samestat(os.fstat(number), os.stat(work))
    except BlockingIOError:
        is_ours = False
    try:
        if not is_ours:
            raise UserError(
                "SS6142", f'another backup is being written into "{target}"', hint="name another directory"
            )
        yield
    finally:
        os.close(number)


def _remove_left(directories: tuple[str, ...]) -> None:
    """What a backup has written that did not come to its end."""
    for directory in directories:
        shutil.rmtree(os.path.join(directory, DATA), ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, RECORD))


class _Copy:
    """State: the digests of what is copied."""

    def __init__(self, place: KeptPlace, data: str) -> None:
        self._place = place
        self._data = data
        self._files: dict[str, str] = {}

    def run(self, target: str, made_ms: int) -> BackupRecord:
        # Checkpoints first: what a job's files say of a checkpoint is then of one that is here, or of a later one.
        with self._place.fenced() as fenced:
            found = [(name, graph, *self._found(graph)) for name, graph in self._jobs(fenced)]
        with self._place.fenced() as fenced:
            jobs = [job for one in found if (job := self._job(fenced, *one)) is not None]
            for name in (*_OF_LEADER, os.path.join("jobs", "ended")):
                self._tree(fenced, name)
            self._set_aside(os.path.join(fenced, "jobs"))
        for name in _OF_ALL:
            self._tree(self._place.root, name)
        record = BackupRecord(
            FORMAT.version,
            __version__,
            made_ms,
            self._place.root,
            self._place.is_shared,
            tuple(jobs),
            self._files,
            led_epoch(self._place.stores) if self._place.stores is not None else 0,
        )
        for directory, _, _ in os.walk(self._data, topdown=False):
            sync_directory(directory)
        content = msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n"
        write_file(os.path.join(target, RECORD), content)
        return record

    def _set_aside(self, directory: str) -> None:
        """What was set aside or is damaged goes along, as it is."""
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            if name.endswith((".aside", ".damaged")):
                self._tree(directory, name, "jobs")

    def _jobs(self, fenced: str) -> Iterator[tuple[str, JobGraph | None]]:
        """The names of the files of jobs, and their graphs where they can be read."""
        directory = os.path.join(fenced, "jobs")
        names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
        for name in names:
            if not name.endswith(".job"):
                continue
            try:
                yield name, read_graph(os.path.join(directory, name))
            except (OtherVersion, DamagedFile):
                if os.path.exists(os.path.join(directory, name)):
                    yield name, None

    def _found(self, graph: JobGraph | None) -> tuple[StoredCheckpoint | None, bool]:
        """The newest checkpoint of a job, copied, and whether the mark that there is one stays without it."""
        try:
            return self._checkpoint(graph) if graph is not None else None, graph is None
        except SqlStreamError:
            # Where it is restored it waits for its checkpoints, as it does here.
            return None, True

    def _job(
        self, fenced: str, name: str, graph: JobGraph | None, found: StoredCheckpoint | None, has_mark: bool
    ) -> SavedJob | None:
        """None for one that has ended meanwhile."""
        job_id = name.removesuffix(".job")
        is_copied = found is not None and found.directory.startswith(self._place.checkpoints + os.sep)
        directory = os.path.join(fenced, "jobs")
        for own in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
            # Without a checkpoint the mark that there is one would hold the job up: its first came after this look.
            if own.startswith(f"{job_id}.") and (found is not None or has_mark or not own.endswith(".saved")):
                self._tree(directory, own, "jobs")
        if os.path.join("jobs", name) not in self._files:
            return None
        return SavedJob(
            job_id, graph.name if graph is not None else "", found.path if found else "", is_copied
        )

    def _checkpoint(self, graph: JobGraph) -> StoredCheckpoint | None:
        """The newest checkpoint of a job, copied unless it lies elsewhere. Those of a running job go while others come: whoever
        has opened all files of one reads them to their end."""
        stores = JobCheckpointStores(self._place.checkpoints)
        directory = stores.directory_of(graph)
        if not directory:
            return None
        is_ours = directory.startswith(self._place.checkpoints + os.sep)
        for _ in range(TRIES):
            found = stores.newest(graph)
            if found is None or not is_ours:
                return found
            with contextlib.suppress(FileNotFoundError):
                self._copy_checkpoint(found)
                return found
        raise ExternalError("SS6143", f'checkpoints in "{directory}" go faster than they can be copied')

    def _copy_checkpoint(self, found: StoredCheckpoint) -> None:
        paths = [os.path.join(found.directory, path) for path in sorted(found.manifest.paths())]
        with contextlib.ExitStack() as opened:
            # The manifest last: without it there is no checkpoint.
            streams = [(p, opened.enter_context(open(p, "rb"))) for p in (*paths, f"{found.path}/_metadata")]
            for path, stream in streams:
                self._file(stream, os.path.relpath(path, self._place.root))

    def _tree(self, directory: str, name: str, below: str = "") -> None:
        """A file, or all files below a directory; what goes meanwhile is left out, and so are drafts and locks."""
        source = os.path.join(directory, name)
        if os.path.isdir(source):
            with contextlib.suppress(FileNotFoundError):
                for each in sorted(os.listdir(source)):
                    self._tree(source, each, os.path.join(below, name))
            # Empty ones count too.
            self._files[os.path.join(below, name, "")] = ""
        elif not name.endswith((".draft", ".lock", ".sock")) and not name.startswith(".draft-"):
            with contextlib.suppress(FileNotFoundError), open(source, "rb") as stream:
                self._file(stream, os.path.join(below, name))

    def _file(self, source: BinaryIO, path: str) -> None:
        target = os.path.join(self._data, path)
        _make_directory(os.path.dirname(target))
        self._files[path] = _copy(source, target)


def read_backup(path: str) -> BackupRecord:
    """UserError SS6144 for what is no whole backup, SS6140 for one of a later release."""
    try:
        with open(os.path.join(path, RECORD), "rb") as stream:
            content = stream.read()
        version = msgspec.json.decode(content, type=_Head)
        if not FORMAT.reads(version.version):
            text, hint = FORMAT.refusal(version.version, version.release)
            raise UserError("SS6140", f'"{path}" was {text}', hint=hint)
        return msgspec.json.decode(content, type=BackupRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(
            "SS6144",
            f'"{path}" is no whole backup: {reason_of_error(error)}',
            hint="a backup was broken off there: take it again, which removes what is left of it"
            if any(os.path.isdir(left) for left in (path + PARTIAL, os.path.join(path, PARTIAL)))
            else "name the directory that sqlstream backup has made",
        ) from error


class _Head(msgspec.Struct, frozen=True):
    version: Count
    release: str = ""


def restore(path: str, place: KeptPlace) -> BackupRecord:
    """Make a data directory of a backup, whole or not at all. UserError SS6145 for one that has something in it, SS6144 for a
    backup that is not as it was written; SS6140 for a backup of a later release."""
    record = read_backup(path)
    check_formats(os.path.join(path, DATA))
    if record.is_shared != place.is_shared:
        kind = "servers that share a place" if record.is_shared else "one server"
        raise UserError(
            "SS6145",
            f'"{path}" is of {kind}',
            hint="restore it with the same high-availability.type as it was made with",
        )
    root = place.root.rstrip("/")
    if os.path.lexists(root) and (not os.path.isdir(root) or os.listdir(root)):
        raise UserError(
            "SS6145", f'"{root}" is not empty', hint="name a data directory that does not exist yet"
        )
    draft = f"{root}.{secrets.token_hex(4)}.draft"
    with _told(f'could not restore "{path}" into "{root}"'):
        try:
            _put(record, path, draft, place)
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(root)
            os.rename(draft, root)
            sync_directory(os.path.dirname(os.path.abspath(root)))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return record


def was_restored(root: str) -> bool:
    return os.path.exists(os.path.join(root, RESTORED))


def _put(record: BackupRecord, path: str, draft: str, place: KeptPlace) -> None:
    make_private_directory(draft)
    with tempfile.TemporaryDirectory(prefix="sqlstream-") as copy:
        fenced = copy if place.stores is not None else draft
        _put_files(record, path, draft, fenced)
        if place.stores is not None:
            fill(place.stores, draft, fenced, record.epoch + EPOCHS_SKIPPED)
    write_file(os.path.join(draft, RESTORED), f"{record.made_ms}\n".encode())
    for directory, _, _ in os.walk(draft, topdown=False):
        sync_directory(directory)


def _put_files(record: BackupRecord, path: str, draft: str, fenced: str) -> None:
    for name, digest in sorted(record.files.items()):
        parts = name.split("/")
        if os.path.isabs(name) or ".." in parts:
            raise UserError("SS6144", f'"{path}" names the file "{name}"')
        target = os.path.join(fenced if parts[0] in (*_OF_LEADER, "jobs") else draft, name)
        if name.endswith("/"):
            _make_directory(target.rstrip("/"))
            continue
        _make_directory(os.path.dirname(target))
        try:
            with open(os.path.join(path, DATA, name), "rb") as stream:
                found = _copy(stream, target)
        except FileNotFoundError:
            found = ""
        if found != digest:
            raise UserError("SS6144", f'the file "{name}" of "{path}" is not as it was written')


def _make_directory(path: str) -> None:
    """With those above it, for this user alone."""
    if not os.path.isdir(path):
        _make_directory(os.path.dirname(path))
        os.mkdir(path, 0o700)


def _copy(source: BinaryIO, target: str) -> str:
    """The digest of what was copied, which is on the disk when this returns."""
    digest = hashlib.sha256()
    number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(number, "wb") as stream:
        while part := source.read(_COPY_BYTES):
            digest.update(part)
            stream.write(part)
        stream.flush()
        os.fsync(number)
    return digest.hexdigest()


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        where = f' ("{error.filename}")' if error.filename else ""
        raise ExternalError(
            "SS5001",
            f"{what}: {reason}{where}",
            hint="see to the room and the rights there, and do it again: of this try nothing is left",
        ) from error
