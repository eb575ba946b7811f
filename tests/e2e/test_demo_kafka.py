"""`make demo-kafka`: rows are shown until Ctrl-C, and nothing is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import psutil
import pytest
from command_harness import ROOT
from kafka_harness import BROKERS

TIMEOUT_S = 120
"""Until the test fails, not what it needs."""


@pytest.mark.skipif(not BROKERS.exists(), reason="make kafka installs the broker")
def test_rows_are_shown_until_it_is_interrupted_and_nothing_is_left() -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", ROOT / ".ci" / "demo_kafka.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    children: list[psutil.Process] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("totals> +I["):
                break
        children = psutil.Process(process.pid).children(recursive=True)
        assert any("noida-db" in child.name() for child in children)
        # As a terminal does.
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said
        _, alive = psutil.wait_procs(children, TIMEOUT_S)
        assert alive == []
    finally:
        for left in (*children, process):
            if isinstance(left, psutil.Process) and left.is_running():
                left.kill()
        if process.poll() is None:
            process.kill()
            process.wait()
