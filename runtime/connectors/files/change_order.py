"""The place of a new writer's files among the files of changes, which are read in the order of their names."""

from __future__ import annotations

import glob
import os
import re

from sqlstream.spi.files import Files

ORDER_DIGITS = 12
_ORDER_MAX = (1 << 4 * ORDER_DIGITS) - 1
_FILE = re.compile(r"part-([0-9a-f]{12})[0-9a-f]{8}-(?:joined-)?\d+-\d{8}[.-]")
"""Joined files of earlier builds say so before their subtask."""

_STAGING = re.compile(r"\.staging-.+-([0-9a-f]{12})[0-9a-f]{8}")


def is_change_file(name: str) -> bool:
    """Whether a file of a sink is one of those that are read in order."""
    return _FILE.match(name) is not None


def order_behind(path: str, now_ms: int, files: Files) -> str:
    """12 hexadecimal digits, by which files of a writer that begins now are read behind those that are in the table's directory,
    and behind those that an earlier writer has staged, whoever wrote them: an earlier attempt, a claimed job, another one.

    It is the time, unless files there have a later one: clocks differ between machines, and are set back. What an earlier
    attempt may still have committed is staged before a later one is deployed. One look at the whole directory."""
    # Staged files first: one that a commit moves meanwhile is found at its final name.
    pattern = os.path.join(glob.escape(path), ".staging-*")
    names = [os.path.basename(directory) for directory in files.match_glob(pattern)]
    found = [match.group(1) for name in names if (match := _STAGING.fullmatch(name))]
    if files.status(path) is not None:
        names = [os.path.basename(status.path) for status in files.list_files(path)]
        found += [match.group(1) for name in names if (match := _FILE.match(name))]
    behind = 1 + int(max(found), 16) if found else 0
    return f"{min(max(now_ms, behind, 0), _ORDER_MAX):012x}"
