"""Which files the commit of a checkpoint adds to a table, and which of the table's it removes."""

from __future__ import annotations

import hashlib
import logging
import os
from typing import TYPE_CHECKING

from sqlstream.errors import ExternalError, SqlStreamError
from sqlstream.runtime.connectors.files.file_options import FileOptions, FileSinkOptions
from sqlstream.runtime.connectors.files.file_paths import (
    PathPattern,
    find_files,
    partition_values,
    table_path,
)
from sqlstream.runtime.connectors.files.partition_marks import PartitionMarks
from sqlstream.runtime.connectors.files.table_log import Move, TableLog
from sqlstream.schema import Schema
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.changelog_options import COMPACTED, ChangelogOptions, with_op_column
from sqlstream.spi.committable import LAST_CHECKPOINT_ID, Committable, in_order
from sqlstream.spi.files import Files, FileStatus

if TYPE_CHECKING:
    from sqlstream.runtime.connectors.files.compaction import JoinedFile

logger = logging.getLogger(__name__)

CLEARED = "cleared"
"""In a committable, the directories of partitions that are replaced although no file of theirs may have come."""


def merges(spec: SinkSpec) -> bool:
    """Whether the commit merges changes by key: those of INSERT into the files, those of INSERT OVERWRITE with each other."""
    is_merging = not isinstance(spec, ChangingSinkSpec) or spec.action is SinkAction.OVERWRITE
    return is_merging and ChangelogOptions.of(spec.options).mode == COMPACTED


class FileCommits:
    """The commits of a table. No state but the table's log.

    | the files that come are     | when                                                   |
    | --------------------------- | ------------------------------------------------------ |
    | those that writers staged   | otherwise                                              |
    | several joined into one     | `auto-compaction`                                      |
    | the partitions, merged      | `changelog.mode` = `compacted`                         |

    | the files that go are       | when                                                   |
    | --------------------------- | ------------------------------------------------------ |
    | none                        | INSERT                                                 |
    | those that were merged      | INSERT into a compacted table                          |
    | those of the partitions     | INSERT OVERWRITE, UPDATE, DELETE, TRUNCATE             |
    """

    def __init__(self, spec: SinkSpec, files: Files) -> None:
        self._spec = spec
        self._files = files
        self._path = table_path(spec.options["path"])
        self._options = FileSinkOptions.of(spec.options)
        self._log = TableLog(self._path, files)
        self._merges = merges(spec)
        self._replaces = self._merges or isinstance(spec, ChangingSinkSpec)

    def commit(self, checkpoint_id: int, committables: list[Committable], now_ms: int) -> None:
        """Carry out the commit, then mark partitions. ExternalError SS5075 when others have changed the table since an UPDATE or
        DELETE has begun to read it."""
        ordered = in_order(committables)
        is_last = checkpoint_id == LAST_CHECKPOINT_ID
        if ordered and (isinstance(self._spec, ChangingSinkSpec) or any(map(_files_of, ordered))):
            is_recorded = self._replaces or not is_last
            self._log.commit(ordered[0], lambda: self._moves(ordered), is_recorded=is_recorded)
            for staged in self._spent(ordered):
                self._files.remove(os.path.join(self._path, staged))
        if self._options.marks_partitions:
            self.marks().update(checkpoint_id, committables, now_ms)
        if is_last:
            for job_id in {committable.job_id for committable in ordered}:
                self._log.remove_staging(job_id)
            self._settle()

    def _settle(self) -> None:
        """Once more after the writers: a claim that was being removed as they began could not be told from a live one."""
        try:
            self._log.settle()
        except SqlStreamError as error:
            # The commit is complete. The next writer settles, or says why it cannot.
            logger.warning('could not complete what others left in "%s": %s', self._path, error)

    def abort(self, job_id: str, committables: list[Committable]) -> None:
        """Take the commits of a job back, whatever attempts the committables are from. One that has replaced files is completed:
        what the old ones held may be gone."""
        # Such a commit has a record, and until then a manifest that names all that it has moved.
        undone = [] if self._replaces else in_order(committables)
        written = self._staged_moves(undone) + [joined.move for joined in self._joined(undone)]
        self._log.abort(job_id, written, undone)

    def marks(self) -> PartitionMarks:
        keys = tuple(self._spec.schema.names[key] for key in self._spec.partition_keys)
        return PartitionMarks(self._path, self._options, keys, self._files)

    # --- the files that come ------------------------------------------------------------------------------------------

    def _moves(self, ordered: list[Committable]) -> list[Move]:
        """The same for every repetition, as far as nobody else has changed the table. Files that are written anew are staged."""
        if self._merges:
            return self._merged(ordered)
        if self._options.is_compacted:
            files = self._joined(ordered)
            self._join(files)
            moves = [joined.move for joined in files]
        else:
            moves = self._staged_moves(ordered)
        if isinstance(self._spec, ChangingSinkSpec):
            directories = [os.path.dirname(move.final) for move in moves]
            moves += _removals(overwritten_files(self._spec, ordered, self._files, directories))
        return moves

    def _spent(self, ordered: list[Committable]) -> list[str]:
        """The staged files, relative to the table's path, whose rows are in others once the commit is complete."""
        if self._merges:
            return [move.hidden for move in self._staged_moves(ordered)]
        return [part for joined in self._joined(ordered) for part in joined.parts]

    def _staged_moves(self, ordered: list[Committable]) -> list[Move]:
        """The files of the committables, those that are written first first."""
        return [
            Move(os.path.relpath(file["hidden"], self._path), os.path.relpath(file["final"], self._path))
            for committable in ordered
            for file in _files_of(committable)
        ]

    def _joined(self, ordered: list[Committable]) -> list[JoinedFile]:
        if not self._options.is_compacted:
            return []
        from sqlstream.runtime.connectors.files.compaction import joined_files

        return joined_files(self._path, ordered, self._options.compacted_bytes or self._options.file_bytes)

    def _join(self, joined_files: list[JoinedFile]) -> None:
        """Each joined file is written beside its parts before any is seen; the parts go when all are."""
        from sqlstream.runtime.connectors.files.compaction import FileJoiner

        spec, files = self._spec, self._files
        schema, op_column = _schema_of_files(spec), ChangelogOptions.of(spec.options).op_column
        schema = schema if op_column is None else with_op_column(schema, op_column)
        joiner = FileJoiner(schema, spec.options, files)
        for joined in joined_files:
            hidden, final = (os.path.join(self._path, p) for p in (joined.move.hidden, joined.move.final))
            parts = [os.path.join(self._path, part) for part in joined.parts]
            is_made = files.status(hidden) is not None or files.status(final) is not None
            if parts and not is_made and all(files.status(part) is not None for part in parts):
                joiner.join(parts, hidden)

    def _merged(self, ordered: list[Committable]) -> list[Move]:
        """Each partition that changes, written anew. A repetition merges the same changes again."""
        from sqlstream.runtime.connectors.files.compaction import Merger

        spec, changes = self._spec, dict[str, list[str]]()
        for move in self._staged_moves(ordered):
            changes.setdefault(os.path.dirname(move.final), []).append(os.path.join(self._path, move.hidden))
        present: dict[str, list[str]] = {}
        if isinstance(spec, ChangingSinkSpec):
            old = overwritten_files(spec, ordered, self._files, list(changes))
        else:
            for file in _table_files(spec, self._files, is_whole=True):
                name = os.path.relpath(file.path, self._path)
                if (directory := os.path.dirname(name)) in changes:
                    present.setdefault(directory, []).append(file.path)
            old = [os.path.relpath(path, self._path) for paths in present.values() for path in paths]
        merger = Merger(spec, _schema_of_files(spec), self._path, ordered[0], self._files)
        merged = [
            merger.merge(number, directory, paths, present.get(directory, []))
            for number, (directory, paths) in enumerate(sorted(changes.items()))
        ]
        return [*(move for move in merged if move is not None), *_removals(old)]


def _files_of(committable: Committable) -> list[dict[str, str]]:
    files: list[dict[str, str]] = committable.content["files"]
    return files


def _schema_of_files(spec: SinkSpec) -> Schema:
    return spec.schema.select(tuple(i for i in range(len(spec.schema)) if i not in spec.partition_keys))


# The files that go.


def overwritten_files(
    spec: ChangingSinkSpec, committables: list[Committable], files: Files, directories: list[str]
) -> list[str]:
    """The files, relative to the table's path, that go when rows have come for these directories. ExternalError SS5075;
    UserError SS5017 for what is no regular file."""
    path = table_path(spec.options["path"])
    present = _table_files(spec, files)
    if spec.version and _digest(path, present) != spec.version:
        raise ExternalError(
            "SS5075",
            f'{spec.action.value} of table "{spec.table}" was given up: other statements have changed its files meanwhile',
            detail="nothing of it is visible",
        )
    if spec.action is SinkAction.OVERWRITE and spec.partition_keys:
        cleared = {directory for c in committables for directory in c.content[CLEARED]}
        replaced = {_partition(f"{directory}/x", spec) for directory in (*directories, *cleared)}
        present = [f for f in present if _partition(os.path.relpath(f.path, path), spec) in replaced]
    for file in present:
        if not file.size:
            # Refused when it is a pipe, socket or device: their sizes are 0.
            files.open_read(file.path).close()
    return [os.path.relpath(file.path, path) for file in present]


def version_of(spec: SinkSpec, files: Files) -> str:
    """A digest of the names, sizes and times of the table's files; empty where there is no table."""
    path = table_path(spec.options["path"])
    return _digest(path, _table_files(spec, files)) if files.status(path) is not None else ""


def _table_files(spec: SinkSpec, files: Files, *, is_whole: bool = False) -> list[FileStatus]:
    """Those that the table's pattern names, or all of the directory."""
    path = table_path(spec.options["path"])
    if files.status(path) is None:
        return []
    found = find_files(path, files, may_be_empty=True)
    pattern = "" if is_whole else FileOptions.of(spec.options).path_pattern or ""
    return PathPattern(pattern).among(found)


def _removals(names: list[str]) -> list[Move]:
    return [Move("", name) for name in names]


def _digest(path: str, found: list[FileStatus]) -> str:
    facts = [f"{os.path.relpath(file.path, path)} {file.size} {file.modified_ms}" for file in found]
    return hashlib.sha256("\n".join(facts).encode(errors="surrogateescape")).hexdigest()


def _partition(name: str, spec: SinkSpec) -> tuple[str, ...]:
    """The values that the directories of a file stand for, however they are written."""
    values = partition_values(os.path.join("/", name), "/")
    return tuple(values.get(spec.schema.names[key], "") for key in spec.partition_keys)
