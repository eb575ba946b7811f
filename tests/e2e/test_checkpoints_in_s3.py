"""Checkpoints in S3, against a real server: stored, loaded, removed, and refused in clear words."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from checkpoint_harness import OPERATOR_ID, manifest
from command_harness import SQLSTREAM, Process, environment, run_to_end, sqlstream
from s3_harness import S3, running_s3

from sqlstream.errors import ExternalError, FailureReason, UserError
from sqlstream.messages.checkpoint import SubtaskState, TaskRestore
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore, checkpoint_files
from sqlstream.runtime.checkpoint.state_reader import StateReader
from sqlstream.runtime.checkpoint.state_writer import StateWriter, state_name
from sqlstream.runtime.embedded import EmbeddedCluster
from sqlstream.runtime.state.snapshots.snapshot import KEY_GROUP_COLUMN, OperatorSnapshot

pytestmark = pytest.mark.timeout(300)

ROWS = 300_000


@pytest.fixture(scope="module")
def store() -> Iterator[S3]:
    with running_s3() as server:
        yield server


def settings(store: S3) -> dict[str, str]:
    return {"s3.endpoint": store.endpoint, "s3.access-key": "someone", "s3.secret-key": "very secret"}


def saved(store: S3, directory: str, checkpoint_id: int) -> SubtaskState:
    groups = pa.array([i % 128 for i in range(ROWS)], pa.int32())
    rows = pa.table({KEY_GROUP_COLUMN: groups, "n": range(ROWS)})
    writer = StateWriter(checkpoint_files(directory, settings(store)), directory)
    snapshots = {OPERATOR_ID: OperatorSnapshot({"groups": rows})}
    return SubtaskState(writer.write(state_name("job-0-0-0", checkpoint_id), snapshots))


def test_a_checkpoint_is_stored_restored_and_removed(store: S3) -> None:
    directory, config, checkpoints = "s3://bucket/checkpoints/job", settings(store), CheckpointStore()
    first, second = (manifest(n, saved(store, directory, n), config=config) for n in (1, 2))
    for each in (first, second):
        checkpoints.store(directory, each)
    found = checkpoints.latest(directory, config)
    assert [c.manifest.checkpoint_id for c in found] == [2, 1]
    restore = TaskRestore(2, found[0].directory, second.vertices[0].subtasks)
    reader = StateReader(checkpoint_files(directory, config), restore)
    own = reader.operator(OPERATOR_ID, range(32, 64))
    assert own is not None
    assert own.keyed["groups"].num_rows == sum(32 <= i % 128 < 64 for i in range(ROWS))
    saved(store, directory, 3)
    checkpoints.remove_aborted(directory, 3, config)
    checkpoints.discard(directory, first, second.paths(), config)
    files = checkpoint_files(directory, config)
    assert [f.path for f in files.list_files(directory)] == [f"{directory}/{p}" for p in second.paths()]
    checkpoints.remove_all(directory, config)
    assert files.status(directory) is None


def test_a_savepoint_is_removed_by_the_settings_of_who_asks(store: S3) -> None:
    directory, config, checkpoints = "s3://bucket/savepoints/savepoint-1", settings(store), CheckpointStore()
    taken = manifest(1, saved(store, directory, 1), config=config, kind=CheckpointKind.SAVEPOINT)
    checkpoints.store(directory, taken)
    with EmbeddedCluster(task_managers=1) as cluster:
        cluster.dispose_savepoint(directory, config)
    assert checkpoint_files(directory, config).list_files(directory) == []


def test_a_truncated_object_is_named(store: S3) -> None:
    directory, config = "s3://bucket/torn/job", settings(store)
    state = saved(store, directory, 1)
    (path,) = manifest(1, state).paths()
    files = checkpoint_files(directory, config)
    with files.open_write(f"{directory}/{path}") as stream:
        stream.write(b"torn")
    with pytest.raises(
        ExternalError, match=f'"{directory}/{path}" of a checkpoint: it has only 4 bytes'
    ) as raised:
        StateReader(files, TaskRestore(1, directory, (state,))).operator(OPERATOR_ID, range(128))
    assert raised.value.reason is FailureReason.CHECKPOINT_CORRUPT


def test_a_store_that_refuses_is_an_error_with_the_cause(store: S3, caplog: pytest.LogCaptureFixture) -> None:
    for directory, config in (
        ("s3://nowhere/job", settings(store)),
        ("s3://bucket/job", {**settings(store), "s3.endpoint": "http://127.0.0.1:1"}),
    ):
        with pytest.raises(ExternalError, match="could not") as raised:
            CheckpointStore().store(directory, manifest(1, config=config))
        assert (raised.value.code, raised.value.reason) == ("SS5001", FailureReason.EXTERNAL)
        assert "very secret" not in str(raised.value.detail)
        CheckpointStore().sweep(directory, config)
    assert "could not remove what is left" in caplog.text
    with pytest.raises(UserError, match=r'option "s3\.secret-key"'):
        checkpoint_files("s3://bucket/job", {"s3.access-key": "a"})


def test_the_command_reads_a_checkpoint_in_s3(store: S3) -> None:
    directory, config = "s3://bucket/looked-into/job", settings(store)
    path = CheckpointStore().store(directory, manifest(7, saved(store, directory, 7), config=config))
    given = [word for key, value in config.items() for word in ("-D", f"{key}={value}")]
    done = sqlstream("state", "sql", "--json", *given, path, "SELECT count(*) AS c FROM groups")
    assert (done.returncode, done.stdout) == (0, f'{{"c":{ROWS}}}\n'), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("is_merged", [False, True])
def test_a_killed_job_goes_on_from_its_checkpoint_in_s3_also_after_another_wrote_to_its_table(
    store: S3, tmp_path: Path, is_merged: bool
) -> None:
    numbers = 6_000
    config = {
        **settings(store),
        "execution.checkpointing.file-merging.enabled": str(is_merged).lower(),
        "execution.checkpointing.dir": "s3://bucket/killed",
        "execution.checkpointing.interval": "200 ms",
        "sqlstream.in-process.max-input-size": "0",
    }
    out = f"""
        CREATE TABLE out (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/out', 'format' = 'json');"""
    script = f"""{out}
        CREATE TABLE numbers (n BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{numbers}');
        INSERT INTO out SELECT n FROM (
            SELECT n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY p) AS r FROM numbers) WHERE r = 1;"""

    def words(text: str = script, **others: str) -> list[str]:
        given = [word for key, value in {**config, **others}.items() for word in ("-D", f"{key}={value}")]
        return [*SQLSTREAM, "run", *given, "-c", text]

    def run(words: list[str]) -> None:
        done = run_to_end(words)
        assert done.returncode == 0, done.stderr

    process = Process(words(), env=environment(), stdout=subprocess.DEVNULL)
    try:
        path = _second_checkpoint("s3://bucket/killed", config, process)
    finally:
        process.kill()
        process.wait()
    other = f"{out} INSERT INTO out VALUES (0);"
    run(words(other))
    run(words(**{"execution.state-recovery.path": path}))
    visible = [p for p in (tmp_path / "out").iterdir() if not p.name.startswith(".")]
    rows = [json.loads(line)["n"] for file in visible for line in file.read_text().splitlines()]
    assert sorted(rows) == list(range(numbers + 1))
    checkpoint_files(path, config).remove("s3://bucket/killed")
    run(words(other))
    assert not list((tmp_path / "out").glob(".staging-*"))


def _second_checkpoint(directory: str, config: dict[str, str], process: subprocess.Popen[bytes]) -> str:
    """The path of the newest checkpoint, once there have been two."""
    files = checkpoint_files(directory, config)
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        assert process.poll() is None, "the job has ended"
        for job_id, _ in files.list_names(directory, 10):
            for stored in CheckpointStore().latest(f"{directory}/{job_id}", config):
                if stored.manifest.checkpoint_id > 1:
                    return stored.path
        time.sleep(0.02)
    raise AssertionError("there was no checkpoint")


def test_a_store_that_refuses_fails_checkpoints_and_not_the_job(store: S3) -> None:
    config = {
        **settings(store),
        "execution.checkpointing.dir": "s3://nowhere/checkpoints",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        "sqlstream.in-process.max-input-size": "0",
    }
    given = [word for key, value in config.items() for word in ("-D", f"{key}={value}")]
    script = """
        CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
            'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '3000');
        CREATE TABLE out (n BIGINT) WITH ('connector' = 'blackhole');
        INSERT INTO out SELECT n FROM numbers;"""
    done = sqlstream("run", *given, "-c", script)
    assert done.returncode == 0, done.stderr
    assert "wrote 3,000" in done.stderr
    assert "very secret" not in done.stderr
