"""What becomes of the jobs of a server that was killed."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from committable_harness import file_of
from msgspec.structs import replace
from operator_harness import batch

from sqlstream import types as sql
from sqlstream.changelog import ChangelogMode
from sqlstream.client.server.job_checkpoint_stores import JobCheckpointStores
from sqlstream.client.server.job_store import FileJobStore
from sqlstream.client.server.kept_file import KeptFiles
from sqlstream.client.server.recovery import (
    LOST_WITH_CLIENT,
    keep_files,
    recover,
    submit_again,
)
from sqlstream.errors import ErrorInfo, ExternalError, UserError
from sqlstream.graph.artifacts import Artifact
from sqlstream.graph.job_graph import NETWORK_INPUT, ChainedOperator, JobGraph, JobVertex, encode_job_graph
from sqlstream.messages.checkpoint_statistics import CheckpointKind
from sqlstream.messages.job_state import JobStatus
from sqlstream.messages.manifest import CheckpointManifest
from sqlstream.runtime.checkpoint.checkpoint_directory import CheckpointDirectory, RetainedCheckpoints
from sqlstream.runtime.checkpoint.checkpoint_store import CheckpointStore
from sqlstream.runtime.connectors import connector
from sqlstream.runtime.host.artifacts import ArtifactStore
from sqlstream.runtime.host.files import LocalFiles
from sqlstream.runtime.host.private_files import PrivateFiles
from sqlstream.runtime.jobmanager.collaborators import KeepNothing
from sqlstream.runtime.jobmanager.events import CancelRequested, EndedJob, SavepointRequested, SinkCommit
from sqlstream.runtime.sink_committer import ConnectorCommitter
from sqlstream.runtime.staging_claims import ClaimingStore
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec
from sqlstream.spi.committable import LAST_CHECKPOINT_ID
from sqlstream.spi.connector import ConnectorContext

MakeJob = Callable[..., JobGraph]

NONE = JobCheckpointStores("")
"""Where no job takes checkpoints."""


class RecordingCommitter:
    """Notes what it is asked, and fails to commit the jobs in `broken`."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self._broken = broken

    def commit(
        self, job_id: str, checkpoint_id: int, commits: tuple[SinkCommit, ...], is_last: bool = False
    ) -> None:
        self.calls.append(("commit", job_id, sum(len(c.committables) for c in commits)))
        if job_id in self._broken:
            raise ExternalError("SS5015", "the file written for it has vanished")

    def remove_staged(self, job_id: str, staged: Any) -> None: ...

    def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
        self.calls.append(("abort", job_id, sum(len(c.committables) for c in commits)))


class Refusing:
    """A cluster that runs no job but the ones that it notes, and refuses those in `refused`."""

    def __init__(self, *refused: str) -> None:
        self.submitted: list[str] = []
        self.ended: list[CancelRequested | SavepointRequested] = []
        self.suspended: list[EndedJob] = []
        self._refused = refused

    def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
        assert is_recovered
        if graph.job_id in self._refused:
            raise UserError("SS6003", "too few slots")
        self.submitted.append(graph.job_id)

    def end_again(self, request: CancelRequested | SavepointRequested) -> None:
        self.ended.append(request)

    def list_suspended(self, job: EndedJob) -> None:
        self.suspended.append(job)


@pytest.fixture
def store(tmp_path: Path) -> FileJobStore:
    clock = itertools.count(1000)
    return FileJobStore(str(tmp_path / "jobs"), lambda: next(clock), ended_max=10)


def mark(store: FileJobStore, graph: JobGraph) -> None:
    """The job's tasks had finished, with one file to commit."""
    spec = graph.vertices[0].operators[0].spec
    store.mark_committing(graph.job_id, LAST_CHECKPOINT_ID, (SinkCommit("0" * 32, 0, spec, (file_of("h"),)),))  # type: ignore[arg-type]


def keep(store: FileJobStore, job: JobGraph) -> None:
    store.put(job, encode_job_graph(job))


def test_a_job_runs_again_after_its_hidden_files_were_removed(store: FileJobStore, make_job: MakeJob) -> None:
    keep(store, make_job("b"))
    keep(store, make_job("a"))
    committer, cluster = RecordingCommitter(), Refusing()
    recovery = recover(store, committer, NONE, lambda: 0)
    assert committer.calls == [("abort", "b", 0), ("abort", "a", 0)]
    submit_again(recovery, cluster, store, lambda: 0)
    assert cluster.submitted == ["b", "a"]
    assert [job.graph.job_id for job in store.kept()] == ["b", "a"]


def test_a_query_is_lost_with_its_client(store: FileJobStore, make_job: MakeJob) -> None:
    keep(store, make_job("q", "collect"))
    assert recover(store, RecordingCommitter(), NONE, lambda: 2000).again == ()
    (ended,) = store.ended()
    assert (ended.details.status, ended.details.error) == (JobStatus.FAILED, LOST_WITH_CLIENT)
    assert (ended.details.start_ms, ended.details.end_ms) == (1000, 2000)
    assert store.kept() == ()


def test_output_that_may_be_visible_is_completed_and_not_written_twice(
    store: FileJobStore, make_job: MakeJob
) -> None:
    graph = make_job("a")
    keep(store, graph)
    mark(store, graph)
    committer = RecordingCommitter()
    assert recover(store, committer, NONE, lambda: 0).again == ()
    assert committer.calls == [("commit", "a", 1)]
    assert [job.details.status for job in store.ended()] == [JobStatus.FINISHED]


def test_output_that_cannot_be_completed_is_removed_before_the_job_runs_again(
    store: FileJobStore, make_job: MakeJob
) -> None:
    graph = make_job("a")
    keep(store, graph)
    mark(store, graph)
    committer = RecordingCommitter("a")
    (again,) = recover(store, committer, NONE, lambda: 0).again
    assert committer.calls == [("commit", "a", 1), ("abort", "a", 1)]
    assert (again.job.graph, again.path) == (graph, "")
    assert store.kept()[0].commits is None


def test_a_commit_that_can_be_neither_completed_nor_undone_fails_its_job(
    store: FileJobStore, make_job: MakeJob
) -> None:
    graph = make_job("a")
    keep(store, graph)
    mark(store, graph)

    class Stuck(RecordingCommitter):
        def remove_staged(self, job_id: str, staged: Any) -> None: ...

        def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
            raise ExternalError("SS5001", "permission denied")

    assert recover(store, Stuck("a"), NONE, lambda: 0).again == ()
    (ended,) = store.ended()
    assert ended.details.status is JobStatus.FAILED
    assert ended.details.error is not None
    assert "neither completed nor undone" in ended.details.error.message
    assert store.kept() == ()


def described(job: EndedJob) -> tuple[str, JobStatus, str]:
    assert job.details.error is not None
    return job.details.job_id, job.details.status, job.details.error.code


def test_a_job_that_is_refused_now_waits_for_the_next_start(store: FileJobStore, make_job: MakeJob) -> None:
    keep(store, make_job("a"))
    cluster = Refusing("a")
    submit_again(recover(store, RecordingCommitter(), NONE, lambda: 0), cluster, store, lambda: 0)
    assert list(map(described, cluster.suspended)) == [("a", JobStatus.SUSPENDED, "SS6003")]
    assert store.ended() == ()
    assert [job.graph.job_id for job in store.kept()] == ["a"]


@pytest.mark.parametrize("is_ending", [False, True])
def test_output_that_this_server_may_not_touch_waits_for_the_next_start(
    store: FileJobStore, make_job: MakeJob, is_ending: bool
) -> None:
    class Barred(RecordingCommitter):
        def commit(self, *ignored: Any, **named: Any) -> None:
            raise UserError("SS5031", "this server connects to no database servers")

        def abort(self, *ignored: Any) -> None:
            raise UserError("SS5031", "this server connects to no database servers")

    graph = make_job("a")
    keep(store, graph)
    if is_ending:
        store.mark_ending("a", JobStatus.CANCELED, None)
    else:
        mark(store, graph)
    (before,) = store.kept()
    recovery = recover(store, Barred(), NONE, lambda: 0)
    assert recovery.again == ()
    assert list(map(described, recovery.waiting)) == [("a", JobStatus.SUSPENDED, "SS5031")]
    assert (store.kept(), store.ended()) == ((before,), ())


def test_a_job_whose_checkpoints_cannot_be_reached_when_it_is_submitted_is_kept(
    store: FileJobStore, make_job: MakeJob
) -> None:
    class Unreachable(Refusing):
        def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
            raise ExternalError("SS5001", "no route to the store")

    keep(store, make_job("a"))
    cluster = Unreachable()
    submit_again(recover(store, RecordingCommitter(), NONE, lambda: 0), cluster, store, lambda: 0)
    assert list(map(described, cluster.suspended)) == [("a", JobStatus.SUSPENDED, "SS5001")]
    assert store.ended() == ()
    assert [job.graph.job_id for job in store.kept()] == ["a"]


def take_checkpoints(graph: JobGraph, directory: Path, *ids: int) -> JobGraph:
    """The job with an interval, as it was when these checkpoints were complete."""
    graph = msgspec.structs.replace(graph, config={"execution.checkpointing.interval": "1 s"})
    place = str(directory / graph.job_id)
    for id in ids:
        manifest = CheckpointManifest(graph.job_id, "", id, CheckpointKind.CHECKPOINT, 0, 0, (), {}, ())
        CheckpointDirectory(PrivateFiles(), place).store(manifest)
    return graph


def test_a_job_goes_on_from_its_newest_checkpoint_and_nothing_of_it_is_removed(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    keep(store, take_checkpoints(make_job("a"), tmp_path, 7, 12))
    keep(store, take_checkpoints(make_job("b"), tmp_path))
    committer, cluster = RecordingCommitter(), Refusing()
    recovery = recover(store, committer, JobCheckpointStores(str(tmp_path)), lambda: 0)
    assert committer.calls == [("abort", "b", 0)]
    assert [again.path for again in recovery.again] == [str(tmp_path / "a" / "chk-12"), ""]
    submit_again(recovery, cluster, store, lambda: 0)
    assert cluster.submitted == ["a", "b"]


def test_a_job_whose_last_commit_broke_off_goes_on_from_its_checkpoint_when_that_is_undone(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    graph = take_checkpoints(make_job("a"), tmp_path, 7)
    keep(store, graph)
    mark(store, graph)
    committer = RecordingCommitter("a")
    (again,) = recover(store, committer, JobCheckpointStores(str(tmp_path)), lambda: 0).again
    assert committer.calls == [("commit", "a", 1), ("abort", "a", 1)]
    assert again.path == str(tmp_path / "a" / "chk-7")


def test_a_job_whose_newest_checkpoint_is_torn_has_failed_and_keeps_its_older_ones(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    keep(store, take_checkpoints(make_job("a"), tmp_path, 7, 12))
    torn = tmp_path / "a" / "chk-12" / "_metadata"
    torn.write_bytes(torn.read_bytes()[:-5])
    assert recover(store, RecordingCommitter(), JobCheckpointStores(str(tmp_path)), lambda: 0).again == ()
    (ended,) = store.ended()
    assert ended.details.error is not None
    assert (ended.details.status, ended.details.error.code) == (JobStatus.FAILED, "SS6210")
    assert str(torn) in ended.details.error.message
    assert (tmp_path / "a" / "chk-7" / "_metadata").exists()


def test_a_job_goes_on_from_its_newest_checkpoint_although_an_older_one_is_torn(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    keep(store, take_checkpoints(make_job("a"), tmp_path, 7, 12))
    torn = tmp_path / "a" / "chk-7" / "_metadata"
    torn.write_bytes(torn.read_bytes()[:-5])
    (again,) = recover(store, RecordingCommitter(), JobCheckpointStores(str(tmp_path)), lambda: 0).again
    assert again.path == str(tmp_path / "a" / "chk-12")


class Unsteady(JobCheckpointStores):
    """Cannot be reached this many times."""

    def __init__(self, directory: str, failures: int) -> None:
        super().__init__(directory)
        self._failures = failures

    def retained(self, graph: JobGraph, newest_id: int = -1) -> RetainedCheckpoints:
        self._failures -= 1
        if self._failures >= 0:
            raise ExternalError("SS5001", "no route to the store")
        return super().retained(graph, newest_id)


def test_a_store_that_cannot_be_reached_at_first_is_asked_again(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    keep(store, take_checkpoints(make_job("a"), tmp_path, 7))
    paused: list[float] = []
    stores = Unsteady(str(tmp_path), failures=2)
    (again,) = recover(store, RecordingCommitter(), stores, lambda: 0, paused.append).again
    assert again.path == str(tmp_path / "a" / "chk-7")
    assert paused == [1, 2]


def test_jobs_whose_checkpoints_cannot_be_reached_are_left_to_the_next_start(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for job_id in ("a", "b"):
        keep(store, take_checkpoints(make_job(job_id), tmp_path, 7))
    paused: list[float] = []
    committer, stores = RecordingCommitter(), Unsteady(str(tmp_path), failures=1000)
    recovery = recover(store, committer, stores, lambda: 0, paused.append)
    assert recovery.again == ()
    assert list(map(described, recovery.waiting)) == [(id, JobStatus.SUSPENDED, "SS5001") for id in "ab"]
    assert sum(paused) == 30
    assert (committer.calls, store.ended()) == ([], ())
    said = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    # What to do follows.
    assert [text.partition("; ")[0] for text in said] == [
        "the job does not run until the server starts again: no route to the store"
    ] * 2
    assert all(text.partition("; ")[2] for text in said)
    recovery = recover(store, committer, JobCheckpointStores(str(tmp_path)), lambda: 0)
    assert [job.path for job in recovery.again] == [str(tmp_path / i / "chk-7") for i in ("a", "b")]


def test_a_job_that_has_had_checkpoints_does_not_begin_anew_while_their_volume_is_away(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(store, take_checkpoints(make_job("a"), tmp_path))
    keep(store, take_checkpoints(make_job("b"), tmp_path, 7))
    checkpoints = CheckpointStore(store.mark_saved)
    manifest = CheckpointManifest("b", "", 8, CheckpointKind.CHECKPOINT, 0, 0, (), {}, ())
    checkpoints.store(str(tmp_path / "b"), manifest)
    (tmp_path / "b").rename(tmp_path / "elsewhere")
    committer, stores = RecordingCommitter(), JobCheckpointStores(str(tmp_path))
    paused: list[float] = []
    (begun,) = recover(store, committer, stores, lambda: 0, paused.append).again
    assert (begun.job.graph.job_id, begun.path, sum(paused)) == ("a", "", 30)
    (mark,) = (job.saved_mark for job in store.kept() if job.saved_mark)
    assert f'it has had checkpoints in "{tmp_path / "b"}", and none is there' in caplog.text
    assert f'or remove "{mark}" to run' in caplog.text
    (tmp_path / "elsewhere").rename(tmp_path / "b")
    assert [job.path for job in recover(store, committer, stores, lambda: 0).again] == [
        "",
        str(tmp_path / "b" / "chk-8"),
    ]
    os.remove(mark)
    shutil.rmtree(tmp_path / "b")
    assert [job.path for job in recover(store, committer, stores, lambda: 0).again] == ["", ""]


def test_what_a_killed_server_has_left_of_checkpoints_that_it_removed_goes_with_the_next_start(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    """It removes manifests first, so that what is left is known by that there is none."""
    keep(store, take_checkpoints(make_job("runs"), tmp_path))
    for job_id in ("runs", "removed", "retained"):
        (tmp_path / job_id / "shared").mkdir(parents=True, exist_ok=True)
        (tmp_path / job_id / "shared" / "s0-1.arrow").write_bytes(b"1")
    take_checkpoints(make_job("retained"), tmp_path, 7)

    class Killed(PrivateFiles):
        def remove(self, path: str) -> None:
            assert "chk-" in path
            super().remove(path)

    take_checkpoints(make_job("removed"), tmp_path, 7)
    with pytest.raises(AssertionError):
        CheckpointDirectory(Killed(), str(tmp_path / "removed")).remove_all()
    stores = JobCheckpointStores(str(tmp_path))
    stores.remove_left({"runs"})
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "jobs") == ["retained", "runs"]
    assert [p.name for p in (tmp_path / "runs").rglob("*.arrow")] == ["s0-1.arrow"]
    savepoint = tmp_path / "savepoint"
    (savepoint / "shared").mkdir(parents=True)
    for name in ("_metadata", "shared/s0-1.arrow"):
        (savepoint / name).write_bytes(b"1")
    stores.remove_left({"runs"})
    assert len(list(savepoint.rglob("*"))) == 3
    assert recover(store, RecordingCommitter(), stores, lambda: 0).again[0].path == ""


def test_checkpoints_of_a_job_that_is_complete_are_removed(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    graph = take_checkpoints(make_job("a"), tmp_path, 7, 12)
    keep(store, graph)
    mark(store, graph)
    recover(store, RecordingCommitter(), JobCheckpointStores(str(tmp_path)), lambda: 0)
    assert not (tmp_path / "a").exists()


def test_a_job_that_was_completed_does_not_run_again_when_its_server_dies_while_it_removes_its_checkpoints(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    class Died(BaseException):
        pass

    class DiesBehind(JobCheckpointStores):
        def remove(self, graph: JobGraph, end: JobStatus) -> None:
            super().remove(graph, end)
            raise Died

    graph = take_checkpoints(make_job("a"), tmp_path, 7, 12)
    keep(store, graph)
    mark(store, graph)
    with pytest.raises(Died):
        recover(store, RecordingCommitter(), DiesBehind(str(tmp_path)), lambda: 0)
    unable = RecordingCommitter("a")
    assert recover(store, unable, JobCheckpointStores(str(tmp_path)), lambda: 0).again == ()
    assert unable.calls == []
    (ended,) = store.ended()
    assert (ended.details.status, store.kept()) == (JobStatus.FINISHED, ())


@pytest.mark.parametrize(
    ("end", "retention", "is_kept"),
    [
        (JobStatus.CANCELED, "DELETE_ON_CANCELLATION", False),
        (JobStatus.CANCELED, "RETAIN_ON_CANCELLATION", True),
        (JobStatus.FAILED, "DELETE_ON_CANCELLATION", True),
        (JobStatus.FAILED, "NO_EXTERNALIZED_CHECKPOINTS", False),
    ],
)
def test_a_job_whose_output_was_being_removed_ends_as_it_was_about_to(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path, end: JobStatus, retention: str, is_kept: bool
) -> None:
    graph = take_checkpoints(make_job("a"), tmp_path, 7)
    retained = graph.config | {"execution.checkpointing.externalized-checkpoint-retention": retention}
    keep(store, msgspec.structs.replace(graph, config=retained))
    cause = ErrorInfo("SS5001", "disk full") if end is JobStatus.FAILED else None
    store.mark_ending("a", end, cause)
    committer = RecordingCommitter()
    assert recover(store, committer, JobCheckpointStores(str(tmp_path)), lambda: 0).again == ()
    assert committer.calls == [("abort", "a", 0)]
    (ended,) = store.ended()
    assert (ended.details.status, ended.details.error) == (end, cause)
    assert (store.kept(), (tmp_path / "a").exists()) == ((), is_kept)
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["ended"]


def test_a_job_that_is_suspended_runs_again_though_its_hidden_output_was_being_removed(
    store: FileJobStore, make_job: MakeJob
) -> None:
    keep(store, make_job("a"))
    store.suspend(["a"])
    store.mark_ending("a", JobStatus.CANCELED, None)
    (again,) = recover(store, RecordingCommitter(), NONE, lambda: 0).again
    assert again.job.graph.job_id == "a"


def writing(job_id: str, sink: SinkSpec) -> JobGraph:
    mode, schema = ChangelogMode.INSERT_ONLY, sink.schema
    operator = ChainedOperator(0, "u0", "out", sink, NETWORK_INPUT, (schema,), (mode,), schema, mode)
    return JobGraph(job_id, "insert", (JobVertex("0" * 32, "out", (operator,), 1, 128),), ())


def test_a_job_that_writes_the_same_table_leaves_a_killed_servers_commit_to_that_server(
    store: FileJobStore, tmp_path: Path
) -> None:
    sink = SinkSpec("out", "duckdb", {"path": str(tmp_path / "out.duckdb")}, Schema.of(("k", sql.BIGINT)))
    files, mode, graph = LocalFiles(), ChangelogMode.INSERT_ONLY, writing("killed", sink)
    server = ClaimingStore(store, files)
    server.put(graph, encode_job_graph(graph))
    around = ConnectorContext("killed", "v", 0, 1, 0, 9, {}, lambda: 0, lambda name, n: None, files)
    writer = connector("duckdb").sink(sink, mode, around)
    writer.write(batch(sink.schema, [(1,)], mode))
    commits = (SinkCommit("0" * 32, 0, sink, tuple(writer.prepare_commit(LAST_CHECKPOINT_ID))),)
    store.mark_committing("killed", LAST_CHECKPOINT_ID, commits)
    server.close()
    (claim,) = server._claims["killed"]
    assert claim.lock is not None
    claim.lock.close()
    another = ClaimingStore(KeepNothing(), files)
    another.put(writing("another", sink), b"")
    another.close()
    assert recover(store, ConnectorCommitter(files), NONE, lambda: 0).again == ()
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as database:
        assert database.execute("SELECT * FROM out").fetchall() == [(1,)]


def test_a_cancellation_that_was_acknowledged_is_done_by_the_next_server(
    store: FileJobStore, make_job: MakeJob
) -> None:
    keep(store, make_job("a"))
    store.keep_end(CancelRequested("a"))
    committer = RecordingCommitter()
    assert recover(store, committer, NONE, lambda: 0).again == ()
    assert committer.calls == [("abort", "a", 0)]
    assert [job.details.status for job in store.ended()] == [JobStatus.CANCELED]
    assert store.kept() == ()


def test_a_stop_that_was_acknowledged_is_asked_for_again(store: FileJobStore, make_job: MakeJob) -> None:
    stop = SavepointRequested("a", "t", CheckpointKind.SYNC_SAVEPOINT, "/sp/savepoint-a-1", False, True)
    keep(store, make_job("a"))
    keep(store, make_job("b"))
    store.keep_end(stop)
    store.keep_end(
        SavepointRequested("b", "t", CheckpointKind.SYNC_SAVEPOINT, "/sp/savepoint-b-1", False, True)
    )
    store.forget_end("b")
    cluster = Refusing()
    submit_again(recover(store, RecordingCommitter(), NONE, lambda: 0), cluster, store, lambda: 0)
    assert (cluster.submitted, cluster.ended) == (["a", "b"], [stop])


def test_an_end_by_the_server_itself_is_none_that_is_kept(store: FileJobStore, make_job: MakeJob) -> None:
    keep(store, make_job("a"))
    store.suspend(["a"])
    store.keep_end(CancelRequested("a"))
    store.keep_end(CancelRequested("unknown"))
    assert [job.asked for job in store.kept()] == [None]


def test_a_job_with_which_two_servers_have_ended_is_set_aside_until_its_file_has_its_name_again(
    store: FileJobStore, make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    for job_id in ("a", "b"):
        keep(store, make_job(job_id))
    store.blame("a")
    again = recover(store, RecordingCommitter(), NONE, lambda: 0).again
    assert [found.job.graph.job_id for found in again] == ["a", "b"]
    store.blame("a")
    again = recover(store, RecordingCommitter(), NONE, lambda: 0).again
    assert [found.job.graph.job_id for found in again] == ["b"]
    (ended,) = store.ended()
    assert (ended.details.status, ended.details.error.code) == (JobStatus.FAILED, "SS6040")  # type: ignore[union-attr]
    path = store.kept_file("a")
    assert f'rename the file to "{path}"' in caplog.text
    assert store.aside() == {"a"}

    os.rename(path + ".aside", path)
    again = recover(store, RecordingCommitter(), NONE, lambda: 0).again
    assert [found.job.graph.job_id for found in again] == ["a", "b"]
    # The JobManager is not to take it for one that has ended.
    assert store.ended() == ()


def test_files_of_jobs_that_do_not_start_now_stay(
    store: FileJobStore, make_job: MakeJob, tmp_path: Path
) -> None:
    artifacts = ArtifactStore(lambda: str(tmp_path), kept_s=0)
    files = []
    for name in ("waits", "aside", "", "damaged"):
        data = name.encode()
        files.append(Artifact("model", hashlib.sha256(data).hexdigest(), len(data)))
        Path(artifacts.path(files[-1].digest)).write_bytes(data)
        if name:
            keep(store, replace(make_job(name), artifacts=(files[-1],)))
    store.set_aside("aside")
    Path(store.kept_file("damaged")).write_bytes(b"x")
    keep_files(store, artifacts)
    artifacts.sweep()
    assert [artifacts.size(f.digest) for f in files] == [5, 5, None, None]


def test_a_job_that_ends_the_process_while_it_is_taken_up_is_to_blame(
    store: FileJobStore, make_job: MakeJob
) -> None:
    keep(store, make_job("a"))

    class Dies(Refusing):
        def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
            self.blamed = store.blamed(graph.job_id)

    cluster = Dies()
    recover(store, RecordingCommitter(), NONE, lambda: 0)
    # A server has ended before it was through: the next one finds out with which job.
    submit_again(recover(store, RecordingCommitter(), NONE, lambda: 0), cluster, store, lambda: 0)
    assert (cluster.blamed, store.blamed("a")) == (1, 0)
    submit_again(recover(store, RecordingCommitter(), NONE, lambda: 0), cluster, store, lambda: 0)
    assert cluster.blamed == 0
    store.blame("a")
    store.suspend(["a"])
    assert store.blamed("a") == 0


def test_taking_up_jobs_writes_as_often_however_many_they_are(make_job: MakeJob, tmp_path: Path) -> None:
    class Counted(KeptFiles):
        changes = 0

        def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
            self.changes += 1
            super().change(changes, is_durable=is_durable)

    class Stores(Refusing):
        def submit(self, graph: JobGraph, is_recovered: bool = False) -> None:
            store.put(graph, encode_job_graph(graph))

    files, confirmed, kept = Counted(), list[int](), tmp_path / "checkpoints"
    store = FileJobStore(str(tmp_path / "jobs"), lambda: 0, ended_max=10, files=files)
    for job_id in ("a", "b", "c"):
        keep(store, take_checkpoints(make_job(job_id), kept, 7))
    files.changes = 0
    stores = JobCheckpointStores(str(kept), lambda: confirmed.append(1))
    found = recover(store, RecordingCommitter(), stores, lambda: 0)
    submit_again(found, Stores(), store, lambda: 0)
    assert [job.job.graph.job_id for job in found.again] == ["a", "b", "c"]
    assert (files.changes, confirmed) == (2, [])


def test_a_mistake_of_ours_with_one_job_keeps_no_other_from_running(
    store: FileJobStore, make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    class Breaks(RecordingCommitter):
        def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
            if job_id == "a":
                raise ZeroDivisionError

    for job_id in ("a", "b"):
        keep(store, make_job(job_id))
    again = recover(store, Breaks(), NONE, lambda: 0).again
    assert [found.job.graph.job_id for found in again] == ["b"]
    assert "its recovery broke off" in caplog.text
    assert [job.graph.job_id for job in store.kept()] == ["a", "b"]
