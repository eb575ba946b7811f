"""CANARY: two statements over the same rows of a job that runs on, exact differences, and each row once when one takes over."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_harness import RunningServer
from standalone_harness import check_first

from sqlstream.client.sessions.outcomes import Job, Text
from sqlstream.client.sessions.session import Session
from sqlstream.client.statements import canary as canary_statement
from sqlstream.client.statements import jobs as job_statements
from sqlstream.errors import SqlStreamError, UserError
from sqlstream.messages.client_rpc import SavepointRequest, StopWithSavepoint, TriggerSavepoint
from sqlstream.messages.job_state import JobStatus
from sqlstream.planner.dialect.parser import parse_statements
from sqlstream.runtime.embedded import EmbeddedCluster

DDL = """
CREATE TABLE numbers (n BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000000', 'fields.v.min' = '1', 'fields.v.max' = '9');
CREATE TABLE others (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000000');
CREATE TABLE totals (k BIGINT, c BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE written (n BIGINT, s STRING) WITH ('connector' = 'blackhole');
CREATE TABLE retracted (n BIGINT, s STRING) WITH ('connector' = 'print');
CREATE TABLE timed (n BIGINT, rt AS TO_TIMESTAMP_LTZ(n * 10, 3), WATERMARK FOR rt AS rt) WITH ('connector' = 'datagen',
  'rows-per-second' = '1000', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '100000000');
SET 'parallelism.default' = '2';
"""
TOTALS = "INSERT INTO totals SELECT n % 10, COUNT(*), SUM(n) FROM numbers GROUP BY n % 10"
ZEROED = "INSERT INTO totals SELECT n % 10, COUNT(*), CASE WHEN n % 10 = 4 THEN 0 ELSE SUM(n) END FROM numbers GROUP BY n % 10"
THIRDS = "INSERT INTO written SELECT n, CAST(v AS STRING) FROM numbers WHERE n % 3 = 0"
JOINED = "INSERT INTO written SELECT a.n, 'x' FROM numbers AS a JOIN others AS b ON a.n = b.n"
# Into a table that is told what an update replaces: values that come between depend on how the rows of two readers meet.
MINIMA = "INSERT INTO retracted SELECT n % 7, CAST(MIN(v) AS STRING) FROM numbers GROUP BY n % 7, n % 100"
WINDOWS = """INSERT INTO written SELECT COUNT(*), CAST(window_end AS STRING)
  FROM TUMBLE(TABLE timed, DESCRIPTOR(rt), INTERVAL '1' SECOND) GROUP BY window_start, window_end, n % 3"""
WAIT_S = 240


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """On a cluster whose jobs keep checkpoints below a directory of the test."""
    directory = tmp_path_factory.mktemp("canary")
    with EmbeddedCluster(in_process=True) as cluster:
        found = Session(cluster)
        execute(found, DDL)
        for key in ("execution.checkpointing.dir", "execution.checkpointing.savepoint-dir"):
            execute(found, f"SET '{key}' = '{directory}/{key[-7:]}'")
        yield found
        assert not list((directory / "int-dir").glob("*/_metadata")), "savepoints of canaries are removed"


def execute(session: Session, script: str) -> Any:
    outcome = None
    for statement in parse_statements(script):
        outcome = session.execute(statement)
    return outcome


def started(session: Session, insert: str) -> Job:
    job = execute(session, insert)
    assert isinstance(job, Job)
    deadline_s = time.monotonic() + WAIT_S
    while not session.cluster.metrics(job.id).total.get("numRecordsRead"):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return job


def canary(session: Session, job: Job, insert: str, options: str = "'duration' = '1 s'") -> Text:
    answer = execute(session, f"CANARY JOB '{job.id}' WITH ({options}) AS {insert}")
    assert isinstance(answer, Text)
    assert session.cluster.status(job.id).status in (JobStatus.RUNNING, JobStatus.FINISHED)
    return answer


def ended(session: Session, job: Job) -> None:
    session.cluster.cancel(job.id)
    session.cluster.wait(job.id, WAIT_S)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TOTALS, TOTALS.replace("SELECT n % 10", "SELECT n % 10 AS ten")),
        (THIRDS, THIRDS.replace("n % 3 = 0", "n % 3 = 0 AND v > 0")),
        (JOINED, JOINED),
        (MINIMA, MINIMA),
        (WINDOWS, WINDOWS),
    ],
    ids=["upserts", "other filter", "join", "retractions", "windows"],
)
def test_statements_that_mean_the_same_are_equal(session: Session, old: str, new: str) -> None:
    job = started(session, old)
    answer = canary(session, job, new)
    ended(session, job)
    found = re.fullmatch(r"equal: after 1\.0 s on the same ([\d,]+) rows", answer.text)
    assert found is not None, answer.text
    assert int(found[1].replace(",", "")) > 0
    assert not answer.is_failure


def test_values_that_differ_are_named_by_key_and_column(session: Session) -> None:
    job = started(session, TOTALS)
    answer = canary(session, job, ZEROED)
    ended(session, job)
    assert answer.is_failure
    assert re.match(
        r"different: 1 key, after 1\.0 s on the same [\d,]+ rows\n  1 other values of total\n", answer.text
    )
    assert "difference 1: k = 4: other values of total\n" in answer.text
    old, new = re.findall(r"\| (?:old|new) +\| 4 +\| (\d+) +\| (\d+) +\|", answer.text)
    assert (old[0], new[1]) == (new[0], "0")
    assert int(old[1]) % 10 == int(old[0]) * 4 % 10
    assert (
        "because of totals: its columns: total = CASE(((n % 10) = 4), 0, SUM(n)) instead of total = SUM(n)"
        in answer.text
    )


def test_rows_that_one_statement_alone_writes_are_counted_exactly(session: Session) -> None:
    job = started(session, THIRDS)
    answer = canary(session, job, THIRDS.replace("n % 3", "n % 6"), "'duration' = '1 s', 'shown' = '1000'")
    ended(session, job)
    read, differ = (
        int(re.search(pattern, answer.text)[1].replace(",", ""))  # type: ignore[index]
        for pattern in (r"the same ([\d,]+) rows", r"different: ([\d,]+) rows")
    )
    assert abs(differ - read / 6) <= 2
    assert f"  {differ:,} written by the old statement alone" in answer.text
    shown = [int(n) for n in re.findall(r"\| old \| (\d+) +\|", answer.text)]
    assert len(shown) == min(differ, 1000)
    assert {n % 6 for n in shown} == {3}


def test_a_canary_that_is_given_up_while_its_savepoint_is_taken_leaves_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given_up() -> None:
        raise KeyboardInterrupt

    job = started(session, TOTALS)
    monkeypatch.setattr(job_statements, "check_not_given_up", given_up)
    with pytest.raises(KeyboardInterrupt):
        canary(session, job, TOTALS)
    # One that follows is complete when the first one is, or is gone.
    session.cluster.take_savepoint(TriggerSavepoint(job.id, "following"))
    deadline_s = time.monotonic() + WAIT_S
    while not (status := session.cluster.savepoint_status(job.id, "following")).is_done:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    left = [str(path.parent) for path in Path(status.path).parent.glob("*/_metadata")]
    session.cluster.dispose_savepoint(status.path)
    ended(session, job)
    assert left == [status.path]


def test_a_canary_that_is_given_up_while_it_is_stopped_leaves_no_savepoint(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[tuple[str, str]] = []
    take = EmbeddedCluster.take_savepoint

    def take_savepoint(cluster: EmbeddedCluster, request: SavepointRequest) -> None:
        take(cluster, request)
        if isinstance(request, StopWithSavepoint):
            stopped.append((request.job_id, request.trigger_id))
            while not cluster.savepoint_status(request.job_id, request.trigger_id).is_done:
                time.sleep(0.02)
            raise KeyboardInterrupt

    job = started(session, TOTALS)
    monkeypatch.setattr(EmbeddedCluster, "take_savepoint", take_savepoint)
    with pytest.raises(KeyboardInterrupt):
        canary(session, job, TOTALS)
    ((of_canary, trigger_id),) = stopped
    path = session.cluster.savepoint_status(of_canary, trigger_id).path
    ended(session, job)
    assert path
    assert not Path(path).exists()


def test_a_job_that_ends_just_before_it_would_be_stopped_is_compared_all_the_same(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = canary_statement.stop_with_savepoint

    def stop_too_late(*asked: Any) -> str:
        ended(session, job)
        return stop(*asked)

    job = started(session, TOTALS)
    monkeypatch.setattr(canary_statement, "stop_with_savepoint", stop_too_late)
    answer = execute(
        session, f"CANARY JOB '{job.id}' WITH ('duration' = '1 s', 'promote' = 'always') AS {TOTALS}"
    )
    assert answer.text.startswith("equal: after 1.0 s")
    assert answer.text.endswith(f"not promoted: job {job.id} has ended meanwhile")


def test_what_cannot_be_compared_is_refused_and_the_job_runs_on(session: Session) -> None:
    job = started(session, TOTALS)
    jobs = len(session.cluster.jobs())
    hinted = "FROM numbers /*+ OPTIONS('rows-per-second' = '5') */"
    for insert, options, code in (
        ("INSERT INTO written SELECT n, 'x' FROM numbers", "", "SS5450"),
        (TOTALS.replace("FROM numbers", hinted), "", "SS5451"),
        (TOTALS.replace("SUM", "MAX"), "", "SS5453"),
        (TOTALS, "WITH ('duration' = '8 d')", "SS5454"),
    ):
        with pytest.raises(UserError) as refused:
            execute(session, f"CANARY JOB '{job.id}' {options} AS {insert}")
        assert refused.value.code == code
        assert refused.value.span is not None
    assert len(session.cluster.jobs()) == jobs
    execute(session, "SET 'execution.state-recovery.ignore-unclaimed-state' = 'true'")
    answer = canary(session, job, TOTALS.replace("SUM", "MAX"))
    execute(session, "RESET 'execution.state-recovery.ignore-unclaimed-state'")
    assert "different: 10 keys, " in answer.text
    assert "other values of c, total" in answer.text
    assert "because of GROUP BY (n % 10) (COUNT(*), MAX(n))" in answer.text
    ended(session, job)
    with pytest.raises(UserError) as gone:
        execute(session, f"CANARY JOB '{job.id}' AS {TOTALS}")
    assert gone.value.code == "SS3540"


# Behind a server: it takes over with each row once, and a failed canary harms nobody.

RATE = 500
SCRIPT = (
    "SET 'parallelism.default' = '2'",
    "CREATE TABLE rows_in (n BIGINT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', "
    f"'fields.n.end' = '{10**12}', 'rows-per-second' = '{RATE}')",
    "CREATE TABLE rows_out (n BIGINT, how STRING) WITH ('connector' = 'filesystem', 'path' = '{0}/out', 'format' = 'csv')",
    "SET 'execution.checkpointing.interval' = '200 ms'",
    "SET 'execution.checkpointing.savepoint-dir' = '{0}/saved'",
)
OLD = "INSERT INTO rows_out SELECT n, 'old' FROM rows_in"
NEW = "INSERT INTO rows_out SELECT n, 'new' FROM rows_in"


def written(directory: Path) -> list[tuple[int, str]]:
    files = [path for path in (directory / "out").iterdir() if not path.name.startswith(".")]
    lines = [line.split(",") for path in files for line in path.read_text().split()]
    return sorted((int(n), how) for n, how in lines)


def check_old(directory: Path, count: int) -> None:
    """The old statement has written each of so many rows that it has read."""
    rows = written(directory)
    assert (len(rows), {how for _, how in rows}) == (count, {"old"})
    check_first([n for n, _ in rows], RATE)


def begun(server: RunningServer, directory: Path) -> tuple[str, str]:
    session = server.open_session()
    for statement in SCRIPT:
        server.execute(session, statement.replace("{0}", str(directory)))
    job_id = server.insert(session, OLD)
    server.wait_until_checkpointed(job_id, 2)
    return session, job_id


def test_the_statement_that_takes_over_goes_on_with_each_row_once_also_after_a_kill(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        session, job_id = begun(server, tmp_path)
        ((kept,),) = server.execute(
            session, f"CANARY JOB '{job_id}' WITH ('duration' = '1 s', 'promote' = 'if-equal') AS {NEW}"
        )
        assert "written by the new statement alone" in kept
        assert kept.endswith(f"not promoted: job {job_id} runs on as it is")
        assert server.statuses()[job_id] == "RUNNING"
        ((told,),) = server.execute(
            session, f"CANARY JOB '{job_id}' WITH ('duration' = '1 s', 'promote' = 'always') AS {NEW}"
        )
        found = re.search(
            rf"promoted: job {job_id} has ended with the savepoint \S+, and job (\w+) goes on", told
        )
        assert found is not None, told
        assert server.statuses()[job_id] == "FINISHED"
        server.wait_until_checkpointed(found[1], 1)
        server.kill()
    with RunningServer(tmp_path / "data") as server:
        server.wait_until_checkpointed(found[1], 1)
        server.finish(found[1])
    rows = written(tmp_path)
    # None was read by both statements, and none by neither.
    check_first([n for n, _ in rows], RATE)
    check_first([n for n, how in rows if how == "old"], RATE)
    assert {how for _, how in rows} == {"old", "new"}


def canary_of(server: RunningServer, job_id: str) -> str:
    """The job of the canary, once a task of it runs."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        others = [id for id, status in server.statuses().items() if status == "RUNNING" and id != job_id]
        if others and server.get(f"/jobs/{others[0]}")["status-counts"]["RUNNING"]:
            return others[0]
        time.sleep(0.05)
    raise AssertionError(server.errors()[-3000:])


def test_a_canary_that_is_cancelled_ends_and_leaves_the_job_and_no_savepoint(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        session, job_id = begun(server, tmp_path)
        submitted = server.submit(session, f"CANARY JOB '{job_id}' WITH ('duration' = '1 h') AS {NEW}")
        operation = submitted.json()["operationHandle"]
        other = canary_of(server, job_id)
        server.request("POST", f"/v3/sessions/{session}/operations/{operation}/cancel")
        assert server.wait_for(other, "CANCELED") == "CANCELED"
        assert server.statuses()[job_id] == "RUNNING"
        deadline_s = time.monotonic() + WAIT_S
        while list((tmp_path / "saved").rglob("*")):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        server.request("PATCH", f"/jobs/{job_id}?mode=cancel", rest=True)
        server.wait_for(job_id, "CANCELED")


def test_the_savepoint_of_a_canary_goes_with_the_next_start_of_a_server_that_is_killed(
    tmp_path: Path,
) -> None:
    with RunningServer(tmp_path / "data") as server:
        session, job_id = begun(server, tmp_path)
        server.submit(session, f"CANARY JOB '{job_id}' WITH ('duration' = '1 h') AS {NEW}")
        canary_of(server, job_id)
        assert list((tmp_path / "saved").rglob("_metadata"))
        server.kill()
    with RunningServer(tmp_path / "data") as server:
        assert not list((tmp_path / "saved").rglob("*"))
        server.wait_for(job_id, "RUNNING")
        check_old(tmp_path, server.finish(job_id))


def test_a_canary_whose_processes_are_killed_fails_alone(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        session, job_id = begun(server, tmp_path)
        said: list[BaseException | list[list[Any]]] = []

        def compare() -> None:
            try:
                said.append(
                    server.execute(session, f"CANARY JOB '{job_id}' WITH ('duration' = '60 s') AS {NEW}")
                )
            except BaseException as error:
                said.append(error)

        thread = threading.Thread(target=compare)
        thread.start()
        other = canary_of(server, job_id)
        for child in server.task_managers():
            child.kill()
        thread.join(WAIT_S)
        (outcome,) = said
        assert isinstance(outcome, BaseException | SqlStreamError), outcome
        assert server.statuses()[other] == "FAILED"
        server.wait_for(job_id, "RUNNING")
        check_old(tmp_path, server.finish(job_id))
