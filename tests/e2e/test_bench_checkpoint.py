"""`main.py checkpoint` measures what it says."""

from __future__ import annotations

import json
import sys

import pytest
from command_harness import run_to_end


@pytest.mark.slow
def test_the_figures_are_of_checkpoints_that_were_taken() -> None:
    done = run_to_end(
        [
            *(sys.executable, "tests/benches/main.py", "checkpoint"),
            *("--queries", "q17", "--events", "3000000", "--runs", "1"),
            *("--interval-ms", "50", "--state-bytes", "4mb", "--json", "-"),
        ]
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (query,) = found["queries"]
    assert query["query"] == "q17"
    assert query["checkpoints"] > 0
    assert query["failed"] == 0
    assert query["state_bytes"] > 0
    state = found["state"]
    assert state["whole_bytes"] == state["state_bytes"] == pytest.approx(4 << 20, rel=0.1)
    # One key in a hundred has changed.
    assert 0 < state["increment_bytes_p50"] < state["whole_bytes"] / 3
    assert min(state[f"{how}recovery_s"] for how in ("local_", "store_", "")) > 0
