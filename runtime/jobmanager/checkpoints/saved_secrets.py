"""The passwords of sinks, which no manifest on a disk holds: who goes on from it brings them."""

from __future__ import annotations

from msgspec.structs import replace

from sqlstream.errors import UserError
from sqlstream.graph.job_graph import JobGraph
from sqlstream.messages.manifest import CheckpointManifest, SavedCommit
from sqlstream.secrets import MASK, masked
from sqlstream.specs import SinkSpec


def with_secrets(commit: SavedCommit, manifest: CheckpointManifest, job: JobGraph) -> SavedCommit:
    """The commit with the options as the job's own sink has them where they differ by what is masked alone: the other options say
    where the rows are that it has to commit."""
    present = _present_sink(commit, manifest, job)
    if present is None:
        return commit
    options = {
        key: present.options[key] if _is_of(key, value, present) else value
        for key, value in commit.spec.options.items()
    }
    return replace(commit, spec=replace(commit.spec, options=options))


def check_secrets(manifest: CheckpointManifest, job: JobGraph, path: str) -> None:
    """UserError SS6271 when a commit needs a password that no sink of the job has."""
    for commit in manifest.commits:
        options = with_secrets(commit, manifest, job).spec.options
        lacking = next((key for key, value in options.items() if MASK in value), "")
        if lacking:
            raise UserError(
                "SS6271",
                f'"{path}" has rows to commit to table "{commit.spec.table}", whose "{lacking}" it does not hold',
                hint="go on with a statement that writes into this table",
            )


def _is_of(key: str, value: str, present: SinkSpec) -> bool:
    return MASK in value and key in present.options and masked(key, present.options[key]) == value


def _present_sink(commit: SavedCommit, manifest: CheckpointManifest, job: JobGraph) -> SinkSpec | None:
    """The operator of the same meaning, or else one that writes into a table of that name."""
    uids = {(v.vertex_id, o.id): o.uid for v in manifest.vertices for o in v.operators}
    uid = uids.get((commit.vertex_id, commit.operator_id))
    sinks = [(o.uid, o.spec) for v in job.vertices for o in v.operators]
    of_table = None
    for present_uid, spec in sinks:
        if not isinstance(spec, SinkSpec) or spec.connector != commit.spec.connector:
            continue
        if present_uid == uid:
            return spec
        if spec.table == commit.spec.table:
            of_table = spec
    return of_table
