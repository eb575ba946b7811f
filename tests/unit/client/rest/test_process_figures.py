"""What a process uses, as REST reports it."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from sqlstream.client.rest import cluster_view
from sqlstream.client.rest.cluster_view import ProcessReader


def test_a_load_is_the_share_of_all_cores_since_the_reading_before(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(cluster_view, "steady_s", lambda: clock[0])
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    reader = ProcessReader()
    first = reader.read(os.getpid())
    assert first is not None
    assert 0 <= first.cpu_load <= 1
    clock[0] += 0.5
    assert reader.read(os.getpid()).cpu_load == first.cpu_load  # type: ignore[union-attr]
    clock[0] += 10
    until_s = time.process_time() + 0.2
    while time.process_time() < until_s:
        pass
    second = reader.read(os.getpid())
    assert second is not None
    used_s = second.cpu_seconds - first.cpu_seconds
    assert used_s > 0.1
    assert second.cpu_load == pytest.approx(used_s / 10.5 / 4, rel=0.2)


def test_a_process_that_is_not_there_has_no_figures() -> None:
    assert ProcessReader().read(2**22 + 1) is None


def test_only_so_many_readings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_view, "PROCESSES_MAX", 1)
    reader = ProcessReader()
    for process_id in (os.getpid(), os.getppid()):
        assert reader.read(process_id) is not None
    assert list(reader._last) == [os.getppid()]
