"""A cluster of several hosts, which are networks of this machine: TaskManagers that join, short losses of the network, a slow
link, clocks that are minutes apart, a full disk, and a host that vanishes."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_harness import SQLSTREAM, environment
from server_harness import RunningServer
from spark_harness.hosts import SHARED, Host, Hosts, why_there_are_no_hosts
from spark_harness.processes import wait_until

WHY_NOT = why_there_are_no_hosts()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(WHY_NOT != "", reason=WHY_NOT),
]

ROWS = 20_000
HEARTBEAT_S = 15
BLIP_S = 10
CLOCK_AHEAD, CLOCK_BEHIND = "+10m", "-10m"
DEFINITIONS = (
    "SET 'parallelism.default' = '2'",
    "SET 'execution.files-are-shared' = 'true'",
    "SET 'execution.checkpointing.interval' = '500 ms'",
    f"SET 'execution.checkpointing.dir' = '{SHARED}/checkpoints'",
    "SET 'restart-strategy.type' = 'fixed-delay'",
    "SET 'restart-strategy.fixed-delay.attempts' = '1000'",
    "SET 'restart-strategy.fixed-delay.delay' = '200 ms'",
    f"""CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '250',
        'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{ROWS}')""",
    f"""CREATE TABLE o (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'csv', 'path' = '{SHARED}/out',
        'sink.parallelism' = '1')""",
)
COPY = "INSERT INTO o SELECT n FROM g"
MANY_ROWS = 600_000
MANY = f"""CREATE TABLE many (n BIGINT, at AS PROCTIME()) WITH ('connector' = 'datagen', 'rows-per-second' = '20000',
    'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{MANY_ROWS}')"""
COPY_ONCE = """INSERT INTO o SELECT n FROM (
    SELECT n, ROW_NUMBER() OVER (PARTITION BY n ORDER BY at) AS place FROM many) WHERE place = 1"""


@contextlib.contextmanager
def task_manager(
    host: Host, token: str, clock: str = "", state: str = "/tmp"
) -> Iterator[subprocess.Popen[bytes]]:
    """`clock` is how far its own clock is from others, as faketime has it; `state` is where mapped state lies."""
    words = [*SQLSTREAM, "taskmanager", "--join", "head:6124", "--slots", "2", "-D", f"io.tmp.dirs={state}"]
    if clock:
        words = ["faketime", "-f", clock, *words]
    with open(host.own_tmp / "taskmanager.log", "wb") as output:
        running = subprocess.Popen(
            host.command(words),
            env=environment(SQLSTREAM_JOIN_TOKEN=token),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def written(hosts: Hosts) -> list[int]:
    files = [p for p in (hosts.shared / "out").rglob("part-*") if ".staging" not in str(p)]
    return sorted(int(line) for p in files for line in p.read_text().split())


def managers(server: RunningServer) -> dict[str, int]:
    """The slots of TaskManagers that are taken, by their host's address."""
    found = server.get("/taskmanagers")["taskmanagers"]
    return {t["path"].split("//")[1].split(":")[0]: t["slotsNumber"] - t["freeSlots"] for t in found}


SETTINGS = {
    "execution.target": "standalone",
    "jobmanager.rpc.address": "head",
    "heartbeat.interval": "1 s",
    "heartbeat.timeout": f"{HEARTBEAT_S} s",
}


@contextlib.contextmanager
def server_at(head: Host) -> Iterator[tuple[RunningServer, str]]:
    """A server on that host, and the token with which others join it."""
    words = [word for key, value in SETTINGS.items() for word in ("-D", f"{key}={value}")]
    data = ("--data-dir", "/tmp/data")
    with (
        head.network(),
        RunningServer(head.own_tmp / "data", *data, *words, prefix=head.command([])) as server,
    ):
        shown = subprocess.run(
            head.command([*SQLSTREAM, "cluster", "token", *data]),
            env=environment(), capture_output=True, text=True, timeout=60, check=True,
        ).stdout.strip()  # fmt: skip
        yield server, shown


def started(server: RunningServer, hosts: Hosts, names: tuple[str, ...]) -> str:
    """The id of a job on TaskManagers of these hosts, which has written a row."""
    addresses = {hosts[name].address for name in names}
    wait_until(lambda: set(managers(server)) == addresses)
    session = server.open_session()
    for text in DEFINITIONS:
        server.execute(session, text)
    job = server.insert(session, COPY)
    wait_until(lambda: bool(written(hosts)))
    assert managers(server) == dict.fromkeys(addresses, 1), "the slots are spread"
    return job


def goes_on(hosts: Hosts) -> None:
    """Wait for rows that are not there yet."""
    count = len(written(hosts))
    wait_until(lambda: len(written(hosts)) > count)


def failures(server: RunningServer, job: str) -> list[Any]:
    found: list[Any] = server.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"]
    return found


def test_a_short_loss_of_the_network_restarts_nothing_and_a_lost_host_loses_no_row(tmp_path: Path) -> None:
    with (
        Hosts(tmp_path, "head", "one", "two") as hosts,
        server_at(hosts["head"]) as (server, token),
        task_manager(hosts["one"], token) as first,
        task_manager(hosts["two"], token) as second,
    ):
        job = started(server, hosts, ("one", "two"))
        # Although they are on one machine: each has a /tmp of its own.
        for process in (p for t in (first, second) for p in psutil.Process(t.pid).children(recursive=True)):
            assert "memfd:sqlstream-exchange" not in Path(f"/proc/{process.pid}/maps").read_text()
        hosts.cut("two")
        time.sleep(BLIP_S)
        hosts.mend("two")
        goes_on(hosts)
        hosts.part("one", "two")
        time.sleep(BLIP_S)
        hosts.join("one", "two")
        goes_on(hosts)
        assert failures(server, job) == []

        hosts.cut("two")
        wait_until(lambda: managers(server) == {hosts["one"].address: 2})
        goes_on(hosts)
        hosts.mend("two")
        # It has ended what it ran, and offers its slots again.
        wait_until(lambda: len(managers(server)) == 2)
        server.wait_for(job, "FINISHED")
        assert written(hosts) == list(range(1, ROWS + 1))


@pytest.mark.skipif(shutil.which("faketime") is None, reason="Debian: apt-get install faketime")
def test_a_slow_link_that_loses_packets_and_clocks_that_are_minutes_apart_lose_no_row(tmp_path: Path) -> None:
    with Hosts(tmp_path, "head", "one", "two") as hosts, server_at(hosts["head"]) as (server, token):
        ahead, behind = CLOCK_AHEAD, CLOCK_BEHIND
        with task_manager(hosts["one"], token, ahead), task_manager(hosts["two"], token, behind):
            job = started(server, hosts, ("one", "two"))
            hosts.slow_down("one")
            hosts.slow_down("head")
            for _ in range(5):
                goes_on(hosts)
            hosts.speed_up("one")
            hosts.speed_up("head")
            server.wait_for(job, "FINISHED")
            assert failures(server, job) == []
            assert written(hosts) == list(range(1, ROWS + 1))


def test_a_host_whose_disk_is_full_leaves_its_tasks_to_others(tmp_path: Path) -> None:
    with Hosts(tmp_path, "head", "one", "two") as hosts, server_at(hosts["head"]) as (server, token):
        (hosts["two"].own_tmp / "small").mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", "/tmp/small"]
        subprocess.run(hosts["two"].command(mount), check=True, timeout=60)
        with task_manager(hosts["one"], token), task_manager(hosts["two"], token, "", "/tmp/small"):
            wait_until(lambda: len(managers(server)) == 2)
            session = server.open_session()
            for text in (*DEFINITIONS, "SET 'state.backend.type' = 'mapped'", MANY):
                server.execute(session, text)
            job = server.insert(session, COPY_ONCE)
            server.wait_for(job, "FINISHED")
            assert "SS6" in str(failures(server, job)), failures(server, job)
            assert written(hosts) == list(range(1, MANY_ROWS + 1))
