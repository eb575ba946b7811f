"""Directories in which processes of this user keep what the next ones need: compiled kernels, archives of Java's classes."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path


def user_directories(name: str) -> tuple[Path, Path]:
    """Where things of that name are kept for this user, best first. Creates nothing.

    These are `$XDG_CACHE_HOME/sqlstream/NAME` (by default `~/.cache/sqlstream/NAME`) and a directory in the temporary folder."""
    cache_home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return (
        Path(cache_home) / "sqlstream" / name,
        Path(tempfile.gettempdir()) / f".sqlstream_{name}_{os.geteuid()}",
    )


def is_safe(path: Path) -> bool:
    """Whether nobody but this user and root can have put code there."""
    try:
        found, named = path.stat(), path.lstat()
    except OSError:
        return False
    ours = (0, os.geteuid())
    # In the temporary folder anybody can make a link to a directory of ours.
    is_ours = found.st_uid in ours and named.st_uid in ours
    return is_ours and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def writable_directory(directories: Sequence[Path], mode: int) -> Path | None:
    """The first that can be written, which is made with that mode if it is missing; None when there is none."""
    for directory in directories:
        with contextlib.suppress(OSError):
            if not directory.exists():
                directory.mkdir(parents=True, exist_ok=True)
                directory.chmod(mode)
            if is_safe(directory) and os.access(directory, os.W_OK | os.X_OK):
                return directory
    return None
