"""Commits the files of a checkpoint atomically: a journal names them until all are in place."""

from __future__ import annotations

import contextlib
import functools
import glob
import logging
import os
import re
from typing import Any

import msgspec

from sqlstream.errors import ExternalError, UserError
from sqlstream.runtime.abandoned_rows import CLAIM, is_claimed
from sqlstream.runtime.connectors.files.committed_notes import is_noted, note_commit, write_whole
from sqlstream.runtime.host.files import file_error
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable, in_order
from sqlstream.spi.files import Files, is_hidden

logger = logging.getLogger(__name__)


JOURNAL_BYTES_MAX = 256 << 20
"""A journal of a million files."""

_WARNINGS_MAX = 1000


class Move(msgspec.Struct, frozen=True):
    """One file of a commit; paths are relative to the table's. `hidden` is empty for an old file that the commit removes."""

    hidden: str
    final: str

    @property
    def is_removal(self) -> bool:
        return not self.hidden


REPLACED = ".replaced-"
"""A journal is renamed to this when the new files take the place of the old ones (see replacing_commit.py)."""


_decode = msgspec.json.Decoder(list[Move]).decode

_HIDDEN = re.compile(r"\.staging-([^/\0]+)-([0-9a-f]{12,20})/(part-\2-[^/\0]+?)(?:\.staged)?")
"""The directory of a job's writer, and in it a file that bears the writer's id."""

STAGED = ".staged"
"""Ends the names of staged files: a glob such as `*/*.parquet` of other readers also looks into hidden directories."""

_JOURNAL = re.compile(r"\.(?:commit|replaced)-(.+)-([1-9][0-9]{0,18})-([0-9a-f]{12,20})", re.DOTALL)
"""The commit of a job's checkpoint, which one of its writers names."""

_PARTITIONS = re.compile(r"([^/\0]*=[^/\0]*/)*")


def staging_directory(path: str, job_id: str, writer_id: str) -> str:
    """Where a writer of a job keeps its files until the commit; readers of the table pass over it."""
    return os.path.join(path, f".staging-{job_id}-{writer_id}")


def commit_files(path: str, checkpoint_id: int, committables: list[Committable], files: Files) -> None:
    """Move every hidden file of a checkpoint to its name (`commit_moves`)."""
    if committables:
        is_last = checkpoint_id == LAST_CHECKPOINT_ID
        commit_moves(path, in_order(committables)[0], moves_of(path, committables), files, is_last)


def commit_moves(path: str, first: Committable, moves: list[Move], files: Files, is_last: bool) -> None:
    """Move the files of a checkpoint, all or none as far as readers of the table can see; `first` of its committables names it.

    The journal `.commit-<job>-<checkpoint>-<writer>` in the table's directory names them all before the first is moved, and is
    removed after the last: its removal is the commit. Readers skip files that a journal names (`uncommitted_files`). A commit
    that broke off is completed by its repetition, or removed by `remove_uncommitted`. When neither comes, because the process has
    died and nobody keeps its job, the next job that writes to the table undoes it (`undo_broken_commits`). The committing process
    locks the journal meanwhile. A file that users have removed since it was committed is not missed by a repetition.
    ExternalError when a file cannot be moved; the journal stays then, so that nothing of the checkpoint is visible."""
    if not moves:
        return
    hidden = [move for move in moves if files.status(os.path.join(path, move.hidden)) is not None]
    journal = os.path.join(path, f".commit-{first.job_id}-{first.checkpoint_id}-{first.writer_id}")
    if is_last or not is_noted(path, first, files):
        check_all_are_there(path, moves, hidden, files)
    if not hidden:
        # All are moved; at most the journal is left.
        _end(path, moves, journal, files)
        return
    # Written beside the hidden files: when the journal appears under its name, it is complete and locked.
    draft = os.path.join(path, os.path.dirname(moves[0].hidden), ".journal")
    encoded = msgspec.json.encode(moves)
    if len(encoded) > JOURNAL_BYTES_MAX:
        raise ExternalError(
            "SS5018",
            f'could not commit {len(moves)} files in "{path}" at once',
            hint="write larger files, fewer partitions, or take checkpoints more often",
        )
    write_whole(draft, encoded, files)
    lock = files.lock(draft)
    try:
        files.publish(draft, journal)
        # What it hides may be durable under its name before the journal is.
        files.sync_directory(path)
        for move in hidden:
            files.publish(os.path.join(path, move.hidden), os.path.join(path, move.final))
        if not is_last:
            note_commit(path, first, files)
        _end(path, moves, journal, files)
    finally:
        if lock is not None:
            lock.close()


def remove_staging(path: str, job_id: str, files: Files) -> None:
    """The job has ended, and its files are moved: remove directories that are empty."""
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove_directory_if_empty(directory)


def check_all_are_there(path: str, moves: list[Move], hidden: list[Move], files: Files) -> None:
    for move in moves:
        if move not in hidden and files.status(os.path.join(path, move.final)) is None:
            raise ExternalError(
                "SS5015",
                f'could not make "{os.path.join(path, move.final)}" visible: the file written for it has vanished',
                hint="run the statement again, and let nothing remove hidden files meanwhile",
            )


def _end(path: str, moves: list[Move], journal: str, files: Files) -> None:
    """Remove the journal once all moves are durable. Its removal is durable too when this returns: a journal that came back after
    a crash of the machine would hide what is committed, and have it undone."""
    directories = {os.path.dirname(move.final) for move in moves}
    # A partition that the commit has made is a name in the directory above it.
    above = {parent for directory in directories for parent in _parents(directory)}
    for directory in sorted(directories | above, reverse=True):
        # Users may have removed a partition since the commit that is repeated.
        if files.status(os.path.join(path, directory)) is not None:
            files.sync_directory(os.path.join(path, directory))
    files.remove(journal)
    files.sync_directory(path)


def _parents(directory: str) -> list[str]:
    """The directories of a table that a partition is in, the table's own included."""
    parts = directory.split("/")
    return ["/".join(parts[:n]) for n in range(len(parts))]


def uncommitted_files(path: str, files: Files) -> frozenset[str]:
    """The normalised paths of all files that the journals of unfinished commits name."""
    new, old = hidden_files(path, files)
    return new | old


def hidden_files(path: str, files: Files) -> tuple[frozenset[str], frozenset[str]]:
    """The normalised paths of the files that unfinished commits have not shown yet, and of those that they have replaced."""
    # One look: a journal that is renamed meanwhile has one of its two names.
    found = [j for j in files.match_glob(os.path.join(glob.escape(path), ".[cr]*")) if _is_journal(j, files)]
    replaced = {_commit_of(j) for j in found if os.path.basename(j).startswith(REPLACED)}
    new: set[str] = set()
    old: set[str] = set()
    for journal in found:
        is_replaced = os.path.basename(journal).startswith(REPLACED)
        if not is_replaced and _commit_of(journal) in replaced:
            # A store copies a journal to its other name before it removes it.
            continue
        for move in read_journal(journal, files):
            if move.is_removal == is_replaced:
                (old if is_replaced else new).add(os.path.normpath(os.path.join(path, move.final)))
    return frozenset(new), frozenset(old)


def _commit_of(journal: str) -> str:
    """What the names of a commit's journals end with."""
    return os.path.basename(journal).partition("-")[2]


def _is_journal(path: str, files: Files) -> bool:
    name = os.path.basename(path)
    return name.startswith((".commit-", REPLACED)) and not _is_directory(path, files)


def undo_broken_commits(path: str, files: Files) -> None:
    """Remove all files, moved or still hidden, of commits whose process has died, unless their job is kept: then whoever keeps it
    completes them."""
    for journal in _journals(path, files):
        if is_claimed(staging_directory(path, _job_of(journal), CLAIM), files):
            continue
        try:
            lock = files.lock(journal)
        except UserError as error:
            _pass_over(journal, error.message)
            continue
        if lock is None:
            continue
        with lock:
            moves = _moves(journal, lock)
            if moves is None:
                _set_aside(path, journal, files)
                continue
            if is_noted(path, named_by(journal), files):
                # Only the removal of the journal was left, or somebody has put it back.
                _end(path, moves, journal, files)
                continue
            moves = [move for move in moves if not move.is_removal]
            logger.warning("undoing the commit of %d files that broke off in %s", len(moves), path)
            _undo(path, moves, files)
            for directory in {os.path.dirname(move.hidden) for move in moves}:
                files.remove(os.path.join(path, directory))
            files.remove(journal)


def remove_uncommitted(path: str, job_id: str, written: list[Move], files: Files) -> None:
    """Remove what a job has staged, the files that its broken commits have moved into place, and those of `written`; with
    them the partitions that are empty then."""
    journals = _journals(path, files, job_id)
    moves = [move for journal in journals for move in read_journal(journal, files) if not move.is_removal]
    _undo(path, written + moves, files)
    for directory in files.match_glob(staging_directory(glob.escape(path), job_id, "*")):
        files.remove(directory)
    # They hide what is removed above, also from readers that come when this was broken off.
    for journal in journals:
        files.remove(journal)


def _undo(path: str, moves: list[Move], files: Files) -> None:
    for move in moves:
        final = os.path.join(path, move.final)
        status = files.status(final)
        if status is not None and not status.is_directory:
            files.remove(final)
        directory = os.path.dirname(move.final)
        while directory:
            files.remove_directory_if_empty(os.path.join(path, directory))
            directory = os.path.dirname(directory)


def _journals(path: str, files: Files, job_id: str = "") -> list[str]:
    """All journals in a table's directory, or those of one job."""
    begin = f"{glob.escape(job_id)}-" if job_id else ""
    found: list[str] = files.match_glob(os.path.join(glob.escape(path), f".commit-{begin}*"))
    of_job = [journal for journal in found if not job_id or _job_of(journal) == job_id]
    return [journal for journal in of_job if not _is_directory(journal, files)]


def _is_directory(journal: str, files: Files) -> bool:
    status = files.status(journal)
    return status is not None and status.is_directory


def _job_of(journal: str) -> str:
    """Empty for a journal that bears no job's name."""
    return named_by(journal).job_id


def named_by(journal: str) -> Committable:
    """What names the commit. Without a job for a journal that no sink of ours has called so."""
    found = _JOURNAL.fullmatch(os.path.basename(journal))
    if found is None:
        return Committable("", 0, "", 0, {})
    return Committable(found.group(1), int(found.group(2)), found.group(3), 0, {})


def read_journal(journal: str, files: Files) -> list[Move]:
    try:
        with files.open_read(journal) as stream:
            return _moves(journal, stream) or []
    except UserError as error:
        _pass_over(journal, error.message)
        return []
    except ExternalError:
        # A journal that was removed meanwhile belongs to a job that is committed.
        if files.status(journal) is None:
            return []
        raise


def _moves(journal: str, stream: Any) -> list[Move] | None:
    """The files that a journal names; None for one that no sink of ours has written. Ours are complete on the disk before they
    get their name, so a faulty one may name any file: it is not followed."""
    try:
        data = stream.read(JOURNAL_BYTES_MAX + 1)
        if len(data) > JOURNAL_BYTES_MAX:
            problem = f"it has more than {JOURNAL_BYTES_MAX >> 20} MiB"
        else:
            moves = _decode(data)
            job_id = _job_of(journal)
            strange = next((move for move in moves if not _is_of_a_sink(move, job_id)), None)
            problem = f'it names the files "{strange.hidden}" and "{strange.final}"' if strange else ""
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = str(error)
    except OSError as error:
        raise file_error("read", journal, error) from error
    if problem:
        _pass_over(journal, problem)
        return None
    return moves


@functools.lru_cache(_WARNINGS_MAX)
def _pass_over(journal: str, problem: str) -> None:
    """Warn, once."""
    logger.warning(
        'passing over the journal "%s" of a commit, which no sink has written so: %s', journal, problem[:200]
    )


def _set_aside(path: str, journal: str, files: Files) -> None:
    """Readers are not to look at it again."""
    aside = os.path.join(path, f".unusable-{os.path.basename(journal).lstrip('.')}")
    with contextlib.suppress(ExternalError):
        files.publish(journal, aside)


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


def moves_of(path: str, committables: list[Committable]) -> list[Move]:
    """The files of the committables, those that are written first first."""
    return [
        Move(os.path.relpath(file["hidden"], path), os.path.relpath(file["final"], path))
        for committable in in_order(committables)
        for file in committable.content["files"]
    ]
