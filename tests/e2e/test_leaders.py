"""Two servers of one place: the one that waits takes up the jobs of the one that is killed or stands still, and no row is lost or
doubled."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import STANDALONE, Beginning, free_port, slots, start_copy, workers, written

ROWS = 15_000


class Place:
    """What two servers share, and the ports of each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.doors = [free_port(), free_port()]

    def server(self, number: int) -> RunningServer:
        words = [
            "-D", "high-availability.type=filesystem", "-D", f"high-availability.storageDir={self.directory / 'shared'}",
            "-D", "high-availability.lease-duration=1 s", "-D", f"jobmanager.rpc.port={free_port()}",
        ]  # fmt: skip
        # The last of two settings counts.
        door = ["-D", f"jobmanager.join.port={self.doors[number]}"]
        return RunningServer(self.directory / f"data{number}", *STANDALONE, *words, *door)


@pytest.mark.timeout(400)
def test_a_server_that_waits_takes_the_place_of_one_that_is_killed_or_stands_still(tmp_path: Path) -> None:
    place = Place(tmp_path)
    addresses = ",".join(f"127.0.0.1:{port}" for port in place.doors)
    shared = (
        "-D",
        "high-availability.type=filesystem",
        "-D",
        f"high-availability.storageDir={tmp_path / 'shared'}",
    )
    with place.server(0) as first, workers(tmp_path, addresses, 2, *shared):
        second = Beginning(place.server(1))
        try:
            wait_until(second.is_waiting)
            wait_until(lambda: slots(first) == 2)
            session = first.open_session()
            first.execute(session, "CREATE TABLE kept (n BIGINT) WITH ('connector' = 'blackhole')")
            job = start_copy(first, tmp_path, ROWS)
            wait_until(lambda: bool(written(tmp_path)))
            assert first.signal(signal.SIGKILL) == -signal.SIGKILL

            leader = second.leader()
            leader.wait_for(job, "RUNNING")
            wait_until(lambda: slots(leader) == 2)
            assert ["kept"] in leader.execute(leader.open_session(), "SHOW TABLES")
            count = len(written(tmp_path))
            wait_until(lambda: len(written(tmp_path)) > count)

            third = Beginning(place.server(0))
            wait_until(third.is_waiting)
            os.kill(leader.process.pid, signal.SIGSTOP)
            again = third.leader()
            wait_until(lambda: slots(again) == 2)
            again.wait_for(job, "RUNNING")
            os.kill(leader.process.pid, signal.SIGCONT)
            # It finds that its place is taken, and can change nothing.
            assert leader.process.wait(60) == 1
            assert "SS6077" in leader.errors()
            again.wait_for(job, "FINISHED")
            assert written(tmp_path) == list(range(1, ROWS + 1))
            assert again.signal(signal.SIGTERM) == 0
        finally:
            for server in (second.server, first):
                if server.process.poll() is None:
                    server.process.kill()
