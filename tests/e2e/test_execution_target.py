"""`execution.target = remote`: plans are made by the command, and run by a server of the same machine and user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_harness import SQLSTREAM, Process, environment, run_to_end
from server_harness import POLL_S, RunningServer

import sqlstream
from sqlstream import __version__
from sqlstream.client.sessions.target_session import remote_cluster, target_session
from sqlstream.errors import ExternalError, UserError, render_error

pytestmark = pytest.mark.timeout(300)
WAIT_S = 60.0
ENDLESS = """
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '{first}', 'fields.n.end' = '1000000000');
CREATE TABLE lines (n BIGINT) WITH ('connector' = 'print');
CREATE TABLE gone (n BIGINT) WITH ('connector' = 'blackhole');
"""
BOUNDED = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("target") / "data") as running:
        yield running


def remote(directory: Path) -> list[str]:
    return ["--set", "execution.target=remote", "--set", f"sqlstream.data-dir={directory}"]


def run(directory: Path, cwd: Path, sql: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run_to_end([*SQLSTREAM, "run", *remote(directory), *words, "-"], cwd=cwd, stdin=sql)


class Client:
    """A `sqlstream run` with a remote target that is left running. Leaving it kills the process."""

    def __init__(self, directory: Path, sql: str, *words: str, **options: Any) -> None:
        self.process = Process(
            [*SQLSTREAM, "run", *remote(directory), "--changelog", "--format", "csv", *words, "-c", sql],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=options.get("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def end(self) -> tuple[int, str]:
        """The exit code and what was written to standard error."""
        _, errors = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, errors


def new_job(server: RunningServer, before: set[str]) -> str:
    """The id of the one job that has come since."""
    deadline_s = time.monotonic() + WAIT_S
    while not (new := set(server.statuses()) - before):
        assert time.monotonic() < deadline_s
        time.sleep(POLL_S)
    (job_id,) = new
    return job_id


def test_a_script_prints_the_same_as_on_a_cluster_of_its_own(server: RunningServer, tmp_path: Path) -> None:
    script = (
        BOUNDED.format(rows=5)
        + """
        CREATE TABLE lines (n BIGINT) WITH ('connector' = 'print');
        CREATE TABLE files (n BIGINT, label STRING) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');
        SHOW TABLES;
        SELECT 1 + 1 AS two;
        INSERT INTO lines SELECT n * 10 FROM numbers;
        INSERT INTO files SELECT n, 'odd' FROM numbers WHERE n % 2 = 1;
        SELECT label, COUNT(*) AS c, SUM(n) AS s FROM files GROUP BY label;
        """
    )
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    locally = run_to_end([*SQLSTREAM, "run", "--quiet", "-"], cwd=here, stdin=script)
    remotely = run(server.directory, there, script, "--quiet")
    assert (remotely.returncode, remotely.stdout, remotely.stderr) == (0, locally.stdout, "")
    assert "+I[50]\n" in remotely.stdout
    assert "| odd   | 3 | 9 |" in remotely.stdout
    # A relative path is the command's, and not the server's.
    assert sorted(p.read_text() for p in (there / "out").iterdir()) == ["1,odd\n3,odd\n5,odd\n"]


def test_rows_that_cannot_be_decoded_are_shown_and_counted(server: RunningServer, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1\nx\n3\n")
    script = """CREATE TABLE rows_ (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'rows.csv', 'format' = 'csv',
      'csv.ignore-parse-errors' = 'true');
      SELECT n FROM rows_;"""
    remotely = run(server.directory, tmp_path, script)
    locally = run_to_end([*SQLSTREAM, "run", "-"], cwd=tmp_path, stdin=script)
    assert remotely.stdout == locally.stdout
    # A plan for another process names files by their whole path.
    expected = locally.stderr.replace("rejected: rows.csv", f"rejected: {tmp_path}/rows.csv")
    assert (remotely.returncode, remotely.stderr) == (0, expected)
    assert "1 row of table" in expected


def test_a_failed_job_underlines_the_sql_of_the_command(server: RunningServer, tmp_path: Path) -> None:
    failed = run(
        server.directory,
        tmp_path,
        BOUNDED.format(rows=5) + "SELECT n / (n - 3) AS q FROM numbers;",
        "--quiet",
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith("error[SS")
    assert "SELECT n / (n - 3) AS q FROM numbers;" in failed.stderr
    assert "^" in failed.stderr


def test_ctrl_c_cancels_the_job(server: RunningServer) -> None:
    before = set(server.statuses())
    sql = ENDLESS.format(first=1) + "INSERT INTO lines SELECT n FROM ticks"
    with Client(server.directory, sql) as client:
        assert client.line() == "+I[1]"
        client.process.send_signal(signal.SIGINT)
        code, errors = client.end()
    assert (code, errors.splitlines()[-1]) == (130, "interrupted")
    assert server.wait_for(new_job(server, before), "CANCELED")


def test_a_query_ends_with_a_client_that_is_killed(server: RunningServer) -> None:
    before = set(server.statuses())
    with Client(server.directory, ENDLESS.format(first=1) + "SELECT n FROM ticks") as client:
        assert client.line() == "op,n"
        assert client.line() == "+I,1"
        job_id = new_job(server, before)
        assert server.statuses()[job_id] == "RUNNING"
        client.process.kill()
        server.wait_for(job_id, "CANCELED")


def test_an_insert_runs_on_without_its_client_and_prints_into_the_servers_log(server: RunningServer) -> None:
    before = set(server.statuses())
    sql = ENDLESS.format(first=7000000) + "INSERT INTO lines SELECT n FROM ticks"
    with Client(server.directory, sql) as client:
        assert client.line() == "+I[7000000]"
        job_id = new_job(server, before)
        client.process.kill()
        client.process.wait()
    deadline_s = time.monotonic() + WAIT_S
    while "+I[70000" not in server.errors():
        assert time.monotonic() < deadline_s
        time.sleep(POLL_S)
    assert server.statuses()[job_id] == "RUNNING"
    # What the client has printed is not printed again.
    assert "+I[7000000]" not in server.errors()
    assert server.request("PATCH", f"/jobs/{job_id}", rest=True).status_code == 202
    server.wait_for(job_id, "CANCELED")


def test_a_reader_of_the_printed_lines_that_leaves_ends_the_job(server: RunningServer) -> None:
    before = set(server.statuses())
    sql = ENDLESS.format(first=1) + "INSERT INTO lines SELECT n FROM ticks"
    with Client(server.directory, sql) as client:
        assert client.line() == "+I[1]"
        assert client.process.stdout is not None
        client.process.stdout.close()
        assert client.process.wait(WAIT_S) == 141
    server.wait_for(new_job(server, before), "CANCELED")


def test_two_clients_get_what_is_theirs(server: RunningServer) -> None:
    insert = "INSERT INTO lines SELECT n FROM ticks"
    with (
        Client(server.directory, ENDLESS.format(first=100) + insert) as one,
        Client(server.directory, ENDLESS.format(first=900) + insert) as other,
    ):
        assert [one.line() for _ in range(20)] == [f"+I[{n}]" for n in range(100, 120)]
        assert [other.line() for _ in range(20)] == [f"+I[{n}]" for n in range(900, 920)]
        for client in (one, other):
            client.process.send_signal(signal.SIGTERM)
            assert client.end()[0] == 143


def test_what_the_server_changes_for_others_is_in_its_audit_log(
    server: RunningServer, tmp_path: Path
) -> None:
    before = set(server.statuses())
    script = BOUNDED.format(rows=1) + "SELECT n FROM numbers;"
    assert run(server.directory, tmp_path, script).returncode == 0
    job_id = new_job(server, before)
    text = (server.directory / "audit" / "audit-000001.log").read_text()
    (record,) = [json.loads(line) for line in text.splitlines() if job_id in line]
    assert record["event"] == "request"
    assert (record["user"], record["address"], record["method"]) == ("local", "control", "SubmitJob")


def test_only_the_servers_user_reads_the_secret(server: RunningServer) -> None:
    path = server.directory / "server.json"
    assert path.stat().st_mode & 0o777 == 0o600
    secret = json.loads(path.read_text())["control-secret"]
    assert len(secret) >= 32
    assert secret not in server.errors()


def damaged(server: RunningServer, directory: Path, **changes: str) -> Path:
    """A data directory whose server.json differs from the server's."""
    found = json.loads((server.directory / "server.json").read_text())
    directory.mkdir()
    (directory / "server.json").write_text(json.dumps({**found, **changes}))
    return directory


def test_a_server_that_cannot_be_used_is_told_before_anything_runs(
    server: RunningServer, tmp_path: Path
) -> None:
    def refusal(directory: Path) -> str:
        with pytest.raises(ExternalError) as refused:
            remote_cluster(str(directory))
        return render_error(refused.value)

    nowhere = run(tmp_path / "nowhere", tmp_path, "SELECT 1;")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert nowhere.stderr.startswith(
        f'error[SS6037]: no server runs in "{tmp_path}/nowhere"\nhint: start one'
    )
    wrong = refusal(damaged(server, tmp_path / "wrong", **{"control-secret": "guessed"}))
    assert wrong.startswith("error[SS6032]: the server refuses the secret of this command\nhint: ")
    gone = refusal(damaged(server, tmp_path / "gone", **{"control-address": f"unix:{tmp_path}/socket"}))
    assert gone.startswith("error[SS6015]: could not reach the JobManager: ")
    old = refusal(damaged(server, tmp_path / "old", **{"control-address": ""}))
    assert "takes no plans: it is of an earlier release\nhint: restart it" in old
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "server.json").write_text("{")
    assert refusal(tmp_path / "broken").startswith("error[SS6037]: could not read which server runs in")


def test_a_client_of_another_release_is_refused(server: RunningServer) -> None:
    from contextlib import closing

    from sqlstream.client.clusters.server_file import read_server_file
    from sqlstream.messages.client_rpc import AttachClient, RequestFailed, decode_client_event
    from sqlstream.messages.rpc import encode_message
    from sqlstream.runtime.net.flight import FlightConnections

    found = read_server_file(str(server.directory))
    assert found.version == __version__
    for attach in (AttachClient("a", "0.0.1"), AttachClient("b", __version__, protocol_version=99)):
        with closing(FlightConnections(found.control_secret)) as connections:
            stream = connections.attach(found.control_address, encode_message(attach))
            (event,) = [decode_client_event(data) for data in stream]
        assert isinstance(event, RequestFailed)
        assert event.error.code == "SS6033"
        assert f"the server is sqlstream {__version__}" in event.error.message


def test_what_belongs_to_a_cluster_is_refused_on_the_command_line(
    server: RunningServer, tmp_path: Path
) -> None:
    refused = run(server.directory, tmp_path, "SELECT 1;", "--task-managers", "2")
    assert refused.returncode == 2
    expected = "error[SS4003]: --task-managers is for a cluster that the command starts"
    assert refused.stderr.startswith(expected)
    config = {"execution.target": "remote", "sqlstream.data-dir": str(server.directory)}
    with (
        pytest.raises(UserError, match=r'option "heartbeat\.interval" is for a cluster') as caught,
        target_session({**config, "heartbeat.interval": "1 s"}),
    ):
        pass
    assert caught.value.code == "SS4003"


@pytest.mark.parametrize("command", [["server"], ["bench", "nexmark", "--queries", "q0", "--events", "10"]])
def test_a_command_with_a_cluster_of_its_own_takes_no_target(command: list[str]) -> None:
    refused = run_to_end([*SQLSTREAM, *command, "--set", "execution.target=remote"])
    assert refused.returncode == 2
    assert refused.stderr.startswith(
        f"error[SS4003]: sqlstream {command[0]} runs jobs in a cluster of its own"
    )


def test_a_target_of_flink_that_there_is_not_is_named() -> None:
    with (
        pytest.raises(
            UserError, match=r'"execution\.target" cannot be "yarn-session", which is not supported yet'
        ),
        target_session({"execution.target": "yarn-session"}),
    ):
        pass


def test_a_shell_plans_here_and_its_inserts_run_on(server: RunningServer, tmp_path: Path) -> None:
    before = set(server.statuses())
    script = ENDLESS.format(first=1) + "INSERT INTO gone SELECT n FROM ticks;\n\\conninfo\nSHOW TABLES;\n"
    shell = run_to_end(
        [*SQLSTREAM, "shell", "--embedded", *remote(server.directory)], cwd=tmp_path, stdin=script
    )
    assert shell.returncode == 0, shell.stderr
    assert f"statements run on the server at {server.directory}" in shell.stdout
    assert "| ticks" in shell.stdout
    job_id = new_job(server, before)
    assert server.statuses()[job_id] == "RUNNING"
    assert server.request("PATCH", f"/jobs/{job_id}", rest=True).status_code == 202
    server.wait_for(job_id, "CANCELED")


def test_python_plans_here_and_queries_there(server: RunningServer) -> None:
    url = f"embedded://?execution.target=remote&sqlstream.data-dir={server.directory}"
    before = set(server.statuses())
    with sqlstream.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(BOUNDED.format(rows=1000))
        cursor.execute("SELECT COUNT(*), SUM(n) FROM numbers")
        assert cursor.fetchall() == [(1000, 500500)]
    assert server.statuses()[new_job(server, before)] == "FINISHED"


def test_file_roots_and_the_limit_of_plans_hold_for_plans_of_clients(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    words = ["-D", f"sqlstream.server.file-roots={inside}", "-D", "sqlstream.server.plan.max-size=65536"]
    with RunningServer(tmp_path / "data", *words) as server:
        script = BOUNDED.format(rows=2) + (
            "CREATE TABLE f (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');"
            "INSERT INTO f SELECT n FROM numbers;"
        )
        refused = run(server.directory, tmp_path, script)
        assert refused.returncode == 2
        assert "error[SS5030]" in refused.stderr
        assert "^" in refused.stderr
        assert not (tmp_path / "out").exists()
        assert run(server.directory, inside, script).returncode == 0
        assert (inside / "out").is_dir()
        sums = ", ".join(f"n + {i} AS c{i}" for i in range(3000))
        large = run(server.directory, inside, BOUNDED.format(rows=2) + f"SELECT {sums} FROM numbers;")
        assert large.returncode == 2
        assert "error[SS3020]: the plan has" in large.stderr
        # The server goes on.
        assert len(server.statuses()) == 1


def test_the_end_of_the_server_is_told_at_once_and_its_inserts_come_back(tmp_path: Path) -> None:
    insert = ENDLESS.format(first=1) + "INSERT INTO gone SELECT n FROM ticks"
    with RunningServer(tmp_path / "data") as server:
        with (
            Client(server.directory, insert, "--quiet") as one,
            Client(server.directory, ENDLESS.format(first=1) + "SELECT n FROM ticks", "--quiet") as other,
        ):
            assert [other.line(), other.line()] == ["op,n", "+I,1"]
            deadline_s = time.monotonic() + WAIT_S
            while list(server.statuses().values()) != ["RUNNING", "RUNNING"]:
                assert time.monotonic() < deadline_s
                time.sleep(POLL_S)
            jobs = {job["name"]: job["jid"] for job in server.get("/jobs/overview")["jobs"]}
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
            for client in (one, other):
                code, errors = client.end()
                assert code == 1
                assert errors.startswith("error[SS6034]: the server has ended, or broke off the connection\n")
        server.start()
        inserted = next(job_id for name, job_id in jobs.items() if name.startswith("insert"))
        server.wait_for(inserted, "RUNNING")
        with Client(server.directory, ENDLESS.format(first=1) + "SELECT n FROM ticks", "--quiet") as last:
            assert [last.line(), last.line()] == ["op,n", "+I,1"]
            assert server.signal() == 0
            code, errors = last.end()
            assert (code, errors.split("\n")[0]) == (
                1,
                "error[SS6034]: the server has ended, or broke off the connection",
            )
