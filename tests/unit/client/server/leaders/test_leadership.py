"""Which server leads: one of many, another one when it says nothing for the lease, and none that wakes too late."""

from __future__ import annotations

import random
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sqlstream.client.server.leaders.fenced_records import LEADER, leader_of
from sqlstream.client.server.leaders.folder_store import FolderStore
from sqlstream.client.server.leaders.leadership import Leadership, LeaseTimes, Stores
from sqlstream.client.server.leaders.led_files import LedFiles, put_files
from sqlstream.client.server.leaders.record_store import Record
from sqlstream.errors import ExternalError
from sqlstream.runtime.host.clock import steady_s


def stores_in(root: Path) -> Stores:
    return Stores(FolderStore(str(root / "records")), FolderStore(str(root / "large")))


class Clock:
    """That of one server of a test: it stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_s, self.looks = 0.0, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now_s


def move(seconds: float, *clocks: Clock) -> None:
    """Once each server has seen, at the time before, what the store has now."""
    seen = [clock.looks for clock in clocks]
    wait_for(lambda: all(clock.looks >= looks + 2 for clock, looks in zip(clocks, seen, strict=True)))
    for clock in clocks:
        clock.now_s += seconds


def wait_for(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


class Server:
    """A server of a test, which waits on a thread of its own."""

    def __init__(self, root: Path, lease_s: float = 0.3, clock: Callable[[], float] = steady_s) -> None:
        self.lost = threading.Event()
        self.stopped = threading.Event()
        self.waited = threading.Event()
        times = LeaseTimes(lease_s, 60, min(lease_s / 10, 0.05))
        self.leadership = Leadership(stores_in(root), times, self.lost.set, clock)
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

    def stand_still(self) -> None:
        """It says nothing, and knows nothing."""
        self.leadership._ended.set()
        self.leadership._thread.join()


def test_the_first_leads_and_the_next_when_it_has_stopped(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    second = Server(tmp_path / "c", lease_s=60).begin()
    assert second.waited.wait(30)
    assert second.led is None
    first.leadership.change("g", {"a": b"kept"})
    first.leadership.stop()
    # At once, and not after its lease of a minute: its look is due after a twentieth of that.
    assert second.leads()
    assert second.leadership.contents() == {"g": {"a": b"kept"}}
    assert (first.leadership.epoch, second.leadership.epoch, first.lost.is_set()) == (1, 2, False)
    second.leadership.stop()


def test_one_that_stops_gives_up_its_place_also_when_its_thread_ends_at_once(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    leadership = first.leadership
    set_ended = leadership._ended.set

    def set_and_wait() -> None:
        set_ended()
        leadership._thread.join()

    leadership._ended.set = set_and_wait  # type: ignore[method-assign]
    leadership.stop()
    assert leader_of(stores_in(tmp_path / "c").records.read(LEADER)).is_free


def test_one_that_lives_keeps_the_others_waiting_and_one_that_was_stopped_never_leads(tmp_path: Path) -> None:
    first, clock = Server(tmp_path / "c").begin(), Clock()
    assert first.leads()
    second = Server(tmp_path / "c", 10, clock).begin()
    assert second.waited.wait(30)
    records = stores_in(tmp_path / "c").records
    for _ in range(4):
        before = records.read(LEADER)
        wait_for(lambda before=before: records.read(LEADER) != before)
        move(9, clock)
    assert (second.led, first.lost.is_set()) == (None, False)
    second.stopped.set()
    second.thread.join(30)
    assert second.led is False
    third_clock = Clock()
    third = Server(tmp_path / "c", 10, third_clock).begin()
    first.stand_still()
    move(9, third_clock)
    move(0, third_clock)
    assert third.led is None
    move(2, third_clock)
    assert third.leads()
    third.leadership.stop()


def test_one_that_begins_with_the_one_that_leads_is_told_that_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody leads when it looks first, and another one is faster then."""
    first, second = Server(tmp_path / "c"), Server(tmp_path / "c", 60)
    read = FolderStore.read

    def is_overtaken(self: FolderStore, key: str) -> Record | None:
        monkeypatch.setattr(FolderStore, "read", read)
        found = read(self, key)
        assert first.begin().leads()
        return found

    monkeypatch.setattr(FolderStore, "read", is_overtaken)
    second.begin()
    assert second.waited.wait(30)
    assert second.led is None
    first.leadership.stop()
    assert second.leads()
    second.leadership.stop()


def test_whatever_a_leader_changes_after_its_lease_is_refused(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    first.leadership.change("g", {"a": b"1", "large": b"x" * 5000})
    first.stand_still()
    second = Server(tmp_path / "c").begin()
    assert second.leads()
    for late in (
        lambda: first.leadership.change("g", {"a": b"late"}),
        lambda: first.leadership.change("h", {"a": b"late"}),
        first.leadership.confirm,
    ):
        with pytest.raises(ExternalError, match="leads no longer") as caught:
            late()
        assert caught.value.code == "SS6077"
    assert first.lost.is_set()
    second.leadership.change("g", {"a": b"2"})
    assert second.leadership.contents() == {"g": {"a": b"2", "large": b"x" * 5000}}
    second.leadership.stop()


def test_a_leader_whose_place_was_taken_is_told_so(tmp_path: Path) -> None:
    first = Server(tmp_path / "c", lease_s=0.5).begin()
    assert first.leads()
    other = FolderStore(str(tmp_path / "c" / "records"))
    while not first.lost.wait(0):
        found = other.read(LEADER)
        assert found is not None
        try:
            other.write(LEADER, found.data.replace(b"\xa5count", b"\xa5cnuot"), found.version)
        except Exception:
            continue
        break
    assert first.lost.wait(30)


def test_a_leader_ends_when_it_cannot_say_that_it_lives_for_a_reason_that_nobody_has_thought_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()

    def break_off(self: FolderStore, key: str, data: bytes, expected: str | None) -> str:
        raise KeyError(key)

    monkeypatch.setattr(FolderStore, "write", break_off)
    assert first.lost.wait(30)
    with pytest.raises(ExternalError, match="SS6077"):
        first.leadership.confirm()


def test_what_a_leader_removes_is_gone_from_both_stores(tmp_path: Path) -> None:
    server = Server(tmp_path / "c").begin()
    assert server.leads()
    server.leadership.change("g", {"a": b"x" * 5000, "b": b"1"})
    server.leadership.change("g", {"a": b"y" * 5000})
    assert len(stores_in(tmp_path / "c").large.keys()) == 1
    server.leadership.change("g", {"a": None, "b": None})
    stores = stores_in(tmp_path / "c")
    assert (stores.large.keys(), sorted(stores.records.keys())) == ([], ["index", "leader"])
    server.leadership.stop()


def test_what_is_too_large_is_refused_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderStore, "bytes_max", 4000)
    server = Server(tmp_path / "c").begin()
    assert server.leads()
    server.leadership.change("g", {"a": b"1"})
    with pytest.raises(ExternalError, match="would take") as caught:
        server.leadership.change("g", {**{str(n): b"x" * 2000 for n in range(2)}, "large": b"x" * 5000})
    assert caught.value.code == "SS6082"
    assert stores_in(tmp_path / "c").large.keys() == []
    server.leadership.change("g", {"b": b"2"})
    assert server.leadership.contents() == {"g": {"a": b"1", "b": b"2"}}
    server.leadership.stop()


def test_more_groups_than_their_list_has_room_for_are_refused_and_the_server_leads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FolderStore, "bytes_max", 1000)
    server = Server(tmp_path / "c").begin()
    assert server.leads()
    kept: list[str] = []

    def fill() -> None:
        for number in range(100):
            server.leadership.change(f"job-{number}", {"a": b"1"})
            kept.append(f"job-{number}")

    with pytest.raises(ExternalError, match="the list of all that is kept would take") as caught:
        fill()
    server.leadership.change("none", {"a": None})
    assert (caught.value.code, 5 < len(kept) < 40) == ("SS6082", True)
    server.leadership.change(kept[0], {"a": b"2"})
    server.leadership.change(kept.pop(), {"a": None})
    server.leadership.change("another", {"a": b"3"})
    assert sorted(server.leadership.contents()) == sorted([*kept, "another"])
    assert not server.lost.is_set()
    server.leadership.stop()


def test_a_record_of_a_catalog_names_most_tables_and_has_few(tmp_path: Path) -> None:
    """Small values of a group that has many lie outside of its record, too; those that replace others count once."""
    server = Server(tmp_path / "c", lease_s=60).begin()
    assert server.leads()
    tables: dict[str, bytes] = {f"catalog/databases/d/tables/t{n}.json": b"%d" % n * 300 for n in range(400)}
    for _ in range(2):
        server.leadership.change("catalog", tables)
    server.leadership.change("catalog", {"flag": b"small"})
    stores = stores_in(tmp_path / "c")
    inline = len(tables) - len(stores.large.keys())
    assert 64 < inline < 200
    sizes = [len(found.data) for key in stores.records.keys() if (found := stores.records.read(key))]  # noqa: SIM118
    assert 64 << 10 < max(sizes) < 120_000
    assert server.leadership.contents() == {"catalog": {**tables, "flag": b"small"}}
    server.leadership.stop()


def test_files_of_a_leader_are_there_for_the_next_one(tmp_path: Path) -> None:
    first = Server(tmp_path / "c").begin()
    assert first.leads()
    jobs = tmp_path / "led1" / "jobs"
    files = LedFiles(str(tmp_path / "led1"), first.leadership)
    jobs.mkdir()
    files.change({f"{jobs}/a.job": b"graph", f"{jobs}/b.job": b"other"})
    files.rename(f"{jobs}/a.job", f"{jobs}/a.job.aside")
    assert (jobs / "a.job.aside").read_bytes() == b"graph"
    first.leadership.stop()
    second = Server(tmp_path / "c").begin()
    assert second.leads()
    (tmp_path / "led2" / "old").mkdir(parents=True)
    LedFiles(str(tmp_path / "led2"), second.leadership)
    found = {p.name: p.read_bytes() for p in (tmp_path / "led2").rglob("*") if p.is_file()}
    assert found == {"a.job.aside": b"graph", "b.job": b"other"}
    second.leadership.stop()


@pytest.mark.parametrize("seed", range(4))
def test_of_many_that_begin_or_end_together_one_leads_at_a_time(tmp_path: Path, seed: int) -> None:
    fate = random.Random(seed)
    clocks = [Clock() for _ in range(6)]
    servers = [Server(tmp_path / "c", 10, clock) for clock in clocks]
    for server in servers:
        server.begin()
    waiting = list(servers)
    while waiting:
        wait_for(lambda: any(server.led for server in waiting))
        leader = next(server for server in waiting if server.led)
        found = leader_of(FolderStore(str(tmp_path / "c" / "records")).read(LEADER))
        assert (found.epoch, found.holder) == (leader.leadership.epoch, leader.leadership._name)
        waiting.remove(leader)
        if fate.random() < 0.5:
            leader.leadership.stop()
        else:
            leader.stand_still()
            move(11, *(clocks[servers.index(server)] for server in waiting))
    assert sorted(server.leadership.epoch for server in servers) == list(range(1, 7))


def test_what_a_store_has_is_written_into_private_directories(tmp_path: Path) -> None:
    groups = {"ended": {"jobs/ended/a1.job": b"a"}, "job-b2": {"jobs/b2.job": b"b"}}
    put_files(groups, str(tmp_path / "led"))
    found = [path for path in (tmp_path / "led").rglob("*") if path.is_dir()] + [tmp_path / "led"]
    assert {path.name for path in found} == {"led", "jobs", "ended"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o700}
    assert (tmp_path / "led" / "jobs" / "ended" / "a1.job").read_bytes() == b"a"
