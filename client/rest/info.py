"""What the JobManager's REST says about its server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

FLINK_VERSION = "2.3.0"
"""The release of Flink whose protocol the answers follow; clients compare it with their own."""


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """`version` is the product's. `config` are the options in force, shown with secrets masked. `log_directory` holds the
    server's log files, which `/jobmanager/logs` lists; without one there are none. `task_manager_log` reads the latest
    records of a TaskManager by its resource id, and `printed` those of print tables."""

    version: str
    config: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refresh_interval_ms: int = 3000
    is_cancel_enabled: bool = True
    log_directory: Path | None = None
    task_manager_log: Callable[[str], str] = lambda resource_id: ""
    printed: Callable[[], str] = lambda: ""
    flink_version: str = FLINK_VERSION

    @property
    def revision(self) -> str:
        return f"sqlstream-{self.version}"
