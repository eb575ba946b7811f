"""Jobs on disk: those that run, so that a restarted server runs them again, and what is known of those that have ended."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from sqlstream import __version__
from sqlstream.bounds import Count, Int64, Millis
from sqlstream.client.server.kept_file import (
    DamagedFile,
    KeptFiles,
    make_private_directory,
    remove_drafts,
    remove_file,
    sealed,
    unsealed,
    write_file,
)
from sqlstream.client.server.leaders.leadership import NO_LEADER
from sqlstream.errors import ErrorInfo, ExternalError, InternalError
from sqlstream.graph.job_graph import JobGraph, decode_job_graph
from sqlstream.kept_formats import JOBS
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager import events
from sqlstream.runtime.jobmanager.collaborators import Committer
from sqlstream.runtime.logs import of_job
from sqlstream.secrets import masked

logger = logging.getLogger(__name__)

FORMAT_VERSION = JOBS.version
"""Files of a version that this release does not read stay as they are."""

_JOB_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_GRAPH, _COMMITS, _ENDING, _SAVED, _DAMAGED = ".job", ".commits", ".ending", ".saved", ".damaged"
_ASKED, _BLAMED, _ASIDE, _TEMPORARY = ".asked", ".blamed", ".aside", ".temporary"
_TAKING_UP = "taking-up.begun"
_OF_A_JOB = (_SAVED, _GRAPH, _COMMITS, _ENDING, _ASKED, _BLAMED)

BLAMED_MAX = 2
"""A job that so many servers have ended with is set aside."""


class _Versioned(msgspec.Struct, frozen=True):
    """What files of every version hold. `release` wrote it, where it says so."""

    version: Count
    release: str = ""


class _StoredJob(msgspec.Struct, frozen=True):
    version: Count
    submitted_ms: Millis
    graph: bytes
    release: str = ""


class _StoredCommits(msgspec.Struct, frozen=True):
    version: Count
    checkpoint_id: Int64
    commits: tuple[events.SinkCommit, ...]
    is_committed: bool = False


class _StoredEnd(msgspec.Struct, frozen=True):
    version: Count
    ended_ms: Millis
    job: events.EndedJob


class _StoredEnding(msgspec.Struct, frozen=True):
    version: Count
    end: JobStatus
    error: ErrorInfo | None


class _StoredRequest(msgspec.Struct, frozen=True):
    """`stop` is the savepoint that was asked for; None: the job was cancelled."""

    version: Count
    stop: events.SavepointRequested | None


class _StoredPointer(msgspec.Struct, frozen=True):
    version: Count
    checkpoint_id: Int64


class _StoredTemporary(msgspec.Struct, frozen=True):
    version: Count
    path: str


class _StoredBlame(msgspec.Struct, frozen=True):
    version: Count
    servers: Count


_Stored = TypeVar(
    "_Stored",
    _StoredJob,
    _StoredCommits,
    _StoredEnding,
    _StoredEnd,
    _StoredRequest,
    _StoredTemporary,
    _StoredBlame,
    _StoredPointer,
)


@dataclasses.dataclass(frozen=True)
class KeptJob:
    """A job that had not ended. `commits` are those with which it was about to end, for `checkpoint_id`: this output may be
    visible already, so the job must not run again before they were undone. `is_committed`: all of it is visible, and the job
    does not run again, whatever of its checkpoints is left. `end`: it was about to end so, for `error`, and what it has not
    committed may be removed already. `saved_mark` is the file that says that it has had a checkpoint of its own, empty when it
    has not: then it may begin anew without one. `newest_id` is that of the
    newest of its checkpoints that counts, -1 where all do. `asked` is what somebody has asked for who was told that it was done:
    its end."""

    graph: JobGraph
    submitted_ms: int
    commits: tuple[events.SinkCommit, ...] | None
    checkpoint_id: int = 0
    is_committed: bool = False
    end: JobStatus | None = None
    error: ErrorInfo | None = None
    saved_mark: str = ""
    newest_id: int = -1
    asked: events.CancelRequested | events.SavepointRequested | None = None


class FileJobStore:
    """One file per job below `directory`, written before the job runs and removed when it has ended; the newest
    `ended_max` ended jobs are kept in `ended/` for `expiration_ms`, and none with `ended_max` 0. Implements `JobStore` and has
    the marks of a `KeptCommitter`.

    With a `marks_directory` the server leads others: another one may take its place. Then nothing is done, which `files` see to
    (ExternalError SS6077). A mark for each job, under a path that stays, says that it is kept; and the newest of its
    checkpoints that counts is kept with it: one that is not noted here was completed by a server that did not lead any more.

    A file that cannot be read is renamed and logged, and stops nothing; one of another version stays, for the release that reads
    it. State: the ids of jobs that are suspended, and of those that are known to have had a checkpoint; whether each job is
    noted that is taken up."""

    def __init__(
        self,
        directory: str,
        now_ms: Callable[[], int],
        ended_max: int,
        marks_directory: str = "",
        expiration_ms: int | None = None,
        files: KeptFiles | None = None,
    ) -> None:
        self._expiration_ms = expiration_ms
        self._marks_directory = marks_directory
        self._files = files or KeptFiles()
        self._ended_max = ended_max
        self._directory = directory
        self._ended_directory = os.path.join(directory, "ended")
        self._now_ms = now_ms
        self._suspended: frozenset[str] = frozenset()
        self._saved: set[str] = set()
        self._is_wary = False
        # A checkpoint that is stored while its job is removed leaves no mark.
        self._removing = threading.Lock()
        for path in (directory, self._ended_directory, *filter(None, [marks_directory])):
            make_private_directory(path)
            remove_drafts(path)

    # --- JobStore

    def put(self, job_graph: JobGraph, encoded: bytes) -> None:
        """A query's job does not run again, so it need not survive a crash of the machine; it costs no wait for the disk. A job
        that is kept already, under an earlier server or with another parallelism, is as old as it was."""
        path = self._path(job_graph.job_id, _GRAPH)
        known = self._read_or_set_aside(path, _StoredJob) if os.path.exists(path) else None
        submitted_ms = known.submitted_ms if known is not None else self._now_ms()
        stored = _StoredJob(FORMAT_VERSION, submitted_ms, encoded, __version__)
        if self._marks_directory:
            write_file(self.kept_file(job_graph.job_id), b"", is_durable=not job_graph.is_query)
        if stored != known:
            self._files.change({path: _encode(stored)}, is_durable=not job_graph.is_query)

    def remove(self, job_id: str, ended: events.EndedJob) -> None:
        """The job has ended. One that was suspended stays, unless it finished first."""
        if job_id in self._suspended and ended.details.status is not JobStatus.FINISHED:
            return
        try:
            self.put_ended(ended)
        except ExternalError as error:
            if error.code == NO_LEADER:
                raise
            # A disk or a record that is full: a job that stayed for that would run again, and write its rows a second time.
            logger.error(
                "what is known of the job's end is not kept: %s", error.message, extra=of_job(job_id)
            )
        with self._removing:
            self._saved.discard(job_id)
            self._files.change(dict.fromkeys(self._path(job_id, suffix) for suffix in _OF_A_JOB))
        if self._marks_directory:
            remove_file(self.kept_file(job_id))

    def kept_file(self, job_id: str) -> str:
        directory = self._marks_directory or self._directory
        return os.path.abspath(os.path.join(directory, _checked(job_id) + _GRAPH))

    def check_leads(self) -> None:
        """Return when this server has led after the call began. ExternalError SS6077 when another one has taken its jobs."""
        self._files.check_owner()

    # --- marks

    def mark_ending(self, job_id: str, end: JobStatus, error: ErrorInfo | None) -> None:
        """A query is lost with its client anyway. One that is suspended runs again: what is removed is hidden."""
        if job_id not in self._suspended and os.path.exists(self._path(job_id, _GRAPH)):
            self._write(self._path(job_id, _ENDING), _StoredEnding(FORMAT_VERSION, end, error))

    def keep_end(self, request: events.CancelRequested | events.SavepointRequested) -> None:
        """Not when the server itself ends the job, which is to run again."""
        job_id = request.job_id
        if job_id not in self._suspended and os.path.exists(self._path(job_id, _GRAPH)):
            stop = request if isinstance(request, events.SavepointRequested) else None
            self._write(self._path(job_id, _ASKED), _StoredRequest(FORMAT_VERSION, stop))

    def forget_end(self, job_id: str) -> None:
        self._files.change({self._path(job_id, _ASKED): None})

    def blame(self, job_id: str) -> None:
        if _JOB_ID.fullmatch(job_id) is not None and os.path.exists(self._path(job_id, _GRAPH)):
            self._put_blame(job_id, self.blamed(job_id) + 1)

    def blamed(self, job_id: str) -> int:
        """How many servers have ended while they dealt with this job, since one has stopped in order."""
        path = self._path(job_id, _BLAMED)
        found = self._read_or_set_aside(path, _StoredBlame) if os.path.exists(path) else None
        return found.servers if found is not None else 0

    @contextlib.contextmanager
    def at_risk(self, job_id: str) -> Iterator[None]:
        """What is done within may end the process in a way that nobody can catch: then the job is to blame. That is noted only
        where a server has ended before while it took up its jobs: each note is a write to the store that servers share."""
        if not self._is_wary:
            yield
            return
        before = self.blamed(job_id)
        self._put_blame(job_id, before + 1)
        try:
            yield
        finally:
            self._put_blame(job_id, before)

    def begin_taking_up(self) -> None:
        """Note that jobs are about to be taken up; a note that is there is of a server that has ended before it was through."""
        path = os.path.join(self._directory, _TAKING_UP)
        self._is_wary = os.path.exists(path)
        if not self._is_wary:
            self._files.change({path: b""}, is_durable=False)

    def end_taking_up(self) -> None:
        """All jobs are taken up. Harmless when repeated."""
        path = os.path.join(self._directory, _TAKING_UP)
        if os.path.exists(path):
            self._files.change({path: None}, is_durable=False)

    def _put_blame(self, job_id: str, servers: int) -> None:
        # It has to outlive the process, but not the machine.
        path = self._path(job_id, _BLAMED)
        stored = _encode(_StoredBlame(FORMAT_VERSION, servers)) if servers else None
        if stored is not None or os.path.exists(path):
            self._files.change({path: stored}, is_durable=False)

    def set_aside(self, job_id: str) -> str:
        """Leave out a job until somebody gives its file its name again; returns the file's path."""
        path = self._path(job_id, _GRAPH)
        self._files.rename(path, path + _ASIDE)
        self._put_blame(job_id, 0)
        return os.path.abspath(path + _ASIDE)

    def aside(self) -> frozenset[str]:
        """The ids of the jobs that were set aside."""
        paths = self._paths(self._directory, _GRAPH + _ASIDE)
        return frozenset(os.path.basename(path).removesuffix(_GRAPH + _ASIDE) for path in paths)

    def mark_saved(self, job_id: str, checkpoint_id: int) -> None:
        """The job has had a checkpoint of its own. Called on any thread, for each of them."""
        if self._marks_directory:
            stored = _encode(_StoredPointer(FORMAT_VERSION, checkpoint_id))
        elif job_id not in self._saved:
            stored = b""
        else:
            return
        with self._removing:
            if os.path.exists(self._path(job_id, _GRAPH)):
                self._files.change({self._path(job_id, _SAVED): stored})
                self._saved.add(job_id)

    def mark_temporary(self, savepoint: str, is_there: bool) -> None:
        """The savepoint at this path goes at the next start, unless it is gone before. Called on any thread."""
        path = self._path(os.path.basename(savepoint.rstrip("/")), _TEMPORARY)
        if is_there:
            self._write(path, _StoredTemporary(FORMAT_VERSION, savepoint))
        elif os.path.exists(path):
            self._files.change({path: None})

    def temporary(self) -> tuple[str, ...]:
        """The paths of the savepoints that nobody needs any more."""
        found = (
            self._read_or_set_aside(p, _StoredTemporary) for p in self._paths(self._directory, _TEMPORARY)
        )
        return tuple(stored.path for stored in found if stored is not None)

    def mark_committing(
        self, job_id: str, checkpoint_id: int, commits: tuple[events.SinkCommit, ...]
    ) -> None:
        """The job ends, and its last output is about to become visible."""
        stored = _StoredCommits(FORMAT_VERSION, checkpoint_id, commits)
        self._write(self._path(job_id, _COMMITS), stored)

    def mark_committed(self, job: KeptJob) -> None:
        """The last output of a job that an earlier server was about to end is visible."""
        assert job.commits is not None
        stored = _StoredCommits(FORMAT_VERSION, job.checkpoint_id, job.commits, is_committed=True)
        self._write(self._path(job.graph.job_id, _COMMITS), stored)

    def marked(self, job_id: str) -> tuple[events.SinkCommit, ...] | None:
        """The commits with which the job was about to end; None when it was not, or they cannot be read."""
        path = self._path(job_id, _COMMITS)
        found = self._read_or_set_aside(path, _StoredCommits) if os.path.exists(path) else None
        return found.commits if found is not None else None

    def unmark_committing(self, job_id: str) -> None:
        """The output has been removed again."""
        self._files.change({self._path(job_id, _COMMITS): None})

    def suspend(self, job_ids: Iterable[str]) -> None:
        """The server stops: these jobs are cancelled, but run again after the next start."""
        self._suspended = frozenset(job_ids)
        for job_id in self._suspended:
            # This server has got along with it.
            self._put_blame(job_id, 0)

    # --- at start

    def kept(self) -> tuple[KeptJob, ...]:
        """The jobs that had not ended, in the order of their submission."""
        found = [
            job for path in self._paths(self._directory, _GRAPH) if (job := self._read(path)) is not None
        ]
        return tuple(sorted(found, key=lambda job: job.submitted_ms))

    def graphs(self) -> Iterator[JobGraph]:
        """Those of the jobs that may start again: they have not ended, or were set aside."""
        for suffix in (_GRAPH, _GRAPH + _ASIDE):
            for path in self._paths(self._directory, suffix):
                with contextlib.suppress(DamagedFile, OtherVersion):
                    yield read_graph(path)

    def ended(self) -> tuple[events.EndedJob, ...]:
        """The newest of the jobs that have ended, oldest first; without one that was set aside and is brought back."""
        found = []
        for path in self._paths(self._ended_directory, _GRAPH):
            if os.path.exists(os.path.join(self._directory, os.path.basename(path))):
                continue
            stored = self._read_or_set_aside(path, _StoredEnd)
            if stored is not None and self._has_expired(stored):
                self._files.change({path: None}, is_durable=False)
            elif stored is not None:
                # A copy of what servers share, or of a backup, is as old as the start of this server.
                with contextlib.suppress(OSError):
                    os.utime(path, (stored.ended_ms / 1000, stored.ended_ms / 1000))
                found.append(stored)
        return tuple(s.job for s in sorted(found, key=lambda s: s.ended_ms))

    def put_ended(self, ended: events.EndedJob) -> None:
        """Keep the end of a job, but of none that a statement ran while it was planned: nobody asks for it later."""
        if ended.job_graph.is_for_planning or not self._ended_max:
            return
        path = os.path.join(self._ended_directory, _checked(ended.details.job_id) + _GRAPH)
        # It connects to nothing any more.
        kept = msgspec.structs.replace(ended, job_graph=without_secrets(ended.job_graph))
        # Where servers share the directory, the next one may be on another machine.
        is_durable = bool(self._marks_directory) and not ended.job_graph.is_query
        written = {path: _encode(_StoredEnd(FORMAT_VERSION, self._now_ms(), kept))}
        paths = sorted(set(self._paths(self._ended_directory, _GRAPH)) - {path}, key=os.path.getmtime)
        surplus = max(0, len(paths) + 1 - self._ended_max)
        self._files.change({**written, **dict.fromkeys(paths[:surplus])}, is_durable=is_durable)

    def _has_expired(self, stored: _StoredEnd) -> bool:
        return self._expiration_ms is not None and self._now_ms() - stored.ended_ms >= self._expiration_ms

    # --- files

    def _path(self, job_id: str, suffix: str) -> str:
        return os.path.join(self._directory, _checked(job_id) + suffix)

    @staticmethod
    def _paths(directory: str, suffix: str) -> list[str]:
        return sorted(e.path for e in os.scandir(directory) if e.name.endswith(suffix) and e.is_file())

    def _read(self, path: str) -> KeptJob | None:
        stored = self._read_or_set_aside(path, _StoredJob)
        if stored is None:
            return None
        try:
            graph = decode_job_graph(stored.graph)
            _checked(graph.job_id)
        except (msgspec.DecodeError, RecursionError, InternalError) as error:
            self._set_aside(path, str(error))
            return None
        saved_path = self._path(graph.job_id, _SAVED)
        saved_mark = os.path.abspath(saved_path) if os.path.exists(saved_path) else ""
        newest_id = self._newest_id(saved_path)
        if newest_id is None:
            # None of its checkpoints would count, and to go on from none is to write all rows again.
            self._set_aside(path, "the newest of its checkpoints is not known")
            return None
        job = KeptJob(graph, stored.submitted_ms, None, saved_mark=saved_mark, newest_id=newest_id)
        ending_path = self._path(graph.job_id, _ENDING)
        ending = self._read_or_set_aside(ending_path, _StoredEnding) if os.path.exists(ending_path) else None
        if ending is not None:
            job = dataclasses.replace(job, end=ending.end, error=ending.error)
        job = dataclasses.replace(job, asked=self._asked(graph.job_id))
        commits_path = self._path(graph.job_id, _COMMITS)
        if not os.path.exists(commits_path):
            return job
        marked = self._read_or_set_aside(commits_path, _StoredCommits)
        if marked is None:
            # Its output may be visible; running the job again could write it twice.
            self._set_aside(path, "what it was about to commit is not known")
            return None
        return dataclasses.replace(
            job,
            commits=marked.commits,
            checkpoint_id=marked.checkpoint_id,
            is_committed=marked.is_committed,
        )

    def _newest_id(self, saved_path: str) -> int | None:
        """None when it cannot be read."""
        if not self._marks_directory:
            return -1
        if not os.path.exists(saved_path):
            return 0
        found = self._read_or_set_aside(saved_path, _StoredPointer)
        return found.checkpoint_id if found is not None else None

    def _asked(self, job_id: str) -> events.CancelRequested | events.SavepointRequested | None:
        path = self._path(job_id, _ASKED)
        found = self._read_or_set_aside(path, _StoredRequest) if os.path.exists(path) else None
        if found is None:
            return None
        return found.stop if found.stop is not None else events.CancelRequested(job_id)

    def _read_or_set_aside(self, path: str, kind: type[_Stored]) -> _Stored | None:
        try:
            found = _read_kept(path, kind)
        except OtherVersion as other:
            logger.error("the kept job %s was %s", path, other)
            return None
        except (OSError, DamagedFile, msgspec.DecodeError, RecursionError) as error:
            self._set_aside(path, str(error))
            return None
        return found

    def _set_aside(self, path: str, reason: str) -> None:
        logger.error(
            "could not read the kept job %s: %s; it is set aside as %s%s", path, reason, path, _DAMAGED
        )
        with contextlib.suppress(OSError, ExternalError):
            self._files.rename(path, path + _DAMAGED)

    def _write(self, path: str, stored: msgspec.Struct) -> None:
        self._files.change({path: _encode(stored)})


def _checked(job_id: str) -> str:
    if _JOB_ID.fullmatch(job_id) is None:
        raise InternalError(f'job id "{job_id}" cannot name a file')
    return job_id


def _encode(stored: msgspec.Struct) -> bytes:
    return sealed(msgspec.msgpack.encode(stored))


class OtherVersion(Exception):
    """The file is of a version that another release reads, which the text names."""


def read_graph(path: str) -> JobGraph:
    """The job that a file keeps, which stays as it is. OtherVersion, or DamagedFile with the reason."""
    try:
        return decode_job_graph(_read_kept(path, _StoredJob).graph)
    except (OSError, msgspec.DecodeError, RecursionError, InternalError) as error:
        raise DamagedFile(str(error)) from error


def _read_kept(path: str, kind: type[_Stored]) -> _Stored:
    with open(path, "rb") as stream:
        content = unsealed(stream.read())
    head = msgspec.msgpack.decode(content, type=_Versioned)
    if not JOBS.reads(head.version):
        raise OtherVersion("{}: {}".format(*JOBS.refusal(head.version, head.release)))
    return msgspec.msgpack.decode(content, type=kind)


class KeptCommitter:
    """Commits sinks through another committer, and marks the job in the store during its last commit; what a checkpoint commits
    stands in its manifest. Implements `Committer`."""

    def __init__(self, store: FileJobStore, committer: Committer) -> None:
        self._store = store
        self._committer = committer

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[events.SinkCommit, ...], is_last: bool = False
    ) -> None:
        self._store.check_leads()
        if is_last:
            self._store.mark_committing(job_id, checkpoint_id, commits)
        self._committer.commit(job_id, checkpoint_id, commits, is_last)

    def remove_staged(self, job_id: str, staged: tuple[events.StagedRows, ...]) -> None:
        self._store.check_leads()
        self._committer.remove_staged(job_id, staged)

    def abort(self, job_id: str, commits: tuple[events.SinkCommit, ...]) -> None:
        self._store.check_leads()
        self._committer.abort(job_id, commits)
        aborted, marked = _keys(commits), self._store.marked(job_id)
        # What attempts before the last one left is removed after the last commit, whose mark stays.
        if marked is None or _keys(marked) <= aborted:
            self._store.unmark_committing(job_id)


def _keys(commits: tuple[events.SinkCommit, ...]) -> set[tuple[str, int, str]]:
    return {(c.vertex_id, c.operator_id, committable.key) for c in commits for committable in c.committables}


# The graph of a job that has ended, without the passwords that it ran with.


_OPTIONS = ("config", "options")
"""What settings of jobs and options of tables are called, in graphs and in specs."""


def without_secrets(job_graph: JobGraph) -> JobGraph:
    graph: JobGraph = _masked(job_graph)
    return graph


def _masked(value: Any) -> Any:
    """The same object where nothing is secret."""
    if isinstance(value, tuple):
        found = tuple(_masked(each) for each in value)
        return found if any(new is not old for new, old in zip(found, value, strict=True)) else value
    if not isinstance(value, msgspec.Struct):
        return value
    changes: dict[str, Any] = {}
    for name in value.__struct_fields__:
        old = getattr(value, name)
        is_options = name in _OPTIONS and isinstance(old, dict)
        new = {key: masked(key, text) for key, text in old.items()} if is_options else _masked(old)
        if new is not old and new != old:
            changes[name] = new
    return msgspec.structs.replace(value, **changes) if changes else value
