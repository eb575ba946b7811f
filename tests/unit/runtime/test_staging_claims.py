"""Staged rows whose job is dead are removed by the next job on the same table, and those of a living job are not."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from sqlstream.changelog import ChangelogMode
from sqlstream.errors import ExternalError
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.rpc import JobDetails, JobMetrics
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.jobmanager.collaborators import KeepNothing
from sqlstream.runtime.jobmanager.events import EndedJob
from sqlstream.runtime.staging_claims import CLOSE_TIMEOUT_S, ClaimingStore
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.connector import StagesRows

SCHEMA, MODE = Schema(()), ChangelogMode.INSERT_ONLY
FILES = LocalFiles()


def job(job_id: str, *sinks: SinkSpec) -> JobGraph:
    operators = tuple(
        ChainedOperator(i, f"u{i}", "out", sink, NETWORK_INPUT, (SCHEMA,), (MODE,), SCHEMA, MODE)
        for i, sink in enumerate(sinks)
    )
    return JobGraph(job_id, "insert", (JobVertex("0" * 32, "out", operators, 1, 128),), ())


def ended(graph: JobGraph, status: JobStatus = JobStatus.FAILED) -> EndedJob:
    details = JobDetails(graph.job_id, "insert", status, 1, 2, {}, ())
    return EndedJob(graph, details, JobMetrics(graph.job_id, status, {}, {}))


@pytest.fixture(params=["duckdb", "filesystem"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> SinkSpec:
    is_duckdb = request.param == "duckdb"
    options = (
        {"path": str(tmp_path / "t" / "out.duckdb")}
        if is_duckdb
        else {"path": str(tmp_path / "t"), "format": "csv"}
    )
    return SinkSpec("out", request.param, options, SCHEMA)


@pytest.fixture
def store() -> ClaimingStore:
    return ClaimingStore(KeepNothing(), FILES)


def stage(sink: SinkSpec, job_id: str) -> Path:
    """The rows of a writer of the job."""
    made = connector(sink.connector)
    assert isinstance(made, StagesRows)
    path = Path(made.staging_directory(sink, job_id, "0123456789ab"))
    path.mkdir(parents=True)
    (path / "rows").write_text("1")
    return path


def kill(store: ClaimingStore) -> None:
    """What the end of a process does to its threads and locks."""
    store._abandoned.wait(CLOSE_TIMEOUT_S)
    for claim in (c for claims in store._claims.values() for c in claims):
        assert claim.lock is not None
        claim.lock.close()


def names(sink: SinkSpec, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "t").iterdir())


def test_the_next_job_removes_what_a_dead_one_has_left(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(job("dead", sink), b"")
    staged = stage(sink, "dead")
    kill(dead)
    store.put(job("next", sink), b"")
    store.close()
    assert not staged.exists()
    assert [name for name in names(sink, tmp_path) if "dead" in name] == []


def test_what_a_killed_job_has_prepared_for_its_checkpoints_stays_as_long_as_these(
    sink: SinkSpec, tmp_path: Path
) -> None:
    config = {"execution.checkpointing.interval": "1 s", "execution.checkpointing.dir": str(tmp_path / "c")}
    checkpoints = tmp_path / "c" / "dead"
    checkpoints.mkdir(parents=True)
    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(msgspec.structs.replace(job("dead", sink), config=config), b"")
    staged = stage(sink, "dead")
    kill(dead)
    for is_kept in (True, False):
        store = ClaimingStore(KeepNothing(), FILES)
        store.put(job("next", sink), b"")
        store.close()
        assert staged.exists() == is_kept
        kill(store)
        shutil.rmtree(checkpoints, ignore_errors=True)


def test_what_a_checkpoint_that_stays_has_to_commit_stays_as_long_as_it(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    kept = [tmp_path / name for name in ("savepoint", "checkpoints")]
    for path in kept:
        path.mkdir()
    graph = job("failed", sink)
    store.put(graph, b"")
    staged = stage(sink, "failed")
    store.remove("failed", replace(ended(graph), output_kept_for=tuple(map(str, kept))))
    assert staged.exists()
    for path, is_kept in zip(kept, (True, False), strict=True):
        path.rmdir()
        store.put(job("next", sink), b"")
        store.close()
        assert staged.exists() == is_kept
    assert [name for name in names(sink, tmp_path) if "failed" in name] == []


STORE = {
    "execution.checkpointing.interval": "1 s",
    "execution.checkpointing.dir": "s3://bucket/checkpoints",
    "s3.endpoint": "http://127.0.0.1:1",
}
"""A store that does not answer."""


@pytest.mark.parametrize("next_config", [{}, STORE, {**STORE, "s3.endpoint": "http://127.0.0.1:2"}])
@pytest.mark.parametrize("is_killed", [True, False])
def test_what_a_checkpoint_in_an_object_store_has_to_commit_stays_while_nobody_knows_that_it_is_gone(
    sink: SinkSpec, is_killed: bool, next_config: dict[str, str]
) -> None:
    graph = msgspec.structs.replace(job("dead", sink), config=STORE)
    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(graph, b"")
    staged = stage(sink, "dead")
    if is_killed:
        kill(dead)
    else:
        kept_for = ("s3://bucket/checkpoints/dead",)
        dead.remove("dead", replace(ended(graph), output_kept_for=kept_for))
    store = ClaimingStore(KeepNothing(), FILES)
    store.put(msgspec.structs.replace(job("next", sink), config=next_config), b"")
    store._abandoned.wait(60)
    store.close()
    assert staged.exists()


def test_the_rows_of_a_living_job_and_those_that_nobody_claims_stay(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    living = ClaimingStore(KeepNothing(), FILES)
    living.put(job("living", sink), b"")
    staged, unclaimed = stage(sink, "living"), stage(sink, "unclaimed")
    store.put(job("next", sink), b"")
    store.close()
    store.remove("next", ended(job("next", sink)))
    assert staged.exists()
    assert unclaimed.exists()
    living.remove("living", ended(job("living", sink)))


def test_the_rows_of_a_job_whose_id_begins_with_a_dead_ones_stay(
    sink: SinkSpec, store: ClaimingStore
) -> None:
    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(job("1", sink), b"")
    living = ClaimingStore(KeepNothing(), FILES)
    living.put(job("12", sink), b"")
    staged = stage(sink, "12")
    kill(dead)
    store.put(job("next", sink), b"")
    store.close()
    assert staged.exists()


@pytest.mark.parametrize("path", ["db[1].sqlite", "d*/[b].sqlite"])
def test_claims_are_found_beside_names_with_wildcards(
    tmp_path: Path, store: ClaimingStore, path: str
) -> None:
    options = {"url": f"jdbc:sqlite:{tmp_path / path}", "table-name": "t"}
    sink = SinkSpec("out", "jdbc", options, SCHEMA)
    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(job("dead", sink), b"")
    staged = stage(sink, "dead")
    kill(dead)
    store.put(job("next", sink), b"")
    store.close()
    assert not staged.exists()


def test_the_rows_of_a_job_that_a_stopped_server_keeps_stay_until_it_keeps_it_no_longer(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.job"
    kept.write_text("")

    class Keeping(KeepNothing):
        def kept_file(self, job_id: str) -> str:
            return str(kept)

    dead = ClaimingStore(Keeping(), FILES)
    dead.put(job("dead", sink), b"")
    staged = stage(sink, "dead")
    kill(dead)
    store.put(job("next", sink), b"")
    store.close()
    assert staged.exists()
    kept.unlink()
    store.put(job("last", sink), b"")
    store.close()
    assert not staged.exists()
    assert [name for name in names(sink, tmp_path) if "dead" in name] == []


def test_a_large_leftover_delays_no_job(sink: SinkSpec) -> None:
    is_removing, may_go_on = threading.Event(), threading.Event()

    class Slow(LocalFiles):
        def remove(self, path: str) -> None:
            if "-dead-" in path:
                is_removing.set()
                may_go_on.wait(60)
            super().remove(path)

    dead = ClaimingStore(KeepNothing(), FILES)
    dead.put(job("dead", sink), b"")
    staged = stage(sink, "dead")
    kill(dead)
    store = ClaimingStore(KeepNothing(), Slow())
    store.put(job("next", sink), b"")
    assert is_removing.wait(60)
    store.put(job("another", sink), b"")
    assert staged.exists()
    may_go_on.set()
    store.close()
    assert not staged.exists()


def test_an_ended_job_leaves_no_claim_and_a_failed_one_no_directory(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    graph = job("failed", sink, sink)
    store.put(graph, b"")
    assert len(names(sink, tmp_path)) == 1
    store.remove("failed", ended(graph))
    assert not (tmp_path / "t").exists()
    store.put(job("finished", sink), b"")
    store.remove("finished", ended(job("finished", sink), JobStatus.FINISHED))
    assert names(sink, tmp_path) == []


def test_what_lost_attempts_of_a_finished_job_have_staged_goes_with_the_job(
    sink: SinkSpec, store: ClaimingStore, tmp_path: Path
) -> None:
    graph = job("finished", sink)
    store.put(graph, b"")
    staged, other = stage(sink, "finished"), stage(sink, "another")
    store.remove("finished", ended(graph, JobStatus.FINISHED))
    assert not staged.exists()
    assert other.exists()


def test_a_place_that_cannot_be_claimed_and_tables_that_stage_nothing_are_left_to_their_writers(
    tmp_path: Path, store: ClaimingStore
) -> None:
    (tmp_path / "file").write_text("")
    sinks = [
        SinkSpec("out", "filesystem", {"path": str(tmp_path / "file"), "format": "csv"}, SCHEMA),
        SinkSpec("out", "filesystem", {"path": str(tmp_path / "*"), "format": "csv"}, SCHEMA),
        SinkSpec("out", "duckdb", {"path": str(tmp_path / "x.csv")}, SCHEMA),
        SinkSpec("out", "print", {}, SCHEMA),
        SinkSpec("out", "unheard-of", {}, SCHEMA),
    ]
    graph = job("j", *sinks)
    store.put(graph, b"")
    store.remove("j", ended(graph))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_job_that_cannot_be_stored_leaves_no_claim(sink: SinkSpec, tmp_path: Path) -> None:
    class Full(KeepNothing):
        def put(self, job_graph: JobGraph, encoded: bytes) -> None:
            raise ExternalError("SS5001", "the disk is full")

    with pytest.raises(ExternalError):
        ClaimingStore(Full(), FILES).put(job("j", sink), b"")
    assert not (tmp_path / "t").exists()


def test_a_store_that_is_closed_leaves_nothing_of_jobs_that_nobody_keeps(
    store: ClaimingStore, sink: SinkSpec, tmp_path: Path
) -> None:
    """As when Ctrl-C comes within the submission: nobody knows the job that must be cancelled."""
    store.put(job("a" * 32, sink), b"")
    stage(sink, "a" * 32)
    store.close()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
