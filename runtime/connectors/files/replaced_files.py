"""Which files of a table an INSERT OVERWRITE, UPDATE, DELETE or TRUNCATE replaces."""

from __future__ import annotations

import hashlib
import os

from sqlstream.errors import ExternalError
from sqlstream.runtime.connectors.files.commit_journal import Move
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import find_files, partition_values, table_path
from sqlstream.runtime.connectors.files.filesystem_sink import CLEARED
from sqlstream.runtime.connectors.files.path_pattern import PathPattern
from sqlstream.runtime.connectors.files.replacing_commit import commit_replacing
from sqlstream.specs import ChangingSinkSpec, SinkSpec
from sqlstream.specs.sink import SinkAction
from sqlstream.spi.committable import Committable, in_order
from sqlstream.spi.files import Files, FileStatus


def replace_files(
    spec: ChangingSinkSpec, moves: list[Move], committables: list[Committable], files: Files
) -> None:
    """Put the files of a job in the place of those that were there. ExternalError SS5075 when others have changed the table since
    an UPDATE or DELETE has begun to read it."""
    if not committables:
        return
    path = table_path(spec.options["path"])
    directories = [os.path.dirname(move.final) for move in moves]

    def old_files() -> list[str]:
        return overwritten_files(spec, committables, files, directories)

    commit_replacing(path, in_order(committables)[0], moves, old_files, files)


def overwritten_files(
    spec: ChangingSinkSpec, committables: list[Committable], files: Files, directories: list[str]
) -> list[str]:
    """The files, relative to the table's path, that go when rows have come for these directories. ExternalError SS5075."""
    path = table_path(spec.options["path"])
    present = _table_files(spec, files)
    if spec.version and _digest(path, present) != spec.version:
        raise ExternalError(
            "SS5075",
            f'{spec.action.value} of table "{spec.table}" was given up: other statements have changed its files meanwhile',
            detail="nothing of it is visible",
            hint="run it again",
        )
    names = [os.path.relpath(file.path, path) for file in present]
    if spec.action is not SinkAction.OVERWRITE or not spec.partition_keys:
        return names
    cleared = {directory for c in committables for directory in c.content[CLEARED]}
    replaced = {_partition(f"{directory}/x", spec) for directory in (*directories, *cleared)}
    return [name for name in names if _partition(name, spec) in replaced]


def version_of(spec: SinkSpec, files: Files) -> str:
    """A digest of the names, sizes and times of the table's files; empty where there is no table."""
    path = table_path(spec.options["path"])
    return _digest(path, _table_files(spec, files)) if files.status(path) is not None else ""


def _table_files(spec: SinkSpec, files: Files) -> list[FileStatus]:
    path = table_path(spec.options["path"])
    if files.status(path) is None:
        return []
    found = find_files(path, files, may_be_empty=True)
    may_match = PathPattern(FileOptions.of(spec.options).path_pattern or "").may_match(
        [f.path for f in found]
    )
    return [file for file, is_wanted in zip(found, may_match, strict=True) if is_wanted]


def _digest(path: str, found: list[FileStatus]) -> str:
    facts = [f"{os.path.relpath(file.path, path)} {file.size} {file.modified_ms}" for file in found]
    return hashlib.sha256("\n".join(facts).encode(errors="surrogateescape")).hexdigest()


def _partition(name: str, spec: SinkSpec) -> tuple[str, ...]:
    """The values that the directories of a file stand for, however they are written."""
    values = partition_values(os.path.join("/", name), "/")
    return tuple(values.get(spec.schema.names[key], "") for key in spec.partition_keys)
