"""The file `_metadata` of a checkpoint or savepoint: its manifest as JSON, with a checksum."""

from __future__ import annotations

import hashlib
import re

import msgspec

from sqlstream import __version__
from sqlstream.errors import ExternalError, Retry, UserError
from sqlstream.kept_formats import CHECKPOINTS
from sqlstream.messages.manifest import CheckpointManifest, SavedCommit, SavedSplits
from sqlstream.secrets import is_secret, masked


def corrupt_checkpoint(path: str, problem: str) -> ExternalError:
    """SS6210, whose reason lets a restart go on from an older checkpoint."""
    return ExternalError("SS6210", f'could not use the file "{path}" of a checkpoint: {problem}')


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


_FORMAT = "sqlstream-checkpoint"
_STATE_PATH = re.compile(r"shared/[^/\0]+-\d{1,18}\.arrow")


class _Envelope(msgspec.Struct, frozen=True):
    """What the file holds: `sha256` is that of the bytes of `checkpoint`, as they stand in the file. `release` wrote it."""

    format: str
    version: int
    sha256: str
    checkpoint: msgspec.Raw
    release: str = ""


def encode_manifest(manifest: CheckpointManifest) -> bytes:
    """The whole file. Settings that are secrets are left out, and masked where they are a part of a value; so are the options of
    sinks, whose secrets a restore takes from the job that goes on."""
    settings = {key: masked(key, value) for key, value in manifest.config.items() if not is_secret(key)}
    commits = tuple(map(_without_secrets, manifest.commits))
    body = msgspec.json.encode(msgspec.structs.replace(manifest, config=settings, commits=commits))
    envelope = _Envelope(
        _FORMAT, manifest.version, hashlib.sha256(body).hexdigest(), msgspec.Raw(body), __version__
    )
    return msgspec.json.encode(envelope) + b"\n"


def _without_secrets(commit: SavedCommit) -> SavedCommit:
    options = {key: masked(key, value) for key, value in commit.spec.options.items()}
    return msgspec.structs.replace(commit, spec=msgspec.structs.replace(commit.spec, options=options))


def decode_manifest(path: str, data: bytes) -> CheckpointManifest:
    """ExternalError SS6210 for bytes that are not those of a manifest; UserError SS6211 for a format of another version."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if envelope.format != _FORMAT:
            raise corrupt_checkpoint(path, f'its format is "{envelope.format}"')
        if hashlib.sha256(envelope.checkpoint).hexdigest() != envelope.sha256:
            raise corrupt_checkpoint(path, "its bytes are not those that were written")
        if not CHECKPOINTS.reads(envelope.version):
            problem, hint = CHECKPOINTS.refusal(envelope.version, envelope.release)
            raise UserError("SS6211", f'"{path}" was {problem}', hint=hint)
        manifest = msgspec.json.decode(envelope.checkpoint, type=CheckpointManifest)
        # Positions of sources are any JSON, and are sent to tasks: what is no message fails here, and not the JobManager.
        msgspec.msgpack.encode(manifest)
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise corrupt_checkpoint(path, str(error)) from error
    if problem := _problem_of(manifest):
        raise corrupt_checkpoint(path, problem)
    # Files of these paths are read and, when nothing needs them, removed.
    strange = next((p for p in sorted(manifest.paths()) if _STATE_PATH.fullmatch(p) is None), None)
    if strange is not None:
        raise corrupt_checkpoint(path, f'it names the file "{strange}"')
    return manifest


def _problem_of(manifest: CheckpointManifest) -> str:
    """What of a manifest does not fit together; empty when all does."""
    vertices = manifest.vertices
    if len({v.vertex_id for v in vertices}) < len(vertices):
        return "two of its vertices have one id"
    operators = [o.id for v in vertices for o in v.operators]
    if len(set(operators)) < len(operators):
        return "two of its operators have one id"
    for v in vertices:
        if not v.operators:
            return f'vertex "{v.name}" has no operators'
        if not v.parallelism == len(v.subtasks) == len(v.finished):
            return f'vertex "{v.name}" has {v.parallelism} subtasks, and the state of {len(v.subtasks)}'
        if v.parallelism > v.max_parallelism:
            return f'vertex "{v.name}" has more subtasks than key groups'
    if any(not 0 <= commit.checkpoint_id <= manifest.checkpoint_id for commit in manifest.commits):
        return "it has the commit of a later checkpoint"
    return _problem_of_splits(manifest)


def _problem_of_splits(manifest: CheckpointManifest) -> str:
    subtasks = {v.vertex_id: v.parallelism for v in manifest.vertices}
    for vertex_id, saved in manifest.enumerators.items():
        try:
            splits = msgspec.convert(saved, SavedSplits)
        except msgspec.ValidationError as error:
            return f"what it says of splits is none of them: {error}"
        if len(splits.left_out) != subtasks.get(vertex_id):
            return f'it has splits of {len(splits.left_out)} readers of vertex "{vertex_id}"'
    return ""
