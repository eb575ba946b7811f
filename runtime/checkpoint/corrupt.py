"""The errors of a checkpoint's file that is not as it was written, or was written elsewhere, and of a whole directory of
checkpoints that is away."""

from __future__ import annotations

from sqlstream.errors import ExternalError, FailureReason, Retry


def corrupt_checkpoint(path: str, problem: str) -> ExternalError:
    """SS6210, whose reason lets a restart go on from an older checkpoint."""
    return ExternalError(
        "SS6210",
        f'could not use the file "{path}" of a checkpoint: {problem}',
        reason=FailureReason.CHECKPOINT_CORRUPT,
        hint="start from another checkpoint or savepoint, and look after the disk",
    )


def checkpoints_away(directory: str) -> ExternalError:
    """SS5001: a store that may answer later. A restart goes on trying, as its strategy says, and counts no file as damaged."""
    return ExternalError(
        "SS5001",
        f'could not read checkpoints in "{directory}": no complete one is there',
        retry=Retry.BACKOFF,
        hint="check that its volume is mounted, or bring the directory back: the job goes on from there",
    )


def files_not_shared(path: str) -> ExternalError:
    """SS5001: a task has written the file, and whoever completes the checkpoint does not find it."""
    return ExternalError(
        "SS5001",
        f'could not find "{path}", which a task has just written',
        retry=Retry.BACKOFF,
        hint="name a directory in 'execution.checkpointing.dir' that all machines of the cluster share",
    )
