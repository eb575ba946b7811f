"""Java's date patterns as DuckDB's strftime formats and as regular expressions."""

from __future__ import annotations

import re

from planner.lower.duckdb.refusals import refuse

_FORMATS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g"}


def _parts(pattern: str) -> list[tuple[bool, str]]:
    """Letters (True) and other text (False) in order."""
    parts = []
    for match in re.finditer(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", pattern):
        if match[2]:
            if match[0] not in _FORMATS:
                raise refuse(
                    f'"{match[0]}" in the date pattern "{pattern}"', hint=f"use {', '.join(_FORMATS)}"
                )
            parts.append((True, match[0]))
        else:
            parts.append((False, (match[0] if match[1] is None else match[1]).replace("''", "'")))
    return parts


def strftime_format(pattern: str) -> str:
    """
    >>> strftime_format("yyyy-MM-dd'T'HH:mm")
    '%Y-%m-%dT%H:%M'
    """
    return "".join(_FORMATS[t] if is_letter else t.replace("%", "%%") for is_letter, t in _parts(pattern))


def pattern_regex(pattern: str) -> str:
    """What text must look like: DuckDB's own reading is more lenient than Java's.

    >>> pattern_regex("HH:mm")
    '[0-9]{2}:[0-9]{2}'
    """
    return "".join(
        f"[0-9]{{{len(t)}}}" if is_letter else re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", t)
        for is_letter, t in _parts(pattern)
    )
