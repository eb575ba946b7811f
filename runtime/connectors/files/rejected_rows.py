"""Where the undecodable rows of files are kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sqlstream.errors import UserError
from sqlstream.runtime.connectors.files.file_options import FileOptions
from sqlstream.runtime.connectors.files.file_paths import local_path, rejected_rows_path, table_path
from sqlstream.runtime.connectors.rejected_rows import Origin, rejected_rows_name
from sqlstream.runtime.host.file_systems import is_in_store

if TYPE_CHECKING:
    from sqlstream.specs import SourceSpec


def rejected_rows_directory(spec: SourceSpec) -> str | None:
    """Where the undecodable rows of a table are kept; None when they are counted and the first ones shown."""
    options = FileOptions.of(spec.options)
    return None if options.reads_rejected_rows else kept_directory(options)


def kept_directory(options: FileOptions) -> str | None:
    """Where a table with these options keeps rows, if it does."""
    if is_in_store(options.path):
        return None
    given = options.rejected_rows_path
    if given is None:
        return rejected_rows_path(local_path(options.path))
    return local_path(given) if given else None


def read_path(options: FileOptions) -> str:
    """The path of the files that are read: those of the table, or those that keep its rejected rows. UserError SS4002 when it
    keeps none."""
    if not options.reads_rejected_rows:
        return table_path(options.path)
    directory = kept_directory(options)
    if directory is None:
        raise UserError(
            "SS4002",
            f'the table of "{options.path}" keeps no rejected rows',
            hint="name a directory of this machine in 'source.rejected-rows.path'",
        )
    return os.path.join(directory, rejected_rows_name("*"))


def origin_of(path: str) -> Origin:
    return Origin({"file": path}, "line", path)
