"""What Flink answers about the checkpoints of a job that takes none."""

from __future__ import annotations

from typing import Any

_LONG_MAX = 2**63 - 1
_FIGURES = (
    *("checkpointed_size", "state_size", "end_to_end_duration"),
    *("alignment_buffered", "processed_data", "persisted_data"),
)


def checkpoint_statistics() -> dict[str, Any]:
    """No checkpoint in any state. Quantiles of nothing are `NaN`, which Flink sends as a text."""
    quantiles = dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), "NaN")
    empty = {"min": 0, "max": 0, "avg": 0, **quantiles}
    return {
        "counts": {"restored": 0, "total": 0, "in_progress": 0, "completed": 0, "failed": 0},
        "summary": dict.fromkeys(_FIGURES, empty),
        "latest": {"completed": None, "savepoint": None, "failed": None, "restored": None},
        "history": [],
    }


def checkpoint_config() -> dict[str, Any]:
    """The longest interval that there is means: no periodic checkpoints."""
    return {
        "mode": "exactly_once",
        "interval": _LONG_MAX,
        "timeout": 600_000,
        "min_pause": 0,
        "max_concurrent": 1,
        "externalization": {"enabled": False, "delete_on_cancellation": True},
        "state_backend": "HashMapStateBackend",
        "checkpoint_storage": "JobManagerCheckpointStorage",
        "unaligned_checkpoints": False,
        "tolerable_failed_checkpoints": 0,
        "aligned_checkpoint_timeout": 0,
        "checkpoints_after_tasks_finish": False,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": _LONG_MAX,
        "changelog_storage": "memory",
    }
