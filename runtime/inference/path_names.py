"""Paths of files that can be read by their path, for completion."""

from __future__ import annotations

import os
from typing import Any

from sqlstream.runtime.inference.file_inference import format_of_name

_NAMES_MAX = 2000
"""Bound on the names of a directory that are looked at: a user waits."""


def paths_after(prefix: str, files: Any) -> list[tuple[str, str]]:
    """The directories, with a slash behind them, and the files of a known format whose paths begin with `prefix`; each with its
    format or "directory". UserError and ExternalError for a directory that may not or cannot be listed."""
    directory, begun = os.path.split(prefix)
    found = []
    for name, is_directory in files.list_names(directory or ".", _NAMES_MAX):
        form = "directory" if is_directory else format_of_name(name)
        if form and name.startswith(begun):
            found.append((os.path.join(directory, name) + ("/" if is_directory else ""), form))
    return found
