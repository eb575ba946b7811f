"""What the settings of a job say of its checkpoints."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream import config as options
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.job_state import JobStatus
from sqlstream.options.checkpointing_options import INTERVAL_MS_MIN
from sqlstream.specs import BatchQuerySpec


class Retention(enum.Enum):
    """Which ended jobs leave their checkpoints (Flink: ExternalizedCheckpointRetention)."""

    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"

    def keeps(self, end: JobStatus) -> bool:
        """Whether a job that ends so leaves its checkpoints. A suspended one goes on under another JobManager."""
        match end:
            case JobStatus.SUSPENDED:
                return True
            case JobStatus.FAILED | JobStatus.FAILING:
                return self is not Retention.NO_EXTERNALIZED_CHECKPOINTS
            case JobStatus.CANCELED | JobStatus.CANCELLING:
                return self is Retention.RETAIN_ON_CANCELLATION
        return False


@dataclass(frozen=True)
class CheckpointSettings:
    """`interval_ms` is 0 for a job that takes no checkpoints by itself. `directory` is that of this job's checkpoints alone;
    paths of state files are below it. It is empty where no place for checkpoints is known. Jobs of batch engines, and those that
    statements start while they are planned, have nothing to save, and those that replace rows of their tables commit once:
    `is_possible` is false. `epoch` is that of the server that has recovered the job, 0 where none takes the place of another."""

    interval_ms: int = 0
    min_pause_ms: int = 0
    timeout_ms: int = 600_000
    concurrent_max: int = 1
    tolerable_failures: int = 0
    retained_max: int = 1
    retention: Retention = Retention.NO_EXTERNALIZED_CHECKPOINTS
    directory: str = ""
    savepoint_directory: str = ""
    is_possible: bool = True
    epoch: int = 0

    @property
    def is_enabled(self) -> bool:
        """Whether the job takes checkpoints by itself."""
        return self.interval_ms > 0


def checkpoint_settings(job: JobGraph, default_directory: str) -> CheckpointSettings:
    """UserError for values that do not fit. Jobs of batch engines take no checkpoints, whatever their settings say."""
    settings = _read(job.config, job.job_id, default_directory)
    has_batch = any(isinstance(v.operators[0].spec, BatchQuerySpec) for v in job.vertices)
    is_possible = not (has_batch or job.is_for_planning or job.replaces_rows)
    return settings if is_possible else CheckpointSettings(is_possible=False)


def _read(config: Mapping[str, str], job_id: str, default_directory: str) -> CheckpointSettings:
    def value(key: str) -> Any:
        return options.get(config, key)

    # Of each of these there is one choice.
    value("execution.checkpointing.checkpoints-after-tasks-finish")
    value("execution.checkpointing.storage")
    interval_ms: int = value("execution.checkpointing.interval")
    if 0 < interval_ms < INTERVAL_MS_MIN:
        raise UserError(
            "SS4002",
            f'option "execution.checkpointing.interval" must be at least {INTERVAL_MS_MIN} ms, not {interval_ms} ms',
            hint="set a longer interval, or 0 for no checkpoints",
        )
    root: str = value("execution.checkpointing.dir") or default_directory
    if interval_ms and not root:
        raise UserError(
            "SS4005",
            "this cluster has no directory of its own for checkpoints",
            hint="set 'execution.checkpointing.dir' to one that all processes of the cluster reach",
        )
    concurrent_max: int = value("execution.checkpointing.max-concurrent-checkpoints")
    if concurrent_max > 1 and value("execution.checkpointing.unaligned.enabled"):
        raise UserError(
            "SS6270",
            f"unaligned checkpoints come one at a time, and {concurrent_max} are allowed at once",
            hint="set 'execution.checkpointing.max-concurrent-checkpoints' to 1, or "
            "'execution.checkpointing.unaligned.enabled' to false",
        )
    if value("execution.checkpointing.mode") == "AT_LEAST_ONCE" and value(
        "execution.checkpointing.unaligned.enabled"
    ):
        raise UserError(
            "SS6270",
            "unaligned checkpoints count each row exactly once, and the mode is AT_LEAST_ONCE",
            hint="set 'execution.checkpointing.mode' to 'EXACTLY_ONCE', or "
            "'execution.checkpointing.unaligned.enabled' to false: no task waits for barriers in either",
        )
    min_pause_ms: int = value("execution.checkpointing.min-pause")
    return CheckpointSettings(
        interval_ms,
        min_pause_ms,
        value("execution.checkpointing.timeout"),
        # A pause after each leaves no place for another beside it, as in Flink.
        1 if min_pause_ms else concurrent_max,
        value("execution.checkpointing.tolerable-failed-checkpoints"),
        value("execution.checkpointing.num-retained"),
        Retention(value("execution.checkpointing.externalized-checkpoint-retention")),
        f"{root.rstrip('/')}/{job_id}" if root else "",
        value("execution.checkpointing.savepoint-dir"),
    )
