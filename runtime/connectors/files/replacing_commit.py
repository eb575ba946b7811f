"""Commits files that take the place of others: readers see the old ones or the new ones."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable

import msgspec

from sqlstream.errors import ExternalError
from sqlstream.runtime.abandoned_rows import CLAIM, is_claimed
from sqlstream.runtime.connectors.files.commit_journal import (
    JOURNAL_BYTES_MAX,
    REPLACED,
    Move,
    check_all_are_there,
    named_by,
    read_journal,
    staging_directory,
)
from sqlstream.runtime.connectors.files.committed_notes import is_noted, note_commit, write_whole
from sqlstream.spi.committable import Committable
from sqlstream.spi.files import Files


def commit_replacing(
    path: str, first: Committable, moves: list[Move], old_files: Callable[[], list[str]], files: Files
) -> None:
    """Move the files of a job to their names and remove `old_files`, whose paths are relative to the table's; `first` of its
    committables names the commit, which is the only one of the job.

    The journal `.commit-<job>-<checkpoint>-<writer>` hides the new files until all are in place. Then it is renamed to
    `.replaced-…`: from then on it hides the old ones instead. They are removed, and it with them. A commit that broke off before
    the renaming is repeated, or undone like any other (`undo_broken_commits`); one that broke off behind it is completed by its
    repetition, or by the next job that writes the table (`complete_broken_replacements`)."""
    ending = f"{first.job_id}-{first.checkpoint_id}-{first.writer_id}"
    journal, replaced = os.path.join(path, f".commit-{ending}"), os.path.join(path, f"{REPLACED}{ending}")
    if files.status(replaced) is not None:
        # In a store the other name may be left.
        files.remove(journal)
        _complete(path, replaced, first, files)
        return
    if is_noted(path, first, files):
        return
    hidden = [move for move in moves if files.status(os.path.join(path, move.hidden)) is not None]
    check_all_are_there(path, moves, hidden, files)
    files.make_directories(path)
    encoded = msgspec.json.encode([*moves, *(Move("", old) for old in old_files())])
    if len(encoded) > JOURNAL_BYTES_MAX:
        raise ExternalError(
            "SS5018",
            f'could not replace the files in "{path}" at once: there are too many',
            hint="overwrite one partition after the other",
        )
    draft = os.path.join(path, f".draft-{ending}")
    write_whole(draft, encoded, files)
    lock = files.lock(draft)
    try:
        files.publish(draft, journal)
        files.sync_directory(path)
        for move in hidden:
            files.publish(os.path.join(path, move.hidden), os.path.join(path, move.final))
        for directory in _directories(moves):
            files.sync_directory(os.path.join(path, directory))
        files.publish(journal, replaced)
        files.sync_directory(path)
        _complete(path, replaced, first, files)
    finally:
        if lock is not None:
            lock.close()


def is_replaced(path: str, first: Committable, files: Files) -> bool:
    """Whether readers see the new files of the commit."""
    ending = f"{first.job_id}-{first.checkpoint_id}-{first.writer_id}"
    return files.status(os.path.join(path, f"{REPLACED}{ending}")) is not None or is_noted(path, first, files)


def complete_broken_replacements(path: str, files: Files) -> None:
    """Remove the old files of commits whose process has died, unless their job is kept: then whoever keeps it does."""
    for replaced in files.match_glob(os.path.join(glob.escape(path), f"{REPLACED}*")):
        first = named_by(replaced)
        if not first.job_id or is_claimed(staging_directory(path, first.job_id, CLAIM), files):
            continue
        lock = files.lock(replaced)
        if lock is not None:
            with lock:
                _complete(path, replaced, first, files)


def replacements(path: str, files: Files) -> tuple[str, ...]:
    """What changes whenever files of the table have been replaced."""
    return tuple(files.match_glob(os.path.join(glob.escape(path), ".committed", "*")))


def _complete(path: str, replaced: str, first: Committable, files: Files) -> None:
    """A repetition that comes later must not take files of others for old ones: the commit is noted first."""
    note_commit(path, first, files)
    old = [move.final for move in read_journal(replaced, files) if move.is_removal]
    for name in old:
        files.remove(os.path.join(path, name))
        directory = os.path.dirname(name)
        while directory:
            files.remove_directory_if_empty(os.path.join(path, directory))
            directory = os.path.dirname(directory)
    files.remove(replaced)
    files.sync_directory(path)


def _directories(moves: list[Move]) -> list[str]:
    """Those of the new files and those above them, the deepest first."""
    found = {""}
    for move in moves:
        directory = os.path.dirname(move.final)
        while directory:
            found.add(directory)
            directory = os.path.dirname(directory)
    return sorted(found, reverse=True)
