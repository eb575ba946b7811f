"""The error of a checkpoint's file that is not as it was written."""

from __future__ import annotations

from sqlstream.errors import ExternalError, FailureReason


def corrupt_checkpoint(path: str, problem: str) -> ExternalError:
    """SS6210, whose reason lets a restart go on from an older checkpoint."""
    return ExternalError(
        "SS6210",
        f'could not use the file "{path}" of a checkpoint: {problem}',
        reason=FailureReason.CHECKPOINT_CORRUPT,
        hint="start from another checkpoint or savepoint, and look after the disk",
    )
