"""Whether and where tasks keep local copies of their state."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream import config as options
from sqlstream.state_options import directories_of

LOCAL_BACKUP = "execution.checkpointing.local-backup.enabled"
FROM_LOCAL = "execution.state-recovery.from-local"


def writes_local_copies(config: Mapping[str, str]) -> bool:
    """Whether tasks with these settings keep copies of their state on the local disk."""
    writes: bool = options.get(config, LOCAL_BACKUP)
    return writes if LOCAL_BACKUP in config else reads_local_copies(config)


def reads_local_copies(config: Mapping[str, str]) -> bool:
    """Whether attempts with these settings go on from copies on the local disk."""
    reads: bool = options.get(config, FROM_LOCAL)
    return reads


def local_copy_directories(config: Mapping[str, str]) -> tuple[str, ...]:
    """Where TaskManagers of a cluster with these settings keep the copies; empty: where the system has temporary files."""
    directories: str = options.get(config, "execution.checkpointing.local-backup.dirs")
    if directories:
        return directories_of(directories)
    working: str = options.get(config, "process.taskmanager.working-dir") or options.get(
        config, "process.working-dir"
    )
    if working:
        return (f"{working.rstrip('/')}/localState",)
    return directories_of(options.get(config, "io.tmp.dirs"))
