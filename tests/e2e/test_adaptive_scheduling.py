"""Jobs of a server whose parallelism follows the TaskManagers that join it and are lost, or how busy they are: each row once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_harness import free_port, sqlstream
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import (
    STANDALONE,
    Worker,
    join_address,
    runs_with,
    slots,
    start_copy,
    workers,
    writes_on,
    written,
)

JOINED = "SELECT a.n FROM g AS a JOIN g AS b ON a.n = b.n"
"""Each row of a source that came twice would be there twice, or four times. A table has one split here, since the job begins with
one reader: the join alone runs with others."""


@pytest.mark.timeout(300)
def test_a_job_doubles_with_a_second_task_manager_and_halves_without_it(tmp_path: Path) -> None:
    words = (*STANDALONE, "-D", f"jobmanager.rpc.port={free_port()}", "-D", "heartbeat.timeout=3 s")
    prefix = "jobmanager.adaptive-scheduler."
    settings = (
        "SET 'jobmanager.scheduler' = 'Adaptive'",
        f"SET '{prefix}submission.resource-stabilization-timeout' = '500 ms'",
        f"SET '{prefix}executing.resource-stabilization-timeout' = '500 ms'",
        f"SET '{prefix}executing.cooldown-after-rescaling' = '1 s'",
    )
    with (
        RunningServer(tmp_path / "data", *words) as server,
        workers(tmp_path, join_address(server), 1) as joined,
    ):
        wait_until(lambda: slots(server) == 1)
        job = start_copy(server, tmp_path, *settings, query=JOINED)
        wait_until(lambda: runs_with(server, job, 1))
        wait_until(lambda: bool(written(tmp_path)))

        token = ("--token-file", str(tmp_path / "join-token"))
        joined.append(Worker(tmp_path / "second", join_address(server), *token))
        wait_until(lambda: runs_with(server, job, 2))
        writes_on(tmp_path)

        joined[1].vanish()
        wait_until(lambda: runs_with(server, job, 1))
        writes_on(tmp_path)
        server.finish(job)
        # Of the two tables, up to where the first of them has ended.
        rows = written(tmp_path)
        assert rows == list(range(1, len(rows) + 1))


def test_the_autoscaler_takes_a_job_that_has_little_to_do_to_a_lower_parallelism(tmp_path: Path) -> None:
    settings = (
        "SET 'job.autoscaler.enabled' = 'true'",
        "SET 'job.autoscaler.metrics.window' = '10 s'",
        "SET 'job.autoscaler.stabilization.interval' = '1 s'",
        "SET 'job.autoscaler.scale-down.interval' = '0 s'",
        "SET 'job.autoscaler.scale-down.max-factor' = '1.0'",
    )
    with RunningServer(tmp_path / "data") as server:
        job = start_copy(server, tmp_path, *settings, query=JOINED)
        wait_until(lambda: runs_with(server, job, 1))
        decision = server.get(f"/jobs/{job}/autoscaler")["decisions"][-1]
        assert (decision["parallelism"], decision["wanted"], decision["applied"]) == (2, 1, True)
        assert "the autoscaler: parallelism 2 -> 1, since" in server.errors()
        shown = sqlstream("job", job, "--server", server.gateway)
        assert "  2 -> 1 (applied): " in shown.stdout, (shown.stdout, shown.stderr)
        told = json.loads(sqlstream("job", job, "--json", "--server", server.gateway).stdout)["autoscaler"]
        assert (told["enabled"], told["decisions"][-1]) == (True, decision)
        server.request("PATCH", f"/jobs/{job}?mode=cancel", rest=True)
        server.wait_for(job, "CANCELED")
