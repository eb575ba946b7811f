"""Jobs are on disk while they run, and what is known of ended ones afterwards."""

from __future__ import annotations

import itertools
import os
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from committable_harness import file_of

from sqlstream.client.server.job_store import FileJobStore, KeptCommitter
from sqlstream.client.server.kept_file import KeptFiles, sealed
from sqlstream.client.server.leaders.leadership import no_leader
from sqlstream.client.sessions.served_files import inferring_job
from sqlstream.errors import ErrorInfo, ExternalError, InternalError
from sqlstream.graph.job_graph import JobGraph, encode_job_graph
from sqlstream.messages.job_state import JobStatus
from sqlstream.runtime.jobmanager.events import EndedJob, SinkCommit
from sqlstream.schema import Schema
from sqlstream.specs import SinkSpec

MakeJob = Callable[..., JobGraph]
MakeEnded = Callable[..., EndedJob]
COMMITS = (SinkCommit("v", 3, SinkSpec("out", "filesystem", {"path": "/t"}, Schema(())), (file_of("a"),)),)

ENDED_MAX = 5


def store_in(path: Path) -> FileJobStore:
    """A store whose clock advances with every look."""
    clock = itertools.count(len(os.listdir(path)) * 100 if path.exists() else 0)
    return FileJobStore(str(path), lambda: next(clock), ended_max=ENDED_MAX)


def keep(store: FileJobStore, job: JobGraph) -> None:
    store.put(job, encode_job_graph(job))


def test_a_job_is_kept_until_it_has_ended(tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded) -> None:
    store = store_in(tmp_path / "jobs")
    jobs = [make_job(name) for name in ("b", "a", "c")]
    for job in jobs:
        keep(store, job)
    again = store_in(tmp_path / "jobs")
    assert [kept.graph for kept in again.kept()] == jobs
    assert [kept.commits for kept in again.kept()] == [None, None, None]
    failed = make_ended("b", JobStatus.FAILED, ErrorInfo("SS5001", "disk full"))
    again.remove("b", failed)
    assert [kept.graph.job_id for kept in store_in(tmp_path / "jobs").kept()] == ["a", "c"]
    assert store_in(tmp_path / "jobs").ended() == (failed,)


def test_a_job_of_another_version_stays_for_the_release_that_reads_it(
    tmp_path: Path, make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path / "jobs")
    keep(store, make_job("a"))
    path = tmp_path / "jobs" / "a.job"
    for version, release, said in (
        (
            1,
            {},
            "in version 1 of the format of jobs",
        ),
        (
            3,
            {"release": "0.4.0"},
            "written by sqlstream 0.4.0 in version 3 of the format of jobs",
        ),
    ):
        content = {"version": version, "graph": "of another shape", **release}
        path.write_bytes(sealed(msgspec.msgpack.encode(content)))
        assert store.kept() == ()
        assert said in caplog.text
        assert [entry.name for entry in (tmp_path / "jobs").glob("a.*")] == ["a.job"]
    assert "use sqlstream 0.4.0 or a later release" in caplog.text


def test_only_this_user_may_read_what_is_kept(
    tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded
) -> None:
    store = store_in(tmp_path / "jobs")
    keep(store, make_job("a"))
    store.mark_committing("a", 7, COMMITS)
    store.put_ended(make_ended("b"))
    modes = {p.is_dir(): set() for p in (tmp_path, tmp_path / "jobs" / "a.job")}  # type: dict[bool, set[int]]
    for path in (tmp_path / "jobs").rglob("*"):
        modes[path.is_dir()].add(stat.S_IMODE(path.stat().st_mode))
    assert modes == {True: {0o700}, False: {0o600}}


def test_a_last_commit_that_may_have_begun_is_known_after_a_restart(
    tmp_path: Path, make_job: MakeJob
) -> None:
    store = store_in(tmp_path / "jobs")
    keep(store, make_job("a"))
    calls: list[str] = []

    class Recording:
        def commit(
            self, job_id: str, checkpoint_id: int, commits: tuple[SinkCommit, ...], is_last: bool = False
        ) -> None:
            (kept,) = store_in(tmp_path / "jobs").kept()
            calls.append(f"commit {checkpoint_id} {(kept.checkpoint_id, kept.commits) == (8, COMMITS)}")

        def remove_staged(self, job_id: str, staged: Any) -> None: ...

        def abort(self, job_id: str, commits: tuple[SinkCommit, ...]) -> None:
            calls.append("abort")

    committer = KeptCommitter(store, Recording())
    committer.commit("a", 7, COMMITS)
    committer.commit("a", 8, COMMITS, is_last=True)
    assert store_in(tmp_path / "jobs").kept()[0].commits == COMMITS
    committer.abort("a", (msgspec.structs.replace(COMMITS[0], committables=(file_of("left"),)),))
    assert store_in(tmp_path / "jobs").kept()[0].commits == COMMITS
    committer.abort("a", COMMITS)
    assert store_in(tmp_path / "jobs").kept()[0].commits is None
    assert calls == ["commit 7 False", "commit 8 True", "abort", "abort"]


def test_a_suspended_job_stays_unless_it_finished_first(
    tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded
) -> None:
    store = store_in(tmp_path / "jobs")
    for name in ("a", "b", "c"):
        keep(store, make_job(name))
    store.suspend(["a", "b"])
    store.remove("a", make_ended("a", JobStatus.CANCELED))
    store.remove("b", make_ended("b", JobStatus.FINISHED))
    store.remove("c", make_ended("c", JobStatus.CANCELED))
    again = store_in(tmp_path / "jobs")
    assert [kept.graph.job_id for kept in again.kept()] == ["a"]
    assert [job.details.job_id for job in again.ended()] == ["b", "c"]


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "version"])
def test_a_damaged_file_is_set_aside_and_stops_nothing(
    tmp_path: Path, make_job: MakeJob, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path / "jobs")
    keep(store, make_job("a"))
    keep(store, make_job("b"))
    path = tmp_path / "jobs" / "a.job"
    data = path.read_bytes()
    flipped = data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]
    path.write_bytes({"cut": data[:-1], "bit": flipped, "empty": b"", "version": b"\0" * 40}[damage])
    assert [kept.graph.job_id for kept in store_in(tmp_path / "jobs").kept()] == ["b"]
    assert (tmp_path / "jobs" / "a.job.damaged").exists()
    assert f"could not read the kept job {path}" in caplog.text


def test_a_job_whose_commits_are_not_known_does_not_run_again(tmp_path: Path, make_job: MakeJob) -> None:
    store = store_in(tmp_path / "jobs")
    keep(store, make_job("a"))
    store.mark_committing("a", 7, COMMITS)
    (tmp_path / "jobs" / "a.commits").write_bytes(b"?")
    assert store_in(tmp_path / "jobs").kept() == ()
    assert (tmp_path / "jobs" / "a.job.damaged").exists()


def test_the_newest_ended_jobs_are_kept(tmp_path: Path, make_ended: MakeEnded) -> None:
    store = store_in(tmp_path / "jobs")
    for number in range(ENDED_MAX + 3):
        store.put_ended(make_ended(f"j{number}"))
        os.utime(tmp_path / "jobs" / "ended" / f"j{number}.job", (number, number))
    assert [job.details.job_id for job in store.ended()] == [f"j{n}" for n in range(3, ENDED_MAX + 3)]


def test_the_newest_are_those_that_ended_last_also_where_the_files_are_copies(
    tmp_path: Path, make_ended: MakeEnded
) -> None:
    store = store_in(tmp_path / "jobs")
    for number in range(ENDED_MAX):
        store.put_ended(make_ended(f"j{number}"))
    for number in range(ENDED_MAX):
        # As a server writes them that takes the place of another one.
        age = 1_000_000 - number
        os.utime(tmp_path / "jobs" / "ended" / f"j{number}.job", (age, age))
    again = store_in(tmp_path / "jobs")
    assert len(again.ended()) == ENDED_MAX
    again.put_ended(make_ended("new"))
    names = [job.details.job_id for job in again.ended()]
    assert names == [*(f"j{number}" for number in range(1, ENDED_MAX)), "new"]


def test_a_checkpoint_that_is_stored_while_its_job_is_removed_leaves_no_mark(
    tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded
) -> None:
    class Slow(KeptFiles):
        """Has another thread remove the job when it is known to be there, and before the mark is written."""

        def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
            if changes.get(str(tmp_path / "led" / "a.saved")) is not None:
                removing.start()
                removing.join(0.3)
            super().change(changes, is_durable=is_durable)

    store = led_store(tmp_path, Slow())
    removing = threading.Thread(target=store.remove, args=("a", make_ended("a")))
    keep(store, make_job("a"))
    store.mark_saved("a", 7)
    removing.join()
    assert os.listdir(tmp_path / "led") == ["ended"]


def test_a_job_whose_end_has_no_room_is_removed_all_the_same_as_it_would_run_again(
    tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(KeptFiles):
        def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
            if any("ended" in path for path in changes):
                raise ExternalError("SS6082", '"ended" would take more than there is')
            super().change(changes, is_durable=is_durable)

    store = led_store(tmp_path, Full())
    keep(store, make_job("a"))
    store.remove("a", make_ended("a"))
    assert (led_store(tmp_path).kept(), led_store(tmp_path).ended()) == ((), ())
    assert os.listdir(tmp_path / "kept") == []
    assert "what is known of the job's end is not kept" in caplog.text


def test_ended_jobs_are_kept_for_a_time_and_not_at_all_when_they_are_to_be_in_memory_alone(
    tmp_path: Path, make_ended: MakeEnded
) -> None:
    path, now = tmp_path / "jobs", [1000]
    store = FileJobStore(str(path), lambda: now[0], ENDED_MAX, expiration_ms=100)
    store.put_ended(make_ended("early"))
    now[0] = 1099
    store.put_ended(make_ended("late"))
    assert [job.details.job_id for job in store.ended()] == ["early", "late"]
    now[0] = 1100
    assert [job.details.job_id for job in store.ended()] == ["late"]
    assert [entry.name for entry in (path / "ended").iterdir()] == ["late.job"]
    FileJobStore(str(path), lambda: now[0], 0).put_ended(make_ended("unkept"))
    assert [entry.name for entry in (path / "ended").iterdir()] == ["late.job"]


def test_what_is_kept_of_a_job_that_has_ended_holds_no_password(
    tmp_path: Path, make_ended: MakeEnded
) -> None:
    ended = make_ended("j1")
    *others, vertex = ended.job_graph.vertices
    sink = SinkSpec("t", "jdbc", {"password": "hunter2", "path": "/t"}, Schema(()))
    operator = msgspec.structs.replace(vertex.operators[-1], spec=sink)
    vertex = msgspec.structs.replace(vertex, operators=(operator,))
    graph = msgspec.structs.replace(
        ended.job_graph, vertices=(*others, vertex), config={"s3.secret-key": "hunter2"}
    )
    store = store_in(tmp_path / "jobs")
    store.put_ended(msgspec.structs.replace(ended, job_graph=graph))
    assert b"hunter2" not in (tmp_path / "jobs" / "ended" / "j1.job").read_bytes()
    (kept,) = store.ended()
    assert kept.job_graph.config == {"s3.secret-key": "******"}
    (operator,) = kept.job_graph.vertices[-1].operators
    assert operator.spec.options == {"password": "******", "path": "/t"}


def test_the_end_of_what_a_statement_asked_while_it_was_planned_is_not_kept(
    tmp_path: Path, make_ended: MakeEnded
) -> None:
    store = store_in(tmp_path / "jobs")
    asking = inferring_job({"connector": "filesystem", "path": "a.csv"}, "a", {})
    store.put_ended(msgspec.structs.replace(make_ended("a"), job_graph=asking))
    assert store.ended() == ()


def test_what_a_killed_server_left_half_written_is_removed(tmp_path: Path, make_job: MakeJob) -> None:
    keep(store_in(tmp_path / "jobs"), make_job("a"))
    (tmp_path / "jobs" / "b.job.0123.draft").write_bytes(b"half")
    assert [kept.graph.job_id for kept in store_in(tmp_path / "jobs").kept()] == ["a"]
    assert not list((tmp_path / "jobs").glob("*.draft"))


def test_an_id_that_could_lead_elsewhere_names_no_file(tmp_path: Path, make_job: MakeJob) -> None:
    with pytest.raises(InternalError, match="cannot name a file"):
        keep(store_in(tmp_path / "jobs"), make_job("../a"))


def test_a_job_that_cannot_be_written_is_an_error_that_names_the_file(
    tmp_path: Path, make_job: MakeJob
) -> None:
    store = store_in(tmp_path / "jobs")
    (tmp_path / "jobs" / "ended").rmdir()
    (tmp_path / "jobs").rmdir()
    with pytest.raises(ExternalError, match=r"could not write .*a\.job") as caught:
        keep(store, make_job("a"))
    assert caught.value.code == "SS5001"


class Taken(KeptFiles):
    """Files that another server has taken."""

    def change(self, changes: Mapping[str, bytes | None], *, is_durable: bool = True) -> None:
        raise no_leader()

    def check_owner(self) -> None:
        raise no_leader()


def led_store(path: Path, files: KeptFiles | None = None) -> FileJobStore:
    """That of a server which leads others."""
    return FileJobStore(
        str(path / "led"), lambda: 0, ended_max=ENDED_MAX, marks_directory=str(path / "kept"), files=files
    )


def test_of_a_server_that_leads_the_newest_checkpoint_is_the_one_that_is_noted(
    tmp_path: Path, make_job: MakeJob, caplog: pytest.LogCaptureFixture
) -> None:
    store, job = led_store(tmp_path), make_job("a")
    keep(store, job)
    assert [kept.newest_id for kept in store.kept()] == [0]
    store.mark_saved("a", 7)
    assert [kept.newest_id for kept in led_store(tmp_path).kept()] == [7]
    (tmp_path / "led" / "a.saved").write_bytes(b"damaged")
    # None of its checkpoints would count, and all would be removed.
    assert led_store(tmp_path).kept() == ()
    assert "the newest of its checkpoints is not known" in caplog.text


def test_a_server_whose_place_was_taken_changes_nothing(
    tmp_path: Path, make_job: MakeJob, make_ended: MakeEnded
) -> None:
    keep(led_store(tmp_path), make_job("a"))
    store = led_store(tmp_path, Taken())
    for change in (
        lambda: keep(store, make_job("b")),
        lambda: store.mark_saved("a", 1),
        lambda: store.mark_ending("a", JobStatus.FAILED, None),
        lambda: store.remove("a", make_ended("a", JobStatus.FINISHED)),
        store.check_leads,
    ):
        with pytest.raises(ExternalError, match="leads no longer"):
            change()
    assert "a.job" in os.listdir(tmp_path / "kept")
    assert os.listdir(tmp_path / "led" / "ended") == []


def test_temporary_savepoints_are_known_to_the_next_server_until_they_are_gone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for name in ("one", "two"):
        store.mark_temporary(f"/saved/{name}/", True)
    store.mark_temporary("/saved/one", False)
    store.mark_temporary("/saved/unknown", False)
    assert store_in(tmp_path).temporary() == ("/saved/two/",)
    assert store_in(tmp_path).kept() == ()
