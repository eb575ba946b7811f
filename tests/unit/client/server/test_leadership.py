"""Which server leads: one of many, another one when it says nothing for the lease, and none that wakes too late."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path

import pytest

from sqlstream.client.server.leadership import Leadership
from sqlstream.errors import ExternalError


class Server:
    """A server of a test, whose clock is set by hand."""

    def __init__(self, root: Path, lease_s: float = 0.2) -> None:
        self.lost = threading.Event()
        self.stopped = threading.Event()
        self.waited = threading.Event()
        self.leadership = Leadership(str(root), lease_s, self.lost.set)
        self.led: bool | None = None
        self.thread = threading.Thread(target=self._wait, daemon=True)

    def _wait(self) -> None:
        self.led = self.leadership.wait(self.stopped, self.waited.set)

    def begin(self) -> Server:
        self.thread.start()
        return self

    def leads(self) -> bool:
        self.thread.join(30)
        return self.led is True


def test_the_first_leads_and_the_next_when_it_has_stopped(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    second = Server(tmp_path / "c", lease_s=60).begin()
    assert second.waited.wait(30)
    assert second.led is None
    kept = Path(first.leadership.directory) / "jobs"
    kept.mkdir()
    first.leadership.stop()
    # At once, and not after its lease of a minute: its look is due after a tenth of that.
    assert second.leads()
    assert (Path(second.leadership.directory) / "jobs").is_dir()
    assert not first.lost.is_set()
    second.leadership.stop()


def test_one_that_lives_keeps_the_others_waiting_and_one_that_was_stopped_never_leads(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    second = Server(tmp_path / "c", lease_s=2.0).begin()
    assert second.waited.wait(30)
    time.sleep(0.5)
    assert (second.led, first.lost.is_set()) == (None, False)
    second.stopped.set()
    second.thread.join(30)
    assert second.led is False
    first.leadership.stop()


def test_whatever_a_leader_writes_after_its_lease_fails(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    directory = Path(first.leadership.directory)
    (directory / "jobs").mkdir()
    # A leader that stands still: it says nothing, and knows nothing.
    first.leadership._ended.set()
    first.leadership._thread.join()
    second = Server(tmp_path / "c").begin()
    assert second.leads()
    with pytest.raises(FileNotFoundError):
        (directory / "jobs" / "a").write_text("late")
    with pytest.raises(ExternalError):
        first.leadership._beat(9)
    assert os.listdir(Path(second.leadership.directory) / "jobs") == []
    second.leadership.stop()


def test_a_leader_whose_place_was_taken_is_told_so(tmp_path: Path) -> None:
    first = Server(tmp_path / "c", lease_s=0.5).begin()
    assert first.leads()
    path = Path(first.leadership.directory)
    path.rename(path.parent / "epoch-99-other")
    assert first.lost.wait(30)


@pytest.mark.parametrize("seed", range(4))
def test_of_many_that_begin_or_end_together_one_leads_at_a_time(tmp_path: Path, seed: int) -> None:
    fate = random.Random(seed)
    servers = [Server(tmp_path / "c", lease_s=0.1) for _ in range(6)]
    for server in servers:
        server.begin()
    led = 0
    waiting = list(servers)
    while waiting:
        deadline_s = time.monotonic() + 60
        while not any(server.led for server in waiting):
            assert time.monotonic() < deadline_s
            time.sleep(0.005)
        leader = next(server for server in waiting if server.led)
        current = leader.leadership._current()
        assert leader.leadership.directory.endswith(current)
        led += 1
        waiting.remove(leader)
        if fate.random() < 0.5:
            leader.leadership.stop()
        else:
            leader.leadership._ended.set()
    assert led == len(servers)
    assert len(os.listdir(tmp_path / "c" / "leader")) == 1
