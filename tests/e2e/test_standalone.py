"""A server whose TaskManagers join it: rows, processes that are killed on either side, and hosts that are reached by ssh."""

from __future__ import annotations

import os
import re
import signal
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest
import trustme
from certificate_files import TLS, certificates, settings
from command_harness import SQLSTREAM, environment, free_port, sqlstream, wait_until_ended
from server_harness import RunningServer
from spark_harness.processes import is_gone, wait_until
from standalone_harness import (
    STANDALONE,
    Worker,
    finish_copy,
    join_address,
    slots,
    start_copy,
    workers,
    writes_on,
    written,
)

from sqlstream.runtime.net.endpoint import TlsFiles


@pytest.mark.timeout(300)
def test_task_managers_of_the_servers_own_host_stand_beside_those_that_join(tmp_path: Path) -> None:
    port = ("-D", f"jobmanager.rpc.port={free_port()}")
    words = (*STANDALONE, *port, "--task-managers", "1", "-D", "taskmanager.numberOfTaskSlots=1")
    with RunningServer(tmp_path / "data", *words) as server:
        wait_until(lambda: slots(server) == 1)
        with workers(tmp_path, join_address(server), 1) as (other,):
            wait_until(lambda: slots(server) == 2)
            rows = 1_000
            job = start_copy(server, tmp_path, rows=rows)
            wait_until(lambda: bool(written(tmp_path)))
            (own,) = server.task_managers()
            own.kill()
            # Another one takes its place.
            wait_until(lambda: slots(server) == 2)
            server.wait_for(job, "FINISHED")
            assert written(tmp_path) == list(range(1, rows + 1))
            children = server.children()
            assert server.signal(signal.SIGTERM) == 0
            wait_until_ended(children)
            assert other.process.poll() is None


@pytest.mark.timeout(300)
def test_task_managers_join_and_no_row_is_lost_or_doubled_when_either_side_is_killed(tmp_path: Path) -> None:
    port = str(free_port())
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={port}")
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 2) as joined,
    ):
        wait_until(lambda: slots(server) == 2)
        job = start_copy(server, tmp_path)
        server.wait_for(job, "RUNNING")
        wait_until(lambda: bool(written(tmp_path)))
        first = joined[0].child
        assert first is not None
        first.kill()
        # Another process takes its place, long before heartbeats would be missed.
        wait_until(lambda: server.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"] != [])
        wait_until(lambda: slots(server) == 2)
        server.wait_for(job, "RUNNING")
        writes_on(tmp_path)

        children = [worker.child for worker in joined]
        assert server.signal(signal.SIGKILL) == -signal.SIGKILL
        server.start()
        wait_until(lambda: slots(server) == 2)
        server.wait_for(job, "RUNNING")
        writes_on(tmp_path)
        finish_copy(server, job, tmp_path)
        assert [worker.child for worker in joined] == children, "they have registered with the next server"
        assert [worker.end() for worker in joined] == [0, 0]
        wait_until_ended(child for child in children if child is not None)


def shares_memory(process: psutil.Process | None) -> bool:
    """Whether a TaskManager has memory that another one has, too."""
    try:
        found = process.memory_maps() if process is not None else []
    except psutil.NoSuchProcess:
        return False
    return any("memfd:sqlstream-exchange" in m.path for m in found)


@pytest.mark.timeout(300)
def test_those_of_one_machine_share_memory_of_which_nothing_is_left_when_they_are_killed(
    tmp_path: Path,
) -> None:
    with (
        # Where the path of a socket is short enough.
        tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as short,
        RunningServer(tmp_path / "data", *STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}") as server,
        workers(tmp_path, join_address(server), 2, TMPDIR=short) as joined,
    ):
        wait_until(lambda: slots(server) == 2)
        unaligned = "SET 'execution.checkpointing.unaligned.enabled' = 'true'"
        job = start_copy(server, tmp_path, unaligned, rate=20_000)
        for _ in range(2):
            wait_until(lambda: all(shares_memory(w.child) for w in joined))
            killed = joined[0].child
            assert killed is not None
            killed.kill()
            wait_until(lambda old=killed: joined[0].child not in (None, old) and slots(server) == 2)
            server.wait_for(job, "RUNNING")
            writes_on(tmp_path)
        finish_copy(server, job, tmp_path, rate=20_000)
        # Those of the killed ones are swept by who takes their place.
        assert len([name for name in os.listdir(short) if re.fullmatch("sqlstream-[a-z0-9_]{8}", name)]) == 2
        assert [worker.end() for worker in joined] == [0, 0]
        wait_until(lambda: os.listdir(short) == [])


@pytest.mark.timeout(300)
def test_the_tasks_of_one_that_is_stopped_in_order_go_on_elsewhere_at_once(tmp_path: Path) -> None:
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", "-D", "cluster.blocklist.failures=1")
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 4) as joined,
    ):
        wait_until(lambda: slots(server) == 4)
        job = start_copy(server, tmp_path)
        for number, left in ((signal.SIGTERM, 3), (signal.SIGINT, 2)):
            server.wait_for(job, "RUNNING")
            writes_on(tmp_path)
            found = server.get("/taskmanagers")["taskmanagers"]
            (busy, *_) = (t["id"] for t in found if t["freeSlots"] == 0)
            (stopped,) = (w for w in joined if busy.rpartition("-")[0] in w.output.read_text())
            assert stopped.end(number) == 0
            joined.remove(stopped)
            # Heartbeats would be missed in ten minutes.
            wait_until(lambda left=left: slots(server) == left)
            (newest, *_) = server.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
            assert newest["exceptionName"] == "SS6165", newest
        server.wait_for(job, "RUNNING")
        writes_on(tmp_path)
        finish_copy(server, job, tmp_path)
        assert "gets no tasks" not in server.errors()


def test_who_has_another_token_or_cluster_is_refused(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data", *STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}") as server:
        address = join_address(server)
        right = sqlstream("cluster", "token", "--data-dir", str(tmp_path / "data")).stdout.strip()
        fingerprint, secret = right.split(".")
        for token, reason in (
            (f"{fingerprint}.{'x' * 43}", "does not count"),
            (f"{'0' * 64}.{secret}", "is not the cluster of this token"),
            ("nothing", "is none"),
        ):
            refused = sqlstream("taskmanager", "--join", address, env=environment(SQLSTREAM_JOIN_TOKEN=token))
            assert (refused.returncode, reason in refused.stderr) == (2, True), refused.stderr
        clients = server.gateway.removeprefix("http://").partition("/")[0]
        refused = sqlstream("taskmanager", "--join", clients, env=environment(SQLSTREAM_JOIN_TOKEN=right))
        assert (refused.returncode, "SS6166" in refused.stderr) == (2, True), refused.stderr
        assert "jobmanager.join.port (6124)" in refused.stderr
        refused = sqlstream("taskmanager", "--join", address, "-D", "taskmanager.host=example.invalid",
                            env=environment(SQLSTREAM_JOIN_TOKEN=right))  # fmt: skip
        assert (refused.returncode, "SS4082" in refused.stderr) == (2, True), refused.stderr
        new = sqlstream("cluster", "token", "--new", "--data-dir", str(tmp_path / "data")).stdout.strip()
        assert new != right
        refused = sqlstream("taskmanager", "--join", address, env=environment(SQLSTREAM_JOIN_TOKEN=right))
        assert (refused.returncode, "does not count" in refused.stderr) == (2, True), refused.stderr


def test_who_has_certificates_of_another_authority_is_told_at_once(tmp_path: Path) -> None:
    ours, others = trustme.CA(), trustme.CA()
    own = certificates(tmp_path / "own", ours, "127.0.0.1")
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", *_settings_of(own))
    with RunningServer(tmp_path / "data", *words, "-D", "jobmanager.rpc.address=127.0.0.1") as server:
        token = sqlstream("cluster", "token", "--data-dir", str(tmp_path / "data")).stdout.strip()
        stranger = certificates(tmp_path / "stranger", others, "127.0.0.1")
        # It believes the cluster, but not the other way round.
        half = TlsFiles(stranger.certificate, stranger.key, own.authority)
        elsewhere = certificates(tmp_path / "elsewhere", ours, "127.0.0.1")
        named = TlsFiles(elsewhere.certificate, elsewhere.key, own.authority, "head")
        for files, reason in (
            (stranger, "is not one of"),
            (half, "refuses the certificate"),
            (named, "for head"),
        ):
            refused = sqlstream(
                "taskmanager", "--join", join_address(server), *_settings_of(files),
                env=environment(SQLSTREAM_JOIN_TOKEN=token),
            )  # fmt: skip
            assert refused.returncode == 2, refused.stderr
            assert "error[SS6167]" in refused.stderr
            assert reason in refused.stderr
            assert "hint: give files of security.ssl.internal.*" in refused.stderr
        variables = {"SQLSTREAM_JOIN_TOKEN": token}
        worker = Worker(tmp_path / "worker", join_address(server), *_settings_of(elsewhere), **variables)
        try:
            wait_until(lambda: slots(server) == 1)
        finally:
            worker.vanish()


def _settings_of(files: TlsFiles) -> list[str]:
    config = settings(files, **{f"{TLS}server-name": files.server_name})
    return [word for key, value in config.items() for word in ("-D", f"{key}={value}")]


def test_a_task_manager_that_hangs_is_killed_and_a_key_is_no_table(tmp_path: Path) -> None:
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}")
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 1) as (worker,),
    ):
        wait_until(lambda: slots(server) == 1)
        session = server.open_session()
        path = tmp_path / "join-token"
        server.execute(
            session,
            f"CREATE TABLE t (s STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw')",
        )
        with pytest.raises(AssertionError, match="SS5030"):
            server.execute(session, "SELECT s FROM t")
        child = worker.child
        assert child is not None
        # Hosts that have joined go on when the token is renewed, with the file that has it.
        path.write_text(sqlstream("cluster", "token", "--new", "--data-dir", str(tmp_path / "data")).stdout)
        child.kill()
        wait_until(lambda: worker.child not in (None, child) and slots(server) == 1)
        child = worker.child
        assert child is not None
        child.suspend()
        assert worker.end() == 0
        assert is_gone(child)


def test_a_host_on_which_task_managers_die_gets_no_tasks_while_another_has_room(tmp_path: Path) -> None:
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", "-D", "cluster.blocklist.failures=2")
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 1) as joined,
    ):
        # Another name is another host.
        words = ("--token-file", str(tmp_path / "join-token"), "-D", "taskmanager.host=localhost")
        joined.append(Worker(tmp_path / "dying", join_address(server), *words))

        def of_host(name: str) -> list[dict[str, Any]]:
            found = server.get("/taskmanagers")["taskmanagers"]
            return [t for t in found if f"//{name}:" in t["path"]]

        for _ in range(2):
            wait_until(lambda: of_host("localhost") and of_host("127.0.0.1"))
            (dying,) = of_host("localhost")
            assert not dying["blocked"]
            child = joined[1].child
            assert child is not None
            child.kill()
            wait_until(lambda old=dying: all(t["id"] != old["id"] for t in of_host("localhost")))
        wait_until(lambda: [t["blocked"] for t in of_host("localhost")] == [True])
        assert "host localhost gets no tasks for 600 s unless no other is free" in server.errors()
        job = start_copy(server, tmp_path, parallelism=1)
        server.wait_for(job, "RUNNING")
        wait_until(lambda: bool(written(tmp_path)))
        assert [t["freeSlots"] for t in (*of_host("localhost"), *of_host("127.0.0.1"))] == [1, 0]
        server.request("PATCH", f"/jobs/{job}?mode=cancel", rest=True)
        server.wait_for(job, "CANCELED")


def test_a_command_is_no_cluster_to_join() -> None:
    refused = sqlstream("run", "-c", "SELECT 1", "-D", "execution.target=standalone")
    assert (refused.returncode, "SS4003" in refused.stderr) == (2, True), refused.stderr


SSH = """#!/bin/sh
# Options, the host, and the words of a shell: as the real one, it joins these with blanks.
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
[ "$host" = unreachable ] && { echo "ssh: connect to host unreachable port 22: No route to host" >&2; exit 255; }
export XDG_STATE_HOME="$FAKE_HOMES/$host" TMPDIR="$FAKE_HOMES/$host/tmp"
mkdir -p "$TMPDIR"
exec sh -c "$*"
"""


@pytest.mark.timeout(240)
def test_task_managers_are_started_and_ended_by_ssh(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    hosts = tmp_path / "hosts.txt"
    variables = environment(PATH=f"{ssh.parent}:{os.environ['PATH']}", FAKE_HOMES=str(tmp_path / "homes"))

    def cluster(action: str, *words: str) -> tuple[int, list[str], str]:
        done = sqlstream("cluster", action, "--hosts", str(hosts), *words, env=variables)
        return done.returncode, [line.split(" (")[0] for line in done.stdout.splitlines()], done.stderr

    with RunningServer(tmp_path / "data", *STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}") as server:
        up = (
            "--join",
            join_address(server),
            "--data-dir",
            str(tmp_path / "data"),
            "--command",
            " ".join(SQLSTREAM),
        )
        hosts.write_text("one 3\nme@two 2  # the other\n")
        try:
            assert cluster("up", *up)[:2] == (0, ["one: started", "me@two: started"])
            wait_until(lambda: slots(server) == 5)
            assert cluster("up", *up)[:2] == (0, ["one: runs already", "me@two: runs already"])
            assert cluster("status")[:2] == (0, ["one: runs", "me@two: runs"])
            token = (tmp_path / "data" / "cluster" / "join-secret").read_text()
            shown = [" ".join(words) for p in psutil.process_iter() if (words := _words(p))]
            assert not any(token in words for words in shown)
        finally:
            assert cluster("down")[:2] == (0, ["one: ended", "me@two: ended"])
        assert cluster("down")[:2] == (0, ["one: does not run", "me@two: does not run"])
        code, said, errors = cluster("status")
        assert (code, said, errors.splitlines()) == (1, [], ["one: does not run", "me@two: does not run"])
        hosts.write_text("one\nunreachable\n")
        code, said, errors = cluster("status")
        assert (code, said) == (1, [])
        code, _, errors = cluster("up", "--join", "127.0.0.1", *up[2:])
        assert (code, "one: error[SS4003]" in errors) == (1, True), errors
        assert "unreachable: ssh: connect to host unreachable port 22: No route to host" in errors


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one two three", "line 1"),
        ("\none 0", "line 2"),
        ("-oProxyCommand=x", "line 1"),
        ("a;b", "line 1"),
        ("one\none", "stands twice"),
        ("# nothing", "names no host"),
    ],
)
def test_a_file_of_hosts_that_is_wrong_is_refused_with_its_line(
    tmp_path: Path, text: str, reason: str
) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text(text)
    refused = sqlstream("cluster", "status", "--hosts", str(hosts))
    assert (refused.returncode, "SS4084" in refused.stderr, reason in refused.stderr) == (2, True, True), (
        refused.stderr
    )
