"""A cluster with a server that waits is upgraded host by host: its jobs go on, and no row is lost or doubled."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from command_harness import free_port
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import (
    STANDALONE,
    Beginning,
    Worker,
    finish_copy,
    slots,
    start_copy,
    workers,
    writes_on,
    written,
)

OTHER = str(Path(__file__).parents[1] / "children" / "other_release")


def of_release(release: str, **more: str) -> dict[str, str]:
    return {"PYTHONPATH": OTHER, "OTHER_RELEASE": release, **more}


def server(directory: Path, number: int, door: int, release: str) -> RunningServer:
    return RunningServer(
        directory / f"data{number}", *STANDALONE, *shared(directory), "-D", f"jobmanager.join.port={door}",
        "-D", "high-availability.lease-duration=1 s", "-D", "heartbeat.timeout=10 s", "-D", f"jobmanager.rpc.port={free_port()}",
        is_forked=False, **of_release(release),
    )  # fmt: skip


def shared(directory: Path) -> tuple[str, ...]:
    place = f"high-availability.storageDir={directory / 'shared'}"
    return "-D", "high-availability.type=filesystem", "-D", place


@pytest.mark.timeout(400)
def test_servers_and_then_task_managers_are_upgraded_while_a_job_runs(tmp_path: Path) -> None:
    doors = [free_port(), free_port()]
    address = ",".join(f"127.0.0.1:{port}" for port in doors)
    old, new = server(tmp_path, 0, doors[0], "0.7.0"), server(tmp_path, 1, doors[1], "0.8.0")
    with old, workers(tmp_path, address, 2, *shared(tmp_path), **of_release("0.7.0")) as hosts:
        beginning = Beginning(new)
        try:
            wait_until(beginning.is_waiting)
            wait_until(lambda: slots(old) == 2)
            job = start_copy(old, tmp_path)
            wait_until(lambda: bool(written(tmp_path)))
            assert old.signal(signal.SIGTERM) == 0

            leader = beginning.leader()
            assert "sqlstream 0.8.0 is ready" in leader.greeting
            # TaskManagers of the release before go on with a server of the next one.
            wait_until(lambda: slots(leader) == 2)
            leader.wait_for(job, "RUNNING")
            stamp = json.loads((tmp_path / "shared" / "default" / "formats.json").read_text())
            assert stamp["release"] == "0.8.0"

            for number in range(2):
                assert hosts[number].end() == 0
                place, token = tmp_path / f"upgraded{number}", str(tmp_path / "join-token")
                hosts.append(Worker(place, address, "--token-file", token, **of_release("0.8.0")))
                wait_until(lambda: slots(leader) == 2)
                leader.wait_for(job, "RUNNING")
                writes_on(tmp_path)

            second = Beginning(server(tmp_path, 0, doors[0], "0.8.0"))
            wait_until(second.is_waiting)
            assert leader.signal(signal.SIGTERM) == 0
            last = second.leader()
            wait_until(lambda: slots(last) == 2)
            last.wait_for(job, "RUNNING")
            writes_on(tmp_path)
            finish_copy(last, job, tmp_path)
            assert last.signal(signal.SIGTERM) == 0
        finally:
            for started in (new, beginning.server):
                if started.process.poll() is None:
                    started.process.kill()


@pytest.mark.timeout(300)
def test_a_task_manager_of_another_protocol_waits_until_the_server_is_upgraded(tmp_path: Path) -> None:
    door = free_port()
    ports = ("-D", f"jobmanager.rpc.port={free_port()}", "-D", f"jobmanager.join.port={door}")
    words = (*STANDALONE, *ports)
    new = of_release("0.8.0", OTHER_PROTOCOL="99")
    old = RunningServer(tmp_path / "data", *words)
    with old, workers(tmp_path, f"127.0.0.1:{door}", 1, **new) as (host,):
        wait_until(lambda: "it is tried again" in said(host))
        assert "(protocol 99); it is tried again" in said(host)
        assert slots(old) == 0
        assert host.process.poll() is None
        assert old.signal(signal.SIGTERM) == 0
        with RunningServer(tmp_path / "data", *words, is_forked=False, **new) as upgraded:
            wait_until(lambda: slots(upgraded) == 1)
            assert host.end() == 0
            assert upgraded.signal(signal.SIGTERM) == 0


@pytest.mark.timeout(300)
def test_an_old_server_leaves_a_place_of_later_formats_alone(tmp_path: Path) -> None:
    place = tmp_path / "shared" / "default"
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    content = json.dumps({"release": "0.8.0", "formats": {"jobs": 99}})
    (place / "formats.json").write_text(content)
    before = sorted(place.rglob("*"))
    began_s = time.monotonic()
    old = server(tmp_path, 0, free_port(), "0.7.0")
    with pytest.raises(AssertionError, match="SS6140"):
        old.start()
    assert "use sqlstream 0.8.0 or a later release" in old.errors()
    assert old.process.wait(60) == 2
    assert (sorted(place.rglob("*")), (place / "formats.json").read_text()) == (before, content)
    assert time.monotonic() - began_s < 240


def said(host: Worker) -> str:
    return host.output.read_text()
