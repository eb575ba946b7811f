"""Servers of which one leads, over one store: each runs the product's programs on a clock of its own, stands still, dies, and
does not hear of what it wrote. Its jobs stage rows, take checkpoints and commit, on a disk that fences nothing."""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sqlstream.client.server.leaders.fenced_records import Leader, NotLeading, Watch, _Envelope, leader_of
from sqlstream.client.server.leaders.record_store import (
    Conflict,
    ListKeys,
    Pause,
    Program,
    Read,
    ReadAll,
    Record,
    Remove,
    TimedOut,
    Write,
)
from sqlstream.errors import ExternalError

LEASE_S = 5.0
BYTES_MAX = 1 << 20
JOBS, CHECKPOINTS = 3, 6
IDS_OF_A_LEADER = 1000
QUIET_FROM_S = 120.0
"""From then on nothing fails, so that everything has an end."""
END_S = 1200.0
LONG = b"x" * 3000
SESSION = "session"

Life = Generator[Any, Any, None]


@dataclass(frozen=True)
class Act:
    """Something outside of the store, which is done whoever leads."""

    do: Callable[[], Any]


@dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclass(frozen=True)
class Faults:
    """What is left out of the protocol, to show that the simulation finds it."""

    confirms: bool = True
    ids_of_leaders: bool = True
    notes_first: bool = True


class SimulatedStore:
    """Records, and all changes of them. Versions are numbers, or digests of the content."""

    def __init__(self, has_digests: bool) -> None:
        self.records: dict[str, Record] = {}
        self._has_digests = has_digests
        self._versions = itertools.count(1)
        self.noted: set[tuple[str, int]] = set()
        self.named: set[str] = set()
        self.kept: set[str] = set()
        self._epochs: dict[str, int] = {}
        self._keys = {"leader", "index"}
        self._holders: dict[int, str] = {}

    def write(self, key: str, data: bytes, expected: str | None) -> str:
        found = self.records.get(key)
        if (found.version if found is not None else None) != expected:
            raise Conflict
        version = hashlib.md5(data).hexdigest() if self._has_digests else str(next(self._versions))
        self.records[key] = Record(data, version)
        self._watch(key, data)
        return version

    def _watch(self, key: str, data: bytes) -> None:
        """After a leader has sealed a record, no earlier one changes it."""
        if data == LONG:
            return
        if key == "leader":
            leader = leader_of(self.records[key])
            epoch = leader.epoch
            assert self._holders.setdefault(epoch, leader.holder) == leader.holder, (
                f"two lead in epoch {epoch}"
            )
        else:
            envelope = msgspec.msgpack.decode(data, type=_Envelope)
            epoch = envelope.epoch
            content = msgspec.msgpack.decode(envelope.content)
            if key == "index":
                self.kept = {name for name in content if not name.startswith(SESSION)}
                self.named |= self.kept
                self._keys = {"leader", "index", *content.values()}
            elif "saved" in content and key in self._keys:
                assert "name" in content, "a job has lost its name"
                self.noted.add((content["name"][0].decode(), int(content["saved"][0])))
        if key not in self._keys:
            # It is about to be named, or it comes again and too late, when nothing names it any more.
            return
        assert epoch >= self._epochs.get(key, 0), f"a leader of epoch {epoch} changed {key} too late"
        self._epochs[key] = epoch


@dataclass
class Disk:
    """What is written outside of the store. Rows of a job are numbers from 0 on; a checkpoint is how many it has read, and the
    staged files that it commits."""

    staged: dict[str, tuple[int, int]] = field(default_factory=dict)
    manifests: dict[tuple[str, int], tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    committed: dict[str, tuple[int, int]] = field(default_factory=dict)


class Server:
    """One process, from its start to its death. State: its threads, and when it goes on if it stands still."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self.rate = world.fate.uniform(0.5, 2.0)
        self.offset_s = world.fate.uniform(0, 1e6)
        self.leader = self._new_leader()
        self.is_dead = self.is_changing = self.is_renewing = False
        self.still_until_s = 0.0
        self._files = itertools.count(1)
        self.submitted: list[str] = []
        self.start(self._live())

    def now_s(self) -> float:
        return self.offset_s + self.rate * self.world.now_s

    def _new_leader(self) -> Leader:
        holder = f"server-{self.number:08d}"
        return self.world.leader_class(holder, BYTES_MAX, self.now_s, LEASE_S / 5)

    def start(self, life: Life) -> None:
        Thread(self, life).go(None, None)

    # --- what it does

    def _live(self) -> Life:
        watch = Watch(LEASE_S)
        while True:
            try:
                found = yield Read("leader")
            except ExternalError:
                yield Sleep(0.5)
                continue
            if leader_of(found).is_free or watch.is_over(found, self.now_s()):
                self.leader = self._new_leader()
                if (yield from self.leader.take(found)):
                    break
            yield Sleep(LEASE_S / 10)
        self.start(self._beat())
        contents = yield from self.leader.contents()
        for name, values in contents.items():
            if name.startswith(SESSION):
                continue
            yield from self._resume(name, values)
        while not self.world.is_done():
            yield Sleep(0.5)
            if self.submitted:
                yield from self._submit(self.submitted.pop())

    def _beat(self) -> Life:
        while True:
            yield Sleep(LEASE_S / 5)
            yield from self._renew()

    def _renew(self) -> Life:
        while self.is_renewing:
            yield Sleep(0.01)
        self.is_renewing = True
        yield from self.leader.renew()
        self.is_renewing = False

    def _submit(self, name: str) -> Life:
        """A job that was there before is not taken again."""
        if name not in self.world.store.named:
            yield from self._change(name, {"graph": LONG, "name": name.encode()})
            self.start(self._run(name, 0, 0))

    def _resume(self, name: str, values: dict[str, bytes]) -> Life:
        """Go on from the checkpoint that is noted; what nobody needs is removed: what was seen while this server led."""
        disk, newest = self.world.disk, int(values.get("saved", b"0"))
        rows, files = disk.manifests.get((name, newest), (0, ()))
        if values.get("graph") != LONG or (newest and "end" not in values and not rows):
            # It is gone: only a leader that came later can have removed it.
            yield from self._renew()
            raise AssertionError(f"{name} is lost")
        if "end" in values:
            yield from self._end(name)
            return
        seen = yield Act(lambda: ([f for f in disk.staged if f.startswith(name)], list(disk.manifests)))
        if self.world.faults.confirms:
            yield from self._renew()
        for file in seen[0]:
            if file not in files:
                yield Act(lambda file=file: disk.staged.pop(file, None))
        for key in seen[1]:
            if key[0] == name and key[1] != newest:
                yield Act(lambda key=key: disk.manifests.pop(key, None))
        yield from self._commit(name, newest, files)
        self.start(self._run(name, newest, rows))

    def _run(self, name: str, newest: int, rows: int) -> Life:
        disk, fate = self.world.disk, self.world.fate
        next_id = (newest // IDS_OF_A_LEADER + self.leader.epoch) * IDS_OF_A_LEADER + 1
        if not self.world.faults.ids_of_leaders:
            next_id = newest + 1
        while rows < CHECKPOINTS * 10:
            yield Sleep(fate.uniform(0.1, 3.0))
            file, end = f"{name}/{self.leader.holder}-{next(self._files)}", rows + 10
            yield Act(lambda file=file, rows=rows, end=end: disk.staged.update({file: (rows, end)}))
            manifest = (end, (file,))
            key = (name, next_id)
            yield Act(lambda key=key, manifest=manifest: disk.manifests.update({key: manifest}))
            if not self.world.faults.notes_first:
                yield from self._commit(name, next_id, (file,))
            yield from self._change(name, {"saved": str(next_id).encode()})
            yield from self._commit(name, next_id, (file,))
            yield Act(lambda old=newest: disk.manifests.pop((name, old), None))
            newest, rows, next_id = next_id, end, next_id + 1
        yield from self._change(name, {"end": b"FINISHED"})
        yield from self._end(name)

    def _end(self, name: str) -> Life:
        seen = yield Act(lambda: [key for key in self.world.disk.manifests if key[0] == name])
        for key in seen:
            yield Act(lambda key=key: self.world.disk.manifests.pop(key, None))
        yield from self._change(name, {"graph": None, "name": None, "saved": None, "end": None})

    def _change(self, name: str, changes: dict[str, bytes | None]) -> Life:
        """Its jobs take turns."""
        while self.is_changing:
            yield Sleep(0.01)
        self.is_changing = True
        yield from self.leader.change(name, changes)
        self.is_changing = False

    def _commit(self, name: str, checkpoint_id: int, files: tuple[str, ...]) -> Life:
        def commit() -> None:
            for file in files:
                if (rows := self.world.disk.staged.pop(file, None)) is not None:
                    assert (name, checkpoint_id) in self.world.store.noted, "it does not count"
                    self.world.disk.committed[file] = rows

        yield Act(commit)

    def die(self) -> None:
        self.is_dead = True


class Thread:
    """A generator of a server that waits for one answer at a time."""

    def __init__(self, server: Server, life: Life) -> None:
        self._server, self._life = server, life
        self._failing_since_s: float | None = None

    def go(self, answer: Any, failure: Exception | None) -> None:
        server, world = self._server, self._server.world
        if server.is_dead:
            return
        if world.now_s < server.still_until_s:
            world.at(server.still_until_s, lambda: self.go(answer, failure))
            return
        if not world.is_quiet and world.fate.random() < 0.01:
            server.still_until_s = world.now_s + world.fate.uniform(0, 4 * LEASE_S)
            world.at(server.still_until_s, lambda: self.go(answer, failure))
            return
        try:
            call = self._life.throw(failure) if failure is not None else self._life.send(answer)
        except StopIteration:
            return
        except (NotLeading, TimedOut):
            server.die()
            return
        self._carry_out(call)

    def _carry_out(self, call: Any) -> None:
        world, server = self._server.world, self._server
        match call:
            case Sleep(seconds):
                world.after(seconds / server.rate, lambda: self.go(None, None))
            case Pause(error):
                since_s = self._failing_since_s = self._failing_since_s or server.now_s()
                is_over = server.now_s() - since_s > LEASE_S
                world.after(0.2, lambda: self.go(None, TimedOut(error) if is_over else None))
            case Act(do):
                world.after(0.01, lambda: self._act(do))
            case _:
                self._ask(call)

    def _act(self, do: Callable[[], Any]) -> None:
        """At once with what follows, unless the server has died or stands still before it."""
        server, world = self._server, self._server.world
        if server.is_dead:
            return
        if world.now_s < server.still_until_s:
            world.at(server.still_until_s, lambda: self._act(do))
            return
        self.go(do(), None)

    def _ask(self, call: Read | ReadAll | Write | Remove | ListKeys) -> None:
        """Lost on its way, lost on its way back, twice, late, or in order."""
        world, fate = self._server.world, self._server.world.fate
        failure = ExternalError("SS6080", "no answer")
        kind = fate.random() if not world.is_quiet else 1.0
        latency_s = fate.expovariate(20)
        if kind < 0.02:
            world.after(latency_s, lambda: self.go(None, failure))
        elif kind < 0.05:
            world.after(latency_s, lambda: (world.answer(call), self.go(None, failure)))
        elif kind < 0.07:
            world.after(fate.uniform(0, 5 * LEASE_S), lambda: world.answer(call))
            world.after(latency_s, lambda: self.go(None, failure))
        else:
            if kind < 0.10:
                world.after(latency_s + fate.uniform(0, 5 * LEASE_S), lambda: world.answer(call))
            world.after(latency_s, lambda: self._answered(call))

    def _answered(self, call: Read | ReadAll | Write | Remove | ListKeys) -> None:
        """The store has the call at once, and the thread its answer later."""
        self._failing_since_s = None
        answer, failure = self._server.world.answer(call)
        back_s = self._server.world.fate.expovariate(40)
        self._server.world.after(back_s, lambda: self.go(answer, failure))


class World:
    """Servers that are started again when they die, a store, a disk, and a clock."""

    def __init__(
        self,
        seed: int,
        leader_class: type[Leader] = Leader,
        faults: Faults = Faults(),
        sessions: int = 0,
    ) -> None:
        """`sessions` are groups that are there from the beginning, and do not change."""
        self.fate = random.Random(seed)
        self.leader_class, self.faults = leader_class, faults
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], Any]]] = []
        self._order = itertools.count()
        self.store = SimulatedStore(has_digests=self.fate.random() < 0.5)
        self.large = SimulatedStore(has_digests=False)
        self.disk = Disk()
        if sessions:
            self._fill(sessions)
        self.jobs = [f"job{n}" for n in range(JOBS)]
        self._numbers = itertools.count()
        self.servers = [Server(self, next(self._numbers)) for _ in range(self.fate.choice((2, 3)))]
        for name in self.jobs:
            self.at(self.fate.uniform(0, 60), lambda name=name: self._submit(name))
        self._trouble()

    def _fill(self, sessions: int) -> None:
        first = Leader("the first", BYTES_MAX, lambda: 0.0, LEASE_S)
        changes = [first.change(f"{SESSION}{n}", {"settings": b"1"}) for n in range(sessions)]
        for program in (first.take(None), *changes, first.release()):
            self._finish(program)

    def _finish(self, program: Program[Any]) -> None:
        """Before there are servers, at once."""
        answer, failure = None, None
        with contextlib.suppress(StopIteration):
            while True:
                call = program.throw(failure) if failure is not None else program.send(answer)
                answer, failure = self.answer(call)

    @property
    def is_quiet(self) -> bool:
        return self.now_s > QUIET_FROM_S

    def is_done(self) -> bool:
        return len(self.store.named) == JOBS and not self.store.kept

    def run(self) -> None:
        while self._events and not self.is_done():
            self.now_s, _, event = heapq.heappop(self._events)
            assert self.now_s < END_S, f"nobody brings the jobs to their end: {self.store.kept}"
            event()
        for name in self.jobs:
            spans = sorted(span for file, span in self.disk.committed.items() if file.startswith(name))
            assert spans == [(n, n + 10) for n in range(0, CHECKPOINTS * 10, 10)], f"{name}: {spans}"

    def at(self, time_s: float, event: Callable[[], Any]) -> None:
        heapq.heappush(self._events, (max(time_s, self.now_s), next(self._order), event))

    def after(self, seconds: float, event: Callable[[], Any]) -> None:
        self.at(self.now_s + seconds, event)

    def _submit(self, name: str) -> None:
        """A client asks each server until one has taken its job."""
        if name not in self.store.named:
            for server in self.servers:
                if name not in server.submitted:
                    server.submitted.append(name)
            self.after(10, lambda: self._submit(name))

    def _trouble(self) -> None:
        for place, server in enumerate(self.servers):
            if not self.is_quiet and self.fate.random() < 0.05:
                server.die()
            if server.is_dead:
                self.servers[place] = Server(self, next(self._numbers))
        self.after(self.fate.uniform(1, 5), self._trouble)

    def answer(self, call: Read | ReadAll | Write | Remove | ListKeys) -> tuple[Any, Exception | None]:
        store = self.large if call.is_large else self.store
        match call:
            case Read(key):
                return store.records.get(key), None
            case ReadAll(keys):
                return [store.records.get(key) for key in keys], None
            case Write(key, data, expected):
                try:
                    return store.write(key, data, expected), None
                except Conflict as conflict:
                    return None, conflict
            case Remove(key):
                store.records.pop(key, None)
                return None, None
            case _:
                return list(store.records), None
