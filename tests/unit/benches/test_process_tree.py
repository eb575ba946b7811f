"""What this process and its children cost."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from benches.process_tree import forget_tree_peak, tree_cpu_seconds, tree_peak_rss_bytes

MEBIBYTE = 2**20
BUSY = "import time\nwhile time.process_time() < 0.5: pass\n"
TICKS_S = 0.1
"""The system counts each process's time in ticks of ten milliseconds."""
LARGE = "held = b'x' * (200 * 2**20)\ndel held\n"


@contextmanager
def child(code: str) -> Iterator[None]:
    """A process that has run `code`, and then waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}print('done', flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        yield
    finally:
        process.communicate("\n", timeout=60)


def test_the_time_of_a_child_counts_while_it_runs_and_once_after_it_has_ended() -> None:
    def known() -> float:
        """What this process and its children that have ended have used, by the system's own sums."""
        own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime

    known_before, before = known(), tree_cpu_seconds()
    with child(BUSY):
        running = tree_cpu_seconds() - before
    after, known_after = tree_cpu_seconds() - before, known() - known_before
    assert 0.5 - TICKS_S <= running <= after + TICKS_S
    assert after == pytest.approx(known_after, abs=TICKS_S)


def test_memory_that_a_child_has_given_back_counts_until_the_peak_is_forgotten() -> None:
    with child(""):
        without = tree_peak_rss_bytes()
    with child(LARGE):
        assert tree_peak_rss_bytes() - without > 150 * MEBIBYTE
        if not forget_tree_peak():
            pytest.skip("the system does not forget peaks")
        assert tree_peak_rss_bytes() - without < 100 * MEBIBYTE
