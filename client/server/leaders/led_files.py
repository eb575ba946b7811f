"""Files that only the server which leads changes: kept in the store that servers share, and read from a copy of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from itertools import accumulate

from sqlstream.client.server.kept_file import KeptFiles, make_private_directory, write_file
from sqlstream.client.server.leaders.leadership import Leadership

_JOBS, _ENDED, _SESSIONS = "jobs", "ended", "sessions"


class LedFiles(KeptFiles):
    """Files below `directory`, which this server makes anew when it begins to lead. A change is there once the store has it, and
    then in the copy, whose loss is none. ExternalError SS6077 when another server leads. State: that of the leadership."""

    def __init__(self, directory: str, leadership: Leadership) -> None:
        self._directory, self._leadership = directory, leadership
        if os.path.lexists(directory):
            shutil.rmtree(directory)
        make_private_directory(directory)
        put_files(leadership.contents(), directory)

    def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
        self.keep(changes)
        super().change(changes, is_durable=False)

    def rename(self, path: str, name: str) -> None:
        with open(path, "rb") as stream:
            self.keep({name: stream.read(), path: None})
        super().rename(path, name)

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        """Give the store what is about to be changed in the copy."""
        groups: dict[str, dict[str, bytes | None]] = {}
        for path, data in changes.items():
            name = os.path.relpath(path, self._directory)
            groups.setdefault(group_of(name), {})[name] = data
        for group, of_group in groups.items():
            self._leadership.change(group, of_group)

    def check_owner(self) -> None:
        self._leadership.confirm()


def put_files(groups: Mapping[str, Mapping[str, bytes]], directory: str) -> None:
    """Write what a store has below a directory."""
    for values in groups.values():
        for name, data in values.items():
            path = os.path.join(directory, _checked(name))
            # Of the directories that it makes, makedirs has the last alone private.
            *above, _ = accumulate(name.split("/"), os.path.join, initial=directory)
            for each in above:
                os.makedirs(each, 0o700, exist_ok=True)
            write_file(path, data, is_durable=False)


def group_of(name: str) -> str:
    """What changes together is a group: a job, the jobs that have ended, and each catalog. Of sessions there may be many, so that
    some are in one.

    >>> group_of("jobs/a1.saved"), group_of("jobs/ended/a1.job"), group_of("catalog/default_catalog/catalog.json")
    ('job-a1', 'ended', 'catalog-default_catalog')
    >>> group_of("sessions/4f0c.session")
    'sessions-4f'
    """
    first, second, *rest = name.split("/")
    if first == _SESSIONS:
        return f"{first}-{second[:2]}"
    if first != _JOBS:
        return f"{first}-{second}"
    return _ENDED if rest else f"job-{second.partition('.')[0]}"


def _checked(name: str) -> str:
    """The store is trusted with jobs, but not with other files of this server."""
    if os.path.isabs(name) or ".." in name.split("/"):
        raise ValueError(f'"{name}" is no file of a leader')
    return name
