"""The parameters of paths and queries of the JobManager's REST."""

from __future__ import annotations

import re

from sqlstream.client.http_api.errors import BAD_REQUEST, RestError

_ID = re.compile(r"[0-9a-fA-F]{32}")


def checked_id(name: str, value: str) -> str:
    """A job's or vertex's id from a path, in lower case; RestError 400 for what cannot be one."""
    if _ID.fullmatch(value) is None:
        raise _bad_path(name, value)
    return value.lower()


def checked_number(name: str, value: str) -> int:
    """A subtask's index or an attempt from a path."""
    if not (value.isascii() and value.isdecimal() and len(value) <= 9):
        raise _bad_path(name, value)
    return int(value)


def _bad_path(name: str, value: str) -> RestError:
    return RestError(BAD_REQUEST, f'Cannot resolve path parameter ({name}) from value "{value[:100]}".')


def bad_query(name: str, value: str) -> RestError:
    return RestError(BAD_REQUEST, f'Cannot resolve query parameter ({name}) from value "{value[:100]}".')
