"""The console of a leader that is killed goes to the server that leads next."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from command_harness import free_port
from server_harness import RunningServer
from spark_harness.processes import wait_until
from standalone_harness import Beginning


@pytest.mark.timeout(300)
def test_the_page_goes_to_the_server_that_leads_next(page, tmp_path: Path) -> None:
    words = (
        "-D", "high-availability.type=filesystem", "-D", f"high-availability.storageDir={tmp_path / 'shared'}",
        "-D", "high-availability.lease-duration=1 s", "--task-managers", "1",
    )  # fmt: skip
    port = free_port()
    with RunningServer(tmp_path / "one", *words) as first:
        second = Beginning(RunningServer(tmp_path / "two", *words, port=str(port)))
        try:
            wait_until(second.is_waiting)
            # A page of the one that waits is that of the leader.
            page.goto(f"http://localhost:{port}/#/jobs")
            page.wait_for_selector("body[data-ready]")
            assert page.url == first.rest + "/#/jobs"
            # The leader reads who else is there once in a while, and the page asks it: until then there is nowhere to go.
            while not [worker for worker in page.workers if worker.evaluate("others.length") == 1]:
                page.wait_for_timeout(100)
            assert first.signal(signal.SIGKILL) == -signal.SIGKILL
            page.wait_for_url(f"http://localhost:{port}/#/jobs", timeout=120_000)
            page.wait_for_selector("body[data-ready]")
            assert page.inner_text("#connection-text") == "Connected"
            assert second.leader().signal(signal.SIGTERM) == 0
        finally:
            if second.server.process.poll() is None:
                second.server.process.kill()
