"""The formats of what is kept on disks: the version of each, and which releases read it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlstream import __version__


@dataclasses.dataclass(frozen=True)
class KeptFormat:
    """This release writes `version`, and reads `oldest` to `version`. `last_readers` has the last release that reads each version
    before. The number grows when something that an earlier release has written would be read wrongly, or not at all: a field with
    a default needs no other number."""

    name: str
    version: int
    oldest: int = 1
    last_readers: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def reads(self, version: int) -> bool:
        return self.oldest <= version <= self.version

    def refusal(self, version: int, release: str = "") -> tuple[str, str]:
        """What is wrong with a version that this release does not read, and which release does. `release` is what wrote it, as
        far as it says so.

        >>> KeptFormat("jobs", 2).refusal(3, "0.4.0")[1]
        'use sqlstream 0.4.0 or a later release'
        """
        by = f" by sqlstream {release}" if release else ""
        reads = f"{self.oldest} to {self.version}" if self.oldest < self.version else str(self.version)
        text = f"written{by} in version {version} of the format of {self.name}; sqlstream {__version__} reads {reads}"
        if version > self.version:
            return (
                text,
                f"use sqlstream {release or 'of a later release'}{' or a later release' if release else ''}",
            )
        return (
            text,
            f"use sqlstream {self.last_readers.get(version) or release or 'of the release that wrote it'}",
        )


JOBS = KeptFormat("jobs", 2, 2, {1: "of a build before 0.1.0"})
CATALOGS = KeptFormat("catalogs", 1)
CHECKPOINTS = KeptFormat("checkpoints", 1)
TOKENS = KeptFormat("tokens", 1)
CLUSTER = KeptFormat("the cluster's authority", 1)
LEADERS = KeptFormat("notes of leaders", 1)
SESSIONS = KeptFormat("sessions", 1)
"""A release that does not read them ends them."""
TABLE_LOGS = KeptFormat("records in tables of files", 1)

OF_A_PLACE = (JOBS, CATALOGS, CHECKPOINTS, TOKENS, CLUSTER, LEADERS)
"""What the data directory of a server holds, and the place that several servers share."""
