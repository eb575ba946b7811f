"""A JobManager that takes no SQL, a gateway for it, and TaskManagers, each a process; and the gateway of two JobManagers of
which one leads."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from command_harness import free_port
from command_harness import sqlstream as command
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import (
    Beginning,
    finish_copy,
    slots,
    start_copy,
    workers,
    writes_on,
    written,
)

import sqlstream


def job_manager(directory: Path, name: str, door: int, *words: str) -> RunningServer:
    ports = ("-D", f"jobmanager.rpc.port={free_port()}", "-D", f"jobmanager.join.port={door}")
    settings = ("-D", "heartbeat.interval=500 ms", "-D", "heartbeat.timeout=10 min")
    return RunningServer(directory / name, *ports, *settings, *words, role="jobmanager")


@contextlib.contextmanager
def gateway(directory: Path, addresses: str) -> Iterator[RunningServer]:
    words = ("--join", addresses, "--token-file", str(directory / "join-token"))
    with RunningServer(directory / "gateway", *words, role="gateway") as server:
        yield server


@pytest.mark.timeout(400)
def test_a_gateway_brings_sql_to_a_jobmanager_that_takes_none(tmp_path: Path) -> None:
    door = free_port()
    with (
        job_manager(
            tmp_path, "data", door, "-D", f"execution.checkpointing.dir={tmp_path / 'of-manager'}"
        ) as manager,
        workers(tmp_path, f"127.0.0.1:{door}", 2),
        gateway(tmp_path, f"127.0.0.1:{door}") as front,
    ):
        assert not any("SQL gateway" in line for line in manager.greeting)
        refused = manager.request("POST", "/v4/sessions", {})
        assert (refused.status_code, "takes no SQL" in refused.text) == (404, True)
        wait_until(lambda: slots(manager) == 2)
        with sqlstream.connect(front.gateway) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT n, COUNT(*) FROM (VALUES (1), (2), (1)) AS t (n) GROUP BY n")
            assert sorted(cursor.fetchall()) == [(1, 2), (2, 1)]
            with pytest.raises(sqlstream.Error, match="zero"):
                cursor.execute("SELECT 1 / (n - 1) FROM (VALUES (1), (2)) AS t (n)").fetchall()
        job = start_copy(front, tmp_path, rows=1_000)
        front.wait_for(job, "FINISHED")
        assert written(tmp_path) == list(range(1, 1_001))
        # Its session has named no directory for checkpoints, and the next one does.
        user_config = manager.get(f"/jobs/{job}/config")["execution-config"]["user-config"]
        assert user_config["execution.checkpointing.dir"] == str(tmp_path / "of-manager")
        own = f"SET 'execution.checkpointing.dir' = '{tmp_path / 'of-session'}'"
        other = start_copy(front, tmp_path / "other", own, "DROP TABLE g", "DROP TABLE o")
        front.wait_until_checkpointed(other)
        assert list((tmp_path / "of-session").glob(f"{other}/chk-*"))
        assert not (tmp_path / "of-manager" / other).exists()
        front.request("PATCH", f"/jobs/{other}?mode=cancel", rest=True)
        front.wait_for(other, "CANCELED")
        # Both know the job, by its REST.
        assert manager.statuses()[job] == "FINISHED"
        listed = command("jobs", "--server", manager.rest)
        assert job in listed.stdout
        lines = front.request("PATCH", f"/jobs/{job}/rescaling?parallelism=1")
        assert lines.status_code >= 400
        # A JobManager has little time to answer a probe.
        wait_until(lambda: ready(front) == (200, {"status": "READY"}))
        # One that stands still, and one that is gone: a probe is not held up as statements are.
        manager.process.send_signal(signal.SIGSTOP)
        # It may still answer until all of its threads have stopped.
        wait_until(
            lambda: ready(front) == (503, {"status": "NOT_READY", "reason": "the JobManager does not answer"})
        )
        manager.process.send_signal(signal.SIGCONT)
        wait_until(lambda: ready(front)[0] == 200)
        assert manager.signal(signal.SIGTERM) == 0
        wait_until(lambda: "the JobManager has ended" in ready(front)[1].get("reason", ""))
        assert ready(front)[0] == 503
        assert front.signal(signal.SIGTERM) == 0


def ready(server: RunningServer) -> tuple[int, dict[str, str]]:
    """The answer of a probe, which comes long before the minute for which a gateway bears that no JobManager is there."""
    begun_s = time.monotonic()
    found = server.request("GET", "/ready")
    assert time.monotonic() - begun_s < 20
    return found.status_code, found.json()


@pytest.mark.timeout(400)
def test_a_gateway_that_is_there_before_the_jobmanager_says_what_it_waits_for(tmp_path: Path) -> None:
    door, port = free_port(), free_port()
    with job_manager(tmp_path, "data", door) as manager:
        (tmp_path / "join-token").write_text(
            command("cluster", "token", "--data-dir", str(manager.directory)).stdout
        )
        assert manager.signal(signal.SIGTERM) == 0
        words = ("--join", f"127.0.0.1:{door}", "--token-file", str(tmp_path / "join-token"))
        front = RunningServer(tmp_path / "gateway", *words, port=str(port), role="gateway")
        beginning = Beginning(front)
        try:
            asked: dict[str, httpx.Response] = {}

            def is_answered() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    for path in ("/health", "/ready", "/version", "/overview"):
                        asked[path] = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=60)
                return "/overview" in asked

            wait_until(is_answered)
            assert asked["/health"].status_code == 200
            reason = "this gateway has found no JobManager yet"
            assert asked["/ready"].json() == {"status": "WAITING", "reason": reason}
            assert (asked["/overview"].status_code, asked["/overview"].json()["error"]["code"]) == (
                503,
                "SS6170",
            )
            manager.start()
            beginning.leader()
            wait_until(lambda: ready(front) == (200, {"status": "READY"}))
            # The release is said in the same words before and after.
            assert front.request("GET", "/version").json() == asked["/version"].json()
            assert front.signal(signal.SIGTERM) == 0
            assert manager.signal(signal.SIGTERM) == 0
        finally:
            if front.process.poll() is None:
                front.process.kill()


@pytest.mark.timeout(400)
def test_a_jobmanager_that_takes_no_gateways_says_so(tmp_path: Path) -> None:
    door = free_port()
    with job_manager(tmp_path, "data", door, "-D", "sqlstream.jobmanager.gateways.enabled=false") as manager:
        token = command("cluster", "token", "--data-dir", str(manager.directory)).stdout
        (tmp_path / "join-token").write_text(token)
        said = command(
            "gateway", "--join", f"127.0.0.1:{door}", "--token-file", str(tmp_path / "join-token"),
            "--data-dir", str(tmp_path / "gateway"), "--port", "0",
        )  # fmt: skip
        assert (said.returncode, "SS6096" in said.stderr) == (2, True)


@pytest.mark.timeout(400)
def test_a_gateway_goes_on_with_the_jobmanager_that_leads_next(tmp_path: Path) -> None:
    doors = [free_port(), free_port()]
    addresses = ",".join(f"127.0.0.1:{door}" for door in doors)
    shared = (
        "-D", "high-availability.type=filesystem", "-D", f"high-availability.storageDir={tmp_path / 'shared'}",
        "-D", "high-availability.lease-duration=1 s",
    )  # fmt: skip
    with (
        job_manager(tmp_path, "data", doors[0], *shared) as first,
        workers(tmp_path, addresses, 2, *shared),
        gateway(tmp_path, addresses) as front,
    ):
        second = Beginning(job_manager(tmp_path, "data2", doors[1], *shared))
        try:
            wait_until(second.is_waiting)
            wait_until(lambda: slots(first) == 2)
            session = front.open_session()
            front.execute(session, "CREATE TEMPORARY VIEW v AS SELECT 42 AS n")
            job = start_copy(front, tmp_path)
            wait_until(lambda: bool(written(tmp_path)))
            assert first.signal(signal.SIGKILL) == -signal.SIGKILL
            # Of the same session, and answered once the next one leads.
            leader = second.leader()
            wait_until(lambda: slots(leader) == 2)
            assert front.execute(session, "SELECT n + 1 FROM v WHERE n > 0") == [[43]]
            front.wait_for(job, "RUNNING")
            writes_on(tmp_path)
            finish_copy(front, job, tmp_path)
            other = front.insert(front.open_session(), "INSERT INTO o SELECT n FROM (VALUES (7)) AS t (n)")
            front.wait_for(other, "FINISHED")
            assert front.signal(signal.SIGTERM) == 0
        finally:
            if second.server.process.poll() is None:
                second.server.process.kill()
