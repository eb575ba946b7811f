"""A session with a catalog and a cluster of its own, for commands that run in one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from sqlstream.client.clusters.local_cluster import LocalClusterClient
from sqlstream.client.sessions.session import Session

if TYPE_CHECKING:
    from sqlstream.runtime.net.results import PrintLines


@contextlib.contextmanager
def local_session(
    config: Mapping[str, str] | None = None,
    task_managers: int | None = None,
    print_lines: PrintLines | None = None,
) -> Iterator[Session]:
    """A session whose cluster ends with it; the arguments are those of LocalClusterClient. UserError SS4001 or SS4002 for a
    wrong setting."""
    cluster = LocalClusterClient(config, task_managers, print_lines)
    try:
        yield Session(cluster, config)
    finally:
        cluster.close()
