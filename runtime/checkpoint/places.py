"""Where the settings of a session or job say that checkpoints and savepoints lie."""

from __future__ import annotations

import os
from collections.abc import Mapping

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_paths import table_path
from sqlstream.runtime.host.file_systems import Change, change_of, is_in_store
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.rooted_files import RootedFiles
from sqlstream.spi.files import refuse_home

PLACE_KEYS = (
    "execution.checkpointing.dir",
    "execution.checkpointing.savepoint-dir",
    "execution.state-recovery.path",
)


def with_absolute_places(config: Mapping[str, str]) -> dict[str, str]:
    """The settings with relative paths below the present directory of this process: other processes run in theirs. UserError
    SS4002 for what is no path."""
    found = dict(config)
    for key in PLACE_KEYS:
        if found.get(key):
            found[key] = absolute_place(found[key], f'option "{key}"')
    return found


def absolute_place(path: str, what: str) -> str:
    """`s3://bucket/key` or the like, or an absolute path of this machine. `what` names it in the error. UserError SS5085 for a
    file system that is only read."""
    refuse_home(path, what)
    try:
        place = table_path(path)
    except UserError as error:
        raise UserError(
            "SS4002",
            f'{what} is no directory: "{path}"',
            hint="write a path of this machine, or s3://bucket/directory",
        ) from error
    if change_of(place) is Change.NONE:
        raise UserError(
            "SS5085",
            f'{what} cannot be at "{place}": nothing can be written there',
            hint="docs/file-systems.md lists the file systems that take checkpoints",
        )
    return place if is_in_store(place) else os.path.abspath(place)


def check_places(config: Mapping[str, str], files: LocalFiles) -> None:
    """UserError SS5030 when a directory that a user has chosen lies outside of those that the server allows."""
    for key in PLACE_KEYS:
        if config.get(key):
            check_place(config[key], files)


def check_place(path: str, files: LocalFiles) -> None:
    """The same for one path. A store is reached as other servers are."""
    if not isinstance(files, RootedFiles):
        return
    if is_in_store(path):
        files.require_database_servers()
    else:
        files.check(path)
