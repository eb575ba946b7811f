"""A cluster of several hosts, which are networks of this machine: TaskManagers that join, a short loss of the network, and a host
that vanishes."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

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


@contextlib.contextmanager
def task_manager(host: Host, token: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [*SQLSTREAM, "taskmanager", "--join", "head:6124", "--slots", "2"]
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


def test_a_short_loss_of_the_network_restarts_nothing_and_a_lost_host_loses_no_row(tmp_path: Path) -> None:
    with Hosts(tmp_path, "head", "one", "two") as hosts:
        head = hosts["head"]
        settings = {
            "execution.target": "standalone",
            "jobmanager.rpc.address": "head",
            "heartbeat.interval": "1 s",
            "heartbeat.timeout": f"{HEARTBEAT_S} s",
        }
        words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
        with (
            head.network(),
            RunningServer(
                head.own_tmp / "data", "--data-dir", "/tmp/data", *words, prefix=head.command([])
            ) as server,
        ):
            token = (head.own_tmp / "data" / "cluster" / "join-secret").read_text()
            shown = subprocess.run(
                head.command([*SQLSTREAM, "cluster", "token", "--data-dir", "/tmp/data"]),
                env=environment(), capture_output=True, text=True, timeout=60, check=True,
            ).stdout.strip()  # fmt: skip
            assert shown.endswith(token)
            with task_manager(hosts["one"], shown), task_manager(hosts["two"], shown):
                addresses = {hosts[name].address for name in ("one", "two")}
                wait_until(lambda: set(managers(server)) == addresses)
                session = server.open_session()
                for text in DEFINITIONS:
                    server.execute(session, text)
                job = server.insert(session, COPY)
                wait_until(lambda: bool(written(hosts)))
                assert managers(server) == dict.fromkeys(addresses, 1), "the slots are spread"

                hosts.cut("two")
                time.sleep(BLIP_S)
                hosts.mend("two")
                count = len(written(hosts))
                wait_until(lambda: len(written(hosts)) > count)
                assert server.get(f"/jobs/{job}/exceptions")["exceptionHistory"]["entries"] == []

                hosts.cut("two")
                wait_until(lambda: managers(server) == {hosts["one"].address: 2})
                count = len(written(hosts))
                wait_until(lambda: len(written(hosts)) > count)
                hosts.mend("two")
                # It has ended what it ran, and offers its slots again.
                wait_until(lambda: set(managers(server)) == addresses)
                server.wait_for(job, "FINISHED")
                assert written(hosts) == list(range(1, ROWS + 1))
