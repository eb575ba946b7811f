"""`make demo-cluster`: the leader is killed, rows go on, each once, and nothing is left of it."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
from command_harness import ROOT

TIMEOUT_S = 400
"""Until the test fails, not what it needs."""


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("words", [["--loopback"], []], ids=["processes", "hosts"])
def test_rows_go_on_when_the_leader_is_killed_and_nothing_is_left(words: list[str]) -> None:
    """Where no hosts can be made, both are processes."""
    process = subprocess.Popen(
        [sys.executable, "-P", ROOT / ".ci" / "demo_cluster.py", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    children: list[psutil.Process] = []
    said = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if line.startswith("4. kill -9"):
                children = psutil.Process(process.pid).children(recursive=True)
        assert process.wait(TIMEOUT_S) == 0, "".join(said)
        assert "   no row is lost or doubled\n" in said
        assert len(children) >= 4
        _, alive = psutil.wait_procs(children, 60)
        assert alive == []
    finally:
        for left in (*children, process):
            if isinstance(left, psutil.Process) and left.is_running():
                left.kill()
        if process.poll() is None:
            process.kill()
            process.wait()
