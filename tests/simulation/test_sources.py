"""How long the sources of simulated jobs last."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from simulated_tasks import SOURCE_MAX_MS, Disk, Reader, SimulatedConnector

from sqlstream.spi.connector import ConnectorContext, SourceStatus


class Longest(random.Random):
    """The fate in which nothing fails and every source lasts as long as it can."""

    def random(self) -> float:
        return 0.1


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reader, "waiting", 0.0)


def ends(disk: Disk, clock: list[int], job_id: str, opened_ms: int, asked_ms: int) -> bool:
    """Whether a source without a part, opened at one time, is at its end at another."""
    clock[0] = opened_ms
    context = ConnectorContext(*(job_id, "v", 0, 1, 0, 100, {}, _of_a_process, lambda name, n: None, disk))
    spec: Any = SimpleNamespace(connector="simulated", options={})
    reader = SimulatedConnector().source(spec, context, [])
    clock[0] = asked_ms
    return reader.poll() is SourceStatus.END


def _of_a_process() -> int:
    raise AssertionError("the clock of a process, which another attempt has not")


def test_a_source_that_is_opened_again_lasts_no_longer_than_the_first_would_have() -> None:
    clock = [0]
    disk = Disk(Longest(), lambda: clock[0])
    assert not ends(disk, clock, "job0", 1000, 1000 + SOURCE_MAX_MS - 1)
    assert not ends(disk, clock, "job0", 50_000, 1000 + SOURCE_MAX_MS - 1)
    assert ends(disk, clock, "job0", 50_000, 1000 + SOURCE_MAX_MS)


def test_the_source_of_another_job_has_a_time_of_its_own() -> None:
    clock = [0]
    disk = Disk(Longest(), lambda: clock[0])
    assert ends(disk, clock, "job0", 0, SOURCE_MAX_MS)
    assert not ends(disk, clock, "job1", 30_000, SOURCE_MAX_MS)
