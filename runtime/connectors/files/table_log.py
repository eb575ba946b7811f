"""The log of a table of files: what each commit changes in the table's directory, and how far it is.

A commit is a list of moves: staged files become visible, old ones go. Appending, joining, merging by key, INSERT OVERWRITE,
UPDATE and DELETE are such lists (file_commits.py); which partitions wait for their mark stands in the same records
(job_records.py).

    STAGED     the files are in `.staging-<job>-<writer>`; the log does not name them
      │ put the manifest `.commit-<job>-<checkpoint>-<writer>`, which has the moves; then move each file to its name
    MOVING     readers leave out the files that it adds
      │ put the record `.committed/<job>`, in which the writer has this checkpoint: the moment of the commit
    COMMITTED  readers leave out the files that it removes
      │ remove these files, then the manifest
    DONE

The last commit of a job needs no record when it removes nothing: nobody goes on from it. It is DONE when its manifest is
removed, so that a plain INSERT leaves nothing hidden behind.

Who calls: the JobManager commits, again and again until it succeeds, also for a later job that goes on from a savepoint, or
aborts. A writer that begins settles what processes that have died left: commits that are MOVING are undone, COMMITTED ones are
completed. Those of jobs that somebody keeps are left to whoever does. Readers look, before and after they list the directory.

Why repeating is safe: manifest, record and files have names that belong to this commit alone. A file that is moved already is
not at its staged name; one that is removed already is not there; and a commit that the record has is only completed, so that
later files of others are not taken for old ones. Nothing is removed before the record is put. From then on only a commit that
removes nothing is undone, by an abort.

Readers who do not know the log see the new files one after the other, then the old ones go. The log is no snapshot of the
table, and its manifests have no common numbers: docs/decisions/0021-one-log-for-a-table-of-files.md says why.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO

import msgspec

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.abandoned_rows import CLAIM, is_claimed
from sqlstream.runtime.connectors.files.job_records import DIRECTORY, JobRecords, write_whole
from sqlstream.runtime.host.file_systems import escape_pattern
from sqlstream.runtime.host.files import file_error, list_if_there
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files, is_hidden

logger = logging.getLogger(__name__)

MANIFEST_BYTES_MAX = 256 << 20
"""A manifest of a million files."""

STAGED = ".staged"
"""Ends the names of staged files: a glob such as `*/*.parquet` of other readers also looks into hidden directories."""

_WARNINGS_MAX = 1000
_MANIFEST = re.compile(r"\.commit-(.+)-([1-9][0-9]{0,18})-([0-9a-f]{12,20})", re.DOTALL)
"""The commit of a job's checkpoint, which one of its writers names."""

_HIDDEN = re.compile(r"\.staging-([^/\0]+)-([0-9a-f]{12,20})/(part-\2-[^/\0]+?)(?:\.staged)?")
"""The directory of a job's writer, and in it a file that bears the writer's id."""

_FINAL = re.compile(r"part-[0-9a-f]{12,20}-.*", re.DOTALL)
"""What the sinks call their visible files, as above."""

_PARTITIONS = re.compile(r"([^/\0]*=[^/\0]*/)*")

_OF_OTHER_BUILDS = {
    ".replaced-": 'remove the files that it names with an empty "hidden", then the file itself',
    ".partitions": 'mark the partitions that its files name as "waiting", then remove it',
}
"""What a table may have beside the log, of a commit that other builds have not completed, and how to complete it."""


class Move(msgspec.Struct, frozen=True):
    """One file of a commit; paths are relative to the table's. `hidden` is empty for an old file that the commit removes."""

    hidden: str
    final: str

    @property
    def is_removal(self) -> bool:
        return not self.hidden


_decode = msgspec.json.Decoder(list[Move]).decode


@dataclass(frozen=True)
class LogView:
    """One look at the log: the normalised paths of the files that are not visible yet, and of those that are replaced, and the
    records with their times and sizes."""

    new: frozenset[str]
    old: frozenset[str]
    records: frozenset[tuple[str, int, int]]

    @property
    def hidden(self) -> frozenset[str]:
        return self.new | self.old


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its files until the commit; readers of the table pass over it."""
    return os.path.join(path, f".staging-{job_id}-{writer_id}")


class TableLog:
    """The log of the table at `path`. No state but what is in its directory."""

    def __init__(self, path: str, files: Files) -> None:
        self._path = path
        self._files = files
        self.records = JobRecords(path, files)

    # --- readers ------------------------------------------------------------------------------------------------------

    def view(self) -> LogView:
        """UserError SS5083 where readers would see old files beside those that replace them."""
        # One look: `.commit-…`, `.committed`, and what another build left.
        names = self._files.match_glob(os.path.join(escape_pattern(self._path), ".[cr]*"))
        _refuse_other_builds(names)
        # The records first: one that is put from here on is another in the next look.
        records = frozenset(self._record_files()) if self._at(DIRECTORY) in names else frozenset()
        hidden: dict[bool, set[str]] = {True: set(), False: set()}
        for manifest in names:
            if not self._is_manifest(manifest):
                continue
            is_committed = self.is_committed(named_by(manifest))
            paths = (move.final for move in self._read(manifest) if move.is_removal == is_committed)
            hidden[is_committed].update(os.path.normpath(self._at(final)) for final in paths)
        return LogView(frozenset(hidden[False]), frozenset(hidden[True]), records)

    def _record_files(self) -> Iterable[tuple[str, int, int]]:
        for found in list_if_there(self._at(DIRECTORY), self._files):
            yield os.path.basename(found.path), found.modified_ms, found.size

    def has_replaced(self, before: LogView, after: LogView) -> bool:
        """Whether files may have taken the place of others between two looks."""
        earlier = {job_id for job_id, _, _ in before.records}
        changed = {job_id for job_id, _, _ in after.records - before.records}
        return before.old != after.old or any(
            job_id not in earlier or self.records.of(job_id).has_replaced for job_id in changed
        )

    # --- the JobManager -----------------------------------------------------------------------------------------------

    def is_committed(self, commit: Committable) -> bool:
        return self.records.of(commit.job_id).has(commit)

    def commit(
        self, commit: Committable, moves_of: Callable[[], list[Move]], *, is_recorded: bool = True
    ) -> None:
        """Carry out the moves, all or none as far as readers of the table can see; `commit` is the first of the committables,
        which names them all. `moves_of` is called unless the record has the commit.

        ExternalError when a file cannot be moved: the manifest stays, so that nothing of the commit is visible. SS5015 for a
        staged file that has vanished; SS5018 for too many files. A file that users have removed since it was committed is not
        missed, unless the commit has no record: then a repetition fails with SS5015."""
        manifest = self._manifest(commit)
        if self.is_committed(commit):
            self._complete(manifest, self._read(manifest))
            return
        moves = moves_of()
        # What a repetition has no rows for: hidden until here by the manifest that the next one replaces.
        begun = self._read(manifest) if self._files.status(manifest) is not None else []
        finals = {move.final for move in moves}
        self._undo(move for move in begun if move.final not in finals)
        staged = [move for move in moves if not move.is_removal and self._is_there(move.hidden)]
        self._check_all_are_there(moves, staged)
        replaces = any(move.is_removal for move in moves)
        with contextlib.ExitStack() as locked:
            # A repetition that finds all files moved must not hide them again: they may be visible.
            if staged or replaces:
                self._put_manifest(commit, moves, locked)
            for move in staged:
                self._files.publish(self._at(move.hidden), self._at(move.final))
            self._sync(moves)
            if is_recorded:
                record = self.records.of(commit.job_id).with_commit(commit, replaces=replaces)
                self.records.put(commit.job_id, record)
            self._complete(manifest, moves)

    def abort(self, job_id: str, written: list[Move], undone: list[Committable]) -> None:
        """Remove what a job has staged, the files of `written`, and those of its commits that are MOVING; with them the
        partitions that are empty then. Complete those that are COMMITTED. `undone` are the committables of `written`."""
        self.records.forget(undone)
        broken: list[str] = []
        committed: list[str] = []
        for manifest in self._manifests(job_id):
            if self.is_committed(named_by(manifest)):
                committed.append(manifest)
            else:
                broken.append(manifest)
                written = [*written, *self._read(manifest)]
        self._undo(written)
        for directory in self._stagings(job_id):
            self._files.remove(directory)
        # They hide what is removed above, also from readers that come when this was broken off.
        for manifest in broken:
            self._files.remove(manifest)
        for manifest in committed:
            self._complete(manifest, self._read(manifest))

    def remove_staging(self, job_id: str) -> None:
        """The job has ended, and its files are moved: remove directories that are empty."""
        for directory in self._stagings(job_id):
            self._files.remove_directory_if_empty(directory)

    # --- a writer that begins -----------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Undo or complete the commits whose process has died, unless their job is kept. UserError SS5083."""
        _refuse_other_builds(self._files.match_glob(os.path.join(escape_pattern(self._path), ".[pr]*")))
        for manifest in self._manifests():
            commit = named_by(manifest)
            if is_claimed(staging_directory(self._path, commit.job_id, CLAIM), self._files):
                continue
            try:
                lock = self._files.lock(manifest)
            except UserError as error:
                _pass_over(manifest, error.message)
                continue
            if lock is not None:
                with lock:
                    self._settle(manifest, commit, _moves(manifest, lock))

    def _settle(self, manifest: str, commit: Committable, moves: list[Move] | None) -> None:
        if moves is None:
            # Readers are not to look at it again.
            aside = self._at(f".unusable-{os.path.basename(manifest).lstrip('.')}")
            with contextlib.suppress(ExternalError):
                self._files.publish(manifest, aside)
        elif self.is_committed(commit):
            self._complete(manifest, moves)
        else:
            added = [move for move in moves if not move.is_removal]
            logger.warning("undoing the commit of %d files that broke off in %s", len(added), self._path)
            self._undo(added)
            for directory in {os.path.dirname(move.hidden) for move in added}:
                self._files.remove(self._at(directory))
            self._files.remove(manifest)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _put_manifest(
        self, commit: Committable, moves: list[Move], locked: contextlib.ExitStack[bool | None]
    ) -> None:
        encoded = msgspec.json.encode(moves)
        if len(encoded) > MANIFEST_BYTES_MAX:
            is_overwriting = any(move.is_removal for move in moves)
            raise ExternalError(
                "SS5018",
                f'could not replace the files in "{self._path}" at once: there are too many'
                if is_overwriting
                else f'could not commit {len(moves)} files in "{self._path}" at once',
                hint="overwrite one partition after the other"
                if is_overwriting
                else "write larger files, fewer partitions, or take checkpoints more often",
            )
        # Written beside the hidden files: when the manifest appears under its name, it is complete and locked.
        draft = os.path.join(staging_directory(self._path, commit.job_id, commit.writer_id), ".manifest")
        write_whole(draft, encoded, self._files)
        lock = self._files.lock(draft)
        if lock is not None:
            locked.enter_context(lock)
        self._files.publish(draft, self._manifest(commit))
        # What it hides may be durable under its name before the manifest is.
        self._files.sync_directory(self._path)

    def _check_all_are_there(self, moves: list[Move], staged: list[Move]) -> None:
        seen = set(staged)
        for move in moves:
            if not move.is_removal and move not in seen and not self._is_there(move.final):
                raise ExternalError(
                    "SS5015",
                    f'could not make "{self._at(move.final)}" visible: the file written for it has vanished',
                )

    def _sync(self, moves: list[Move]) -> None:
        """A partition that the commit has made is a name in the directory above it."""
        found = {""}
        for move in moves:
            if not move.is_removal:
                found.update(_directories(move.final))
        for directory in sorted(found, reverse=True):
            # Users may have removed a partition since the commit that is repeated.
            if self._is_there(directory):
                self._files.sync_directory(self._at(directory))

    def _complete(self, manifest: str, moves: list[Move]) -> None:
        """Durable when this returns: a manifest without a record that came back after a crash of the machine would hide what is
        committed, and have it undone."""
        old = [move for move in moves if move.is_removal]
        for move in old:
            self._files.remove(self._at(move.final))
            self._remove_empty(move.final)
        self._files.remove(manifest)
        self._files.sync_directory(self._path)

    def _undo(self, moves: Iterable[Move]) -> None:
        for move in moves:
            if move.is_removal:
                continue
            status = self._files.status(self._at(move.final))
            if status is not None and not status.is_directory:
                self._files.remove(self._at(move.final))
            self._remove_empty(move.final)

    def _remove_empty(self, file: str) -> None:
        for directory in _directories(file):
            self._files.remove_directory_if_empty(self._at(directory))

    # --- manifests ----------------------------------------------------------------------------------------------------

    def _stagings(self, job_id: str) -> list[str]:
        return self._files.match_glob(staging_directory(escape_pattern(self._path), job_id, "*"))

    def _at(self, relative: str) -> str:
        return os.path.join(self._path, relative)

    def _is_there(self, relative: str) -> bool:
        return self._files.status(self._at(relative)) is not None

    def _manifest(self, commit: Committable) -> str:
        return self._at(f".commit-{commit.job_id}-{commit.checkpoint_id}-{commit.writer_id}")

    def _manifests(self, job_id: str = "") -> list[str]:
        """All manifests, or those of one job."""
        begin = f"{glob.escape(job_id)}-" if job_id else ""
        found = self._files.match_glob(os.path.join(escape_pattern(self._path), f".commit-{begin}*"))
        of_job = (m for m in found if not job_id or named_by(m).job_id == job_id)
        return [manifest for manifest in of_job if self._is_manifest(manifest)]

    def _is_manifest(self, path: str) -> bool:
        if not os.path.basename(path).startswith(".commit-"):
            return False
        status = self._files.status(path)
        return status is None or not status.is_directory

    def _read(self, manifest: str) -> list[Move]:
        """Nothing for one that was removed meanwhile: its commit is DONE, or undone."""
        try:
            with self._files.open_read(manifest) as stream:
                return _moves(manifest, stream) or []
        except UserError as error:
            _pass_over(manifest, error.message)
            return []
        except ExternalError:
            if self._files.status(manifest) is None:
                return []
            raise


def is_of_sink(file: str) -> bool:
    """Whether a commit may have put this file here, by its name."""
    return _FINAL.fullmatch(os.path.basename(file)) is not None


def named_by(manifest: str) -> Committable:
    """What names the commit. Without a job for a manifest that no sink of ours has called so."""
    found = _MANIFEST.fullmatch(os.path.basename(manifest))
    if found is None:
        return Committable("", 0, "", 0, {})
    return Committable(found.group(1), int(found.group(2)), found.group(3), 0, {})


def _directories(file: str) -> list[str]:
    """
    >>> _directories("day=1/hour=2/part-0.csv")
    ['day=1/hour=2', 'day=1']
    """
    found = []
    directory = os.path.dirname(file)
    while directory:
        found.append(directory)
        directory = os.path.dirname(directory)
    return found


def _refuse_other_builds(names: Iterable[str]) -> None:
    for name in names:
        for beginning, hint in _OF_OTHER_BUILDS.items():
            if os.path.basename(name).startswith(beginning):
                raise UserError(
                    "SS5083",
                    f'"{name}" was left by another build of sqlstream, which has not completed its commit',
                    hint=f"let that build write to the table once more, or {hint}",
                )


def _moves(manifest: str, stream: BinaryIO) -> list[Move] | None:
    """The files that a manifest names; None for one that no sink of ours has written. Ours are complete on the disk before they
    get their name, so a faulty one may name any file: it is not followed."""
    try:
        data = stream.read(MANIFEST_BYTES_MAX + 1)
        if len(data) > MANIFEST_BYTES_MAX:
            problem = f"it has more than {MANIFEST_BYTES_MAX >> 20} MiB"
        else:
            moves = _decode(data)
            job_id = named_by(manifest).job_id
            strange = next((move for move in moves if not _is_of_a_sink(move, job_id)), None)
            problem = f'it names the files "{strange.hidden}" and "{strange.final}"' if strange else ""
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = str(error)
    except OSError as error:
        raise file_error("read", manifest, error) from error
    if problem:
        _pass_over(manifest, problem)
        return None
    return moves


@functools.lru_cache(_WARNINGS_MAX)
def _pass_over(manifest: str, problem: str) -> None:
    """Warn, once."""
    logger.warning(
        'passing over the manifest "%s" of a commit, which no sink has written so: %s',
        manifest,
        problem[:200],
    )


def _is_of_a_sink(move: Move, job_id: str) -> bool:
    """Whether both paths have the form that a sink of the job writes, so that they name only its own files. ValueError for text
    that is no path."""
    os.fsencode(move.hidden + move.final)
    if move.is_removal:
        parts = move.final.split("/")
        return "\0" not in move.final and not any(part == "" or is_hidden(part) for part in parts)
    hidden = _HIDDEN.fullmatch(move.hidden)
    directories, _, name = move.final.rpartition("/")
    return (
        hidden is not None
        and hidden.group(1) == job_id
        and name == hidden.group(3)
        and _PARTITIONS.fullmatch(directories and directories + "/") is not None
    )
