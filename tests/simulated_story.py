"""How a simulation tells what its JobManager does."""

from __future__ import annotations

from sqlstream.runtime.jobmanager.events import (
    AbortSinks,
    CommitSinks,
    DiscardCheckpoint,
    GiveBackSplits,
    JobFinished,
    JobManagerInstruction,
    Noted,
    ReleaseTaskManager,
    RemoveAborted,
    RemoveCheckpoints,
    RemoveJob,
    RequestTaskManagers,
    RescaleEnded,
    SinkCommit,
    StartEnumerator,
    StopEnumerators,
    StoreCheckpoint,
    StoreJob,
)
from sqlstream.spi.committable import LAST_CHECKPOINT_ID


def told(instruction: JobManagerInstruction) -> str:
    """The instruction as a sentence about who is concerned."""
    match instruction:
        case StoreJob(job):
            widths = [vertex.parallelism for vertex in job.vertices]
            return f"{job.job_id} is to be kept, with the parallelism {widths}"
        case RescaleEnded(job_id, parallelism, error):
            return f"{job_id} is rescaled to {parallelism}" if error is None else f"{job_id}: {error.message}"
        case Noted(text, job_id):
            return f"{job_id}: {text}" if job_id else text
        case RemoveJob(job_id):
            return f"{job_id} has ended, and is to be kept no longer"
        case JobFinished(job_id, status, error):
            return f"{job_id} is {status.value}" + (f": {error.code} {error.message}" if error else "")
        case CommitSinks(job_id, checkpoint_id, commits):
            return f"commit {checkpoint(checkpoint_id)} of {job_id}: {_files(commits)}"
        case AbortSinks(job_id, commits):
            return f"remove what {job_id} has not committed: {_files(commits)}"
        case StoreCheckpoint(job_id, directory, manifest):
            return f"store {manifest.kind.value.lower()} {manifest.checkpoint_id} of {job_id} in {directory}"
        case DiscardCheckpoint(job_id, _, manifest):
            return f"remove checkpoint {manifest.checkpoint_id} of {job_id}, which is subsumed"
        case RemoveAborted(job_id, _, checkpoint_id):
            return f"remove what was written for checkpoint {checkpoint_id} of {job_id}, which is aborted"
        case RemoveCheckpoints(job_id):
            return f"remove all checkpoints of {job_id}"
        case StartEnumerator(job_id):
            return f"look for the splits of {job_id}"
        case StopEnumerators(job_id):
            return f"look no more for splits of {job_id}"
        case GiveBackSplits(job_id, _, positions):
            return f"{len(positions)} splits of {job_id} could not be read"
        case RequestTaskManagers(resource_ids):
            return f"start {', '.join(resource_ids)}"
        case ReleaseTaskManager(resource_id, is_lost):
            return f"end {resource_id}, {'which is lost' if is_lost else 'which is idle'}"
    return type(instruction).__name__


def checkpoint(checkpoint_id: int) -> str:
    return "the end" if checkpoint_id == LAST_CHECKPOINT_ID else f"checkpoint {checkpoint_id}"


def _files(commits: tuple[SinkCommit, ...]) -> str:
    names = [str(c.content["file"]) for commit in commits for c in commit.committables]
    return ", ".join(names) or "no file"
