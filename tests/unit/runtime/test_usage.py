"""What a cluster costs counts with the children that have ended, and a number is that of one process at a time."""

from __future__ import annotations

import os

import pytest

from sqlstream.runtime.host import process
from sqlstream.runtime.metrics import ProcessUsage


def test_what_ended_children_have_used_counts_although_others_have_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used, children = {os.getpid(): 5.0, 7: 2.0}, [7]
    monkeypatch.setattr(process, "cpu_seconds", lambda id: used.get(id, 0.0))
    monkeypatch.setattr(process, "peak_rss_bytes", lambda id: int(100 * used.get(id, 0)))
    usage = ProcessUsage(lambda: tuple(children))
    used[os.getpid()] = 6.0
    assert usage.cpu_seconds() == 1.0 + 2.0
    # It has ended, and is listed for a while.
    del used[7]
    assert usage.cpu_seconds() == 1.0 + 2.0
    children.clear()
    usage.measure()
    used[7] = 0.5
    children.append(7)
    assert usage.cpu_seconds() == 1.0 + 2.0 + 0.5
    assert usage.peak_rss_bytes() == 600 + 200 + 50
    for other in range(100, 10_000):
        children[:] = [other]
        usage.measure()
    assert len(usage._figures) == 2
