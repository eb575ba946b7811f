"""Passwords of sinks are in no manifest on a disk, and come from the job that goes on."""

from __future__ import annotations

import pytest
from checkpoint_harness import manifest
from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import UserError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.runtime.checkpoint.manifest_file import decode_manifest, encode_manifest
from sqlstream.runtime.jobmanager.checkpoints.restored_state import check_secrets, commits_by_checkpoint
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.types import BIGINT

COLUMNS = Schema.of(("n", BIGINT))
OPTIONS = {"url": "jdbc:postgresql://db/x", "username": "u", "password": "hunter2"}
OF_JOB = {**OPTIONS, "password": "hunter3"}


def sink(table: str, options: dict[str, str]) -> SinkSpec:
    return SinkSpec(table=table, connector="jdbc", options=options, schema=COLUMNS)


def job(spec: SinkSpec, uid: str = "sink") -> JobGraph:
    mode = ChangelogMode.INSERT_ONLY
    operator = ChainedOperator(3, uid, "t", spec, NETWORK_INPUT, (COLUMNS,), (mode,), COLUMNS, mode)
    return JobGraph("j", "j", (JobVertex("v", "t", (operator,), 1, 128),), ())


def stored(options: dict[str, str]) -> CheckpointManifest:
    """A checkpoint with rows to commit, as it is read again."""
    made = manifest(4)
    (commit,) = made.commits
    made = replace(made, commits=(replace(commit, spec=sink("out", options)),))
    data = encode_manifest(made)
    assert b"hunter" not in data
    return decode_manifest("p", data)


@pytest.mark.parametrize("uid", ["sink", "another"])
def test_a_repeated_commit_has_the_password_of_the_job_that_goes_on(uid: str) -> None:
    kept = stored(OPTIONS)
    present = job(sink("out", OF_JOB), uid)
    check_secrets(kept, present, "p")
    ((_, (commit,)),) = commits_by_checkpoint(kept, present).items()
    assert commit.spec.options == OF_JOB


def test_other_options_stay_those_of_the_rows_that_were_written() -> None:
    ((_, (commit,)),) = commits_by_checkpoint(
        stored(OPTIONS), job(sink("out", {**OF_JOB, "url": "jdbc:postgresql://other/y"}))
    ).items()
    assert commit.spec.options == {**OPTIONS, "password": "hunter3"}


def test_a_commit_whose_password_nobody_has_is_refused_before_anything_starts() -> None:
    with pytest.raises(UserError, match='rows to commit to table "out", whose "password"') as refused:
        check_secrets(stored(OPTIONS), job(sink("elsewhere", OF_JOB)), "p")
    assert refused.value.code == "SS6271"


def test_a_password_within_an_address_is_none_of_the_manifest_either() -> None:
    kept = stored({"url": "postgresql://u:hunter2@db/x"})
    present = job(sink("out", {"url": "postgresql://u:hunter3@db/x"}))
    ((_, (commit,)),) = commits_by_checkpoint(kept, present).items()
    assert commit.spec.options == {"url": "postgresql://u:hunter3@db/x"}
