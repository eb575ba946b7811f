"""Commits the files of a job atomically: a journal names them until all are in place."""

from __future__ import annotations

import glob
import logging
import os
import re
import uuid
from typing import Any

import msgspec

from runtime.host.files import file_error
from sqlstream.errors import ExternalError

logger = logging.getLogger(__name__)


class Move(msgspec.Struct, frozen=True):
    """One file of a commit; paths are relative to the table's."""

    hidden: str
    final: str


_decode = msgspec.json.Decoder(list[Move]).decode

_HIDDEN = re.compile(r"\.staging-[^/\0]+-([0-9a-f]{12})/(part-\1-[^/\0]+)")
"""The writer's directory, and in it a file that bears the writer's id."""

_PARTITIONS = re.compile(r"([^/\0]*=[^/\0]*/)*")


def commit_files(path: str, committables: list[dict[str, Any]], files: Any) -> None:
    """Move every hidden file to its name, all or none.

    The journal `.commit-<id>` in the table's directory names them all before the first is moved, and is removed after the
    last: its removal commits the job. Readers of the table skip files that a journal names (`uncommitted_files`), and when
    the process dies in between, the next job that writes to the table undoes the moves (`undo_broken_commits`). The
    committing process locks the journal, so nobody undoes a commit under way. Files that were moved already are skipped.
    ExternalError when a file cannot be moved; nothing of the job is visible then."""
    moves = [_relative(path, c) for c in committables if files.status(c["hidden"]) is not None]
    vanished = [c["final"] for c in committables if not _is_anywhere(c, files)]
    if vanished:
        raise ExternalError(
            "SS5015",
            f'could not make "{vanished[0]}" visible: the file written for it has vanished',
            hint="run the statement again, and let nothing remove hidden files meanwhile",
        )
    if not moves:
        return
    journal = os.path.join(path, f".commit-{uuid.uuid4().hex[:12]}")
    # Written beside the hidden files: when the journal appears under its name, it is complete and locked.
    draft = os.path.join(path, os.path.dirname(moves[0].hidden), ".journal")
    _write(draft, moves, files)
    lock = files.lock(draft)
    try:
        files.rename(draft, journal)
        try:
            for move in moves:
                files.rename(os.path.join(path, move.hidden), os.path.join(path, move.final))
        except ExternalError:
            _undo(path, moves, files)
            files.remove(journal)
            raise
        files.remove(journal)
    finally:
        if lock is not None:
            lock.close()


def uncommitted_files(path: str, files: Any) -> frozenset[str]:
    """The normalised paths of all files that the journals of unfinished commits name."""
    names = set()
    for journal in _journals(path, files):
        for move in _read(journal, files):
            names.add(os.path.normpath(os.path.join(path, move.final)))
    return frozenset(names)


def undo_broken_commits(path: str, files: Any) -> None:
    """Remove all files, moved or still hidden, of commits whose process has died."""
    for journal in _journals(path, files):
        lock = files.lock(journal)
        if lock is None:
            continue
        try:
            moves = _moves(journal, lock)
            logger.warning("undoing the commit of %d files that broke off in %s", len(moves), path)
            _undo(path, moves, files)
            for directory in {os.path.dirname(move.hidden) for move in moves}:
                files.remove(os.path.join(path, directory))
            files.remove(journal)
        finally:
            lock.close()


def remove_files(path: str, committables: list[dict[str, Any]], files: Any) -> None:
    """Remove the files of a job that a commit has moved into place, and the partitions that are empty then."""
    _undo(path, [_relative(path, c) for c in committables], files)


def _undo(path: str, moves: list[Move], files: Any) -> None:
    for move in moves:
        final = os.path.join(path, move.final)
        status = files.status(final)
        if status is not None and not status.is_directory:
            files.remove(final)
        directory = os.path.dirname(move.final)
        while directory:
            files.remove_directory_if_empty(os.path.join(path, directory))
            directory = os.path.dirname(directory)


def _journals(path: str, files: Any) -> list[str]:
    found: list[str] = files.match_glob(os.path.join(glob.escape(path), ".commit-*"))
    return found


def _read(journal: str, files: Any) -> list[Move]:
    try:
        with files.open_read(journal) as stream:
            return _moves(journal, stream)
    except ExternalError:
        # A journal that was removed meanwhile belongs to a job that is committed.
        if files.status(journal) is None:
            return []
        raise


def _moves(journal: str, stream: Any) -> list[Move]:
    """The files that a journal names. ExternalError SS5018 for a journal that no sink of ours has written: ours are complete
    on the disk before they get their name, so a faulty one may name any file."""
    try:
        moves = _decode(stream.read())
        strange = next((move for move in moves if not _is_of_a_sink(move)), None)
        problem = f'it names the files "{strange.hidden}" and "{strange.final}"' if strange else ""
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        problem = str(error)
    except OSError as error:
        raise file_error("read", journal, error) from error
    if problem:
        raise ExternalError(
            "SS5018",
            f'could not use the journal "{journal}" of a commit that broke off: {problem}',
            hint="look into the file: remove it when every file of the table belongs there",
        )
    return moves


def _is_of_a_sink(move: Move) -> bool:
    """Whether both paths have the form that a sink writes, so that they name only its own files. ValueError for text that
    is no path."""
    os.fsencode(move.hidden + move.final)
    hidden = _HIDDEN.fullmatch(move.hidden)
    directories, _, name = move.final.rpartition("/")
    return (
        hidden is not None
        and name == hidden.group(2)
        and _PARTITIONS.fullmatch(directories and directories + "/") is not None
    )


def _write(path: str, moves: list[Move], files: Any) -> None:
    stream = files.open_write(path)
    try:
        with stream:
            stream.write(msgspec.json.encode(moves))
            stream.flush()
            files.sync(stream)
    except OSError as error:
        raise file_error("write", path, error) from error


def _relative(path: str, committable: dict[str, Any]) -> Move:
    return Move(os.path.relpath(committable["hidden"], path), os.path.relpath(committable["final"], path))


def _is_anywhere(committable: dict[str, Any], files: Any) -> bool:
    return any(files.status(committable[name]) is not None for name in ("hidden", "final"))
