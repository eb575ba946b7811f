"""The place of a new writer's files among the files of changes, which are read in the order of their names."""

from __future__ import annotations

import os
import re

from sqlstream.runtime.host.file_systems import escape_pattern
from sqlstream.runtime.host.files import list_if_there
from sqlstream.spi.files import Files

ORDER_DIGITS = 12
_ORDER_MAX = (1 << 4 * ORDER_DIGITS) - 1
_FILE = re.compile(r"part-([0-9a-f]{12})[0-9a-f]{8}-(?:joined-)?\d+-\d{8}[.-]")
"""`joined-` stands before the subtask or at the end of the name."""

_STAGING = re.compile(r"\.staging-.+-([0-9a-f]{12})[0-9a-f]{8}")


def is_change_file(name: str) -> bool:
    """Whether a file of a sink is one of those that are read in order."""
    return _FILE.match(name) is not None


def order_behind(path: str, now_ms: int, files: Files) -> str:
    """12 hexadecimal digits that begin the names of a new writer's files, so that they are read behind those that are there.
    Those are the files in the table's directory and the staged ones, of an earlier attempt, a claimed job or another one.

    It is the time, unless files there have a later one: clocks differ between machines, and are set back. What an earlier
    attempt may still have committed is staged before a later one is deployed. One look at the whole directory."""
    # Staged files first: one that a commit moves meanwhile is found at its final name.
    pattern = os.path.join(escape_pattern(path), ".staging-*")
    names = [os.path.basename(directory) for directory in files.match_glob(pattern)]
    found = [match.group(1) for name in names if (match := _STAGING.fullmatch(name))]
    names = [os.path.basename(status.path) for status in list_if_there(path, files)]
    found += [match.group(1) for name in names if (match := _FILE.match(name))]
    behind = 1 + int(max(found), 16) if found else 0
    return f"{min(max(now_ms, behind, 0), _ORDER_MAX):012x}"
